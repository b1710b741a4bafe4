"""``python -m trainer``."""

import sys

from .stopping import Stopping

if __name__ == "__main__":
    stopping = Stopping()  # before PyTorch is imported, which takes seconds
    from .command import run

    sys.exit(run(stopping))
