"""What the sidecar needs from the outside; adapters fit these, and so do the tests' fakes."""

from typing import Protocol

from geotrain.shaping.diff import Operation
from geotrain.shaping.tree import Tree
from geotrain.units import Bytes


class Htb(Protocol):
    """The traffic control of the pod's interface. Every method may raise KernelError."""

    def observe(self) -> Tree | None:
        """What is there now."""

    def apply(self, operation: Operation) -> None:
        """Change one thing."""

    def sent(self) -> dict[int, Bytes]:
        """Bytes that left through each class, by minor."""
