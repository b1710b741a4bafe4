"""Refusals as values: a code for programs and a sentence for a person."""

from dataclasses import dataclass
from enum import StrEnum


class NoPlan(StrEnum):
    """Why a job cannot be planned, the gravest first.

    What the user must change in the job comes before what a data centre lacks.
    ``geotrain.api.reasons`` says for people what each one means.
    """

    NO_DATA_CENTERS = "NoDataCenters"
    INVALID_PARALLELISM = "InvalidParallelism"
    UNKNOWN_DATA_CENTER = "UnknownDataCenter"
    NOT_ENOUGH_MEMORY = "NotEnoughMemory"
    NO_FEASIBLE_PLACEMENT = "NoFeasiblePlacement"
    LINK_MISSING = "LinkMissing"


@dataclass(frozen=True, slots=True)
class Reason:
    """``code`` is stable: of a plan one of ``NoPlan``, of others an enum beside what refuses."""

    code: StrEnum
    sentence: str


@dataclass(frozen=True, slots=True)
class Infeasible:
    """Nothing fits. Reasons come in order of severity; the first becomes the condition."""

    reasons: tuple[Reason, ...]

    def __post_init__(self) -> None:
        if not self.reasons:
            raise ValueError("an Infeasible needs at least one reason")
