"""Planning in the background: the pure planner in a thread, its answers kept by their inputs."""

import asyncio
import hashlib
from collections import OrderedDict

from geotrain.api.reasons import Reason
from geotrain.api.v1alpha1 import GeoTrainingJob
from geotrain.model.decision import Infeasible
from geotrain.model.plan import Plan
from geotrain.planning.placement.choose import choose
from geotrain.roles.controller.inputs import Inputs, Planned, revision
from geotrain.roles.controller.observed import PlanFault

_KEPT = 64  # plans; a large one takes some megabytes


class Planner:
    """Makes plans from inputs. The same inputs give the same plan, so an answer never gets old."""

    def __init__(self) -> None:
        self._answers: OrderedDict[str, Plan | Infeasible] = OrderedDict()

    async def plan(self, job: GeoTrainingJob, inputs: Inputs) -> Planned | PlanFault:
        """The plan, or why there is none."""
        key = hashlib.sha256(inputs.to_text().encode()).hexdigest()
        if key not in self._answers:
            # In a thread, because a large job takes seconds and others wait for the loop.
            answer = await asyncio.to_thread(choose, inputs.topology, inputs.workload)
            self._answers[key] = answer
            while len(self._answers) > _KEPT:
                self._answers.popitem(last=False)
        self._answers.move_to_end(key)
        found = self._answers[key]
        if isinstance(found, Infeasible):
            return fault(found)
        return Planned(inputs, found, revision(job, found))


def fault(answer: Infeasible) -> PlanFault:
    """A refusal as the condition says it: the first reason's code, and each sentence once."""
    code = answer.reasons[0].code
    reason = next((r for r in Reason if r == code), Reason.NO_FEASIBLE_PLACEMENT)
    message = ""
    for each in answer.reasons:
        if each.sentence not in message:
            message = f"{message}; {each.sentence}" if message else each.sentence
    return PlanFault(reason, message)
