"""What was granted against what was used, on hand-made roles and audit logs."""

import json

import pytest
import yaml

from e2e.testbed import rights
from e2e.testbed.rights import Right, Role

CONTROLLER = Role("ClusterRole", "", "geotrain-controller")
SECRETS = Role("Role", "vault", "geotrain-kubeconfigs")


def role(kind, name, *rules, namespace=None):
    meta = {"name": name} | ({"namespace": namespace} if namespace else {})
    return {
        "kind": kind,
        "metadata": meta,
        "rules": [
            {"apiGroups": [group], "resources": [resource], "verbs": verbs.split()}
            for group, resource, verbs in rules
        ],
    }


def binding(of, account="geotrain-controller", namespace="geotrain-system"):
    meta = of["metadata"]
    return {
        "kind": f"{of['kind']}Binding",
        "metadata": {"name": f"{meta['name']}-b", "namespace": meta.get("namespace", "")},
        "roleRef": {"kind": of["kind"], "name": meta["name"]},
        "subjects": [{"kind": "ServiceAccount", "name": account, "namespace": namespace}],
    }


def event(verb, resource, *, group="", below="", by="", code=200, decision="allow", namespace="a"):
    reason = (
        'RBAC: allowed by ClusterRoleBinding "geotrain-controller" of ClusterRole'
        f' "{by or "geotrain-controller"}" to ServiceAccount "geotrain-controller/geotrain-system"'
    )
    return {
        "verb": verb,
        "user": {"username": "system:serviceaccount:geotrain-system:geotrain-controller"},
        "objectRef": {
            "resource": resource,
            "namespace": namespace,
            **({"apiGroup": group} if group else {}),
            **({"subresource": below} if below else {}),
        },
        "responseStatus": {"code": code},
        "annotations": {
            "authorization.k8s.io/decision": decision,
            "authorization.k8s.io/reason": reason if decision == "allow" else "",
        },
    }


def test_rights_are_those_of_roles_that_are_bound_to_the_releases_accounts():
    mine = role("ClusterRole", "geotrain-controller", ("", "pods", "list watch"))
    local = role("Role", "geotrain-kubeconfigs", ("", "secrets", "get"), namespace="vault")
    users = role("ClusterRole", "geotrain-view", ("geotrain.io", "geotrainingjobs", "get"))
    other = role("ClusterRole", "other", ("", "pods", "delete"))
    manifests = [mine, local, users, other, binding(mine), binding(local)]
    manifests.append(binding(other, namespace="elsewhere"))
    hook = role("ClusterRole", "geotrain-crds", ("", "pods", "delete"))
    hook["metadata"]["annotations"] = {"helm.sh/hook": "pre-upgrade"}
    manifests += [hook, binding(hook)]
    assert rights.granted(manifests) == {
        Right(CONTROLLER, "", "pods", "list"),
        Right(CONTROLLER, "", "pods", "watch"),
        Right(SECRETS, "", "secrets", "get"),
    }


def test_a_call_uses_the_right_of_the_role_that_allowed_it():
    log = [
        event("list", "pods"),
        event("patch", "geotrainingjobs", group="geotrain.io", below="status"),
        event("get", "pods", by="somebody-else"),
        event("get", "secrets", decision="forbid"),
    ]
    assert rights.used(log) == {
        Right(CONTROLLER, "", "pods", "list"),
        Right(CONTROLLER, "geotrain.io", "geotrainingjobs/status", "patch"),
        Right(Role("ClusterRole", "", "somebody-else"), "", "pods", "get"),
    }


def test_a_role_in_a_namespace_is_told_by_its_bindings():
    found = event("get", "secrets", namespace="vault")
    found["annotations"]["authorization.k8s.io/reason"] = (
        'RBAC: allowed by RoleBinding "geotrain-kubeconfigs/vault" of Role "geotrain-kubeconfigs"'
        ' to ServiceAccount "geotrain-controller/geotrain-system"'
    )
    assert rights.used([found]) == {Right(SECRETS, "", "secrets", "get")}


def test_an_apply_that_makes_an_object_uses_create_as_well():
    made = rights.used([event("patch", "services", code=201)])
    assert {right.verb for right in made} == {"patch", "create"}
    assert {right.verb for right in rights.used([event("patch", "services")])} == {"patch"}


def test_what_nobody_uses_is_told_unless_it_is_exempt():
    grants = {
        Right(CONTROLLER, "", "pods", "list"),
        Right(CONTROLLER, "apps", "deployments", "delete"),
        Right(CONTROLLER, "geotrain.io", "prefillpools/finalizers", "update"),
        Right(SECRETS, "", "secrets", "get"),
    }
    assert rights.unused(grants, [Right(CONTROLLER, "", "pods", "list")]) == [
        "ClusterRole geotrain-controller: delete deployments.apps",
        "Role geotrain-kubeconfigs in vault: get secrets",
    ]


def test_an_exemption_of_a_right_that_is_gone_is_told():
    assert len(rights.stale_exemptions([])) == len(rights.EXEMPT)
    held = {Right(Role("Role", "", name), "", what, verb) for name, what, verb in rights.EXEMPT}
    assert rights.stale_exemptions(held) == []
    assert all(reason for reason in rights.EXEMPT.values())


def test_a_refused_call_is_told_once_with_who_and_what():
    log = [event("create", "pods", below="exec", decision="forbid")] * 2
    log.append(event("list", "nodes", namespace=""))
    who = "system:serviceaccount:geotrain-system:geotrain-controller"
    assert rights.refused(log) == [f"{who} may not create pods/exec in namespace a"]
    granted = [Right(CONTROLLER, "", "pods/exec", "create")]
    assert rights.refused(log, granted) == [], "its role was gone for a moment"


def test_a_log_is_read_past_lines_that_were_cut_and_calls_of_no_object():
    whole = json.dumps(event("list", "pods"))
    log = f'{whole}\n{whole[:40]}\n{{"verb": "get", "requestURI": "/healthz"}}\n"text"\n'
    assert rights.events(log) == [event("list", "pods")]


def test_the_audit_policy_logs_the_accounts_of_the_namespace_alone():
    first, last = yaml.safe_load(rights.audit_policy("elsewhere"))["rules"]
    assert first == {"level": "Metadata", "userGroups": ["system:serviceaccounts:elsewhere"]}
    assert last == {"level": "None"}


@pytest.mark.parametrize(
    ("rule", "said"),
    [
        (("*", "pods", "get"), ["ClusterRole r has a wildcard"]),
        (("", "*", "get"), ["ClusterRole r has a wildcard"]),
        (("", "pods/*", "get"), ["ClusterRole r has a wildcard"]),
        (("", "pods", "*"), ["ClusterRole r has a wildcard"]),
        (("", "secrets", "get"), ["ClusterRole r reaches all Secrets"]),
        (("", "pods", "get"), []),
    ],
)
def test_wildcards_and_secrets_of_all_namespaces_are_told(rule, said):
    assert rights.wildcards([role("ClusterRole", "r", rule)]) == said
    local = rights.wildcards([role("Role", "r", rule, namespace="a"), binding(role("Role", "r"))])
    assert local == [each.replace("ClusterRole", "Role") for each in said if "wild" in each]
