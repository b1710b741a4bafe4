"""Lines of many logs as one. Pure: which pods, what is before a line, and in which order.

Every line is asked for with its time (RFC 3339, up to nanoseconds), by which the logs of all ranks
are put in order, and from which a stream that was cut goes on.
"""

import heapq
import re
from collections.abc import AsyncIterator, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

from geotrain.api import labels
from geotrain.errors import InputError
from geotrain.units import Seconds, parse_duration

SIDECAR: Final = "geotrain-sidecar"


@dataclass(frozen=True, slots=True)
class Source:
    """A container's log. ``started`` is whether the container has run at all."""

    data_center: str
    rank: int
    attempt: int
    pod: str
    uid: str
    container: str
    waiting: str = ""
    ended: bool = False

    @property
    def key(self) -> tuple[str, str]:
        """What tells it from the same rank's in another attempt."""
        return self.uid, self.container


@dataclass(frozen=True, slots=True)
class Entry:
    """A line with its time as text, which orders like the time itself."""

    time: str
    text: str


def ranks(texts: Sequence[str]) -> frozenset[int] | None:
    """Read ``--rank 0 --rank 2-4,7``; None for all. Raises InputError for what is no rank."""
    found: set[int] = set()
    for part in (part.strip() for text in texts for part in text.split(",")):
        match = re.fullmatch(r"([0-9]{1,6})(?:-([0-9]{1,6}))?", part)
        if match is None or int(match[2] or match[1]) < int(match[1]):
            raise InputError(f"--rank {part!r} is no rank; write one like 3, or some like 0-3,7")
        found.update(range(int(match[1]), int(match[2] or match[1]) + 1))
    return frozenset(found) if texts else None


def source(data_center: str, pod: Mapping[str, Any], container: str) -> Source | None:
    """The log of a pod's container ('': its first); None where it has none of that name."""
    spec, status, meta = pod["spec"], pod.get("status") or {}, pod["metadata"]
    names = [each["name"] for each in (*spec["containers"], *(spec.get("initContainers") or ()))]
    name = container or names[0]
    if name not in names:
        return None
    states = {
        each["name"]: each.get("state") or {}
        for key in ("containerStatuses", "initContainerStatuses")
        for each in status.get(key) or ()
    }
    state = states.get(name, {})
    return Source(
        data_center,
        int(meta["labels"].get(labels.RANK, 0)),
        int(meta["labels"].get(labels.ATTEMPT, 0)),
        meta["name"],
        meta.get("uid", ""),
        name,
        _waiting(spec, state),
        "terminated" in state or status.get("phase") in ("Succeeded", "Failed"),
    )


def _waiting(spec: Mapping[str, Any], state: Mapping[str, Any]) -> str:
    """Why a container has no log yet, '' where it has run."""
    if "running" in state or "terminated" in state:
        return ""
    if spec.get("schedulingGates"):
        return "it is held back until the whole gang fits"
    if not spec.get("nodeName"):
        return "it is not scheduled yet"
    waits = state.get("waiting") or {}
    reason, message = waits.get("reason") or "ContainerCreating", waits.get("message")
    return f"{reason}: {message}" if message else str(reason)


def containers(pods: Iterable[Mapping[str, Any]]) -> list[str]:
    """The names that -c may give."""
    return sorted(
        {
            each["name"]
            for pod in pods
            for each in (*pod["spec"]["containers"], *(pod["spec"].get("initContainers") or ()))
        }
    )


def prefixes(sources: Iterable[Source], *, named: bool) -> dict[tuple[str, str], str]:
    """What stands before each line, of one width; ``named``: with the container's name."""
    texts = {}
    for each in sources:
        container = f" {each.container}" if named else ""
        texts[each.key] = f"r{each.rank} {each.data_center}{container}"
    width = max(map(len, texts.values()), default=0)
    return {key: f"[{text}]{' ' * (width - len(text))} " for key, text in texts.items()}


def query(container: str, *, tail: int | None, since: str | None, previous: bool) -> dict[str, str]:
    """Parameters of the API's log. Raises InputError where ``since`` is no time."""
    wanted = {"container": container, "timestamps": "true"}
    if tail is not None:
        wanted["tailLines"] = str(tail)
    if since is not None:
        wanted["sinceSeconds"] = str(max(1, round(_since(since))))
    if previous:
        wanted["previous"] = "true"
    return wanted


def resumed(wanted: Mapping[str, str], last: str) -> dict[str, str]:
    """The same, going on after a line of the time ``last`` ('': from where it began)."""
    if not last:
        return dict(wanted)
    kept = {k: v for k, v in wanted.items() if k not in ("tailLines", "sinceSeconds")}
    return {**kept, "sinceTime": f"{last[:19]}Z"}  # whole seconds: what was seen is skipped


def entry(line: bytes) -> Entry:
    """Take the time off a line; a line without one (an error of the kubelet) has ''."""
    text = line.decode(errors="replace").removesuffix("\r")
    time, space, rest = text.partition(" ")
    if re.fullmatch(r"\d{4}-\d\d-\d\dT[0-9:.]+(Z|[+-][0-9:]+)", time) is None:
        return Entry("", text)
    return Entry(_comparable(time), rest if space else "")


def _comparable(time: str) -> str:
    """Nanoseconds in full, since kubelets leave out zeros at the end."""
    whole, _, fraction = time.removesuffix("Z").partition(".")
    return f"{whole}.{fraction:0<9}Z"


async def merged(
    streams: Mapping[Source, AsyncIterator[Entry]],
) -> AsyncIterator[tuple[Source, Entry]]:
    """All lines in order of their times; of each stream one line is held at a time."""
    heads: list[tuple[str, int, Source, Entry]] = []
    listed = list(streams.items())
    latest = [""] * len(listed)

    async def pull(number: int) -> None:
        each, stream = listed[number]
        found = await anext(stream, None)
        if found is not None:
            # A stream keeps its own order, whatever its clock says.
            latest[number] = max(latest[number], found.time)
            heapq.heappush(heads, (latest[number], number, each, found))

    for number in range(len(listed)):
        await pull(number)
    while heads:
        _, number, each, found = heapq.heappop(heads)
        yield each, found
        await pull(number)


def _since(text: str) -> Seconds:
    try:
        return parse_duration(text)
    except ValueError as error:
        raise InputError(f"--since: {error}") from error
