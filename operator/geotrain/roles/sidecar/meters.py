"""Bytes that left this pod for another data centre, by flow and by data centre."""

from geotrain.units import Bytes


class Meter:
    """A count that only the data path's thread increases, and that others may read."""

    __slots__ = ("bytes",)

    def __init__(self) -> None:
        self.bytes: Bytes = 0


class Meters:
    """One meter for each flow (0: none) and data centre ('' for this one, which is not counted)."""

    def __init__(self) -> None:
        self._meters: dict[tuple[int, str], Meter] = {}

    def of(self, flow: int, data_center: str | None) -> Meter:
        """The meter that a connection adds to."""
        return self._meters.setdefault((flow, data_center or ""), Meter())

    def by_flow(self) -> dict[int, Bytes]:
        """Bytes by flow that left the data centre through this pod."""
        sums: dict[int, Bytes] = {}
        for (flow, far), meter in list(self._meters.items()):
            if flow and far:
                sums[flow] = sums.get(flow, 0) + meter.bytes
        return sums

    def by_data_center(self) -> dict[str, Bytes]:
        """Bytes by data centre that they went to."""
        sums: dict[str, Bytes] = {}
        for (_, far), meter in list(self._meters.items()):
            if far:
                sums[far] = sums.get(far, 0) + meter.bytes
        return sums
