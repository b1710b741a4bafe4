"""What is written where an object is not as it is wanted."""

import pytest

from geotrain.roles.controller.differences import difference

SEEN = {
    "apiVersion": "v1",
    "kind": "ConfigMap",
    "metadata": {
        "name": "one",
        "uid": "u",
        "labels": {"geotrain.io/job": "gpt", "team": "blue"},
        "annotations": {"geotrain.io/baseline": "7", "note": "kept"},
        "finalizers": ["foregroundDeletion"],
    },
    "data": {"a": "1", "b": "2"},
    "spec": {"ports": [{"port": 1, "targetPort": 1}], "clusterIP": "None", "sessions": "None"},
}


def wanted(**parts):
    meta = {
        "name": "one",
        "labels": {"geotrain.io/job": "gpt"},
        "annotations": {"geotrain.io/baseline": "7"},
    }
    return {
        "apiVersion": "v1",
        "kind": "ConfigMap",
        "metadata": meta | parts.pop("meta", {}),
    } | parts


@pytest.mark.parametrize(
    ("asked", "patch"),
    [
        (wanted(), None),
        (wanted(data={"a": "1", "b": "2"}), None),
        (wanted(data={"a": "3", "b": "2"}), {"data": {"a": "3"}}),
        (wanted(data={"a": "1"}), {"data": {"b": None}}),
        (wanted(data={"c": "1"}), {"data": {"a": None, "b": None, "c": "1"}}),
        (wanted(spec={"ports": [{"port": 1}]}), None),  # what the server filled in stays
        (wanted(spec={"ports": [{"port": 2}]}), {"spec": {"ports": [{"port": 2}]}}),
        (wanted(spec={"ports": []}), {"spec": {"ports": []}}),
        (wanted(spec={"clusterIP": {"no": "text"}}), {"spec": {"clusterIP": {"no": "text"}}}),
        (wanted(immutable=False), {"immutable": False}),
        (wanted(meta={"finalizers": ["geotrain.io/cleanup"]}), None),
        (
            wanted(meta={"labels": {"geotrain.io/job": "other"}}),
            {"metadata": {"labels": {"geotrain.io/job": "other"}}},
        ),
        (
            wanted(meta={"labels": {"geotrain.io/rank": "1"}}),
            {"metadata": {"labels": {"geotrain.io/job": None, "geotrain.io/rank": "1"}}},
        ),
        (
            wanted(meta={"annotations": {}}),
            {"metadata": {"annotations": {"geotrain.io/baseline": None}}},
        ),
    ],
)
def test_only_what_differs_is_written_and_what_only_we_say_is_taken_back(asked, patch):
    assert difference(SEEN, asked) == patch


def test_an_object_without_labels_gets_them():
    bare = {"metadata": {"name": "one"}}
    assert difference(bare, {"metadata": {"name": "one", "labels": {"a": "b"}}}) == {
        "metadata": {"labels": {"a": "b"}}
    }
