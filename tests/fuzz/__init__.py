"""Fuzzing of what users write: ``make fuzz``, or ``python -m fuzz TARGET --seconds 60``."""

NAMES = ("order", "manifests", "exploration", "profile", "measurements")
"""Targets by name; ``targets`` has them, which the fuzzer imports when it can watch them."""
