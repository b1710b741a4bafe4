"""Splitting changes nothing: the loss curve is that of one process."""

import pytest

from geotrain.planning.schedule import actions, lowering, orders


def split_backward(order):
    """The same order with every backward in halves: the weight gradient follows at once."""
    return "\n".join(
        ",".join(
            f"{a.stage}I{a.micro_batch},{a.stage}W{a.micro_batch}" if a.kind == "B" else str(a)
            for a in row
        )
        for row in order
    )


SCHEDULES = {
    "1F1B": lambda p, m: actions.write_order(orders.one_f_one_b(p, m)),
    "GPipe": lambda p, m: actions.write_order(orders.gpipe(p, m)),
    "with sends and receives": lambda p, m: actions.write_order(
        lowering.lower(orders.one_f_one_b(p, m))
    ),
    "backward in halves": lambda p, m: split_backward(orders.one_f_one_b(p, m)),
}


@pytest.mark.parametrize(
    ("stages", "replicas", "schedule", "options"),
    [
        (3, 2, "1F1B", ()),
        (6, 2, "1F1B", ()),
        (4, 2, "GPipe", ("--recompute", "none")),
        (4, 1, "with sends and receives", ("--layers", "6")),
        (3, 2, "backward in halves", ("--recompute", "none")),
        (3, 2, "1F1B", ("--recompute", "early")),
        (3, 1, "backward in halves", ("--recompute", "early")),
        (3, 1, "backward in halves", ("--receives-ahead", "1")),
    ],
)
def test_the_loss_curve_is_that_of_one_process(
    make_ranks, tmp_path, stages, replicas, schedule, options
):
    path = tmp_path / "schedule.csv"
    path.write_text(SCHEDULES[schedule](stages, 4))
    ranks = make_ranks(stages, replicas, 4)
    model = options if "--layers" in options else ()
    ranks.start(*options, GEOTRAIN_SCHEDULE=str(path))
    expected = ranks.alone(*model)
    codes = ranks.wait()
    assert codes == [0] * (stages * replicas), [ranks.errors(n) for n in range(len(codes))]
    assert len(expected) == 20
    assert expected[-1] < expected[0] - 0.5, "the model must learn, or any curve would do"
    for rank in range((stages - 1) * replicas, stages * replicas):
        losses = [line["loss"] for line in ranks.lines(rank)]
        assert losses == pytest.approx(expected, abs=1e-4)


def test_messages_of_the_profiles_size_change_nothing(make_ranks, tmp_path):
    profile = tmp_path / "profile.json"
    profile.write_text(
        '{"layers": [{"count": 3, "forward": "1ms", "inputGradient": "1ms",'
        ' "weightGradient": "1ms"}], "boundaryBytes": "335544"}'
    )
    ranks = make_ranks(3, 1, 4)
    ranks.start("--profile", str(profile))
    expected = ranks.alone()
    assert ranks.wait() == [0, 0, 0], ranks.errors(0)
    assert [line["loss"] for line in ranks.lines(2)] == pytest.approx(expected, abs=1e-4)
