"""What a real API server makes of the CRDs: what it takes, what it refuses, what it explains."""

import http.client
import json
import ssl
import time
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from support import manifests, schemas
from support.controlplane import ControlPlane, ControlPlaneError
from support.manifests import with_field

DryRun = Callable[[dict[str, Any]], str]

pytestmark = pytest.mark.controlplane


DURATION = "write a duration like 40ms, 1.5s or 1h30m"
POSITIVE_DURATION = "write a duration above 0, like 1.5s"
BYTES = "write bytes like 500M, 64Gi or 33554432"
POSITIVE_BYTES = "write a size above 0, like 128Ki"
RATE = "write bits per second like 50M or 5G"
POSITIVE_RATE = "write a rate above 0, like 5G"
DC_NAME = "write the name of a DataCenter: lower-case letters, digits and '-'"
NAME = "write the name of an object: lower-case letters, digits, '-' and '.'"
AUTO = "write a whole number of at least 1, or auto"
OBJECT_NAME = (
    "at most 52 lower-case letters, digits and '-', beginning with a letter"
)  # fmt: skip

MOST_CONNECTIONS = "connections must be at most 512, and with enforcement None 64"
DENSE = "give feedForward of a dense model, or experts"
SHARED = "model.experts.count must be a multiple of parallelism.tensor"
NO_GPUS = "no container asks for GPUs: give the template's first container a limit"
OTHER_GPUS = "parallelism.tensor must equal the GPU limit of the template's first container"
HELPER = {"name": "helper", "image": "a", "resources": {"limits": {"nvidia.com/gpu": "1"}}}
AMD = {"dataCenter": "dc-east", "image": "b", "resources": {"limits": {"amd.com/gpu": 1}}}

ASCENDING = "give the sizes in ascending order, each once"

EXPERTS = {"count": 8, "perToken": 2, "feedForward": 64}

POINT = {"size": "1Mi", "rate": "1G"}
DC = manifests.data_center()
WAN = manifests.wan_link()
GTJ = manifests.training_job()
PFP = manifests.prefill_pool()
BWS = manifests.bandwidth_schedule()

FIXED = manifests.training_job(
    placement={
        "policy": "Fixed",
        "stages": [{"dataCenter": "a", "stages": 2}, {"dataCenter": "b", "stages": 4}],
    }
)

# Wrong in a way that a rule or a type sees; limits are generated from the schemas below.
REFUSED: list[schemas.Case] = [
    # DataCenter
    (DC, "metadata.name", "dc.west", "the name becomes a label"),
    (DC, "metadata.name", "a" * 64, "the name becomes a label"),
    (DC, "spec.cluster", {}, "give exactly one of kubeconfigSecretRef"),
    (DC, "spec.cluster", {"local": False}, "give exactly one of kubeconfigSecretRef"),
    (DC, "spec.cluster.kubeconfigSecretRef", {"namespace": "a", "name": "b"}, "exactly one of"),
    (DC, "spec.cluster.kubeconfigSecretRef", {"namespace": "a", "name": "B"}, NAME),
    (DC, "spec.gpuResource", "gpu", "write an extended resource like nvidia.com/gpu"),
    (DC, "spec.nodeSelector", {"zone": 1}, "must be of type string"),
    (DC, "spec.network", {"podRate": "fast"}, RATE),
    (DC, "spec.network", {"podRate": "0G"}, POSITIVE_RATE),
    (DC, "spec.network", {"latency": "20"}, DURATION),
    (DC, "spec.network", {"podCIDRs": ["10.0.0.0/8", "10.1.0.0/16"]}, "the networks overlap: one"),
    (DC, "spec.network", {"podCIDRs": ["10.1.2.3/16"]}, "write a network like 10.1.0.0/16"),
    (DC, "spec.network", {"podCIDRs": ["ten"]}, "write a network like 10.1.0.0/16"),
    (DC, "spec.colour", "blue", 'unknown field "spec.colour"'),
    # WanLink
    (WAN, "spec.to", "dc-west", "from and to must be two different data centres"),
    (WAN, "spec.from", "DC_West", DC_NAME),
    (WAN, "spec.to", "DC_West", DC_NAME),
    (WAN, "spec.capacity", "fast", RATE),
    (WAN, "spec.capacity", "0", POSITIVE_RATE),
    (WAN, "spec.capacity", 5, "must be of type string"),
    (WAN, "spec.perPodCapacity", "5Gbit", RATE),
    (WAN, "spec.perPodCapacity", "0M", POSITIVE_RATE),
    (WAN, "spec.roundTripTime", "40", DURATION),
    (WAN, "spec.roundTripTime", "-40ms", DURATION),
    (WAN, "spec.tcpWindow", "1.5 MB", BYTES),
    (WAN, "spec.tcpWindow", "0Ki", POSITIVE_BYTES),
    (WAN, "spec.messageRates", [{"size": "1 MB", "rate": "1G"}], BYTES),
    (WAN, "spec.messageRates", [{"size": "0Ki", "rate": "1G"}], POSITIVE_BYTES),
    (WAN, "spec.messageRates", [{"size": "1Mi", "rate": "quick"}], RATE),
    (WAN, "spec.messageRates", [{"size": "1Mi", "rate": "0"}], POSITIVE_RATE),
    (WAN, "spec.messageRates", [POINT, POINT], ASCENDING),
    (WAN, "spec.messageRates", [{**POINT, "size": "1M"}, {**POINT, "size": "1k"}], ASCENDING),
    (WAN, "spec.symmetric", "yes", "must be of type boolean"),
    # GeoTrainingJob
    (GTJ, "metadata.name", "9gpt", OBJECT_NAME),
    (GTJ, "metadata.name", "a" * 53, OBJECT_NAME),
    (GTJ, "spec.model", ..., "give profileRef (measured layer times) or model"),
    (GTJ, "spec.model.layers", 5, "parallelism.pipeline must not exceed model.layers"),
    (GTJ, "spec.profileRef", {"name": "A"}, NAME),
    (GTJ, "spec.calibrationRef", {"name": "a_b"}, NAME),
    (GTJ, "spec.model.keyValueHeads", 8, "keyValueHeads must divide heads; give both"),
    (GTJ, "spec.model.experts", {**EXPERTS, "perToken": 9}, "perToken must not exceed count"),
    (with_field(GTJ, "spec.model.experts", EXPERTS), "spec.model.feedForward", 64, DENSE),
    (with_field(GTJ, "spec.parallelism.tensor", 3), "spec.model.experts", EXPERTS, SHARED),
    (GTJ, "spec.parallelism.layersPerStage", [1], "layersPerStage must have parallelism.pipeline"),
    (GTJ, "spec.parallelism.data", "some", AUTO),
    (GTJ, "spec.parallelism.data", 0, AUTO),
    (GTJ, "spec.parallelism.data", 3, "batch.global must be a multiple of parallelism.data times"),
    (GTJ, "spec.batch.micro", 3, "global must be a multiple of micro"),
    (GTJ, "spec.placement.dataCenters", ["a", "a"], "Duplicate value"),
    (GTJ, "spec.placement.dataCenters", ["DC_West"], DC_NAME),
    (GTJ, "spec.placement", {"policy": "Fixed"}, "stages are given with policy Fixed, and only"),
    (FIXED, "spec.placement.policy", "Atlas", "stages are given with policy Fixed, and only then"),
    (FIXED, "spec.placement.stages.0.stages", 3, "must add up to parallelism.pipeline"),
    (FIXED, "spec.placement.stages.1.dataCenter", "a", "a data centre may appear only once"),
    (FIXED, "spec.placement.stages.1.dataCenter", "A", DC_NAME),
    (GTJ, "spec.schedule.memoryPerGpu", "80GB", BYTES),
    (GTJ, "spec.schedule.memoryPerGpu", "0", POSITIVE_BYTES),
    (GTJ, "spec.schedule.recompute", "no", "must be of type boolean"),
    (GTJ, "spec.network.connections", "many", AUTO),
    (GTJ, "spec.network.connections", 0, AUTO),
    (GTJ, "spec.network.connections", 513, MOST_CONNECTIONS),
    (GTJ, "spec.network", {"connections": 65, "enforcement": "None"}, MOST_CONNECTIONS),
    (GTJ, "spec.template.spec.containers.0.resources", {"limits": {"cpu": 1}}, NO_GPUS),
    (GTJ, "spec.template.spec.containers.0.resources", ..., NO_GPUS),
    (GTJ, "spec.parallelism.tensor", 2, OTHER_GPUS),
    (GTJ, "spec.template.spec.containers.1", HELPER, OTHER_GPUS),
    (GTJ, "spec.template.spec.containers.0.resources", {"limits": {"cpu": 0.5}}, "integer,string"),
    (GTJ, "spec.overrides", [{"dataCenter": "a"}, {"dataCenter": "a"}], "Duplicate value"),
    (GTJ, "spec.overrides", [{"dataCenter": "a", "colour": "red"}], "unknown field"),
    (GTJ, "spec.overrides", [{"dataCenter": "DC"}], DC_NAME),
    (GTJ, "spec.reserveTimeout", "soon", DURATION),
    (GTJ, "spec.reserveTimeout", "0s", POSITIVE_DURATION),
    (GTJ, "spec.activeDeadline", "3d", DURATION),
    (GTJ, "spec.activeDeadline", "0h", POSITIVE_DURATION),
    (GTJ, "spec.ttlAfterFinished", "never", DURATION),
    # PrefillPool
    (PFP, "metadata.name", "Llama.3", "a lowercase RFC 1123 subdomain"),
    (PFP, "metadata.name", "llama.3", OBJECT_NAME),
    (PFP, "spec.trainingJobRef", ..., "give exactly one of trainingJobRef"),
    (PFP, "spec.jobSelector", {"matchLabels": {"a": "b"}}, "give exactly one of trainingJobRef"),
    (PFP, "spec.model", ..., "give profileRef (measured prefill times) or model.layers"),
    (PFP, "spec.model.layers", ..., "give profileRef (measured prefill times) or model.layers"),
    (PFP, "spec.trainingJobRef", {"name": "A"}, NAME),
    (PFP, "spec.placement.stages", [1, 1], "Duplicate value"),
    (PFP, "spec.minimumBubble", "5", DURATION),
    (PFP, "spec.guard", "-2ms", DURATION),
    (PFP, "spec.objective.timeToFirstToken", "0s", POSITIVE_DURATION),
    (PFP, "spec.objective.timeToFirstToken", "quick", DURATION),
    (PFP, "spec.decode.url", "decode:8000", "write a URL like http://decode.team-a.svc:8000"),
    (PFP, "spec.scaling", {"min": 3, "max": 2}, "min must not exceed max"),
    # BandwidthSchedule
    (BWS, "spec.job", "A", NAME),
    (BWS, "spec.dataCenter", "A", DC_NAME),
    (BWS, "spec.period", "1", DURATION),
    (BWS, "spec.period", "0us", POSITIVE_DURATION),
    (BWS, "spec.flows.0.targetDataCenter", "A", DC_NAME),
    (BWS, "spec.flows.0.rate", "x", RATE),
    (BWS, "spec.flows.0.rate", "0", POSITIVE_RATE),
    (BWS, "spec.flows.0.idleRate", "x", RATE),
    (BWS, "spec.windows.0.offset", "x", DURATION),
    (BWS, "spec.windows.0.length", "0us", POSITIVE_DURATION),
    (BWS, "spec.windows.0.length", "x", DURATION),
    (BWS, "spec.windows.0.rate", "0", POSITIVE_RATE),
    (BWS, "spec.windows.0.rate", "x", RATE),
]  # fmt: skip


LIMITS = [
    case
    for name, crd in schemas.crds().items()
    for case in schemas.limits(manifests.example(name), "spec", schemas.part(crd, "spec"))
]


def _label(case: object) -> str:
    """A test's name: path, value and message."""
    return str(case)[:60] if isinstance(case, str | int | float) else ""


@pytest.fixture(scope="module")
def server(control_plane_factory: Any) -> ControlPlane:
    plane: ControlPlane = control_plane_factory()
    plane.apply(*schemas.crds().values())
    plane.kubectl("wait", "crd", "--all", "--for=condition=Established", "--timeout=30s")
    _await_served(plane)
    return plane


def _await_served(plane: ControlPlane) -> None:
    """Right after a CRD is made, LIST may answer 429 and discovery may lag."""
    deadline = time.monotonic() + 30
    while True:
        try:
            plane.kubectl("get", "gtj,pfp,dc,wan,bws", "-A")
            return
        except ControlPlaneError:
            if time.monotonic() > deadline:
                raise
            time.sleep(0.2)


@pytest.fixture(scope="module")
def dry_run(server: ControlPlane) -> Iterator[DryRun]:
    """Creates an object without keeping it, as kubectl does; gives what the server refuses.

    One connection for all: starting kubectl for each of hundreds of objects takes minutes.
    """
    trust = ssl.create_default_context(cafile=str(server.certificate))
    trust.verify_flags &= ~ssl.VERIFY_X509_STRICT  # the self-made CA names no key id
    connection = http.client.HTTPSConnection("127.0.0.1", server.port, context=trust, timeout=60)
    plurals = {name: crd["spec"]["names"]["plural"] for name, crd in schemas.crds().items()}

    def create(manifest: dict[str, Any]) -> str:
        namespace = manifest["metadata"].get("namespace")
        place = f"namespaces/{namespace}/" if namespace else ""
        path = f"/apis/{manifest['apiVersion']}/{place}{plurals[manifest['kind']]}"
        connection.request(
            "POST",
            f"{path}?dryRun=All&fieldValidation=Strict",
            json.dumps(manifest),
            {"Authorization": f"Bearer {server.token}", "Content-Type": "application/json"},
        )
        answer = connection.getresponse()
        text = answer.read()
        return "" if answer.status == 201 else str(json.loads(text)["message"])

    yield create
    connection.close()


@pytest.mark.parametrize("manifest", [*manifests.examples(), FIXED], ids=lambda m: m["kind"])
def test_a_good_example_is_accepted(dry_run: DryRun, manifest: dict[str, Any]) -> None:
    assert dry_run(manifest) == ""


@pytest.mark.parametrize(
    ("path", "value"),
    [
        ("spec.parallelism.data", "auto"),
        ("spec.network.connections", 16),
        ("spec.schedule.memoryPerGpu", "80Gi"),
        ("spec.ttlAfterFinished", "0s"),
        ("spec.activeDeadline", "1h30m"),
        ("spec.template.spec.volumes", [{"name": "v", "emptyDir": {}}]),
        ("spec.template.spec.containers.0.env", [{"name": "A", "value": "b"}]),
        ("spec.template.metadata.labels", {"team": "a"}),
        ("spec.template.spec.containers.0.resources.limits", {"a.b/mig-1g": "1", "cpu": "0.5"}),
        ("spec.template.spec.containers.1", {"name": "helper", "image": "a"}),
        ("spec.overrides", [AMD, {"dataCenter": "dc-west", "nodeSelector": {"a": "b"}}]),
        ("spec.overrides", [{"dataCenter": "a", "volumes": [{"name": "v", "emptyDir": {}}]}]),
    ],
    ids=_label,
)
def test_what_is_right_is_accepted(dry_run: DryRun, path: str, value: Any) -> None:
    assert dry_run(with_field(GTJ, path, value)) == ""


def test_points_of_message_sizes_are_accepted_in_any_unit(dry_run: DryRun) -> None:
    points = [{"size": size, "rate": "1G"} for size in ("1000", "1Ki", "1.5k", "1Mi", "2P")]
    assert dry_run(with_field(WAN, "spec.messageRates", points)) == ""


@pytest.mark.parametrize(("manifest", "path", "value", "message"), REFUSED, ids=_label)
def test_what_is_wrong_is_refused_with_what_would_be_right(
    dry_run: DryRun, manifest: dict[str, Any], path: str, value: Any, message: str
) -> None:
    assert message in dry_run(with_field(manifest, path, value))


@pytest.mark.parametrize(("manifest", "path", "value", "message"), LIMITS, ids=_label)
def test_what_is_beyond_a_limit_is_refused_with_the_limit(
    dry_run: DryRun, manifest: dict[str, Any], path: str, value: Any, message: str
) -> None:
    assert message in dry_run(with_field(manifest, path, value))


def test_every_rule_has_a_case() -> None:
    tested = {message for *_, message in REFUSED} | {"managedBy cannot change"}
    for name, crd in schemas.crds().items():
        for rule in schemas.rules(schemas.root(crd)):
            assert any(m in rule["message"] for m in tested), f"{name}: {rule} is not tested"


def test_managed_by_cannot_change(server: ControlPlane) -> None:
    server.apply(manifests.training_job("immutable"))
    with pytest.raises(ControlPlaneError, match="managedBy cannot change; delete the job"):
        server.apply(manifests.training_job("immutable", managedBy="kueue.x-k8s.io/multikueue"))


def test_defaults_are_filled_in(server: ControlPlane) -> None:
    job = manifests.training_job("defaults")
    del job["spec"]["schedule"]
    server.apply(job)
    spec = server.get("gtj", "defaults")["spec"]
    assert spec["managedBy"] == "geotrain.io/controller"
    assert spec["placement"] == {
        "dataCenters": [],
        "policy": "Atlas",
        "stages": [],
        "objective": "Throughput",
    }
    assert spec["schedule"] == {"policy": "Auto", "recompute": True, "earlyRecompute": False}
    assert spec["failurePolicy"] == {"maxRestarts": 3, "podFailure": "RestartGang"}
    assert spec["network"]["connections"] == "auto"


def test_a_partly_given_section_is_completed(server: ControlPlane) -> None:
    server.apply(manifests.training_job("partly", placement={"objective": "Cost"}))
    assert server.get("gtj", "partly")["spec"]["placement"]["policy"] == "Atlas"


@pytest.mark.parametrize("kind", schemas.crds())
def test_every_field_of_a_status_is_kept(server: ControlPlane, kind: str) -> None:
    """Structural schemas drop unknown fields silently; ours must know all that we write."""
    manifest = manifests.example(kind)
    server.apply(manifest)
    status = schemas.sample(schemas.part(schemas.crds()[kind], "status"))
    name, patch = manifest["metadata"]["name"], json.dumps({"status": status})
    server.kubectl("patch", kind, name, "--subresource=status", "--type=merge", "-p", patch)
    assert server.get(kind, name)["status"] == status


def test_the_status_board_has_a_line_for_each(server: ControlPlane) -> None:
    server.apply(*manifests.examples())
    board = server.kubectl("get", "gtj,pfp,dc,wan,bws", "-A")
    for head in ("PHASE", "PLACEMENT", "GPUS", "FREE", "CAPACITY", "RTT", "WORKERS", "PERIOD"):
        assert head in board


@pytest.mark.parametrize("kind", schemas.crds())
def test_kubectl_explains_every_field(server: ControlPlane, kind: str) -> None:
    """Walks the whole tree; ``explain --recursive`` does not print descriptions."""
    crd = schemas.crds()[kind]
    short = crd["spec"]["names"]["shortNames"][0]
    for part in ("spec", "status"):
        for path, schema in schemas.objects(part, schemas.part(crd, part)):
            text = server.kubectl("explain", f"{short}.{path}")
            assert "<no description>" not in text, f"{path} lacks a description"
            for child in schema["properties"]:
                assert f"  {child}\t" in text, f"{path}.{child} is not listed"
