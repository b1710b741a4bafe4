"""Repacked images: an OCI layout that leaves out the layers which a node has."""

import hashlib
import io
import json
import tarfile
from pathlib import Path
from typing import Any

import pytest

from e2e.testbed.archive import reference, repack

BASE, CODE = b"a base layer", b"a layer of code"


def digest(content: bytes) -> str:
    return f"sha256:{hashlib.sha256(content).hexdigest()}"


CONFIG = json.dumps({"rootfs": {"diff_ids": [digest(BASE), digest(CODE), digest(CODE)]}}).encode()


@pytest.fixture
def saved(tmp_path: Path) -> Path:
    """As docker writes it: the repeated layer is a link to the first."""
    manifest = [
        {
            "Config": "config.json",
            "RepoTags": ["geotrain:dev"],
            "Layers": ["1/layer.tar", "2/layer.tar", "3/layer.tar"],
        }
    ]
    path = tmp_path / "saved.tar"
    with tarfile.open(path, "w") as out:
        members = {
            "1/layer.tar": BASE,
            "2/layer.tar": CODE,
            "config.json": CONFIG,
            "manifest.json": json.dumps(manifest).encode(),
        }
        for name, content in members.items():
            header = tarfile.TarInfo(name)
            header.size = len(content)
            out.addfile(header, io.BytesIO(content))
        link = tarfile.TarInfo("3/layer.tar")
        link.type, link.linkname = tarfile.SYMTYPE, "../2/layer.tar"
        out.addfile(link)
    return path


def contents(path: Path) -> dict[str, bytes]:
    with tarfile.open(path) as tar:
        files = {name: tar.extractfile(name) for name in tar.getnames()}
        return {name: file.read() for name, file in files.items() if file}


def blob(files: dict[str, bytes], wanted: str) -> bytes:
    return files[f"blobs/{wanted.replace(':', '/')}"]


def manifest_of(files: dict[str, bytes]) -> dict[str, Any]:
    (entry,) = json.loads(files["index.json"])["manifests"]
    assert entry["annotations"]["io.containerd.image.name"] == "docker.io/library/geotrain:dev"
    manifest: dict[str, Any] = json.loads(blob(files, entry["digest"]))
    return manifest


def test_every_blob_is_under_its_digest(saved: Path, tmp_path: Path) -> None:
    repack(saved, tmp_path / "out.tar", present=set())
    files = contents(tmp_path / "out.tar")
    blobs = {name: content for name, content in files.items() if name.startswith("blobs/")}
    assert blobs == {f"blobs/{digest(c).replace(':', '/')}": c for c in blobs.values()}
    manifest = manifest_of(files)
    assert blob(files, manifest["config"]["digest"]) == CONFIG
    assert [blob(files, layer["digest"]) for layer in manifest["layers"]] == [BASE, CODE, CODE]


def test_present_layers_are_named_but_left_out(saved: Path, tmp_path: Path) -> None:
    repack(saved, tmp_path / "out.tar", present={digest(BASE)})
    files = contents(tmp_path / "out.tar")
    assert BASE not in files.values()
    assert manifest_of(files)["layers"][0] == {
        "mediaType": "application/vnd.oci.image.layer.v1.tar",
        "digest": digest(BASE),
        "size": len(BASE),
    }


@pytest.mark.parametrize(
    ("tag", "full"),
    [
        ("geotrain:dev", "docker.io/library/geotrain:dev"),
        ("registry.example.com/team/geotrain:1", "registry.example.com/team/geotrain:1"),
        ("localhost/geotrain:1", "localhost/geotrain:1"),
        ("host:5000/geotrain:1", "host:5000/geotrain:1"),
    ],
)
def test_an_image_keeps_the_registry_of_its_name(tag: str, full: str) -> None:
    assert reference(tag) == full
