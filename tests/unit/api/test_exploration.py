import pytest
from hypothesis import given
from hypothesis import strategies as st

from geotrain.api.exploration import exploration
from geotrain.errors import InputError
from geotrain.planning.costs.shapes import Experts
from geotrain.planning.explore.search import fault

PLAIN = {
    "model": {
        "layers": 8, "hiddenSize": 2048, "sequenceLength": 2048, "feedForward": 8192, "heads": 16,
    },
    "batch": {"global": 32},
    "accelerator": {"flops": "100T", "memory": "80G"},
    "network": {
        "tiers": [
            {"name": "node", "units": 4, "rate": "800G", "latency": "1us"},
            {"name": "region", "units": 2, "rate": "10G", "port": "100G", "latency": "1ms"},
        ],
        "transports": [{"name": "tuned", "efficiency": [0.9, 0.8]}],
    },
    "layout": {"tensor": 2, "pipeline": 2, "microBatch": 2},
}  # fmt: skip


def changed(path, value, document=PLAIN):
    head, *rest = path
    if isinstance(document, list):
        return [changed(rest, value, each) if rest else value for each in document]
    copy = dict(document)
    copy[head] = changed(rest, value, copy.get(head, {})) if rest else value
    return copy


def without(path, document=PLAIN):
    head, *rest = path
    copy = dict(document)
    if rest:
        copy[head] = without(rest, copy[head])
    else:
        del copy[head]
    return copy


def test_a_document_is_read():
    task, layout = exploration(PLAIN)
    assert task.network.devices == 8
    assert [tier.most for tier in task.network.tiers] == [800e9, 100e9]
    assert task.network.tiers[1].latency == 1e-3
    assert task.shape.key_value == 2048
    assert (task.shape.gated, task.shape.fused, task.training.lean) == (True, True, True)
    assert task.device.operations == 100e12
    assert task.device.memory == 80 * 10**9
    assert task.tokens == 32 * 2048
    assert layout.degrees.axes == (2, 1, 2, 2)
    assert layout.transport == "tuned"
    assert fault(task, layout) is None


def test_transports_a_layout_and_a_dense_part_may_be_left_out():
    mixture = {"count": 8, "perToken": 2, "feedForward": 512}
    document = without(("model", "feedForward"), changed(("model", "experts"), mixture))
    document = without(("network", "transports"), without(("layout",), document))
    task, layout = exploration(document)
    assert task.shape.experts == Experts(8, 2, 512)
    assert task.network.transports[0].efficiency == (1.0, 1.0)
    assert layout.degrees.axes == (1, 1, 8, 1)
    assert fault(task, layout) is None


def test_an_accelerator_may_be_named():
    named, _ = exploration(changed(("accelerator",), {"name": "H200"}))
    assert named.device.memory == 141 * 2**30
    assert 0 < named.device.operations < 989e12
    both, _ = exploration(changed(("accelerator", "name"), "H200"))
    assert (both.device.operations, both.device.memory) == (100e12, 80 * 10**9)


@pytest.mark.parametrize(
    ("path", "value", "says"),
    [
        (("model", "layers"), 0, "model.layers: .*greater than or equal to 1"),
        (("model", "layers"), -3, "model.layers"),
        (("model", "layers"), 1e400, "model.layers"),
        (("model", "hiddenSize"), float("nan"), "model.hiddenSize"),
        (("model", "keyValueHeads"), 3, "3 key-value heads do not divide 16 heads"),
        (("model", "feedForward"), None, "model: give feedForward, or experts"),
        (("model", "experts"), {"count": 2, "perToken": 4, "feedForward": 8}, "4 of 2 experts"),
        (("batch",), {}, "batch.global: Field required"),
        (("batch", "size"), 4, "batch.size: there is no such field; there is global"),
        (("accelerator", "flops"), "fast", "accelerator.flops: 'fast' is not a rate"),
        (("accelerator", "flops"), "0", "finite speed"),
        (
            ("accelerator", "name"),
            "Z80",
            "accelerator.name: accelerator 'Z80' is not known; known: A10, ",
        ),
        (("accelerator",), {"memory": "1G"}, "give a name, or flops and memory"),
        (("accelerator", "memory"), "-80G", "accelerator.memory: -80G is negative"),
        (("network", "rings"), "round", "network.rings: .*'aware' or 'oblivious'"),
        (("network", "tiers"), [], "at least one tier"),
        (("network", "tiers", 0, "rate"), "0", "the rate must be finite and above 0"),
        (("network", "tiers", 0, "rate"), "9" * 400, "a quantity of 400 characters"),
        (("network", "tiers", 0, "rate"), "1001P", "1001P is more than 1000P; check its unit"),
        (("network", "tiers", 0, "latency"), "25h", "25h is more than a day"),
        (("batch", "global"), True, "batch.global: .*valid integer"),
        (("overlap", "data"), True, "overlap.data: write a number, not true or false"),
        (("network", "tiers", 0, "port"), "1G", "not below the rate"),
        (("network", "tiers", 0, "latency"), "soon", r"tiers\[0\].latency: 'soon' is not a dur"),
        (("network", "tiers", 0, "units"), 10**6, "devices are more than 1000000"),
        (("network", "transports", 0, "efficiency"), [0.5], "1 efficiencies for 2 tiers"),
        (("network", "transports", 0, "efficiency"), [0.5, float("nan")], "efficiency"),
        (("layout", "tensor"), 3, "tensor 3 x context 1 x pipeline 2 does not divide the 8 dev"),
        (("layout", "pipeline"), 10**9, "does not divide the 8 devices"),
        (("layout", "nesting"), ["tensor"], "must name tensor, context, data, pipeline once"),
        (("overlap",), {"data": 2}, "overlap.data"),
    ],
)
def test_a_wrong_document_is_refused_in_one_sentence(path, value, says):
    with pytest.raises(InputError, match=f"^the exploration is wrong: .*{says}"):
        exploration(changed(path, value))


scalars = (
    st.none()
    | st.booleans()
    | st.integers()
    | st.floats()
    | st.text("a1G.-", max_size=5)
    | st.sampled_from(["10G", "1ms", "9" * 400, "-1", "0", "1e9", "NaN", "tensor", 10**30])
)
values = st.recursive(
    scalars,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text("ab", max_size=4), inner),
    max_leaves=4,
)
paths = st.sampled_from(
    [
        (one, *rest)
        for one, each in PLAIN.items()
        for rest in ((), *((two,) for two in each), ("tiers", 0, "units"), ("tiers", 0, "rate"))
        if "tiers" not in rest[:1] or one == "network"
    ]
)


@given(paths, values)
def test_whatever_a_document_holds_it_is_read_or_refused(path, value):
    refusal = None
    try:
        task, layout = exploration(changed(path, value))
    except InputError as error:
        refusal = str(error)
    if refusal is None:
        fault(task, layout)
    else:
        assert "\n" not in refusal
