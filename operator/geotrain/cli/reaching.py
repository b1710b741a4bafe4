"""How a person reaches the clusters in which a job's pods are. Pure: which way to try, and when.

Pods and their logs are in the members, and the user's kubeconfig may lead there. In this order:

    1. what --member-context says
    2. the hub's own context, where the data centre is the hub itself
    3. a context whose API server is the one that the hub knows (of the Secret, if it may be read)
    4. a context that is named for the data centre, like kind-dc-west for dc-west
    5. every other context that logs in without running a program
    6. the kubeconfig in the hub's Secret, if it may be read

A context leads to the data centre if it shows the job's pods there, known by the job's UID, so that
a name that misleads is found out.
"""

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from geotrain.errors import InputError


@dataclass(frozen=True, slots=True)
class Way:
    """A context of the user's kubeconfig."""

    name: str
    server: str = ""
    runs_command: bool = False


@dataclass(frozen=True, slots=True)
class Place:
    """A data centre: whether it is the hub, and its API server's address where that is known."""

    name: str
    is_hub: bool = False
    server: str = ""


def chosen(entries: Sequence[str], places: Iterable[str]) -> dict[str, str]:
    """Read ``DATACENTER=CONTEXT`` options. Raises InputError for one that makes no sense."""
    known = sorted(places)
    found: dict[str, str] = {}
    for entry in entries:
        name, equals, context = entry.partition("=")
        if not (name and equals and context):
            raise InputError(f"--member-context {entry!r}: write DATACENTER=CONTEXT")
        if name not in known:
            raise InputError(
                f"--member-context: the job has nothing in {name!r}; it runs in {', '.join(known)}"
            )
        found[name] = context
    return found


def likely(place: Place, ways: Sequence[Way], hub: str, asked: Mapping[str, str]) -> list[str]:
    """The contexts that should lead there, the best first: 1 to 4."""
    if place.name in asked:
        return [asked[place.name]]
    if place.is_hub:
        return [hub]
    by_server = [way.name for way in ways if place.server and way.server == place.server]
    exact = [way.name for way in ways if way.name == place.name]
    word = re.compile(rf"(?<![a-z0-9]){re.escape(place.name)}(?![a-z0-9-])", re.IGNORECASE)
    named = [way.name for way in ways if word.search(way.name)]
    return list(dict.fromkeys((*by_server, *exact, *named)))


def others(ways: Iterable[Way], tried: Iterable[str]) -> list[str]:
    """One context for each cluster that no tried one leads to: 5."""
    ways, done = list(ways), set(tried)
    servers = {way.server for way in ways if way.name in done}
    found: dict[str, str] = {}
    for way in ways:
        if way.name not in done and way.server not in servers and not way.runs_command:
            found.setdefault(way.server, way.name)
    return list(found.values())


def missed(place: Place, tried: Sequence[str], faults: Mapping[str, str], secret: str) -> str:
    """Why nobody got there: what was tried, what each said, and what would help."""
    told = [f"{name}: {faults[name]}" for name in tried if name in faults]
    looked = [name for name in tried if name not in faults]
    if looked:
        told.insert(0, f"{', '.join(looked)}: no pods of the job there")
    if secret:
        told.append(secret)
    said = "; ".join(told) or "no context of your kubeconfig looks like it"
    return (
        f"{place.name} cannot be looked into ({said}); give --member-context {place.name}=CONTEXT"
    )
