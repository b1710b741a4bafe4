"""Whether a member's namespace lets geotrain's pods in. Pure.

A member's administrator decides, in the member: the label ``geotrain.io/enabled: "true"`` opens a
namespace, and the annotation ``geotrain.io/service-accounts: "a,b"`` names the service accounts
that pods there may use. geotrain makes no namespace and sets neither.
"""

from collections.abc import Iterator, Mapping
from typing import Any

from geotrain.api import labels
from geotrain.api.pod_template.faults import Part, entries, part

_DEFAULT = "default"


def obstacle(namespace: Mapping[str, Any] | None, name: str, template: Part) -> str:
    """Why pods of a template may not run in a namespace, with the command that lets them; '' if so.

    ``namespace`` is the v1 Namespace called ``name`` as the member has it, None where it has none.
    """
    label = f"kubectl label namespace {name} {labels.ENABLED}=true"
    if namespace is None:
        return (
            f"there is no namespace {name}; in its cluster run: kubectl create namespace {name} &&"
            f" {label}"
        )
    if "deletionTimestamp" in namespace["metadata"]:
        return f"namespace {name} is being deleted"
    if part(namespace, "metadata", "labels").get(labels.ENABLED) != "true":
        return f"namespace {name} has not opted in; in its cluster run: {label}"
    account, allowed = account_of(template), allowed_accounts(namespace)
    uses = list(_token_uses(template))
    if account in allowed or (account == _DEFAULT and not uses):
        return ""
    list_ = ",".join(sorted({*allowed, account}))
    command = f"kubectl annotate --overwrite namespace {name} {labels.SERVICE_ACCOUNTS}={list_}"
    asked = uses[0] if account == _DEFAULT else "spec.template.spec.serviceAccountName"
    return (
        f"namespace {name} does not let pods use service account {account} ({asked}); in its"
        f" cluster run: {command}"
    )


def account_of(template: Part) -> str:
    """The service account of a template's pods."""
    return str(part(template, "spec").get("serviceAccountName") or _DEFAULT)


def allowed_accounts(namespace: Mapping[str, Any]) -> frozenset[str]:
    """The service accounts whose tokens geotrain's pods may hold in a namespace."""
    text = part(namespace, "metadata", "annotations").get(labels.SERVICE_ACCOUNTS, "")
    return frozenset(filter(None, (each.strip() for each in str(text).split(","))))


def without_token(spec: Mapping[str, Any]) -> dict[str, Any]:
    """A pod's spec in which the namespace's default account gives no token unless it is asked to.

    ``obstacle`` has seen to it that who asks may.
    """
    if spec.get("serviceAccountName") not in (None, "", _DEFAULT):
        return dict(spec)
    return {**spec, "automountServiceAccountToken": bool(spec.get("automountServiceAccountToken"))}


def _token_uses(template: Part) -> Iterator[str]:
    """Where a template asks for the token of its account, as paths."""
    spec = part(template, "spec")
    if spec.get("automountServiceAccountToken"):
        yield "spec.template.spec.automountServiceAccountToken"
    for path, volume in entries(spec, "volumes", "spec.template.spec."):
        for where, source in entries(part(volume, "projected"), "sources", f"{path}.projected."):
            if source.get("serviceAccountToken") is not None:
                yield f"{where}.serviceAccountToken"
