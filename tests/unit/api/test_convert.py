"""Resources become what the planner reads; a plan becomes what people read."""

from dataclasses import replace
from typing import Any, ClassVar

import pytest

from geotrain.api import convert, estimate
from geotrain.api.v1alpha1 import (
    BandwidthSchedule,
    DataCenter,
    GeoTrainingJob,
    PrefillPool,
    WanLink,
)
from geotrain.api.v1alpha1.training_status import GeoTrainingJobStatus
from geotrain.errors import InputError
from geotrain.model.plan import Alternative, Flow, Placement, Plan, Window
from geotrain.model.topology import Lan, MessageRates
from geotrain.model.workload import LayerCosts, Profile
from geotrain.units import parse_duration
from support import manifests
from support.manifests import with_field

PROFILE: dict[str, Any] = {
    "layers": [
        {
            "count": 2,
            "forward": "2.5ms",
            "inputGradient": "4ms",
            "weightGradient": "2ms",
            "activationBytes": "64Mi",
            "parameterBytes": 1024,
        },
        {"forward": "1ms", "inputGradient": "1ms", "weightGradient": "0ms"},
        {
            "forward": "1ms",
            "inputGradient": "1ms",
            "weightGradient": "0ms",
            "recompute": "500us",
            "optimizerStep": "3ms",
            "gradientBytes": "2Ki",
        },
    ],
    "boundaryBytes": "335544",
    "optimizerStep": "4ms",
    "gradientBytes": "1Ki",
}


def job(**spec: Any) -> GeoTrainingJob:
    return GeoTrainingJob.from_manifest(manifests.training_job(**spec))


def centers(*names: str, free: int = 4) -> list[DataCenter]:
    status = {"status": {"gpus": {"free": free}}}
    return [DataCenter.from_manifest(manifests.data_center(n) | status) for n in names]


def link(name: str = "west-central", measured: Any = None, **spec: Any) -> WanLink:
    manifest = manifests.wan_link(name, **spec)
    if measured:
        manifest["status"] = {"measured": {"time": "2026-01-01T00:00:00Z", **measured}}
    return WanLink.from_manifest(manifest)


class TestProfile:
    def test_layers_are_repeated_and_quantities_read(self) -> None:
        profile = convert.profile(PROFILE)
        layer = LayerCosts(0.0025, 0.004, 0.002, 64 * 2**20, 1024)
        own = LayerCosts(0.001, 0.001, 0, recompute=0.0005, step=0.003, gradients=2048)
        assert profile.layers == (layer, layer, LayerCosts(0.001, 0.001, 0), own)
        assert (profile.boundary, profile.gradient_bytes_per_layer) == (335544, 1024)
        assert profile.optimizer_step == 0.004

    @pytest.mark.parametrize(
        ("path", "value", "message"),
        [
            ("layers.1.forward", "-2ms", "layers[1].forward: -2ms is negative; write 0 or more"),
            ("layers.0.forward", -2, "layers[0].forward: -2 is negative; write 0 or more"),
            ("layers.0.forward", "2", "layers[0].forward: '2' is not a duration; write one like"),
            ("layers.0.forward", 2.5, "layers[0].forward: 2.5 is no quantity; write one like"),
            ("layers.0.forward", True, "layers[0].forward: True is no quantity"),
            ("layers.0.forward", [[1] * 9] * 9**6, "...], ...] is no quantity"),
            ("layers.0.forward", ..., "layers[0].forward: Field required"),
            ("layers.0.count", 0, "layers[0].count: Input should be greater than or equal to 1"),
            ("layers.0.activationBytes", "1 MB", "activationBytes: '1 MB' is not a quantity"),
            (
                "layers.0.speed",
                "1",
                "layers[0].speed: there is no such field; there is activationBytes, ",
            ),
            ("layers", [], "layers: Tuple should have at least 1 item"),
            ("boundaryBytes", ..., "boundaryBytes: Field required"),
            ("optimizerStep", "-1s", "optimizerStep: -1s is negative"),
        ],
    )
    def test_a_wrong_value_is_named_by_its_path(self, path: str, value: Any, message: str) -> None:
        with pytest.raises(InputError) as refusal:
            convert.profile(with_field(PROFILE, path, value))
        assert str(refusal.value).startswith("the profile is wrong: ")
        assert message in str(refusal.value)

    def test_text_is_read_as_json(self) -> None:
        assert convert.document('{"layers": 3}', "profile.json") == {"layers": 3}

    @pytest.mark.parametrize(
        ("text", "message"),
        [
            ("{", "profile.json is not JSON"),
            ("[" * 10**5, "profile.json is not JSON: maximum recursion depth"),
            ("[]", "profile.json must be a JSON object, not list"),
        ],
        ids=["cut", "deep", "list"],
    )
    def test_text_that_is_no_object_is_refused(self, text: str, message: str) -> None:
        with pytest.raises(InputError, match=message):
            convert.document(text, "profile.json")


class TestPrefillProfile:
    POINTS: ClassVar[dict[str, Any]] = {
        "layers": 80,
        "layerTimes": [{"tokens": 512, "time": "1.2ms"}, {"tokens": 2048, "time": "4.98ms"}],
    }

    def test_points_are_read(self) -> None:
        profile = convert.prefill_profile(self.POINTS)
        assert profile.layers == 80
        assert profile.layer_time(512) == pytest.approx(0.0012)

    @pytest.mark.parametrize(
        ("path", "value", "message"),
        [
            ("layerTimes.0.time", "-1ms", "layerTimes[0].time: -1ms is negative"),
            ("layerTimes.0.time", "0ms", "give above 0"),
            ("layerTimes.1.tokens", 256, "points must ascend in tokens"),
            ("layers", 0, "layers: Input should be greater than or equal to 1"),
            ("layerTimes", [], "layerTimes: Tuple should have at least 1 item"),
        ],
    )
    def test_a_wrong_value_is_named(self, path: str, value: Any, message: str) -> None:
        with pytest.raises(InputError) as refusal:
            convert.prefill_profile(with_field(self.POINTS, path, value))
        assert message in str(refusal.value)


class TestEstimates:
    def test_a_data_centre_has_its_accelerators_memory(self) -> None:
        for name in ("H200", "nvidia-h200-141gb"):
            spelled = with_field(manifests.data_center("a"), "spec.accelerator", name)
            (center,) = convert.topology([DataCenter.from_manifest(spelled)], []).data_centers
            assert (center.accelerator, center.memory) == ("H200", 141 * 2**30)
        bare = with_field(manifests.data_center("a"), "spec.accelerator", ...)
        (center,) = convert.topology([DataCenter.from_manifest(bare)], []).data_centers
        assert (center.accelerator, center.memory) == ("", None)

    def test_a_pool_without_a_profile_is_estimated(self) -> None:
        pool = PrefillPool.from_manifest(manifests.prefill_pool())
        assert convert.estimated_prefill_profile(pool, ["H200"]).layers == 32

    def test_without_a_shape_there_is_no_estimate(self) -> None:
        bare = with_field(manifests.training_job(profileRef={"name": "p"}), "spec.model", ...)
        with pytest.raises(InputError, match="give profileRef"):
            estimate.estimated(GeoTrainingJob.from_manifest(bare), centers("a"))
        for field in ("spec.model", "spec.model.layers", "spec.model.hiddenSize"):
            pool = with_field(manifests.prefill_pool(profileRef={"name": "p"}), field, ...)
            with pytest.raises(InputError, match="give profileRef"):
                convert.estimated_prefill_profile(PrefillPool.from_manifest(pool), ["H200"])

    @pytest.mark.parametrize(
        ("named", "said"), [([], "no data centre names"), (["H200", "X1"], "'X1' is not known")]
    )
    def test_an_accelerator_that_a_pool_cannot_count_with_is_said(
        self, named: list[str], said: str
    ) -> None:
        pool = PrefillPool.from_manifest(manifests.prefill_pool())
        with pytest.raises(InputError, match=f"times cannot be estimated: .*{said}.*A10, A100, "):
            convert.estimated_prefill_profile(pool, named)


class TestWorkload:
    COSTS = Profile((LayerCosts(1, 1, 1),) * 24, boundary=1)

    def test_what_is_given_is_passed_on(self) -> None:
        work = convert.workload(
            job(
                placement={
                    "policy": "Fixed",
                    "stages": [{"dataCenter": "a", "stages": 6}],
                    "dataCenters": ["a"],
                    "objective": "Cost",
                },
                schedule={"policy": "GPipe", "recompute": False, "memoryPerGpu": "80Gi"},
                network={"connections": 4, "sharing": "Spatial"},
                parallelism={"data": 2, "pipeline": 6, "tensor": 8},
            ),
            self.COSTS,
        )
        assert (work.pipeline, work.data, work.tensor) == (6, 2, 8)
        assert (work.global_batch, work.micro_batch) == (16, 1)
        assert (work.placement, work.fixed, work.allowed) == ("Fixed", (("a", 6),), ("a",))
        assert (work.objective, work.schedule, work.recompute) == ("Cost", "GPipe", False)
        assert (work.memory_per_gpu, work.connections) == (80 * 2**30, 4)
        assert work.sharing == "Spatial"

    def test_auto_leaves_the_choice_to_the_planner(self) -> None:
        work = convert.workload(job(parallelism={"data": "auto", "pipeline": 6}), self.COSTS)
        assert (work.data, work.connections, work.memory_per_gpu) == (None, None, None)

    def test_profile_and_model_must_agree(self) -> None:
        with pytest.raises(InputError, match=r"layers is 24, but the profile describes 1 layers"):
            convert.workload(job(), Profile((LayerCosts(1, 1, 1),), boundary=1))

    def test_layers_a_stage_must_be_those_of_the_model(self) -> None:
        split = {"data": 2, "pipeline": 6, "layersPerStage": [4, 4, 4, 4, 4, 5]}
        with pytest.raises(InputError, match=r"layersPerStage: .* 25 layers; .* has 6 of 24"):
            convert.workload(job(parallelism=split), self.COSTS)
        split["layersPerStage"] = [5, 3, 4, 4, 4, 4]
        assert convert.workload(job(parallelism=split), self.COSTS).layers == (5, 3, 4, 4, 4, 4)

    def test_a_profile_alone_suffices(self) -> None:
        bare = with_field(manifests.training_job(profileRef={"name": "p"}), "spec.model", ...)
        work = convert.workload(GeoTrainingJob.from_manifest(bare), self.COSTS)
        assert work.profile is self.COSTS


class TestTopology:
    def test_data_centers_come_in_name_order_with_their_free_gpus(self) -> None:
        topology = convert.topology(centers("b", "a"), [], {"a": 1})
        assert [(d.name, d.gpus) for d in topology.data_centers] == [("a", 1), ("b", 4)]

    def test_a_data_center_that_told_nothing_has_no_gpus(self) -> None:
        silent = DataCenter.from_manifest(manifests.data_center("a"))
        assert convert.topology([silent], []).data_centers[0].gpus == 0

    def test_a_symmetric_link_is_two(self) -> None:
        topology = convert.topology(centers("dc-west", "dc-central"), [link()])
        there = topology.link("dc-west", "dc-central")
        back = topology.link("dc-central", "dc-west")
        assert there is not None
        assert back is not None
        assert (there.capacity, there.per_pod_capacity, there.round_trip) == (5e9, 1e9, 0.033)
        assert (back.window, back.cost_per_gigabyte, back.reservable) == (1536 * 1024, 0.02, 0.9)

    def test_a_one_way_link_is_one(self) -> None:
        topology = convert.topology(centers("dc-west", "dc-central"), [link(symmetric=False)])
        assert [(w.source, w.target) for w in topology.links] == [("dc-west", "dc-central")]

    def test_a_links_own_direction_goes_before_the_way_back_of_another(self) -> None:
        back = link("a-first", **{"from": "dc-central", "to": "dc-west", "capacity": "1G"})
        for links in ([link(), back], [back, link()]):
            topology = convert.topology(centers("dc-west", "dc-central"), links)
            assert [w.capacity for w in topology.links] == [1e9, 5e9]

    def test_a_link_to_nowhere_is_left_out(self) -> None:
        assert convert.topology(centers("dc-west"), [link()]).links == ()

    def test_the_worse_of_declared_and_measured_holds(self) -> None:
        measured = {
            "capacity": "4G",
            "perPodCapacity": "2G",
            "connectionRate": "80M",
            "roundTripTime": "40ms",
        }
        topology = convert.topology(centers("dc-west", "dc-central"), [link(measured=measured)])
        one = topology.links[0]
        assert (one.capacity, one.per_pod_capacity, one.round_trip) == (4e9, 1e9, 0.04)
        assert one.window == 400_000  # 80 Mbit/s in 40 ms, below the declared window

    def test_points_of_message_sizes_are_read(self) -> None:
        points = [{"size": "64Ki", "rate": "100M"}, {"size": "1Mi", "rate": "0.5G"}]
        topology = convert.topology(centers("dc-west", "dc-central"), [link(messageRates=points)])
        assert topology.links[0].message_rates == MessageRates((65536.0, 2.0**20), (1e8, 5e8))
        bare = convert.topology(centers("dc-west", "dc-central"), [link()])
        assert bare.links[0].message_rates is None

    def test_a_size_that_rounds_to_nothing_is_named(self) -> None:
        tiny = [{"size": "0.4", "rate": "1M"}]
        with pytest.raises(InputError, match=r"WanLink west-central: sizes .* above 0"):
            convert.topology(centers("a"), [link(messageRates=tiny)])

    def test_a_data_centre_has_its_own_network_or_the_usual(self) -> None:
        network = {"podRate": "25G", "latency": "50us"}
        own = DataCenter.from_manifest(manifests.data_center("a", network=network))
        half = DataCenter.from_manifest(manifests.data_center("a", network={"latency": "1ms"}))
        for given, lan in (
            (own, Lan(25e9, 50e-6)),
            (half, Lan(latency=1e-3)),
            (*centers("a"), Lan()),
        ):
            found = convert.topology([given], []).lan("a")
            assert (found.rate, found.latency) == (lan.rate, pytest.approx(lan.latency))

    def test_absent_limits_stay_absent(self) -> None:
        bare = with_field(manifests.wan_link(), "spec.tcpWindow", ...)
        bare = with_field(bare, "spec.perPodCapacity", ...)
        topology = convert.topology(centers("dc-west", "dc-central"), [WanLink.from_manifest(bare)])
        assert (topology.links[0].window, topology.links[0].per_pod_capacity) == (None, None)

    def test_a_measured_value_that_cannot_be_read_is_named(self) -> None:
        with pytest.raises(InputError, match="WanLink west-central: 'quick' is not a rate"):
            convert.topology(centers("a"), [link(measured={"capacity": "quick"})])


def alternative(why: str, speed: float | None = 9.0) -> Alternative:
    segments = (("dc-west", 2), ("dc-east", 1))
    return Alternative(segments, 2, "Atlas", speed and 1.0, speed, speed and 0.5, why)


def flow(number: int, source: str, target: str) -> Flow:
    return Flow(number, 2, 4, source, target, (3,), 34, 50e6, 5e6)


PLAN = Plan(
    placement=Placement((("dc-west", 2), ("dc-east", 1)), data=2),
    tensor=8,
    micro_batches=8,
    schedule="Atlas",
    order=((), (), ()),
    iteration=1.6400004,
    gpu_use=0.55443,
    bubble_share=0.44557,
    connections={("dc-west", "dc-east"): 34},
    wan_bytes={("dc-west", "dc-east"): 8_000_000, ("dc-east", "dc-west"): 8_000_000},
    price_per_iteration=0.123456,
    flows=(flow(1, "dc-west", "dc-east"), flow(2, "dc-east", "dc-west")),
    windows=(
        Window(1, 0.9, 0.08, 50e6),
        Window(1, 0.1, 0.08, 50e6),
        Window(2, 0.2, 0.08, 50e6),
        Window(1, 0.5, 1e-7, 50e6),
    ),
    bubbles=(),
    first_action=(0.0,) * 6,
    alternatives=(alternative(""), alternative("slower"), alternative("does not fit", None)),
)


class TestPlanStatus:
    def test_it_fits_the_schema_of_the_status(self) -> None:
        status = convert.plan_status(PLAN)
        read = GeoTrainingJobStatus.model_validate({"plan": status}).plan
        assert read is not None
        assert read.model_dump(by_alias=True, mode="json", exclude_none=True) == status

    def test_it_says_who_runs_what(self) -> None:
        status = convert.plan_status(PLAN)
        assert status["placement"] == "dc-west:2 dc-east:1"
        assert status["stages"][1] == {
            "dataCenter": "dc-east",
            "firstStage": 2,
            "stages": 1,
            "ranks": 2,
            "gpus": 16,
        }

    def test_it_says_how_fast_and_how_dear(self) -> None:
        status = convert.plan_status(PLAN)
        assert (status["iterationTime"], status["samplesPerSecond"]) == ("1.64s", 9.0)
        assert (status["gpuUse"], status["bubbleShare"]) == (0.5544, 0.4456)
        assert status["pricePerIteration"] == 0.1235

    def test_it_has_an_error_bar_where_one_is_known(self) -> None:
        assert "error" not in convert.plan_status(PLAN)
        status = convert.plan_status(replace(PLAN, error=(0.0312345, 0.12)))
        assert status["error"] == {"median": 0.03123, "p90": 0.12}
        assert GeoTrainingJobStatus.model_validate({"plan": status}).plan is not None

    def test_it_says_what_crosses_each_link(self) -> None:
        east, west = convert.plan_status(PLAN)["links"]
        assert (east["from"], east["to"], east["connections"]) == ("dc-east", "dc-west", 1)
        assert (west["connections"], west["bytesPerIteration"]) == (34, "7.629Mi")

    def test_losers_are_told_with_why_and_the_winner_is_not_among_them(self) -> None:
        slower, unfit = convert.plan_status(PLAN)["alternatives"]
        assert (slower["why"], slower["iterationTime"]) == ("slower", "1s")
        assert unfit == {
            "placement": "dc-west:2 dc-east:1",
            "data": 2,
            "schedule": "Atlas",
            "why": "does not fit",
        }

    @pytest.mark.parametrize("tried", [(), (alternative("", None),)])
    def test_a_plan_without_a_known_speed_says_none(self, tried: tuple[Alternative, ...]) -> None:
        assert convert.plan_status(replace(PLAN, alternatives=tried))["samplesPerSecond"] == 0.0


class TestBandwidthSchedule:
    def test_it_is_a_good_spec_of_its_kind(self) -> None:
        spec = convert.bandwidth_schedule(PLAN, "dc-west", "gpt", "r1")
        manifest = {**manifests.bandwidth_schedule(), "spec": spec}
        read = BandwidthSchedule.from_manifest(manifest).spec
        assert read.model_dump(by_alias=True, mode="json") == spec

    def test_it_holds_the_data_centers_own_flows_and_windows_in_order(self) -> None:
        spec = convert.bandwidth_schedule(PLAN, "dc-west", "gpt", "r1")
        assert [f["id"] for f in spec["flows"]] == [1]
        assert [w["offset"] for w in spec["windows"]] == ["100ms", "900ms"]
        assert (spec["period"], spec["windows"][0]["rate"]) == ("1.640000s", "50000000")

    def test_windows_that_touch_do_not_overlap_by_a_rounding(self) -> None:
        begin, middle, end = 0.0000004, 0.1000014, 0.2000024
        windows = (
            Window(1, begin, middle - begin, 1e6),
            Window(1, middle, end - middle, 1e6),
        )
        spec = convert.bandwidth_schedule(replace(PLAN, windows=windows), "dc-west", "gpt", "r1")
        first, second = spec["windows"]
        last = parse_duration(first["offset"]) + parse_duration(first["length"])
        assert last == pytest.approx(parse_duration(second["offset"]), abs=1e-9)
