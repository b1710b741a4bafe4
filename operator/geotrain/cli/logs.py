"""``geotrain logs``: what a job's ranks print, from every cluster in which they run."""

import asyncio
import sys
from collections.abc import AsyncIterator, Sequence
from dataclasses import dataclass, field
from typing import Annotated, Final

import typer

from geotrain.adapters.cluster import HttpCluster
from geotrain.api.objects import TRAINING_JOBS
from geotrain.api.v1alpha1 import GeoTrainingJob
from geotrain.cli import exits, hub, loglines, members, scope, screen, sources
from geotrain.cli.hub import Session
from geotrain.cli.loglines import Entry, Source
from geotrain.cli.members import Members
from geotrain.cli.scope import Scope
from geotrain.errors import ClusterError, InputError, Invalid, NotFound
from geotrain.units import Seconds

_PAUSE: Final[Seconds] = 1.0
"""Between two looks for pods that are new."""
_COLORS: Final = ("cyan", "green", "yellow", "magenta", "blue", "bright_red")

MemberContexts = Annotated[
    list[str] | None,
    typer.Option(
        "--member-context",
        metavar="DC=CONTEXT",
        help="Context of your kubeconfig for a data centre, where it is not found; repeatable.",
        autocompletion=sources.members,
    ),
]


@scope.scoped(scope.NAMESPACED)
def logs(
    wanted: Scope,
    job: Annotated[str, typer.Argument(help="Name of the job.", autocompletion=sources.jobs)],
    rank: Annotated[
        list[str] | None,
        typer.Option(metavar="RANKS", help="Ranks, like 0 or 0-3,7; absent: all. Repeatable."),
    ] = None,
    container: Annotated[
        str,
        typer.Option(
            "--container", "-c", help="Container; absent: the trainer, the pod's first one."
        ),
    ] = "",
    follow: Annotated[
        bool, typer.Option("--follow", "-f", help="Go on with new lines, and after restarts.")
    ] = False,
    tail: Annotated[
        int | None, typer.Option(min=0, help="Lines of each rank from its end; absent: all.")
    ] = None,
    since: Annotated[
        str | None, typer.Option(metavar="TIME", help="Only lines of the last time, like 5m.")
    ] = None,
    previous: Annotated[
        bool, typer.Option("--previous", "-p", help="Of the container's instance before.")
    ] = False,
    timestamps: Annotated[
        bool, typer.Option("--timestamps", help="Each line with its time.")
    ] = False,
    prefix: Annotated[
        bool, typer.Option(help="Each line with its rank and data centre before it.")
    ] = True,
    most: Annotated[
        int, typer.Option("--max-log-requests", min=1, help="Most ranks that are read at once.")
    ] = 128,
    member_context: MemberContexts = None,
) -> None:
    """Print the logs of a job's ranks, wherever they run."""
    if follow and previous:
        raise InputError("give either --follow or --previous: what is over gets no new lines")
    query = loglines.query("", tail=tail, since=since, previous=previous)
    chosen = Chosen(loglines.ranks(rank or []), container, most, follow)
    printer = Printer(timestamps=timestamps, prefix=prefix, named=bool(container))
    asyncio.run(_logs(wanted, job, member_context or [], chosen, Reader(query, printer)))


@dataclass(frozen=True, slots=True)
class Chosen:
    """Whose logs are wanted. ``ranks`` of None: all."""

    ranks: frozenset[int] | None
    container: str
    most: int
    follow: bool


@dataclass(slots=True)
class Printer:
    """Writes whole lines, each with its prefix."""

    timestamps: bool
    prefix: bool
    named: bool
    prefixes: dict[tuple[str, str], str] = field(default_factory=dict)

    def know(self, found: Sequence[Source]) -> None:
        """Make prefixes of one width for what is read."""
        self.prefixes |= loglines.prefixes(found, named=self.named)

    def write(self, each: Source, found: Entry) -> None:
        """Print a line at once, in one piece."""
        before = self.prefixes.get(each.key, "") if self.prefix else ""
        if before and screen.takes_styles(sys.stdout):
            before = typer.style(before, fg=_COLORS[each.rank % len(_COLORS)])
        time = f"{found.time} " if self.timestamps else ""
        sys.stdout.write(f"{before}{time}{found.text}\n")


@dataclass(slots=True)
class Reader:
    """Reads logs and remembers what went wrong."""

    query: dict[str, str]
    printer: Printer
    failed: list[str] = field(default_factory=list)

    async def lines(
        self, cluster: HttpCluster, namespace: str, each: Source, *, last: str = ""
    ) -> AsyncIterator[Entry]:
        """A container's lines, from after the time ``last``; raises ClusterError."""
        wanted = loglines.resumed({**self.query, "container": each.container}, last)
        async for line in cluster.pod_logs(namespace, each.pod, wanted):
            found = loglines.entry(line)
            if not last or found.time > last:
                yield found

    async def quiet(
        self, cluster: HttpCluster, namespace: str, each: Source
    ) -> AsyncIterator[Entry]:
        """The same, with a fault told instead of raised: the other ranks are still worth it."""
        try:
            async for found in self.lines(cluster, namespace, each):
                yield found
        except ClusterError as error:
            self.fail(f"rank {each.rank} in {each.data_center}: {error}")

    def fail(self, sentence: str) -> None:
        """Tell what could not be read; the exit code says so too."""
        self.failed.append(sentence)
        screen.warn(sentence)


async def _logs(
    wanted: Scope, name: str, entries: Sequence[str], chosen: Chosen, reader: Reader
) -> None:
    async with hub.session(wanted) as session:
        job = await session.job(name)
        if not members.homes(job):
            phase = job.status.phase or "new"
            raise InputError(f"{job.name} has no pods: it is {phase}; see explain {job.name}")
        async with members.reached(session, job, entries) as found:
            for sentence in found.missed.values():
                reader.fail(sentence)
            if not found.found:
                raise typer.Exit(exits.FAULT)
            if not _sources(found, chosen) and any(each.pods for each in found.found.values()):
                raise InputError(_nothing(found, chosen))
            if chosen.follow:
                await _Following(session, found, chosen, reader).run()
            else:
                await _once(found, chosen, reader)
    if reader.failed:
        raise typer.Exit(exits.FAULT)


async def _once(found: Members, chosen: Chosen, reader: Reader) -> None:
    """Everything that there is now, in the order of time."""
    listed = _sources(found, chosen)
    begun = {each: cluster for each, cluster in listed.items() if not each.waiting}
    for each in sorted(listed.keys() - begun.keys(), key=lambda s: s.rank):
        screen.warn(f"rank {each.rank} in {each.data_center} has no log: {each.waiting}")
    reader.printer.know(list(begun))
    streams = {
        each: reader.quiet(cluster, found.job.namespace, each) for each, cluster in begun.items()
    }
    async for each, entry in loglines.merged(streams):
        reader.printer.write(each, entry)


def _sources(found: Members, chosen: Chosen) -> dict[Source, HttpCluster]:
    """The logs that are wanted, by rank. Raises InputError where they are too many."""
    pods = [(each, pod) for each in found.found.values() for pod in each.pods]
    listed: dict[Source, HttpCluster] = {}
    for member, pod in pods:
        made = loglines.source(member.data_center, pod, chosen.container)
        if made is not None and (chosen.ranks is None or made.rank in chosen.ranks):
            listed[made] = member.cluster
    if len(listed) > chosen.most:
        raise InputError(
            f"{len(listed)} logs are more than --max-log-requests {chosen.most}; choose some"
            " with --rank"
        )
    return dict(sorted(listed.items(), key=lambda item: item[0].rank))


def _nothing(found: Members, chosen: Chosen) -> str:
    pods = [pod for member in found.found.values() for pod in member.pods]
    names = loglines.containers(pods)
    if chosen.container and chosen.container not in names:
        return f"the pods have no container {chosen.container!r}; there is {', '.join(names)}"
    made = (loglines.source("", pod, "") for pod in pods)
    there = sorted({each.rank for each in made if each is not None})
    asked = ", ".join(map(str, sorted(chosen.ranks or ())))
    return f"there is no pod of rank {asked}; there is {', '.join(map(str, there))}"


@dataclass(slots=True)
class _Following:
    """Every log of the gang as it grows, and of the gangs that come after it."""

    session: Session
    found: Members
    chosen: Chosen
    reader: Reader
    tasks: dict[tuple[str, str], asyncio.Task[None]] = field(default_factory=dict)
    last: dict[tuple[str, str], str] = field(default_factory=dict)
    told: set[str] = field(default_factory=set)
    attempt: int = 0

    async def run(self) -> None:
        """Go on until the job is over and every line is printed."""
        self.reader.query["follow"] = "true"
        try:
            while True:
                is_over = await self._is_over()
                self._start(_sources(self.found, self.chosen))
                for task in self.tasks.values():
                    if task.done():
                        task.result()  # raises what is no fault of a cluster, as a closed pipe
                running = [task for task in self.tasks.values() if not task.done()]
                if is_over and not running:
                    return
                await asyncio.sleep(_PAUSE)
                await self._refresh()
        finally:
            for task in self.tasks.values():
                task.cancel()
            await asyncio.gather(*self.tasks.values(), return_exceptions=True)

    def _start(self, listed: dict[Source, HttpCluster]) -> None:
        latest = max((each.attempt for each in listed), default=self.attempt)
        if latest > self.attempt and self.tasks:
            screen.tell(f"the gang was restarted (attempt {latest})")
        self.attempt = max(self.attempt, latest)
        self.reader.printer.know(list(listed))
        for each, cluster in listed.items():
            task = self.tasks.get(each.key)
            # An API server ends streams as it likes: one whose container still runs goes on.
            if not each.waiting and (task is None or (task.done() and not each.ended)):
                self.tasks[each.key] = asyncio.create_task(self._follow(each, cluster))
            elif each.waiting:
                self._tell(f"rank {each.rank} in {each.data_center}: {each.waiting}")

    async def _follow(self, each: Source, cluster: HttpCluster) -> None:
        """One container's log to its end; a stream that was cut goes on where it was."""
        namespace = self.found.job.namespace
        while True:
            last = self.last.get(each.key, "")
            try:
                async for entry in self.reader.lines(cluster, namespace, each, last=last):
                    self.last[each.key] = max(self.last.get(each.key, ""), entry.time)
                    self.reader.printer.write(each, entry)
                    sys.stdout.flush()
                return
            except (NotFound, Invalid):
                return  # the pod is gone, with its log
            except ClusterError as error:
                self._tell(f"rank {each.rank} in {each.data_center}: {error}; trying again")
                await asyncio.sleep(_PAUSE)

    async def _is_over(self) -> bool:
        """Whether the job has ended or is gone; a hub that is silent does not end the logs."""
        job = self.found.job
        try:
            manifest = await self.session.cluster.get(TRAINING_JOBS, job.namespace, job.name)
        except NotFound:
            return True
        except ClusterError:
            return False
        fresh = GeoTrainingJob.from_manifest(manifest)
        moved = set(members.homes(fresh)) - self.found.found.keys() - self.found.missed.keys()
        if moved:
            self._tell(f"the job now runs in {', '.join(sorted(moved))} too; run this anew for it")
        return fresh.metadata.uid != job.metadata.uid or fresh.status.completion_time is not None

    async def _refresh(self) -> None:
        for member in self.found.found.values():
            try:
                await self.found.refresh(member)
            except ClusterError as error:
                self._tell(f"{member.data_center}: {error}; trying again")

    def _tell(self, sentence: str) -> None:
        """Say it once."""
        if sentence not in self.told:
            self.told.add(sentence)
            screen.tell(sentence)
