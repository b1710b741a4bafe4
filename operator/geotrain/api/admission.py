"""The chart's policy for pod templates: Pod Security "baseline" of Kubernetes 1.37, as CEL.

A policy of the API server refuses a job or pool at once, whoever writes it. Its expressions are
made here from one table, and ``make crds`` writes them to ``charts/geotrain/files``, where they can
be read. Only what CEL has since Kubernetes 1.32 is used.

Every check yields sentences ``PATH: what would be right``. The policy says the first one and how
many more there are. It goes by stages, since CEL cannot look into what is none of a mapping:

    shape of the pod      lists are lists and mappings mappings, where the checks look
    shape of containers   the same
    baseline              k8s.io/pod-security-admission, package policy, check for check

One thing may go beyond: a hostPath volume of exactly ``/run/geotrain``, the node's folder that
geotrain mounts into pods anyway. ``tests/data/pod_security_cases.yaml`` holds it to upstream.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any, Final

from geotrain.api import labels
from geotrain.api.pod_template.baseline import (
    APPARMOR_ANNOTATION,
    CAPABILITIES,
    PROBES,
    SELINUX_TYPES,
    SYSCTLS,
)

HOOKS: Final = ("lifecycle.postStart", "lifecycle.preStop")
CONTAINER_LISTS: Final = ("containers", "initContainers", "ephemeralContainers")

_ON_NODE: Final = (
    f"x.hostPath.path == '{labels.NODE_DIRECTORY}' && (!has(x.hostPath.type) ||"
    " x.hostPath.type in [dyn(''), dyn('Directory'), dyn('DirectoryOrCreate'), dyn(null)])"
)
_BOTH: Final = ("pods", "containers")


def _one_of(names: Iterable[str]) -> str:
    quoted = (f"'{name}'" for name in names)
    return f"[{', '.join(quoted)}]"


def _set(path: str, last: str = "null") -> str:
    """CEL: the field at ``path`` of ``e.at`` is set, or set to none of the type ``last``."""
    *above, _ = names = path.split(".")
    parts = []
    for depth in range(1, len(names)):
        at = f"e.at.{'.'.join(above[:depth])}"
        parts += [f"has({at})", f"type({at}) == map"]
    at = f"e.at.{path}"
    parts += [f"has({at})", f"{at} != null"]
    return " && ".join(parts if last == "null" else [*parts, f"type({at}) != {last}"])


@dataclass(frozen=True, slots=True)
class Check:
    """A field of every pod or container: ``bad`` is CEL, in which ``@`` stands for its value."""

    where: str
    path: str
    bad: str
    right: str
    below: str = ""

    def sentences(self) -> str:
        """CEL: a list of sentences, about the field ``below`` the value where one is named."""
        bad = self.bad.replace("@", f"e.at.{self.path}")
        sentence = f"e.path + '.{self.path}{self.below}: {self.right}'"
        return (
            f"variables.{self.where}.transformList(i, e, {_set(self.path)} && ({bad}), {sentence})"
        )


@dataclass(frozen=True, slots=True)
class EntryCheck:
    """A list of every pod or container: ``bad`` is CEL about ``x``, an entry of it."""

    where: str
    path: str
    bad: str
    field: str
    right: str

    def sentences(self) -> str:
        """CEL: a list of sentences, about the first bad entry of each list."""
        at = f"e.at.{self.path}"
        found = (
            f"{at}.transformList(j, x, {self.bad}, e.path + '.{self.path}[' + string(j) + ']"
            f"{self.field}: {self.right}')[0]"
        )
        held = f"{_set(self.path)} && {at}.exists(x, {self.bad})"
        return f"variables.{self.where}.transformList(i, e, {held}, {found})"


_OFF: Final = "@ != false"
_NONE: Final = "leave it out"
_PROFILE: Final = "set RuntimeDefault or Localhost, or leave the profile out"


def _checks() -> Iterable[Check | EntryCheck]:
    for where in _BOTH:
        context = "securityContext"
        yield Check(where, f"{context}.windowsOptions.hostProcess", _OFF, _NONE)
        for profile in ("appArmorProfile", "seccompProfile"):
            bad = "!(has(@.type) && @.type in ['RuntimeDefault', 'Localhost'])"
            yield Check(where, f"{context}.{profile}", bad, _PROFILE, ".type")
        types = _one_of(("", *SELINUX_TYPES))
        right = f"set one of {', '.join(SELINUX_TYPES)}, or leave it out"
        yield Check(where, f"{context}.seLinuxOptions.type", f"!(@ in {types})", right)
        for field in ("user", "role"):
            yield Check(where, f"{context}.seLinuxOptions.{field}", "@ != ''", _NONE)
    yield from _pod_checks()
    yield from _container_checks()


def _pod_checks() -> Iterable[Check | EntryCheck]:
    for field in ("hostNetwork", "hostPID", "hostIPC"):
        yield Check("pods", field, _OFF, _NONE)
    on_node = f"type(x.hostPath) == map && has(x.hostPath.path) && {_ON_NODE}"
    bad = f"has(x.hostPath) && x.hostPath != null && !({on_node})"
    right = (
        "use another kind of volume, such as persistentVolumeClaim, emptyDir, configMap or nfs"
        f" (of the node only {labels.NODE_DIRECTORY} is open)"
    )
    yield EntryCheck("pods", "volumes", bad, ".hostPath", right)
    bad = f"!(has(x.name) && x.name in {_one_of(SYSCTLS)})"
    right = f"only these may be set: {', '.join(SYSCTLS)}"
    yield EntryCheck("pods", "securityContext.sysctls", bad, ".name", right)


def _container_checks() -> Iterable[Check | EntryCheck]:
    where = "containers"
    yield Check(where, "securityContext.privileged", _OFF, _NONE)
    added = "securityContext.capabilities.add"
    allowed = _one_of(CAPABILITIES)
    extra = f"@.filter(x, !(x in {allowed})).map(x, type(x) == string ? x : '?').join(', ')"
    right = f"' + {extra} + ' may not be added, only {', '.join(CAPABILITIES)}"
    right = right.replace("@", f"e.at.{added}")
    yield Check(where, added, f"@.exists(x, !(x in {allowed}))", right)
    bad = "has(x.hostPort) && x.hostPort != null && x.hostPort != 0"
    yield EntryCheck(where, "ports", bad, ".hostPort", "set it to 0 or leave it out")
    right = "set Default or leave it out (other values only in a pod with hostUsers: false)"
    yield Check(where, "securityContext.procMount", "@ != 'Default' && !e.unmasked", right)
    for holder in (*PROBES, *HOOKS):
        for action in ("httpGet", "tcpSocket"):
            right = "leave it out, so that the pod itself is asked"
            yield Check(where, f"{holder}.{action}.host", "@ != ''", right)


def _shape(where: str, maps: Sequence[str], lists: Sequence[str]) -> Iterable[str]:
    """What has not the type that it has in a pod; of lists the entries too."""
    for path in maps:
        right = f"e.path + '.{path}: write a mapping'"
        yield f"variables.{where}.transformList(i, e, {_set(path, 'map')}, {right})"
    for path in lists:
        right = f"e.path + '.{path}: write a list'"
        yield f"variables.{where}.transformList(i, e, {_set(path, 'list')}, {right})"
        at, entry = f"e.at.{path}", "type(x) != map"
        if path.endswith(".add"):
            entry = "type(x) != string"
        held = f"{_set(path)} && type({at}) == list && {at}.exists(x, {entry})"
        right = "write text" if path.endswith(".add") else "write a mapping"
        first = (
            f"{at}.transformList(j, x, {entry}, e.path + '.{path}[' + string(j) + ']: {right}')[0]"
        )
        yield f"variables.{where}.transformList(i, e, {held}, {first})"


_CONTEXT: Final = (
    "securityContext",
    *(
        f"securityContext.{part}"
        for part in ("windowsOptions", "appArmorProfile", "seccompProfile", "seLinuxOptions")
    ),
)
_POD_LISTS: Final = ("volumes", "securityContext.sysctls", *CONTAINER_LISTS[1:])
_CONTAINER_MAPS: Final = (
    *_CONTEXT,
    "securityContext.capabilities",
    "lifecycle",
    *(
        path
        for holder in (*PROBES, *HOOKS)
        for path in (holder, f"{holder}.httpGet", f"{holder}.tcpSocket")
    ),
)
_CONTAINER_LISTS: Final = ("ports", "securityContext.capabilities.add")


def _sum(lists: Iterable[str]) -> str:
    return "\n+ ".join(lists)


def _pods() -> str:
    """The template's pod, and what overrides add to pods."""
    return (
        "[{'path': dyn('spec.template.spec'), 'at': object.spec.template.spec}]\n"
        "+ (has(object.spec.overrides) ? object.spec.overrides : []).transformList(i, o,"
        " {'path': dyn('spec.overrides[' + string(i) + ']'), 'at': o})"
    )


def _containers() -> str:
    """All containers of the template; those of overrides have none of the fields looked at."""
    spec = "object.spec.template.spec"
    unmasked = f"dyn(has({spec}.hostUsers) && {spec}.hostUsers == false)"
    return _sum(
        f"(has({spec}.{each}) && {spec}.{each} != null ? {spec}.{each} : []).transformList(i, c,"
        f" {{'path': dyn('spec.template.spec.{each}[' + string(i) + ']'), 'at': c,"
        f" 'unmasked': {unmasked}}})"
        for each in CONTAINER_LISTS
    )


def _annotations() -> str:
    """AppArmor by annotations, of the template and of overrides."""
    right = "set runtime/default or localhost/PROFILE, or leave it out"
    profile = "v in ['', 'runtime/default'] || v.startsWith('localhost/')"
    bad = f"k.startsWith('{APPARMOR_ANNOTATION}') && !({profile})"
    template = "object.spec.template"
    held = f"has({template}.metadata) && has({template}.metadata.annotations)"
    overrides = (
        "(has(object.spec.overrides) ? object.spec.overrides : []).transformList(i, o,"
        f" has(o.annotations) && o.annotations.exists(k, v, {bad}),"
        f" o.annotations.transformList(k, v, {bad},"
        f" 'spec.overrides[' + string(i) + '].annotations[' + k + ']: {right}')[0])"
    )
    return (
        f"({held} ? {template}.metadata.annotations : {{}}).transformList(k, v, {bad},"
        f" 'spec.template.metadata.annotations[' + k + ']: {right}')\n+ {overrides}"
    )


def template_policy() -> dict[str, Any]:
    """The spec of the ValidatingAdmissionPolicy for GeoTrainingJob and PrefillPool."""
    changed = (
        "request.operation == 'CREATE' || object.spec.template != oldObject.spec.template ||"
        " has(object.spec.overrides) && (!has(oldObject.spec.overrides) ||"
        " object.spec.overrides != oldObject.spec.overrides)"
    )
    stages = (
        "variables.podShape.size() > 0 ? variables.podShape\n"
        ": variables.containerShape.size() > 0 ? variables.containerShape\n"
        ": variables.beyond"
    )
    shape = _sum(_shape("pods", _CONTEXT, _POD_LISTS))
    inner = _sum(_shape("containers", _CONTAINER_MAPS, _CONTAINER_LISTS))
    variables = {
        "pods": _pods(),
        "podShape": shape,
        "containers": _containers(),
        "containerShape": inner,
        "beyond": _sum([*(check.sentences() for check in _checks()), _annotations()]),
        "problems": stages,
    }
    standard = "pods stay within Pod Security baseline"
    more = (
        "(variables.problems.size() > 1 ? ' (and ' + string(variables.problems.size() - 1) +"
        " ' more)' : '')"
    )
    return {
        "failurePolicy": "Fail",
        "matchConstraints": {
            "resourceRules": [
                {
                    "apiGroups": [labels.GROUP],
                    "apiVersions": ["*"],
                    "operations": ["CREATE", "UPDATE"],
                    "resources": ["geotrainingjobs", "prefillpools"],
                }
            ]
        },
        # An object from before the policy can still be suspended, and loses its finalizer.
        "matchConditions": [{"name": "template-is-new", "expression": changed}],
        "variables": [{"name": name, "expression": text} for name, text in variables.items()],
        "validations": [
            {
                "expression": "variables.problems.size() == 0",
                "messageExpression": f"variables.problems[0] + {more} + '; {standard}'",
                "message": f"the template goes too far: {standard}, see docs/security.md",
            }
        ],
    }
