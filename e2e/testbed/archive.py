"""Image archives with only the layers that a node lacks.

``docker save`` writes every layer of an image, and a node reads and hashes all that it is given:
most of a gigabyte for a changed line of the trainer. An archive in OCI layout may leave out the
blobs that the node's containerd holds already.
"""

import hashlib
import io
import json
import tarfile
from collections.abc import Collection
from pathlib import Path
from typing import Any

MANIFEST_TYPE = "application/vnd.oci.image.manifest.v1+json"
CONFIG_TYPE = "application/vnd.oci.image.config.v1+json"
LAYER_TYPE = "application/vnd.oci.image.layer.v1.tar"
LIBRARY = "docker.io/library/"  # what a name without a registry means to containerd


def repack(saved: Path, target: Path, present: Collection[str]) -> None:
    """Turns an archive of ``docker save`` into an OCI one without the layers in ``present``.

    ``present`` holds digests (``sha256:…``) of uncompressed layers.
    """
    with tarfile.open(saved) as source, tarfile.open(target, "w") as out:
        images = json.loads(_read(source, "manifest.json"))
        written: set[str] = set()
        index = []
        for image in images:
            config = _read(source, image["Config"])
            digests = json.loads(config)["rootfs"]["diff_ids"]
            layers = []
            for digest, name in zip(digests, image["Layers"], strict=True):
                member = _file(source, name)
                layers.append({"mediaType": LAYER_TYPE, "digest": digest, "size": member.size})
                if digest not in present and digest not in written:
                    written.add(digest)
                    _copy(source, member, out, _blob(digest))
            index += _describe(out, image["RepoTags"], config, layers)
        _add(out, "index.json", _encode({"schemaVersion": 2, "manifests": index}))
        _add(out, "oci-layout", _encode({"imageLayoutVersion": "1.0.0"}))


def reference(tag: str) -> str:
    """An image's name as containerd writes it, with the registry that docker leaves out."""
    registry, slash, _ = tag.partition("/")
    named = bool(slash) and ("." in registry or ":" in registry or registry == "localhost")
    return tag if named else f"{LIBRARY}{tag}"


def _describe(
    out: tarfile.TarFile, tags: list[str], config: bytes, layers: list[dict[str, Any]]
) -> list[dict[str, Any]]:
    """Adds an image's configuration and manifest; its entries of the index, one a tag."""
    manifest = _encode(
        {
            "schemaVersion": 2,
            "mediaType": MANIFEST_TYPE,
            "config": _descriptor(CONFIG_TYPE, config),
            "layers": layers,
        }
    )
    for content in (config, manifest):
        _add(out, _blob(_digest(content)), content)
    return [
        _descriptor(MANIFEST_TYPE, manifest)
        | {"annotations": {"io.containerd.image.name": reference(tag)}}
        for tag in tags
    ]


def _descriptor(kind: str, content: bytes) -> dict[str, Any]:
    return {"mediaType": kind, "digest": _digest(content), "size": len(content)}


def _digest(content: bytes) -> str:
    return f"sha256:{hashlib.sha256(content).hexdigest()}"


def _blob(digest: str) -> str:
    return f"blobs/{digest.replace(':', '/')}"


def _encode(document: dict[str, Any]) -> bytes:
    return json.dumps(document, sort_keys=True).encode()


def _file(source: tarfile.TarFile, name: str) -> tarfile.TarInfo:
    """A regular member; docker writes a repeated layer as a link to the first."""
    member = source.getmember(name)
    if member.issym():
        folder, _, _ = name.rpartition("/")
        return _file(source, _join(folder, member.linkname))
    return member


def _join(folder: str, link: str) -> str:
    parts = [*folder.split("/"), *link.split("/")]
    out: list[str] = []
    for part in parts:
        if part == "..":
            out.pop()
        elif part not in ("", "."):
            out.append(part)
    return "/".join(out)


def _read(source: tarfile.TarFile, name: str) -> bytes:
    file = source.extractfile(_file(source, name))
    if file is None:
        raise ValueError(f"{name} is no file")
    return file.read()


def _copy(
    source: tarfile.TarFile, member: tarfile.TarInfo, out: tarfile.TarFile, name: str
) -> None:
    header = tarfile.TarInfo(name)
    header.size = member.size
    out.addfile(header, source.extractfile(member))


def _add(out: tarfile.TarFile, name: str, content: bytes) -> None:
    header = tarfile.TarInfo(name)
    header.size = len(content)
    out.addfile(header, io.BytesIO(content))
