"""A member's token between real API servers: renewed in time with the rights that join gave."""

import base64
import json
import subprocess
import time
from pathlib import Path
from typing import Any

import pytest
import yaml

from geotrain.adapters import credentials
from geotrain.adapters.cluster import HttpCluster
from geotrain.api import tokens
from geotrain.api.objects import NODES, SECRETS, SERVICE_ACCOUNTS
from geotrain.api.v1alpha1 import DataCenter
from geotrain.cli import membership
from geotrain.cli.membership import Wishes
from geotrain.errors import Forbidden
from geotrain.roles.controller.members import Members
from support import helm, schemas
from support.controlplane import ControlPlane
from support.fakes import FakeClock

pytestmark = pytest.mark.controlplane

NAMESPACE = "geotrain-system"
WISHES = Wishes("dc-west", token_lifetime=600.0)
ACCOUNT = "geotrain-controller"


@pytest.fixture(scope="module")
def hub(control_plane_factory: Any) -> ControlPlane:
    plane: ControlPlane = control_plane_factory()
    plane.apply(*schemas.crds().values())
    plane.kubectl("create", "namespace", NAMESPACE)
    plane.kubectl("create", "serviceaccount", ACCOUNT, "-n", NAMESPACE)
    plane.apply(*membership.renewal_manifests(WISHES))
    return plane


@pytest.fixture(scope="module")
def member(control_plane_factory: Any) -> ControlPlane:
    plane: ControlPlane = control_plane_factory()
    plane.kubectl("create", "namespace", NAMESPACE)
    plane.apply(*helm.render_or_skip("member.enabled=true"))
    return plane


def kubeconfig(plane: ControlPlane, token: str) -> dict[str, Any]:
    entry = yaml.safe_load(plane.kubeconfig.read_text())["clusters"][0]["cluster"]
    return membership.kubeconfig(entry, entry["certificate-authority-data"], token)


def store(hub: ControlPlane, member: ControlPlane, token: str) -> None:
    text = yaml.safe_dump(kubeconfig(member, token))
    hub.apply(membership.secret_manifest(WISHES, text))


def stored(hub: ControlPlane) -> tokens.Token:
    secret = hub.get("secret", WISHES.secret_name, "-n", NAMESPACE)
    text = base64.b64decode(secret["data"][membership.KUBECONFIG_KEY]).decode()
    found = tokens.in_kubeconfig(text)
    assert found is not None
    return found


def center(member: ControlPlane) -> DataCenter:
    uid = member.get("namespace", "kube-system")["metadata"]["uid"]
    manifest = membership.data_center_manifest(WISHES, uid)
    return DataCenter.from_manifest(manifest)


def granted(plane: ControlPlane, account: str, seconds: int = 600) -> str:
    arguments = ("create", "token", account, "-n", NAMESPACE, f"--duration={seconds}s")
    return plane.kubectl(*arguments).strip()


@pytest.fixture
async def members(hub: ControlPlane) -> Any:
    """As the controller has them, with its account on the hub, which may do no more."""
    login = kubeconfig(hub, granted(hub, ACCOUNT, 3600))
    made = Members(
        HttpCluster(credentials.from_document(login)),
        lambda text: HttpCluster(credentials.from_document(credentials.parse(text))),
        lambda *_: None,
        FakeClock(time.time()),
    )
    yield made
    await made.close()
    await made._hub.close()  # type: ignore[attr-defined]


async def test_a_token_is_renewed_and_the_new_one_works(
    hub: ControlPlane, member: ControlPlane, members: Members
) -> None:
    store(hub, member, granted(member, "geotrain-member"))
    before = stored(hub)
    site = await members.ensure(center(member))
    assert site is not None, members.problem("dc-west")
    await members.renew(center(member))
    assert stored(hub).text == before.text, "it is not due yet"
    members._clock.time += 0.55 * 600  # type: ignore[attr-defined]
    await members.renew(center(member))
    assert site.renewal_fault == ""
    after = stored(hub)
    assert after.text != before.text
    assert after.lifetime == pytest.approx(600, abs=2)
    assert await members.ensure(center(member)) is site
    assert site.login is not None
    assert site.login.token == after
    await site.cluster.list(NODES)


async def test_an_expired_token_is_told_with_what_mends_it(
    hub: ControlPlane, member: ControlPlane, members: Members
) -> None:
    """Made with the cluster's own key, so that its server sees a token that was once good."""
    store(hub, member, _expired(member))
    assert await members.ensure(center(member)) is None
    problem = members.problem("dc-west")
    assert problem is not None
    assert problem.reason == "TokenExpired"
    assert "`geotrain join dc-west`" in problem.message
    store(hub, member, granted(member, "geotrain-member"))  # as a person renews it
    assert await members.ensure(center(member)) is not None


async def test_another_cluster_is_not_followed(
    hub: ControlPlane, member: ControlPlane, members: Members
) -> None:
    text = yaml.safe_dump(kubeconfig(hub, granted(hub, ACCOUNT)))
    hub.apply(membership.secret_manifest(WISHES, text))
    hub.apply(
        {
            "apiVersion": "rbac.authorization.k8s.io/v1",
            "kind": "ClusterRole",
            "metadata": {"name": "identity"},
            "rules": [{"apiGroups": [""], "resources": ["namespaces"], "verbs": ["get"]}],
        }
    )
    hub.kubectl(
        "create", "clusterrolebinding", "identity", "--clusterrole=identity",
        f"--serviceaccount={NAMESPACE}:{ACCOUNT}",
    )  # fmt: skip
    assert await members.ensure(center(member)) is None
    problem = members.problem("dc-west")
    assert problem is not None
    assert problem.reason == "AnotherCluster"


async def test_the_account_makes_tokens_of_itself_alone(
    hub: ControlPlane, member: ControlPlane, members: Members
) -> None:
    store(hub, member, granted(member, "geotrain-member"))
    site = await members.ensure(center(member))
    assert site is not None
    for other in ("geotrain-scheduler", "default"):
        asked = tokens.request(NAMESPACE, other, 600)
        with pytest.raises(Forbidden):
            await site.cluster.create(SERVICE_ACCOUNTS, asked, subresource="token")
    with pytest.raises(Forbidden):
        await site.cluster.get(SECRETS, NAMESPACE, "any")


def _expired(plane: ControlPlane) -> str:
    uid = plane.get("serviceaccount", "geotrain-member", "-n", NAMESPACE)["metadata"]["uid"]
    now = int(time.time())
    account = {"name": "geotrain-member", "uid": uid}
    claims = {
        "iss": "https://kubernetes.default.svc",
        "aud": ["https://kubernetes.default.svc"],
        "iat": now - 900,
        "nbf": now - 900,
        "exp": now - 300,
        "sub": f"system:serviceaccount:{NAMESPACE}:geotrain-member",
        "kubernetes.io": {"namespace": NAMESPACE, "serviceaccount": account},
    }
    signed = f"{_part({'alg': 'RS256'})}.{_part(claims)}"
    return f"{signed}.{_signature(signed, plane.directory / 'sa.key')}"


def _part(content: dict[str, Any]) -> str:
    return base64.urlsafe_b64encode(json.dumps(content).encode()).rstrip(b"=").decode()


def _signature(text: str, key: Path) -> str:
    command = ["openssl", "dgst", "-sha256", "-sign", str(key)]
    done = subprocess.run(command, input=text.encode(), capture_output=True, check=True)
    return base64.urlsafe_b64encode(done.stdout).rstrip(b"=").decode()
