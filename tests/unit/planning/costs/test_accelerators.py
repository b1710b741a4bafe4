"""The spellings of an accelerator: those that mean it, and those that mean another."""

import pytest

from geotrain.errors import InputError
from geotrain.planning.costs.accelerators import ACCELERATORS, Accelerator, known, named


@pytest.mark.parametrize("name", ACCELERATORS)
def test_every_accelerator_is_known_by_its_own_name_in_any_case(name):
    assert known(name) is known(name.lower()) is known(f" nvidia_{name} ") is ACCELERATORS[name]


@pytest.mark.parametrize(
    ("label", "name"),
    [
        ("NVIDIA-H100-80GB-HBM3", "H100"),
        ("NVIDIA-H100-PCIe", "H100-PCIe"),
        ("NVIDIA-H100-NVL", "H100-NVL"),
        ("h100", "H100"),
        ("H100-80GB", "H100"),
        ("H100 SXM5 80G", "H100"),
        ("H100-94GB", "H100-NVL"),
        ("NVIDIA-H200", "H200"),
        ("NVIDIA H200 141GB HBM3e", "H200"),
        ("NVIDIA-A100-SXM4-40GB", "A100-40"),
        ("NVIDIA-A100-SXM4-80GB", "A100"),
        ("NVIDIA-A100-PCIE-40GB", "A100-PCIe-40"),
        ("NVIDIA-A100-80GB-PCIe", "A100-PCIe"),
        ("A100-40", "A100-40"),
        ("A100-80", "A100"),
        ("Tesla-V100-SXM2-16GB", "V100"),
        ("Tesla-V100-SXM2-32GB", "V100-32"),
        ("Tesla-T4", "T4"),
        ("NVIDIA-L40S", "L40S"),
        ("NVIDIA-GH200-480GB", "GH200"),
        ("NVIDIA-GH200-144G-HBM3e", "GH200-144"),
        ("GH-96", "GH200"),
        ("NVIDIA A100 Tensor Core GPU", "A100"),
    ],
)
def test_labels_and_spellings_that_people_write(label, name):
    assert known(label) is ACCELERATORS[name]


@pytest.mark.parametrize(
    "label",
    [
        "",
        "-",
        "NVIDIA",
        "80GB",
        "H100-64GB",
        "H1000",
        "H-100",
        "B2",
        "A100X",
        "A10G",
        "MI300X",
        "H100-MIG-1g.10gb",
        "NVIDIA-A100-SXM4-40GB-MIG-1g.5gb",
        "NVIDIA-H100-80GB-HBM3-SHARED",
        "H100H100",
        "L40S-SXM-80GB",
    ],
)
def test_whatever_is_left_over_makes_it_another(label):
    assert known(label) is None
    with pytest.raises(InputError, match=r"^dc a: accelerator .* is not known; known: A10, A100, "):
        named(label, "dc a")
    with pytest.raises(InputError, match=r"^accelerator "):
        named(label)


def test_a_known_name_is_returned():
    assert named("h200") is ACCELERATORS["H200"]


@pytest.mark.parametrize("field", ["peak", "memory", "memory_rate", "link"])
def test_an_accelerator_without_speed_is_refused(field):
    with pytest.raises(ValueError, match=f"{field} must be above 0"):
        Accelerator(**{"name": "x", "peak": 1.0, "memory": 1, "memory_rate": 1.0, field: 0})
