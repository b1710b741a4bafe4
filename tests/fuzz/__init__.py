"""Fuzzing of what users write: ``make fuzz``, or ``python -m fuzz TARGET --seconds 60``."""
