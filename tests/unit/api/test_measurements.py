"""Public measurements, on small slices of the real files (tests/data/*/SOURCE.txt)."""

import contextlib
import json
import math
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from geotrain.api.measurements import Route, azure, merged, sailor, skyplane
from geotrain.errors import InputError

DATA = Path(__file__).parents[2] / "data"
AZURE = (DATA / "azure_rtt/azure_rtt_p95.csv").read_text()
THROUGHPUT = (DATA / "skyplane/throughput_2022-11.csv").read_text()
LATENCY = (DATA / "skyplane/latency.csv").read_text()
COST = (DATA / "skyplane/cost.csv").read_text()
FITS = (DATA / "sailor/multizone_bandwidths.json").read_text()
PRICES = (DATA / "sailor/communication_cost.json").read_text()


def sailors(text, accelerator="A100-40", gpus=4):
    return merged(sailor(text, "file", accelerator, gpus))


def fitted(*fit):
    """The points of one fit."""
    content = {"a": {"A100-40": {"4": {"b": {"A100-40": {"4": fit}}}}}}
    return sailors(json.dumps(content))["a", "b"].message_rates


def test_azure_gives_round_trips_in_seconds_each_direction_by_itself():
    routes = merged(azure(AZURE, "file"))
    assert routes["East US", "West US"] == Route("East US", "West US", 0.074)
    assert routes["West US", "East US"].round_trip == 0.072
    assert ("East US", "East US") not in routes
    assert ("Japan West", "East US") not in routes
    assert merged(azure(AZURE.replace("\n", "\n\n,,,,\n"), "file")) == routes


def test_skyplane_gives_rates_round_trips_and_prices():
    files = (THROUGHPUT, COST)
    routes = merged(route for text in files for route in skyplane(text, "file"))
    there = routes["aws:us-east-1", "aws:us-west-2"]
    assert there.rate == 4372284765.0
    assert there.round_trip == pytest.approx(0.070183)
    assert there.cost_per_gigabyte == 0.02
    assert routes["aws:us-east-1", "azure:eastus2"].round_trip is None


def test_the_premium_tier_goes_before_others():
    premium = LATENCY.splitlines()[1]
    standard = premium.replace("PREMIUM", "STANDARD").replace("70.183", "99")
    text = "\n".join([LATENCY.splitlines()[0], standard, premium])
    ends = ("aws:us-west-2", "aws:us-east-1")
    assert merged(skyplane(text, "f"))[ends].round_trip == pytest.approx(0.070183)
    only = "\n".join(text.splitlines()[:2])
    assert merged(skyplane(only, "f"))[ends].round_trip == pytest.approx(0.099)


def test_sailor_gives_the_most_that_was_reached_in_bits():
    routes = sailors(FITS)
    assert routes["us-central1-a", "us-west1-b"].rate == 1091637396.6324494 * 8
    assert routes["us-west1-b", "us-west1-b"].rate == pytest.approx(49.85e9, rel=1e-3)


def test_a_fit_whose_top_is_out_of_range_gives_the_most_that_was_reached():
    assert fitted([-1e-300, -1, 1], 1).rates == (8,)


def test_sailors_megabytes_are_millions_of_bytes():
    """As in the planner of eth-easl/sailor: log2(bytes) - log2(1000000), and 1e9 bytes a GB."""
    a, b, c = json.loads(FITS)["us-central1-a"]["A100-40"]["4"]["us-west1-b"]["A100-40"]["4"][0]
    points = sailors(FITS)["us-central1-a", "us-west1-b"].message_rates
    assert points.sizes == tuple(2.0**power for power in range(16, 31))
    x = math.log2(2**25) - math.log2(1e6)
    assert points.rate(2**25) == pytest.approx((a * x**2 + b * x + c) * 8e9)


def test_a_fit_is_held_where_its_parabola_would_turn_and_where_most_is_reached():
    falling = fitted([-1, 0, 9], 8e9)  # 9 GB/s at 1 MB, where it turns; 1.8 at 128 KiB, 5.2 at 256
    assert falling.sizes == (2**18, 2**19)
    assert falling.rates[-1] == 64e9
    rising = fitted([1, 0, 2], 1e12)
    assert rising.rate(2**17) == rising.rate(2**18) == 16e9
    assert fitted([0, 0, 5], 4e9).rates == (32e9,)


ZONES = [route.message_rates for route in sailors(FITS).values()]


@given(
    rates=st.sampled_from(ZONES)
    | st.builds(
        lambda *coefficients: fitted(coefficients, 5e9),
        st.floats(-1, 1), st.floats(0, 4), st.floats(5, 9),
    ),
    size=st.floats(1, 2e10),
    more=st.floats(1, 4),
)  # fmt: skip
def test_more_bytes_never_take_less_time(rates, size, more):
    assert size * more / rates.rate(size * more) >= size / rates.rate(size) * (1 - 1e-9)


def test_sailor_prices_join_its_fits():
    both = merged([*sailors(FITS).values(), *sailors(PRICES).values()])
    route = both["us-central1-a", "us-west1-b"]
    assert (route.cost_per_gigabyte, route.rate is None) == (0.02, False)


def test_other_accelerators_and_nodes_have_no_fit():
    assert sailors(FITS, accelerator="H100") == {}
    assert sailors(FITS, gpus=8) == {}
    mixed = {"a": {"A100-40": {"4": {"b": {"A100-40": {"8": [[0, 0, 5], 4e9]}}}}}}
    assert sailors(json.dumps(mixed)) == {}


@pytest.mark.parametrize(
    ("read", "text", "sentence"),
    [
        (azure, "From,A\nA,\n", "f is no table of Azure's: the first cell must be 'Source'"),
        (azure, "Source,A,B\nA,1\n", "f line 2: 2 cells under 3 heads"),
        (azure, "Source,A,B\nA,,-3\n", "f line 2, column 'B': '-3' is no measured value"),
        (azure, "Source,A,B\nA,,nan\n", "'nan' is no measured value; write a number of 0 or more"),
        (azure, 'Source,A,B\nA,"\n', "f is not CSV"),
        (skyplane, "from,to\na,b\n", "f is no profile of Skyplane's"),
        (skyplane, "src,dest,cost\na,b\n", "f line 2: 2 cells under 3 heads"),
        (skyplane, "src,dest,cost\na,b,inf\n", "f line 2, column 'cost': 'inf'"),
        (skyplane, "src,dest,avg_rtt\na,b,fast\n", "column 'avg_rtt': 'fast'"),
    ],
)
def test_wrong_tables_are_one_sentence_with_the_place(read, text, sentence):
    with pytest.raises(InputError) as error:
        merged(read(text, "f"))
    assert sentence in str(error.value)
    assert "\n" not in str(error.value)


@pytest.mark.parametrize(
    ("content", "sentence"),
    [
        ([], "file: [] is no JSON object"),
        ({"a": 1}, "file: a: 1 is no JSON object"),
        ({"a": {"b": -1}}, "file: a: -1 is no price; write 0 or more"),
        ({"a": {"b": True}}, "True is no price"),
        ({"a": {"b": 10**400}}, "is no price"),
        ({"a": {"A100-40": {"4": []}}}, "file: a, A100-40: [] is no JSON object"),
        ({"a": {"A100-40": {"4": {"b": {"A100-40": {"4": [1]}}}}}}, "[1] is no fit; write"),
        (
            {"a": {"A100-40": {"4": {"b": {"A100-40": {"4": [[1, 2, 3], 0]}}}}}},
            "fit gives 0 bytes a second for messages of 1Gi",
        ),
        (
            {"a": {"A100-40": {"4": {"b": {"A100-40": {"4": [[0, 0, 1e300], 1e308]}}}}}},
            "holds a number that is not finite",
        ),
        ({"a": {"A100-40": {"4": {"b": {"A100-40": {"4": [[1, 2, 3], 10**400]}}}}}}, "no fit"),
        ({"a": {"A100-40": {"4": {"b": {"A100-40": {"4": [[1, 2, math.nan], 9]}}}}}}, "not finite"),
        ({"a": {"A100-40": {"4": {"b": {"A100-40": {"4": [[0, 0, -1], 9]}}}}}}, "gives -1e+09"),
    ],
)
def test_wrong_fits_are_one_sentence_with_the_place(content, sentence):
    with pytest.raises(InputError) as error:
        sailors(json.dumps(content))
    assert sentence in str(error.value)


@pytest.mark.parametrize("text", ["{", "", "[" * 100_000, "1" * 5000])
def test_what_is_not_json_is_said_as_such(text):
    with pytest.raises(InputError, match="file is not JSON"):
        sailors(text)


@given(st.text(max_size=200), st.sampled_from(["", AZURE, THROUGHPUT, FITS]), st.integers(0, 4000))
def test_no_text_gets_more_than_a_sentence(noise, text, at):
    """Any text, alone or inside a real file, is read or refused with an InputError."""
    broken = text[:at] + noise + text[at:]
    for read in (azure, skyplane, lambda text, place: sailor(text, place, "A100-40", 4)):
        with contextlib.suppress(InputError):
            merged(read(broken, "file"))
