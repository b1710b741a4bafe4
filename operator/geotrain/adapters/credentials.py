"""Where a cluster's API is and how to log in, read from kubeconfigs or the pod's own account.

The official client reads them, so every way to log in that kubectl knows works here too; nothing
else of it is used. A kubeconfig that comes out of a Secret must be self-contained: commands and
file paths in it would run or be read inside the controller's own pod.
"""

import os
import ssl
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final

import yaml
from kubernetes import client, config
from kubernetes.config.config_exception import ConfigException

from geotrain.adapters import proxies
from geotrain.errors import CredentialsError

_FOREIGN_USER_FIELDS: Final = ("exec", "auth-provider", "tokenFile")
_FOREIGN_FILES: Final = ("client-certificate", "client-key", "certificate-authority")


class Credentials:
    """An API server's address, how to trust it, and what to say to it."""

    def __init__(self, configuration: client.Configuration) -> None:
        self._configuration = configuration
        self.host: str = configuration.host.rstrip("/")
        self.server_hostname: str | None = getattr(configuration, "tls_server_name", None) or None
        self.ssl = _trust(configuration)
        # The client takes proxy-url over; ``_configuration`` keeps it from the environment's.
        self.proxy = proxies.choose(self.host, configuration.proxy or "", os.environ)

    @property
    def authorization(self) -> str | None:
        """The Authorization header; a token kept in a file is read again when it is due."""
        held = self._configuration
        token: str | None = held.get_api_key_with_prefix("BearerToken", alias="authorization")
        if token:
            return token
        return held.get_basic_auth_token() if held.username else None

    @property
    def client_certificate(self) -> tuple[str, str] | None:
        """Files that hold the client's certificate and its key."""
        held = self._configuration
        return (held.cert_file, held.key_file) if held.cert_file and held.key_file else None

    @property
    def authority(self) -> str | None:
        """The file by which the server's certificate is checked, None for the system's own."""
        return self._configuration.ssl_ca_cert or None

    @property
    def insecure(self) -> bool:
        """Whether the kubeconfig says not to check the server's certificate."""
        return not self._configuration.verify_ssl

    def __repr__(self) -> str:
        return f"Credentials({self.host!r})"


def _configuration() -> client.Configuration:
    return client.Configuration(proxy="")


def in_cluster() -> Credentials:
    """The account of the pod that this process runs in. Raises CredentialsError outside of one."""
    held = _configuration()
    try:
        config.load_incluster_config(held)  # type: ignore[no-untyped-call]
    except ConfigException as error:
        raise CredentialsError(f"this process is not in a pod of a cluster: {error}") from error
    return Credentials(held)


def from_file(path: Path) -> Credentials:
    """The current context of a kubeconfig. Raises CredentialsError that says what is wrong."""
    if not path.is_file():
        raise CredentialsError(f"there is no kubeconfig at {path}")
    held = _configuration()
    try:
        config.load_kube_config(  # type: ignore[no-untyped-call]
            str(path), client_configuration=held, persist_config=False
        )
        return Credentials(held)
    except (ConfigException, OSError, ValueError, TypeError, yaml.YAMLError) as error:
        raise CredentialsError(f"{path} is not a usable kubeconfig: {error}") from error


def from_document(document: Mapping[str, Any]) -> Credentials:
    """A self-contained kubeconfig that is already parsed.

    Raises CredentialsError when it is incomplete, refers to files, or runs a command.
    """
    problem = _foreign(document)
    if problem:
        raise CredentialsError(problem)
    held = _configuration()
    try:
        config.load_kube_config_from_dict(  # type: ignore[no-untyped-call]
            dict(document), client_configuration=held, persist_config=False
        )
        return Credentials(held)
    except (ConfigException, OSError, ValueError, TypeError) as error:
        raise CredentialsError(f"the kubeconfig is incomplete: {error}") from error


def parse(text: str) -> dict[str, Any]:
    """A kubeconfig as text to a document. Raises CredentialsError when it is none."""
    try:
        document = yaml.safe_load(text)
    except yaml.YAMLError as error:
        raise CredentialsError("the kubeconfig is not YAML") from error
    if not isinstance(document, dict):
        raise CredentialsError("the kubeconfig is not a mapping")
    return document


def _foreign(document: Mapping[str, Any]) -> str:
    """What in a kubeconfig reaches outside it, as a sentence, or ''."""
    for user in _entries(document, "users", "user"):
        for name in _FOREIGN_USER_FIELDS:
            if name in user:
                return f"the kubeconfig uses {name}, which a Secret may not; give a token"
    for entry in (*_entries(document, "users", "user"), *_entries(document, "clusters", "cluster")):
        for name in _FOREIGN_FILES:
            if name in entry:
                return f"the kubeconfig names a file in {name}; use {name}-data instead"
    return ""


def _entries(document: Mapping[str, Any], group: str, key: str) -> list[Mapping[str, Any]]:
    found = document.get(group)
    named = [e.get(key) for e in found if isinstance(e, dict)] if isinstance(found, list) else []
    return [each for each in named if isinstance(each, dict)]


def _trust(configuration: client.Configuration) -> ssl.SSLContext | None:
    """The TLS context, None for plain HTTP."""
    if not configuration.host.startswith("https://"):
        return None
    context = ssl.create_default_context(cafile=configuration.ssl_ca_cert or None)
    # Python 3.13 asks for key identifiers, which the CAs of many clusters do not have.
    context.verify_flags &= ~ssl.VERIFY_X509_STRICT
    if not configuration.verify_ssl:
        context.check_hostname = False
        context.verify_mode = ssl.CERT_NONE
    if configuration.cert_file:
        context.load_cert_chain(configuration.cert_file, configuration.key_file)
    return context
