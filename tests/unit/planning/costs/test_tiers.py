"""What a message gets of a link, by size."""

import csv
import json
import math
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from geotrain.errors import InputError
from geotrain.planning.costs import collectives, tiers
from geotrain.planning.costs.clusters import NVSWITCH_A100
from geotrain.planning.costs.tiers import Constant, Points, Polynomial, Tier

DATA = Path(__file__).parents[3] / "data"
NODES = json.loads((DATA / "sailor" / "intra_node_bandwidths.json").read_text())
ZONES = json.loads((DATA / "sailor" / "multizone_bandwidths.json").read_text())
MIB = 2**20


def test_a_fit_of_sailor_is_in_gigabytes_a_second_of_mebibytes():
    fit = tiers.sailor_node(NODES, "A100-40", 4)
    assert fit.rate(MIB) == pytest.approx(31.19114521 * 8e9)
    x = math.log2(64)
    assert fit.rate(64 * MIB) == pytest.approx(
        (0.8303558 * x * x + 15.58397854 * x + 31.19114521) * 8e9
    )
    assert fit.rate(2**40) == pytest.approx(8 * 243214602913.50012)


def test_a_fit_is_held_where_it_says_nothing():
    fit = tiers.sailor_node(NODES, "V100-16", 2)
    assert fit.rate(1) == fit.rate(MIB)
    top = 7.21163513 / (2 * 0.2045115)
    assert fit.rate(2 ** (top + 5) * MIB) == fit.rate(2 ** (top + 9) * MIB)


FITS = [tiers.sailor_fit(fit) for kind in NODES.values() for fit in kind.values()]


def zone_fits(content):
    if isinstance(content, dict):
        return [fit for inner in content.values() for fit in zone_fits(inner)]
    return [tiers.sailor_fit(content)]


@given(
    fit=st.sampled_from([*FITS, *zone_fits(ZONES), NVSWITCH_A100, Constant(5e9)]),
    size=st.floats(1, 2e10),
    more=st.floats(1, 4),
)
def test_more_bytes_never_take_less_time(fit, size, more):
    tier = Tier(fit, 1e-5)
    assert tier.seconds(size * more) >= tier.seconds(size) * (1 - 1e-9)


@pytest.mark.parametrize(
    "content",
    [
        None, 7, [], [[1, 2], 3], [[1, 2, 3], "x"], [[1, 2, math.nan], 3], [[0, 0, -1], 3],
        [[0, 0, 1], -3], [[True, 1, 1], 3], ["x" * 99, 3],
    ],
)  # fmt: skip
def test_a_wrong_fit_is_said(content):
    with pytest.raises(InputError, match="network fit"):
        tiers.sailor_fit(content)


@pytest.mark.parametrize(
    ("content", "kind", "gpus", "said"),
    [
        (NODES, "H100", 4, "it has A100-40, V100-16"),
        (NODES, "A100-40", 8, "2, 4 GPUs a node, not 8"),
        ([], "A100-40", 8, "it has nothing"),
    ],
)
def test_a_missing_fit_names_what_there_is(content, kind, gpus, said):
    with pytest.raises(InputError) as refusal:
        tiers.sailor_node(content, kind, gpus)
    assert said in str(refusal.value)


@given(
    junk=st.recursive(
        st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=3),
        lambda inner: st.lists(inner, max_size=4),
        max_leaves=6,
    )
)
def test_whatever_is_read_gives_a_fit_or_one_sentence(junk):
    said = []
    for content in (junk, [junk, 5e9], [[junk, 1, 1], 5e9]):
        try:
            assert tiers.sailor_fit(content).rate(MIB) > 0
        except InputError as error:
            said.append(str(error))
    assert not any("\n" in sentence for sentence in said)


def test_points_are_joined_by_lines_over_the_logarithm():
    points = Points((1.0, 4.0, 16.0), (10.0, 20.0, 40.0))
    assert [points.rate(size) for size in (0.5, 1, 2, 4, 8, 16, 99)] == [
        5, 10, 15, 20, 30, 40, 40,
    ]  # fmt: skip


def test_the_table_of_all_reduces_is_met_between_its_points():
    """Rows of vTrain's table that are no points of ours."""
    with (DATA / "vtrain" / "all_reduce_8_gpus.csv").open() as lines:
        rows = [(float(row[0]), float(row[3]) * 1e-9) for row in list(csv.reader(lines))[1:]]
    tier = Tier(NVSWITCH_A100)
    for size, seconds in rows:
        assert collectives.all_reduce(size, 8, tier) == pytest.approx(seconds, rel=0.12)


def test_a_share_of_a_tier_takes_as_much_longer():
    whole = Tier(Polynomial(0, 0, 2, 1e12))
    assert tiers.busiest(whole, 4).occupancy(MIB) == 4 * whole.occupancy(MIB)
