"""Jobs and topologies that somebody got wrong: a plan, or a sentence, and never a traceback."""

import copy
import json
import tempfile
from pathlib import Path

import yaml
from hypothesis import given
from hypothesis import strategies as st

from geotrain.cli import problem
from geotrain.errors import InputError
from geotrain.model.decision import Infeasible
from geotrain.model.plan import Plan
from geotrain.planning.placement.candidates import candidates
from geotrain.planning.placement.choose import choose

DATA = Path(__file__).parent / "data"
TEXTS = [(DATA / name).read_text() for name in ("job.yaml", "topology.yaml")]
DOCUMENTS = [each for text in TEXTS for each in yaml.safe_load_all(text)]
PROFILE = DOCUMENTS[1]["data"]
PROFILE["profile.json"] = json.loads(PROFILE["profile.json"])
MOST_ACTIONS = 1000  # of a plan that is made to the end

ODD = st.one_of(
    st.none(),
    st.booleans(),
    st.integers(-2, 20),
    st.sampled_from([2**31, 2**63 - 1, 2**63, 10**30, -(10**30), 10**400]),
    st.floats(),
    st.text(max_size=8),
    st.sampled_from(["0", "-1", "nan", "1e400", "9" * 31 + "P", "9" * 40, "0ms", "99999h", "5G"]),
    st.lists(st.integers(-1, 3), max_size=2),
    st.dictionaries(st.text(max_size=4), st.integers(-1, 3), max_size=2),
)


def places(value, path=()):
    """Every place in a document, the document itself left out."""
    inner = value.items() if isinstance(value, dict) else enumerate(value)
    for key, each in inner:
        yield (*path, key)
        if isinstance(each, dict | list):
            yield from places(each, (*path, key))


PLACES = list(places(DOCUMENTS))


def changed(documents, path, action, value):
    holder = documents
    for key in path[:-1]:
        holder = holder[key]
    if action == "replace":
        holder[path[-1]] = value
    elif action == "remove":
        del holder[path[-1]]
    elif isinstance(holder[path[-1]], dict):
        holder[path[-1]]["unknown"] = value


def written(document):
    """The document as it stands in a file: a ConfigMap holds its profile as text."""
    data = document.get("data") if isinstance(document, dict) else None
    if isinstance(data, dict) and isinstance(data.get("profile.json"), dict):
        data["profile.json"] = json.dumps(data["profile.json"])
    return document


def asked(text):
    """The whole way from the text of the files: what a user would see of it."""
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "all.yaml"
        path.write_text(text, encoding="utf-8", errors="surrogatepass")
        found, error = None, ""
        try:
            found = problem.read([path], None, None, None, None)
        except InputError as caught:
            error = str(caught)
    if found is None:
        assert error
        assert "\n" not in error
        return
    job = found.workload
    tried = candidates(found.topology, job)
    assert tried.placements or tried.reasons or tried.rejected
    if job.data is not None and 2 * job.pipeline * job.micro_batches(job.data) <= MOST_ACTIONS:
        answer = choose(found.topology, job)
        assert isinstance(answer, Plan | Infeasible)
        if isinstance(answer, Plan):
            assert 0 <= answer.iteration < float("inf")


@given(
    st.lists(
        st.tuples(st.sampled_from(PLACES), st.sampled_from(["replace", "remove", "add"]), ODD),
        min_size=1,
        max_size=2,
        unique_by=lambda change: change[0],
    )
)
def test_a_wrong_value_key_or_type_is_a_sentence(changes):
    documents = copy.deepcopy(DOCUMENTS)
    # The inner before the outer, and the later of a list before the earlier, so that all exist.
    order = sorted(changes, key=lambda c: (len(c[0]), [str(key) for key in c[0]]), reverse=True)
    for path, action, value in order:
        changed(documents, path, action, value)
    asked(yaml.dump_all(written(each) for each in documents))


@given(st.text(max_size=40), st.integers(0, sum(map(len, TEXTS))), st.integers(0, 12))
def test_text_that_was_cut_or_overwritten_is_a_sentence(noise, at, lost):
    text = "---\n".join(TEXTS)
    asked(text[:at] + noise + text[at + lost :])


@given(st.recursive(ODD, lambda inner: st.lists(inner) | st.dictionaries(st.text(), inner)))
def test_any_yaml_is_a_sentence(value):
    asked(yaml.dump(value))
