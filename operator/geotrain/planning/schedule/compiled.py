"""Numba where it is installed (the extra ``fast``): the same loops, compiled to machine code.

A kernel is an ordinary Python function over flat arrays of numbers. Without numba it runs as it
is, on lists; with numba it is compiled once, at its first use, and runs on arrays of numpy, some
fifty times faster. Additions and maxima are done in the same sequence, so both give the same
times to the last bit, and a plan does not depend on what is installed. (Without ``fastmath`` LLVM
neither reorders nor fuses floating-point operations: numba.readthedocs.io, "Performance Tips".)

Compiling takes some seconds, and numba keeps the machine code beside the byte code, in
``__pycache__``, where that can be written. Importing numba takes half a second, so callers say how
much they are about to do: what plain Python does in less time is left to it.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from functools import lru_cache
from importlib import import_module
from types import FunctionType
from typing import Any, Final

WORTH_COMPILING: Final = 3_000_000
"""Actions from which compiling pays: about two seconds of plain Python."""

Kernel = Any
"""A function over flat arrays, the values of a tuple, or numbers."""


@dataclass(frozen=True, slots=True)
class Engine:
    """What runs kernels. ``numpy`` and ``numba`` are None: plain Python on lists."""

    numpy: Any = None
    numba: Any = None
    kernels: dict[Kernel, Kernel] = field(default_factory=dict)

    @property
    def is_compiled(self) -> bool:
        """Whether kernels run as machine code."""
        return self.numba is not None

    def kernel(self, function: Kernel, *parts: Kernel) -> Kernel:
        """The function, compiled where that is possible, with the kernels that it calls."""
        if self.numba is None:
            return function
        if function not in self.kernels:
            names = {part.__name__: self.kernel(part) for part in parts}
            bound = FunctionType(function.__code__, {**function.__globals__, **names})
            self.kernels[function] = self._compiled(bound)
        return self.kernels[function]

    def _compiled(self, function: Kernel) -> Kernel:
        try:
            compiled: Kernel = self.numba.njit(nogil=True, cache=True)(function)
        except RuntimeError:  # no folder in which the machine code could be kept
            compiled = self.numba.njit(nogil=True)(function)
        return compiled

    def floats(self, values: Sequence[float]) -> Any:
        """Numbers as a kernel wants them; a copy, which the kernel may change."""
        if self.numpy is None:
            return list(values)
        return self.numpy.array(values, dtype=self.numpy.float64)

    def integers(self, values: Sequence[int]) -> Any:
        """Whole numbers as a kernel wants them."""
        if self.numpy is None:
            return list(values)
        return self.numpy.array(values, dtype=self.numpy.int64)

    def zeros(self, count: int) -> Any:
        """``count`` times 0.0."""
        return [0.0] * count if self.numpy is None else self.numpy.zeros(count)


PLAIN: Final = Engine()
"""Always there, and what the compiled one is tested against."""


def engine(actions: int) -> Engine:
    """What is fastest for so many actions: compiled where that pays and numba is installed."""
    return best() if actions >= WORTH_COMPILING else PLAIN


@lru_cache(maxsize=1)
def best() -> Engine:
    """Compiled where numba is installed, else plain."""
    return load(import_module)


def load(importer: Callable[[str], Any]) -> Engine:
    """An engine with what ``importer`` finds."""
    try:
        return Engine(importer("numpy"), importer("numba"))
    except ImportError:
        return PLAIN
