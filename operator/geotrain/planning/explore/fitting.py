"""Constants of a calibration, fitted to iterations that somebody measured in one data centre.

A row's iteration is predicted as ``explore`` and a plan predict it: the stages of its layout on the
device, 1F1B or interleaved, replayed. The loss is the mean absolute logarithm of predicted over
measured, cut at 13 % so that disturbed runs do not pull, with what exceeds 10 % counted sevenfold,
because a planner is misled by its large errors. The search is Hooke and Jeeves' (J. ACM 8(2),
1961): each constant a step up or down, a leap where a round of steps led, half the step where
nothing helps. No gradient, no randomness: the same rows give the same constants.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from math import ceil, fsum, log
from typing import Final

from geotrain.model.topology import DataCenter, Lan, Topology
from geotrain.planning.costs.calibrations import Calibration, Device, Node, Residual
from geotrain.planning.costs.layers import Training
from geotrain.planning.costs.shapes import Shape
from geotrain.planning.costs.tiers import Constant, Tier
from geotrain.planning.explore.layouts import Layout
from geotrain.planning.explore.regions import Pods, regions
from geotrain.planning.explore.search import Explorer
from geotrain.planning.explore.steps import Problem
from geotrain.units import Seconds

CUT: Final = 0.13
LARGE: Final = 0.1
_FIRST_STEP, _LAST_STEP = 0.16, 0.004


@dataclass(frozen=True, slots=True)
class Run:
    """A model that somebody trained on ``layout``, and how long an iteration took."""

    shape: Shape
    layout: Layout
    training: Training
    batch: int
    measured: Seconds


@dataclass(frozen=True, slots=True)
class Cluster:
    """Equal nodes of one device, and what pods reach of each other."""

    device: Device
    lan: Lan


def predicted(run: Run, cluster: Cluster) -> Seconds:
    """The time of a run's iteration. Raises InputError where its layout cannot run."""
    device, lan, degrees = cluster.device, cluster.lan, run.layout.degrees
    gpus, tensor = device.calibration.node, degrees.tensor
    near = Tier(device.calibration.link_rates or Constant(device.accelerator.link))
    node = Node(gpus, near, Tier(Constant(lan.pod_rate(min(gpus, tensor))), lan.latency))
    place = Topology((DataCenter("one", degrees.devices, lan=lan),))
    (region,) = regions(place, degrees.devices, lambda _: Pods(tensor, node))
    problem = Problem(run.shape, region.network, device, run.batch, run.training)
    return Explorer(problem, run.layout).evaluate(run.layout).seconds


def error(run: Run, cluster: Cluster) -> float:
    """Predicted over measured, less 1."""
    return predicted(run, cluster) / run.measured - 1


def quantile(errors: Sequence[float], share: float) -> float:
    """The absolute error that ``share`` of the rows stay within."""
    return sorted(map(abs, errors))[ceil(share * len(errors)) - 1]


def residual(runs: Sequence[Run], cluster: Cluster) -> Residual:
    """The errors of a cluster's constants on rows."""
    errors = [error(run, cluster) for run in runs]
    return Residual(len(errors), quantile(errors, 0.5), quantile(errors, 0.9))


def loss(runs: Sequence[Run], cluster: Cluster) -> float:
    """See the module."""
    errors = [min(CUT, abs(log(predicted(run, cluster) / run.measured))) for run in runs]
    return fsum(each + 6 * max(0.0, each - LARGE) for each in errors) / len(errors)


_Get = Callable[[Calibration], float]
_Set = Callable[[Calibration, float], Calibration]
_Constant = tuple[Callable[[Cluster], float], Callable[[Cluster, float], Cluster]]


def _constant(get: _Get, change: _Set) -> _Constant:
    """One of the calibration's."""

    def changed(cluster: Cluster, value: float) -> Cluster:
        calibration = change(cluster.device.calibration, value)
        return replace(cluster, device=replace(cluster.device, calibration=calibration))

    return lambda cluster: get(cluster.device.calibration), changed


CONSTANTS: Final = (
    _constant(lambda c: c.matrix_share, lambda c, value: replace(c, matrix_share=value)),
    _constant(lambda c: c.memory_share, lambda c, value: replace(c, memory_share=value)),
    _constant(lambda c: c.overhead, lambda c, value: replace(c, overhead=value)),
    _constant(lambda c: c.contention, lambda c, value: replace(c, contention=value)),
)
POD_RATE: Final[_Constant] = (
    lambda cluster: cluster.lan.rate,
    lambda cluster, value: replace(cluster, lan=replace(cluster.lan, rate=value)),
)


def fit(runs: Sequence[Run], start: Cluster, *, pod_rate: bool) -> Cluster:
    """The constants with the least loss that a pattern search finds from ``start``.

    ``pod_rate``: what pods reach of each other is fitted as well.
    """
    constants = (*CONSTANTS, POD_RATE) if pod_rate else CONSTANTS
    best, at, step = loss(runs, start), start, _FIRST_STEP
    while step > _LAST_STEP:
        before = at
        at, value = _explored(runs, constants, (at, best), step)
        while value < best:
            best, leapt = value, _leapt(constants, before, at)
            before = at
            if leapt is not None:
                tried, found = _explored(runs, constants, (leapt, loss(runs, leapt)), step)
                at, value = (tried, found) if found < best else (at, value)
        step /= 2
    return at


def _explored(
    runs: Sequence[Run],
    constants: Sequence[_Constant],
    begin: tuple[Cluster, float],
    step: float,
) -> tuple[Cluster, float]:
    """One step of each constant, up or down, where that helps; the cluster and its loss."""
    at, best = begin
    for get, change in constants:
        for factor in (1 + step, 1 / (1 + step)):
            tried = _changed(at, change, get(at) * factor)
            if tried is not None and (value := loss(runs, tried)) < best:
                at, best = tried, value
                break
    return at, best


def _leapt(constants: Sequence[_Constant], before: Cluster, at: Cluster) -> Cluster | None:
    """As far again from where a round of steps began to where it ended."""
    found: Cluster | None = at
    for get, change in constants:
        old, new = get(before), get(at)
        if found is not None and old:
            found = _changed(found, change, new * new / old)
    return found


def _changed(
    cluster: Cluster, change: Callable[[Cluster, float], Cluster], value: float
) -> Cluster | None:
    """None where a share would be more than all."""
    try:
        return change(cluster, value)
    except ValueError:
        return None


def plain(device: Device) -> Device:
    """Where a search begins: shares that most devices are near."""
    constants = Calibration(
        device.accelerator.name,
        matrix_share=0.75,
        memory_share=0.75,
        overhead=250e-6,
        contention=0.11,
        node=device.calibration.node,
        fixed=device.calibration.fixed,
        link_rates=device.calibration.link_rates,
    )
    return replace(device, calibration=constants)
