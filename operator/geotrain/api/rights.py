"""What the hub's controller must be allowed in a member, and whether an account is. Pure.

The chart grants this (``geotrain.memberRules``); a test holds the two together.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

_OWN: Final = ("list", "watch", "create", "patch", "delete")


@dataclass(frozen=True, slots=True)
class Right:
    """Verbs on resources of an API group, as in a rule of a Role; ``names`` of (): on all."""

    group: str
    resources: tuple[str, ...]
    verbs: tuple[str, ...]
    names: tuple[str, ...] = ()

    def __str__(self) -> str:
        where = f"{'/'.join(self.resources)}{f'.{self.group}' if self.group else ''}"
        return f"{', '.join(self.verbs)} {where}" + (f" {self.names[0]}" if self.names else "")


MEMBER: Final = (
    Right("", ("nodes",), ("list", "watch")),
    Right("", ("namespaces",), ("get",), ("kube-system",)),
    Right("", ("pods", "services", "configmaps"), _OWN),
    Right("", ("pods/proxy",), ("get",)),
    Right("discovery.k8s.io", ("endpointslices",), _OWN),
    Right("networking.k8s.io", ("networkpolicies",), _OWN),
    Right("apps", ("deployments",), ("get", "list", "watch")),
    Right("scheduling.k8s.io", ("priorityclasses",), ("list",)),
)
"""In the whole cluster."""


def token(account: str) -> Right:
    """In geotrain's namespace: to renew its own token."""
    return Right("", ("serviceaccounts/token",), ("create",), (account,))


def lacking(wanted: Iterable[Right], rules: Sequence[Mapping[str, Any]]) -> tuple[Right, ...]:
    """What is wanted and not allowed by the rules of a SelfSubjectRulesReview."""
    found: list[Right] = []
    for right in wanted:
        for resource in right.resources:
            verbs = tuple(v for v in right.verbs if not _allowed(right, resource, v, rules))
            if verbs:
                found.append(Right(right.group, (resource,), verbs, right.names))
    return tuple(found)


def is_all_powerful(rules: Sequence[Mapping[str, Any]]) -> bool:
    """Whether the rules allow everything, as a cluster administrator's do."""
    every = ("verbs", "apiGroups", "resources")
    return any(all("*" in (rule.get(key) or ()) for key in every) for rule in rules)


def _allowed(right: Right, resource: str, verb: str, rules: Sequence[Mapping[str, Any]]) -> bool:
    return any(
        _holds(rule.get("apiGroups"), right.group)
        and _holds(rule.get("resources"), resource)
        and _holds(rule.get("verbs"), verb)
        and _names(rule.get("resourceNames"), right.names)
        for rule in rules
    )


def _holds(listed: Sequence[str] | None, wanted: str) -> bool:
    found = listed or ()
    subresource = wanted.partition("/")[2]
    return wanted in found or "*" in found or (bool(subresource) and f"*/{subresource}" in found)


def _names(listed: Sequence[str] | None, wanted: Sequence[str]) -> bool:
    return not listed or (bool(wanted) and set(wanted) <= set(listed))
