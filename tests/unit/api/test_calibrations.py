"""Calibrations as documents: those that come along, and whatever a user writes."""

import json
from dataclasses import replace

import pytest

from geotrain.api import calibrations
from geotrain.errors import InputError
from geotrain.planning.costs.accelerators import ACCELERATORS
from geotrain.planning.costs.calibrations import Residual

GOOD = {
    "accelerator": "nvidia-h100",
    "source": "our cluster",
    "licence": "own",
    "matrixShare": 0.6,
    "memoryShare": 0.8,
    "overhead": "210us",
    "residual": {"rows": 9, "median": 0.03, "p90": 0.08},
}


def test_every_known_accelerator_has_constants_and_one_only():
    for one in ACCELERATORS.values():
        device = calibrations.usual(one)
        assert device.accelerator is one
        assert device.calibration.link_rates is not None
        assert device.calibration.source
    names = [
        name for each in calibrations.packaged() for name in (each.accelerator, *each.also_for)
    ]
    assert sorted(names) == sorted(ACCELERATORS)


def test_constants_that_are_borrowed_have_no_error_bar_and_other_links():
    a100, h100 = (calibrations.usual(ACCELERATORS[name]) for name in ("A100", "H100"))
    assert a100.calibration.residual is not None
    assert h100.calibration.accelerator == "H200"
    assert h100.calibration.residual is None
    rates = [each.calibration.link_rates.rate(2**30) for each in (a100, h100)]
    assert rates[1] == pytest.approx(1.5 * rates[0])
    pcie = calibrations.usual(ACCELERATORS["A100-PCIe"]).calibration.link_rates
    assert pcie.rate(2**30) == pytest.approx(rates[0] * 32 / 300)


def test_a_given_calibration_counts_on_its_own_accelerator_alone():
    given = calibrations.read(GOOD)
    assert given.accelerator == "H100"
    assert given.residual == Residual(9, 0.03, 0.08)
    assert calibrations.device(ACCELERATORS["H100"], given).calibration is given
    assert calibrations.device(ACCELERATORS["A100"], given) == calibrations.usual(
        ACCELERATORS["A100"]
    )


def test_what_is_written_is_read_again():
    given = calibrations.read({**GOOD, "contention": 0.05, "fixed": "12ms", "nodeGpus": 4})
    written = calibrations.document(given, "all but every second row")
    assert calibrations.read(json.loads(json.dumps(written))) == given
    assert "linkRates" not in written
    bare = replace(given, residual=None)
    assert calibrations.read(calibrations.document(bare, "")) == bare
    own = calibrations.read({**GOOD, "linkRates": [{"size": "1Mi", "rate": "100G"}]})
    assert calibrations.read(calibrations.document(own, "")) == own


@pytest.mark.parametrize(
    ("changes", "says"),
    [
        ({"accelerator": "H900"}, "accelerator: accelerator 'H900' is not known; known: A10, "),
        ({"matrixShare": 1.2}, "matrixShare: Input should be less than or equal to 1"),
        ({"matrixShare": 0}, "matrixShare: Input should be greater than 0"),
        ({"overhead": "soon"}, "overhead: 'soon' is not a duration"),
        ({"contention": -1}, "contention: "),
        ({"contention": True}, "contention: write a number"),
        ({"residual": {"rows": 9, "median": 0.3, "p90": 0.1}}, "a residual has rows"),
        ({"linkRates": [{"size": "0", "rate": "1G"}]}, "sizes of message rates must be above 0"),
        ({"shares": 1}, "shares: "),
        ({"source": None}, "source: "),
    ],
)
def test_a_wrong_calibration_is_refused_in_one_sentence(changes, says):
    with pytest.raises(InputError) as refusal:
        calibrations.read({**GOOD, **changes})
    assert str(refusal.value).startswith("the calibration is wrong: ")
    assert says in str(refusal.value)
    assert "\n" not in str(refusal.value)
