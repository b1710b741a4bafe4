"""Refusals and conditions as values: a machine-readable code and a sentence for a person."""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Reason:
    """``code`` is stable CamelCase (a member of ``geotrain.api.reasons``)."""

    code: str
    sentence: str


@dataclass(frozen=True, slots=True)
class Infeasible:
    """Nothing fits. Reasons come in order of severity; the first becomes the condition."""

    reasons: tuple[Reason, ...]

    def __post_init__(self) -> None:
        if not self.reasons:
            raise ValueError("an Infeasible needs at least one reason")
