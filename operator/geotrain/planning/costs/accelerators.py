"""Accelerators by name: their data sheets, and the spellings by which people and nodes know them.

What training reaches of a data sheet is measured: ``calibrations``.

A name is read without regard to case, vendor, board and kind of memory: ``h100``, ``H100-80GB``,
``nvidia_h100`` and the label ``NVIDIA-H100-80GB-HBM3`` of NVIDIA's GPU feature discovery are one
accelerator. Where a model was sold with several memories or buses, these tell which is meant, and
without them it is the usual one. What is left over makes it another accelerator, which nobody
measured: it is refused with the names that are known, never taken for its neighbour. So is a slice
(MIG) or a share of one.
"""

import re
from dataclasses import dataclass
from functools import cache
from typing import Final

from geotrain.errors import InputError
from geotrain.units import BitsPerSecond, Bytes

_GIB: Final = 2**30
_NVLINK_2, _NVLINK_3, _NVLINK_4, _NVLINK_5 = (rate * 8e9 for rate in (150, 300, 450, 900))
_PCIE_3, _PCIE_4, _PCIE_5 = (rate * 8e9 for rate in (16, 32, 64))


@dataclass(frozen=True, slots=True)
class Accelerator:
    """``peak`` in dense 16-bit operations a second, ``memory_rate`` in bytes a second.

    ``link`` is what it sends to its neighbours in a node, one way, by the data sheet.
    """

    name: str
    peak: float
    memory: Bytes
    memory_rate: float
    link: BitsPerSecond = _NVLINK_4

    def __post_init__(self) -> None:
        for name in ("peak", "memory", "memory_rate", "link"):
            if not getattr(self, name) > 0:
                raise ValueError(f"accelerator {self.name!r}: {name} must be above 0")


ACCELERATORS: Final[dict[str, Accelerator]] = {
    each.name: each
    for each in (
        Accelerator("A10", 125e12, 24 * _GIB, 0.6e12, _PCIE_4),
        Accelerator("A100", 312e12, 80 * _GIB, 2.039e12, _NVLINK_3),
        Accelerator("A100-40", 312e12, 40 * _GIB, 1.555e12, _NVLINK_3),
        Accelerator("A100-PCIe", 312e12, 80 * _GIB, 1.935e12, _PCIE_4),
        Accelerator("A100-PCIe-40", 312e12, 40 * _GIB, 1.555e12, _PCIE_4),
        Accelerator("A30", 165e12, 24 * _GIB, 0.933e12, _PCIE_4),
        Accelerator("A40", 149.7e12, 48 * _GIB, 0.696e12, _PCIE_4),
        Accelerator("B200", 2250e12, 180 * _GIB, 8e12, _NVLINK_5),
        Accelerator("GB200", 2500e12, 186 * _GIB, 8e12, _NVLINK_5),
        Accelerator("GH200", 989e12, 96 * _GIB, 4e12, _NVLINK_4),
        Accelerator("GH200-144", 989e12, 144 * _GIB, 4.9e12, _NVLINK_4),
        Accelerator("H100", 989e12, 80 * _GIB, 3.35e12, _NVLINK_4),
        Accelerator("H100-NVL", 835e12, 94 * _GIB, 3.9e12, _PCIE_5),
        Accelerator("H100-PCIe", 756e12, 80 * _GIB, 2e12, _PCIE_5),
        Accelerator("H20", 148e12, 96 * _GIB, 4e12, _NVLINK_4),
        Accelerator("H200", 989e12, 141 * _GIB, 4.8e12, _NVLINK_4),
        Accelerator("L4", 121e12, 24 * _GIB, 0.3e12, _PCIE_4),
        Accelerator("L40", 181e12, 48 * _GIB, 0.864e12, _PCIE_4),
        Accelerator("L40S", 362e12, 48 * _GIB, 0.864e12, _PCIE_4),
        Accelerator("T4", 65e12, 16 * _GIB, 0.32e12, _PCIE_3),
        Accelerator("V100", 125e12, 16 * _GIB, 0.9e12, _NVLINK_2),
        Accelerator("V100-32", 125e12, 32 * _GIB, 0.9e12, _NVLINK_2),
    )
}
"""NVIDIA's data sheets: peaks without sparsity, memory, its rate, NVLink or PCIe one way."""

_NOISE: Final = frozenset({"NVIDIA", "TESLA", "GPU", "TENSOR", "CORE"})
_BOARDS: Final = frozenset({"SXM", "SXM2", "SXM3", "SXM4", "SXM5", "SXM6"})
_BUSES: Final = {"PCIE": "PCIe", "NVL": "NVL"}
_ALIASES: Final = {"GH": "GH200"}
"""Sailor writes GH-96 for the GH200 with 96 GB (eth-easl/sailor)."""
_HOST_MEMORY: Final = {"GH200": (480, 96)}
"""Labels of the GH200 tell the processor's memory of 480 GB; its GPU has 96."""


def known(text: str) -> Accelerator | None:
    """The accelerator that a name means; None where there is no such accelerator here."""
    return _known(text)


def named(text: str, place: str = "") -> Accelerator:
    """The same. Raises InputError with what is known; ``place`` says where the name stands."""
    one = known(text)
    if one is None:
        where = f"{place}: " if place else ""
        raise InputError(
            f"{where}accelerator {text!r} is not known; known: {', '.join(ACCELERATORS)}"
        )
    return one


@cache
def _known(text: str) -> Accelerator | None:
    words = [word for word in re.split(r"[^A-Z0-9]+", text.upper()) if word]
    words = [word for word in words if word not in _NOISE and not re.fullmatch(r"HBM\d?E?", word)]
    if not words:
        return None
    model, rest = _ALIASES.get(words[0], words[0]), words[1:]
    variants = [one for name, one in ACCELERATORS.items() if name.split("-")[0].upper() == model]
    for word in rest:
        variants = _narrowed(variants, word, model)
    return _usual(variants)


def _narrowed(variants: list[Accelerator], word: str, model: str) -> list[Accelerator]:
    """Those that a further word of a name leaves; none where it says what nobody sold."""
    if word in _BOARDS:
        return [one for one in variants if not _bus(one)]
    if word in _BUSES:
        return [one for one in variants if _bus(one) == _BUSES[word]]
    size = re.fullmatch(r"(\d+)(G|GB|GIB)?", word)
    if size is None:
        return []
    wanted = int(size[1])
    host, own = _HOST_MEMORY.get(model, (0, 0))
    wanted = own if wanted == host else wanted
    return [one for one in variants if one.memory == wanted * _GIB]


def _usual(variants: list[Accelerator]) -> Accelerator | None:
    """Of those that are left the one with the shortest name, which is the most common."""
    return min(variants, key=lambda one: (len(one.name), one.name), default=None)


def _bus(one: Accelerator) -> str:
    """PCIe or NVL in an accelerator's name; '' for boards on NVSwitch."""
    return next((word for word in one.name.split("-")[1:] if word in _BUSES.values()), "")
