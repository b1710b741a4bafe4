"""The GPUs of a pod against parallelism.tensor."""

import pytest

from geotrain.api.pod_template.gpus import gpu_fault

GPU = "example.com/gpu"


def container(name="trainer", **resources):
    amounts = {
        kind: {GPU: amount} if isinstance(amount, int | str) else amount
        for kind, amount in resources.items()
    }
    return {"name": name, "image": "example.com/image", "resources": amounts}


def fault(*containers, tensor=8, init=()):
    spec = {"containers": list(containers), "initContainers": list(init)}
    return gpu_fault({"spec": spec}, GPU, tensor)


RIGHT = "give the first container, trainer, a limit of 8 example.com/gpu"


@pytest.mark.parametrize(
    ("containers", "init", "said"),
    [
        (
            [container()],
            (),
            f"no container asks for example.com/gpu; parallelism.tensor is 8: {RIGHT}",
        ),
        (
            [container(limits={"amd.com/gpu": 8, "cpu": 1})],
            (),
            "no container asks for example.com/gpu (its containers ask for 8 amd.com/gpu);"
            f" parallelism.tensor is 8: {RIGHT}",
        ),
        (
            [container(limits=1)],
            (),
            "each pod asks for 1 example.com/gpu in container trainer; parallelism.tensor is 8:"
            f" {RIGHT}",
        ),
        (
            [container(limits=2), container("helper", limits="1")],
            (),
            "each pod asks for 2 + 1 = 3 example.com/gpu in containers trainer, helper;"
            f" parallelism.tensor is 8: {RIGHT}",
        ),
        (
            [container(limits=4), container("helper", limits=4)],
            (),
            "each pod asks for 4 + 4 = 8 example.com/gpu in containers trainer, helper; the GPUs of"
            f" a rank are one container's: {RIGHT}",
        ),
        (
            [container(limits=8)],
            [container("check", limits=8)],
            "each pod asks for 8 + 8 = 16 example.com/gpu in containers trainer, check"
            f" (initialisation); parallelism.tensor is 8: {RIGHT}",
        ),
        (
            [container(), container("helper", limits=8)],
            (),
            "each pod asks for 8 example.com/gpu in container helper; the GPUs of a rank are one",
        ),
        (
            [container(limits=8, requests=4)],
            (),
            "container trainer requests 4 example.com/gpu and is limited to 8: they must be equal",
        ),
        (
            [container(requests=8)],
            (),
            "container trainer requests 8 example.com/gpu without a limit; give the limit",
        ),
        ([container(limits="7500m")], (), "7500m is no whole number; devices are not divided"),
        ([container(limits="many")], (), "'many' is not a quantity of"),
    ],
)
def test_what_is_not_the_tensor_degree_is_refused_with_the_sum(containers, init, said):
    assert said in fault(*containers, init=init)


@pytest.mark.parametrize(
    "trainer",
    [
        container(limits=8),
        container(limits="8"),
        container(limits=8, requests="8"),
        container(limits={GPU: 8, "rdma/hca": 1}),
    ],
)
def test_the_tensor_degree_in_the_first_container_is_right(trainer):
    assert fault(trainer, container("helper", limits=0), {"name": "bare"}) == ""
