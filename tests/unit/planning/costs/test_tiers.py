"""What a message gets of a link, by size."""

import csv
from pathlib import Path

import pytest

from geotrain.api import calibrations
from geotrain.planning.costs import collectives, tiers
from geotrain.planning.costs.accelerators import ACCELERATORS
from geotrain.planning.costs.tiers import Constant, Tier

TABLE = Path(__file__).parents[3] / "data" / "vtrain" / "all_reduce_8_gpus.csv"


def test_the_table_of_all_reduces_is_met_between_its_points():
    """Rows of vTrain's table that are no points of ours."""
    with TABLE.open() as lines:
        rows = [(float(row[0]), float(row[3]) * 1e-9) for row in list(csv.reader(lines))[1:]]
    tier = Tier(calibrations.links_of(ACCELERATORS["A100"]))
    for size, seconds in rows:
        assert collectives.all_reduce(size, 8, tier) == pytest.approx(seconds, rel=0.12)


def test_a_share_of_a_tier_takes_as_much_longer():
    whole = Tier(Constant(1.6e10))
    assert whole.occupancy(2e9) == 1.0
    assert tiers.busiest(whole, 4).occupancy(2e9) == 4.0
