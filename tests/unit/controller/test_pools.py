import json

import pytest

from geotrain.api import labels
from geotrain.api.reasons import Reason
from geotrain.roles.controller.decision import HUB
from geotrain.roles.controller.observed import PlanFault
from geotrain.roles.controller.pools import decide
from support.pools import HOMES, NOW, World, gang, job, pool, rank_pod

ALL = ["chat-dc-east-0", "chat-dc-east-1", "chat-dc-west-0", "chat-dc-west-1"]


def step(world, now=NOW):
    decision = decide(world.observed(), now)
    world.carry_out(decision)
    return decision


def condition(world, kind):
    found = world.pool.status.condition(kind)
    return found.status, found.reason


def workers(world):
    return [name for center in HOMES for name in world.names("Pod", center)]


@pytest.fixture
def world():
    return World()


@pytest.fixture
def serving():
    world = World()
    step(world)
    world.add_router()
    world.start()
    step(world)
    return world


def test_a_running_gang_gets_a_worker_beside_every_rank(world):
    step(world)
    assert workers(world) == ALL
    beside = [
        world.objects[center, "Pod", name]["metadata"]["labels"][labels.BESIDE_RANK]
        for center in HOMES
        for name in world.names("Pod", center)
    ]
    assert beside == ["0", "1", "2", "3"]
    assert condition(world, "Bound") == ("True", "JobBound")


@pytest.mark.parametrize(
    ("conditions", "message"),
    [
        (
            [
                {"type": "Progressing", "status": "True"},
                {"type": "ReplicaFailure", "status": "True", "message": "exceeded quota: pods"},
            ],
            "exceeded quota: pods",
        ),
        (
            [{"type": "ReplicaFailure", "status": "True", "reason": "FailedCreate"}],
            "FailedCreate",
        ),
        ([{"type": "ReplicaFailure", "status": "False"}], "chat-router has no ready pod"),
        ([], "chat-router has no ready pod"),
    ],
)
def test_a_router_that_gets_no_pod_is_told_with_the_reason(world, conditions, message):
    step(world)
    world.objects[HUB, "Deployment", "chat-router"]["status"] = {"conditions": conditions}
    step(world)
    found = world.pool.status.condition("Serving")
    assert (found.reason, found.message) == ("RouterNotReady", message)


def test_members_hold_what_workers_need_and_the_hub_the_router(world):
    step(world)
    for center in HOMES:
        assert world.names("ConfigMap", center) == ["chat-geotrain"]
        assert world.names("NetworkPolicy", center) == ["chat-geotrain"]
    assert world.names("Deployment", HUB) == ["chat-router"]
    assert world.names("Service", HUB) == ["chat-router"]
    assert world.names("ConfigMap", HUB) == ["chat-router"]


def test_a_second_step_changes_nothing(serving):
    before = {key: dict(found) for key, found in serving.objects.items()}
    decision = step(serving)
    assert decision.deletions == ()
    assert decision.status is None
    assert decision.events == ()
    assert [set(found) for found in serving.objects.values()] == [set(b) for b in before.values()]


def test_the_router_is_told_where_the_workers_are(serving):
    config = serving.objects[HUB, "ConfigMap", "chat-router"]["data"]
    addresses = json.loads(config["workers.json"])["workers"]
    assert [each["rank"] for each in addresses] == [0, 1, 2, 3]
    assert addresses[0] == {"url": "http://10.1.0.7:8000", "dataCenter": "dc-east", "rank": 0}


def test_the_routers_kubelet_is_made_to_look_whenever_the_list_of_workers_changes(serving):
    routes = serving.objects[HUB, "Pod", "chat-router-abc"]["metadata"]["annotations"]
    before = routes[labels.ROUTES]
    assert not decide(serving.observed(), NOW).annotate, "it has looked already"
    serving.start("chat-dc-east-0", podIP="10.1.0.8")
    step(serving)
    assert routes[labels.ROUTES] != before


def test_a_router_that_goes_is_left_alone(serving):
    pod = serving.objects[HUB, "Pod", "chat-router-abc"]["metadata"]
    pod["deletionTimestamp"] = "2026-01-01T00:00:00Z"
    serving.start("chat-dc-east-0", podIP="10.1.0.8")
    assert not decide(serving.observed(), NOW).annotate


def test_ipv6_workers_are_written_in_brackets(serving):
    serving.start("chat-dc-east-0", podIP="fd00::7")
    step(serving)
    config = serving.objects[HUB, "ConfigMap", "chat-router"]["data"]
    assert "http://[fd00::7]:8000" in config["workers.json"]


def test_only_the_router_may_talk_to_workers(serving):
    policy = serving.objects["dc-west", "NetworkPolicy", "chat-geotrain"]["spec"]
    (rule,) = policy["ingress"]
    assert {"ipBlock": {"cidr": "10.9.0.9/32"}} in rule["from"]
    assert rule["ports"] == [{"port": 8000, "protocol": "TCP"}]
    assert policy["podSelector"]["matchLabels"][labels.ROLE] == "prefill"


def test_a_pool_serves_when_router_and_workers_are_ready(serving):
    assert condition(serving, "Serving") == ("True", "WorkersReady")
    status = serving.pool.status
    assert status.phase == "Serving"
    assert status.ready_workers == 4
    assert [(w.data_center, w.desired, w.ready) for w in status.workers] == [
        ("dc-east", 2, 2),
        ("dc-west", 2, 2),
    ]
    assert status.endpoint == "http://chat-router.team-a.svc:8080"
    assert status.job == "gpt"


def test_without_a_router_nothing_is_served(world):
    step(world)
    world.start()
    step(world)
    assert condition(world, "Serving") == ("False", "RouterNotReady")
    world.add_router(ready=False)
    step(world)
    assert condition(world, "Serving") == ("False", "RouterNotReady")


def test_fewer_workers_than_wanted_are_said(world):
    world.pool = pool(scaling={"min": 3})
    step(world)
    world.add_router()
    world.start("chat-dc-east-0", "chat-dc-west-0")
    world.objects["dc-west", "Pod", "chat-dc-west-1"]["status"] = {
        "phase": "Pending",
        "containerStatuses": [
            {"name": "worker", "state": {"waiting": {"reason": "ErrImagePull", "message": "no"}}}
        ],
    }
    step(world)
    assert condition(world, "Serving") == ("False", "WorkersStarting")
    message = world.pool.status.condition("Serving").message
    assert message == "2 of 3 workers are ready: chat-dc-west-1: worker: ErrImagePull no"


BY_LABELS = {"trainingJobRef": None, "jobSelector": {"matchLabels": {"a": "b"}}}


@pytest.mark.parametrize(
    ("fields", "reason", "words"),
    [
        ({"job": None}, "JobMissing", "no GeoTrainingJob gpt in team-a"),
        (
            {
                "job": None,
                "pool": pool(**BY_LABELS),
            },
            "JobMissing",
            "has the labels a=b",
        ),
        ({"ranks": ()}, "JobNotRunning", "no running gang"),
        ({"ranks": gang(r3="Pending")}, "JobNotRunning", "no running gang"),
        ({"ranks": gang(r3="Failed")}, "JobNotRunning", "no running gang"),
        ({"job": job(plan=None)}, "JobNotRunning", "no running gang"),
        (
            {"pool": pool(placement={"stages": [1, 2, 3]})},
            "NoSuchStage",
            "stage 2, 3; job gpt has 0 to 1",
        ),
    ],
)
def test_a_pool_that_is_not_bound_says_why_and_has_no_workers(fields, reason, words):
    world = World(**fields)
    step(world)
    assert condition(world, "Bound") == ("False", reason)
    assert words in world.pool.status.condition("Bound").message.replace("there is ", "")
    assert workers(world) == []
    assert world.pool.status.phase == "Waiting"


def test_workers_leave_with_the_gang_and_come_back_with_it(serving):
    serving.ranks = gang(r0="Failed")
    decision = step(serving)
    assert {r.name for r in decision.deletions if r.kind == "Pod"} == set(ALL)
    assert serving.names("ConfigMap", "dc-west") == []
    assert serving.names("NetworkPolicy", "dc-west") == []
    assert serving.names("Deployment", HUB) == ["chat-router"], "clients are told to come later"
    assert condition(serving, "Serving") == ("False", "JobNotRunning")
    assert condition(serving, "TrainingProtected") == ("Unknown", "JobNotRunning")
    serving.ranks = gang()
    step(serving)
    assert workers(serving) == ALL


def test_a_job_that_is_being_deleted_has_no_workers(serving):
    serving.job = job()
    meta = serving.job.metadata.model_copy(update={"deletion_timestamp": "2026-01-01T00:00:00Z"})
    serving.job = serving.job.model_copy(update={"metadata": meta})
    step(serving)
    assert workers(serving) == []


def test_a_terminating_rank_takes_the_workers_with_it(serving):
    leaving = rank_pod(0, deletionTimestamp="2026-01-01T00:00:00Z")
    serving.ranks = (leaving, *serving.ranks[1:])
    step(serving)
    assert workers(serving) == []


def test_a_worker_waits_until_there_is_room(world):
    world.cpu = 500
    template = {
        "spec": {
            "containers": [
                {"name": "w", "image": "i", "resources": {"requests": {"cpu": "1"}}},
            ]
        }
    }
    world.pool = pool(template=template)
    decision = step(world)
    assert workers(world) == []
    world.add_router()
    step(world)
    message = world.pool.status.condition("Serving").message
    assert "chat-dc-east-0: node lacks 500m cpu" in message.replace("0.5 cpu", "500m cpu")
    assert decision.requeue_after is not None
    world.cpu = 64_000
    step(world)
    assert workers(world) == ALL


def test_an_evicted_worker_is_made_anew_after_a_while(serving):
    evicted = serving.objects["dc-east", "Pod", "chat-dc-east-0"]
    evicted["status"] = {
        "phase": "Failed",
        "containerStatuses": [
            {"name": "w", "state": {"terminated": {"finishedAt": "2023-11-14T22:13:20Z"}}}
        ],
    }
    assert step(serving, NOW + 10).deletions == ()
    assert [r.name for r in step(serving, NOW + 31).deletions] == ["chat-dc-east-0"]
    step(serving, NOW + 32)
    assert workers(serving) == ALL


def test_an_evicted_worker_without_a_time_is_not_waited_for(serving):
    serving.objects["dc-east", "Pod", "chat-dc-east-0"]["status"] = {"phase": "Failed"}
    assert [r.name for r in step(serving).deletions] == ["chat-dc-east-0"]


def test_a_new_template_replaces_workers_one_after_another(serving):
    template = {"spec": {"containers": [{"name": "w", "image": "new"}]}}
    status = serving.pool.status
    serving.pool = pool(template=template).model_copy(update={"status": status})
    replaced = []
    for _ in range(12):
        gone = [r.name for r in step(serving).deletions]
        assert len(gone) <= 1, "the others go on serving"
        replaced += gone
        if not gone:
            serving.start()
    assert sorted(replaced) == ALL
    images = {
        serving.objects[center, "Pod", name]["spec"]["containers"][0]["image"]
        for center in HOMES
        for name in serving.names("Pod", center)
    }
    assert images == {"new"}


def test_outdated_workers_that_do_not_work_are_replaced_at_once(serving):
    serving.start(phase="Pending")
    template = {"spec": {"containers": [{"name": "w", "image": "new"}]}}
    serving.pool = pool(template=template)
    assert len(step(serving).deletions) == 4


def test_a_terminating_worker_is_not_deleted_again(serving):
    leaving = serving.objects["dc-east", "Pod", "chat-dc-east-0"]
    leaving["metadata"]["deletionTimestamp"] = "2026-01-01T00:00:00Z"
    serving.ranks = ()
    assert "chat-dc-east-0" not in [r.name for r in decide(serving.observed(), NOW).deletions]


def test_a_profile_that_is_wrong_is_said_and_what_runs_stays(serving):
    serving.profile = PlanFault(Reason.PROFILE_INVALID, "layerTimes: give one or more")
    step(serving)
    assert condition(serving, "Serving") == ("False", "ProfileInvalid")
    assert workers(serving) == ALL
    serving.job = None
    step(serving)
    assert workers(serving) == []


def test_before_the_profile_is_read_nothing_is_made():
    world = World(profile=None)
    step(world)
    assert condition(world, "Serving") == ("False", "ProfileMissing")
    assert world.objects == {}


def test_data_centres_of_one_cluster_share_what_workers_read(world):
    world.one_cluster = True
    step(world)
    assert world.names("ConfigMap", "dc-east") == ["chat-geotrain"]
    assert world.names("ConfigMap", "dc-west") == []
    assert workers(world) == ALL


def test_a_silent_member_leaves_the_others_alone(serving):
    serving.faults["dc-west"] = "does not answer"
    decision = step(serving)
    assert decision.deletions == ()
    assert condition(serving, "Bound") == ("True", "JobBound")
    assert workers(serving) == ALL


def test_a_place_in_an_unknown_data_centre_is_left_out(world):
    world.ranks = tuple(
        type(pod)(pod.data_center, json.loads(json.dumps(pod.manifest).replace("dc-west", "dc-x")))
        for pod in world.ranks
    )
    step(world)
    assert workers(world) == ALL[:2]


def test_what_the_router_counted_is_in_the_status(serving):
    serving.stats = {
        "admitted": 7,
        "refused": 2,
        "ttft": {"p50": 0.05, "p90": 0.2, "p99": 0.3},
        "bubbleSeconds": {"offered": 12.3456, "used": 3.0},
    }
    step(serving)
    status = serving.pool.status
    assert (status.requests.admitted, status.requests.refused) == (7, 2)
    assert (status.bubble_seconds.offered, status.bubble_seconds.used) == (12.346, 3.0)
    assert status.time_to_first_token.p90 == "200ms"


def test_a_worker_is_ready_once_the_router_reaches_it(world):
    world.pool = pool(scaling={"min": 2})
    step(world)
    world.add_router()
    for number, name in enumerate(ALL):
        world.start(name, podIP=f"10.1.0.{number}")
    reached = [
        {"url": "http://10.1.0.1:8000", "answers": True},
        {"url": "http://10.1.0.2:8000", "answers": False},
        "nonsense",
    ]
    world.stats = {"workers": reached}
    step(world)
    assert condition(world, "Serving") == ("False", "WorkersStarting")
    message = world.pool.status.condition("Serving").message
    assert message == "1 of 2 workers are ready: the router has not reached the others yet"
    assert world.pool.status.ready_workers == 1
    reached[1]["answers"] = True
    step(world)
    assert condition(world, "Serving") == ("True", "WorkersReady")


def test_stats_that_make_no_sense_are_left_out(serving):
    serving.stats = {
        "admitted": -1,
        "refused": "x",
        "ttft": {"p50": None},
        "bubbleSeconds": {"offered": "much", "used": float("nan")},
    }
    step(serving)
    status = serving.pool.status
    assert status.requests is None
    assert status.bubble_seconds is None
    assert status.time_to_first_token is None
    serving.stats = {"ttft": 3, "bubbleSeconds": [], "admitted": True, "refused": 0}
    assert step(serving).status is None


def test_a_pool_that_is_deleted_takes_everything_with_it(serving):
    serving.pool = pool(deleted=True).model_copy(update={"status": serving.pool.status})
    first = step(serving)
    assert first.finalizer is None
    assert {r.kind for r in first.deletions} >= {"Pod", "ConfigMap", "NetworkPolicy", "Deployment"}
    serving.objects.pop((HUB, "Pod", "chat-router-abc"))
    last = step(serving)
    assert last.finalizer is False
    assert [event.reason for event in last.events] == ["CleanedUp"]
    assert serving.objects == {}


def test_a_deleted_pool_waits_for_a_member_that_is_away(serving):
    serving.pool = pool(deleted=True).model_copy(update={"status": serving.pool.status})
    serving.faults["dc-west"] = "does not answer"
    step(serving)
    decision = step(serving)
    assert decision.finalizer is None
    assert condition(serving, "Serving") == ("Unknown", "MemberUnreachable")
    serving.faults.clear()
    step(serving)
    assert step(serving).finalizer is False


def test_a_deleted_pool_without_our_finalizer_is_left_alone():
    world = World(pool=pool(deleted=True))
    world.has_finalizer = False
    decision = decide(world.observed(), NOW)
    assert (decision.finalizer, decision.deletions) == (None, ())


def test_a_new_pool_is_held_until_it_is_cleaned_up(world):
    world.has_finalizer = False
    assert decide(world.observed(), NOW).finalizer is True
