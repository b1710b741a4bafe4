"""Which proxy leads to an API server: proxy-url first, then the environment, as kubectl does."""

import base64
import os

import pytest

from geotrain.adapters import proxies
from geotrain.adapters.credentials import from_document
from geotrain.errors import CredentialsError

SERVER = "https://api.example.com:6443"
PROXY = {"HTTPS_PROXY": "http://proxy:3128"}


@pytest.mark.parametrize(
    ("server", "proxy_url", "environment", "expected"),
    [
        (SERVER, "", {}, None),
        (SERVER, "", PROXY, "http://proxy:3128"),
        (SERVER, "", {"https_proxy": "http://lower:1"}, "http://lower:1"),
        (SERVER, "", {**PROXY, "https_proxy": "http://lower:1"}, "http://proxy:3128"),
        (SERVER, "", {"HTTPS_PROXY": "proxy:3128"}, "http://proxy:3128"),
        (SERVER, "", {"HTTP_PROXY": "http://proxy:3128"}, None),
        ("http://api.example.com", "", {"HTTP_PROXY": "http://p"}, "http://p:80"),
        (SERVER, "https://p", PROXY, "https://p:443"),
        (SERVER, "http://p:1", {"NO_PROXY": "*"}, "http://p:1"),
        ("https://127.0.0.1:6443", "http://p:1", {}, "http://p:1"),
        ("https://127.0.0.1:6443", "", PROXY, None),
        ("https://localhost", "", PROXY, None),
        ("https://[::1]:6443", "", PROXY, None),
        (SERVER, "http://[fd00::1]:3128", {}, "http://[fd00::1]:3128"),
    ],
)
def test_a_proxy_is_chosen_as_kubectl_does(
    server: str, proxy_url: str, environment: dict[str, str], expected: str | None
) -> None:
    found = proxies.choose(server, proxy_url, environment)
    assert (found and found.url) == expected


@pytest.mark.parametrize(
    ("server", "excepted", "direct"),
    [
        ("https://api.example.com", "*", True),
        ("https://api.example.com", "example.com", True),
        ("https://api.example.com", ".example.com", True),
        ("https://example.com", ".example.com", False),
        ("https://example.com", "example.com", True),
        ("https://example.com", "*.example.com", False),
        ("https://API.Example.com", "other, EXAMPLE.com", True),
        ("https://badexample.com", "example.com", False),
        ("https://api.example.com:6443", "example.com:6443", True),
        ("https://api.example.com:6443", "example.com:443", False),
        ("https://api.example.com", "example.com:443", True),
        ("https://10.1.2.3:6443", "10.0.0.0/8", True),
        ("https://10.1.2.3:6443", "10.1.2.3", True),
        ("https://10.1.2.3:6443", "10.1.2.3:6443", True),
        ("https://10.1.2.3:6443", "10.1.2.3:443", False),
        ("https://11.1.2.3:6443", "10.0.0.0/8", False),
        ("https://[fd00::5]:6443", "fd00::/16", True),
        ("https://[fd00::5]:6443", "[fd00::5]:6443", True),
        ("https://10.1.2.3", "", False),
        ("https://10.1.2.3", " , ", False),
    ],
)
def test_exceptions_hold_as_in_go(server: str, excepted: str, direct: bool) -> None:
    found = proxies.choose(server, "", {**PROXY, "NO_PROXY": excepted})
    assert (found is None) is direct


def test_user_and_password_become_a_header_and_are_not_shown() -> None:
    found = proxies.choose(SERVER, "http://me:p%40ss@proxy:3128", {})
    assert found is not None
    assert found.url == "http://proxy:3128"
    assert base64.b64decode(found.authorization.removeprefix("Basic ")) == b"me:p@ss"
    assert "ss" not in repr(found)


@pytest.mark.parametrize(
    ("url", "complaint"),
    [
        ("socks5://proxy:1080", "proxy-url names a proxy of the kind socks5: .* CONNECT"),
        ("proxy:3128", "proxy-url names a proxy of the kind"),
        ("http://", "names no host"),
        ("http://proxy:port", "is no URL of a proxy"),
    ],
)
def test_a_proxy_that_cannot_be_used_is_refused(url: str, complaint: str) -> None:
    with pytest.raises(CredentialsError, match=complaint):
        proxies.choose(SERVER, url, {})


def test_a_proxy_of_the_environment_is_named_by_its_variable() -> None:
    with pytest.raises(CredentialsError, match="HTTPS_PROXY names a proxy of the kind socks5"):
        proxies.choose(SERVER, "", {"HTTPS_PROXY": "socks5://proxy:1080"})


def test_a_kubeconfigs_proxy_is_found() -> None:
    document = {
        "current-context": "m",
        "contexts": [{"name": "m", "context": {"cluster": "m", "user": "m"}}],
        "clusters": [{"name": "m", "cluster": {"server": "http://api.example.com"}}],
        "users": [{"name": "m", "user": {"token": "t"}}],
    }
    assert not any(name.upper() == "HTTP_PROXY" for name in os.environ)
    assert from_document(document).proxy is None
    document["clusters"][0]["cluster"]["proxy-url"] = "http://p:1"  # type: ignore[index]
    found = from_document(document).proxy
    assert found is not None
    assert found.url == "http://p:1"
