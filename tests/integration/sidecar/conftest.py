from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import pytest

from support.sidecars import Bed
from support.wan import Lab, why_not

MakeBed = Callable[..., Bed]


@pytest.fixture
def make_bed(tmp_path: Path) -> Iterator[MakeBed]:
    """Four pods with sidecars over a WAN: ``make_bed(flows, one_way_ms=…, window=…)``."""
    reason = why_not()
    if reason is not None:
        pytest.skip(reason)
    with ExitStack() as stack:

        def make(
            flows: list[dict[str, Any]],
            one_way_ms: float = 5.0,
            window: int | None = None,
            **options: Any,
        ) -> Bed:
            lab = stack.enter_context(Lab(one_way_ms, window))
            return Bed(lab, tmp_path, flows, **options)

        yield make
