"""Quantities: how they are written by people, and the only place that converts bits to bytes.

Times are seconds, sizes are bytes, rates are bits per second, everywhere inside geotrain.
People write Go durations (``1m30s``, ``40ms``, ``18522us``; Go's ``time.ParseDuration``),
Kubernetes quantities (``64Gi``, ``500M``; k8s.io/apimachinery ``resource.Quantity``) and rates
in bit/s with an SI suffix (``5G`` is 5·10⁹ bit/s).
"""

import math
import re
from typing import TypeAlias

Seconds: TypeAlias = float
Bytes: TypeAlias = int
BitsPerSecond: TypeAlias = float

_DURATION_UNITS: dict[str, Seconds] = {
    "ns": 1e-9,
    "us": 1e-6,
    "µs": 1e-6,
    "ms": 1e-3,
    "s": 1.0,
    "m": 60.0,
    "h": 3600.0,
}
_DURATION_PART = r"([0-9]+(?:\.[0-9]+)?)(ns|us|µs|ms|s|m|h)"
DURATION_PATTERN = r"^([0-9]+(\.[0-9]+)?(ns|us|µs|ms|s|m|h))+$"

_SI: dict[str, int] = {"": 1, "k": 10**3, "M": 10**6, "G": 10**9, "T": 10**12, "P": 10**15}
_BINARY: dict[str, int] = {"Ki": 2**10, "Mi": 2**20, "Gi": 2**30, "Ti": 2**40, "Pi": 2**50}
QUANTITY_PATTERN = r"^[0-9]+(\.[0-9]+)?(k|M|G|T|P|Ki|Mi|Gi|Ti|Pi)?$"
RATE_PATTERN = r"^[0-9]+(\.[0-9]+)?(k|M|G|T|P)?$"


def parse_duration(text: str) -> Seconds:
    """Read a Go duration. Raises ValueError with an example where the text is none."""
    if not re.fullmatch(DURATION_PATTERN, text):
        raise ValueError(f"{text!r} is not a duration; write one like 40ms, 1.5s or 1m30s")
    return math.fsum(float(n) * _DURATION_UNITS[u] for n, u in re.findall(_DURATION_PART, text))


def format_duration(value: Seconds) -> str:
    """Write a duration with four significant digits, in the unit that reads best."""
    if value == 0:
        return "0s"
    magnitude = abs(value)
    for unit in ("s", "ms", "us"):
        if magnitude >= _DURATION_UNITS[unit]:
            return f"{_digits(value / _DURATION_UNITS[unit])}{unit}"
    return f"{_digits(value / _DURATION_UNITS['ns'])}ns"


def parse_bytes(text: str) -> Bytes:
    """Read a Kubernetes quantity as a whole number of bytes."""
    match = re.fullmatch(r"([0-9]+(?:\.[0-9]+)?)(k|M|G|T|P|Ki|Mi|Gi|Ti|Pi)?", text)
    if not match:
        raise ValueError(f"{text!r} is not a quantity; write one like 500M, 64Gi or 33554432")
    number, suffix = match.groups()
    return round(float(number) * {**_SI, **_BINARY}[suffix or ""])


def format_bytes(value: Bytes) -> str:
    """Write a size with a binary suffix, four significant digits."""
    for suffix in reversed(_BINARY):
        if value >= _BINARY[suffix]:
            return f"{_digits(value / _BINARY[suffix])}{suffix}"
    return str(value)


def parse_rate(text: str) -> BitsPerSecond:
    """Read a rate in bit/s, for example ``5G``."""
    match = re.fullmatch(r"([0-9]+(?:\.[0-9]+)?)(k|M|G|T|P)?", text)
    if not match:
        raise ValueError(f"{text!r} is not a rate; write bits per second like 50M or 5G")
    number, suffix = match.groups()
    return float(number) * _SI[suffix or ""]


def format_rate(value: BitsPerSecond) -> str:
    """Write a rate in bit/s with an SI suffix, four significant digits."""
    for suffix in ("P", "T", "G", "M", "k"):
        if value >= _SI[suffix]:
            return f"{_digits(value / _SI[suffix])}{suffix}"
    return _digits(value)


def transfer_time(size: Bytes, rate: BitsPerSecond) -> Seconds:
    """How long ``size`` bytes occupy a link of ``rate`` bit/s."""
    return size * 8 / rate


def bytes_per_second(rate: BitsPerSecond) -> int:
    """The rate as whole bytes per second, which is what netlink's tc structures hold."""
    return round(rate / 8)


def bits(size: Bytes) -> float:
    """A size in bits."""
    return size * 8.0


def window_rate(window: Bytes, round_trip: Seconds) -> BitsPerSecond:
    """What one TCP connection can carry: a window in each round trip (RFC 7323, section 1.1)."""
    return math.inf if round_trip <= 0 else window * 8 / round_trip


def _digits(value: float) -> str:
    return f"{value:.4g}" if abs(value) < 10_000 else f"{value:.0f}"
