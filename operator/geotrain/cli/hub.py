"""The hub behind a context of the user's kubeconfig, as this command reads it.

People may be allowed to read less than all: what they may not list is left out, and said.
"""

import asyncio
import contextlib
import difflib
from collections.abc import AsyncIterator, Awaitable, Callable, Iterable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final, Protocol, TypeVar

from geotrain.adapters import kubeconfigs
from geotrain.adapters.cluster import HttpCluster
from geotrain.adapters.credentials import Credentials
from geotrain.api.objects import (
    CONFIG_MAPS,
    DATA_CENTERS,
    DEPLOYMENTS,
    TRAINING_JOBS,
    WAN_LINKS,
    ApiResource,
    Object,
)
from geotrain.api.v1alpha1 import GeoTrainingJob
from geotrain.api.v1alpha1.resource import Resource
from geotrain.cli import manifests, screen
from geotrain.cli.manifests import Manifests
from geotrain.cli.membership import SYSTEM_NAMESPACE
from geotrain.cli.scope import Scope
from geotrain.errors import Forbidden, InputError, NotFound
from geotrain.units import Seconds

_Kind = TypeVar("_Kind", bound=Resource)
_Answer = TypeVar("_Answer")
_NEAR: Final = 0.5
_CONTROLLER: Final = "app.kubernetes.io/name=geotrain,app.kubernetes.io/component=controller"


class Hub(Protocol):
    """The part of a Kubernetes API that is read. ``geotrain.adapters.cluster`` satisfies it."""

    async def get(self, resource: ApiResource, namespace: str, name: str) -> Object:
        """Read one object; NotFound when there is none."""
        ...

    async def list(
        self, resource: ApiResource, namespace: str = "", selector: str = ""
    ) -> Sequence[Object]:
        """Read all objects; NotFound when the kind is unknown."""
        ...


@dataclass(slots=True)
class Session:
    """An open hub. ``namespace`` is the one to look in, '' for all; ``remarks`` what was missing.

    ``paths`` are the user's kubeconfig files, ``context`` the name of the hub's in them.
    """

    cluster: HttpCluster
    context: str
    namespace: str
    paths: Sequence[Path] = ()
    remarks: list[str] = field(default_factory=list)

    async def all(
        self, kind: type[_Kind], resource: ApiResource, namespace: str = ""
    ) -> tuple[_Kind, ...]:
        """Every object of a kind that can be read, sorted; the others are told of.

        Raises InputError where geotrain is not installed, Forbidden where listing is not allowed.
        """
        try:
            items = await self.cluster.list(resource, namespace)
        except NotFound as error:
            raise _no_hub(f"context {self.context}") from error
        found: list[_Kind] = []
        for item in items:
            try:
                found.append(kind.from_manifest(item))
            except InputError as error:
                name = item["metadata"]["name"]
                self.remarks.append(f"{resource.kind} {name} is left out: {error}")
        return tuple(sorted(found, key=lambda each: (each.namespace, each.name)))

    async def allowed(
        self, kind: type[_Kind], resource: ApiResource, namespace: str = ""
    ) -> tuple[_Kind, ...] | None:
        """Like ``all``; None, with a remark, where the user may not list them."""
        try:
            return await self.all(kind, resource, namespace)
        except Forbidden as error:
            self.remarks.append(f"{resource} may not be listed: {error}")
            return None

    async def job(self, text: str) -> GeoTrainingJob:
        """The job of that name, which may be written like ``gtj/NAME``.

        Raises InputError that names similar ones where there is none.
        """
        name = text.rpartition("/")[2]
        if not self.namespace:
            found = [j for j in await self.all(GeoTrainingJob, TRAINING_JOBS) if j.name == name]
            if len(found) == 1:
                return found[0]
            if found:
                spaces = ", ".join(job.namespace for job in found)
                raise InputError(f"several namespaces have a job {name} ({spaces}); choose with -n")
            raise InputError(await self._unknown(name))
        try:
            manifest = await self.cluster.get(TRAINING_JOBS, self.namespace, name)
        except NotFound:
            raise InputError(await self._unknown(name)) from None
        return GeoTrainingJob.from_manifest(manifest)

    async def _unknown(self, name: str) -> str:
        """Say that there is no such job, and which the user may have meant."""
        where = f" in namespace {self.namespace}" if self.namespace else ""
        jobs: tuple[GeoTrainingJob, ...] = ()
        for space in dict.fromkeys(("", self.namespace)):
            with contextlib.suppress(Forbidden):
                jobs = await self.all(GeoTrainingJob, TRAINING_JOBS, space)
                break
        return f"there is no GeoTrainingJob {name!r}{where}{_hint(name, self.namespace, jobs)}"


def _hint(name: str, namespace: str, jobs: Iterable[GeoTrainingJob]) -> str:
    here = sorted({job.name for job in jobs if job.namespace == namespace or not namespace})
    elsewhere = [job for job in jobs if job.name == name]
    if elsewhere:
        return f"; there is one in namespace {elsewhere[0].namespace} (-n)"
    near = difflib.get_close_matches(name, here, n=3, cutoff=_NEAR)
    if near:
        return f"; did you mean {' or '.join(near)}?"
    if here:
        return f"; there is {', '.join(here[:5])}{', …' if len(here) > 5 else ''}"
    others = sorted({job.namespace for job in jobs})
    return f"; there are jobs in {', '.join(others[:5])}" if others else ""


def ask(scope: Scope, what: str, question: Callable[[Session], Awaitable[_Answer]]) -> _Answer:
    """Open the hub, put a question to it, and close it: ``question(session)`` is awaited.

    Tells that it goes on where that takes long, and prints remarks as warnings.
    """

    async def asked() -> tuple[_Answer, list[str]]:
        async with session(scope) as hub:
            return await question(hub), hub.remarks

    with screen.progress(what):
        answer, remarks = asyncio.run(asked())
    for remark in remarks:
        screen.warn(remark)
    return answer


@contextlib.asynccontextmanager
async def session(scope: Scope) -> AsyncIterator[Session]:
    """The hub that the options name. Raises CredentialsError where there is none."""
    paths = kubeconfigs.files(chosen=scope.kubeconfig)
    name = kubeconfigs.current(paths) if scope.context is None else scope.context
    document = kubeconfigs.context(paths, name)
    cluster = _opened(kubeconfigs.credentials(document), scope.timeout)
    default = kubeconfigs.namespace(document)
    space = "" if scope.all_namespaces else (scope.namespace or default)
    try:
        yield Session(cluster, name, space, paths)
    finally:
        await cluster.close()


def _opened(credentials: Credentials, timeout: Seconds | None) -> HttpCluster:
    if timeout is None:
        return HttpCluster(credentials)
    return HttpCluster(credentials, timeout=timeout)


async def controller_version(hub: Session) -> str:
    """The version in the labels of the controller's Deployment, '' where it cannot be seen."""
    for namespace in ("", SYSTEM_NAMESPACE):
        with contextlib.suppress(Forbidden):
            found = await hub.cluster.list(DEPLOYMENTS, namespace, _CONTROLLER)
            labels = found[0]["metadata"]["labels"] if found else {}
            return str(labels.get("app.kubernetes.io/version", ""))
    return ""


def look(scope: Scope, config_map: tuple[str, str] | None) -> Manifests:
    """Read the hub behind a context of the user's kubeconfig, by default the current one."""

    async def asked(hub: Session) -> Manifests:
        return await read(hub.cluster, f"context {hub.context}", config_map)

    return ask(scope, "asking the hub", asked)


async def read(hub: Hub, place: str, config_map: tuple[str, str] | None) -> Manifests:
    """All data centres and links, and the ConfigMap (namespace, name) where one is asked for.

    A ConfigMap that does not exist is left out, so that the caller says who needs it. Raises
    InputError where geotrain is not installed, and ClusterError where the hub does not answer.
    """
    found: list[Object] = []
    try:
        for resource in (DATA_CENTERS, WAN_LINKS):
            items = await hub.list(resource)
            found += [{"apiVersion": resource.api_version, "kind": resource.kind, **item}
                      for item in items]  # fmt: skip
    except NotFound as error:
        raise _no_hub(place) from error
    if config_map is not None:
        with contextlib.suppress(NotFound):
            found.append(await hub.get(CONFIG_MAPS, *config_map))
    return manifests.collect((place, each) for each in found)


def _no_hub(place: str) -> InputError:
    return InputError(f"{place}: geotrain is not installed there, or it is no hub")
