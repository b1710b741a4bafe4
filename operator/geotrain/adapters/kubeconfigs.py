"""A person's kubeconfig files: one context of them, by name, with everything it needs.

KUBECONFIG may list several files, as for kubectl; the first that defines a name wins. Paths in a
file are relative to it, so they are made absolute when parts of several files come together.
"""

import base64
import os
import tempfile
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Final

import yaml

from geotrain.adapters.credentials import Credentials, from_file, parse
from geotrain.errors import CredentialsError

DEFAULT_FILE: Final = "~/.kube/config"
_PATHS: Final = ("certificate-authority", "client-certificate", "client-key", "tokenFile")
_SECTIONS: Final = (("clusters", "cluster"), ("contexts", "context"), ("users", "user"))


def files(environment: Mapping[str, str] = os.environ, chosen: Path | None = None) -> list[Path]:
    """The kubeconfig files that kubectl would read; ``chosen`` is its option --kubeconfig.

    Raises CredentialsError where the chosen file does not exist.
    """
    if chosen is not None:
        if not chosen.is_file():
            raise CredentialsError(f"--kubeconfig: there is no file {chosen}")
        return [chosen]
    listed = environment.get("KUBECONFIG", "")
    texts = [text for text in listed.split(os.pathsep) if text] or [DEFAULT_FILE]
    return [Path(text).expanduser() for text in texts]


def context(paths: Sequence[Path], name: str) -> dict[str, Any]:
    """A kubeconfig with just the context ``name``, its cluster and its user.

    Raises CredentialsError that lists the contexts there are where this one is missing.
    """
    merged = _merged(paths)
    chosen = merged["contexts"].get(name)
    if chosen is None:
        known = ", ".join(sorted(merged["contexts"])) or "none"
        raise CredentialsError(f"there is no context {name!r} in your kubeconfig; known: {known}")
    cluster, user = chosen.get("cluster", ""), chosen.get("user", "")
    if cluster not in merged["clusters"]:
        raise CredentialsError(f"context {name!r} names the cluster {cluster!r}, which is missing")
    return {
        "apiVersion": "v1",
        "kind": "Config",
        "current-context": name,
        "contexts": [{"name": name, "context": chosen}],
        "clusters": [{"name": cluster, "cluster": merged["clusters"][cluster]}],
        "users": [{"name": user, "user": merged["users"].get(user, {})}],
    }


def names(paths: Sequence[Path]) -> list[str]:
    """All contexts, sorted."""
    return sorted(_merged(paths)["contexts"])


def namespace(document: Mapping[str, Any]) -> str:
    """The namespace of what ``context`` gave, as kubectl takes it."""
    return str(document["contexts"][0]["context"].get("namespace") or "default")


def server(document: Mapping[str, Any]) -> str:
    """The API server's address in what ``context`` gave, '' where it names none."""
    return str(document["clusters"][0]["cluster"].get("server") or "").rstrip("/")


def runs_command(document: Mapping[str, Any]) -> bool:
    """Whether logging in by what ``context`` gave runs a program or asks a provider."""
    return not {"exec", "auth-provider"}.isdisjoint(document["users"][0]["user"])


def current(paths: Sequence[Path]) -> str:
    """The context that kubectl would use. Raises CredentialsError where none is set."""
    for path in (p for p in paths if p.is_file()):
        name = parse(path.read_text()).get("current-context")
        if name:
            return str(name)
    raise CredentialsError("your kubeconfig has no current context; give --hub-context")


def credentials(document: Mapping[str, Any]) -> Credentials:
    """Log in by a context. Commands that it names (exec) run, as for kubectl."""
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "kubeconfig"
        path.touch(mode=0o600)
        path.write_text(yaml.safe_dump(dict(document)))
        return from_file(path)


def authority(cluster: Mapping[str, Any]) -> str:
    """The CA of a ``cluster`` entry in base64, '' where it names none."""
    data = str(cluster.get("certificate-authority-data", ""))
    path = cluster.get("certificate-authority")
    if data or not path:
        return data
    try:
        return base64.b64encode(Path(path).read_bytes()).decode()
    except OSError as error:
        raise CredentialsError(f"the certificate authority {path} cannot be read") from error


def _merged(paths: Sequence[Path]) -> dict[str, dict[str, dict[str, Any]]]:
    """Section → name → entry, over all files that exist."""
    result: dict[str, dict[str, dict[str, Any]]] = {section: {} for section, _ in _SECTIONS}
    for path in (p for p in paths if p.is_file()):
        document = parse(path.read_text())
        for section, key in _SECTIONS:
            for entry in document.get(section) or ():
                content = _absolute(entry.get(key) or {}, path.parent)
                result[section].setdefault(entry["name"], content)
    return result


def _absolute(entry: Mapping[str, Any], folder: Path) -> dict[str, Any]:
    moved = {key: str(folder.resolve() / entry[key]) for key in _PATHS if entry.get(key)}
    return {**entry, **moved}
