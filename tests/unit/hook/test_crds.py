"""Which definitions are written before an upgrade."""

from copy import deepcopy
from typing import Any

from geotrain.api.crd import definitions
from geotrain.roles.hook import crds

OWN = definitions()[:2]
NAMES = [each["metadata"]["name"] for each in OWN]


def served(first: dict[str, Any]) -> dict[str, Any]:
    return {NAMES[0]: first, NAMES[1]: OWN[1]}


def changed(**field: Any) -> dict[str, Any]:
    copy = deepcopy(OWN[0])
    schema = copy["spec"]["versions"][0]["schema"]["openAPIV3Schema"]
    properties = schema["properties"]["spec"]["properties"]
    for name, value in field.items():
        if value is None:
            del properties[name]
        else:
            properties[name] = value
    return copy


def test_all_that_are_missing_are_installed() -> None:
    assert crds.to_apply(OWN, {}) == OWN
    assert crds.said(OWN, {}) == tuple(f"{name}: is installed" for name in NAMES)


def test_an_older_one_and_an_equal_one_are_brought_up_to_date() -> None:
    older = served(changed(gpuResource=None))
    assert crds.to_apply(OWN, older) == OWN
    assert crds.said(OWN, older)[0].endswith("is brought up to date")


def test_a_newer_one_is_left_as_it_is() -> None:
    newer = served(changed(colour={"type": "string"}))
    assert crds.to_apply(OWN, newer) == OWN[1:]
    assert crds.said(OWN, newer)[0].endswith("is newer, and stays")


def test_one_that_lacks_something_is_written_though_it_has_more() -> None:
    both = served(changed(colour={"type": "string"}, gpuResource=None))
    assert crds.to_apply(OWN, both) == OWN


def test_established_is_a_condition() -> None:
    assert not crds.is_established({})
    assert not crds.is_established(
        {"status": {"conditions": [{"type": "Established", "status": "False"}]}}
    )
    assert crds.is_established(
        {"status": {"conditions": [{"type": "Established", "status": "True"}]}}
    )
