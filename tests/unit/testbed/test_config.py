"""The bed's description: what it may say, and what is wrong with one that contradicts itself."""

import copy
from typing import Any

import pytest
import yaml

from e2e.testbed.config import BED, load, parse
from geotrain.errors import InputError

TABLE = "Source,West US,South Central US,East US\nWest US,,38,72\nSouth Central US,44,,47\n"
DOCUMENT: dict[str, Any] = yaml.safe_load(BED.read_text())


def changed(*path: str, value: Any) -> dict[str, Any]:
    document = copy.deepcopy(DOCUMENT)
    place = document
    for key in path[:-1]:
        place = place[key]
    place[path[-1]] = value
    return document


def test_the_projects_own_bed_keeps_the_public_ratio_of_capacity_to_window() -> None:
    bed = load()
    neighbours = [bed.wan.round_trip(bed.hub.name, dc.name) for dc in bed.others(bed.hub.name)]
    connections = [bed.wan.pod_rate / 8 * rtt / bed.wan.window for rtt in neighbours]
    assert sum(connections) / len(connections) == pytest.approx(17, rel=0.1)


def test_a_pairs_time_is_the_mean_of_both_directions() -> None:
    assert parse(DOCUMENT, TABLE).wan.round_trip("dc-central", "dc-west") == pytest.approx(0.041)


def test_one_direction_suffices() -> None:
    assert parse(DOCUMENT, TABLE).wan.round_trip("dc-west", "dc-east") == pytest.approx(0.072)


def test_data_centres_are_found_by_name() -> None:
    bed = parse(DOCUMENT, TABLE)
    assert bed["dc-east"].node == "dc-east-control-plane"
    assert [dc.name for dc in bed.others("dc-central")] == ["dc-west", "dc-east"]


@pytest.mark.parametrize(
    ("document", "table", "message"),
    [
        (DOCUMENT, "Source,West US\n", "no round-trip time between South Central US and"),
        (changed("dataCenters", "dc-west", "hub", value=True), TABLE, "exactly one"),
        (changed("dataCenters", "dc-central", "hub", value=False), TABLE, "not none"),
        (
            changed("dataCenters", "dc-east", "podSubnet", value="10.101.4.0/24"),
            TABLE,
            "subnet 10.101.4.0/24 of dc-east overlaps 10.101.0.0/16 of dc-west",
        ),
        (changed("wan", "podRate", value="1G"), TABLE, "podRate must not exceed"),
        ({"dataCenters": {}}, TABLE, "lacks 'wan'"),
    ],
)
def test_what_is_wrong_is_said(document: dict[str, Any], table: str, message: str) -> None:
    with pytest.raises(InputError, match=message):
        parse(document, table)
