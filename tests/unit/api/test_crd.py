"""The CRDs are what the models say, everywhere they lie."""

import ast
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import Any

import pytest

from geotrain.api import crd
from geotrain.api.v1alpha1 import KINDS, Resource

ROOT = Path(__file__).parents[3]


@pytest.fixture
def made_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """For tests of what happens with the texts: making them takes most of a second."""
    monkeypatch.setattr(crd, "generated", cache(crd.generated))


def test_the_generated_files_agree_with_their_sources() -> None:
    assert crd.drift(ROOT) == []


@pytest.mark.usefixtures("made_once")
def test_writing_makes_the_files_and_removes_what_has_no_source(tmp_path: Path) -> None:
    stranger = tmp_path / "crds" / "geotrain.io_strangers.yaml"
    stranger.parent.mkdir()
    stranger.write_text("")
    assert crd.main([str(tmp_path)]) == 0
    assert crd.main(["--check", str(tmp_path)]) == 0
    assert not stranger.exists()
    assert len(list(stranger.parent.iterdir())) == len(KINDS)


@pytest.mark.usefixtures("made_once")
def test_check_names_every_difference_and_fails(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    crd.write(tmp_path)
    (tmp_path / "crds/geotrain.io_wanlinks.yaml").unlink()
    (tmp_path / "charts/geotrain/files/scheduler-config.yaml").write_text("changed")
    (tmp_path / "docs/reference/strangers.md").write_text("")
    assert crd.main(["--check", str(tmp_path)]) == 1
    assert capsys.readouterr().err.splitlines() == [
        "crds/geotrain.io_wanlinks.yaml is missing; run make crds",
        "charts/geotrain/files/scheduler-config.yaml differs from its source; run make crds",
        "docs/reference/strangers.md has no source; run make crds",
    ]


def test_two_writings_are_equal_byte_for_byte() -> None:
    assert crd.generated() == crd.generated()


@pytest.mark.parametrize("kind", KINDS, ids=lambda k: k.__name__)
def test_a_definition_is_whole(kind: type[Resource]) -> None:
    spec = crd.definition(kind)["spec"]
    version = spec["versions"][0]
    assert spec["names"]["shortNames"] == [kind.SHORT]
    assert version["subresources"] == {"status": {}}
    assert version["additionalPrinterColumns"][-1]["name"] == "Age"


@pytest.mark.parametrize("kind", KINDS, ids=lambda k: k.__name__)
def test_conditions_are_a_map_by_type(kind: type[Resource]) -> None:
    conditions = crd.root_schema(kind)["properties"]["status"]["properties"]["conditions"]
    assert conditions["x-kubernetes-list-type"] == "map"
    assert conditions["x-kubernetes-list-map-keys"] == ["type"]


@pytest.mark.parametrize("kind", KINDS, ids=lambda k: k.__name__)
def test_every_field_says_what_it_is_for(kind: type[Resource]) -> None:
    for path, schema in _fields("", crd.root_schema(kind)):
        if not path.startswith("metadata"):
            assert len(schema.get("description", "")) > 3, f"{path} has no description"


@pytest.mark.parametrize("kind", KINDS, ids=lambda k: k.__name__)
def test_a_column_shows_a_field_that_exists(kind: type[Resource]) -> None:
    known = {path for path, _ in _fields("", crd.root_schema(kind))}
    for column in kind.COLUMNS:
        path = column.path.partition("[")[0].removeprefix(".")
        assert path in known | {"metadata.creationTimestamp"}, column


def test_every_model_module_is_a_kind_or_shared() -> None:
    folder = ROOT / "operator/geotrain/api/v1alpha1"
    kinds = {
        node.name
        for path in folder.glob("*.py")
        for node in ast.walk(ast.parse(path.read_text()))
        if isinstance(node, ast.ClassDef)
        and any(isinstance(b, ast.Name) and b.id == "Resource" for b in node.bases)
    }
    assert kinds == {k.__name__ for k in KINDS}


def _fields(path: str, schema: dict[str, Any]) -> Iterator[tuple[str, dict[str, Any]]]:
    inner = schema.get("items", schema)
    for name, child in inner.get("properties", {}).items():
        below = f"{path}.{name}".removeprefix(".")
        yield below, child
        yield from _fields(below, child)
