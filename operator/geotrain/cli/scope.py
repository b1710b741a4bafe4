"""Which hub, which namespace: the options that every live command shares, as kubectl has them."""

import re
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

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
        help="Context of the hub in your kubeconfig; absent: the current one.",
        autocompletion=sources.contexts,
    ),
]
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
