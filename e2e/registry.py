"""``docker`` as a page's reader calls it, on a bed without a registry: ``python -m e2e.registry``.

``docker build`` gets the bed's base images, as where public ones cannot be pulled; ``docker push``
puts the image into the nodes of the clusters, where pods find it. Nothing else is allowed.
"""

import subprocess
import sys

from e2e.testbed import images, places
from e2e.testbed.config import load

DOCKERFILES = {
    "Dockerfile": images.base,
    "examples/trainer/Dockerfile": images.torch_base,
}


def main(arguments: list[str]) -> int:
    """Run docker, or what stands in its place; returns the exit status."""
    match arguments:
        case ["build", *options, "."]:
            return build(options)
        case ["push", image]:
            images.load(load(), [image])
            return 0
    print(f"docker {' '.join(arguments)}: a page only builds and pushes", file=sys.stderr)
    return 2


def build(options: list[str]) -> int:
    """Build in the repository's folder, from a base image that is there."""
    file = options[options.index("--file") + 1] if "--file" in options else "Dockerfile"
    base = f"--build-arg=BASE_IMAGE={DOCKERFILES[file]()}"
    command = ["docker", "build", "--quiet", base, *options, "."]
    return subprocess.run(command, cwd=places.ROOT, check=False).returncode


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
