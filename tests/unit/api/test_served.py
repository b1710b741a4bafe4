"""Which definitions suffice: an older one is found by what it does not take in."""

from collections.abc import Callable
from copy import deepcopy
from typing import Any

import pytest

from geotrain.api import crd, served

Schema = dict[str, Any]
Change = Callable[[Schema], Any]


def definition(schema: Schema, **version: Any) -> dict[str, Any]:
    """A definition with one version of one schema."""
    one = {"name": "v1alpha1", "served": True, "subresources": {"status": {}}}
    return {
        "spec": {
            "scope": "Namespaced",
            "versions": [{**one, "schema": {"openAPIV3Schema": schema}, **version}],
        }
    }


OWN: Schema = {
    "type": "object",
    "properties": {
        "spec": {
            "type": "object",
            "required": ["size"],
            "properties": {
                "size": {"type": "integer", "minimum": 1, "maximum": 64},
                "note": {"type": "string"},
                "policy": {"type": "string", "enum": ["Fixed", "Auto"]},
                "rate": {"x-kubernetes-int-or-string": True},
                "parts": {
                    "type": "array",
                    "items": {"type": "object", "properties": {"name": {"type": "string"}}},
                },
                "tags": {"type": "object", "additionalProperties": {"type": "string"}},
                "template": {"type": "object", "x-kubernetes-preserve-unknown-fields": True},
            },
        }
    },
}


def fields(schema: Schema) -> Schema:
    found: Schema = schema["properties"]["spec"]["properties"]
    return found


OLDER: list[tuple[str, Change, str]] = [
    ("no field", lambda s: fields(s).pop("note"), "spec.note"),
    (
        "no field of an item",
        lambda s: fields(s)["parts"]["items"]["properties"].pop("name"),
        "spec.parts[].name",
    ),
    ("no items", lambda s: fields(s)["parts"].pop("items"), "spec.parts[]"),
    ("no free keys", lambda s: fields(s)["tags"].pop("additionalProperties"), "spec.tags.*"),
    (
        "closed",
        lambda s: fields(s)["template"].pop("x-kubernetes-preserve-unknown-fields"),
        "unknown fields of spec.template",
    ),
    ("another type", lambda s: fields(s)["size"].update(type="string"), "spec.size as integer"),
    (
        "a type",
        lambda s: fields(s)["rate"].update(
            {"type": "integer", "x-kubernetes-int-or-string": False}
        ),
        "spec.rate as int-or-string",
    ),
    ("fewer values", lambda s: fields(s)["policy"]["enum"].remove("Auto"), "spec.policy=Auto"),
    ("values", lambda s: fields(s)["note"].update(enum=["a"]), "spec.note=any value"),
    (
        "a lower maximum",
        lambda s: fields(s)["size"].update(maximum=32),
        "spec.size above a maximum of 32",
    ),
    (
        "a higher minimum",
        lambda s: fields(s)["size"].update(minimum=2),
        "spec.size below a minimum of 2",
    ),
    (
        "a maximum",
        lambda s: fields(s)["note"].update(maxLength=3),
        "spec.note above a maxLength of 3",
    ),
    (
        "more required",
        lambda s: s["properties"]["spec"]["required"].append("note"),
        "leaving out spec.note",
    ),
    ("nothing", lambda s: s.pop("properties"), "spec"),
]


@pytest.mark.parametrize(("change", "found"), [o[1:] for o in OLDER], ids=[o[0] for o in OLDER])
def test_what_an_older_one_lacks_is_named(change: Change, found: str) -> None:
    older = deepcopy(OWN)
    change(older)
    assert served.lacking(definition(older), definition(OWN)) == (found,)
    assert not served.is_newer(definition(older), definition(OWN))


@pytest.mark.parametrize(
    "change",
    [
        lambda s: fields(s).update(overrides={"type": "array"}),
        lambda s: fields(s)["policy"]["enum"].append("Cheapest"),
        lambda s: fields(s)["size"].pop("maximum"),
        lambda s: s["properties"]["spec"].pop("required"),
    ],
    ids=["a field", "a value", "no maximum", "less required"],
)
def test_a_newer_one_suffices_and_is_known_as_newer(change: Change) -> None:
    newer = deepcopy(OWN)
    change(newer)
    assert served.lacking(definition(newer), definition(OWN)) == ()
    assert served.is_newer(definition(newer), definition(OWN))


def test_what_only_a_reader_sees_makes_no_difference() -> None:
    other = deepcopy(OWN)
    fields(other)["note"]["description"] = "another word"
    fields(other)["note"]["x-kubernetes-validations"] = [{"rule": "true"}]
    assert served.lacking(definition(other), definition(OWN)) == ()
    assert not served.is_newer(definition(other), definition(OWN))


def test_a_version_that_is_not_served_does_not_suffice() -> None:
    assert served.lacking(definition(OWN, served=False), definition(OWN)) == ("version v1alpha1",)
    assert served.lacking(definition(OWN, name="v1alpha0"), definition(OWN)) == (
        "version v1alpha1",
    )
    assert served.lacking({"spec": {"scope": "Namespaced"}}, definition(OWN)) == (
        "version v1alpha1",
    )


def test_scope_and_status_are_looked_at() -> None:
    other = definition(OWN)
    other["spec"]["scope"] = "Cluster"
    assert served.lacking(other, definition(OWN)) == ("scope Namespaced",)
    assert served.lacking(definition(OWN, subresources=None), definition(OWN)) == (
        "the subresource status",
    )


def test_one_with_a_further_version_is_newer() -> None:
    other = definition(OWN)
    other["spec"]["versions"].append({"name": "v1beta1", "served": True})
    assert served.is_newer(other, definition(OWN))


def test_a_schema_that_keeps_all_suffices() -> None:
    keeps = {"type": "object", "x-kubernetes-preserve-unknown-fields": True}
    assert served.lacking(definition(keeps), definition(OWN)) == ()


@pytest.mark.parametrize("own", crd.definitions(), ids=lambda d: d["metadata"]["name"])
def test_every_definition_suffices_for_itself(own: dict[str, Any]) -> None:
    assert served.lacking(own, own) == ()
    assert not served.is_newer(own, own)


def test_the_digest_follows_from_the_spec() -> None:
    first, second = crd.definitions()[:2]
    notes = [each["metadata"]["annotations"][crd.DIGEST] for each in (first, second)]
    assert notes[0] != notes[1]
    assert notes[0] == crd.definitions()[0]["metadata"]["annotations"][crd.DIGEST]
