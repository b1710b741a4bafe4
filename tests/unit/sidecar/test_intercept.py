"""The rules by which a pod's cross-DC traffic comes to the sidecar, for both families."""

import pytest

from geotrain.roles.sidecar.intercept import ruleset


def test_ipv4_is_redirected_and_all_else_classed() -> None:
    script = ruleset(["10.2.0.0/16", "10.1.0.0/16"], 15001)
    assert "tcp ip daddr { 10.1.0.0/16, 10.2.0.0/16 } redirect to :15001" in script
    assert "ip daddr { 10.1.0.0/16, 10.2.0.0/16 } meta priority 0:0" in script
    assert "ip6" not in script


def test_ipv6_does_not_pass_by_the_windows() -> None:
    script = ruleset(["10.101.0.0/24", "fd00:10:101::/64"])
    four, _, six = script.partition("table ip6 geotrain {")
    assert "fd00" not in four
    assert "tcp ip6 daddr { fd00:10:101::/64 } reject with tcp reset" in six
    assert "10.101" not in six
    assert "meta mark 0x67 return" in six


@pytest.mark.parametrize("cidrs", [[], ["10.1.0.0/16"], ["10.1.0.0/16", "fd00::/64"]])
def test_what_an_earlier_run_left_goes_first(cidrs: list[str]) -> None:
    assert ruleset(cidrs).startswith("table ip geotrain\ndelete table ip geotrain\n")


def test_nothing_is_intercepted_where_nothing_is_far() -> None:
    assert ruleset([]) == "table ip geotrain\ndelete table ip geotrain\n"
