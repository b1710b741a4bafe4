"""What the controller says of a hub whose definitions do not suffice."""

from copy import deepcopy
from typing import Any

import pytest

from geotrain.api.crd import definitions as own_definitions
from geotrain.roles.controller import definitions

OWN = own_definitions()


@pytest.fixture
def served() -> dict[str, Any]:
    return {each["metadata"]["name"]: deepcopy(each) for each in OWN}


def spec_of(definition: dict[str, Any]) -> dict[str, Any]:
    schema = definition["spec"]["versions"][0]["schema"]["openAPIV3Schema"]
    found: dict[str, Any] = schema["properties"]["spec"]["properties"]
    return found


def test_its_own_suffice(served: dict[str, Any]) -> None:
    assert definitions.problem(OWN, served) == ""


def test_an_older_one_is_named_with_its_field_and_the_way_out(served: dict[str, Any]) -> None:
    del spec_of(served["geotrainingjobs.geotrain.io"])["schedule"]
    said = definitions.problem(OWN, served)
    assert said.startswith(
        "CustomResourceDefinition geotrainingjobs.geotrain.io is older than this controller"
    )
    assert "lacks spec.schedule: run `helm show crds" in said
    assert "\n" not in said


def test_a_missing_one_is_named(served: dict[str, Any]) -> None:
    del served["wanlinks.geotrain.io"]
    assert "CustomResourceDefinition wanlinks.geotrain.io is missing" in definitions.problem(
        OWN, served
    )


def test_many_lacks_are_counted(served: dict[str, Any]) -> None:
    fields = spec_of(served["geotrainingjobs.geotrain.io"])
    for name in list(fields)[:7]:
        del fields[name]
    assert "and 2 more" in definitions.problem(OWN, served)


def test_a_newer_one_is_fine(served: dict[str, Any]) -> None:
    spec_of(served["datacenters.geotrain.io"])["colour"] = {"type": "string"}
    assert definitions.problem(OWN, served) == ""
