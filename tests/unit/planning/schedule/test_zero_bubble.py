"""Bubbles against published figures, and that every order is sound and within its memory."""

import csv
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from geotrain.errors import InputError
from geotrain.model.plan import Kind
from geotrain.planning.schedule import checks, layouts, orders
from geotrain.planning.schedule.bubbles import bubble_ratio
from geotrain.planning.schedule.lists import Rule, list_schedule
from geotrain.planning.schedule.policies import policy
from geotrain.planning.schedule.rounds import Rounds, Stuck
from geotrain.planning.schedule.shop import shop
from geotrain.planning.schedule.timeline import program, replay
from geotrain.planning.schedule.uniform import Uniform
from geotrain.planning.schedule.zero_bubble import (
    LISTED_WHOLE,
    best,
    variants,
    zb_1p,
    zb_2p,
    zero_bubble,
)
from geotrain.planning.schedule.zero_bubble_v import zb_v, zero_bubble_v

DATA = Path(__file__).parents[3] / "data" / "zero_bubble" / "bubbles.csv"
ROWS = list(csv.DictReader(DATA.read_text().splitlines()))
COLUMNS = {
    "1f1b": "f1b_bubble",
    "zb-1p": "zb1p_bubble",
    "zb-2p": "zb2p_bubble",
    "zb-v": "zbv_bubble",
}


def setting(row):
    forward, input_gradient, weight_gradient, transfer = (
        float(row[name]) * 1e-6 for name in ("TF_us", "TB_us", "TW_us", "Tcomm_us")
    )
    return int(row["p"]), int(row["m"]), Uniform(forward, input_gradient, weight_gradient, transfer)


def ratio(order, costs):
    return bubble_ratio(replay(program(order), costs, 1, iterations=1))


def held_in_eighths(row):
    """The most eighths of an activation that a row holds where an input gradient frees five."""
    change = {Kind.FORWARD: 8, Kind.INPUT_GRADIENT: -5, Kind.WEIGHT_GRADIENT: -3}
    held = most = 0
    for action in row:
        held += change[action.kind]
        most = max(most, held)
    return most


@pytest.mark.figures
@pytest.mark.parametrize("row", ROWS, ids=lambda row: f"p{row['p']}-m{row['m']}")
@pytest.mark.parametrize("name", COLUMNS)
@pytest.mark.no_cover  # traced these take several times as long, and others cover the code
def test_bubbles_are_no_larger_than_the_published_ones(row, name):
    devices, micro_batches, times = setting(row)
    chosen = policy(name)
    costs = times.costs(chosen.layout(devices, chosen.chunks))
    order = chosen.order(costs, None, micro_batches)
    assert ratio(order, costs) <= float(row[COLUMNS[name]]) + 0.005


@pytest.mark.parametrize("row", ROWS[:1], ids=lambda row: f"p{row['p']}-m{row['m']}")
def test_memory_is_p_activations_2p_and_that_of_1f1b(row):
    devices, micro_batches, times = setting(row)
    costs = times.costs(layouts.one_stage_each(devices))
    one = zb_1p(costs, micro_batches)
    assert max(checks.peak_in_flight(one)) == devices
    assert max(checks.peak_in_flight(orders.one_f_one_b(devices, micro_batches))) == devices
    two = zb_2p(costs, micro_batches)
    assert 8 * (2 * devices - 1) < max(map(held_in_eighths, two)) <= 8 * 2 * devices
    folded = zb_v(times.costs(layouts.v_shape(devices)), micro_batches)
    # A stage of the V has half a device's layers.
    assert max(checks.peak_in_flight(folded)) == 2 * devices


def test_without_communication_and_with_equal_times_zb_2p_and_zb_v_have_next_to_no_bubble():
    times = Uniform(1.0, 1.0, 1.0)
    line, fold = layouts.one_stage_each(4), layouts.v_shape(4)
    assert ratio(zb_2p(times.costs(line), 16), times.costs(line)) == 0
    assert ratio(zb_v(times.costs(fold), 16), times.costs(fold)) <= 0.011


TIMES = st.floats(0.25, 4)


@given(st.integers(1, 4), st.integers(1, 6), TIMES, TIMES, TIMES, st.floats(0, 2), st.data())
def test_every_zero_bubble_order_is_sound_within_its_memory(p, m, f, i, w, transfer, data):
    times = Uniform(f, i, w, transfer)
    line, fold = times.costs(layouts.one_stage_each(p)), times.costs(layouts.v_shape(p))
    caps = data.draw(st.lists(st.integers(2, 9), min_size=p, max_size=p))
    assert checks.problems(zero_bubble(line, caps, m), caps) == []
    assert checks.problems(zero_bubble_v(fold, caps, m), caps) == []
    assert checks.problems(zb_1p(line, m), [p] * p) == []
    for order in (zb_2p(line, m), zb_v(fold, m)):
        assert checks.problems(order) == []
        assert max(map(held_in_eighths, order)) <= 8 * 2 * p


def test_no_room_for_a_micro_batch_on_each_stage_is_refused():
    costs = Uniform(1.0, 1.0, 1.0).costs(layouts.v_shape(2))
    with pytest.raises(InputError, match=r"rank 1 has room for 1 micro-batches .* runs 2 stages"):
        zero_bubble_v(costs, [2, 1], 4)
    line = Uniform(1.0, 1.0, 1.0).costs(layouts.one_stage_each(2))
    with pytest.raises(InputError, match="rank 0 has room for 0 micro-batches"):
        zero_bubble(line, [0, 1], 4)


@pytest.mark.parametrize("make", [zb_1p, zb_2p])
def test_no_micro_batch_is_no_schedule(make):
    with pytest.raises(InputError, match="give at least one"):
        make(Uniform(1.0, 1.0, 1.0).costs((0, 1)), 0)


def test_no_micro_batch_is_no_v():
    with pytest.raises(InputError, match="give at least one"):
        zb_v(Uniform(1.0, 1.0, 1.0).costs((0, 0)), 0)


def test_what_nobody_made_cannot_be_listed():
    rounds = Rounds(shop(Uniform(1.0, 1.0, 1.0).costs((0, 1)), 3, (2, 2), split=True), 0)
    for listing in (lambda: rounds.forward(1), lambda: rounds.weight_gradient(0)):
        with pytest.raises(Stuck):
            listing()


def test_a_weight_gradient_that_would_delay_a_message_needs_patience():
    place = shop(Uniform(1.0, 1.0, 3.0, 0.5).costs((0, 1)), 2, (2, 2), split=True)
    rows = [
        list_schedule(place, Rule(filler=patience, relieve=False)).rows[0]
        for patience in (0.0, 1.0)
    ]
    assert ["".join("FIW"[code] for code in row) for row in rows] == ["FFIIWW", "FFIWIW"]


def test_variants_that_memory_makes_equal_are_listed_once_and_what_is_asked_for_first():
    tight = variants(3, (1, 1, 1), 0)
    assert len(tight) == len(set(tight)) < len(variants(3, (6, 6, 6), 0))
    assert variants(4, (6,) * 4, 0, [(9, 4, 3, 2)])[0].depths == (6, 4, 3, 2)


def test_of_a_long_iteration_only_what_is_best_for_a_shorter_one_is_made():
    costs = Uniform(1.0, 1.0, 1.0, 0.2).costs((0, 1))
    place = shop(costs, LISTED_WHOLE // 6 + 9, (3, 3), split=True)
    made = []

    def maker(pending):
        def make(some):
            made.append((some.micro_batches == place.micro_batches, pending))
            return [list_schedule(some, Rule(pending=pending))]

        return make

    order = best(place, [maker(pending) for pending in (1, 2, 3)])
    assert [whole for whole, _ in made] == [False] * 3 + [True] * 2
    checks.require_sound(order, (3, 3))


def test_a_v_without_memory_for_rounds_is_listed():
    costs = Uniform(1.0, 2.0, 3.0).costs(layouts.v_shape(3))
    checks.require_sound(zero_bubble_v(costs, (2, 2, 2), 5), (2, 2, 2))
