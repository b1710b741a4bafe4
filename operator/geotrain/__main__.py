"""``python -m geotrain ROLE``: starts one role of the one image, importing only what it needs."""

import argparse
import asyncio
import signal
import sys
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from types import FrameType
from typing import Final, NoReturn, TypeAlias

Arguments: TypeAlias = Sequence[str]


def controller(arguments: Arguments) -> int:
    """Reconcile the resources of a hub."""
    from geotrain.roles.controller import app

    return app.main(arguments)


def extender(arguments: Arguments) -> int:
    """Answer a member's scheduler."""
    from geotrain.adapters import logs
    from geotrain.roles.extender import app

    parser = argparse.ArgumentParser(prog="python -m geotrain extender")
    parser.add_argument("--kubeconfig", type=Path, help="without it the pod's own account")
    parser.add_argument("--port", type=int, default=app.PORT, help="default %(default)s")
    parser.add_argument("--health-port", type=int, help="also answer /healthz, /readyz, /metrics")
    options = parser.parse_args(arguments)
    logs.configure()
    asyncio.run(app.run(options.kubeconfig, port=options.port, health_port=options.health_port))
    return 0


def sidecar(arguments: Arguments) -> int:
    """Carry a training pod's traffic over the wide area; set up by the pod's environment."""
    from geotrain.adapters import logs
    from geotrain.roles.sidecar import app

    argparse.ArgumentParser(prog="python -m geotrain sidecar").parse_args(arguments)
    logs.configure()
    return app.main()


def router(arguments: Arguments) -> int:
    """Send prompts to bubbles; set up by the pod's environment."""
    from geotrain.adapters import logs
    from geotrain.roles.router import app

    argparse.ArgumentParser(prog="python -m geotrain router").parse_args(arguments)
    logs.configure()
    return app.main()


def hook(arguments: Arguments) -> int:
    """Do what Helm asks for around an upgrade or an uninstall."""
    from geotrain.roles.hook import app

    return app.main(arguments)


def probe(arguments: Arguments) -> int:
    """Tell whether other data centres' pods can be reached; set up by the pod's environment."""
    from geotrain.adapters import logs
    from geotrain.roles.probe import app

    argparse.ArgumentParser(prog="python -m geotrain probe").parse_args(arguments)
    logs.configure()
    return app.main()


ROLES: Final[Mapping[str, Callable[[Arguments], int]]] = {
    role.__name__: role for role in (controller, extender, sidecar, router, hook, probe)
}


def main(arguments: Arguments) -> int:
    """Run the role that the first argument names, with the rest. 2: there is no such role."""
    role = arguments[0] if arguments else ""
    if role not in ROLES:
        said = f"{role!r} is no role" if role else "a role is missing"
        print(f"{said}; give one of {', '.join(ROLES)}", file=sys.stderr)
        return 2
    # The first process of a container ignores what it has no handler for, so a pod that is deleted
    # while its role still starts would stay for its whole grace period.
    signal.signal(signal.SIGTERM, _leave)
    return ROLES[role](arguments[1:])


def _leave(number: int, _: FrameType | None) -> NoReturn:
    """End now; the role's own handler takes this one's place once it serves."""
    sys.exit(128 + number)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
