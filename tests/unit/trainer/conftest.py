"""The examples are programs of their own, with their folder on the path as in their image."""

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[3] / "examples"))
