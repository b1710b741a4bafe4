"""OpenAI's text completions on the wire: requests read, answers and errors written.

Nothing here does I/O. What is understood: ``model``, ``prompt`` (a string, token ids, or a list
of either), ``max_tokens``, ``stream``, ``stream_options.include_usage``; sampling parameters go
to the decode service as they are. What would change the answer and cannot be done (``echo``,
``logprobs``, ``suffix``, more than one ``n``) is refused rather than ignored.
"""

import json
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final, Protocol

from geotrain.roles.router.ports import Prompt, Text

_SAMPLING: Final = (
    "temperature",
    "top_p",
    "top_k",
    "stop",
    "seed",
    "presence_penalty",
    "frequency_penalty",
    "logit_bias",
)
_UNSUPPORTED: Final[dict[str, tuple[Any, ...]]] = {
    "n": (None, 1),
    "best_of": (None, 1),
    "echo": (None, False),
    "logprobs": (None, 0, False),
    "suffix": (None, ""),
}
DONE: Final = b"data: [DONE]\n\n"


class BadRequest(Exception):
    """The request cannot be served; ``status`` and the rest are what OpenAI's API answers."""

    def __init__(self, message: str, param: str | None = None, code: str | None = None) -> None:
        super().__init__(message)
        self.message = message
        self.param = param
        self.code = code
        self.status = 404 if code == "model_not_found" else 400


class Tokenizer(Protocol):
    """Counts the tokens of a text: all that routing needs to know of it."""

    def count(self, text: str) -> int:
        """Return the number of tokens, at least 1 for a text that is not empty."""
        ...


@dataclass(frozen=True, slots=True)
class ApproximateTokenizer:
    """One token for each four bytes of UTF-8, rounded up.

    A rule of thumb for English and code; clients that need the exact time predicted send token
    ids.
    """

    bytes_per_token: float = 4.0

    def count(self, text: str) -> int:
        """Return the estimate."""
        return math.ceil(len(text.encode()) / self.bytes_per_token)


@dataclass(frozen=True, slots=True)
class Limits:
    """What one request may ask for."""

    prompt_tokens: int = 131_072
    prompts: int = 16
    max_tokens: int = 16_384


@dataclass(frozen=True, slots=True)
class Completion:
    """A request that was understood."""

    prompts: tuple[Prompt, ...]
    max_tokens: int = 16
    stream: bool = False
    include_usage: bool = False
    sampling: Mapping[str, Any] = field(default_factory=dict)

    @property
    def prompt_tokens(self) -> int:
        """Tokens of all prompts."""
        return sum(prompt.tokens for prompt in self.prompts)


def parse(document: Any, model: str, tokenizer: Tokenizer, limits: Limits) -> Completion:
    """Understand a request body. Raises BadRequest that names the parameter."""
    if not isinstance(document, Mapping):
        raise BadRequest("the body must be a JSON object")
    if document.get("model") != model:
        raise BadRequest(
            f"the model {document.get('model')!r} does not exist; this router serves {model!r}",
            "model",
            "model_not_found",
        )
    for name, allowed in _UNSUPPORTED.items():
        if document.get(name) not in allowed:
            raise BadRequest(f"{name} is not supported here; leave it out", name)
    return Completion(
        prompts=_prompts(document.get("prompt"), tokenizer, limits),
        max_tokens=_max_tokens(document.get("max_tokens"), limits),
        stream=_flag(document.get("stream"), "stream"),
        include_usage=_include_usage(document.get("stream_options")),
        sampling={key: document[key] for key in _SAMPLING if document.get(key) is not None},
    )


def answer(
    request: str, created: int, model: str, completion: Completion, texts: Sequence[Text]
) -> dict[str, Any]:
    """Write a whole answer, one choice a prompt."""
    choices = [
        _choice(index, text.text, _finish(len(text.tokens), completion.max_tokens))
        for index, text in enumerate(texts)
    ]
    head = _head(request, created, model)
    return head | {"choices": choices, "usage": usage(completion, texts)}


def chunk(
    request: str, created: int, model: str, index: int, text: str, finish: str | None
) -> bytes:
    """Write one server-sent event with a piece of a choice."""
    return event(_head(request, created, model) | {"choices": [_choice(index, text, finish)]})


def usage_chunk(
    request: str, created: int, model: str, completion: Completion, texts: Sequence[Text]
) -> bytes:
    """Write the last event of a stream whose client asked for the usage."""
    head = _head(request, created, model)
    return event(head | {"choices": [], "usage": usage(completion, texts)})


def usage(completion: Completion, texts: Sequence[Text]) -> dict[str, int]:
    """Count tokens read and written."""
    written = sum(len(text.tokens) for text in texts)
    return {
        "prompt_tokens": completion.prompt_tokens,
        "completion_tokens": written,
        "total_tokens": completion.prompt_tokens + written,
    }


def finish_reason(written: int, completion: Completion) -> str:
    """Say why a choice ended, in OpenAI's words."""
    return _finish(written, completion.max_tokens)


def error(
    message: str, kind: str, code: str | None = None, param: str | None = None
) -> dict[str, Any]:
    """Write an error in OpenAI's shape; ``kind`` is for example invalid_request_error."""
    return {"error": {"message": message, "type": kind, "param": param, "code": code}}


def event(document: Mapping[str, Any]) -> bytes:
    """Write a server-sent event."""
    return b"data: " + json.dumps(document, separators=(",", ":")).encode() + b"\n\n"


def _prompts(value: Any, tokenizer: Tokenizer, limits: Limits) -> tuple[Prompt, ...]:
    items = [value] if isinstance(value, str) or _is_ids(value) else value
    if not isinstance(items, list) or not items:
        raise BadRequest("give a prompt: a string, token ids, or a list of either", "prompt")
    if len(items) > limits.prompts:
        raise BadRequest(
            f"{len(items)} prompts in one request; give at most {limits.prompts}", "prompt"
        )
    return tuple(_prompt(item, tokenizer, limits) for item in items)


def _prompt(item: Any, tokenizer: Tokenizer, limits: Limits) -> Prompt:
    if isinstance(item, str):
        prompt = Prompt(tokenizer.count(item))
    elif _is_ids(item):
        prompt = Prompt(len(item), tuple(item))
    else:
        raise BadRequest("a prompt is a string or a list of token ids, 0 or more each", "prompt")
    if prompt.tokens < 1:
        raise BadRequest("the prompt is empty", "prompt")
    if prompt.tokens > limits.prompt_tokens:
        raise BadRequest(
            f"the prompt has {prompt.tokens} tokens; at most {limits.prompt_tokens} are taken",
            "prompt",
            "context_length_exceeded",
        )
    return prompt


def _is_ids(value: Any) -> bool:
    return (
        isinstance(value, list)
        and bool(value)
        and all(type(token) is int and token >= 0 for token in value)
    )


def _max_tokens(value: Any, limits: Limits) -> int:
    if value is None:
        return 16
    if type(value) is not int or not 1 <= value <= limits.max_tokens:
        raise BadRequest(
            f"max_tokens must be a whole number from 1 to {limits.max_tokens}", "max_tokens"
        )
    return value


def _flag(value: Any, name: str) -> bool:
    if value not in (None, True, False):
        raise BadRequest(f"{name} must be true or false", name)
    return bool(value)


def _include_usage(value: Any) -> bool:
    if value is None:
        return False
    if not isinstance(value, Mapping):
        raise BadRequest("stream_options must be an object", "stream_options")
    return _flag(value.get("include_usage"), "stream_options.include_usage")


def _head(request: str, created: int, model: str) -> dict[str, Any]:
    return {"id": request, "object": "text_completion", "created": created, "model": model}


def _choice(index: int, text: str, finish: str | None) -> dict[str, Any]:
    return {"text": text, "index": index, "logprobs": None, "finish_reason": finish}


def _finish(written: int, max_tokens: int) -> str:
    return "length" if written >= max_tokens else "stop"
