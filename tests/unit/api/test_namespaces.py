"""Whether a member's namespace lets geotrain's pods in, and the command that lets them."""

import pytest

from geotrain.api.namespaces import obstacle, without_token
from support import manifests
from support.manifests import with_field

LABEL = "kubectl label namespace team-a geotrain.io/enabled=true"
TOKEN = [{"name": "t", "projected": {"sources": [{"configMap": {}}, {"serviceAccountToken": {}}]}}]


def told(namespace, **spec):
    template = manifests.POD
    for field, value in spec.items():
        template = with_field(template, f"spec.{field}", value)
    return obstacle(namespace, "team-a", template)


def test_a_namespace_that_opted_in_is_open():
    assert told(manifests.namespace("team-a")) == ""


def test_one_that_is_not_there_is_to_be_made_by_its_people():
    said = told(None)
    assert said == (
        "there is no namespace team-a; in its cluster run: kubectl create namespace team-a &&"
        f" {LABEL}"
    )


@pytest.mark.parametrize("value", ["false", "True", "", "yes"])
def test_only_true_opens_it(value):
    shut = manifests.namespace("team-a")
    shut["metadata"]["labels"]["geotrain.io/enabled"] = value
    assert told(shut) == f"namespace team-a has not opted in; in its cluster run: {LABEL}"
    assert LABEL in told(manifests.namespace("team-a", enabled=False))


def test_one_that_goes_is_shut():
    going = manifests.namespace("team-a")
    going["metadata"]["deletionTimestamp"] = "2026-01-01T00:00:00Z"
    assert told(going) == "namespace team-a is being deleted"


@pytest.mark.parametrize(
    ("accounts", "spec", "account", "path"),
    [
        ("", {"serviceAccountName": "a"}, "a", "spec.template.spec.serviceAccountName"),
        ("b", {"serviceAccountName": "a"}, "a,b", "spec.template.spec.serviceAccountName"),
        (
            "",
            {"automountServiceAccountToken": True},
            "default",
            "spec.template.spec.automountServiceAccountToken",
        ),
        (
            "",
            {"volumes": TOKEN},
            "default",
            "spec.template.spec.volumes[0].projected.sources[1].serviceAccountToken",
        ),
    ],
)
def test_an_account_that_is_not_listed_is_not_used(accounts, spec, account, path):
    said = told(manifests.namespace("team-a", accounts=accounts), **spec)
    command = (
        f"kubectl annotate --overwrite namespace team-a geotrain.io/service-accounts={account}"
    )
    assert path in said
    assert said.endswith(command)


@pytest.mark.parametrize(
    ("accounts", "spec"),
    [
        ("", {"serviceAccountName": "default"}),
        ("", {"automountServiceAccountToken": False}),
        (" b , a ", {"serviceAccountName": "a", "automountServiceAccountToken": True}),
        ("default", {"automountServiceAccountToken": True, "volumes": TOKEN}),
    ],
)
def test_an_account_that_is_listed_is_used(accounts, spec):
    assert told(manifests.namespace("team-a", accounts=accounts), **spec) == ""


@pytest.mark.parametrize(
    ("spec", "mounted"),
    [
        ({}, False),
        ({"automountServiceAccountToken": None}, False),
        ({"serviceAccountName": "default"}, False),
        ({"automountServiceAccountToken": True}, True),
        ({"serviceAccountName": "a"}, None),
        ({"serviceAccountName": "a", "automountServiceAccountToken": False}, False),
    ],
)
def test_the_default_account_gives_no_token_unasked(spec, mounted):
    assert without_token(spec).get("automountServiceAccountToken") is mounted
