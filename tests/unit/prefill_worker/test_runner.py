import pytest

from examples.prefill.kernels import LayerTimes
from examples.prefill.prompts import Prompt, Prompts, Refused
from examples.prefill.runner import NoModel, Runner, Turnstile
from geotrain.gate import GateState, State
from geotrain.prefill.profile import LayerTime, PrefillProfile

TIMES = LayerTimes(layers=3, points=((1000, 0.004),))


class Device:
    """Notes the kernels."""

    def __init__(self):
        self.kernels = []
        self.after = None

    def start(self, label, seconds):
        self.kernels.append((label, seconds))

    def finish(self):
        if self.after:
            self.after()


class Model:
    """Notes what is really computed."""

    layers = 2

    def __init__(self):
        self.calls = []

    def enter(self, tokens):
        self.calls.append(("enter", len(tokens)))

    def layer(self, number):
        self.calls.append(("layer", number))

    def token(self):
        self.calls.append(("token",))
        return 7


class FakeGate:
    """A gate whose page is set by hand; waiting does not wait."""

    def __init__(self, left=0.0):
        self.left = left
        self.waited = []

    def open_for(self, seconds, guard):
        return seconds + guard <= self.left

    def wait(self, seconds, guard, timeout):
        self.waited.append((seconds, guard, timeout))
        return self.open_for(seconds, guard)


def make(model=None, window=None, gate=None):
    prompts, device = Prompts(8), Device()
    runner = Runner(TIMES, prompts, Turnstile(gate, 0.002, 0.0), device, model or Model(), window)
    return runner, prompts, device


def submit(prompts, tokens=None, count=0):
    prompt = Prompt("a", tokens, count or len(tokens), remaining=1.0)
    prompts.put(prompt)
    return prompt


def test_every_layer_of_every_chunk_is_a_kernel():
    runner, prompts, device = make()
    prompt = submit(prompts, count=2000)
    runner.step()
    answer = prompt.wait(lambda: True)
    assert [label for label, _ in device.kernels] == [
        f"{b}L{n}" for b in (0, 1000) for n in (0, 1, 2)
    ]
    assert sum(seconds for _, seconds in device.kernels) == pytest.approx(
        PrefillProfile(3, (LayerTime(1000, 0.004),)).prefill_time(2000)
    )
    assert answer["layers"] == 3
    assert answer["token"] == 7
    assert answer["kv"]["bytes"] == 2000 * 3 * 4096
    assert answer["queued"] >= 0
    assert answer["computed"] >= 0


def test_the_model_runs_the_layers_that_it_has():
    model = Model()
    runner, prompts, _ = make(model)
    submit(prompts, tokens=list(range(2000)))
    runner.step()
    assert model.calls == [
        ("enter", 1000), ("layer", 0), ("layer", 1),
        ("enter", 1000), ("layer", 0), ("layer", 1),
        ("token",),
    ]  # fmt: skip


def test_a_window_computes_only_the_end_of_a_prompt():
    model = Model()
    runner, prompts, _ = make(model, window=64)
    submit(prompts, tokens=list(range(1200)))
    runner.step()
    assert model.calls == [("enter", 64), ("layer", 0), ("layer", 1), ("token",)]


def test_equal_prompts_have_equal_handles_and_tokens():
    answers = []
    for tokens in ([1, 2, 3], [1, 2, 3], [1, 2, 4]):
        runner, prompts, _ = make(NoModel())
        prompt = submit(prompts, tokens=tokens)
        runner.step()
        answers.append(prompt.wait(lambda: True))
    assert answers[0]["kv"] == answers[1]["kv"] != answers[2]["kv"]
    assert answers[0]["token"] == answers[1]["token"] != answers[2]["token"]


def test_a_cancelled_prompt_stops_between_two_kernels():
    model = Model()
    runner, prompts, device = make(model)
    prompt = submit(prompts, count=2000)
    device.after = prompt.cancel
    runner.step()
    assert len(device.kernels) == 1
    assert model.calls[-1] == ("token",), "the model forgets the prompt"
    assert prompts.state()["served"] == 0
    with pytest.raises(Refused):
        prompt.wait(lambda: True)


def test_a_fault_refuses_the_prompt_and_comes_through():
    runner, prompts, device = make()
    prompt = submit(prompts, count=10)

    def fail():
        raise OSError("the device is gone")

    device.after = fail
    with pytest.raises(OSError, match="gone"):
        runner.step()
    with pytest.raises(Refused):
        prompt.wait(lambda: True)


def test_a_prompt_waits_for_the_gate_and_can_be_given_up_there():
    gate = FakeGate(left=0.0)
    runner, prompts, device = make(gate=gate)
    prompt = submit(prompts, count=1000)
    real_wait = gate.wait

    def wait(*arguments):
        if len(gate.waited) == 2:
            prompt.cancel()
        return real_wait(*arguments)

    gate.wait = wait
    runner.step()
    assert device.kernels == []
    assert gate.waited[0] == (0.004, 0.002, 0.25)


def test_a_prompt_given_up_while_the_gate_opens_does_not_run():
    gate = FakeGate(left=1.0)
    runner, prompts, device = make(gate=gate)
    prompt = submit(prompts, count=1000)
    real_wait = gate.wait

    def wait(*arguments):
        prompt.cancel()
        return real_wait(*arguments)

    gate.wait = wait
    runner.step()
    assert device.kernels == []


def test_no_prompt_no_work():
    runner, _, device = make()
    runner.step(timeout=0)
    assert device.kernels == []


def test_a_short_bubble_is_left_alone_but_a_long_one_is_used_to_its_end():
    gate = FakeGate(left=0.008)
    turnstile = Turnstile(gate, guard=0.002, minimum=0.01)
    assert not turnstile.wait(0.004, 0.25)
    gate.left = 0.02
    assert turnstile.wait(0.004, 0.25)
    gate.left = 0.007
    assert turnstile.wait(0.004, 0.25), "within a bubble only the kernel must fit"
    gate.left = 0.005
    assert not turnstile.wait(0.004, 0.25)
    gate.left = 0.008
    assert not turnstile.wait(0.004, 0.25), "it is outside again"


def test_a_gpu_of_its_own_has_no_gate():
    assert Turnstile(None, 0.002, 1.0).wait(10.0, 0.0)


def test_the_fake_gate_follows_the_real_one():
    state = GateState(State.IDLE, idle_until=1.0)
    assert state.is_open(1.0 - 0.02, 0.004, 0.002) == FakeGate(0.02).open_for(0.004, 0.002)
    assert state.is_open(1.0 - 0.005, 0.004, 0.002) == FakeGate(0.005).open_for(0.004, 0.002)
