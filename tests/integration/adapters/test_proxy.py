"""An API server behind a proxy: kubeconfig proxy-url and HTTPS_PROXY, as for kubectl."""

import asyncio
import ssl
from typing import Any

import pytest
import yaml

from geotrain.adapters.cluster import HttpCluster
from geotrain.adapters.credentials import from_document, from_file
from geotrain.api.objects import CONFIG_MAPS, NAMESPACES
from geotrain.errors import Unreachable
from support import proxy
from support.controlplane import ControlPlane

pytestmark = pytest.mark.controlplane


@pytest.fixture(scope="module")
def plane(control_plane_factory: Any) -> ControlPlane:
    made: ControlPlane = control_plane_factory()
    return made


def document(plane: ControlPlane, **cluster: str) -> dict[str, Any]:
    """The plane's kubeconfig, with other entries of its cluster."""
    found: dict[str, Any] = yaml.safe_load(plane.kubeconfig.read_text())
    found["clusters"][0]["cluster"] |= cluster
    return found


async def names(found: dict[str, Any]) -> set[str]:
    cluster = HttpCluster(from_document(found))
    try:
        return {each["metadata"]["name"] for each in await cluster.list(NAMESPACES)}
    finally:
        await cluster.close()


async def test_a_proxy_url_is_used_with_its_password(plane: ControlPlane) -> None:
    async with proxy.running(login="me:p@ss") as gate:
        url = f"http://me:p%40ss@127.0.0.1:{gate.port}"
        assert "kube-system" in await names(document(plane, **{"proxy-url": url}))
        assert set(gate.seen) == {f"CONNECT 127.0.0.1:{plane.port}"}


async def test_a_kubeconfig_file_may_name_a_proxy(plane: ControlPlane, tmp_path: Any) -> None:
    async with proxy.running() as gate:
        path = tmp_path / "kubeconfig"
        url = f"http://127.0.0.1:{gate.port}"
        path.write_text(yaml.safe_dump(document(plane, **{"proxy-url": url})))
        cluster = HttpCluster(from_file(path))
        assert await cluster.list(NAMESPACES)
        await cluster.close()
        assert gate.seen


async def test_a_proxy_that_refuses_is_said_and_the_password_is_not(plane: ControlPlane) -> None:
    async with proxy.running(login="me:right") as gate:
        url = f"http://me:wrong@127.0.0.1:{gate.port}"
        with pytest.raises(Unreachable, match="407") as refused:
            await names(document(plane, **{"proxy-url": url}))
        assert "wrong" not in str(refused.value)


async def test_the_server_behind_a_proxy_is_verified(plane: ControlPlane) -> None:
    """A proxy could lead anywhere: what is not signed by the cluster's CA is not spoken to."""
    async with proxy.running() as gate:
        found = document(plane, **{"proxy-url": f"http://127.0.0.1:{gate.port}"})
        del found["clusters"][0]["cluster"]["certificate-authority-data"]
        with pytest.raises(Unreachable, match="certificate"):
            await names(found)


async def test_a_proxy_may_speak_tls(plane: ControlPlane) -> None:
    """As with kubectl it is known by the cluster's CA."""
    tls = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
    tls.load_cert_chain(plane.certificate, plane.certificate.with_suffix(".key"))
    async with proxy.running(tls=tls) as gate:
        url = f"https://127.0.0.1:{gate.port}"
        assert "kube-system" in await names(document(plane, **{"proxy-url": url}))
        assert gate.seen


async def test_watches_go_through_a_proxy(plane: ControlPlane) -> None:
    async with proxy.running() as gate:
        found = document(plane, **{"proxy-url": f"http://127.0.0.1:{gate.port}"})
        cluster = HttpCluster(from_document(found))
        watch = cluster.watch(CONFIG_MAPS, "default", "for=proxies")
        assert (await anext(watch)).type == "SYNCED"
        made = {"name": "seen", "namespace": "default", "labels": {"for": "proxies"}}
        manifest = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": made}
        await cluster.create(CONFIG_MAPS, manifest)
        async with asyncio.timeout(20):
            assert (await anext(watch)).object["metadata"]["name"] == "seen"
        await watch.aclose()  # type: ignore[attr-defined]
        await cluster.close()


@pytest.mark.parametrize("excepted", ["", "other.test"])
async def test_the_environments_proxy_is_used(
    plane: ControlPlane, monkeypatch: Any, excepted: str
) -> None:
    async with proxy.running() as gate:
        monkeypatch.setenv("HTTPS_PROXY", f"http://127.0.0.1:{gate.port}")
        monkeypatch.setenv("NO_PROXY", excepted)
        server = f"https://api.test:{plane.port}"
        found = document(plane, **{"server": server, "tls-server-name": "127.0.0.1"})
        assert "kube-system" in await names(found)
        assert gate.seen == [f"CONNECT api.test:{plane.port}"]


async def test_loopback_is_reached_directly(plane: ControlPlane, monkeypatch: Any) -> None:
    async with proxy.running() as gate:
        monkeypatch.setenv("HTTPS_PROXY", f"http://127.0.0.1:{gate.port}")
        assert "kube-system" in await names(document(plane))
        assert gate.seen == []
