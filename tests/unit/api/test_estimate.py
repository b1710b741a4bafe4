"""Costs of a job in each data centre, and how near a measurement they come."""

from typing import Any

import pytest

from geotrain.api import calibrations, convert, estimate
from geotrain.api.v1alpha1 import DataCenter, GeoTrainingJob
from geotrain.errors import InputError
from geotrain.model.topology import Lan
from geotrain.model.workload import Profile
from geotrain.planning.costs.accelerators import ACCELERATORS
from geotrain.planning.costs.shapes import Experts
from support import manifests
from support.manifests import with_field

MODEL = {"layers": 4, "hiddenSize": 4096, "sequenceLength": 4096, "vocabularySize": 50_000}


def job(tensor: int = 1, pipeline: int = 2, micro: int = 1, **model: Any) -> GeoTrainingJob:
    return GeoTrainingJob.from_manifest(
        manifests.training_job(
            model={**MODEL, **model},
            parallelism={"data": 2, "pipeline": pipeline, "tensor": tensor},
            batch={"global": 16, "micro": micro},
        )
    )


def center(name: str = "a", accelerator: Any = "H200", **network: Any) -> DataCenter:
    made = manifests.data_center(name, accelerator=accelerator, network=network)
    if accelerator is None:
        made = with_field(made, "spec.accelerator", ...)
    return DataCenter.from_manifest(made)


def profile(*arguments: Any, **model: Any) -> Profile:
    return estimate.estimated(job(*arguments, **model), [center()]).profile


def test_an_estimate_is_within_a_seventh_of_a_measured_layer() -> None:
    """An H200 took 2.586 ms forward and 6.281 ms backward for this layer."""
    layer = profile().layers[1]
    assert layer.forward == pytest.approx(2.586e-3, rel=0.15)
    assert layer.backward == pytest.approx(6.281e-3, rel=0.15)


def test_tensor_parallelism_divides_memory_but_not_the_boundary_nor_all_of_the_time() -> None:
    alone, eight = profile(1), profile(8)
    assert 1 < alone.layers[1].forward / eight.layers[1].forward < 8
    assert eight.layers[1].parameters * 8 == alone.layers[1].parameters
    assert 1 < alone.layers[1].activation / eight.layers[1].activation < 8
    assert eight.gradient_bytes_per_layer * 8 == alone.gradient_bytes_per_layer
    assert eight.boundary == alone.boundary == 4096 * 4096 * 2


def test_a_larger_micro_batch_and_type_send_more() -> None:
    found = profile(1, 2, 2, parameterDtype="float32")
    assert found.boundary == 2 * 4096 * 4096 * 4
    assert found.layers[1].state == (4 * 12 * 4096**2, 4 * 12 * 4096**2, 8 * 12 * 4096**2)


def test_bytes_of_gradients_and_optimizer_may_be_given() -> None:
    found = profile(gradientBytes=4, optimizerBytes=6).layers[1]
    assert found.parameters == (2 + 4 + 6) * 12 * 4096**2


def test_a_narrow_model_has_a_head() -> None:
    assert estimate.decoder(job(hiddenSize=64)).heads == 1


def test_what_a_job_leaves_out_is_usual_and_what_it_says_counts() -> None:
    usual = estimate.decoder(job())
    assert (usual.heads, usual.kv_heads, usual.width) == (32, 0, 4 * 4096)
    assert (usual.fused, usual.gated, usual.experts, usual.tied) == (True, False, None, False)
    llama = {"heads": 32, "keyValueHeads": 8, "feedForward": 14336, "tiedEmbeddings": True}
    said = estimate.decoder(job(**llama, attention="Unfused"))
    assert (said.kv_heads, said.width, said.gated, said.fused) == (8, 14336, True, False)
    assert said.tied
    assert not estimate.decoder(job(feedForward=14336, gated=False)).gated
    mixtral = estimate.decoder(job(experts={"count": 8, "perToken": 2, "feedForward": 14336}))
    assert (mixtral.experts, mixtral.gated) == (Experts(8, 2, 14336), True)


@pytest.mark.parametrize(
    ("model", "says"),
    [
        (
            {"experts": {"count": 6, "perToken": 2, "feedForward": 64}},
            "count is 6: it must be a mu",
        ),
        ({"heads": 5, "keyValueHeads": 5, "hiddenSize": 4}, ""),
    ],
)
def test_experts_are_shared_evenly_by_a_pod(model: dict[str, Any], says: str) -> None:
    if not says:
        assert estimate.decoder(job(**model)).heads == 5
        return
    with pytest.raises(InputError, match=says):
        estimate.decoder(job(4, **model))


@pytest.mark.parametrize(
    ("model", "says"),
    [
        ({"keyValueHeads": 8}, "keyValueHeads must divide heads; give both"),
        ({"heads": 32, "keyValueHeads": 5}, "keyValueHeads must divide heads"),
        ({"experts": {"count": 2, "perToken": 3, "feedForward": 8}}, "perToken must not exceed"),
        (
            {"feedForward": 8, "experts": {"count": 2, "perToken": 1, "feedForward": 8}},
            "give feedForward of a dense model, or experts",
        ),
    ],
)
def test_an_impossible_model_is_refused(model: dict[str, Any], says: str) -> None:
    with pytest.raises(InputError, match=says):
        job(**model)


def test_each_accelerator_has_its_own_costs_and_the_slowest_stand_for_all() -> None:
    centers = [center("a", "B200"), center("b", "nvidia-a100-80gb"), center("c", "A100")]
    found = estimate.estimated(job(), centers)
    kinds = dict(found.profiles)
    assert list(kinds) == ["A100", "B200"]
    assert found.profile == kinds["A100"]
    assert kinds["B200"].layers[1].forward < kinds["A100"].layers[1].forward
    assert found.places == ()
    assert estimate.estimated(job(), centers[1:]).profiles == ()


def test_data_centres_whose_nodes_differ_have_costs_of_their_own() -> None:
    slow = center("b", "A100", nodeRate="100G")
    found = estimate.estimated(job(8), [center("a", "A100"), slow])
    assert [name for name, _ in found.places] == ["b"]
    work = convert.workload(job(8), found)
    near, far = convert.topology([center("a", "A100"), slow], []).data_centers
    assert work.profile_in(near).layers[1].forward < work.profile_in(far).layers[1].forward


def test_a_group_wider_than_a_node_exchanges_over_the_pods_network() -> None:
    one, two = (
        estimate.estimated(job(8), [center("a", "A100", nodeGpus=gpus)]).profile.layers[1].forward
        for gpus in (8, 4)
    )
    assert two > one


@pytest.mark.parametrize("name", ["X1", "H100-MIG-1g.10gb", "hopper"])
def test_an_unknown_accelerator_is_refused_and_never_another(name: str) -> None:
    with pytest.raises(InputError, match=r"DataCenter b, spec.accelerator: accelerator .* is not"):
        estimate.estimated(job(), [center("a", "A100"), center("b", name)])
    allowed = manifests.training_job(model=MODEL, placement={"dataCenters": ["a"]})
    only = GeoTrainingJob.from_manifest(allowed)
    assert estimate.estimated(only, [center("a", "A100"), center("b", name)]).profiles == ()


def test_one_that_is_not_named_counts_as_the_slowest_and_that_is_said() -> None:
    found = estimate.estimated(job(), [center("a", "A100"), center("b", None), center("c", "B200")])
    assert "b names no accelerator and counts as A100, the slowest" in found.notes[0]
    with pytest.raises(InputError, match="no data centre names its accelerator"):
        estimate.estimated(job(), [center("b", None)])


def test_the_error_bar_is_the_largest_and_lacks_where_one_is_not_measured() -> None:
    residual = calibrations.usual(ACCELERATORS["A100"]).calibration.residual
    assert residual is not None
    found = estimate.estimated(job(), [center("a", "A100")])
    assert found.error == (residual.median, residual.p90)
    mixed = estimate.estimated(job(), [center("a", "A100"), center("b", "H100")])
    assert mixed.error is None
    assert "times on H100 are estimated with what was measured on H200" in mixed.notes[0]


def test_a_given_calibration_counts_and_one_of_nobody_is_refused() -> None:
    text = {"source": "us", "licence": "own", "matrixShare": 0.4, "memoryShare": 0.5}
    given = calibrations.read({"accelerator": "H200", **text})
    slow = estimate.estimated(job(), [center()], given).profile.layers[1]
    assert slow.forward > profile().layers[1].forward
    with pytest.raises(InputError, match="the calibration is of H200, and the data centres have A"):
        estimate.estimated(job(), [center("a", "A100")], given)


@pytest.mark.parametrize(
    ("network", "expected"),
    [
        ({}, Lan()),
        ({"podRate": "400G", "latency": "5us"}, Lan(400e9, 5e-6)),
        ({"gpuRate": "400G"}, Lan(64 * 400e9, 20e-6, 400e9)),
        ({"podRate": "800G", "gpuRate": "400G"}, Lan(800e9, 20e-6, 400e9)),
    ],
)
def test_adapters_are_a_pods_or_each_gpus(network: dict[str, str], expected: Lan) -> None:
    found = estimate.lan(center("a", "A100", **network).spec.network)
    assert (found.rate, found.gpu_rate) == (expected.rate, expected.gpu_rate)
    assert found.latency == pytest.approx(expected.latency)


def test_a_pod_reaches_no_more_than_its_gpus_adapters() -> None:
    both = Lan(800e9, 0.0, 400e9)
    assert [both.pod_rate(gpus) for gpus in (1, 2, 8)] == [400e9, 800e9, 800e9]
    assert Lan(100e9).pod_rate(8) == 100e9
    with pytest.raises(ValueError, match=r"a GPU reaches 0\.0 bit"):
        Lan(1.0, 0.0, 0.0)


def test_prefill_grows_faster_than_the_prompt() -> None:
    found = estimate.prefill_profile(32, 4096, ACCELERATORS["H200"].peak)
    assert found.layer_time(8192) > 4 * found.layer_time(2048)
    assert found.layer_time(2048) == pytest.approx(1.6e-3, rel=0.15)  # measured on an H200
