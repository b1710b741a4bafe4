"""A message between stages: a checked header, the tensor, and padding up to the profile's size.

    int64 iteration, int64 micro-batch, int64 direction, int64 checksum     32 bytes
    the tensor's values                                                      float32
    zeros

The header is there because the path is: striped, relayed and re-assembled. A tensor that belongs
to another micro-batch, or that changed on its way, must stop the run instead of bending its loss.
"""

from __future__ import annotations

import torch
from torch import Tensor

HEADER = 32
FORWARD, BACKWARD = 0, 1


class MessageError(Exception):
    """A message is not the one that was expected, or damaged."""


def size(values: int, boundary: int) -> int:
    """Bytes of a message of ``values`` floats: the profile's, or more where they do not fit."""
    return max(boundary, HEADER + 4 * values)


def pack(tensor: Tensor, key: tuple[int, int, int], length: int) -> Tensor:
    """Make the message of ``length`` bytes for (iteration, micro-batch, direction)."""
    values = tensor.reshape(-1)
    message = torch.zeros(length, dtype=torch.uint8, device=tensor.device)
    head = torch.tensor(key, dtype=torch.int64)
    message[:24].view(torch.int64).copy_(head)
    message[24:HEADER].view(torch.int64).copy_(_checksum(values))
    message[HEADER : HEADER + 4 * values.numel()].view(torch.float32).copy_(values)
    return message


def unpack(message: Tensor, key: tuple[int, int, int], shape: tuple[int, ...]) -> Tensor:
    """Take the tensor of ``shape`` out. Raises MessageError where it is not the one of ``key``."""
    head = message[:HEADER].view(torch.int64).tolist()
    if tuple(head[:3]) != key:
        raise MessageError(f"message {tuple(head[:3])} came where {key} was expected")
    count = torch.Size(shape).numel()
    values = message[HEADER : HEADER + 4 * count].view(torch.float32)
    if int(_checksum(values)) != head[3]:
        raise MessageError(f"message {key} was damaged on its way")
    return values.view(shape).clone()  # the padding's memory is given back


def _checksum(values: Tensor) -> Tensor:
    return values.view(torch.int32).sum(dtype=torch.int64)
