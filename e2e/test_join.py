"""Clusters join, leave and are looked at, with pods that really connect to each other."""

import base64
import json
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from e2e.install import join
from e2e.lab import DATA_CENTERS, HUB, SYSTEM, Cluster, condition, hub, run, said, wait_for
from e2e.testbed.config import Bed
from e2e.testbed.shell import run as shell
from geotrain.api import tokens

pytestmark = pytest.mark.e2e

GEOTRAIN = str(Path(sys.executable).with_name("geotrain"))


def doctor() -> list[dict[str, str]]:
    """Everything that doctor says, with pods of all data centres connected to each other."""
    asked = (GEOTRAIN, "doctor", "--hub-context", f"kind-{HUB}", "--connect", "-o", "json")
    found: list[dict[str, str]] = json.loads(run(*asked, check=False))["findings"]
    return found


def probes_left() -> list[str]:
    selector = "geotrain.io/role=probe"
    return [
        f"{name}/{pod['metadata']['name']}"
        for name in DATA_CENTERS
        for pod in Cluster(name).list("pods", SYSTEM, selector)
    ]


def center(name: str) -> dict[str, Any] | None:
    return hub().get("datacenter", name)


def test_pods_of_all_data_centers_connect_both_ways(geotrain: Bed) -> None:
    found = doctor()
    ways = {each["message"] for each in found if each["message"].endswith(": connected")}
    assert ways == {
        f"pods of {one} to pods of {other}: connected"
        for one in DATA_CENTERS
        for other in DATA_CENTERS
        if one != other
    }
    assert [each for each in found if each["level"] == "error"] == []
    assert probes_left() == []


@contextmanager
def blocked(bed: Bed, source: str, target: str) -> Iterator[None]:
    """No connection may be opened from pods of one data centre to those of another.

    By the table mangle: in filter, kube-router puts its own rules, which accept, before others.
    """
    nodes = {dc.name: dc.node for dc in bed.data_centers}
    cidrs = {name: center(name)["status"]["podCIDRs"] for name in (source, target)}  # type: ignore[index]
    rule = (
        "FORWARD", "-s", ",".join(cidrs[source]), "-d", ",".join(cidrs[target]),
        "-p", "tcp", "--syn", "-j", "DROP",
    )  # fmt: skip
    mangle = ("docker", "exec", nodes[source], "iptables", "-t", "mangle")
    shell(*mangle, "-I", *rule)
    try:
        yield
    finally:
        shell(*mangle, "-D", *rule)


def test_a_way_that_is_blocked_is_named_and_the_other_is_not(geotrain: Bed) -> None:
    with blocked(geotrain, "dc-west", "dc-east"):
        found = doctor()
    errors = [each for each in found if each["level"] == "error"]
    assert len(errors) == 1, errors
    assert errors[0]["message"].startswith("pods of dc-west to pods of dc-east: no connection")
    assert "routes exist, since the other way works" in errors[0]["action"]
    assert "pods of dc-east to pods of dc-west: connected" in {e["message"] for e in found}
    assert probes_left() == []


def test_a_cluster_leaves_and_joins_again(geotrain: Bed) -> None:
    told = run(GEOTRAIN, "leave", "dc-east", "--hub-context", f"kind-{HUB}")
    assert "dc-east has left" in told
    assert "WanLink" in told
    assert center("dc-east") is None
    assert hub().get("secret", "dc-east-kubeconfig", SYSTEM) is None
    assert Cluster("dc-east").get("configmap", "geotrain-membership", SYSTEM) is None
    join("dc-east")
    wait_for(
        "dc-east again",
        lambda: condition(center("dc-east"), "Reachable").get("status") == "True",
        seen=lambda: said(center("dc-east")),
    )
    assert condition(center("dc-east"), "TokenFresh")["reason"] == "TokenRenewed"
    assert condition(center("dc-east"), "NetworkReady")["reason"] == "NetworkKnown"
    assert probes_left() == []


def test_the_controller_renews_a_token_in_time(geotrain: Bed, tmp_path: Path) -> None:
    """The cluster's own key makes a token that looks two thirds used up."""
    (node,) = (dc.node for dc in geotrain.data_centers if dc.name == "dc-west")
    place = ("secret", "dc-west-kubeconfig", SYSTEM)
    secret = hub().get(*place)
    assert secret is not None
    text = base64.b64decode(secret["data"]["kubeconfig"]).decode()
    old = aged(node, tmp_path)
    data = {"kubeconfig": base64.b64encode(tokens.replaced(text, old).encode()).decode()}
    hub().kubectl(
        "patch", *place[:2], "-n", SYSTEM, "--type=merge", "-p", json.dumps({"data": data})
    )

    def renewed() -> bool:
        found = hub().get(*place)
        assert found is not None
        token = tokens.in_kubeconfig(base64.b64decode(found["data"]["kubeconfig"]).decode())
        return token is not None and token.text != old and token.lifetime > 3600

    wait_for("a new token", renewed, timeout=60, seen=lambda: said(center("dc-west")))
    assert condition(center("dc-west"), "Reachable")["status"] == "True"


def aged(node: str, tmp_path: Path) -> str:
    """A good token of the member's account that ends in five minutes and was made long ago."""
    member = Cluster("dc-west")
    account = member.get("serviceaccount", "geotrain-member", SYSTEM)
    fresh = member.kubectl("create", "token", "geotrain-member", "-n", SYSTEM).strip()
    head, payload, _ = fresh.split(".")
    claims = json.loads(base64.urlsafe_b64decode(payload + "=" * (-len(payload) % 4)))
    assert account is not None
    assert claims["kubernetes.io"]["serviceaccount"]["uid"] == account["metadata"]["uid"]
    now = int(time.time())
    claims |= {"iat": now - 600, "nbf": now - 600, "exp": now + 300}
    body = base64.urlsafe_b64encode(json.dumps(claims).encode()).rstrip(b"=").decode()
    key = tmp_path / "sa.key"
    key.write_text(shell("docker", "exec", node, "cat", "/etc/kubernetes/pki/sa.key"))
    command = ["openssl", "dgst", "-sha256", "-sign", str(key)]
    done = subprocess.run(command, input=f"{head}.{body}".encode(), capture_output=True, check=True)
    return f"{head}.{body}.{base64.urlsafe_b64encode(done.stdout).rstrip(b'=').decode()}"
