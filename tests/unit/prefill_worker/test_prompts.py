import threading

import pytest

from examples.prefill.prompts import Full, Prompt, Prompts, Refused


def prompt(name="a"):
    return Prompt(name, None, 10, remaining=1.0)


def wanted():
    return True


@pytest.fixture
def prompts():
    return Prompts(most=2)


def queue(prompts):
    return [entry["id"] for entry in prompts.state()["queue"]]


def test_first_come_first_served(prompts):
    first, second = prompt("a"), prompt("b")
    prompts.put(first)
    prompts.put(second)
    assert prompts.head(0) is first
    prompts.finish(first, {"id": "a"})
    assert prompts.head(0) is second
    assert first.wait(wanted) == {"id": "a"}
    assert prompts.state()["served"] == 1


def test_without_prompts_there_is_no_head(prompts):
    assert prompts.head(0.001) is None


def test_a_full_queue_takes_no_more(prompts):
    prompts.put(prompt("a"))
    prompts.put(prompt("b"))
    with pytest.raises(Full):
        prompts.put(prompt("c"))
    assert queue(prompts) == ["a", "b"]


def test_work_done_is_counted(prompts):
    head = prompt()
    prompts.put(head)
    prompts.worked(head, 0.3, 0.25)
    state = prompts.state()
    assert state["queue"] == [{"id": "a", "remaining": 0.75}]
    assert state["computedSeconds"] == 0.3
    prompts.worked(head, 1.0, 1.0)
    assert prompts.state()["queue"] == [{"id": "a", "remaining": 0.0}]


def test_a_prompt_that_nobody_wants_is_dropped(prompts):
    first, second = prompt("a"), prompt("b")
    prompts.put(first)
    prompts.put(second)
    with pytest.raises(Refused):
        first.wait(lambda: False, look_again=0)
    assert queue(prompts) == ["b"]
    assert prompts.head(0) is second


def test_a_head_that_failed_is_refused(prompts):
    head = prompt()
    prompts.put(head)
    prompts.finish(head, None)
    with pytest.raises(Refused):
        head.wait(wanted)
    assert prompts.state()["served"] == 0


def test_leaving_lets_the_head_end_and_refuses_the_others(prompts):
    first, second = prompt("a"), prompt("b")
    prompts.put(first)
    prompts.put(second)
    leave = threading.Thread(target=prompts.leave, args=(10.0,))
    leave.start()
    with pytest.raises(Refused):
        second.wait(wanted)
    with pytest.raises(Refused, match="leaving"):
        prompts.put(prompt("c"))
    assert not first.is_cancelled
    prompts.finish(first, {"id": "a"})
    leave.join()
    assert first.wait(wanted) == {"id": "a"}


def test_leaving_ends_when_its_grace_is_over(prompts):
    head = prompt()
    prompts.put(head)
    prompts.leave(0.01)
    with pytest.raises(Refused):
        head.wait(wanted)
