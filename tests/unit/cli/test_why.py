"""``geotrain explain``: facts in, findings out, as tables."""

from dataclasses import replace
from datetime import UTC, datetime

import pytest

from geotrain.api.reasons import Reason
from geotrain.api.v1alpha1 import DataCenter, GeoTrainingJob, PrefillPool, WanLink
from geotrain.cli import why
from geotrain.cli.explain import explanation
from geotrain.cli.why import Facts, Pod
from geotrain.cli.why_here import here
from geotrain.cli.why_pending import ADVICE, headline, pending
from geotrain.cli.why_slow import slow
from geotrain.planning.placement.attribution import Attribution, Part
from support import hubs
from support.manifests import prefill_pool, with_field

NOW = datetime(2026, 1, 1, 1, tzinfo=UTC)
_, _, PLAN = hubs.problem()
RUNNING, WAITING = hubs.running(PLAN), hubs.waiting(PLAN)
condition = hubs.condition


def job(status=None, **fields):
    manifest = hubs.documents("job.yaml")[0]
    manifest["metadata"] |= {"creationTimestamp": hubs.TIME, "generation": 1}
    for path, value in fields.items():
        manifest = with_field(manifest, path.replace("__", "."), value)
    return GeoTrainingJob.from_manifest({**manifest, "status": status or {}})


def facts(status=None, *, spec=None, **fields):
    return Facts(job(status, **(spec or {})), NOW, **fields)


def centers(**free):
    made = []
    for each in hubs.documents("topology.yaml")[:3]:
        name = each["metadata"]["name"]
        up = condition("Reachable", "True", "Contacted")
        down = condition("Reachable", "False", "Unreachable", "timed out")
        gpus = {"capacity": 8, "allocatable": 8, "free": free.get(name[3:], 4)}
        status = {"gpus": gpus, "conditions": [down if free.get(name[3:], 4) is None else up]}
        if status["gpus"]["free"] is None:
            status["gpus"] = None
        made.append(DataCenter.from_manifest({**each, "status": status}))
    return made


def links(**measured):
    made = []
    for each in hubs.documents("topology.yaml")[3:]:
        status = {"measured": {**measured, "time": hubs.TIME}} if measured else {}
        made.append(WanLink.from_manifest({**each, "status": status}))
    return made


def codes(section):
    return [each.code for each in section.findings]


def saying(section, code):
    return next(each for each in section.findings if each.code == code)


def waits(kind, reason, message="so it is"):
    """A job whose step ``kind`` is not done."""
    steps = ("Planned", "Reserved", "PodsReady")
    done = [condition(each, "True", "Fine") for each in steps[: steps.index(kind)]]
    return {"phase": "Waiting", "observedGeneration": 1,
            "conditions": [*done, condition(kind, "False", reason, message)]}  # fmt: skip


@pytest.mark.parametrize(
    ("status", "line"),
    [({}, "team-a/gpt: new, created 60m ago"), (RUNNING, "team-a/gpt: Running, created 60m ago")],
)
def test_the_headline_says_phase_and_age(status, line):
    assert headline(facts(status)) == line


def test_a_job_that_was_read_from_a_file_has_no_age():
    assert headline(facts(spec={"metadata__creationTimestamp": None})) == "team-a/gpt: new"


@pytest.mark.parametrize("status", [RUNNING, {"conditions": [condition("Complete", "True", "X")]}])
def test_what_runs_or_is_done_is_not_pending(status):
    assert pending(facts(status)) is None


@pytest.mark.parametrize("reason", [
    ("Planned", Reason.NO_FEASIBLE_PLACEMENT), ("Planned", Reason.LINK_MISSING),
    ("Planned", Reason.PROFILE_MISSING), ("Planned", Reason.PROFILE_INVALID),
    ("Planned", Reason.INVALID_PARALLELISM), ("Planned", Reason.NOT_ENOUGH_MEMORY),
    ("Planned", Reason.UNKNOWN_DATA_CENTER), ("Planned", Reason.NO_DATA_CENTERS),
    ("Planned", Reason.UNKNOWN_ACCELERATOR), ("Planned", Reason.INVALID_SPEC),
    ("Reserved", Reason.WAITING_FOR_CAPACITY), ("Reserved", Reason.RESERVE_TIMEOUT),
    ("Reserved", Reason.MEMBER_UNREACHABLE), ("Reserved", Reason.MEMBER_REFUSED),
    ("Reserved", Reason.GANG_RESTARTING), ("PodsReady", Reason.PODS_STARTING),
])  # fmt: skip
def test_each_reason_is_said_with_what_a_person_can_do(reason):
    kind, why_not = reason
    section = pending(facts(waits(kind, why_not)))
    found = saying(section, why_not)
    assert found.level == "problem"
    assert f"({why_not}, for 60m): so it is" in found.sentence
    assert found.advice == ADVICE[why_not].replace("JOB", "gpt -n team-a")
    steps = ["Planned", "Reserved", "PodsReady"]
    assert codes(section)[-1] == (steps[-1] if kind != "PodsReady" else why_not)


def test_a_reason_of_another_version_is_said_without_advice():
    found = saying(pending(facts(waits("Reserved", "SomethingNew"))), "SomethingNew")
    assert found.advice == ""


@pytest.mark.parametrize(
    ("status", "spec", "wanted"),
    [
        ({}, {}, ["NotSeen"]),
        ({}, {"spec__managedBy": "kueue.x-k8s.io/multikueue"}, ["ManagedElsewhere"]),
        ({}, {"metadata__deletionTimestamp": hubs.TIME}, ["BeingDeleted", "NotSeen"]),
        ({"conditions": [condition("Suspended", "True", "Suspended")]}, {}, ["Suspended"]),
        ({"conditions": [condition("Failed", "True", "MaxRestartsExceeded")]}, {},
         ["MaxRestartsExceeded"]),
        ({**WAITING, "observedGeneration": 0}, {},
         ["Outdated", "PlanReady", "WaitingForCapacity", "PodsReady"]),
        ({"conditions": [condition("Planned", "True", "PlanReady")]}, {},
         ["PlanReady", "Reserved", "PodsReady"]),
    ],
)  # fmt: skip
def test_the_order_of_what_holds_a_job(status, spec, wanted):
    assert codes(pending(facts(status, spec=spec))) == wanted


def test_a_job_that_failed_has_failed():
    failed = {"conditions": [condition("Failed", "True", "DeadlineExceeded", "ran too long")]}
    assert pending(facts(failed)).title == "Why it failed"
    assert pending(facts(WAITING)).title == "Why it does not run"


def test_where_room_is_lacking_each_data_centre_is_compared_with_the_plan():
    section = pending(facts(WAITING, centers=centers(east=None, west=0)))
    assert section.figures.heads == ("DC", "REACHABLE", "FREE", "WANTED", "WHY")
    assert section.figures.rows == (
        ("dc-west", "True", "0/8", "4", "-"),
        ("dc-central", "True", "4/8", "4", "-"),
        ("dc-east", "False", "-", "4", "Unreachable: timed out"),
    )


def test_without_a_plan_a_stage_is_what_is_wanted():
    status = waits("Planned", Reason.NO_FEASIBLE_PLACEMENT)
    spec = {"spec__placement": {"dataCenters": ["dc-west"]}}
    rows = pending(facts(status, spec=spec, centers=centers())).figures.rows
    assert [(row[0], row[3], row[4]) for row in rows] == [
        ("dc-west", "2 a stage", "-"),
        ("dc-central", "-", "not among placement.dataCenters"),
        ("dc-east", "-", "not among placement.dataCenters"),
    ]
    auto = {"spec__parallelism__data": "auto"}
    rows = pending(facts(status, spec=auto, centers=centers())).figures.rows
    assert {row[3] for row in rows} == {"1 a stage"}


def test_where_room_is_not_the_matter_or_not_known_there_is_no_table():
    assert pending(facts(waits("Planned", Reason.LINK_MISSING), centers=centers())).figures is None
    assert pending(facts(WAITING)).figures is None


def test_what_pods_show_is_told_and_where_nobody_could_look():
    pods = [
        Pod(0, "dc-west", "Pending", trouble="ImagePullBackOff: no such image"),
        Pod(1, "dc-west", "Running", "w1"),
        Pod(2, "dc-east", "Failed", "e1", "trainer ended with 137 (OOMKilled)", 1),
    ]
    section = pending(facts(WAITING, pods=pods, unseen={"dc-x": "dc-x cannot be looked into"}))
    told = [each.sentence for each in section.findings[-3:]]
    assert told == [
        "rank 0 in dc-west: ImagePullBackOff: no such image",
        "rank 2 in dc-east on node e1: trainer ended with 137 (OOMKilled)",
        "dc-x cannot be looked into",
    ]


def test_without_a_plan_there_is_no_here_and_no_slow():
    assert here(facts()) is None
    assert slow(facts()) is None


def test_here_names_the_plan_and_what_lost():
    section = here(facts(RUNNING))
    assert codes(section) == ["Chosen", "Objective"]
    chosen = saying(section, "Chosen").sentence
    assert chosen.startswith("it runs as dc-west:2 dc-central:2 dc-east:2, 12 ranks (2 x 6) of 1")
    assert "the most samples a second" in saying(section, "Objective").sentence
    placements = {(row[0], row[1], row[2].split()[0]) for row in section.figures.rows}
    assert len(placements) == len(section.figures.rows)


def test_a_plan_that_does_not_run_is_planned_by_price_and_fixed():
    by_price = {"spec__placement__objective": "Cost", "spec__parallelism__tensor": 8}
    status = {**WAITING, "plan": {**WAITING["plan"], "tensor": 8, "pricePerIteration": 0.5,
                                  "alternatives": WAITING["plan"]["alternatives"][:1]}}  # fmt: skip
    section = here(facts(status, spec=by_price))
    assert saying(section, "Chosen").sentence.startswith("planned as")
    assert ", 0.5 an iteration" in saying(section, "Chosen").sentence
    assert "of 8 GPUs" in saying(section, "Chosen").sentence
    assert "the cheapest sample" in saying(section, "Objective").sentence
    assert saying(section, "Objective").sentence.endswith("1 other lost")
    stages = [{"dataCenter": "dc-west", "stages": 6}]
    fixed = here(facts(WAITING, spec={"spec__placement": {"policy": "Fixed", "stages": stages}}))
    assert codes(fixed) == ["Chosen", "Fixed"]


@pytest.mark.parametrize(
    ("free", "spec", "why_not"),
    [
        ({}, {"spec__placement": {"dataCenters": ["dc-west"]}}, "not among placement.dataCenters"),
        ({"east": None}, {}, "it cannot be reached (timed out)"),
        ({"east": 1}, {}, "it has 1 free GPUs now, and a stage takes 2"),
        ({}, {}, "plans with it lost, see below"),
    ],
)
def test_a_data_centre_that_is_not_used_is_told_of(free, spec, why_not):
    segments = [s for s in RUNNING["plan"]["stages"] if s["dataCenter"] != "dc-east"]
    status = {**RUNNING, "plan": {**RUNNING["plan"], "stages": segments}}
    section = here(facts(status, spec=spec, centers=centers(**free)))
    assert why_not in saying(section, "NotUsed").sentence


def test_a_data_centre_in_no_plan_is_said_to_be_so():
    segments = RUNNING["plan"]["stages"][1:]
    status = {**RUNNING, "plan": {**RUNNING["plan"], "stages": segments, "alternatives": []}}
    section = here(facts(status, centers=centers()))
    assert "no plan that uses it is among the best" in saying(section, "NotUsed").sentence
    assert section.figures is None


def observed(**values):
    return {**RUNNING, "observed": {"restarts": 0, **values}}


@pytest.mark.parametrize(
    ("status", "code", "sentence"),
    [
        (WAITING, "NotMeasured", "none is measured yet (it does not run)"),
        (observed(), "NotMeasured", "none is measured yet"),
        (observed(iterationTime="1.9s"), "AsPlanned", "measured 1.9s an iteration, planned 1.896s"),
        (observed(iterationTime="2.4s"), "SlowerThanPlanned", "(+27%)"),
        (observed(iterationTime="2s", time=hubs.TIME), "Stale", "measured 60m ago; nothing new"),
        (observed(restarts=1), "Restarted", "the gang was restarted once"),
        (observed(restarts=3), "Restarted", "restarted 3 times"),
    ],
)
def test_the_pace(status, code, sentence):
    assert sentence in saying(slow(facts(status)), code).sentence


def test_a_plan_without_a_time_has_no_pace():
    status = {**RUNNING, "plan": {**RUNNING["plan"], "iterationTime": "soon"}}
    assert "NotMeasured" not in codes(slow(facts(status, links=links())))


PARTS = {Part.COMPUTE: 0.5, Part.WAN: 0.3, Part.PIPELINE: 0.2, Part.SYNC: 0.1}
PAIRS = {("a", "b"): 0.3, ("b", "c"): 0.1}


@pytest.mark.parametrize(
    ("parts", "pairs", "code", "sentence"),
    [
        (PARTS, PAIRS, "BoundByCompute", "bound by computing: of 1.1s, 500ms computing"),
        (PARTS | {Part.WAN: 0.9}, PAIRS, "BoundByWan", "waiting for the wide area between a and b"),
        (PARTS | {Part.WAN: 0.9}, {("a", "b"): 0.3, ("b", "c"): 0.29}, "BoundByWan", "area: of"),
        (PARTS | {Part.WAN: 0.9}, {}, "BoundByWan", "area: of"),
        (PARTS | {Part.PIPELINE: 0.9}, PAIRS, "BoundByPipeline", "pipeline fill and drain"),
        (PARTS | {Part.SYNC: 0.9}, PAIRS, "BoundBySync", "all-reduce and optimizer step"),
    ],
)
def test_the_largest_part_binds(parts, pairs, code, sentence):
    section = slow(facts(RUNNING, parts=Attribution(1.1, parts, pairs)))
    assert sentence in saying(section, code).sentence
    assert saying(section, code).advice


def test_memory_that_costs_time_is_told_of():
    tight = Attribution(1.1, PARTS, PAIRS, memory=0.2)
    assert "save 200ms" in saying(slow(facts(RUNNING, parts=tight)), "BoundByMemory").sentence
    assert "BoundByMemory" not in codes(slow(facts(RUNNING, parts=replace(tight, memory=0.001))))


def planned(**values):
    return {**RUNNING, "plan": {**RUNNING["plan"], **values}}


@pytest.mark.parametrize(
    ("status", "measured", "code"),
    [
        (planned(), {}, "BoundByWan"),  # far more waiting than fill and drain explain
        (planned(), {"capacity": "50M"}, "BoundByWan"),
        (planned(gpuUse=0.9, bubbleShare=0.1), {}, "BoundByCompute"),
        (planned(gpuUse=0.75, bubbleShare=0.25), {}, "BoundByPipeline"),
    ],
)
def test_without_a_replay_the_status_tells_what_binds(status, measured, code):
    assert code in codes(slow(facts(status, links=links(**measured))))


def test_without_links_what_binds_is_told_all_the_same():
    assert "BoundByWan" in codes(slow(facts(planned())))


@pytest.mark.parametrize(
    ("reason", "status", "level"),
    [
        ("WindowsMeasured", "True", "good"),
        ("WindowsMissed", "False", "problem"),
        ("NoSignal", "False", "problem"),
        ("NotIntercepted", "False", "problem"),
        ("NotShaped", "False", "problem"),
        ("NoReport", "Unknown", "problem"),
    ],
)
def test_windows(reason, status, level):
    found = {**RUNNING, "conditions": [condition("WindowsEnforced", status, reason, "rank 3")]}
    found["observed"] = {"restarts": 0, "inWindowShare": 0.75}
    told = saying(slow(facts(found)), reason)
    assert told.level == level
    assert "75% of the bytes were sent inside their windows" in told.sentence
    assert bool(told.advice) == (level == "problem")


@pytest.mark.parametrize("reason", ["NoWindows", "Disabled", "NotRunning"])
def test_windows_that_nobody_wants_are_not_told_of(reason):
    found = {**RUNNING, "conditions": [condition("WindowsEnforced", "False", reason)]}
    assert reason not in codes(slow(facts(found)))


def test_a_degraded_link_is_told_of_where_the_job_uses_it():
    section = slow(facts(RUNNING, links=links(capacity="50M", roundTripTime="90ms")))
    told = [each.sentence for each in section.findings if each.code == "LinkDegraded"]
    assert told == [
        "between dc-central and dc-east, capacity is measured as 50M, and 100M is declared",
        "between dc-central and dc-east, a round trip is measured as 90ms, and 47ms is declared",
        "between dc-west and dc-central, capacity is measured as 50M, and 100M is declared",
        "between dc-west and dc-central, a round trip is measured as 90ms, and 44ms is declared",
    ]


@pytest.mark.parametrize(
    ("report", "sentence"),
    [
        ({"iteration": 3}, "rank 5 in dc-west is 4 iterations behind"),
        ({"iteration": 7, "secondsSinceSignal": 40.0}, "rank 5 in dc-west has not signalled for"),
        ({"iteration": 7, "secondsSinceSignal": 40.0, "done": True}, None),
        ({"iteration": 6, "secondsSinceSignal": 1.0}, None),
        ({"iteration": True, "secondsSinceSignal": None}, "rank 5 in dc-west is 7 iterations"),
    ],
)
def test_late_ranks(report, sentence):
    reports = {0: {"iteration": 7, "secondsSinceSignal": 0.5}, 5: report}
    pods = [Pod(5, "dc-west", "Running")]
    found = [each.sentence for each in slow(facts(RUNNING, reports=reports, pods=pods)).findings
             if each.code == "LateRank"]  # fmt: skip
    assert len(found) == (sentence is not None)
    assert sentence is None or sentence in found[0]


def test_where_late_ranks_could_not_be_looked_for_it_is_said():
    told = slow(facts(RUNNING, unseen={"dc-x": "dc-x cannot be looked into"}))
    assert "late ranks are not looked for" in saying(told, "NotLooked").sentence


@pytest.mark.parametrize(("status", "told"), [("False", True), ("True", False)])
def test_prefill_that_stretches_training_is_told_of(status, told):
    manifest = prefill_pool(namespace="team-a")
    protected = condition("TrainingProtected", status, "TrainingStretched", "iterations are longer")
    mine = {**manifest, "status": {"job": "gpt", "conditions": [protected]}}
    other = {**manifest, "status": {"job": "llama", "conditions": [protected]}}
    pools = [PrefillPool.from_manifest(each) for each in (mine, other)]
    assert codes(slow(facts(RUNNING, pools=pools))).count("TrainingStretched") == told


def test_estimated_costs_are_a_reason_to_be_off_the_plan():
    shape = {"layers": 6, "hiddenSize": 64, "sequenceLength": 64, "vocabularySize": 64}
    spec = {"spec__profileRef": None, "spec__model": shape}
    assert "CostsEstimated" in codes(slow(facts(RUNNING, spec=spec)))
    assert "CostsEstimated" not in codes(slow(facts(RUNNING)))


def test_the_figures_of_the_links():
    carried = observed(linkBytes=hubs.carried())
    gains = Attribution(1.1, PARTS, {("dc-central", "dc-east"): 0.25})
    figures = slow(facts(carried, links=links(), parts=gains)).figures
    rows = {row[:2]: row[2:] for row in figures.rows}
    assert rows["dc-central", "dc-east"] == ("38", "15.26Mi", "68%", "250ms", "-")
    assert rows["dc-west", "dc-central"] == ("34", "15.26Mi", "68%", "-", "75%")
    assert "COSTS" in figures.caption


def test_a_plan_that_crosses_nothing_has_no_figures():
    assert slow(facts(planned(links=[]))).figures is None


def test_the_document_holds_what_the_text_says():
    given = facts(WAITING, centers=centers())
    sections = explanation(given)
    found = why.document(given, headline(given), sections)
    assert [each["title"] for each in found["sections"]] == [
        "Why it does not run", "Why here", "Why slow",
    ]  # fmt: skip
    first = found["sections"][0]
    assert first["findings"][1]["code"] == "WaitingForCapacity"
    assert first["findings"][1]["advice"]
    assert "advice" not in first["findings"][0]
    assert first["figures"][0]["DC"] == "dc-west"
    assert "figures" not in why.document(given, "", [replace(sections[0], figures=None)])[
        "sections"
    ][0]  # fmt: skip
