"""Whose an object is, and that no two owners make one name for two objects."""

import dataclasses
import itertools

import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from geotrain.api import labels
from geotrain.api.v1alpha1 import GeoTrainingJob, PrefillPool
from geotrain.model.plan import Plan
from geotrain.planning.placement.choose import choose
from geotrain.prefill.profile import LayerTime, PrefillProfile
from geotrain.roles.controller import pool_children
from geotrain.roles.controller.children import Gang, needs, pod, surroundings
from geotrain.roles.controller.decision import HUB
from geotrain.roles.controller.inputs import Inputs, Planned, revision
from geotrain.roles.controller.ownership import Need, Taken, owner, told, whose
from geotrain.roles.controller.pool_children import Parts, Slot
from support import manifests, planning
from support.world import job

NAME = st.from_regex(r"[a-z]([-a-z0-9]{0,12}[a-z0-9])?", fullmatch=True)
CENTER = st.from_regex(r"[a-z0-9]([-a-z0-9]{0,12}[a-z0-9])?", fullmatch=True)
# Parts of names that ours are made of: what could be mistaken is tried first.
TRICKY = st.lists(
    st.sampled_from(["a", "b", "r0", "geotrain", "plan", "router", "ranks", "0", "1"]),
    min_size=1,
    max_size=4,
).map("-".join)
PROFILE = PrefillProfile(4, (LayerTime(512, 0.001), LayerTime(2048, 0.004)))


def gang(name="gpt", centers=("dc-central", "dc-east")):
    ends = [(a, b) for a, b in itertools.combinations(centers, 2)]
    gpus = dict.fromkeys(centers, 4)
    topology = planning.topology(gpus, planning.links(*ends, capacity=1e8, round_trip=0.03))
    inputs = Inputs("digest", topology, planning.workload(pipeline=2 * len(centers), data=2))
    plan = choose(inputs.topology, inputs.workload)
    assert isinstance(plan, Plan)
    manifest = job(name)
    manifest["metadata"] |= {"uid": f"job {name}", "generation": 1}
    made = GeoTrainingJob.from_manifest(manifest)
    planned = Planned(inputs, plan, revision(made, plan))
    return Gang(made, planned, 0, {}, "example.com/geotrain:1")


GANG = gang()


def renamed(name, centers):
    """The same gang under another name and in other data centres, without planning anew."""
    manifest = job(name)
    manifest["metadata"] |= {"uid": f"job {name}", "generation": 1}
    topology = GANG.planned.inputs.topology
    places = zip(topology.data_centers, centers, strict=True)
    inputs = dataclasses.replace(
        GANG.planned.inputs,
        topology=dataclasses.replace(
            topology,
            data_centers=tuple(dataclasses.replace(each, name=new) for each, new in places),
        ),
    )
    placement = GANG.plan.placement
    segments = tuple(
        (new, count) for (_, count), new in zip(placement.segments, centers, strict=True)
    )
    plan = dataclasses.replace(
        GANG.plan, placement=dataclasses.replace(placement, segments=segments), flows=(), windows=()
    )
    planned = dataclasses.replace(GANG.planned, inputs=inputs, plan=plan)
    made = GeoTrainingJob.from_manifest(manifest)
    return dataclasses.replace(GANG, job=made, planned=planned)


def of_gang(made):
    """All manifests of a gang, by data centre."""
    around = surroundings(made, {rank: f"10.0.0.{rank + 1}" for rank in range(made.plan.ranks)})
    pods = [(made.plan.data_center_of(rank), pod(made, rank)) for rank in range(made.plan.ranks)]
    return [(name, each) for name, found in around.items() for each in found] + pods


def pool(name="chat"):
    manifest = manifests.prefill_pool(
        name, "team-a", model={"name": "llama", "layers": 4, "hiddenSize": 64}
    )
    manifest["metadata"] |= {"uid": f"pool {name}", "generation": 1}
    return PrefillPool.from_manifest(manifest)


def of_pool(made, slots):
    """All manifests of a pool beside GANG, by data centre."""
    parts = Parts(made, PROFILE, "example.com/geotrain:1")
    router = [
        pool_children.router_config(parts, [], ""),
        pool_children.router_service(parts),
        pool_children.router_deployment(parts),
    ]
    around = [
        (name, each)
        for name in sorted({slot.data_center for slot in slots})
        for each in (pool_children.worker_config(parts), pool_children.worker_policy(parts, []))
    ]
    workers = [(slot.data_center, pool_children.worker(parts, GANG.job, slot)) for slot in slots]
    return [(HUB, each) for each in router] + around + workers


SLOTS = (Slot("dc-east", 0, 0), Slot("dc-east", 1, 1), Slot("dc-central", 0, 2))


def named(found):
    return {(each["kind"], each["metadata"]["name"]) for _, each in found}


def test_a_gang_needs_the_names_of_all_that_it_writes():
    wanted = {Need.of(*each) for each in of_gang(GANG)}
    spare = set(needs(GANG)) - wanted
    assert wanted <= set(needs(GANG))
    assert {(each.kind, each.name) for each in spare} == {("EndpointSlice", "gpt-geotrain-v6")}


def test_a_pool_needs_the_names_of_all_that_it_writes():
    assert {Need.of(*each) for each in of_pool(pool(), SLOTS)} == set(
        pool_children.needs(pool(), SLOTS)
    )


@given(NAME | TRICKY, st.lists(CENTER | TRICKY, min_size=2, max_size=2, unique=True))
def test_all_that_is_made_for_a_job_is_known_as_its_own(name, centers):
    found = of_gang(renamed(name, centers))
    assert {owner(each) for _, each in found} == {f"job {name}"}


@given(NAME | TRICKY, CENTER | TRICKY)
def test_all_that_is_made_for_a_pool_is_known_as_its_own(name, center):
    slots = (Slot(center, 0, 0), Slot(center, 11, 1))
    found = of_pool(pool(name), slots)
    assert {owner(each) for _, each in found} == {f"pool {name}"}


@given(st.tuples(TRICKY, TRICKY), st.lists(TRICKY, min_size=4, max_size=4, unique=True))
def test_two_jobs_make_no_name_twice(names, centers):
    """Also where one runs on the hub, which holds the schedules and the plans of both."""
    assume(names[0] != names[1])
    one, two = renamed(names[0], centers[:2]), renamed(names[1], centers[2:])
    assert not named(of_gang(one)) & named(of_gang(two))


@given(TRICKY, st.lists(TRICKY, min_size=2, max_size=2, unique=True))
def test_a_job_makes_no_name_twice_for_itself(name, centers):
    """Of what all its data centres and the hub hold, should they be one cluster."""
    found = of_gang(renamed(name, centers))
    shared = ("Service", "EndpointSlice", "NetworkPolicy")  # the same in every cluster
    single = [(e["kind"], e["metadata"]["name"]) for _, e in found if e["kind"] not in shared]
    assert len(set(single)) == len(single)


@given(TRICKY, TRICKY, st.lists(TRICKY, min_size=2, max_size=2, unique=True))
def test_a_job_and_a_pool_share_a_name_only_where_a_service_must_be_a_label(one, other, centers):
    both = named(of_gang(renamed(one, centers))) & named(of_pool(pool(other), SLOTS))
    assert {kind for kind, _ in both} <= {"Service"}
    assert bool(both) == (one == f"{other}-router")


def test_a_pool_may_have_its_jobs_name():
    assert not named(of_gang(gang("chat"))) & named(of_pool(pool("chat"), SLOTS))


def thing(kind="Service", name="gpt", namespace="team-a", **tags):
    return {
        "apiVersion": "v1",
        "kind": kind,
        "metadata": {"name": name, "namespace": namespace, "labels": tags},
    }


def ours(**changes):
    tags = {
        labels.MANAGED_BY: "geotrain",
        labels.JOB: "gpt",
        labels.JOB_UID: "u",
        labels.NAMESPACE: "team-a",
    }
    return {key: value for key, value in (tags | changes).items() if value is not None}


@pytest.mark.parametrize(
    ("manifest", "uid"),
    [
        (thing(**ours()), "u"),
        (thing(**ours(**{labels.NAMESPACE: None})), "u"),  # an older version's
        (thing(), ""),
        ({"kind": "Service", "metadata": {"name": "gpt", "labels": None}}, ""),
        (thing(**ours(**{labels.MANAGED_BY: "Helm"})), ""),
        (thing(**ours(**{labels.MANAGED_BY: None})), ""),
        (thing(**ours(**{labels.JOB_UID: None})), ""),
        (thing(**ours(**{labels.JOB: None})), ""),
        (thing(namespace="team-b", **ours()), ""),  # a copy in another namespace
        (thing(name="gpt-mine", **ours()), ""),  # a copy under another name
        (thing(kind="Secret", **ours()), ""),
        (thing(kind="Pod", name="gpt-r12", **ours()), "u"),
        (thing(kind="Pod", name="gpt-r12", **ours(**{labels.RANK: "12"})), "u"),
        (thing(kind="Pod", name="gpt-r12", **ours(**{labels.RANK: "1"})), ""),  # a copy
        (thing(kind="Pod", name="gpt-r1x", **ours()), ""),
        (thing(kind="Pod", name="gpt-r", **ours()), ""),
        (thing(kind="NetworkPolicy", name="gpt-geotrain", **ours()), "u"),  # an older version's
        (thing(kind="ConfigMap", name="gpt-geotrain-dc-west", **ours()), "u"),  # likewise
        (thing(kind="ConfigMap", name="gpt-geotrain.dc-west", **ours()), "u"),
        (thing(kind="ConfigMap", name="gpt-geotrain.a", **ours(**{labels.DATA_CENTER: "a"})), "u"),
        (thing(kind="ConfigMap", name="gpt-geotrain.b", **ours(**{labels.DATA_CENTER: "a"})), ""),
        (thing(kind="BandwidthSchedule", name="gpt.a", **ours(**{labels.DATA_CENTER: "a"})), "u"),
        (thing(kind="BandwidthSchedule", name="gpt.b", **ours(**{labels.DATA_CENTER: "a"})), ""),
        (thing(kind="BandwidthSchedule", name="gpt-dc-west", **ours()), "u"),  # an older version's
        (thing(kind="ConfigMap", name="gpt-copy", **ours()), ""),
        (thing(kind="Pod", name="evil", **ours()), ""),
    ],
)
def test_ours_is_what_has_our_labels_and_a_name_that_we_give(manifest, uid):
    assert owner(manifest) == uid


def test_a_router_pod_is_its_pools():
    tags = {labels.MANAGED_BY: "geotrain", labels.POOL: "chat", labels.POOL_UID: "p"}
    assert owner(thing(kind="Pod", name="chat-router-6d4f-x2x", **tags)) == "p"
    assert owner(thing(kind="Pod", name="chat-debug", **tags)) == ""


def test_a_taken_name_says_where_it_is_whose_and_what_to_do():
    of_pool = thing(
        name="chat-router",
        **{labels.MANAGED_BY: "geotrain", labels.POOL: "chat", labels.POOL_UID: "p"},
    )
    found = [thing(), thing(name="gpt", **ours()), of_pool, thing(name="more")]
    taken = [
        Taken(Need.of(center, each), whose(each))
        for each, center in zip(found, ("dc-west", "dc-east", HUB, "dc-east"), strict=True)
    ]
    assert told(taken[:1], "job") == (
        "Service team-a/gpt in dc-west was not made by geotrain, or has lost its labels; rename"
        " the job or remove that object, which geotrain leaves alone"
    )
    assert told(taken, "pool") == (
        "Service team-a/gpt in dc-west was not made by geotrain, or has lost its labels;"
        " Service team-a/gpt in dc-east belongs to GeoTrainingJob gpt (uid u);"
        " Service team-a/chat-router on the hub belongs to PrefillPool chat (uid p); and 1 more;"
        " rename the pool or remove those objects, which geotrain leaves alone"
    )
