"""Replays of trials for a search: only their periods, as fast as what is installed allows."""

from collections.abc import Sequence

from geotrain.planning.placement.trials import Trial
from geotrain.planning.schedule import timeline
from geotrain.planning.schedule.compiled import Engine
from geotrain.planning.schedule.compiled_patterns import Patterns
from geotrain.planning.schedule.compiled_programs import Fast
from geotrain.planning.schedule.costs import Costs
from geotrain.units import Seconds


class Runner:
    """Replays orders of one placement's costs."""

    def __init__(self, engine: Engine, costs: Costs, replicas: int) -> None:
        self._engine, self._costs, self._replicas = engine, costs, replicas
        self._patterns: dict[int, Patterns] = {}

    @property
    def has_turns(self) -> bool:
        """Whether replicas wait for each other, so that one cannot stand for all."""
        return self._replicas > 1 and any(hop.shared for hop in self._costs.hops)

    def representative(self, trial: Trial) -> Seconds:
        """The period of one replica with the others' turns as gaps: a bound on the exact one."""
        return self._period(trial, representative=True)

    def exact(self, trial: Trial) -> Seconds:
        """The period of all replicas."""
        return self._period(trial, representative=False)

    def pattern(self, depths: Sequence[int], micro_batches: int, *, exact: bool) -> Seconds:
        """The period of a pattern."""
        lanes = self._replicas if exact and self.has_turns else 1
        if lanes not in self._patterns:
            self._patterns[lanes] = Patterns(self._engine, self._costs, lanes)
        return self._patterns[lanes].period(depths, micro_batches)

    def _period(self, trial: Trial, *, representative: bool) -> Seconds:
        if trial.made is None:
            return self.pattern(trial.depths, trial.micro_batches, exact=not representative)
        if self._engine.is_compiled:
            fast = Fast(self._engine, trial.made)
            return fast.replay(self._costs, self._replicas, representative=representative).period
        return timeline.replay(
            trial.made, self._costs, self._replicas, representative=representative
        ).period
