"""``/metrics`` for Prometheus. Labels are outcomes and reasons, never names, so they stay few."""

from collections.abc import Iterator

from prometheus_client import CollectorRegistry, Histogram, generate_latest
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, Metric
from prometheus_client.registry import Collector

from geotrain.prefill.fleet import Fleet
from geotrain.roles.router.stats import Stats
from geotrain.units import Seconds

_BUCKETS = (0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0)


class Metrics(Collector):
    """Reads the counts when asked; only the histogram is written as things happen."""

    def __init__(self, stats: Stats, fleet: Fleet) -> None:
        self._stats = stats
        self._fleet = fleet
        self._registry = CollectorRegistry()
        self._registry.register(self)
        self._first_token = Histogram(
            "geotrain_router_time_to_first_token_seconds",
            "From a request's arrival to its first token.",
            buckets=_BUCKETS,
            registry=self._registry,
        )

    def first_token(self, seconds: Seconds) -> None:
        """Count a measured time to first token."""
        self._first_token.observe(seconds)

    def exposition(self) -> bytes:
        """Write everything in Prometheus's text format."""
        return generate_latest(self._registry)

    def collect(self) -> Iterator[Metric]:
        """Give the counts as they are now."""
        yield self._outcomes()
        refusals = CounterMetricFamily(
            "geotrain_router_refusals", "Requests answered 429, by reason.", labels=["reason"]
        )
        for reason, count in sorted(self._stats.refusals.items()):
            refusals.add_metric([reason], count)
        yield refusals
        yield CounterMetricFamily(
            "geotrain_router_retries",
            "Prefills begun again elsewhere because a worker failed.",
            value=self._stats.retried,
        )
        yield self._bubbles()
        yield GaugeMetricFamily(
            "geotrain_router_in_flight", "Requests without an answer.", value=self._stats.in_flight
        )
        yield self._workers()

    def _outcomes(self) -> Metric:
        family = CounterMetricFamily(
            "geotrain_router_requests", "Admitted requests that ended.", labels=["outcome"]
        )
        for outcome in ("served", "failed", "cancelled"):
            family.add_metric([outcome], getattr(self._stats, outcome))
        return family

    def _bubbles(self) -> Metric:
        family = CounterMetricFamily(
            "geotrain_router_bubble_seconds",
            "Usable idle GPU time that has passed, and GPU time that prefill took.",
            labels=["kind"],
        )
        family.add_metric(["offered"], self._fleet.offered_seconds)
        family.add_metric(["used"], self._fleet.used_seconds)
        return family

    def _workers(self) -> Metric:
        family = GaugeMetricFamily(
            "geotrain_router_workers", "Prefill workers that are known.", labels=["state"]
        )
        answering = sum(w.observed is not None for w in self._fleet.workers.values())
        family.add_metric(["answering"], answering)
        family.add_metric(["silent"], len(self._fleet.workers) - answering)
        return family
