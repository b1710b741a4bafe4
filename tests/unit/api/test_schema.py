"""Golden tests: each construct that pydantic writes, and what becomes of it in a CRD."""

from datetime import datetime
from typing import Annotated, Any, Literal

import pytest
from pydantic import BaseModel, ConfigDict, Field

from geotrain.api.schema import UnknownConstruct, structural
from geotrain.api.v1alpha1.fields import Duration, OpenModel, SpecModel, rule, rules
from geotrain.api.v1alpha1.geo_training_job import Auto


class Inner(SpecModel):
    """What it is."""

    size: int = 3
    """How big."""
    note: str | None = None
    """A remark."""


def translated(annotation: Any, default: Any = ...) -> dict[str, Any]:
    """The schema of one field."""

    class Model(BaseModel):
        field: annotation = default  # type: ignore[valid-type]

    schema: dict[str, Any] = structural(Model.model_json_schema())["properties"]["field"]
    return schema


INNER = {
    "type": "object",
    "properties": {
        "size": {"description": "How big.", "type": "integer", "default": 3},
        "note": {"description": "A remark.", "type": "string"},
    },
}


@pytest.mark.parametrize(
    ("annotation", "expected"),
    [
        (int, {"type": "integer"}),
        (str, {"type": "string"}),
        (bool, {"type": "boolean"}),
        (float, {"type": "number"}),
        (datetime, {"type": "string", "format": "date-time"}),
        (Literal["a", "b"], {"type": "string", "enum": ["a", "b"]}),
        (Literal["a"], {"type": "string", "enum": ["a"]}),
        (Annotated[int, Field(ge=1, le=9)], {"type": "integer", "minimum": 1, "maximum": 9}),
        (
            Annotated[int, Field(gt=1, lt=9)],
            {
                "type": "integer",
                "minimum": 1,
                "exclusiveMinimum": True,
                "maximum": 9,
                "exclusiveMaximum": True,
            },
        ),
        (
            Annotated[str, Field(min_length=1, max_length=2, pattern="^a$")],
            {"type": "string", "minLength": 1, "maxLength": 2, "pattern": "^a$"},
        ),
        (
            Annotated[tuple[int, ...], Field(min_length=1, max_length=2)],
            {"type": "array", "items": {"type": "integer"}, "minItems": 1, "maxItems": 2},
        ),
        (
            Annotated[dict[str, str], Field(min_length=1, max_length=2)],
            {
                "type": "object",
                "additionalProperties": {"type": "string"},
                "minProperties": 1,
                "maxProperties": 2,
            },
        ),
        (Inner, {"description": "What it is.", **INNER}),
        (
            Annotated[Inner, Field(description="Here it is.")],
            {"description": "Here it is.", **INNER},
        ),
        (
            Annotated[str, Field(json_schema_extra=rules(rule("self != 'x'", "not x")))],
            {
                "type": "string",
                "x-kubernetes-validations": [{"rule": "self != 'x'", "message": "not x"}],
            },
        ),
    ],
)
def test_construct(annotation: Any, expected: dict[str, Any]) -> None:
    assert translated(annotation) == expected


def test_an_optional_field_is_its_type_and_never_null() -> None:
    assert translated(int | None, None) == {"type": "integer"}
    assert translated(Inner | None, None) == {"description": "What it is.", **INNER}


def test_a_default_loses_its_nulls() -> None:
    assert translated(Inner, Inner())["default"] == {"size": 3}


def test_a_status_has_no_defaults() -> None:
    schema = structural(Inner.model_json_schema(), defaults=False)
    assert "default" not in schema["properties"]["size"]


def test_the_default_of_an_optional_section_that_is_given_stays() -> None:
    assert translated(int | None, 4) == {"type": "integer", "default": 4}


def test_a_pattern_with_a_message_becomes_a_rule() -> None:
    schema = translated(Duration)
    assert "pattern" not in schema
    first = schema["x-kubernetes-validations"][0]
    assert first["message"] == "write a duration like 40ms, 1.5s or 1h30m"
    assert first["rule"].startswith('self.matches("^([0-9]+')


def test_a_number_or_a_word_becomes_int_or_string() -> None:
    schema = translated(Auto)
    assert "type" not in schema
    assert schema["x-kubernetes-int-or-string"] is True


def test_unknown_fields_are_kept_where_the_model_allows_them() -> None:
    class Open(OpenModel):
        """Open."""

        name: str
        """Name."""

    schema = structural(Open.model_json_schema())
    assert schema["x-kubernetes-preserve-unknown-fields"] is True
    assert schema["required"] == ["name"]


def test_wrapped_docstrings_become_one_line() -> None:
    text = Annotated[int, Field(description="first\n    second")]
    assert translated(text)["description"] == "first second"


def test_a_union_is_refused() -> None:
    with pytest.raises(UnknownConstruct, match=r"\.field: a union of 2 types is not structural"):
        translated(int | str)


def test_an_unknown_keyword_is_refused() -> None:
    with pytest.raises(UnknownConstruct, match=r"\.field: multipleOf is not translated yet"):
        translated(Annotated[int, Field(multiple_of=2)])


def test_a_set_is_refused_because_crds_forbid_unique_items() -> None:
    with pytest.raises(UnknownConstruct, match="uniqueItems is not translated yet"):
        translated(set[int])


def test_the_root_is_named_in_a_message() -> None:
    class Strange(BaseModel):
        """Strange."""

        model_config = ConfigDict(json_schema_extra={"not": {}})

    with pytest.raises(UnknownConstruct, match="the schema: not is not translated yet"):
        structural(Strange.model_json_schema())
