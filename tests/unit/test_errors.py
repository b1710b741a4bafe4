import pickle

import pytest

from geotrain.errors import InputError


@pytest.mark.parametrize(
    ("sentence", "shown"),
    [
        ("two\nlines", r"two\nlines"),
        ("\x1b[31mred", r"\x1b[31mred"),
        ("half a pair: \ud800", r"half a pair: \ud800"),
        ("größer als 10⁹ µs", "größer als 10⁹ µs"),
    ],
)
def test_what_does_not_print_is_written_out(sentence, shown):
    assert str(InputError(sentence)) == shown


def test_the_middle_of_a_long_sentence_is_left_out():
    text = str(InputError("key " + "x" * 10**6 + ": write another"))
    assert text.startswith("key xxx")
    assert " … " in text
    assert text.endswith("x: write another")
    assert len(text) < 1300


def test_a_grid_follows_and_survives_another_process():
    error = pickle.loads(pickle.dumps(InputError("the order deadlocks", "step 0\n0F0")))
    assert str(error) == "the order deadlocks\nstep 0\n0F0"
