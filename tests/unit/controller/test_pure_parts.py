"""Small pure parts: inputs as text, links, data centres, pods as observed, children."""

import dataclasses
import json
import math

import pytest

from geotrain.api import convert, labels
from geotrain.api.v1alpha1 import BandwidthSchedule, DataCenter, GeoTrainingJob, WanLink
from geotrain.errors import InputError
from geotrain.model.plan import Plan
from geotrain.model.topology import Lan, MessageRates
from geotrain.planning.placement.choose import choose
from geotrain.roles.controller import datacenters, links
from geotrain.roles.controller.children import Gang, pod, surroundings
from geotrain.roles.controller.children.config import config_map, profile_document
from geotrain.roles.controller.children.discovery import endpoint_slices
from geotrain.roles.controller.children.network import network_document
from geotrain.roles.controller.children.policy import network_policy
from geotrain.roles.controller.datacenters import Contact
from geotrain.roles.controller.decision import HUB
from geotrain.roles.controller.differences import contains
from geotrain.roles.controller.inputs import Inputs, Planned, revision, with_reserved
from geotrain.roles.controller.observed import RankPod
from support import manifests, planning
from support.scheduling import GPU, node_manifest
from support.world import job

NOW = 1_800_000_000.0
CENTERS = ("dc-central", "dc-east", "dc-west")


def inputs():
    ends = [(a, b) for a in CENTERS for b in CENTERS if a < b]
    gpus = dict.fromkeys(CENTERS, 4)
    points = MessageRates((1e4, 1e6), (1e7 / 3, 1e8))
    links = planning.links(*ends, capacity=1e8 / 3, round_trip=0.033)
    links = (dataclasses.replace(links[0], message_rates=points), *links[1:])
    topology = planning.topology(gpus, links, Lan(1e10 / 3, 1e-4))
    return Inputs("digest", topology, planning.workload(pipeline=6, data=2, global_batch=8))


def gang(**spec):
    manifest = job(**spec)
    manifest["metadata"] |= {"uid": "job-uid", "generation": 1}
    made = GeoTrainingJob.from_manifest(manifest)
    kept = inputs()
    plan = choose(kept.topology, kept.workload)
    assert isinstance(plan, Plan)
    cidrs = {name: (f"10.{100 + n}.0.0/16",) for n, name in enumerate(CENTERS)}
    planned = Planned(kept, plan, revision(made, plan))
    return Gang(made, planned, 3, cidrs, "example.com/geotrain:1", {"dc-east": {"pool": "gpu"}})


def with_workload(made, **values):
    """The gang as if its plan were of another workload."""
    kept = made.planned.inputs
    workload = dataclasses.replace(kept.workload, **values)
    planned = dataclasses.replace(made.planned, inputs=dataclasses.replace(kept, workload=workload))
    return dataclasses.replace(made, planned=planned)


def test_inputs_read_back_are_the_same_and_so_is_their_plan():
    kept = inputs()
    again = Inputs.from_text(kept.to_text())
    assert again == kept
    assert choose(again.topology, again.workload) == choose(kept.topology, kept.workload)


def test_profiles_by_accelerator_and_what_a_layer_has_of_its_own_read_back():
    kept = inputs()
    whole = kept.workload.profile
    own = dataclasses.replace(whole.layers[0], recompute=0.002, step=0.001, gradients=7)
    fast = dataclasses.replace(whole, layers=(own, *whole.layers[1:]))
    kept = dataclasses.replace(
        kept, workload=dataclasses.replace(kept.workload, profiles=(("H200", fast),))
    )
    assert Inputs.from_text(kept.to_text()) == kept
    assert convert.profile(profile_document(fast)) == fast


def test_inputs_that_an_older_version_kept_are_read_with_the_usual_network():
    kept = inputs()
    content = json.loads(kept.to_text())
    for center in content["topology"]["data_centers"]:
        del center["lan"]
    for link in content["topology"]["links"]:
        del link["message_rates"]
    again = Inputs.from_text(json.dumps(content)).topology
    assert {center.lan for center in again.data_centers} == {Lan()}
    assert {link.message_rates for link in again.links} == {None}


@pytest.mark.parametrize("text", ["", "{", "{}", '{"spec": 1, "topology": {}, "workload": {}}'])
def test_what_are_no_inputs_is_refused(text):
    with pytest.raises(InputError, match="no inputs of a plan"):
        Inputs.from_text(text)


def test_rates_that_others_reserved_are_not_planned_with():
    topology = inputs().topology
    first, second, *_ = topology.links
    capacity = first.capacity
    taken = {(first.source, first.target): capacity / 4, (second.source, second.target): capacity}
    left = with_reserved(topology, taken)
    assert left.link(first.source, first.target).reservable == pytest.approx(0.75)
    assert left.link(second.source, second.target) is None
    assert len(left.links) == len(topology.links) - 1


def test_a_pod_knows_its_place_and_what_it_needs():
    made = gang()
    found = pod(made, 11)
    spec, tags = found["spec"], found["metadata"]["labels"]
    center = made.plan.data_center_of(11)
    assert spec["schedulingGates"] == [{"name": "geotrain.io/gang"}]
    assert spec["schedulerName"] == "geotrain-scheduler"
    assert spec["priorityClassName"] == "geotrain-training"
    assert spec["nodeSelector"][labels.DATA_CENTER] == center
    assert (tags[labels.RANK], tags[labels.STAGE], tags[labels.REPLICA]) == ("11", "5", "1")
    assert tags[labels.ATTEMPT] == "3"
    trainer, sidecar = spec["containers"][0], spec["initContainers"][0]
    environment = {each["name"]: each["value"] for each in trainer["env"]}
    assert environment["MASTER_ADDR"] == "gpt-r0.gpt.team-a.svc"
    assert environment["WORLD_SIZE"] == "12"
    assert environment["GEOTRAIN_JOB"] == "team-a/gpt"
    assert environment["GEOTRAIN_FIRST_LAYER"] == str(sum(made.plan.layers[:5]))
    assert environment["GEOTRAIN_LAYERS"] == str(made.plan.layers[5])
    assert not [name for name in environment if name.startswith("NCCL")]
    assert trainer["resources"]["limits"] == {GPU: "1", labels.MANAGED_RESOURCE: "1"}
    assert sidecar["restartPolicy"] == "Always"
    assert sidecar["env"] == trainer["env"]
    volumes = {each["name"]: each for each in spec["volumes"]}
    assert volumes["geotrain-config"]["configMap"]["name"] == f"gpt-geotrain.{center}"
    assert volumes["geotrain-node"]["hostPath"]["path"] == labels.NODE_DIRECTORY


@pytest.mark.parametrize(
    ("recompute", "early", "told"),
    [(False, False, "none"), (True, False, "late"), (True, True, "early")],
)
def test_a_pod_is_told_when_its_plan_recomputes(recompute, early, told):
    made = with_workload(gang(), recompute=recompute, early_recompute=early)
    environment = pod(made, 0)["spec"]["containers"][0]["env"]
    assert {"name": "GEOTRAIN_RECOMPUTE", "value": told} in environment


def test_a_data_centre_is_given_the_costs_of_its_own_accelerator():
    made = gang()
    whole = made.planned.inputs.workload.profile
    slow = dataclasses.replace(whole, boundary=7)
    made = with_workload(made, profiles=(("L40S", slow),))
    topology = made.planned.inputs.topology
    centers = tuple(
        dataclasses.replace(each, accelerator="L40S" if each.name == "dc-east" else "H200")
        for each in topology.data_centers
    )
    inputs = dataclasses.replace(
        made.planned.inputs, topology=dataclasses.replace(topology, data_centers=centers)
    )
    made = dataclasses.replace(made, planned=dataclasses.replace(made.planned, inputs=inputs))
    found = {
        name: convert.profile(json.loads(config_map(made, name)["data"]["profile.json"]))
        for name in CENTERS
    }
    assert found == {"dc-central": whole, "dc-east": slow, "dc-west": whole}


def test_labels_of_the_data_centers_nodes_are_asked_for():
    made = gang()
    rank = made.ranks_in("dc-east")[0]
    assert pod(made, rank)["spec"]["nodeSelector"]["pool"] == "gpu"


def test_the_template_is_kept_but_for_what_is_ours():
    spec = job()["spec"]
    container = spec["template"]["spec"]["containers"][0]
    container["env"] = [{"name": "RANK", "value": "99"}, {"name": "MINE", "value": "$(RANK)"}]
    spec["template"]["metadata"] = {
        "labels": {labels.RANK: "x", "a": "b"},
        "annotations": {"c": "d"},
    }
    found = pod(gang(template=spec["template"]), 0)
    env = [(e["name"], e["value"]) for e in found["spec"]["containers"][0]["env"]]
    assert ("RANK", "0") in env
    assert env[-1] == ("MINE", "$(RANK)")
    assert found["metadata"]["labels"]["a"] == "b"
    assert found["metadata"]["labels"][labels.RANK] == "0"
    assert found["metadata"]["annotations"] == {"c": "d"}


def test_without_a_sidecar_the_collectives_open_the_connections():
    made = gang(network={"enforcement": "None"})
    many = dataclasses.replace(made.plan, connections={("dc-west", "dc-east"): 9})
    made = dataclasses.replace(made, planned=dataclasses.replace(made.planned, plan=many))
    found = pod(made, 0)["spec"]
    environment = {each["name"]: each["value"] for each in found["containers"][0]["env"]}
    assert "initContainers" not in found
    assert int(environment["NCCL_SOCKET_NTHREADS"]) * int(environment["NCCL_NSOCKS_PERTHREAD"]) >= 9


def test_the_network_document_tells_one_data_center_what_it_needs():
    made = gang()
    found = network_document(made, "dc-east")
    assert found["dataCenter"] == "dc-east"
    assert found["localCidrs"] == ["10.101.0.0/16"]
    assert found["remoteCidrs"].keys() == set(CENTERS) - {"dc-east"}
    assert found["ranks"].keys() == set(map(str, range(12)))
    assert found["bubbles"].keys() == set(map(str, made.ranks_in("dc-east")))
    assert len(found["flows"]) == len(made.plan.flows)
    assert len(found["windows"]) == len(made.plan.windows)
    assert math.isclose(found["period"], made.plan.iteration)


def test_each_member_gets_its_surroundings_and_the_hub_the_schedules():
    made = surroundings(gang(), {0: "10.100.0.5"})
    kinds = ["ConfigMap", "Service", "EndpointSlice", "NetworkPolicy"]
    assert [each["kind"] for each in made["dc-west"]] == kinds
    assert [each["kind"] for each in made[HUB]] == ["ConfigMap", *["BandwidthSchedule"] * 3]
    for schedule in made[HUB][1:]:
        BandwidthSchedule.from_manifest(schedule)


def test_addresses_of_both_families_get_slices_of_their_own_and_long_lists_are_cut():
    addresses = {n: f"10.0.{n // 200}.{n % 200 + 1}" for n in range(501)} | {900: "fd00::1"}
    slices = list(endpoint_slices(gang(), addresses))
    assert [(s["addressType"], len(s["endpoints"])) for s in slices] == [
        ("IPv4", 500),
        ("IPv4", 1),
        ("IPv6", 1),
    ]
    assert len({s["metadata"]["name"] for s in slices}) == 3


def test_only_the_jobs_own_ranks_may_talk_to_it():
    rules = network_policy(gang(), {0: "10.0.0.1", 1: "fd00::1"})["spec"]["ingress"]
    blocks = [each["ipBlock"]["cidr"] for each in rules[0]["from"] if "ipBlock" in each]
    assert blocks == ["10.0.0.1/32", "fd00::1/128"]
    assert [port["port"] for port in rules[1]["ports"]] == [labels.PORT_STATUS]


@pytest.mark.parametrize(
    ("observed", "wanted", "holds"),
    [
        ({"a": 1, "b": 2}, {"a": 1}, True),
        ({"a": {"b": [1, {"c": 2, "d": 3}]}}, {"a": {"b": [1, {"c": 2}]}}, True),
        ({"a": [1, 2]}, {"a": [1]}, False),
        ({"a": "12"}, {"a": ["1", "2"]}, False),
        ({"a": 1}, {"a": {}}, False),
        ({}, {"a": None}, False),
        ({"a": None}, {"a": [], "b": {}}, True),  # API servers leave out what is empty
        ({"a": [1]}, {"a": []}, False),
        ({"a": {"b": 1}}, {"a": {}}, True),
    ],
)
def test_what_is_there_already_is_not_written_again(observed, wanted, holds):
    assert contains(observed, wanted) is holds


def link(name="west-central", status=None, **spec):
    manifest = manifests.wan_link(name, **spec)
    manifest["metadata"] |= {"uid": name, "generation": 1}
    manifest["status"] = status or {}
    return WanLink.from_manifest(manifest)


def judged(one, others=(), schedules=(), known=("dc-west", "dc-central")):
    decision = links.decide(one, known, [one, *others], schedules, NOW)
    return {c["type"]: c["reason"] for c in decision.status["conditions"]}, decision.status


def test_a_second_link_of_the_same_direction_says_which_one_holds():
    reasons, _ = judged(link("second"), [link("first")])
    assert reasons["Valid"] == "OverlappingLink"


@pytest.mark.parametrize(
    ("time", "reason"),
    [("2027-01-15T07:00:00Z", "MeasurementFresh"), ("2020-01-01T00:00:00Z", "NotMeasured")],
)
def test_a_measurement_gets_old(time, reason):
    reasons, _ = judged(link(status={"measured": {"time": time}}))
    assert reasons["Measured"] == reason


def schedule(windows, name="gpt-dc-west", center="dc-west", mates=()):
    flow = {"id": 1, "source": 0, "target": 4, "targetDataCenter": "dc-central"}
    flow |= {"mates": list(mates), "connections": 2, "rate": "10M", "idleRate": "1M"}
    spec = {"job": "gpt", "dataCenter": center, "period": "1s", "flows": [flow]}
    spec["windows"] = [
        {"flow": 1, "offset": begin, "length": "100ms", "rate": "10M"} for begin in windows
    ]
    meta = {"name": name, "namespace": "team-a"}
    return BandwidthSchedule.from_manifest({"metadata": meta, "spec": spec})


@pytest.mark.parametrize(
    ("windows", "mates", "rate"),
    [
        (["0ms"], (), "10M"),
        (["0ms", "100ms"], (), "10M"),  # windows that touch do not overlap
        (["0ms", "50ms"], (), "20M"),
        (["0ms"], (1, 2), "30M"),
    ],
)
def test_reserved_is_the_most_that_windows_hand_out_at_one_time(windows, mates, rate):
    _, status = judged(link(), schedules=[schedule(windows, mates=mates)])
    assert status["reserved"] == [{"job": "team-a/gpt", "rate": rate}]
    assert status["reservedRate"] == rate


def test_what_others_reserved_leaves_the_job_itself_out():
    schedules = [schedule(["0ms"])]
    assert links.reserved_by_others(schedules, "team-a/gpt") == {}
    assert links.reserved_by_others(schedules, "team-a/other") == {("dc-west", "dc-central"): 1e7}


def center(**spec):
    manifest = manifests.data_center("dc-west", gpuResource=GPU, **spec)
    manifest["metadata"] |= {"uid": "dc-uid", "generation": 1}
    return DataCenter.from_manifest(manifest)


CLASSES = frozenset({labels.PRIORITY_TRAINING, labels.PRIORITY_PREFILL})


@pytest.mark.parametrize(
    ("scheduler", "classes", "reason"),
    [
        (None, CLASSES, "SchedulerMissing"),
        ({}, CLASSES - {labels.PRIORITY_PREFILL}, "PriorityClassesMissing"),
        ({"status": {}}, CLASSES, "SchedulerNotReady"),
        ({"status": {"availableReplicas": 1}}, CLASSES, "AgentsReady"),
    ],
)
def test_agents_are_ready_when_scheduler_and_priorities_are(scheduler, classes, reason):
    contact = Contact(scheduler=scheduler, priorities=classes)
    decision = datacenters.decide(center(), contact, NOW)
    found = {c["type"]: c["reason"] for c in decision.status["conditions"]}
    del found["NetworkReady"]
    assert found == {"Reachable": "Contacted", "AgentsReady": reason}


def test_objects_of_nobody_are_removed_once():
    orphan = {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "a", "namespace": "t"}}
    going = {
        **orphan,
        "metadata": {**orphan["metadata"], "deletionTimestamp": "2026-01-01T00:00:00Z"},
    }
    decision = datacenters.decide(center(), Contact(orphans=(orphan, going)), NOW)
    assert [reference.name for reference in decision.deletions] == ["a"]
    assert "LeftoversRemoved" in [event.reason for event in decision.events]


def test_nodes_that_take_no_pods_are_not_allocatable():
    ready = node_manifest("a", "dc-west", gpu="4")
    cordoned = node_manifest("b", "dc-west", gpu="4")
    cordoned["spec"] = {"unschedulable": True, "podCIDR": "10.9.0.0/24"}
    broken = node_manifest("c", "dc-west", gpu="4")
    broken["status"]["conditions"] = [{"type": "Ready", "status": "False"}]
    decision = datacenters.decide(center(), Contact(nodes=(ready, cordoned, broken)), NOW)
    assert decision.status["gpus"] == {"capacity": 12, "allocatable": 4, "free": 0}
    assert decision.status["podCIDRs"] == ["10.9.0.0/24"]


def observed(**status):
    meta = {"name": "gpt-r0", "namespace": "team-a"}
    return RankPod("dc-west", {"metadata": meta, "spec": {}, "status": status})


@pytest.mark.parametrize(
    ("status", "text"),
    [
        ({}, ""),
        (
            {"conditions": [{"type": "PodScheduled", "status": "False", "message": "no room"}]},
            "no room",
        ),
        (
            {
                "containerStatuses": [
                    {"name": "t", "state": {"waiting": {"reason": "ContainerCreating"}}},
                    {"name": "s", "state": {"waiting": {"reason": "ErrImagePull", "message": "x"}}},
                ]
            },
            "s: ErrImagePull x",
        ),
        ({"message": "evicted"}, "evicted"),
    ],
)
def test_trouble_is_told_in_kubernetes_own_words(status, text):
    assert observed(**status).trouble == text


@pytest.mark.parametrize(
    ("status", "text"),
    [
        ({}, "it failed"),
        ({"reason": "Evicted"}, "Evicted"),
        (
            {
                "containerStatuses": [
                    {"name": "s", "state": {"terminated": {"exitCode": 0}}},
                    {
                        "name": "t",
                        "state": {"terminated": {"exitCode": 137, "reason": "OOMKilled"}},
                    },
                ]
            },
            "container t ended with 137 (OOMKilled)",
        ),
    ],
)
def test_an_end_names_the_container_and_its_code(status, text):
    assert observed(**status).end == text


def test_a_pod_without_our_labels_has_no_rank():
    assert observed().rank == -1
    assert observed().revision == ""
