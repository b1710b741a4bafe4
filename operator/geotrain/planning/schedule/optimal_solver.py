"""CP-SAT of OR-Tools on the problem of ``optimal``; imported only where a proof is asked for."""

from collections.abc import Sequence
from itertools import chain

from ortools.sat.python import cp_model

from geotrain.planning.schedule.optimal import Solution, Ticks

_SEED = 1


def cp_sat(problem: Ticks, start: Sequence[int], effort: float) -> Solution:
    """The best solution found with so much deterministic time, and the bound."""
    model = cp_model.CpModel()
    begins = [model.new_int_var(0, problem.latest, f"b{i}") for i in range(len(problem.lengths))]
    intervals = [
        model.new_fixed_size_interval_var(begin, length, f"i{i}")
        for i, (begin, length) in enumerate(zip(begins, problem.lengths, strict=True))
    ]
    for one, other, gap in problem.after:
        model.add(begins[other] >= begins[one] + gap)
    for group in problem.alone:
        model.add_no_overlap([intervals[i] for i in group if problem.lengths[i]])
    for cap, stages in problem.held:
        _hold(model, problem, begins, cap, stages)
    end = model.new_int_var(0, problem.latest, "end")
    for i, gap in problem.ends:
        model.add(end >= begins[i] + gap)
    model.minimize(end)
    for begin, hint in zip(begins, start, strict=True):
        model.add_hint(begin, hint)
    solver = cp_model.CpSolver()
    solver.parameters.num_workers = 1
    solver.parameters.random_seed = _SEED
    solver.parameters.max_deterministic_time = effort
    found = solver.solve(model) in (cp_model.OPTIMAL, cp_model.FEASIBLE)
    return Solution(
        tuple(solver.value(begin) for begin in begins) if found else None,
        round(solver.best_objective_bound),
    )


def _hold(
    model: cp_model.CpModel,
    problem: Ticks,
    begins: list[cp_model.IntVar],
    cap: int,
    stages: tuple[tuple[tuple[int, int], ...], ...],
) -> None:
    """Never more than ``cap`` pairs between the begin of the one and the end of the other."""
    if len(stages) == 1:
        # Micro-batches follow each other, so the k-th waits for the one cap before it.
        for (_, freed), (taken, _) in zip(stages[0], stages[0][cap:], strict=False):
            model.add(begins[taken] >= begins[freed] + problem.lengths[freed])
        return
    spans = []
    for one, other in chain(*stages):
        length = model.new_int_var(0, problem.latest, f"l{one}")
        until = begins[other] + problem.lengths[other]
        spans.append(model.new_interval_var(begins[one], length, until, f"h{one}"))
    model.add_cumulative(spans, [1] * len(spans), cap)
