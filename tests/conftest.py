"""Property tests: few examples and the same in every run; many and new with GEOTRAIN_THOROUGH=1."""

import os
import signal

from hypothesis import settings

# Examples are timed by the wall, and the machine may be busy with something else: no deadlines.
settings.register_profile("fast", max_examples=25, deadline=None, derandomize=True)
settings.register_profile("thorough", max_examples=300, deadline=None, print_blob=True)
settings.load_profile("thorough" if os.environ.get("GEOTRAIN_THOROUGH") == "1" else "fast")

# A shell that runs tests in the background lets them, and what they start, ignore Ctrl-C.
signal.signal(signal.SIGINT, signal.default_int_handler)
