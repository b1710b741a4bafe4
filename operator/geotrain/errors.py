"""What can go wrong inside geotrain.

    GeotrainError
    ├── InputError            the user's input is wrong: says where, what, and what would be right
    ├── Refused               what was asked would do harm: says which, and what to do instead
    ├── ClusterError          a Kubernetes API did not do what was asked
    │   ├── Unreachable         no answer: network, TLS, or a refused connection
    │   ├── Forbidden           403: the credentials do not suffice
    │   │   └── Unauthorized      401: nobody knows whose they are, or they have ended
    │   ├── NotFound            404
    │   ├── Conflict            409: somebody else changed or created the object first
    │   │   └── NameTaken         the object of that name is not geotrain's, and is left alone
    │   ├── Gone                410: the resource version is too old, list again
    │   ├── Invalid             400 or 422: the object was refused by its schema
    │   └── TooManyRequests     429: ask again after ``retry_after`` seconds
    ├── CredentialsError      a kubeconfig is missing or cannot be used
    └── KernelError           netlink refused, or the kernel lacks a feature

Only adapters translate a library's errors into these, with the cause chained. A plan that does
not fit is no error: planning returns ``Infeasible``.
"""

from typing import Final

_LONGEST: Final = 1200
"""Characters of a sentence."""


class GeotrainError(Exception):
    """The root: catch this to catch everything that geotrain raises on purpose."""


class InputError(GeotrainError):
    """The user's input is wrong; the message is one sentence that a person can act on.

    Names and values in it may be the user's own: what does not print is shown as Python would write
    it, so that the sentence stays on one line, and the middle of a very long one is left out.
    ``grid`` shows the place in an order, on lines of its own.
    """

    def __init__(self, sentence: str, grid: str = "") -> None:
        super().__init__(sentence, grid)

    def __str__(self) -> str:
        sentence, grid = self.args
        return "\n".join(part for part in (_shown(sentence), grid) if part)


class Refused(GeotrainError):
    """What was asked would do harm now; the message says which, and what to do instead."""


def _shown(text: str) -> str:
    if len(text) > _LONGEST:
        text = f"{text[: _LONGEST // 2]} … {text[-_LONGEST // 2 :]}"
    if text.isprintable():
        return text
    return "".join(each if each.isprintable() else repr(each)[1:-1] for each in text)


class ClusterError(GeotrainError):
    """A Kubernetes API did not do what was asked."""


class Unreachable(ClusterError):
    """The cluster gave no answer."""


class Forbidden(ClusterError):
    """The credentials do not allow the call."""


class Unauthorized(Forbidden):
    """The API server does not know whose the credentials are, or they have ended."""


class NotFound(ClusterError):
    """The object or its kind does not exist."""


class Conflict(ClusterError):
    """The object was changed or created by somebody else first."""


class NameTaken(Conflict):
    """An object that is not geotrain's has a name that geotrain needs."""


class Gone(ClusterError):
    """The resource version is too old: list again."""


class Invalid(ClusterError):
    """The object was refused by its schema or by admission."""


class TooManyRequests(ClusterError):
    """The server asks to come back later."""

    def __init__(self, message: str, retry_after: float = 1.0) -> None:
        super().__init__(message)
        self.retry_after = retry_after


class CredentialsError(GeotrainError):
    """A kubeconfig is missing or cannot be used."""


class KernelError(GeotrainError):
    """Netlink refused an operation, or the kernel lacks a feature."""
