"""Published profiles, read as they are; and whatever else is put in their place."""

import json
from copy import deepcopy
from dataclasses import replace
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from geotrain.errors import InputError
from geotrain.planning.costs import layers, profiles
from geotrain.planning.costs.accelerators import ACCELERATORS
from geotrain.planning.costs.calibrations import Calibration, Device
from geotrain.planning.costs.layers import Exchanges, Split, Training
from geotrain.planning.costs.memory import Sharing
from geotrain.planning.costs.shapes import Shape
from geotrain.planning.schedule.costs import gradients, stage_costs

DATA = Path(__file__).parents[3] / "data"
NEO = json.loads((DATA / "sailor" / "profile_GPT-Neo-2.7_A100-40.json").read_text())
H200 = json.loads((DATA / "h200" / "h200_profile.json").read_text())
SHAPE = Shape(32, 2560, 20, 2048, 50257, fused=True)
BLOCKS = Shape(3, 4096, 32, 4096, 50257, fused=True)


def sailor(content, micro_batch=1, tensor=1, shape=SHAPE):
    shape = replace(shape, micro_batch=micro_batch)
    return profiles.sailor(content, shape, Training(), divided(tensor))


def h200(content, shape=BLOCKS, tensor=1):
    return profiles.h200(content, shape, Training(), divided(tensor))


def divided(tensor):
    return Split(Sharing(tensor=tensor))


def estimated(shape, name, tensor=1):
    device = Device(ACCELERATORS[name], Calibration(matrix_share=0.71, memory_share=0.95))
    return layers.profile(shape, device, Training(), divided(tensor), Exchanges())


def test_sailors_outer_key_is_the_micro_batch_and_the_inner_one_the_tensor_degree():
    one, eight, divided = sailor(NEO), sailor(NEO, micro_batch=8), sailor(NEO, tensor=4)
    assert len(one.layers) == 32
    assert one.layers[1].forward == 0.004861
    assert one.layers[1].backward == pytest.approx(0.011729)
    assert 7 < eight.layers[1].forward / one.layers[1].forward < 9
    assert divided.layers[1].forward < one.layers[1].forward


def test_embedding_and_output_are_in_the_first_and_in_the_last_layer():
    first, *_, last = sailor(NEO).layers
    rows = NEO["1"]["1"]
    assert first.forward == rows["0"][0] + rows["1"][0]
    assert last.forward == rows["32"][0] + rows["33"][0]
    assert last.backward == pytest.approx(rows["32"][1] + rows["33"][1])
    assert (first.recompute, last.recompute) == (rows["1"][0], rows["32"][0])


def test_a_norm_before_the_output_is_in_the_last_layer_too():
    with_norm = deepcopy(NEO)
    with_norm["1"]["1"]["34"] = [0.5, 0.25, 0.125]
    last, usual = sailor(with_norm).layers[-1], sailor(NEO).layers[-1]
    assert last.forward == pytest.approx(usual.forward + 0.5)
    assert last.backward == pytest.approx(usual.backward + 0.25)
    assert last.step == pytest.approx(usual.step + 0.125)
    assert last.recompute == usual.recompute


def test_every_listed_layer_has_its_part_of_the_optimizers_step():
    (whole,) = stage_costs(sailor(NEO), (32,), recompute=False)
    assert whole.step == pytest.approx(34 * 0.00655)


@pytest.mark.parametrize("tensor", [1, 4])
def test_sizes_are_those_of_an_estimate(tensor):
    made = sailor(NEO, tensor=tensor)
    estimate = estimated(SHAPE, "A100", tensor)
    assert made.boundary == estimate.boundary == 2048 * 2560 * 2
    for mine, other in zip(made.layers, estimate.layers, strict=True):
        assert (mine.activation, mine.parameters) == (other.activation, other.parameters)
    assert gradients(made, made.layers) == gradients(estimate, estimate.layers)


def test_the_h200s_file_splits_the_backward():
    made = h200(H200)
    assert len(made.layers) == 3
    layer = made.layers[0]
    assert layer.forward == pytest.approx(2.5862e-3)
    assert layer.input_gradient == pytest.approx(3.979e-3)
    assert layer.backward == pytest.approx(6.2809e-3)
    assert made.boundary == 33_554_432


def test_what_the_h200s_file_does_not_hold_is_estimated_on_its_device():
    made = h200(H200)
    estimate = estimated(BLOCKS, "H200")
    assert [layer.step for layer in made.layers] == [layer.step for layer in estimate.layers]
    first, _, last = made.layers
    head = estimate.layers[2].forward - estimate.layers[1].forward
    assert last.forward == pytest.approx(first.forward + head)
    assert last.recompute == first.forward
    (only,) = h200(H200, replace(BLOCKS, layers=1)).layers
    assert only.forward == last.forward


def test_a_form_is_told_by_what_it_holds():
    assert profiles.reader(NEO) is profiles.sailor
    assert profiles.reader(H200) is profiles.h200
    for other in (
        {},
        {1: {}},
        {"layers": 3},
        {"layers": [1, {"forward": "1ms"}]},
        {"boundaryBytes": 1},
    ):
        assert profiles.reader(other) is None


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
        (broken(NEO, "1", "1", "33"), "33 layers are listed; a model of 32 has 34 with embedding"),
        (broken(NEO, "1", "1", "5", value=[1, 10**400, 3]), "is no finite number"),
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
        (
            {"layers": []},
            "block 4096 x 4096, batch 1 (hidden x seq) is not measured; there is none",
        ),
        (broken(H200, "layers", 4, "batch"), "there is 2048 x 2048, batch 1; 2048 x 4096, batch 1"),
        (broken(H200, "device"), "the device None is not known"),
        (broken(H200, "device", value="TPU-v5"), "'TPU-v5' is not known, and output and optimizer"),
        (broken(H200, "layers", 4, "forward_ms"), "forward_ms: None is no finite number"),
        (broken(H200, "layers", 4, "backward_input_ms", value=9), "more than backward_ms"),
    ],
)
def test_a_wrong_h200_profile_is_said_in_one_sentence(content, said):
    with pytest.raises(InputError) as refusal:
        h200(content)
    assert said in str(refusal.value)


def test_blocks_are_measured_without_tensor_parallelism():
    with pytest.raises(InputError, match="measured with tensor degree 1, not 8"):
        h200(H200, tensor=8)


@pytest.mark.parametrize(
    "device", ["NVIDIA H200", "NVIDIA H100 80GB HBM3", "NVIDIA A100-SXM4-80GB"]
)
def test_a_device_is_known_by_a_word_of_its_name(device):
    assert h200(broken(H200, "device", value=device)).layers[0].step > 0


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
    block = {"hidden": 4096, "seq": 4096, "batch": 1, "forward_ms": row, "backward_ms": row}
    said = []
    contents = [junk, {"1": junk}, {"1": {"1": junk}}, {"1": {"1": {"0": row}}}]
    contents += [{"layers": junk}, {"layers": [junk]}, {"layers": [block], "device": junk}]
    for read in (sailor, h200):
        for content in contents:
            try:
                made = read(content)
                assert made.layers
            except InputError as error:
                said.append(str(error))
    assert not any("\n" in sentence for sentence in said)
