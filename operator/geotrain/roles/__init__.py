"""The running programs: thin shells around the pure core; none knows another."""
