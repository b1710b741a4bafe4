"""Memory against figure 1 of Korthikanti et al., byte for byte."""

import json
from pathlib import Path

import pytest

from benchmarks.calibration import MODELS
from geotrain.planning.costs import memory
from geotrain.planning.costs.memory import Recompute, StateBytes
from geotrain.planning.costs.shapes import Shape

DATA = Path(__file__).parents[3] / "data"
FIGURE = json.loads((DATA / "calculon" / "reference_values.json").read_text())[
    "arXiv2205.05198_fig1_GiB"
]


@pytest.mark.parametrize("model", FIGURE)
@pytest.mark.parametrize(
    ("figure", "recompute", "sequence_parallel"),
    [("none", Recompute.NOTHING, False), ("seqsel", Recompute.ATTENTION, True)],
)
def test_the_first_stage_holds_what_the_paper_says(model, figure, recompute, sequence_parallel):
    shape, layout = MODELS[model]
    one = memory.layer_activation(
        shape, layout.tensor, recompute, sequence_parallel=sequence_parallel
    )
    # With v chunks the first of P devices holds 1 + (P - 1) / (P v) times the activations that it
    # holds with one (ibid., section 4.2.3).
    share = 1 + (layout.pipeline - 1) / (layout.pipeline * layout.chunks)
    share = share if layout.chunks > 1 else 1
    assert one * shape.layers * share / 2**30 == pytest.approx(FIGURE[model][figure]["act"])


@pytest.mark.parametrize("model", FIGURE)
def test_weights_gradients_and_optimizer_state_are_what_the_paper_says(model):
    shape, layout = MODELS[model]
    weights = shape.layer_weights * shape.layers / layout.tensor / layout.pipeline
    per_weight = memory.MIXED_MAIN_GRADIENTS.per_weight()
    assert weights * per_weight / 2**30 == pytest.approx(FIGURE[model]["none"]["par_opt"])


SHAPE = Shape(4, 1024, 16, 512, 1000)


def test_a_full_recompute_keeps_the_input_alone():
    assert memory.layer_activation(SHAPE, 8, Recompute.ALL) == SHAPE.boundary
    shared = memory.layer_activation(SHAPE, 8, Recompute.ALL, sequence_parallel=True)
    assert shared == SHAPE.boundary / 8


def test_a_fused_attention_keeps_no_scores():
    fused = Shape(4, 1024, 16, 512, 1000, fused=True)
    assert memory.layer_activation(fused, 2, Recompute.NOTHING) == memory.layer_activation(
        SHAPE, 2, Recompute.ATTENTION
    )


@pytest.mark.parametrize(("stage", "expected"), [(0, 16), (1, 7), (2, 5.5), (3, 4)])
def test_sharding_divides_optimizer_then_gradients_then_weights(stage, expected):
    assert StateBytes(sharded=stage).per_weight(4) == expected
