import json
import re

from geotrain.cli.page import content, page
from geotrain.planning.placement.choose import choose
from support.planning import links, profile, topology, workload

PLACES = topology({"a": 2, "b": 2}, links(("a", "b"), capacity=1.6e9, round_trip=0.02))
PLAN = choose(PLACES, workload(profile=profile(2), pipeline=2, global_batch=4, schedule="GPipe"))
PAGE = page(PLAN)


def bars(lane):
    flat = lane["bars"]
    return [tuple(flat[i : i + 4]) for i in range(0, len(flat), 4)]


def test_the_page_needs_no_other_file():
    assert not re.search(r"https?://|\bsrc=|<link|@import|\burl\(|\bimport\b", PAGE)
    assert "default-src 'none'" in PAGE
    assert not re.search(r"/\*[A-Z]+\*/", PAGE)


def test_the_data_in_the_page_is_what_the_script_reads():
    inside = re.search(r'<script type="application/json" id="data">(.*?)</script>', PAGE, re.DOTALL)
    assert json.loads(inside[1]) == content(PLAN)


def test_bars_are_whole_nanoseconds_in_order():
    found = content(PLAN)
    assert found["period"] == round(PLAN.iteration * 1e9)
    first = found["lanes"][0]
    assert (first["dataCenter"], first["name"]) == ("a", "stage 0 replica 0")
    begin, length, kind, label = bars(first)[0]
    assert (begin, length) == (0, 10_000_000)
    assert (found["kinds"][kind], found["labels"][label]) == ("forward", "0F0")
    for lane in found["lanes"]:
        assert [b[0] for b in bars(lane)] == sorted(b[0] for b in bars(lane))


def test_windows_transfers_and_bubbles_are_there():
    found = content(PLAN)
    kinds = {found["kinds"][bar[2]] for lane in found["lanes"] for bar in bars(lane)}
    assert {"forward", "backward", "bubble", "transfer", "window"} <= kinds
    assert all(bar[3] == -1 for lane in found["lanes"] for bar in bars(lane) if bar[2] in (5, 7))
