"""The example profiles say what was measured."""

import json
from pathlib import Path

import pytest
import yaml

from examples.prefill.kernels import LayerTimes
from examples.trainer.profile import stage_profile
from examples.trainer.settings import Place
from geotrain.api import convert

EXAMPLES = Path(__file__).parents[3] / "examples"
MEASURED = json.loads((EXAMPLES / "data" / "h200_profile.json").read_text())


def maps(name):
    documents = yaml.safe_load_all((EXAMPLES / "three-dc" / name).read_text())
    return {document["metadata"]["name"]: document["data"] for document in documents}


def block(hidden, sequence):
    return next(
        entry
        for entry in MEASURED["layers"]
        if entry["hidden"] == hidden and entry["seq"] == sequence
    )


TRAINING = maps("profile.yaml")["gpt-profile"]["profile.json"]


def test_the_training_profile_is_the_measured_block():
    measured = block(8192, 4096)
    entry = json.loads(TRAINING)["layers"][0]
    weight = measured["backward_ms"] - measured["backward_input_ms"]
    assert float(entry["forward"].removesuffix("ms")) == pytest.approx(
        measured["forward_ms"], abs=5e-4
    )
    assert float(entry["inputGradient"].removesuffix("ms")) == pytest.approx(
        measured["backward_input_ms"], abs=5e-4
    )
    assert float(entry["weightGradient"].removesuffix("ms")) == pytest.approx(weight, abs=5e-4)
    assert json.loads(TRAINING)["boundaryBytes"] == str(measured["boundary_bytes"] // 80)


def test_trainer_and_planner_read_the_training_profile_alike():
    planned = convert.profile(json.loads(TRAINING))
    place = Place(0, 0, 0, 6, 1, 8, 1, "", 1, 0, None, recompute="none")
    mine = stage_profile(TRAINING, place)
    assert mine.seconds["F"] == pytest.approx(9 * planned.layers[0].forward)
    assert mine.seconds["B"] == pytest.approx(9 * planned.layers[0].backward)
    assert mine.boundary == planned.boundary
    assert len(planned.layers) == 54


def points(name):
    return json.loads(maps("prefill-profile.yaml")[name]["prefill.json"])


def measured_70b():
    return {s: block(8192, s)["forward_nograd_ms"] for s in (2048, 4096, 6144)}


def measured_8b():
    rows = MEASURED["prefill_llama3_8b_shape"]
    return {row["tokens"]: row["one_layer_ms"] for row in rows if row["tokens"] >= 256}


@pytest.mark.parametrize(
    ("name", "layers", "expected"),
    [("chat-profile", 80, measured_70b()), ("chat-8b-profile", 32, measured_8b())],
)
def test_the_prefill_profiles_are_the_measured_layers(name, layers, expected):
    document = points(name)
    assert document["layers"] == layers
    found = {p["tokens"]: float(p["time"].removesuffix("ms")) for p in document["layerTimes"]}
    assert found == pytest.approx(expected, abs=6e-4)


def test_the_largest_profile_is_four_times_the_measured_layer():
    found = {
        p["tokens"]: float(p["time"].removesuffix("ms"))
        for p in points("chat-405b-profile")["layerTimes"]
    }
    assert found == pytest.approx({n: 4 * t for n, t in measured_70b().items()}, abs=3e-3)


@pytest.mark.parametrize("name", ["chat-profile", "chat-405b-profile", "chat-8b-profile"])
def test_worker_and_router_read_the_prefill_profiles_alike(name):
    text = json.dumps(points(name))
    times, profile = LayerTimes.from_json(text), convert.prefill_profile(json.loads(text))
    for tokens in (100, 2048, 3000, 8000):
        assert times.layer(tokens) == pytest.approx(profile.layer_time(tokens))
        assert max(chunk.seconds for chunk in times.chunks(tokens)) <= times.longest_kernel
        assert times.longest_kernel == profile.longest_kernel
