"""Which hub, which namespace: the options that every live command shares, as kubectl has them."""

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from inspect import Parameter, Signature, signature
from pathlib import Path
from typing import Annotated, Any, Final, TypeAlias, get_type_hints

import typer

from geotrain.cli import sources
from geotrain.errors import InputError
from geotrain.units import Seconds, parse_duration

Namespace = Annotated[
    str | None,
    typer.Option(
        "--namespace", "-n", help="Namespace; absent: that of the context.",
        autocompletion=sources.namespaces,
    ),
]  # fmt: skip
AllNamespaces = Annotated[
    bool, typer.Option("--all-namespaces", "-A", help="All namespaces.", show_default=False)
]
Context = Annotated[
    str | None,
    typer.Option(
        "--hub-context",
        "--context",
        help="Context of the hub in your kubeconfig; absent: the current one.",
        autocompletion=sources.contexts,
    ),
]
"""For commands that know no other cluster: for the others --context is the member's."""
Kubeconfig = Annotated[
    Path | None, typer.Option(help="Kubeconfig file, instead of KUBECONFIG or ~/.kube/config.")
]
RequestTimeout = Annotated[
    str | None,
    typer.Option(metavar="TIME", help="How long one request may take, like 5s; 0: no limit."),
]


@dataclass(frozen=True, slots=True)
class Scope:
    """Where to look. ``timeout`` of a request: None is the usual, 0 is none."""

    context: str | None = None
    namespace: str | None = None
    all_namespaces: bool = False
    kubeconfig: Path | None = None
    timeout: Seconds | None = None


_Command: TypeAlias = Callable[..., None]
_Option: TypeAlias = tuple[Any, object]
"""Its hint and its default."""

HUB: Final[Mapping[str, _Option]] = {
    "context": (Context, None),
    "kubeconfig": (Kubeconfig, None),
    "request_timeout": (RequestTimeout, None),
}
"""The options of commands that ask the hub."""
NAMESPACED: Final[Mapping[str, _Option]] = {
    "namespace": (Namespace, None),
    "all_namespaces": (AllNamespaces, False),
    **HUB,
}
"""The same where what is asked about lies in a namespace."""


def scoped(options: Mapping[str, _Option]) -> Callable[[_Command], _Command]:
    """Give a command ``options`` besides its own; what they say is its argument ``wanted``."""

    def decorated(command: _Command) -> _Command:
        hints = get_type_hints(command, include_extras=True)
        own = [
            Parameter(each.name, Parameter.KEYWORD_ONLY, default=each.default, annotation=hint)
            for each in signature(command).parameters.values()
            if (hint := hints[each.name]) is not Scope
        ]
        more = [
            Parameter(name, Parameter.KEYWORD_ONLY, default=default, annotation=hint)
            for name, (hint, default) in options.items()
        ]

        def called(**given: Any) -> None:
            said = {name: given.pop(name) for name in options}
            command(of(timeout=said.pop("request_timeout"), **said), **given)

        called.__name__, called.__doc__ = command.__name__, command.__doc__
        called.__annotations__ = {each.name: each.annotation for each in (*own, *more)}
        called.__signature__ = Signature([*own, *more])  # type: ignore[attr-defined]
        return called

    return decorated


def of(
    *,
    context: str | None = None,
    namespace: str | None = None,
    all_namespaces: bool = False,
    kubeconfig: Path | None = None,
    timeout: str | None = None,
) -> Scope:
    """What the options say. Raises InputError where they contradict each other or make no sense."""
    if namespace is not None and all_namespaces:
        raise InputError("give either -n or -A")
    if namespace == "":
        raise InputError("-n: name a namespace, or give -A for all")
    return Scope(context, namespace, all_namespaces, kubeconfig, _seconds(timeout))


def _seconds(text: str | None) -> Seconds | None:
    """Kubectl takes a bare number as seconds."""
    if text is None:
        return None
    try:
        return float(text) if re.fullmatch("[0-9]{1,9}", text) else parse_duration(text)
    except ValueError as error:
        raise InputError(f"--request-timeout: {error}") from error
