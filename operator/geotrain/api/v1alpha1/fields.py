"""What the kinds are made of: quantities, names, rules and the bases of spec and status.

Quantities stay text here (``64Gi``, ``5G``, ``40ms``), as people wrote them; ``convert`` reads
them. Each carries its pattern and a sentence that says what would be right; ``crd`` makes a CEL
rule of the two, because a failing ``pattern`` would show a regular expression to the user.

Prices and shares are JSON numbers. The Kubernetes API conventions advise against floats for fear
of rounding; nothing here is compared for equality or summed by the API server, and people write
``0.9``.
"""

from typing import Annotated, Any, Final

from pydantic import BaseModel, ConfigDict, Field
from pydantic.alias_generators import to_camel

from geotrain.units import DURATION_PATTERN, QUANTITY_PATTERN, RATE_PATTERN

PATTERN_MESSAGE: Final = "x-geotrain-pattern-message"
"""Schema key: the sentence shown instead of the pattern."""
RULES: Final = "x-kubernetes-validations"
INT_OR_STRING: Final = "x-kubernetes-int-or-string"

DNS_LABEL_PATTERN: Final = r"^[a-z0-9]([-a-z0-9]*[a-z0-9])?$"
RESOURCE_PATTERN: Final = (
    r"^[a-z0-9]([-.a-z0-9]*[a-z0-9])?/[A-Za-z0-9]([-._A-Za-z0-9]*[A-Za-z0-9])?$"
)
URL_PATTERN: Final = r"^https?://[^\s/]+(/\S*)?$"


def rule(expression: str, message: str) -> dict[str, str]:
    """A CEL validation: ``expression`` must hold, or the API server refuses with ``message``."""
    return {"rule": expression, "message": message}


def rules(*entries: dict[str, str]) -> dict[str, Any]:
    """The rules of a schema, for ``json_schema_extra``."""
    return {RULES: list(entries)}


def _text(pattern: str, message: str, length: int, *extra: dict[str, str]) -> Any:
    schema: dict[str, Any] = {PATTERN_MESSAGE: message}
    if extra:
        schema |= rules(*extra)
    return Field(pattern=pattern, max_length=length, json_schema_extra=schema)


_DURATION_MESSAGE = "write a duration like 40ms, 1.5s or 1h30m"
_BYTES_MESSAGE = "write bytes like 500M, 64Gi or 33554432"
_RATE_MESSAGE = "write bits per second like 50M or 5G"
_ABOVE_ZERO = "self.matches('[1-9]')"

Duration = Annotated[str, _text(DURATION_PATTERN, _DURATION_MESSAGE, 32)]
"""A Go duration, 0 allowed."""
PositiveDuration = Annotated[
    str,
    _text(
        DURATION_PATTERN,
        _DURATION_MESSAGE,
        32,
        rule(_ABOVE_ZERO, "write a duration above 0, like 1.5s"),
    ),
]
Size = Annotated[
    str,
    _text(
        QUANTITY_PATTERN,
        _BYTES_MESSAGE,
        32,
        rule(_ABOVE_ZERO, "write a size above 0, like 128Ki"),
    ),
]
Rate = Annotated[
    str,
    _text(RATE_PATTERN, _RATE_MESSAGE, 32, rule(_ABOVE_ZERO, "write a rate above 0, like 5G")),
]
IdleRate = Annotated[str, _text(RATE_PATTERN, _RATE_MESSAGE, 32)]
"""A rate that may be 0."""
DataCenterName = Annotated[
    str,
    _text(
        DNS_LABEL_PATTERN,
        "write the name of a DataCenter: lower-case letters, digits and '-'",
        63,
    ),
]
ObjectName = Annotated[str, Field(min_length=1, max_length=253)]
ResourceName = Annotated[
    str,
    _text(RESOURCE_PATTERN, "write an extended resource like nvidia.com/gpu", 253),
]
Url = Annotated[str, _text(URL_PATTERN, "write a URL like http://decode.team-a.svc:8000", 2048)]
Share = Annotated[float, Field(gt=0, le=1)]
Price = Annotated[float, Field(ge=0)]
Count = Annotated[int, Field(ge=0)]
Positive = Annotated[int, Field(ge=1)]


class SpecModel(BaseModel):
    """What a user writes: camelCase outside, unknown fields refused, never changed after."""

    model_config = ConfigDict(
        alias_generator=to_camel,
        populate_by_name=True,
        extra="forbid",
        frozen=True,
        use_attribute_docstrings=True,
    )


class StatusModel(BaseModel):
    """What geotrain observed. Reading is tolerant, so that an older version reads a newer one."""

    model_config = ConfigDict(
        alias_generator=to_camel,
        populate_by_name=True,
        extra="ignore",
        frozen=True,
        use_attribute_docstrings=True,
    )


class OpenModel(BaseModel):
    """A part of a foreign type: what is named here is checked, all else is kept as it is."""

    model_config = ConfigDict(
        alias_generator=to_camel,
        populate_by_name=True,
        extra="allow",
        frozen=True,
        use_attribute_docstrings=True,
    )
