"""Stand-ins for the world outside, of equal standing: they keep the promises of the real thing.

``FakeCluster`` behaves as the part of a Kubernetes API that the controller uses. The contract in
tests/integration/controller/test_cluster_contract.py runs against it and against a real one.
"""

import asyncio
import itertools
import json
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from typing import Any

from geotrain.api.objects import PODS, ApiResource, Change, Object, Patch, resource_of
from geotrain.errors import ClusterError, Conflict, Invalid, NotFound, Unreachable

_Key = tuple[ApiResource, str, str]


class FakeClock:
    """A clock that tests move; ``sleep`` moves it too."""

    def __init__(self, now: float = 1_700_000_000.0) -> None:
        self.time = now

    def now(self) -> float:
        return self.time

    async def sleep(self, duration: float) -> None:
        self.time += duration
        await asyncio.sleep(0)


class FakeCluster:
    """A Kubernetes API in memory.

    ``calls`` lists what was asked, as (verb, plural, name). ``fail_next`` makes coming calls of a
    verb fail; ``down`` makes all fail and ends every watch. Bound pods that are deleted stay as
    terminating until ``vanish`` plays the kubelet. ``grant`` answers requests for tokens;
    ``renewed`` lists the kubeconfigs that were taken up later.
    """

    def __init__(self, name: str = "fake") -> None:
        self.name = name
        self.calls: list[tuple[str, str, str]] = []
        self.reports: dict[tuple[str, str], Object] = {}
        self._objects: dict[_Key, Object] = {}
        self._applied: dict[_Key, Object] = {}
        self._versions = itertools.count(1)
        self._watchers: list[tuple[ApiResource, str, str, asyncio.Queue[Change | None]]] = []
        self._failures: list[tuple[str, ClusterError]] = []
        self._later: list[list[Any]] = []
        self._down = False
        self.renewed: list[str] = []
        self.grant: Callable[[Object], str] = lambda _: ""
        self.put({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "kube-system"}})

    # What tests do.

    def put(self, manifest: Object) -> Object:
        """Put an object as if somebody else had made it, status included."""
        resource = resource_of(manifest["apiVersion"], manifest["kind"])
        found = self._objects.get(_key(resource, manifest))
        merged = _merged(found or {}, copied(manifest))
        return copied(self._store(resource, merged))

    def vanish(self, resource: ApiResource, namespace: str, name: str) -> None:
        """Remove an object for good, as the kubelet does with a pod that has ended."""
        self._remove((resource, namespace if resource.namespaced else "", name))

    def everything(self, resource: ApiResource) -> list[Object]:
        """All objects of a kind, in order of name."""
        found = [o for (r, _, _), o in self._objects.items() if r == resource]
        return copied(sorted(found, key=_place))

    def versions(self, *resources: ApiResource) -> dict[_Key, str]:
        """The version of every object of these kinds: equal while none was changed."""
        return {
            key: found["metadata"]["resourceVersion"]
            for key, found in self._objects.items()
            if key[0] in resources
        }

    def fail_next(self, verb: str, error: ClusterError, times: int = 1) -> None:
        """Let the next calls of a verb (get, list, create, apply, patch, delete, proxy) fail."""
        self._failures += [(verb, error)] * times

    def fail_after(self, verb: str, calls: int, error: ClusterError) -> None:
        """Let one call of a verb fail, after so many that succeed."""
        self._later.append([verb, calls, error])

    @property
    def down(self) -> bool:
        return self._down

    @down.setter
    def down(self, value: bool) -> None:
        self._down = value
        if value:
            for *_, queue in self._watchers:
                queue.put_nowait(None)

    # What the port promises.

    async def get(self, resource: ApiResource, namespace: str, name: str) -> Object:
        await self._call("get", resource, name)
        return copied(self._found(resource, namespace, name))

    async def find(self, resource: ApiResource, namespace: str, name: str) -> Object | None:
        await self._call("list", resource, name)
        return next(
            (o for o in self._listed(resource, namespace, "") if o["metadata"]["name"] == name),
            None,
        )

    async def list(
        self, resource: ApiResource, namespace: str = "", selector: str = ""
    ) -> Sequence[Object]:
        await self._call("list", resource, selector)
        return self._listed(resource, namespace, selector)

    async def create(
        self, resource: ApiResource, manifest: Object, *, subresource: str = ""
    ) -> Object:
        if subresource:
            await self._call(subresource, resource, manifest["metadata"]["name"])
            return copied({**manifest, "status": {"token": self.grant(manifest)}})
        await self._call("create", resource, manifest["metadata"]["name"])
        if _key(resource, manifest) in self._objects:
            raise Conflict(f"{resource} {manifest['metadata']['name']!r} already exists")
        return copied(self._store(resource, _without_status(copied(manifest))))

    async def apply(self, resource: ApiResource, manifest: Object) -> Object:
        await self._call("apply", resource, manifest["metadata"]["name"])
        key = _key(resource, manifest)
        found = self._objects.get(key, {})
        wanted = _without_status(copied(manifest))
        _expect(found, wanted["metadata"])
        merged = _merged(_less(found, self._applied.get(key, {}), wanted), wanted)
        if resource == PODS and found and merged["spec"] != found["spec"]:
            raise Invalid("pod updates may not change fields other than …")
        self._applied[key] = wanted
        return copied(found if merged == found else self._store(resource, merged))

    async def patch(
        self,
        resource: ApiResource,
        namespace: str,
        name: str,
        patch: Patch,
        *,
        subresource: str = "",
    ) -> Object:
        await self._call("patch", resource, name)
        found = self._found(resource, namespace, name)
        if isinstance(patch, Mapping):
            given = {k: v for k, v in patch.items() if (k == "status") == (subresource != "")}
            _expect_version(found, given.get("metadata") or {})
            changed = _merged(found, copied(given), prune=True)
        else:
            changed = _patched(found, patch)
        if changed["metadata"]["uid"] != found["metadata"]["uid"]:
            raise Invalid(f"{name} is invalid: metadata.uid: field is immutable")
        if changed == found:
            return copied(found)
        return copied(self._store(resource, changed))

    async def delete(
        self,
        resource: ApiResource,
        namespace: str,
        name: str,
        *,
        uid: str = "",
        grace: float | None = None,
    ) -> None:
        await self._call("delete", resource, name)
        found = self._found(resource, namespace, name)
        if uid and uid != found["metadata"]["uid"]:
            raise Conflict(f"the UID in the precondition ({uid}) does not match")
        lingers = resource == PODS and grace != 0 and _runs(found)
        if not lingers and not found["metadata"].get("finalizers"):
            self._remove(_key(resource, found))
        elif "deletionTimestamp" not in found["metadata"]:
            marked = copied(found)
            marked["metadata"]["deletionTimestamp"] = "2026-01-01T00:00:00Z"
            self._store(resource, marked)

    async def watch(
        self, resource: ApiResource, namespace: str = "", selector: str = ""
    ) -> AsyncIterator[Change]:
        await self._call("watch", resource, selector)
        queue: asyncio.Queue[Change | None] = asyncio.Queue()
        entry = (resource, namespace, selector, queue)
        listed = self._listed(resource, namespace, selector)
        for each in listed:
            queue.put_nowait(Change("ADDED", each))
        queue.put_nowait(Change("SYNCED", {}, frozenset(map(_place, listed))))
        self._watchers.append(entry)
        try:
            while (change := await queue.get()) is not None:
                yield change
            raise Unreachable(f"{self.name} does not answer")
        finally:
            self._watchers.remove(entry)

    async def pod_proxy_get(self, namespace: str, pod: str, port: int, path: str) -> Object:
        await self._call("proxy", PODS, pod)
        try:
            return copied(self.reports[namespace, pod])
        except KeyError:
            raise ClusterError(f"no endpoints for {pod}:{port}/{path}") from None

    async def version(self) -> str:
        return "v1.36.0"

    def renew(self, kubeconfig: str) -> None:
        self.renewed.append(kubeconfig)

    async def close(self) -> None:
        for *_, queue in self._watchers:
            queue.put_nowait(None)

    async def _call(self, verb: str, resource: ApiResource, name: str) -> None:
        await asyncio.sleep(0)
        self.calls.append((verb, resource.plural, name))
        if self._down:
            raise Unreachable(f"{self.name} does not answer")
        for later in [each for each in self._later if each[0] == verb]:
            later[1] -= 1
            if later[1] < 0:
                self._later.remove(later)
                raise later[2]
        for index, (failing, error) in enumerate(self._failures):
            if failing == verb:
                del self._failures[index]
                raise error

    def _found(self, resource: ApiResource, namespace: str, name: str) -> Object:
        try:
            return self._objects[resource, namespace if resource.namespaced else "", name]
        except KeyError:
            raise NotFound(f"{resource} {name!r} not found") from None

    def _listed(self, resource: ApiResource, namespace: str, selector: str) -> Sequence[Object]:
        return [
            each
            for each in self.everything(resource)
            if namespace in ("", each["metadata"].get("namespace", "")) and _picks(selector, each)
        ]

    def _store(self, resource: ApiResource, stored: Object) -> Object:
        key = _key(resource, stored)
        before = self._objects.get(key)
        version = next(self._versions)
        meta = stored.setdefault("metadata", {})
        meta["resourceVersion"] = str(version)
        meta.setdefault("uid", f"{self.name}-{version}")
        meta.setdefault("creationTimestamp", "2026-01-01T00:00:00Z")
        if before is None:
            meta.setdefault("generation", 1)
        elif before.get("spec") != stored.get("spec"):
            meta["generation"] = before["metadata"].get("generation", 1) + 1
        self._objects[key] = stored
        if "deletionTimestamp" in meta and not meta.get("finalizers") and not _runs(stored):
            self._remove(key)
            return stored
        self._tell(resource, before, stored)
        return stored

    def _remove(self, key: _Key) -> None:
        gone = self._objects.pop(key, None)
        self._applied.pop(key, None)
        if gone is not None:
            gone["metadata"]["resourceVersion"] = str(next(self._versions))
            self._tell(key[0], gone, None)

    def _tell(self, resource: ApiResource, before: Object | None, after: Object | None) -> None:
        """Tell each watch what became of what it selects: labels may move an object in and out."""
        namespace = (after or before or {})["metadata"].get("namespace", "")
        for watched, within, selector, queue in self._watchers:
            if watched != resource or within not in ("", namespace):
                continue
            held = before is not None and _picks(selector, before)
            holds = after is not None and _picks(selector, after)
            if holds:
                queue.put_nowait(Change("MODIFIED" if held else "ADDED", copied(after)))
            elif held:
                version = (after or before or {})["metadata"]["resourceVersion"]
                meta = {**(before or {})["metadata"], "resourceVersion": version}
                queue.put_nowait(Change("DELETED", copied({**(before or {}), "metadata": meta})))


def copied(value: Any) -> Any:
    """A copy that shares nothing, by way of JSON as in a real server, and faster than any walk."""
    return json.loads(json.dumps(value))


def _key(resource: ApiResource, manifest: Object) -> _Key:
    meta = manifest["metadata"]
    return resource, meta.get("namespace", "") if resource.namespaced else "", meta["name"]


def _place(manifest: Object) -> tuple[str, str]:
    return manifest["metadata"].get("namespace", ""), manifest["metadata"]["name"]


def _runs(found: Object) -> bool:
    """Whether a kubelet has to end it: a bound pod that has not ended."""
    ended = found.get("status", {}).get("phase") in ("Succeeded", "Failed")
    return found.get("kind") == "Pod" and bool(found["spec"].get("nodeName")) and not ended


def _expect(found: Object, meta: Mapping[str, Any]) -> None:
    """The preconditions of an apply: a uid and a version that are given must be those of now."""
    uid = meta.get("uid")
    if not found and uid:
        raise Conflict(f"uid mismatch: the provided object specified uid {uid}, and there is none")
    if found:
        _expect_version(found, meta)
        if uid and uid != found["metadata"]["uid"]:
            raise Invalid(f"metadata.uid: Invalid value: {uid}: field is immutable")


def _expect_version(found: Object, meta: Mapping[str, Any]) -> None:
    version = meta.get("resourceVersion")
    if version and version != found["metadata"]["resourceVersion"]:
        raise Conflict("the object has been modified; please apply your changes to the latest one")


def _without_status(manifest: Object) -> Object:
    manifest.pop("status", None)
    return manifest


def _picks(selector: str, found: Object) -> bool:
    labels = found["metadata"].get("labels") or {}
    for part in filter(None, selector.split(",")):
        key, equals, value = part.partition("=")
        if key not in labels or (equals and labels[key] != value):
            return False
    return True


def _merged(below: Object, above: Mapping[str, Any], *, prune: bool = False) -> Object:
    """``above`` over ``below``; with ``prune`` None removes a key, as in a merge patch."""
    result = dict(below)
    for key, value in above.items():
        if value is None and prune:
            result.pop(key, None)
        elif isinstance(value, Mapping) and isinstance(result.get(key, {}), Mapping):
            result[key] = _merged(result.get(key, {}), value, prune=prune)
        else:
            result[key] = value
    return result


def _less(found: Object, before: Mapping[str, Any], wanted: Mapping[str, Any]) -> Object:
    """What was applied before and is not wanted any more goes, as server-side apply does."""
    result = dict(found)
    for key, value in before.items():
        if key not in wanted:
            result.pop(key, None)
        elif isinstance(value, Mapping) and isinstance(result.get(key), Mapping):
            result[key] = _less(result[key], value, wanted[key])
    return result


def _patched(found: Object, patch: Sequence[Mapping[str, Any]]) -> Object:
    result: Any = copied(found)
    for step in patch:
        *path, last = [p.replace("~1", "/").replace("~0", "~") for p in step["path"].split("/")[1:]]
        try:
            place = result
            for part in path:
                place = place[int(part) if isinstance(place, list) else part]
            index = int(last) if isinstance(place, list) else last
            if step["op"] == "test" and place[index] != step["value"]:
                raise Invalid("the server rejected our request due to an error in our request")
            if step["op"] == "remove":
                del place[index]
            elif step["op"] in ("add", "replace"):
                place[index] = step["value"]
        except (KeyError, IndexError, ValueError) as error:
            raise Invalid("the server rejected our request due to an error in our request") from (
                error
            )
    return result
