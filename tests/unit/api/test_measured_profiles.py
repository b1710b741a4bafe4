"""One profile for all data centres, or one for each accelerator and tensor degree."""

from copy import deepcopy

import pytest

from geotrain.api import convert, measured_profiles
from geotrain.api.v1alpha1 import DataCenter, GeoTrainingJob
from geotrain.errors import InputError
from support import manifests
from support.manifests import with_field

_LAYER = {"count": 24, "forward": "4ms", "inputGradient": "4ms", "weightGradient": "4ms"}
SLOW = {"layers": [_LAYER], "boundaryBytes": "1Mi"}
FAST = deepcopy(SLOW)
FAST["layers"][0]["forward"] = "1ms"


def centers(**kinds):
    return [
        DataCenter.from_manifest(manifests.data_center(name, accelerator=kind))
        for name, kind in kinds.items()
    ]


def job(tensor=1, **spec):
    parallelism = {"data": 2, "pipeline": 6, "tensor": tensor}
    return GeoTrainingJob.from_manifest(manifests.training_job(parallelism=parallelism, **spec))


def entry(profile, **keys):
    return {"profile": profile, **keys}


def test_one_profile_serves_all():
    found = measured_profiles.costs(SLOW, job(), centers(a="H100", b="A100"))
    assert found.profile == convert.profile(SLOW)
    assert found.profiles == ()
    assert found.error is None


def test_each_accelerator_has_its_own_whatever_its_spelling():
    content = {"profiles": [entry(SLOW, accelerator="A100"), entry(FAST, accelerator="h100-80gb")]}
    found = measured_profiles.costs(content, job(), centers(a="NVIDIA-H100-80GB-HBM3", b="a100"))
    work = convert.workload(job(), found)
    one, other = convert.topology(centers(a="NVIDIA-H100-80GB-HBM3", b="a100"), []).data_centers
    assert work.profile_in(one) == convert.profile(FAST)
    assert work.profile_in(other) == convert.profile(SLOW)


def test_an_accelerator_that_nobody_knows_is_named_as_it_is_written():
    content = {"profiles": [entry(FAST, accelerator="X9"), entry(SLOW)]}
    found = measured_profiles.costs(content, job(), centers(a="X9", b="A100"))
    assert dict(found.profiles) == {"X9": convert.profile(FAST), "A100": convert.profile(SLOW)}


def test_the_jobs_tensor_degree_and_micro_batch_choose():
    content = {
        "profiles": [
            entry(SLOW, tensor=1),
            entry(FAST, tensor=8, microBatch=1),
            entry(SLOW, tensor=8, microBatch=2),
        ]
    }
    found = measured_profiles.costs(content, job(8), centers(a="A100"))
    assert found.profile == convert.profile(FAST)
    with pytest.raises(InputError, match="tensor degree 4 and micro-batch 1; there are any acc"):
        measured_profiles.costs(content, job(4), centers(a="A100"))


def test_an_accelerator_that_was_not_measured_is_refused():
    content = {"profiles": [entry(SLOW, accelerator="A100")]}
    with pytest.raises(InputError, match="no profile was measured on H100; there are A100, tensor"):
        measured_profiles.costs(content, job(), centers(a="H100", b="A100"))
    only = job(placement={"dataCenters": ["b"]})
    assert measured_profiles.costs(content, only, centers(a="H100", b="A100")).profiles == ()


@pytest.mark.parametrize(
    ("content", "says"),
    [
        ({"profiles": []}, "the profiles are wrong: profiles"),
        ({"profiles": [{"accelerator": "A100"}]}, "profile: Field required"),
        ({"profiles": [entry(SLOW, tensor=0)]}, "tensor: "),
        ({"profiles": [entry({"layers": []})]}, "the profile is wrong"),
    ],
)
def test_a_wrong_set_is_refused(content, says):
    with pytest.raises(InputError, match=says):
        measured_profiles.costs(content, job(), centers(a="A100"))


def test_a_data_centre_without_a_name_takes_what_is_for_all():
    bare = with_field(manifests.data_center("a"), "spec.accelerator", ...)
    found = measured_profiles.costs(
        {"profiles": [entry(SLOW)]}, job(), [DataCenter.from_manifest(bare)]
    )
    assert found.profile == convert.profile(SLOW)
