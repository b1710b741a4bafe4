import pytest

from e2e.demo import measure
from e2e.testbed.config import load


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


PREFILL = {"served": 190, "refused": 10, "ttft_p50": 0.3, "ttft_p99": 0.9, "errors": 0}


def runs(*idle):
    times = ((20.0, 22.0, 30.0), (2.0, 2.2, 2.1), (2.142, 2.142, 9.0))
    busy = (0.05, 0.4, 0.8)
    return measure.Runs(*map(measure.Run, times, busy, idle))


def test_the_summary_compares_medians():
    figures = measure.summary(runs(0.6, 0.3, 0.1), 2.0, PREFILL, load())
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


@pytest.mark.parametrize(
    ("idle", "void"),
    [
        ((0.6, 0.3, 0.15), {}),
        ((0.6, 0.3, 0.1), {"with_prefill": "10% of the CPU was idle"}),
        ((None, 0.3, 0.2), {"single": "nobody watched"}),
        ((None, 0.0, None), {"single": "nobody", "geotrain": "0% of", "with_prefill": "nobody"}),
    ],
)
def test_figures_without_cpu_to_spare_or_that_nobody_watched_are_void_with_a_reason(idle, void):
    figures = measure.summary(runs(*idle), 2.0, PREFILL, load())
    assert figures["void"] == list(void)
    assert figures["void_reasons"].keys() == void.keys()
    assert all(text in figures["void_reasons"][name] for name, text in void.items())


def test_the_summary_says_what_is_emulated_and_what_it_compares_with():
    bed = load()
    figures = measure.summary(runs(0.6, 0.3, 0.2), 2.0, PREFILL, bed)
    assert figures["gpus"] == "emulated"
    told = figures["baseline"]
    assert (told["connections_per_pair"], told["window_bytes"]) == (1, bed.wan.window)
    slowest = max(bed.wan.round_trips.values())
    assert told["slowest_bits_per_second"] == pytest.approx(8 * bed.wan.window / slowest)
    emulated, compared = measure.caveats(bed)
    assert "GPUs are emulated" in emulated
    assert "8,688 B" in compared
    assert "bed.yaml" in compared


@pytest.mark.parametrize(
    ("measured", "kept", "told"),
    [
        ([0.5], 0.5, 0),
        ([0.1, 0.5], 0.5, 1),
        ([None, 0.5], 0.5, 1),
        ([0.1, 0.05, 0.5], 0.05, 1),  # once more, and no third time
    ],
)
def test_a_void_measurement_is_repeated_once_and_says_so(measured, kept, told):
    left, said = iter(measured), []
    run = measure.valid(
        lambda: measure.Run((1.0,), 0.1, next(left)), lambda run: run.void(0.15), said.append
    )
    assert run.idle_cpu == kept
    assert len(said) == told
    assert all(line.startswith("void: ") for line in said)
