"""Can sidecars tell and carry what a gang sends between data centres? Asked before it starts. Pure.

A sidecar redirects what goes to the pod networks of other data centres. Networks that are unknown
would be sent past it without a word, so such a gang is not started.
"""

from geotrain.api import networks
from geotrain.api.networks import Fault
from geotrain.model.plan import Plan
from geotrain.roles.controller.children import Gang
from geotrain.roles.controller.observed import Observed
from geotrain.roles.controller.roll import Roll


def obstacle(observed: Observed, gang: Gang) -> Fault | None:
    """Why sidecars could not carry the gang's traffic; None where they can, or need not."""
    if not gang.has_sidecar or len(gang.data_centers) < 2:
        return None
    found = {name: observed.members[name].networks for name in gang.data_centers}
    for name, mine in found.items():
        others = {other: theirs.cidrs for other, theirs in found.items() if other != name}
        fault = networks.fault(mine, others)
        if fault is not None:
            return Fault(fault.reason, f"{name}: {fault.message}")
    return None


def strays(observed: Observed, plan: Plan, roll: Roll) -> str:
    """Ranks whose address lies in none of their data centre's pod networks, as a sentence, or ''.

    Nodes may tell networks that the CNI does not use.
    """
    for name, _ in plan.placement.segments:
        member = observed.members.get(name)
        here = {
            roll.current[rank].name: address
            for rank, address in sorted(roll.addresses.items())
            if plan.data_center_of(rank) == name
        }
        known = () if member is None else member.networks.cidrs
        for pod, address in networks.outside(here, known).items() if known else ():
            return (
                f"{pod} has {address}, outside the pod networks of {name} ({', '.join(known)}):"
                f" its traffic is not carried; set DataCenter {networks.FIELD} of {name}"
            )
    return ""
