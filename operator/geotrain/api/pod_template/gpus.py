"""The GPUs of a training pod against ``parallelism.tensor``.

The plan counts ``tensor`` GPUs a pod, so that is what each pod must take of its node. They are the
tensor-parallel group of one process group, which only one container can be: the first.
"""

from collections.abc import Iterator
from typing import Any, NamedTuple

from geotrain.api.pod_template.faults import Part, containers, entries, part
from geotrain.fitting.quantities import parse_amount


class _Ask(NamedTuple):
    container: str
    amount: int
    is_first: bool


def gpu_fault(template: Part, resource: str, tensor: int) -> str:
    """What is wrong with the GPUs that a pod of the template asks for, '' where nothing is.

    ``resource`` is the extended resource that counts GPUs where the pod is to run.
    """
    spec = part(template, "spec")
    try:
        asks = list(_asks(spec, resource))
        unequal = _unequal(spec, resource)
    except ValueError as error:
        return f"{resource}: {error}"
    right = f"give the first container, {_first(spec)}, a limit of {tensor} {resource}"
    if not asks:
        others = ", ".join(_extended(spec))
        found = f" (its containers ask for {others})" if others else ""
        return f"no container asks for {resource}{found}; parallelism.tensor is {tensor}: {right}"
    amounts = [ask.amount for ask in asks]
    total = " + ".join(map(str, amounts)) + (f" = {sum(amounts)}" if len(amounts) > 1 else "")
    names = ", ".join(ask.container for ask in asks)
    plural = "containers" if len(asks) > 1 else "container"
    said = f"each pod asks for {total} {resource} in {plural} {names}"
    if sum(amounts) != tensor:
        return f"{said}; parallelism.tensor is {tensor}: {right}"
    if not all(ask.is_first for ask in asks):
        return f"{said}; the GPUs of a rank are one container's: {right}"
    return unequal


def _asks(spec: Part, resource: str) -> Iterator[_Ask]:
    """Who asks for how many; a request counts where there is no limit."""
    for path, container in containers(spec):
        amount = _amount(container, resource)
        if amount:
            name = str(container.get("name", path))
            note = " (initialisation)" if path.startswith("init") else ""
            yield _Ask(f"{name}{note}", amount, path == "containers[0]")


def _amount(container: Part, resource: str) -> int:
    resources = part(container, "resources")
    asked: Any = part(resources, "limits").get(resource)
    if asked is None:
        asked = part(resources, "requests").get(resource)
    if asked is None:
        return 0
    if parse_amount("cpu", asked) % 1000:  # in thousandths
        raise ValueError(f"{asked} is no whole number; devices are not divided")
    return parse_amount(resource, asked)


def _unequal(spec: Part, resource: str) -> str:
    """Kubernetes hands out devices by limits, and refuses requests that differ."""
    for path, container in containers(spec):
        resources = part(container, "resources")
        limit = part(resources, "limits").get(resource)
        request = part(resources, "requests").get(resource)
        if request is None:
            continue
        name = container.get("name", path)
        if limit is None:
            return f"container {name} requests {request} {resource} without a limit; give the limit"
        if parse_amount(resource, request) != parse_amount(resource, limit):
            return (
                f"container {name} requests {request} {resource} and is limited to {limit}: they"
                " must be equal; leave the request out"
            )
    return ""


def _extended(spec: Part) -> Iterator[str]:
    """What the containers ask for of other extended resources, as text."""
    for _, container in containers(spec):
        for name, amount in part(container, "resources", "limits").items():
            if "/" in name:
                yield f"{amount} {name}"


def _first(spec: Part) -> str:
    return next((str(each.get("name", "")) for _, each in entries(spec, "containers")), "")
