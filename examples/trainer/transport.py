"""Point-to-point messages and all-reduces over torch.distributed.

With Gloo every pair of ranks shares one TCP connection, and a message's tag is its number in its
direction, so receives posted ahead match whatever else is in flight. NCCL knows no tags and runs a
communicator's operations one after another: there each direction of each boundary has a
communicator, and each lane a stream, or a receive posted ahead would hold up the sends.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import torch
from torch import Tensor
from torch import distributed as dist

from .channels import Work
from .messages import BACKWARD, FORWARD
from .settings import Place

_TAGS = 2**30  # Gloo's tags are 31 bits


class Transport:
    """The groups a rank belongs to. All ranks must make theirs at the same point."""

    def __init__(self, place: Place, backend: str, device: str) -> None:
        self._device = device
        self._counts: dict[tuple[int, bool], int] = {}
        self._groups: dict[tuple[int, int], Any] = {}  # NCCL: by (peer, direction)
        self._streams: dict[tuple[int, int, bool], Any] = {}
        self._replicas = self._replica_group(place)
        if backend == "nccl":
            self._make_boundary_groups(place)

    def send(self, message: Tensor, peer: int, direction: int) -> Work:
        """Begin to send; the message must be kept until the work is through."""
        with self._lane(peer, direction, is_send=True):
            group, tag = self._groups.get((peer, direction)), self._tag(peer, is_send=True)
            return dist.isend(message, peer, group=group, tag=tag)

    def receive(self, size: int, peer: int, direction: int) -> tuple[Work, Tensor]:
        """Post the receive of the peer's next message."""
        with self._lane(peer, direction, is_send=False):
            message = torch.empty(size, dtype=torch.uint8, device=self._device)
            group, tag = self._groups.get((peer, direction)), self._tag(peer, is_send=False)
            return dist.irecv(message, peer, group=group, tag=tag), message

    def all_reduce(self, vector: Tensor) -> Work:
        """Begin to sum the vector over the replicas of this rank's stage, in place."""
        return dist.all_reduce(vector, group=self._replicas, async_op=True)

    def wait(self, work: Work) -> None:
        """Block the calling thread until the operation is through and its data are there."""
        if self._device == "cpu":
            work.wait()
            return
        with torch.cuda.stream(torch.cuda.Stream()):
            work.wait()
            torch.cuda.current_stream().synchronize()

    def _tag(self, peer: int, *, is_send: bool) -> int:
        number = self._counts.get((peer, is_send), 0)
        self._counts[peer, is_send] = number + 1
        return number % _TAGS

    @contextmanager
    def _lane(self, peer: int, direction: int, *, is_send: bool) -> Iterator[None]:
        if self._device == "cpu":
            yield
            return
        stream = self._streams.setdefault((peer, direction, is_send), torch.cuda.Stream())
        with torch.cuda.stream(stream):
            yield

    def _replica_group(self, place: Place) -> Any:
        if place.data == 1:
            return None
        groups = [dist.new_group(place.stage_ranks(stage)) for stage in range(place.stages)]
        return groups[place.stage]

    def _make_boundary_groups(self, place: Place) -> None:
        """Every rank takes part in making every group, in one order, as torch demands."""
        for stage in range(place.stages - 1):
            for replica in range(place.data):
                pair = [stage * place.data + replica, (stage + 1) * place.data + replica]
                for direction in (FORWARD, BACKWARD):
                    group = dist.new_group(pair)
                    if place.rank in pair:
                        self._groups[sum(pair) - place.rank, direction] = group
