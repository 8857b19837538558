"""The answer of a scripted model, filled in and counted, before it has the format of a provider."""

from __future__ import annotations

import enum
from collections.abc import Callable, Iterator, Mapping
from typing import Any

import msgspec

from paddock.llm.conversation import ModelRequest, RequestedCall, Turn

CHUNK = 16  # characters of a streamed part, unless the script says otherwise


class Stop(enum.StrEnum):
    """Why an answer ends. Each provider has its own words for it."""

    END = "end"
    TOOL = "tool"
    LENGTH = "length"
    SEQUENCE = "sequence"
    REFUSAL = "refusal"
    PAUSE = "pause"


class ServedUsage(msgspec.Struct, frozen=True):
    """Tokens. What was cached is part of the input, what was thought part of the output."""

    input: int
    output: int
    cached: int = 0
    reasoning: int = 0


class ServedAnswer(msgspec.Struct, frozen=True):
    """One answer. `mint` makes ids that follow from the seed and the conversation."""

    mint: Callable[[str, int], str]
    created: int
    text: str | None
    thinking: str | None
    calls: tuple[RequestedCall, ...]
    stop: Stop
    usage: ServedUsage
    chunk: int = CHUNK
    delay_s: float = 0.0

    def id(self, prefix: str, length: int, what: str = "answer") -> str:
        return prefix + self.mint(f"{prefix}{what}", length)


class ServedError(msgspec.Struct, frozen=True):
    """An answer that says what went wrong. Missing words are those of the provider."""

    status: int
    message: str | None = None
    type: str | None = None
    code: str | None = None
    param: str | None = None
    retry_after: float | None = None
    delay_s: float = 0.0


class ServedFormat(msgspec.Struct, frozen=True):
    """The functions that read one provider's requests and write its answers."""

    provider: str
    call_prefix: str  # of the ids of calls
    read: Callable[[Mapping[str, Any], Recall], ModelRequest]  # raises Unreadable
    whole: Callable[[ServedAnswer, ModelRequest], dict[str, Any]]
    events: Callable[[ServedAnswer, ModelRequest], Iterator[bytes]]
    keeps: bool = False  # the conversation, so that it can be referred to
    stream_type: bytes = b"text/event-stream; charset=utf-8"


Recall = Callable[[str], "tuple[Turn, ...] | None"]  # what was said up to a kept answer


def pieces(text: str, size: int) -> list[str]:
    return [text[start : start + size] for start in range(0, len(text), size)]
