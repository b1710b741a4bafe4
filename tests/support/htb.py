"""A kernel's HTB in memory, of equal standing with the real one."""

from geotrain.errors import KernelError
from geotrain.shaping.diff import DeleteClass, DeleteQdisc, Operation, PutClass, ReplaceQdisc
from geotrain.shaping.tree import HtbClass, Tree


class FakeHtb:
    """Records operations; ``fail_next`` makes the next call of a method fail with a sentence."""

    def __init__(self) -> None:
        self.operations: list[Operation] = []
        self.counts: dict[int, int] = {}
        self.fail_next: dict[str, str] = {}
        self._default: int | None = None
        self._classes: dict[int, HtbClass] = {}

    def observe(self) -> Tree | None:
        self._fail("observe")
        if self._default is None:
            return None
        return Tree(self._default, tuple(sorted(self._classes.values())))

    def apply(self, operation: Operation) -> None:
        self._fail("apply")
        self.operations.append(operation)
        match operation:
            case ReplaceQdisc(default):
                self._default, self._classes = default, {}
            case DeleteQdisc():
                self._default, self._classes = None, {}
            case PutClass(htb):
                self._put(htb)
            case DeleteClass(minor):
                if any(c.parent == minor for c in self._classes.values()):
                    raise KernelError("Device or resource busy")
                del self._classes[minor]

    def sent(self) -> dict[int, int]:
        self._fail("sent")
        return dict(self.counts)

    def _put(self, htb: HtbClass) -> None:
        if self._default is None or (htb.parent and htb.parent not in self._classes):
            raise KernelError("No such file or directory")
        had = self._classes.get(htb.minor)
        if had is not None and had.parent != htb.parent:
            raise KernelError("Invalid argument")
        self._classes[htb.minor] = htb

    def _fail(self, method: str) -> None:
        if method in self.fail_next:
            raise KernelError(self.fail_next.pop(method))
