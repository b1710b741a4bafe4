"""New tokens for members before the old ones end: when, and what to say of it. Pure.

The truth is the Secret on the hub: a controller that starts anew reads there when the token ends,
and a person who renews it by ``geotrain join`` is not worked against.
"""

import base64
import binascii
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Final

from geotrain.api import labels, tokens
from geotrain.api.conditions import FALSE, TRUE, Status
from geotrain.api.objects import Object
from geotrain.api.reasons import Reason
from geotrain.api.tokens import Token
from geotrain.units import Seconds

REMEDY: Final = "`geotrain join {name}` with its --context makes a new one"


@dataclass(frozen=True, slots=True)
class Login:
    """How the controller logs into a member: its Secret on the hub, as it was read.

    ``kubeconfig`` is the text under ``key``.
    """

    secret: Object
    key: str
    kubeconfig: str

    @property
    def token(self) -> Token | None:
        """The token in the kubeconfig, None where it logs in otherwise."""
        return tokens.in_kubeconfig(self.kubeconfig)

    @property
    def is_ours(self) -> bool:
        """Whether ``geotrain join`` made the Secret; what people made by hand is left alone."""
        tags = self.secret["metadata"].get("labels") or {}
        return tags.get(labels.MANAGED_BY) == labels.MANAGED_BY_VALUE

    @property
    def lifetime(self) -> Seconds:
        """How long a token was asked to last."""
        asked = (self.secret["metadata"].get("annotations") or {}).get(labels.TOKEN_LIFETIME, "")
        return float(asked) if asked.isdecimal() else tokens.DEFAULT_LIFETIME

    def is_due(self, now: Seconds) -> bool:
        """Whether the controller is to ask for a new token."""
        token = self.token
        ours = token is not None and bool(token.account) and self.is_ours
        return ours and token is not None and token.is_due(now) and not token.has_ended(now)

    def renewed(self, token: Token) -> Object:
        """The merge patch that puts a new token into the Secret, unless that changed meanwhile."""
        text = tokens.replaced(self.kubeconfig, token.text)
        data = {self.key: base64.b64encode(text.encode()).decode()}
        return {
            "metadata": {"resourceVersion": self.secret["metadata"].get("resourceVersion")},
            "data": data,
        }


def read(secret: Object, key: str) -> Login:
    """A Secret's kubeconfig. Raises KeyError without that key, ValueError where it is no text."""
    encoded = (secret.get("data") or {})[key]
    try:
        return Login(secret, key, base64.b64decode(encoded, validate=True).decode())
    except (binascii.Error, UnicodeDecodeError) as error:
        raise ValueError("it is not text") from error


def verdict(
    login: Login | None, fault: str, name: str, now: Seconds
) -> tuple[Status, Reason, str] | None:
    """The condition TokenFresh; None where there is no token that ends.

    ``fault`` is why a token that was due could not be renewed.
    """
    token = login.token if login is not None else None
    if login is None or token is None or token.ends is None:
        return None
    until, remedy = _time(token.ends), REMEDY.format(name=name)
    if token.has_ended(now):
        return FALSE, Reason.TOKEN_EXPIRED, f"the token ended at {until}; {remedy}"
    if not login.is_ours or not token.account:
        said = f"it ends at {until}, and whoever made the Secret has to renew it; {remedy}"
        return FALSE, Reason.TOKEN_NOT_OURS, said
    if fault:
        said = f"it ends at {until} and could not be renewed: {fault}"
        return FALSE, Reason.TOKEN_NOT_RENEWED, said
    return TRUE, Reason.TOKEN_RENEWED, "it is renewed at half of its life"


def refusal(login: Login | None, name: str, now: Seconds) -> tuple[Reason, str]:
    """What a member means that does not know our token (401)."""
    token = login.token if login is not None else None
    remedy = REMEDY.format(name=name)
    if token is not None and token.ends is not None and token.has_ended(now):
        return Reason.TOKEN_EXPIRED, f"the token ended at {_time(token.ends)}; {remedy}"
    return Reason.TOKEN_REFUSED, f"the member does not know the token; {remedy}"


def _time(moment: Seconds) -> str:
    return datetime.fromtimestamp(moment, UTC).strftime("%Y-%m-%d %H:%M:%S UTC")
