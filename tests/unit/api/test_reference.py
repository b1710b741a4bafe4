"""The reference pages name every field, rule and reason."""

import pytest

from geotrain.api import crd, reference
from geotrain.api.reasons import ConditionType, Reason
from geotrain.api.v1alpha1 import KINDS, Resource

PAGES = reference.pages(crd.root_schema)


def test_the_index_links_every_page() -> None:
    for name in PAGES.keys() - {"README.md"}:
        assert f"({name})" in PAGES["README.md"]


def test_every_condition_and_reason_is_explained() -> None:
    for word in (*ConditionType, *Reason):
        assert f"| `{word}` | {word.__doc__} |" in PAGES["reasons.md"]


@pytest.mark.parametrize("kind", KINDS, ids=lambda k: k.__name__)
def test_a_kind_has_its_columns_and_rules(kind: type[Resource]) -> None:
    page = PAGES[f"{kind.__name__.lower()}.md"]
    for column in kind.COLUMNS:
        assert f"| {column.name} | {column.description} |" in page
    for rule in kind.RULES:
        assert f"- `metadata.name`: {rule['message']}" in page


@pytest.mark.parametrize(
    "row",
    [
        "| `spec.parallelism.data` | integer or auto | `1` |",
        "| `spec.parallelism.pipeline` | integer | required |",
        '| `spec.placement.policy` | Atlas, Fixed | `"Atlas"` |',
        "| `spec.placement` | object |  |",
        "| `spec.placement.stages[].dataCenter` | string | required |",
        "| `spec.placement.dataCenters[]` | list of string | `[]` |",
        "| `status.startTime` | date-time |  |",
        "| `status.observed.planError` | number |  | \\|measured - planned\\| / planned",
    ],
)
def test_a_row_says_type_and_default(row: str) -> None:
    assert row in PAGES["geotrainingjob.md"]


def test_a_rule_is_shown_with_its_field() -> None:
    rule = "- `spec.batch`: global must be a multiple of micro"
    assert rule in PAGES["geotrainingjob.md"]
    assert "- `spec.flows[].rate`: write a rate above 0" in PAGES["bandwidthschedule.md"]
