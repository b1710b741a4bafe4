"""Paths of the API, as the server reads them."""

import pytest

from geotrain.api.objects import DATA_CENTERS, PODS, TRAINING_JOBS


@pytest.mark.parametrize(
    ("path", "written"),
    [
        (PODS.path(), "/api/v1/pods"),
        (PODS.path("a", "p", "status"), "/api/v1/namespaces/a/pods/p/status"),
        (TRAINING_JOBS.path("a"), "/apis/geotrain.io/v1alpha1/namespaces/a/geotrainingjobs"),
        (DATA_CENTERS.path("a", "west"), "/apis/geotrain.io/v1alpha1/datacenters/west"),
    ],
)
def test_a_path_has_the_parts_that_it_needs(path: str, written: str) -> None:
    assert path == written
