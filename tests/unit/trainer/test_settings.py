import pytest

from examples.trainer.settings import Place, SettingsError

VARIABLES = {
    "RANK": "7",
    "WORLD_SIZE": "12",
    "MASTER_ADDR": "gpt-r0.gpt.team-a.svc",
    "MASTER_PORT": "29500",
    "GEOTRAIN_PIPELINE": "6",
    "GEOTRAIN_DATA": "2",
    "GEOTRAIN_MICRO_BATCHES": "8",
    "GEOTRAIN_MICRO_BATCH": "3",
    "GEOTRAIN_ATTEMPT": "2",
    "GEOTRAIN_SCHEDULE": "/etc/geotrain/schedule.csv",
}


def test_a_rank_is_stage_times_data_plus_replica():
    place = Place.from_environment(VARIABLES)
    assert (place.stage, place.replica, place.world) == (3, 1, 12)
    assert (place.rank_of(2), place.rank_of(4)) == (5, 9)
    assert place.stage_ranks(3) == [6, 7]
    assert not place.is_first
    assert not place.is_last
    assert place.attempt == 2


def test_the_first_and_the_last_stage_know_it():
    assert Place.from_environment({**VARIABLES, "RANK": "1"}).is_first
    assert Place.from_environment({**VARIABLES, "RANK": "10"}).is_last


def test_every_sample_belongs_to_one_micro_batch():
    places = [Place.from_environment({**VARIABLES, "RANK": rank}) for rank in "01"]
    firsts = [p.first_sample(i, m) for i in range(3) for p in places for m in range(8)]
    assert firsts == list(range(0, 3 * 2 * 8 * 3, 3))


def test_without_a_plan_there_is_no_schedule():
    assert Place.from_environment({**VARIABLES, "GEOTRAIN_SCHEDULE": ""}).schedule is None


def test_a_plan_says_which_layers_a_rank_has_and_when_it_recomputes():
    alone = Place.from_environment(VARIABLES)
    assert (alone.first_layer, alone.recompute) == (None, "late")
    planned = {"GEOTRAIN_FIRST_LAYER": "9", "GEOTRAIN_LAYERS": "3", "GEOTRAIN_RECOMPUTE": "early"}
    place = Place.from_environment({**VARIABLES, **planned})
    assert (place.first_layer, place.layers, place.recompute) == (9, 3, "early")


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"GEOTRAIN_DATA": None}, "GEOTRAIN_DATA is missing; give a whole number of at least 1"),
        ({"GEOTRAIN_PIPELINE": "0"}, "GEOTRAIN_PIPELINE is '0'; give a whole number of at least 1"),
        ({"GEOTRAIN_MICRO_BATCHES": "x"}, "GEOTRAIN_MICRO_BATCHES is 'x'; give a whole number"),
        ({"RANK": "12"}, "RANK is 12, but the job has 6 x 2 ranks"),
        ({"GEOTRAIN_LAYERS": "0"}, "GEOTRAIN_LAYERS is '0'; give a whole number of at least 1"),
        ({"GEOTRAIN_RECOMPUTE": "x"}, "GEOTRAIN_RECOMPUTE is 'x'; give one of none, late, early"),
        ({"RANK": "-1"}, "RANK is '-1'; give a whole number of at least 0"),
    ],
)
def test_a_wrong_variable_is_named(change, message):
    variables = {k: v for k, v in {**VARIABLES, **change}.items() if v is not None}
    with pytest.raises(SettingsError, match="^" + message):
        Place.from_environment(variables)
