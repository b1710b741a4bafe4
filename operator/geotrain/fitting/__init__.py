"""Which pod fits on which node: the arithmetic shared by extender and controller. Pure.

occupancy = Occupancy(nodes, pods)                 # NodeFacts, PodFacts; update with put_/drop_
filter_nodes(pod, names, occupancy)                # -> Filtered(passed, failed)
prioritize(pod, names, occupancy)                  # -> {node: 0..10}
victims(occupancy, node, wanted)                   # -> prefill pods that leave, None: too little
gang_fits(nodes, pods, gang)                       # -> Fits(assignment, victims) | Misfit(reasons)
"""

from geotrain.fitting.facts import (
    JobKey,
    NodeFacts,
    PodFacts,
    PodKey,
    Requirement,
    Resources,
    Role,
    Taint,
    Toleration,
)
from geotrain.fitting.filtering import Filtered, filter_nodes
from geotrain.fitting.gang import Fits, Misfit, fits, gang_fits
from geotrain.fitting.occupancy import Occupancy
from geotrain.fitting.scoring import prioritize
from geotrain.fitting.victims import objection, victims

__all__ = [
    "Filtered",
    "Fits",
    "JobKey",
    "Misfit",
    "NodeFacts",
    "Occupancy",
    "PodFacts",
    "PodKey",
    "Requirement",
    "Resources",
    "Role",
    "Taint",
    "Toleration",
    "filter_nodes",
    "fits",
    "gang_fits",
    "objection",
    "prioritize",
    "victims",
]
