import pytest

from e2e.demo import measure


def reading(now, **devices):
    return {
        "now": now,
        "devices": {n: {"training": t, "prefill": p} for n, (t, p) in devices.items()},
    }


def test_gpu_busy_counts_both_owners_over_all_devices():
    begin = [reading(100, a=(5, 0)), reading(7, b=(1, 1))]
    end = [reading(110, a=(8, 2)), reading(17, b=(2, 1))]
    assert measure.gpu_busy(begin, end) == pytest.approx((3 + 2 + 1) / 20)


def test_a_device_that_appears_between_the_readings_counts_from_zero():
    assert measure.gpu_busy([reading(0)], [reading(10, a=(4, 0))]) == pytest.approx(0.4)


def test_a_device_that_an_earlier_placement_used_does_not_count_as_idle():
    begin, end = [reading(0, a=(1, 0), old=(9, 4))], [reading(10, a=(5, 0), old=(9, 4))]
    assert measure.gpu_busy(begin, end) == pytest.approx(0.4)


def test_without_any_device_there_is_no_figure():
    with pytest.raises(ValueError, match="no training pod has run a kernel"):
        measure.gpu_busy([reading(0)], [reading(10)])


def test_the_summary_compares_medians():
    prefill = {"served": 190, "refused": 10, "ttft_p50": 0.3, "ttft_p99": 0.9, "errors": 0}
    figures = measure.summary(
        single=measure.Run((20.0, 22.0, 30.0), 0.05, 0.6),
        geotrain=measure.Run((2.0, 2.2, 2.1), 0.4, 0.3),
        with_prefill=measure.Run((2.142, 2.142, 9.0), 0.8, 0.1),
        planned=2.0,
        prefill=prefill,
    )
    assert figures["iteration_seconds"] == {
        "single_connection": 22.0,
        "geotrain": 2.1,
        "planned": 2.0,
    }
    assert figures["speedup"] == pytest.approx(22 / 2.1)
    assert figures["plan_error"] == pytest.approx(0.05)
    assert figures["training_stretch"] == pytest.approx(0.02)
    assert figures["gpu_busy"] == {"training": 0.4, "with_prefill": 0.8}
    assert "errors" not in figures["prefill"]
    assert figures["void"] == ["with_prefill"]


def test_unknown_idle_cpu_voids_nothing():
    assert measure.void(single=measure.Run((1.0,), 0.1, None)) == []
