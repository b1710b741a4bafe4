"""Which programs are built, which Go builds them, and how far that is."""

from pathlib import Path

import pytest

from e2e.testbed import images, prepare, programs
from e2e.testbed.shell import TestbedError, run

GO_MOD = """module example.org/x

go 1.26.0

require github.com/a/b/v2 v2.4.2

require (
	k8s.io/kubernetes v1.37.2
	sigs.k8s.io/kind v0.33.0 // indirect
	k8s.io/utils v0.0.0-20260626114624-be93311217bd // indirect
)

replace (
	k8s.io/api => k8s.io/api v0.37.2
)
"""


def test_versions_are_those_that_go_mod_requires() -> None:
    assert programs.versions(GO_MOD) == {
        "github.com/a/b/v2": "v2.4.2",
        "k8s.io/kubernetes": "v1.37.2",
        "sigs.k8s.io/kind": "v0.33.0",
        "k8s.io/utils": "v0.0.0-20260626114624-be93311217bd",
    }


def test_every_program_has_a_version_and_every_need_of_the_bed_is_built() -> None:
    wanted = programs.wanted_versions()
    assert all(program.module in wanted for program in programs.PROGRAMS.values())
    assert set(images.NODE_PROGRAMS) | set(programs.ON_HOST) == set(programs.BED)
    assert not set(programs.PULLED) & set(programs.ON_HOST)
    assert set(programs.TESTS) - set(programs.BED) == {"kwok"}


def test_the_programs_that_share_packages_are_of_one_module() -> None:
    assert {p.folder for p in programs.PROGRAMS.values() if p.name != "kwok"} == {"bed"}


def place(folder: Path, name: str, stamp: str) -> None:
    (folder / ".versions").mkdir(exist_ok=True)
    (folder / name).touch(mode=0o755)
    (folder / ".versions" / name).write_text(f"{stamp}\n")


def test_a_program_at_the_wanted_version_is_left_alone(tmp_path: Path) -> None:
    version = programs.version_of("kubelet")
    place(tmp_path, "kubelet", f"{version} r1")
    place(tmp_path, "kubectl", "v1.0.0 r1")
    place(tmp_path, "kubeadm", f"{version} r0")
    names = ["kubelet", "kubectl", "kubeadm", "kind"]
    found = programs.missing(names, tmp_path)
    assert [program.name for program in found] == ["kubectl", "kubeadm", "kind"]


def test_a_stamp_without_its_program_counts_for_nothing(tmp_path: Path) -> None:
    place(tmp_path, "kind", f"{programs.version_of('kind')} r1")
    (tmp_path / "kind").unlink()
    assert programs.missing(["kind"], tmp_path)


@pytest.mark.parametrize(
    ("said", "version"),
    [
        ("go version go1.19.8 linux/amd64", (1, 19)),
        ("go version go1.26.8 linux/amd64", (1, 26)),
        ("go version go1.27rc1 linux/arm64", (1, 27)),
        ("go version devel +abc", (0, 0)),
    ],
)
def test_the_version_of_go_is_read(said: str, version: tuple[int, int]) -> None:
    assert programs.parse_go(said) == version


def test_kubernetes_says_its_own_version() -> None:
    flags = programs.link_flags("v1.37.2")
    assert "gitVersion=v1.37.2" in flags
    assert "gitMinor=37" in flags


def test_progress_goes_by_the_source_that_was_compiled() -> None:
    progress = programs.Progress({"a": 100, "b": 300})
    assert not progress.take("# a")  # what the compiler complains about
    assert progress.take("a")
    assert progress.share == pytest.approx(0.25)
    assert progress.line(60.0) == "  Kubernetes 22% compiled, about 3 min left"
    assert progress.take("b")
    assert progress.line(240.0) == "  Kubernetes 90% compiled, about 1 min left"


def test_before_anything_is_compiled_the_usual_time_is_told() -> None:
    expected = round(programs.COLD_SECONDS / 60)
    assert f"about {expected} min left" in programs.Progress({"a": 1}).line(1.0)


def test_what_is_done_together_ends_with_the_first_error() -> None:
    def fails() -> None:
        raise TestbedError("no disk")

    with pytest.raises(TestbedError, match="no disk"):
        prepare.together([lambda: run("sleep", "60"), fails])


def test_the_parts_that_are_missing_make_the_estimate() -> None:
    assert prepare.expected(["clusters"]) == "60 s"
    assert prepare.expected(["programs", "images"]) == "14 min"
    assert prepare.expected([]) == "0 s"
