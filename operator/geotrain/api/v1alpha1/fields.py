"""What the kinds are made of: quantities, names, rules and the bases of spec and status.

Quantities stay text here (``64Gi``, ``5G``, ``40ms``), as people wrote them; ``convert`` reads
them. Each carries its pattern and a sentence that says what would be right; ``crd`` makes a CEL
rule of the two, because a failing ``pattern`` would show a regular expression to the user.

Prices and shares are JSON numbers. The Kubernetes API conventions advise against floats for fear
of rounding; nothing here is compared for equality or summed by the API server, and people write
``0.9``.
"""

import re
import reprlib
from typing import Annotated, Any, Final

from pydantic import AfterValidator, BaseModel, BeforeValidator, ConfigDict, Field, Strict
from pydantic.alias_generators import to_camel

from geotrain.units import DURATION_PATTERN, QUANTITY_PATTERN, RATE_PATTERN

PATTERN_MESSAGE: Final = "x-geotrain-pattern-message"
"""Schema key: the sentence shown instead of the pattern."""
RULES: Final = "x-kubernetes-validations"
INT_OR_STRING: Final = "x-kubernetes-int-or-string"

DNS_LABEL_PATTERN: Final = r"^[a-z0-9]([-a-z0-9]*[a-z0-9])?$"
_DNS_SUBDOMAIN_PATTERN: Final = r"^[a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*$"
_NAMESPACE_PATTERN: Final = r"^([a-z0-9]([-a-z0-9]*[a-z0-9])?)?$"
_LABEL_NAME: Final = re.compile(r"[A-Za-z0-9]([-A-Za-z0-9_.]{0,61}[A-Za-z0-9])?")
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


MESSAGES: Final[dict[str, str]] = {}
"""Pattern → the sentence that Python's own errors show instead of it."""


def _text(pattern: str, message: str, length: int) -> Any:
    MESSAGES[pattern] = message
    return Field(pattern=pattern, max_length=length, json_schema_extra={PATTERN_MESSAGE: message})


def _above_zero(message: str) -> Any:
    """A quantity whose text has a digit other than 0: the same rule in CEL and in Python."""

    def check(text: str) -> str:
        if not re.search("[1-9]", text):
            raise ValueError(message)
        return text

    extra = rules(rule("self.matches('[1-9]')", message))
    return Field(json_schema_extra=extra), AfterValidator(check)


def _no_flag(value: Any) -> Any:
    if isinstance(value, bool):
        raise ValueError("write a number, not true or false")
    return value


NO_FLAG: Final = BeforeValidator(_no_flag)
"""After a number's Field. Quotes are allowed: 1e-3 without a point is text in YAML 1.1."""

_DURATION = _text(DURATION_PATTERN, "write a duration like 40ms, 1.5s or 1h30m", 32)
_BYTES = _text(QUANTITY_PATTERN, "write bytes like 500M, 64Gi or 33554432", 32)
_RATE = _text(RATE_PATTERN, "write bits per second like 50M or 5G", 32)

Duration = Annotated[str, _DURATION]
"""A Go duration, 0 allowed."""
PositiveDuration = Annotated[str, _DURATION, *_above_zero("write a duration above 0, like 1.5s")]
Size = Annotated[str, _BYTES, *_above_zero("write a size above 0, like 128Ki")]
Rate = Annotated[str, _RATE, *_above_zero("write a rate above 0, like 5G")]
IdleRate = Annotated[str, _RATE]
"""A rate that may be 0."""
DataCenterName = Annotated[
    str,
    _text(
        DNS_LABEL_PATTERN,
        "write the name of a DataCenter: lower-case letters, digits and '-'",
        63,
    ),
]
ObjectName = Annotated[
    str,
    _text(
        _DNS_SUBDOMAIN_PATTERN,
        "write the name of an object: lower-case letters, digits, '-' and '.', beginning and ending"
        " with a letter or digit",
        253,
    ),
]
"""A DNS-1123 subdomain, as the API server wants it."""
NamespaceName = Annotated[
    str,
    _text(_NAMESPACE_PATTERN, "write a namespace: lower-case letters, digits and '-'", 63),
]
"""A DNS-1123 label; empty for a kind without namespaces."""


def _label_keys(labels: dict[str, str]) -> dict[str, str]:
    for key in labels:
        prefix, slash, name = key.rpartition("/")
        is_prefix = len(prefix) <= 253 and re.fullmatch(_DNS_SUBDOMAIN_PATTERN[1:-1], prefix)
        if not _LABEL_NAME.fullmatch(name) or (slash and not is_prefix):
            raise ValueError(
                f"{reprlib.repr(key)} is no key: write at most 63 letters, digits, '-', '_' and"
                " '.', with a DNS name and '/' before them if you like"
            )
    return labels


def _label_values(labels: dict[str, str]) -> dict[str, str]:
    for key, value in labels.items():
        if value and not _LABEL_NAME.fullmatch(value):
            raise ValueError(
                f"{reprlib.repr(value)} is no value of the label {reprlib.repr(key)}: write at"
                " most 63 letters, digits, '-', '_' and '.'"
            )
    return labels


Annotations = Annotated[dict[str, str], AfterValidator(_label_keys)]
"""Text by qualified names, as the API server wants them."""
Labels = Annotated[Annotations, AfterValidator(_label_values)]
ResourceName = Annotated[
    str,
    _text(RESOURCE_PATTERN, "write an extended resource like nvidia.com/gpu", 253),
]
Url = Annotated[str, _text(URL_PATTERN, "write a URL like http://decode.team-a.svc:8000", 2048)]
Whole = Annotated[int, Strict()]
"""A whole number as JSON has it: neither true nor in quotes."""
Flag = Annotated[bool, Strict()]
Share = Annotated[float, Field(gt=0, le=1, allow_inf_nan=False), NO_FLAG]
Price = Annotated[float, Field(ge=0, le=1e12, allow_inf_nan=False), NO_FLAG]
Count = Annotated[Whole, Field(ge=0)]
Positive = Annotated[Whole, Field(ge=1)]


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
