"""Published profiles, read as they are; and whatever else is put in their place."""

import json
from copy import deepcopy
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from geotrain.errors import InputError
from geotrain.planning.costs import profiles
from geotrain.planning.schedule.costs import stage_costs

DATA = Path(__file__).parents[3] / "data"
NEO = json.loads((DATA / "sailor" / "profile_GPT-Neo-2.7_A100-40.json").read_text())
H200 = json.loads((DATA / "h200" / "h200_profile.json").read_text())
SIZES = {"boundary": 1000, "parameters": 30, "activation": 20, "gradients": 10}


def sailor(content, micro_batch=1, tensor=1):
    return profiles.sailor(content, micro_batch=micro_batch, tensor=tensor, **SIZES)


def h200(content, hidden=4096, sequence=4096, layers=3):
    return profiles.h200(content, hidden=hidden, sequence=sequence, layers=layers)


def test_sailors_outer_key_is_the_micro_batch_and_the_inner_one_the_tensor_degree():
    one, eight, divided = sailor(NEO), sailor(NEO, micro_batch=8), sailor(NEO, tensor=4)
    assert len(one.layers) == 34
    assert one.layers[1].forward == 0.005173
    assert one.layers[1].backward == pytest.approx(0.011632)
    assert 6 < eight.layers[1].forward / one.layers[1].forward < 8
    assert divided.layers[1].forward < one.layers[1].forward


def test_ends_and_the_optimizers_step_count_where_they_run():
    made = sailor(NEO)
    whole, first = (stage_costs(made, layers, recompute=False)[0] for layers in ((34,), (1, 33)))
    assert whole.step == pytest.approx(34 * 0.00655)
    assert first.step == pytest.approx(0.00655)
    assert first.forward == 0.003114


def test_the_h200s_file_splits_the_backward():
    made = h200(H200)
    assert len(made.layers) == 3
    layer = made.layers[0]
    assert layer.forward == pytest.approx(2.5862e-3)
    assert layer.input_gradient == pytest.approx(3.979e-3)
    assert layer.backward == pytest.approx(6.2809e-3)
    assert made.boundary == 33_554_432


def broken(content, *path, value=...):
    changed = deepcopy(content)
    at = changed
    for key in path[:-1]:
        at = at[key]
    if value is ...:
        del at[path[-1]]
    else:
        at[path[-1]] = value
    return changed


@pytest.mark.parametrize(
    ("content", "said"),
    [
        ([], "micro-batchs are the keys of a JSON object"),
        ({}, "micro-batch 1 is not measured; nothing is"),
        ({"2": {}}, "micro-batch 1 is not measured; 2 is"),
        ({"1": {"2": {}}}, "tensor degree 1 is not measured; 2 is"),
        ({"1": 7}, "tensor degrees are the keys of a JSON object, not of 7"),
        ({"1": {"1": {}}}, "give {layer: [forward, backward, update]}"),
        (broken(NEO, "1", "1", "5"), "layer 5 of 33 is missing"),
        (broken(NEO, "1", "1", "5", value=[1, 2]), "layer 5: give [forward, backward, update]"),
        (broken(NEO, "1", "1", "5", value=[1, 2, -3]), "layer 5: -3 is no finite number"),
        (broken(NEO, "1", "1", "5", value=[1, float("nan"), 3]), "nan is no finite"),
        (broken(NEO, "1", "1", "5", value=[1, True, 3]), "True is no finite"),
        (broken(NEO, "1", "1", "5", value=["x" * 99, 2, 3]), "..."),
    ],
)
def test_a_wrong_profile_of_sailor_is_said_in_one_sentence(content, said):
    with pytest.raises(InputError) as refusal:
        sailor(content)
    assert said in str(refusal.value)


@pytest.mark.parametrize(
    ("content", "said"),
    [
        ([], "no object with a list"),
        ({"layers": [1]}, "no object with a list"),
        ({"layers": []}, "no block of 4096 x 4096"),
        (broken(H200, "layers", 4, "forward_ms"), "forward_ms: None is no finite number"),
        (broken(H200, "layers", 4, "backward_input_ms", value=9), "more than backward_ms"),
    ],
)
def test_a_wrong_h200_profile_is_said_in_one_sentence(content, said):
    with pytest.raises(InputError) as refusal:
        h200(content)
    assert said in str(refusal.value)


def test_a_model_needs_a_layer():
    with pytest.raises(InputError, match="at least 1"):
        h200(H200, layers=0)


JUNK = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=4),
    lambda inner: (
        st.lists(inner, max_size=4)
        | st.dictionaries(st.sampled_from(["0", "1", "layers", "hidden", "seq"]), inner, max_size=4)
    ),
    max_leaves=8,
)


@given(junk=JUNK, row=JUNK)
def test_whatever_is_read_gives_a_profile_or_one_sentence(junk, row):
    block = {"hidden": 4096, "seq": 4096, "forward_ms": row, "backward_ms": row}
    said = []
    contents = [junk, {"1": junk}, {"1": {"1": junk}}, {"1": {"1": {"0": row}}}]
    contents += [{"layers": junk}, {"layers": [junk]}, {"layers": [block]}]
    for read in (sailor, h200):
        for content in contents:
            try:
                made = read(content)
                assert made.layers
            except InputError as error:
                said.append(str(error))
    assert not any("\n" in sentence for sentence in said)
