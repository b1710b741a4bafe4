"""One context out of the files that kubectl would read."""

import base64
from pathlib import Path
from typing import Any

import pytest
import yaml

from geotrain.adapters import kubeconfigs
from geotrain.errors import CredentialsError


def config(path: Path, name: str, **cluster: Any) -> Path:
    document = {
        "contexts": [{"name": name, "context": {"cluster": f"{name}-cluster", "user": name}}],
        "clusters": [{"name": f"{name}-cluster", "cluster": {"server": "https://x", **cluster}}],
        "users": [{"name": name, "user": {"token": f"{name}-token"}}],
    }
    path.write_text(yaml.safe_dump(document))
    return path


def test_kubeconfig_may_list_files(tmp_path: Path) -> None:
    assert kubeconfigs.files({"KUBECONFIG": "/a:/b:"}) == [Path("/a"), Path("/b")]
    assert kubeconfigs.files({}) == [Path("~/.kube/config").expanduser()]


def test_a_context_comes_alone_and_whole(tmp_path: Path) -> None:
    paths = [config(tmp_path / "a", "hub"), config(tmp_path / "b", "west"), tmp_path / "absent"]
    document = kubeconfigs.context(paths, "west")
    assert document["current-context"] == "west"
    assert [c["name"] for c in document["clusters"]] == ["west-cluster"]
    assert document["users"] == [{"name": "west", "user": {"token": "west-token"}}]


def test_the_first_file_that_defines_a_name_wins(tmp_path: Path) -> None:
    paths = [config(tmp_path / "a", "hub"), config(tmp_path / "b", "hub", server="https://y")]
    assert kubeconfigs.context(paths, "hub")["clusters"][0]["cluster"]["server"] == "https://x"


def test_paths_are_made_absolute(tmp_path: Path) -> None:
    path = config(tmp_path / "a", "hub", **{"certificate-authority": "ca.crt"})
    cluster = kubeconfigs.context([path], "hub")["clusters"][0]["cluster"]
    assert cluster["certificate-authority"] == str(tmp_path / "ca.crt")


def test_an_unknown_context_names_the_known_ones(tmp_path: Path) -> None:
    paths = [config(tmp_path / "a", "hub"), config(tmp_path / "b", "east")]
    with pytest.raises(CredentialsError, match="no context 'west' in your kubeconfig; known: east"):
        kubeconfigs.context(paths, "west")
    with pytest.raises(CredentialsError, match="known: none"):
        kubeconfigs.context([], "west")


def test_a_context_without_its_cluster_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "a"
    path.write_text(yaml.safe_dump({"contexts": [{"name": "hub", "context": {"cluster": "c"}}]}))
    with pytest.raises(CredentialsError, match="names the cluster 'c', which is missing"):
        kubeconfigs.context([path], "hub")


def test_credentials_log_in_by_the_context(tmp_path: Path) -> None:
    path = config(tmp_path / "a", "hub", server="http://127.0.0.1:1")
    held = kubeconfigs.credentials(kubeconfigs.context([path], "hub"))
    assert (held.host, held.authorization) == ("http://127.0.0.1:1", "Bearer hub-token")


def test_the_authority_is_given_as_data(tmp_path: Path) -> None:
    authority = tmp_path / "ca.crt"
    authority.write_text("CA")
    encoded = base64.b64encode(b"CA").decode()
    assert kubeconfigs.authority({"certificate-authority-data": encoded}) == encoded
    assert kubeconfigs.authority({"certificate-authority": str(authority)}) == encoded
    assert kubeconfigs.authority({}) == ""
    with pytest.raises(CredentialsError, match="cannot be read"):
        kubeconfigs.authority({"certificate-authority": str(tmp_path / "absent")})


def test_the_current_context_is_that_of_the_first_file_that_has_one(tmp_path: Path) -> None:
    paths = [config(tmp_path / "a", "hub"), tmp_path / "absent", config(tmp_path / "b", "west")]
    with pytest.raises(CredentialsError, match="no current context; give --hub-context"):
        kubeconfigs.current(paths)
    with paths[2].open("a") as file:
        file.write("current-context: west\n")
    assert kubeconfigs.current(paths) == "west"
