"""What kopf calls. kopf watches the hub's resources; what to do about them is decided elsewhere.

Event handlers are used and not kopf's change handlers: a job's state lies in several clusters,
of which kopf knows one, so a reconcile is woken by all of them, through one queue, and compares
what is wanted with what is there instead of reacting to a difference between two versions.
Faults are retried by that queue, with a delay of their own for each object.
"""

from typing import Any, Final

import kopf

from geotrain.api import labels
from geotrain.api.objects import (
    DATA_CENTERS,
    PREFILL_POOLS,
    TRAINING_JOBS,
    WAN_LINKS,
    ApiResource,
)
from geotrain.roles.controller.controller import Controller

WATCHED: Final = (DATA_CENTERS, WAN_LINKS, TRAINING_JOBS, PREFILL_POOLS)


def register(registry: kopf.OperatorRegistry, controller: Controller) -> None:
    """Let kopf tell the controller of every change of our resources."""
    for resource in WATCHED:
        _watch(registry, controller, resource)


def configure(settings: kopf.OperatorSettings) -> None:
    """One active controller for each hub (the Deployment sees to that), under our own names."""
    settings.peering.standalone = True
    # kopf takes its own finalizer off where no handler of its needs it, so it must not be ours.
    settings.persistence.finalizer = f"{labels.GROUP}/kopf"
    settings.persistence.progress_storage = kopf.AnnotationsProgressStorage(prefix=labels.GROUP)
    settings.persistence.diffbase_storage = kopf.AnnotationsDiffBaseStorage(prefix=labels.GROUP)
    settings.posting.enabled = False  # events come from decisions, not from log lines
    settings.watching.server_timeout = 300


def _watch(registry: kopf.OperatorRegistry, controller: Controller, resource: ApiResource) -> None:
    @kopf.on.event(
        labels.GROUP, labels.VERSION, resource.plural, id=resource.plural, registry=registry
    )
    async def changed(event: kopf.RawEvent, **_: Any) -> None:
        controller.hub_changed(resource, event["type"] or "ADDED", dict(event["object"]))
