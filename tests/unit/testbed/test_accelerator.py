"""The emulated accelerator: exclusive, first in first out, exact, and honest about its work."""

import json

import pytest

from e2e.testbed.accelerator import Accelerators, Device, take


def request(owner: str = "training", seconds: float = 0.01, device: str = "d") -> dict[str, object]:
    return {"device": device, "owner": owner, "label": "2F0", "seconds": seconds}


def test_a_kernel_on_an_idle_device_begins_when_it_arrives() -> None:
    kernel = Device().submit("training", 2.0, now=10.0)
    assert (kernel.begin, kernel.end) == (10.0, 12.0)


def test_a_kernel_waits_for_the_one_before_it() -> None:
    device = Device()
    device.submit("training", 2.0, now=10.0)
    kernel = device.submit("prefill", 1.0, now=10.5)
    assert (kernel.begin, kernel.end) == (12.0, 13.0)


def test_devices_do_not_wait_for_each_other() -> None:
    accelerators = Accelerators()
    accelerators.submit(request(seconds=5, device="a"), 1.0)
    assert accelerators.submit(request(device="b"), 1.0).begin == 1.0


@pytest.mark.parametrize(
    ("now", "training", "prefill"),
    [(10.0, 0.0, 0.0), (11.0, 1.0, 0.0), (12.0, 2.0, 0.0), (12.25, 2.0, 0.25), (20.0, 2.0, 1.0)],
)
def test_busy_time_counts_the_part_that_has_passed(
    now: float, training: float, prefill: float
) -> None:
    device = Device()
    device.submit("training", 2.0, now=10.0)
    device.submit("prefill", 1.0, now=10.5)
    assert device.busy(now) == {"training": training, "prefill": prefill}


def test_busy_time_does_not_shrink_when_asked_often() -> None:
    device = Device()
    for i in range(20):
        device.submit("training", 0.3, now=i * 0.25)
    seen = [device.busy(i * 0.1)["training"] for i in range(80)]
    assert seen == sorted(seen)
    assert seen[-1] == pytest.approx(6.0)


def test_the_report_counts_kernels_by_owner() -> None:
    accelerators = Accelerators()
    accelerators.submit(request("training", 1.0), 0.0)
    accelerators.submit(request("prefill", 1.0), 0.0)
    accelerators.submit(request("prefill", 1.0), 0.0)
    assert accelerators.report(10.0) == {
        "now": 10.0,
        "devices": {
            "d": {"training": 1.0, "prefill": 2.0, "trainingKernels": 1, "prefillKernels": 2}
        },
    }


def test_a_query_is_answered_at_once() -> None:
    assert take(Accelerators(), b'{"query": "busy"}', 3.0) == {"now": 3.0, "devices": {}}


@pytest.mark.parametrize(
    ("line", "why"),
    [
        (b"not json", "Expecting value"),
        (b"[1]", "a request is a JSON object"),
        (b"{}", "device must be a name"),
        (json.dumps(request(owner="me")).encode(), "owner must be one of training, prefill"),
        (b'{"device": "d", "owner": "training", "seconds": "1"}', "seconds must be a number"),
        (b'{"device": "d", "owner": "training", "seconds": true}', "seconds must be a number"),
        (json.dumps(request(seconds=-1)).encode(), "between 0 and 600"),
        (json.dumps(request(seconds=1e6)).encode(), "between 0 and 600"),
    ],
)
def test_a_request_that_means_nothing_is_told_why(line: bytes, why: str) -> None:
    accelerators = Accelerators()
    reply = take(accelerators, line, 1.0)
    assert isinstance(reply, dict)
    assert why in reply["error"]
    assert accelerators.devices == {}
