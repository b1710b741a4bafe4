"""The CRDs are what the models say, everywhere they lie."""

import ast
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from geotrain.api import crd
from geotrain.api.v1alpha1 import KINDS, Resource

ROOT = Path(__file__).parents[3]


@pytest.mark.parametrize("folder", ["crds", "charts/geotrain/crds"])
def test_the_files_agree_with_the_models(folder: str) -> None:
    assert crd.drift(ROOT / folder) == []


def test_writing_makes_the_files_and_removes_strangers(tmp_path: Path) -> None:
    (tmp_path / "geotrain.io_strangers.yaml").write_text("")
    assert crd.main([str(tmp_path)]) == 0
    assert crd.drift(tmp_path) == []
    assert len(list(tmp_path.iterdir())) == len(KINDS)


def test_check_names_every_difference_and_fails(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    crd.write(tmp_path)
    (tmp_path / "geotrain.io_wanlinks.yaml").unlink()
    (tmp_path / "geotrain.io_datacenters.yaml").write_text("changed")
    (tmp_path / "geotrain.io_strangers.yaml").write_text("")
    assert crd.main(["--check", str(tmp_path)]) == 1
    said = capsys.readouterr().err
    assert "geotrain.io_strangers.yaml belongs to no kind; run make crds" in said
    assert "geotrain.io_datacenters.yaml differs from the models" in said
    assert "geotrain.io_wanlinks.yaml is missing" in said


def test_two_writings_are_equal_byte_for_byte() -> None:
    assert crd.documents() == crd.documents()


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
