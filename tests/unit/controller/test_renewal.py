"""Tokens of members: renewed in time, told of, and never worked against a person."""

import base64

import pytest

from geotrain.api import labels
from geotrain.api.objects import DATA_CENTERS, SECRETS
from geotrain.errors import Conflict, Forbidden, Unauthorized, Unreachable
from geotrain.roles.controller import renewal
from geotrain.roles.controller.controller import Key
from support import jwt
from support.world import World, secret

NOW = 1_700_000_000.0
DAY = 86400.0
KEY = Key(DATA_CENTERS, "", "dc-west")


def held(text, ours=True, lifetime=""):
    made = secret("dc-west", text)
    if ours:
        made["metadata"]["labels"] = {labels.MANAGED_BY: labels.MANAGED_BY_VALUE}
    made["metadata"]["annotations"] = {labels.TOKEN_LIFETIME: lifetime}
    return made


def login(text, **options):
    return renewal.read(held(jwt.kubeconfig(text), **options), "kubeconfig")


@pytest.mark.parametrize(
    ("text", "ours", "due"),
    [
        (jwt.token(NOW - 0.4 * DAY, NOW + 0.6 * DAY), True, False),
        (jwt.token(NOW - 0.6 * DAY, NOW + 0.4 * DAY), True, True),
        (jwt.token(NOW - 0.6 * DAY, NOW + 0.4 * DAY), False, False),
        (jwt.token(NOW - 0.6 * DAY, NOW + 0.4 * DAY, "a person"), True, False),
        (jwt.token(NOW - 2 * DAY, NOW - DAY), True, False),
        ("opaque", True, False),
    ],
)
def test_our_own_tokens_are_renewed_at_half_of_their_life(text, ours, due):
    assert login(text, ours=ours).is_due(NOW) is due


def test_a_kubeconfig_without_token_is_never_due():
    assert not renewal.read(held("users: []"), "kubeconfig").is_due(NOW)


@pytest.mark.parametrize(("written", "seconds"), [("3600", 3600.0), ("", DAY), ("soon", DAY)])
def test_a_token_is_asked_for_as_long_as_join_said(written, seconds):
    assert login("x", lifetime=written).lifetime == seconds


def test_a_secret_that_cannot_be_read_says_so():
    with pytest.raises(KeyError):
        renewal.read(held("x"), "other")
    broken = held("x")
    broken["data"]["kubeconfig"] = "&&&"
    with pytest.raises(ValueError, match="not text"):
        renewal.read(broken, "kubeconfig")


@pytest.mark.parametrize(
    ("text", "ours", "fault", "reason"),
    [
        (jwt.token(NOW, NOW + DAY), True, "", "TokenRenewed"),
        (jwt.token(NOW, NOW + DAY), True, "no right", "TokenNotRenewed"),
        (jwt.token(NOW, NOW + DAY), False, "", "TokenNotOurs"),
        (jwt.token(NOW, NOW + DAY, "a person"), True, "", "TokenNotOurs"),
        (jwt.token(NOW - 2 * DAY, NOW - DAY), True, "", "TokenExpired"),
        ("opaque", True, "", None),
    ],
)
def test_what_becomes_of_a_token_is_told(text, ours, fault, reason):
    verdict = renewal.verdict(login(text, ours=ours), fault, "dc-west", NOW)
    assert (verdict and verdict[1]) == reason
    if reason == "TokenExpired":
        assert "`geotrain join dc-west` with its --context makes a new one" in verdict[2]


def test_the_hub_needs_no_token():
    assert renewal.verdict(None, "", "dc-central", NOW) is None
    assert renewal.refusal(None, "dc-central", NOW)[0] == "TokenRefused"


@pytest.fixture
async def world():
    made = World()
    async with made.running():
        yield made


def condition(world, kind):
    center = next(
        c for c in world.hub.everything(DATA_CENTERS) if c["metadata"]["name"] == "dc-west"
    )
    found = {c["type"]: c for c in center["status"].get("conditions", [])}
    return found.get(kind, {})


async def keep(world, text, **options):
    """Put a kubeconfig with this token into the hub, leading to the member of before."""
    config = jwt.kubeconfig(text)
    world.aliases[renewal.tokens.without(config)] = "dc-west"
    world.hub.put(held(config, **options))
    await world.look(KEY)


def kept(world):
    (found,) = [s for s in world.hub.everything(SECRETS) if s["metadata"]["name"] == "dc-west"]
    return base64.b64decode(found["data"]["kubeconfig"]).decode()


async def test_a_token_is_renewed_and_taken_up_without_opening_anew(world):
    first = jwt.token(world.clock.time, world.clock.time + DAY)
    await keep(world, first)
    assert condition(world, "TokenFresh")["reason"] == "TokenRenewed"
    site = world.controller.members.site("dc-west")
    world.clock.time += 0.6 * DAY
    fresh = jwt.token(world.clock.time, world.clock.time + DAY)
    world.clusters["dc-west"].grant = lambda _: fresh
    await world.look(KEY)
    assert fresh in kept(world)
    await world.look(KEY)
    assert world.controller.members.site("dc-west") is site
    assert fresh in world.clusters["dc-west"].renewed[-1]
    asked = [c for c in world.clusters["dc-west"].calls if c[0] == "token"]
    assert asked == [("token", "serviceaccounts", "geotrain-member")]


async def test_a_controller_that_starts_anew_renews_what_is_due(world):
    await keep(world, jwt.token(world.clock.time - 0.6 * DAY, world.clock.time + 0.4 * DAY))
    assert condition(world, "TokenFresh")["reason"] == "TokenNotRenewed"
    world.clusters["dc-west"].grant = lambda _: jwt.token(NOW, NOW + 9 * DAY)
    await world.restart()
    assert jwt.token(NOW, NOW + 9 * DAY) in kept(world)


@pytest.mark.parametrize("error", [Forbidden("may not create tokens"), Unreachable("away")])
async def test_a_token_that_cannot_be_renewed_is_told_of_in_time(world, error):
    await keep(world, jwt.token(world.clock.time, world.clock.time + DAY))
    world.clock.time += 0.6 * DAY
    world.clusters["dc-west"].fail_next("token", error)
    await world.look(KEY)
    assert condition(world, "TokenFresh")["reason"] == "TokenNotRenewed"
    assert str(error) in condition(world, "TokenFresh")["message"]
    assert condition(world, "Reachable")["status"] == "True"


async def test_a_secret_that_somebody_else_changes_is_theirs(world):
    await keep(world, jwt.token(world.clock.time, world.clock.time + DAY))
    world.clock.time += 0.6 * DAY
    world.hub.fail_next("patch", Conflict("the object has been modified"))
    await world.look(KEY)
    assert condition(world, "TokenFresh")["reason"] == "TokenRenewed"


async def test_an_expired_token_names_the_command_that_mends_it(world):
    await keep(world, jwt.token(world.clock.time, world.clock.time + DAY))
    world.clock.time += 2 * DAY
    world.clusters["dc-west"].fail_next("get", Unauthorized("Unauthorized"), times=2)
    await world.look(KEY)
    assert condition(world, "Reachable")["reason"] == "TokenExpired"
    assert "`geotrain join dc-west`" in condition(world, "Reachable")["message"]
    await keep(world, jwt.token(world.clock.time, world.clock.time + DAY))
    assert condition(world, "Reachable")["status"] == "True"


async def test_a_token_that_the_member_does_not_know_says_so(world):
    world.clusters["dc-west"].fail_next("get", Unauthorized("Unauthorized"), times=2)
    await world.look(KEY)
    assert condition(world, "Reachable")["reason"] == "TokenRefused"
