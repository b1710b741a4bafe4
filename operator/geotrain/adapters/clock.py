"""The real clock. Tests have one that they move."""

import asyncio
import time

from geotrain.units import Seconds


class SystemClock:
    """Wall-clock time of this machine."""

    def now(self) -> Seconds:
        """Seconds since 1970 (UTC)."""
        return time.time()

    async def sleep(self, duration: Seconds) -> None:
        """Return after ``duration``."""
        await asyncio.sleep(duration)
