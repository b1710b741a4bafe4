"""Which contexts of the user's kubeconfig lead to a data centre."""

import pytest

from geotrain.cli.reaching import Place, Way, chosen, likely, missed, others
from geotrain.errors import InputError

WAYS = (
    Way("hub", "https://hub"),
    Way("kind-dc-west", "https://127.0.0.1:6001"),
    Way("kind-dc-west-2", "https://127.0.0.1:6002"),
    Way("prod", "https://east.example"),
    Way("dc-north", "https://north"),
    Way("arn:aws:eks:x:1:cluster/dc-north", "https://north.eks", runs_command=True),
    Way("gke", "https://gke", runs_command=True),
)


@pytest.mark.parametrize(
    ("place", "asked", "wanted"),
    [
        (Place("dc-west"), {}, ["kind-dc-west"]),
        (Place("dc-west-2"), {}, ["kind-dc-west-2"]),
        (Place("west"), {}, ["kind-dc-west"]),  # a whole word of its name
        (Place("dc-west"), {"dc-west": "prod"}, ["prod"]),
        (Place("dc-central", is_hub=True), {}, ["hub"]),
        (Place("dc-east", server="https://east.example"), {}, ["prod"]),
        (Place("dc-north"), {}, ["dc-north", "arn:aws:eks:x:1:cluster/dc-north"]),
        (Place("dc-west", server="https://north"), {}, ["dc-north", "kind-dc-west"]),
        (Place("nowhere"), {}, []),
    ],
)
def test_the_likely_contexts_the_best_first(place, asked, wanted):
    assert likely(place, WAYS, "hub", asked) == wanted


def test_other_contexts_are_tried_once_a_cluster_and_run_no_command():
    twice = (*WAYS, Way("prod-2", "https://east.example"), Way("hub-2", "https://hub"))
    assert others(twice, ["hub"]) == ["kind-dc-west", "kind-dc-west-2", "prod", "dc-north"]


def test_what_the_options_say():
    assert chosen(["dc-west=prod"], ["dc-west"]) == {"dc-west": "prod"}
    for entry, said in (
        ("dc-west", "write DATACENTER=CONTEXT"),
        ("=x", "write DATACENTER=CONTEXT"),
        ("moon=x", "the job has nothing in 'moon'; it runs in dc-east, dc-west"),
    ):
        with pytest.raises(InputError, match=said):
            chosen([entry], ["dc-west", "dc-east"])


@pytest.mark.parametrize(
    ("tried", "faults", "secret", "said"),
    [
        ([], {}, "", "(no context of your kubeconfig looks like it)"),
        (["a", "b"], {"b": "it does not answer"}, "",
         "(a: no pods of the job there; b: it does not answer)"),
        ([], {}, "the Secret may not be read", "(the Secret may not be read)"),
    ],
)  # fmt: skip
def test_whoever_is_not_reached_is_said_with_what_was_tried(tried, faults, secret, said):
    text = missed(Place("dc-x"), tried, faults, secret)
    assert said in text
    assert text.endswith("give --member-context dc-x=CONTEXT")
