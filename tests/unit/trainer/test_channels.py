import threading

import pytest

from examples.trainer.channels import Lane, Mailroom, PeerError, Receiver, Stopped, Through


class Work:
    """An operation that ends when told."""

    def __init__(self, error=None):
        self.ended = threading.Event()
        self.error = error

    def wait(self):
        self.ended.wait()
        if self.error:
            raise self.error


@pytest.fixture
def stop():
    return threading.Event()


@pytest.fixture
def mailroom(stop):
    return Mailroom(stop.is_set)


@pytest.fixture
def lane(mailroom):
    return Lane(mailroom, "test", lambda work: work.wait())


def test_a_value_arrives_when_its_operation_ends(mailroom, lane):
    work = Work()
    lane.watch("a", work, 1)
    assert not mailroom.has("a")
    work.ended.set()
    assert mailroom.take("a").value == 1
    assert not mailroom.has("a")


def test_values_can_be_taken_in_any_order(mailroom, lane):
    lane.watch("a", Through(), 1)
    lane.watch("b", Through(), 2)
    assert mailroom.take("b").value == 2
    assert mailroom.has("a")
    assert mailroom.take("a").value == 1


def test_a_lane_is_empty_when_what_was_put_last_is_through(mailroom, lane):
    send = Work()
    lane.watch(None, send, "message")
    lane.watch("sent", Through(), None)
    assert not mailroom.has("sent")
    send.ended.set()
    mailroom.take("sent")
    assert not mailroom.has(None)


def test_a_lost_peer_is_told_to_whoever_waits(mailroom, lane):
    work = Work(RuntimeError("connection reset"))
    work.ended.set()
    lane.watch("a", work, 1)
    with pytest.raises(PeerError, match="connection reset"):
        mailroom.take("a")
    mailroom.fail(RuntimeError("a later one"))
    with pytest.raises(PeerError, match="connection reset"):
        mailroom.check()


def test_a_wait_ends_when_the_rank_is_told_to_stop(mailroom, stop):
    threading.Timer(0.05, stop.set).start()
    with pytest.raises(Stopped):
        mailroom.take("never")


def test_receives_are_posted_ahead_and_no_further_than_there_are_messages(mailroom, lane):
    posted = []

    def post():
        posted.append(len(posted))
        return Through(), posted[-1]

    receiver = Receiver(lane, iter("abc"), post, ahead=2)
    assert posted == [0, 1]
    assert mailroom.take("a").value == 0
    receiver.advance()
    assert posted == [0, 1, 2]
    receiver.advance()
    assert posted == [0, 1, 2]
    assert (mailroom.take("b").value, mailroom.take("c").value) == (1, 2)
