"""What a member's token tells of itself, and how it lies in a kubeconfig."""

import base64

import pytest
import yaml

from geotrain.api import tokens
from geotrain.api.tokens import Token
from geotrain.errors import ClusterError
from support import jwt

HOUR = 3600.0


def test_a_token_tells_whose_it_is_and_how_long_it_lasts() -> None:
    token = tokens.read(jwt.token(1000.0, 1000.0 + HOUR))
    assert (token.namespace, token.account) == ("geotrain-system", "geotrain-member")
    assert token.account_uid == "account-1"
    assert token.lifetime == HOUR
    assert "ends 4600" in repr(token)
    assert token.text not in repr(token)


@pytest.mark.parametrize(
    "text",
    [
        "opaque", "a.b.c", "a.!!.c", "a.bnVsbA.c", jwt.token(0.0, None), "",
        ".".join(["e30", "eyJpYXQiOiAieCIsICJleHAiOiAxfQ", ""]),
    ],
)  # fmt: skip
def test_what_has_no_end_is_never_due(text: str) -> None:
    token = tokens.read(text)
    assert token == Token(text)
    assert not token.is_due(1e12)
    assert not token.has_ended(1e12)
    assert token.lifetime == float("inf")


def test_a_token_of_somebody_else_has_no_account() -> None:
    token = tokens.read(jwt.token(0.0, HOUR, "person@example.com"))
    assert (token.namespace, token.account, token.account_uid) == ("", "", "")


def test_a_token_may_tell_no_uid() -> None:
    payload = base64.urlsafe_b64encode(b'{"iat": 1, "exp": 9, "sub": "system:serviceaccount:a:b"}')
    token = tokens.read(f"e30.{payload.decode()}.x")
    assert (token.namespace, token.account, token.account_uid) == ("a", "b", "")


@pytest.mark.parametrize(
    ("now", "due", "ended"),
    [(0.0, False, False), (0.49, False, False), (0.51, True, False), (0.99, True, False),
     (1.0, True, True)],
)  # fmt: skip
def test_a_token_is_due_before_two_thirds_of_its_life(now: float, due: bool, ended: bool) -> None:
    token = tokens.read(jwt.token(1000.0, 1000.0 + 24 * HOUR))
    moment = 1000.0 + now * 24 * HOUR
    assert (token.is_due(moment), token.has_ended(moment)) == (due, ended)


def test_a_request_asks_for_no_less_than_the_server_grants() -> None:
    asked = tokens.request("geotrain-system", "geotrain-member", 60.0)
    assert asked["spec"] == {"expirationSeconds": 600}
    assert asked["metadata"] == {"namespace": "geotrain-system", "name": "geotrain-member"}


def test_an_answer_holds_the_token() -> None:
    text = jwt.token(0.0, HOUR)
    assert tokens.granted({"status": {"token": text}}).text == text
    with pytest.raises(ClusterError, match="without a token"):
        tokens.granted({"status": {"token": ""}})


def test_a_token_is_replaced_and_nothing_else() -> None:
    before = jwt.kubeconfig("old")
    after = tokens.replaced(before, "new")
    assert tokens.in_kubeconfig(after) == Token("new")
    assert yaml.safe_load(after.replace("new", "old")) == yaml.safe_load(before)
    assert tokens.without(after) == tokens.without(before)
    document = yaml.safe_load(before)
    document["users"].insert(0, {"name": "other", "user": {"token": "theirs"}})
    assert tokens.in_kubeconfig(yaml.safe_dump(document)) == Token("old")
    assert tokens.without(jwt.kubeconfig("x", "https://other")) != tokens.without(before)


@pytest.mark.parametrize("text", ["", "a: [", "- 1", "users: 3", "current-context: x\n", "dc-west"])
def test_what_holds_no_token_is_left_as_it_is(text: str) -> None:
    assert tokens.in_kubeconfig(text) is None
    assert tokens.without(text) == text
    with pytest.raises(ValueError, match="holds no token"):
        tokens.replaced(text, "new")
