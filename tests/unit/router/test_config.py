import pytest

from geotrain.errors import InputError
from geotrain.roles.router.config import RouterSettings


def test_the_environment_is_read_with_its_units():
    settings = RouterSettings.from_environment(
        {
            "GEOTRAIN_OBJECTIVE": "1500ms",
            "GEOTRAIN_PERCENTILE": "99",
            "GEOTRAIN_QUEUE": "8",
            "GEOTRAIN_DECODE_URL": "",
            "GEOTRAIN_POOL": "somebody else's",
            "HOME": "/",
        }
    )
    assert (settings.objective, settings.percentile, settings.queue) == (1.5, 99.0, 8)
    assert settings.decode_url == ""


@pytest.mark.parametrize(
    ("given", "interval"),
    [
        ({"objective": 1.0}, 0.25),
        ({"objective": 20.0}, 0.5),
        ({"objective": 60.0}, 0.75),
        ({"objective": 60.0, "poll": 0.1}, 0.1),
    ],
)
def test_workers_are_asked_as_often_as_the_objective_needs(given, interval):
    assert RouterSettings.model_validate(given).interval == interval


def test_every_fault_is_told_with_its_variable():
    with pytest.raises(InputError) as caught:
        RouterSettings.from_environment({"GEOTRAIN_OBJECTIVE": "soon", "GEOTRAIN_PERCENTILE": "0"})
    assert "GEOTRAIN_OBJECTIVE: Value error, 'soon' is not a duration" in str(caught.value)
    assert "GEOTRAIN_PERCENTILE" in str(caught.value)
