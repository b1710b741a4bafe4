"""Which HTTP proxy leads to an API server, chosen as kubectl chooses it.

A kubeconfig's ``proxy-url`` wins. Without one HTTPS_PROXY (HTTP_PROXY for a plain server) and
NO_PROXY hold, by the rules of Go's golang.org/x/net/http/httpproxy: NO_PROXY lists names, with
which their subdomains go (``.example.com``: these alone), addresses, networks, each with an
optional port, or ``*``; loopback is never asked for through a proxy.
"""

import base64
import ipaddress
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final
from urllib.parse import SplitResult, unquote, urlsplit

from geotrain.errors import CredentialsError

_SCHEMES: Final = ("http", "https")
_PORTS: Final = {"http": 80, "https": 443}


@dataclass(frozen=True, slots=True)
class Proxy:
    """``url`` without a user; ``authorization`` is the header by which the proxy knows us."""

    url: str
    authorization: str = ""

    def __repr__(self) -> str:
        return f"Proxy({self.url!r})"


def choose(server: str, proxy_url: str, environment: Mapping[str, str]) -> Proxy | None:
    """The proxy by which ``server`` (a URL) is reached, None for none.

    Raises CredentialsError for a proxy that cannot be used.
    """
    if proxy_url:
        return _proxy(proxy_url, "proxy-url")
    target = urlsplit(server)
    variable = f"{target.scheme.upper()}_PROXY"
    listed = _value(environment, variable)
    if not listed or not _applies(target, _value(environment, "NO_PROXY")):
        return None
    return _proxy(listed if "://" in listed else f"http://{listed}", variable)


def _value(environment: Mapping[str, str], name: str) -> str:
    return environment.get(name) or environment.get(name.lower()) or ""


def _proxy(url: str, where: str) -> Proxy:
    try:
        parts = urlsplit(url)
        host, port = parts.hostname, parts.port
    except ValueError as error:
        raise CredentialsError(f"{where} is no URL of a proxy: {error}") from error
    if parts.scheme not in _SCHEMES:
        raise CredentialsError(
            f"{where} names a proxy of the kind {parts.scheme or '(none)'}: geotrain speaks to"
            " http:// and https:// proxies; run an HTTP proxy that supports CONNECT, or reach the"
            " API server without one"
        )
    if not host:
        raise CredentialsError(f"{where} names no host; write http://proxy.example.com:3128")
    shown = f"[{host}]" if ":" in host else host
    return Proxy(f"{parts.scheme}://{shown}:{port or _PORTS[parts.scheme]}", _authorization(parts))


def _authorization(parts: SplitResult) -> str:
    if parts.username is None:
        return ""
    pair = f"{unquote(parts.username)}:{unquote(parts.password or '')}"
    return f"Basic {base64.b64encode(pair.encode()).decode()}"


def _applies(target: SplitResult, excepted: str) -> bool:
    """Whether the environment's proxy is used for the target."""
    host = (target.hostname or "").rstrip(".").lower()
    port = target.port or _PORTS.get(target.scheme, 0)
    address = _address(host)
    if host == "localhost" or (address is not None and address.is_loopback):
        return False
    entries = [entry.strip().lower() for entry in excepted.split(",")]
    return not any(_excepts(entry, host, address, port) for entry in entries if entry)


_Address = ipaddress.IPv4Address | ipaddress.IPv6Address


def _excepts(entry: str, host: str, address: _Address | None, port: int) -> bool:
    if entry == "*":
        return True
    network = _network(entry)
    if network is not None:
        return address is not None and address in network
    name, wanted = _with_port(entry)
    if wanted not in ("", str(port)):
        return False
    if address is not None:
        return _address(name) == address
    if name.startswith("*."):
        name = name[1:]
    return host.endswith(name) if name.startswith(".") else f".{host}".endswith(f".{name}")


def _with_port(entry: str) -> tuple[str, str]:
    if entry.startswith("["):
        name, _, rest = entry[1:].partition("]")
        return name, rest.removeprefix(":")
    name, _, port = entry.partition(":")
    return name, port


def _network(text: str) -> ipaddress.IPv4Network | ipaddress.IPv6Network | None:
    try:
        return ipaddress.ip_network(text, strict=False)
    except ValueError:
        return None


def _address(text: str) -> _Address | None:
    try:
        return ipaddress.ip_address(text)
    except ValueError:
        return None
