"""Who this rank is, from the variables that geotrain puts into the training container."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

NONE, LATE, EARLY = RECOMPUTE = ("none", "late", "early")


class SettingsError(Exception):
    """A variable is missing or wrong; the message names it and says what would be right."""


@dataclass(frozen=True)
class Place:
    """A rank's place in the job: ``rank = stage * data + replica``."""

    rank: int
    stage: int
    replica: int
    stages: int
    data: int
    micro_batches: int
    """Micro-batches of one replica in one iteration."""
    micro_batch: int
    """Samples of one micro-batch."""
    master: str
    port: int
    attempt: int
    """Counts the gang's restarts, so that two lives of the job never meet in one store."""
    schedule: str | None
    """Path of the plan's CSV; None: no plan, so 1F1B."""
    first_layer: int | None = None
    """The stage's first layer in the profile; None: no plan, so layers are dealt out evenly."""
    layers: int = 0
    """How many of the profile's layers the stage has."""
    recompute: str = LATE
    """When activations are computed again: ``none`` (they are kept), ``late`` (when the gradient
    has come) or ``early`` (before, while the rank waits for it)."""

    @property
    def world(self) -> int:
        """Ranks of the job."""
        return self.stages * self.data

    @property
    def is_first(self) -> bool:
        """Whether this is a rank of stage 0, which holds the embedding."""
        return self.stage == 0

    @property
    def is_last(self) -> bool:
        """Whether this is a rank of the last stage, which holds the loss."""
        return self.stage == self.stages - 1

    def rank_of(self, stage: int) -> int:
        """Return the rank that runs ``stage`` of this rank's replica."""
        return stage * self.data + self.replica

    def stage_ranks(self, stage: int) -> list[int]:
        """Return the replicas of ``stage``."""
        return list(range(stage * self.data, (stage + 1) * self.data))

    def first_sample(self, iteration: int, micro_batch: int) -> int:
        """Number the samples of the whole run: where this rank's micro-batch begins."""
        batches = iteration * self.data + self.replica
        return (batches * self.micro_batches + micro_batch) * self.micro_batch

    @classmethod
    def from_environment(cls, environment: Mapping[str, str]) -> Place:
        """Read the rank's place. Raises SettingsError."""
        stages = _number(environment, "GEOTRAIN_PIPELINE", least=1)
        data = _number(environment, "GEOTRAIN_DATA", least=1)
        rank = _number(environment, "RANK", default=0)
        if rank >= stages * data:
            raise SettingsError(f"RANK is {rank}, but the job has {stages} x {data} ranks")
        return cls(
            rank=rank,
            stage=rank // data,
            replica=rank % data,
            stages=stages,
            data=data,
            micro_batches=_number(environment, "GEOTRAIN_MICRO_BATCHES", least=1),
            micro_batch=_number(environment, "GEOTRAIN_MICRO_BATCH", default=1, least=1),
            master=environment.get("MASTER_ADDR", "127.0.0.1"),
            port=_number(environment, "MASTER_PORT", default=29500),
            attempt=_number(environment, "GEOTRAIN_ATTEMPT", default=0),
            schedule=environment.get("GEOTRAIN_SCHEDULE") or None,
            **_layers(environment),
            recompute=_recompute(environment),
        )


def _layers(environment: Mapping[str, str]) -> dict[str, int]:
    if "GEOTRAIN_LAYERS" not in environment:
        return {}
    return {
        "first_layer": _number(environment, "GEOTRAIN_FIRST_LAYER", default=0),
        "layers": _number(environment, "GEOTRAIN_LAYERS", least=1),
    }


def _recompute(environment: Mapping[str, str]) -> str:
    text = environment.get("GEOTRAIN_RECOMPUTE", LATE)
    if text not in RECOMPUTE:
        raise SettingsError(f"GEOTRAIN_RECOMPUTE is {text!r}; give one of {', '.join(RECOMPUTE)}")
    return text


def _number(
    environment: Mapping[str, str], name: str, default: int | None = None, least: int = 0
) -> int:
    text = environment.get(name, "" if default is None else str(default))
    if not text.isdecimal() or int(text) < least:
        found = repr(text) if name in environment else "missing"
        raise SettingsError(f"{name} is {found}; give a whole number of at least {least}")
    return int(text)
