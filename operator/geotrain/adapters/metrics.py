"""Prometheus's text format. The only importer of prometheus_client besides those who count."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Literal

from prometheus_client import CollectorRegistry, generate_latest
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily
from prometheus_client.metrics_core import Metric

CONTENT_TYPE = "text/plain; version=0.0.4; charset=utf-8"


@dataclass(frozen=True, slots=True)
class Family:
    """One metric: its samples are label values, in the order of ``labels``, and a number."""

    name: str
    help: str
    kind: Literal["counter", "gauge"]
    labels: tuple[str, ...]
    samples: Mapping[tuple[str, ...], float]


class _Snapshot:
    def __init__(self, families: Iterable[Family]) -> None:
        self._families = families

    def collect(self) -> Iterable[Metric]:
        for family in self._families:
            make = CounterMetricFamily if family.kind == "counter" else GaugeMetricFamily
            metric = make(family.name, family.help, labels=family.labels)
            for values, number in family.samples.items():
                metric.add_metric(values, number)
            yield metric


def render(families: Iterable[Family]) -> bytes:
    """The text that answers a scrape."""
    registry = CollectorRegistry()
    registry.register(_Snapshot(families))
    return generate_latest(registry)
