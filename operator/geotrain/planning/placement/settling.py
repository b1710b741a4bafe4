"""Which of the best plans is best where times differ."""

from geotrain.planning.placement.contenders import Contenders, Replayed
from geotrain.planning.placement.costing import Score
from geotrain.planning.placement.robust import Jitter, percentile
from geotrain.planning.placement.runner import Runner
from geotrain.planning.schedule.compiled import Engine
from geotrain.units import Seconds, format_duration

_UNDER_JITTER = "with jitter, at the 95th percentile, "


def settle(contenders: Contenders, jitter: Jitter, engine: Engine) -> str:
    """Put the contender first that is best at its 95th percentile; say what that is."""
    steady = contenders.ranked[0]
    tails = [(_tail(contenders, each, jitter, engine), each) for each in contenders.ranked]
    (least, slow), chosen = min(tails, key=lambda entry: entry[0][0])
    for (rank, _), each in tails:
        if each is not chosen:
            name, period = each.trial.name, each.period
            contenders.lose(rank, each.candidate, name, period, _UNDER_JITTER, than=least)
    contenders.ranked = [chosen]
    return _note(jitter, slow, chosen, steady)


def _tail(
    contenders: Contenders, replayed: Replayed, jitter: Jitter, engine: Engine
) -> tuple[Score, Seconds]:
    """The 95th percentile of the period, and its score."""
    candidate = replayed.candidate
    periods = [
        Runner(engine, jitter.costs(candidate.costs, number), candidate.placement.data).exact(
            replayed.trial
        )
        for number in range(jitter.replays)
    ]
    slow = percentile(periods)
    return contenders.score(candidate, slow), slow


def _note(jitter: Jitter, slow: Seconds, chosen: Replayed, steady: Replayed) -> str:
    what = (
        f"{format_duration(slow)} an iteration at the 95th percentile of {jitter.replays} replays "
        f"with {jitter.share:.0%} jitter"
    )
    if chosen is steady:
        return f"{what}, and the best without jitter too"
    where = " ".join(f"{name}:{stages}" for name, stages in steady.candidate.placement.segments)
    return (
        f"{what}; without jitter {steady.trial.name} on {where} with "
        f"{steady.candidate.placement.data} replicas is better"
    )
