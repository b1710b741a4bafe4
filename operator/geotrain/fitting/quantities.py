"""Kubernetes quantities of containers and nodes as integers, rounded up as the scheduler does.

Source: k8s.io/apimachinery ``resource.Quantity``; ``cpu`` is read as ``MilliValue()``, every other
resource as ``Value()``.
"""

import re
from fractions import Fraction
from typing import Final

from geotrain.fitting.facts import Resources

CPU: Final = "cpu"

_SUFFIXES: Final[dict[str, Fraction]] = {
    "n": Fraction(1, 10**9),
    "u": Fraction(1, 10**6),
    "m": Fraction(1, 10**3),
    "": Fraction(1),
    **{suffix: Fraction(10 ** (3 * i)) for i, suffix in enumerate("kMGTPE", start=1)},
    **{f"{suffix}i": Fraction(1024**i) for i, suffix in enumerate("KMGTPE", start=1)},
}
_QUANTITY: Final = re.compile(r"([+-]?(?:\d+\.?\d*|\.\d+))(?:[eE]([+-]?\d+)|([a-zA-Z]*))")
_SHOWN: Final = (("Gi", 2**30), ("Mi", 2**20), ("Ki", 2**10))


def parse_amount(resource: str, text: str | int | float) -> int:
    """Read a quantity of ``resource``. Raises ValueError where the text is none."""
    match = _QUANTITY.fullmatch(str(text))
    if match is None or (match[3] or "") not in _SUFFIXES:
        raise ValueError(f"{text!r} is not a quantity of {resource}; write one like 500m, 2 or 4Gi")
    exponent = Fraction(10) ** int(match[2]) if match[2] else _SUFFIXES[match[3] or ""]
    value = Fraction(match[1]) * exponent * (1000 if resource == CPU else 1)
    return -int(-value // 1)


def show_amount(resource: str, amount: int) -> str:
    """An amount with its resource, as a person would write it: ``1.5 cpu``, ``4Gi memory``."""
    if resource == CPU:
        return f"{amount / 1000:g} {resource}"
    if "memory" in resource or "storage" in resource or resource.startswith("hugepages-"):
        for suffix, size in _SHOWN:
            if abs(amount) >= size:
                return f"{round(amount / size, 1):g}{suffix} {resource}"
    return f"{amount} {resource}"


def add(left: Resources, right: Resources) -> dict[str, int]:
    """The sum, resource by resource."""
    return {name: left.get(name, 0) + right.get(name, 0) for name in {**left, **right}}


def largest(left: Resources, right: Resources) -> dict[str, int]:
    """The larger amount, resource by resource."""
    return {name: max(left.get(name, 0), right.get(name, 0)) for name in {**left, **right}}
