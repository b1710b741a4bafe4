"""Tokens of members' accounts: made by TokenRequest, kept in a kubeconfig, read without trust.

Pure. A service account's token is a JWT, whose claims anybody can read; only the API server that
made it can tell whether it is good, so nothing here decides what somebody may do.
"""

import base64
import binascii
import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final

import yaml

from geotrain.errors import ClusterError
from geotrain.units import Seconds

DEFAULT_LIFETIME: Final[Seconds] = 24 * 3600.0
SHORTEST_LIFETIME: Final[Seconds] = 600.0  # the API server's own
_RENEW_AT: Final = 0.5  # of a token's life: the rest is for a controller that is away
_SUBJECT: Final = "system:serviceaccount:"


@dataclass(frozen=True, slots=True)
class Token:
    """A token and what its claims say: when it was made and ends, and which account it is of.

    ``ends`` of None: it is no JWT, or one that does not end.
    """

    text: str
    issued: Seconds = 0.0
    ends: Seconds | None = None
    namespace: str = ""
    account: str = ""
    account_uid: str = ""

    @property
    def lifetime(self) -> Seconds:
        """From issue to end; infinite without an end."""
        return float("inf") if self.ends is None else self.ends - self.issued

    def has_ended(self, now: Seconds) -> bool:
        """Whether no API server accepts it any more."""
        return self.ends is not None and now >= self.ends

    def is_due(self, now: Seconds) -> bool:
        """Whether it is time for a new one: half of its life is over."""
        return self.ends is not None and now >= self.issued + _RENEW_AT * self.lifetime

    def __repr__(self) -> str:
        return f"Token({self.namespace}/{self.account}, ends {self.ends})"


def read(text: str) -> Token:
    """A token with what it tells of itself."""
    claims = _claims(text)
    issued, ends, subject = claims.get("iat"), claims.get("exp"), str(claims.get("sub", ""))
    if not isinstance(ends, int | float) or not isinstance(issued, int | float):
        return Token(text)
    namespace, _, account = subject.removeprefix(_SUBJECT).partition(":")
    known = subject.startswith(_SUBJECT)
    if not known:
        return Token(text, issued, ends)
    return Token(text, issued, ends, namespace, account, _account_uid(claims))


def request(namespace: str, account: str, lifetime: Seconds) -> dict[str, Any]:
    """The TokenRequest to create as subresource ``token`` of an account."""
    return {
        "apiVersion": "authentication.k8s.io/v1",
        "kind": "TokenRequest",
        "metadata": {"namespace": namespace, "name": account},
        "spec": {"expirationSeconds": int(max(lifetime, SHORTEST_LIFETIME))},
    }


def granted(answer: Mapping[str, Any]) -> Token:
    """The token in a TokenRequest that was answered. Raises ClusterError where there is none."""
    text = str((answer.get("status") or {}).get("token") or "")
    if not text:
        raise ClusterError("the API server answered a TokenRequest without a token")
    return read(text)


def in_kubeconfig(text: str) -> Token | None:
    """The token with which a kubeconfig's current context logs in; None where it has none."""
    user = _user(_document(text))
    return read(str(user["token"])) if user and user.get("token") else None


def replaced(text: str, token: str) -> str:
    """The kubeconfig with another token, all else as it was.

    Raises ValueError where the kubeconfig logs in by no token.
    """
    document = _document(text)
    user = _user(document)
    if not user or not user.get("token"):
        raise ValueError("the kubeconfig holds no token")
    user["token"] = token
    return yaml.safe_dump(document)


def without(text: str) -> str:
    """The kubeconfig without its token: equal as long as it leads to the same place."""
    return replaced(text, "-") if in_kubeconfig(text) else text


def _document(text: str) -> dict[str, Any]:
    try:
        document = yaml.safe_load(text)
    except yaml.YAMLError:
        return {}
    return document if isinstance(document, dict) else {}


def _user(document: Mapping[str, Any]) -> dict[str, Any] | None:
    """The user of the current context, as a part of the document."""
    context = _entry(document, "contexts", "context", document.get("current-context"))
    return _entry(document, "users", "user", (context or {}).get("user"))


def _entry(document: Mapping[str, Any], group: str, key: str, name: Any) -> dict[str, Any] | None:
    listed = document.get(group)
    for each in listed if isinstance(listed, list) else ():
        if isinstance(each, dict) and each.get("name") == name and isinstance(each.get(key), dict):
            found: dict[str, Any] = each[key]
            return found
    return None


def _account_uid(claims: Mapping[str, Any]) -> str:
    """Which account of that name: one that is made anew has another."""
    found: Any = claims
    for key in ("kubernetes.io", "serviceaccount", "uid"):
        found = found.get(key) if isinstance(found, dict) else None
    return str(found or "")


def _claims(text: str) -> Mapping[str, Any]:
    """The payload of a JWT, empty for anything else."""
    parts = text.split(".")
    if len(parts) != 3:
        return {}
    try:
        claims = json.loads(base64.urlsafe_b64decode(parts[1] + "=" * (-len(parts[1]) % 4)))
    except (ValueError, binascii.Error):
        return {}
    return claims if isinstance(claims, dict) else {}
