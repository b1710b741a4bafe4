"""Wires the hooks: credentials, one command, and a sentence where it fails."""

import argparse
import asyncio
import sys
from collections.abc import Awaitable, Callable, Sequence
from pathlib import Path
from typing import Final

from geotrain.adapters import credentials
from geotrain.adapters.clock import SystemClock
from geotrain.adapters.cluster import HttpCluster
from geotrain.api.crd import definitions
from geotrain.api.objects import DEFINITIONS, Object
from geotrain.errors import GeotrainError, NotFound
from geotrain.roles.hook import crds
from geotrain.roles.hook.farewell import Farewell, Wishes
from geotrain.units import Seconds

_ESTABLISHED: Final[Seconds] = 30.0
_PAUSE: Final[Seconds] = 0.2


def main(arguments: Sequence[str]) -> int:
    """Run one hook. Returns the exit status: 1 when it refuses or cannot, having said why."""
    options = _options(arguments)
    act = _crds if options.hook == "crds" else _farewell
    try:
        return asyncio.run(_with_cluster(options, act))
    except GeotrainError as error:
        print(f"geotrain: {error}", file=sys.stderr)
        return 1


async def _with_cluster(
    options: argparse.Namespace,
    act: Callable[[HttpCluster, argparse.Namespace], Awaitable[None]],
) -> int:
    access = (
        credentials.from_file(options.kubeconfig)
        if options.kubeconfig
        else credentials.in_cluster()
    )
    cluster = HttpCluster(access)
    try:
        await act(cluster, options)
    finally:
        await cluster.close()
    return 0


async def _crds(cluster: HttpCluster, _: argparse.Namespace) -> None:
    own = definitions()
    served: dict[str, Object] = {}
    for each in own:
        name = each["metadata"]["name"]
        try:
            served[name] = await cluster.get(DEFINITIONS, "", name)
        except NotFound:
            continue
    for line in crds.said(own, served):
        print(line)
    for definition in crds.to_apply(own, served):
        await cluster.apply(DEFINITIONS, dict(definition))
        await _established(cluster, definition["metadata"]["name"])


async def _established(cluster: HttpCluster, name: str) -> None:
    """Wait until objects of the kind can be made."""
    try:
        async with asyncio.timeout(_ESTABLISHED):
            while not crds.is_established(await cluster.get(DEFINITIONS, "", name)):
                await asyncio.sleep(_PAUSE)
    except TimeoutError as error:
        raise GeotrainError(f"the API server does not serve {name}: see its conditions") from error


async def _farewell(cluster: HttpCluster, options: argparse.Namespace) -> None:
    wishes = Wishes(options.timeout, options.drain, options.keep)
    farewell = Farewell(cluster, SystemClock(), wishes)
    if options.hub:
        await farewell.hub(options.namespace)
    if options.member:
        await farewell.member()


def _options(arguments: Sequence[str]) -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        prog="python -m geotrain hook", description="What Helm runs around a release."
    )
    parser.add_argument(
        "--kubeconfig", type=Path, help="the cluster's; without it the pod's own account"
    )
    hooks = parser.add_subparsers(dest="hook", required=True)
    hooks.add_parser("crds", help="bring the CustomResourceDefinitions up to date")
    leave = hooks.add_parser("uninstall", help="make sure that geotrain can leave the cluster")
    leave.add_argument("--namespace", required=True, help="where geotrain is installed")
    leave.add_argument("--hub", action="store_true", help="the controller runs here")
    leave.add_argument("--member", action="store_true", help="jobs have pods here")
    leave.add_argument("--drain", action="store_true", help="end what runs instead of refusing")
    leave.add_argument("--keep", required=True, help="the command that undoes a refused uninstall")
    leave.add_argument(
        "--timeout",
        type=float,
        default=80.0,  # thrice is less than Helm's own five minutes
        help="seconds to wait for jobs, the controller and pods each (default %(default)s)",
    )
    return parser.parse_args(arguments)
