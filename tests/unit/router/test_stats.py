import pytest

from geotrain.prefill.admission import Rules
from geotrain.prefill.fleet import Fleet
from geotrain.roles.router.metrics import Metrics
from geotrain.roles.router.stats import Stats


@pytest.fixture
def fleet():
    fleet = Fleet(Rules(), layers=4)
    fleet.keep(["http://a"])
    return fleet


def test_counts_add_up(fleet):
    stats = Stats(admitted=5)
    for outcome in ("served", "served", "failed", "cancelled"):
        stats.count(outcome)
    stats.refusals["NoWorker"] += 2
    for seconds in (0.1, 0.2, 0.3):
        stats.first_tokens.add(0.0, seconds)
    document = stats.document(fleet, 0.0)
    assert document["inFlight"] == 1
    assert document["refused"] == 2
    assert document["ttft"] == {"p50": 0.2, "p90": 0.3, "p99": 0.3}
    assert document["workers"] == [{"url": "http://a", "answers": False, "open": False, "queue": 0}]


def test_before_anything_was_served_there_are_no_percentiles(fleet):
    assert Stats().document(fleet, 0.0)["ttft"] == {"p50": None, "p90": None, "p99": None}


def test_metrics_are_read_from_the_same_counts(fleet):
    stats = Stats(admitted=2, served=1, retried=3)
    stats.refusals["NoWorker"] += 2
    metrics = Metrics(stats, fleet)
    metrics.first_token(0.2)
    text = metrics.exposition().decode()
    assert 'geotrain_router_requests_total{outcome="served"} 1.0' in text
    assert 'geotrain_router_refusals_total{reason="NoWorker"} 2.0' in text
    assert "geotrain_router_retries_total 3.0" in text
    assert "geotrain_router_in_flight 1.0" in text
    assert 'geotrain_router_bubble_seconds_total{kind="offered"} 0.0' in text
    assert 'geotrain_router_workers{state="silent"} 1.0' in text
    assert 'time_to_first_token_seconds_bucket{le="0.25"} 1.0' in text
