"""Short names for content, by which a change of it is seen."""

import hashlib
import json
from typing import Any


def digest(content: Any) -> str:
    """Twelve hexadecimal digits, the same for the same content; what JSON lacks counts as text."""
    text = json.dumps(content, sort_keys=True, separators=(",", ":"), default=str)
    return hashlib.sha256(text.encode()).hexdigest()[:12]
