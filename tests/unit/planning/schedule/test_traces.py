import json
from collections import defaultdict
from dataclasses import replace

from geotrain.planning.placement.choose import choose
from geotrain.planning.schedule.traces import chrome_trace
from support.planning import links, profile, topology, workload

PLACES = topology({"a": 2, "b": 2}, links(("a", "b"), capacity=1.6e9, round_trip=0.02))
JOB = workload(profile=profile(2), pipeline=2, global_batch=4, schedule="GPipe", sharing="Spatial")
PLAN = choose(PLACES, replace(JOB, profile=replace(JOB.profile, optimizer_step=0.001)))
EVENTS = json.loads(json.dumps(chrome_trace(PLAN)))["traceEvents"]
SLICES = [event for event in EVENTS if event["ph"] == "X"]


def test_it_has_a_process_a_data_centre_and_a_thread_a_rank_or_flow():
    named = {e["args"]["name"] for e in EVENTS if e["name"] in ("process_name", "thread_name")}
    assert {"a", "b", "rank 0 (stage 0.0)", "rank 3 (stage 1.1)", "to b: rank 0 to 2"} <= named
    categories = {event["cat"] for event in SLICES}
    assert categories == {"compute", "step", "bubble", "window", "transfer"}


def test_times_are_microseconds_of_one_iteration():
    first = next(event for event in SLICES if event["name"] == "0F0")
    assert (first["ts"], first["dur"]) == (0.0, 10_000.0)
    assert first["args"] == {"kind": "forward", "microBatch": 0}
    assert all(event["ts"] + event["dur"] <= PLAN.iteration * 1e6 + 1 for event in SLICES)


def test_slices_of_a_thread_lie_beside_or_in_each_other():
    threads = defaultdict(list)
    for event in SLICES:
        threads[event["tid"]].append((event["ts"], -event["dur"]))
    for slices in threads.values():
        open_ends = []
        for begin, minus in sorted(slices):
            while open_ends and open_ends[-1] <= begin + 0.002:
                open_ends.pop()
            assert not open_ends or begin - minus <= open_ends[-1] + 0.002
            open_ends.append(begin - minus)


def test_arrows_lead_from_the_maker_over_the_transfer_to_the_user():
    arrows = defaultdict(dict)
    for event in EVENTS:
        if event["ph"] in "stf":
            arrows[event["id"]][event["ph"]] = event
    assert len(arrows) == sum(len(sent) for sent in PLAN.transfers.values())
    for steps in arrows.values():
        times = [steps[phase]["ts"] for phase in "stf"]
        assert times == sorted(times)
        for event in steps.values():
            inside = [
                s for s in SLICES
                if s["tid"] == event["tid"] and s["ts"] <= event["ts"] <= s["ts"] + s["dur"]
            ]  # fmt: skip
            assert inside
