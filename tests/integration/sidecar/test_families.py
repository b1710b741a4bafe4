"""Pods with both families: IPv4 goes to the sidecar, and IPv6 does not pass by it."""

import json
import os
import sys
from collections.abc import Iterator

import pytest

from support.sidecars import PACKAGE
from support.wan import Lab, why_not

pytestmark = pytest.mark.net

TRY = """
import errno, json, socket, subprocess
from geotrain.roles.sidecar import intercept
from geotrain.roles.sidecar.origin import destination

FOUR, SIX, NEAR = "10.99.0.7", "fd00:99::7", "fd00:1::7"
for address in ("fd00:98::1/128", f"{NEAR}/128"):
    subprocess.run(["ip", "addr", "add", address, "dev", "eth0", "nodad"], check=True)
subprocess.run(["ip", "-6", "route", "replace", "fd00:99::/48", "dev", "eth0"], check=True)
intercept.apply(["10.99.0.0/16", "fd00:99::/48"])
intercept.apply(["10.99.0.0/16", "fd00:99::/48"])

sidecar = socket.create_server(("0.0.0.0", 15001))
client = socket.create_connection((FOUR, 29500), timeout=5)
accepted, _ = sidecar.accept()
found = {"carried": list(destination(accepted))}
listener = socket.create_server((NEAR, 29500), family=socket.AF_INET6)
for name, address in (("far", SIX), ("near", NEAR)):
    with socket.socket(socket.AF_INET6) as client:
        client.settimeout(5)
        found[name] = errno.errorcode.get(client.connect_ex((address, 29500)), "connected")
with socket.socket(socket.AF_INET6) as client:
    client.setsockopt(socket.SOL_SOCKET, 36, intercept.MARK)  # as the sidecar's own sockets
    client.settimeout(0.5)
    found["marked"] = errno.errorcode.get(client.connect_ex((SIX, 29500)), "connected")
print(json.dumps(found))
"""


@pytest.fixture
def lab() -> Iterator[Lab]:
    reason = why_not()
    if reason is not None:
        pytest.skip(reason)
    with Lab(1.0) as made:
        yield made


def test_ipv4_is_carried_and_ipv6_to_other_data_centers_is_reset(lab: Lab) -> None:
    lab.pod("both", 0)
    environment = {**os.environ, "PYTHONPATH": str(PACKAGE)}
    process = lab.start("both", [sys.executable, "-c", TRY], env=environment)
    out, error = process.communicate(timeout=60)
    assert process.returncode == 0, error
    found = json.loads(out)
    assert found["carried"] == ["10.99.0.7", 29500]
    assert found["far"] == "ECONNREFUSED"
    assert found["near"] == "connected"
    assert found["marked"] != "ECONNREFUSED"
