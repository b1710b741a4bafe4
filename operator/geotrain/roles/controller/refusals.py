"""Why a member's API server took no object, in words that help. Pure: its sentence in, ours out.

A namespace that enforces a Pod Security level refuses each pod by itself, with the standard's words
and without a word of who made the pod. The user should read which namespace that is, in which data
centre, and which level geotrain's part of the pod needs.
"""

import re
from collections.abc import Mapping
from typing import Final

from geotrain.api.reasons import Reason

LEVEL_OF_SIDECAR: Final = "privileged"
"""The sidecar adds NET_ADMIN and mounts a folder of the node."""
LEVEL_OF_WORKER: Final = "privileged"
"""A prefill worker mounts that folder too."""

_ENFORCE: Final = "pod-security.kubernetes.io/enforce"
_VIOLATION: Final = re.compile(
    r'pods "(?P<pod>[^"]+)" is forbidden: violates PodSecurity "(?P<level>[a-z]+):[^"]*": '
    r"(?P<what>.*)",
    re.DOTALL,
)


def of_job(
    sentence: str, namespace: str, homes: Mapping[str, str], *, has_sidecar: bool
) -> tuple[Reason, str]:
    """Reason and message for a job's pod; ``homes`` are the data centres of its pods, by name."""
    found = _VIOLATION.search(sentence)
    if found is None:
        return Reason.MEMBER_REFUSED, sentence
    other = ""
    if has_sidecar:
        help_ = _relabel(namespace, LEVEL_OF_SIDECAR)
        why = "geotrain's sidecar needs NET_ADMIN and the node's folder /run/geotrain: "
        other = ", or do without sidecars: spec.network.enforcement: None"
    else:
        why = "geotrain adds nothing that baseline or restricted forbid: "
        help_ = "change spec.template to what the namespace allows"
    return Reason.POD_SECURITY_REFUSED, f"{_told(found, namespace, homes)}; {why}{help_}{other}"


def of_pool(sentence: str, namespace: str, homes: Mapping[str, str]) -> tuple[Reason, str]:
    """Reason and message for a worker's or router's pod; ``homes`` as in ``of_job``."""
    found = _VIOLATION.search(sentence)
    if found is None:
        return Reason.MEMBER_REFUSED, sentence
    help_ = _relabel(namespace, LEVEL_OF_WORKER)
    told = _told(found, namespace, homes)
    why = "a prefill worker needs the node's folder /run/geotrain"
    return Reason.POD_SECURITY_REFUSED, f"{told}; {why}: {help_}"


def _told(found: re.Match[str], namespace: str, homes: Mapping[str, str]) -> str:
    pod, level, what = found["pod"], found["level"], found["what"].strip()
    home = homes.get(pod, "")
    where = f"{namespace} in {home}" if home else namespace
    return f'namespace {where} enforces Pod Security "{level}", which {pod} violates: {what}'


def _relabel(namespace: str, level: str) -> str:
    return f"in that cluster run kubectl label --overwrite namespace {namespace} {_ENFORCE}={level}"
