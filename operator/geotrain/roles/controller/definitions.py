"""Whether the hub's CustomResourceDefinitions suffice for this controller. Pure.

The API server drops fields that a definition does not know, without a word: under an older one jobs
would be stored without what users asked for. So the controller looks before it does anything else.
"""

from collections.abc import Iterable, Mapping
from typing import Any, Final

from geotrain import __version__
from geotrain.api.served import lacking

REMEDY: Final = (
    "run `helm show crds charts/geotrain | kubectl apply --server-side --force-conflicts -f -` with"
    f" the chart of geotrain {__version__}, which keeps all objects; the controller then starts by"
    " itself"
)

_MOST_NAMED: Final = 5


def problem(own: Iterable[Mapping[str, Any]], served: Mapping[str, Mapping[str, Any]]) -> str:
    """The sentence about those that are missing or too old, '' where all suffice.

    ``served`` are the definitions that the hub has, by name.
    """
    faults = [fault for each in own if (fault := _fault(each, served))]
    return f"{'; '.join(faults)}: {REMEDY}" if faults else ""


def _fault(own: Mapping[str, Any], served: Mapping[str, Mapping[str, Any]]) -> str:
    name = own["metadata"]["name"]
    if name not in served:
        return f"CustomResourceDefinition {name} is missing"
    lacks = lacking(served[name], own)
    if not lacks:
        return ""
    more = len(lacks) - _MOST_NAMED
    named = ", ".join(lacks[:_MOST_NAMED]) + (f" and {more} more" if more > 0 else "")
    return (
        f"CustomResourceDefinition {name} is older than this controller ({__version__}) and lacks"
        f" {named}"
    )
