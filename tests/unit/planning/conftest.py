"""Property tests of the planner: the same examples in every run, and no limit on a busy machine."""

from hypothesis import settings

settings.register_profile("planning", deadline=None, derandomize=True)
settings.load_profile("planning")
