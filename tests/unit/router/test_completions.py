import json

import pytest

from geotrain.roles.router import completions
from geotrain.roles.router.completions import (
    ApproximateTokenizer,
    BadRequest,
    Completion,
    Limits,
    parse,
)
from geotrain.roles.router.ports import Prompt, Text

LIMITS = Limits(prompt_tokens=100, prompts=2, max_tokens=50)


def read(**more):
    return parse({"model": "m", "prompt": "hello"} | more, "m", ApproximateTokenizer(), LIMITS)


@pytest.mark.parametrize(
    ("prompt", "prompts"),
    [
        ("hello", (Prompt(2),)),
        ("äöü", (Prompt(2),)),
        ([5, 6, 7], (Prompt(3, (5, 6, 7)),)),
        (["a", "b"], (Prompt(1), Prompt(1))),
        ([[1], [2, 3]], (Prompt(1, (1,)), Prompt(2, (2, 3)))),
        (["a", [1, 2]], (Prompt(1), Prompt(2, (1, 2)))),
    ],
)
def test_every_form_of_prompt_is_read(prompt, prompts):
    assert read(prompt=prompt).prompts == prompts


def test_defaults_are_openais():
    completion = read()
    assert (completion.max_tokens, completion.stream, completion.include_usage) == (
        16,
        False,
        False,
    )


def test_what_is_asked_for_is_read():
    completion = read(
        max_tokens=3, stream=True, stream_options={"include_usage": True}, top_p=0.5, seed=None, n=1
    )
    assert completion.max_tokens == 3
    assert completion.stream
    assert completion.include_usage
    assert completion.sampling == {"top_p": 0.5}


@pytest.mark.parametrize(
    ("change", "param", "words"),
    [
        ({"model": "x"}, "model", "serves 'm'"),
        ({"prompt": None}, "prompt", "give a prompt"),
        ({"prompt": []}, "prompt", "give a prompt"),
        ({"prompt": ""}, "prompt", "empty"),
        ({"prompt": ["a", "b", "c"]}, "prompt", "at most 2"),
        ({"prompt": [1, -1]}, "prompt", "list of token ids"),
        ({"prompt": [True]}, "prompt", "list of token ids"),
        ({"prompt": [[]]}, "prompt", "list of token ids"),
        ({"prompt": [1] * 101}, "prompt", "has 101 tokens; at most 100"),
        ({"max_tokens": 0}, "max_tokens", "from 1 to 50"),
        ({"max_tokens": 51}, "max_tokens", "from 1 to 50"),
        ({"max_tokens": "9"}, "max_tokens", "whole number"),
        ({"max_tokens": True}, "max_tokens", "whole number"),
        ({"stream": "yes"}, "stream", "true or false"),
        ({"stream_options": 1}, "stream_options", "an object"),
        ({"stream_options": {"include_usage": 2}}, "stream_options.include_usage", "true or false"),
        ({"n": 2}, "n", "not supported"),
        ({"echo": True}, "echo", "not supported"),
        ({"logprobs": 5}, "logprobs", "not supported"),
        ({"suffix": "x"}, "suffix", "not supported"),
        ({"best_of": 2}, "best_of", "not supported"),
    ],
)
def test_a_wrong_request_names_the_parameter(change, param, words):
    with pytest.raises(BadRequest, match=words) as caught:
        read(**change)
    assert caught.value.param == param
    assert caught.value.status == (404 if param == "model" else 400)


def test_a_body_must_be_an_object():
    with pytest.raises(BadRequest, match="JSON object"):
        parse([], "m", ApproximateTokenizer(), LIMITS)


def test_a_choice_that_may_write_more_has_stopped():
    completion = Completion((Prompt(5),), max_tokens=2)
    assert completions.finish_reason(1, completion) == "stop"
    assert completions.finish_reason(2, completion) == "length"


def test_an_answer_counts_what_was_written():
    completion = Completion((Prompt(5), Prompt(6)), max_tokens=2)
    texts = [Text("ab", (1, 2)), Text("c", (3,))]
    document = completions.answer("id", 1700, "m", completion, texts)
    assert [c["finish_reason"] for c in document["choices"]] == ["length", "stop"]
    assert document["usage"] == {"prompt_tokens": 11, "completion_tokens": 3, "total_tokens": 14}
    assert document["created"] == 1700


def test_events_are_lines_of_json():
    chunk = completions.chunk("id", 1, "m", 0, "x\ny", None)
    assert chunk.startswith(b"data: ")
    assert chunk.endswith(b"\n\n")
    assert json.loads(chunk[6:])["choices"][0]["text"] == "x\ny"
    usage = completions.usage_chunk("id", 1, "m", Completion((Prompt(5),)), [Text("a", (1,))])
    assert json.loads(usage[6:])["choices"] == []


def test_an_error_has_openais_four_fields():
    assert completions.error("no", "server_error") == {
        "error": {"message": "no", "type": "server_error", "param": None, "code": None}
    }
