"""What geotrain's service accounts may do, by the chart, and what they did, by the audit log. Pure.

An account should hold no right that it never uses, and should never be refused. Both are seen
where tests run: API servers log each call of the release's accounts (who, what, and which role
allowed it), and the roles say what was granted.
"""

import json
from collections.abc import Iterable, Mapping
from typing import Any, Final, NamedTuple

import yaml

NAMESPACE: Final = "geotrain-system"

Object = Mapping[str, Any]


class Role(NamedTuple):
    """A ClusterRole, or a Role with its namespace."""

    kind: str
    namespace: str
    name: str


class Right(NamedTuple):
    """A verb on a resource, with its subresource, that a role grants."""

    role: Role
    group: str
    resource: str
    verb: str

    def __str__(self) -> str:
        where = f" in {self.role.namespace}" if self.role.namespace else ""
        resource = f"{self.resource}.{self.group}" if self.group else self.resource
        return f"{self.role.kind} {self.role.name}{where}: {self.verb} {resource}"


EXEMPT: Final = {
    ("geotrain-controller", "geotrainingjobs/finalizers", "update"): (
        "no call of its own: clusters with OwnerReferencesPermissionEnforcement (OpenShift) ask for"
        " it when a child with blockOwnerDeletion is made"
    ),
    ("geotrain-controller", "prefillpools/finalizers", "update"): "the same, for a pool's router",
    ("geotrain-controller", "deployments", "patch"): (
        "when somebody edits a pool's router; tests/integration/controller/test_rights.py has one"
        " put right"
    ),
    ("geotrain-member", "serviceaccounts/token", "create"): (
        "at half of a token's life, which is hours; tests/integration/controller/test_tokens.py has"
        " a token renewed"
    ),
}
"""Rights that tests need not see used, by role, resource and verb, with the reason."""


def audit_policy(namespace: str = NAMESPACE) -> str:
    """An audit policy that logs the calls of a namespace's service accounts, without bodies."""
    document = {
        "apiVersion": "audit.k8s.io/v1",
        "kind": "Policy",
        "omitStages": ["RequestReceived"],
        "rules": [
            {"level": "Metadata", "userGroups": [f"system:serviceaccounts:{namespace}"]},
            {"level": "None"},
        ],
    }
    return yaml.safe_dump(document, sort_keys=False)


def events(log: str) -> list[Object]:
    """The events of an audit log. A line that was cut off by rotation is left out."""
    found = []
    for line in log.splitlines():
        try:
            event = json.loads(line)
        except ValueError:
            continue
        if isinstance(event, dict) and event.get("objectRef"):
            found.append(event)
    return found


def granted(manifests: Iterable[Object], namespace: str = NAMESPACE) -> set[Right]:
    """The rights of all roles among ``manifests`` that are bound to service accounts there.

    Kubernetes' own roles are bound by name and are none of the manifests: they are its business.
    Those of Helm's hooks live as long as one command, and the chart's tests hold them.
    """
    every = [each for each in manifests if _HOOK not in (each["metadata"].get("annotations") or {})]
    bound = {
        _role_of(each)
        for each in every
        if each["kind"] in ("RoleBinding", "ClusterRoleBinding")
        and any(
            subject["kind"] == "ServiceAccount" and subject.get("namespace") == namespace
            for subject in each.get("subjects") or ()
        )
    }
    return {
        right
        for each in every
        if each["kind"] in ("Role", "ClusterRole")
        for right in _rights(each)
        if right.role in bound
    }


def _role_of(binding: Object) -> Role:
    kind = binding["roleRef"]["kind"]
    namespace = binding["metadata"].get("namespace", "") if kind == "Role" else ""
    return Role(kind, namespace, binding["roleRef"]["name"])


def _rights(role: Object) -> Iterable[Right]:
    meta = role["metadata"]
    namespace = meta.get("namespace", "") if role["kind"] == "Role" else ""
    name = Role(role["kind"], namespace, meta["name"])
    for rule in role.get("rules") or ():
        for group in rule.get("apiGroups") or ():
            for resource in rule.get("resources") or ():
                for verb in rule["verbs"]:
                    yield Right(name, group, resource, verb)


_HOOK: Final = "helm.sh/hook"
_ALLOWED_BY: Final = "RBAC: allowed by "


def used(log: Iterable[Object]) -> set[Right]:
    """The rights by which calls were allowed, as the API server's own reasons name the role."""
    found: set[Right] = set()
    for event in log:
        role = _allowing(event)
        if role is None:
            continue
        group, resource, verb = _asked(event)
        found.add(Right(role, group, resource, verb))
        # An apply that makes the object was also asked whether it may create.
        if event["verb"] == "patch" and (event.get("responseStatus") or {}).get("code") == 201:
            found.add(Right(role, group, resource, "create"))
    return found


def _allowing(event: Object) -> Role | None:
    """Parse ``RBAC: allowed by RoleBinding "a/ns" of Role "b" to ServiceAccount "c/ns"``."""
    reason = (event.get("annotations") or {}).get("authorization.k8s.io/reason", "")
    if not reason.startswith(_ALLOWED_BY):
        return None
    _, binding, rest = reason.removeprefix(_ALLOWED_BY).split('"', 2)
    kind, name = rest.removeprefix(" of ").split('"')[:2]
    namespace = binding.rpartition("/")[2] if kind.strip() == "Role" else ""
    return Role(kind.strip(), namespace, name)


def refused(log: Iterable[Object], grants: Iterable[Right] = ()) -> list[str]:
    """Calls that no role allowed: rights that are missing. Sentences, each once.

    One of ``grants`` was refused in the moment in which Helm had taken its role away, or not yet
    made it, and is not missing.
    """
    there = {(right.group, right.resource, right.verb) for right in grants}
    sentences = {
        f"{event['user']['username']} may not {event['verb']} {_resource(event['objectRef'])}"
        f" in namespace {event['objectRef'].get('namespace', '-')}"
        for event in log
        if (event.get("annotations") or {}).get("authorization.k8s.io/decision") == "forbid"
        and _asked(event) not in there
    }
    return sorted(sentences)


def _asked(event: Object) -> tuple[str, str, str]:
    place = event["objectRef"]
    return place.get("apiGroup", ""), _resource(place), event["verb"]


def _resource(place: Object) -> str:
    return "/".join(filter(None, (place["resource"], place.get("subresource"))))


def unused(grants: Iterable[Right], uses: Iterable[Right]) -> list[str]:
    """Rights that are granted, were not used and are not exempt."""
    seen = set(uses)
    return sorted(str(r) for r in grants if r not in seen and _exemption(r) not in EXEMPT)


def stale_exemptions(grants: Iterable[Right]) -> list[str]:
    """Exemptions of rights that nobody has any more."""
    known = {_exemption(right) for right in grants}
    return sorted(" ".join(each) for each in EXEMPT if each not in known)


def _exemption(right: Right) -> tuple[str, str, str]:
    return right.role.name, right.resource, right.verb


def wildcards(manifests: Iterable[Object]) -> list[str]:
    """Roles with a ``*`` anywhere, and those that reach Secrets of every namespace."""
    found = []
    for each in manifests:
        if each["kind"] not in ("Role", "ClusterRole"):
            continue
        for rule in each.get("rules") or ():
            parts = [*rule.get("apiGroups", ()), *rule.get("resources", ()), *rule["verbs"]]
            if any("*" in part for part in parts):
                found.append(f"{each['kind']} {each['metadata']['name']} has a wildcard")
            if each["kind"] == "ClusterRole" and "secrets" in rule.get("resources", ()):
                found.append(f"ClusterRole {each['metadata']['name']} reaches all Secrets")
    return found
