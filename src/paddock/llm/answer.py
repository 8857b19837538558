"""The answer of a model: values for the journal and for rules."""

from __future__ import annotations

from collections.abc import Hashable
from typing import Any

import msgspec


class ToolCall(msgspec.Struct, frozen=True):
    """A call that a model asks its agent to make. One that is not readable must be refused: nobody
    can know what the agent's reader makes of it."""

    key: Hashable  # where it is in the answer
    id: str
    name: str
    arguments: Any  # a JSON object, or the raw text where that is none
    is_readable: bool = True  # False: the arguments are no JSON object that reads in one way

    def as_json(self) -> dict[str, Any]:
        """Return it for the journal."""
        return {"id": self.id, "name": self.name, "arguments": self.arguments}


class TokenUsage(msgspec.Struct, frozen=True):
    """Tokens. `input` is everything that went in, what came from a cache or went to one included;
    `output` includes reasoning."""

    input: int = 0
    output: int = 0
    cached: int = 0
    cache_written: int = 0
    cache_written_1h: int = 0  # the part of it that is kept for an hour, where that costs more
    reasoning: int = 0
    tier: str | None = None

    def as_json(self) -> dict[str, Any]:
        """Return it for the journal."""
        return {
            "input": self.input,
            "output": self.output,
            "cached": self.cached,
            "cache_written": self.cache_written,
            "reasoning": self.reasoning,
        }


class ModelAnswer(msgspec.Struct, frozen=True):
    """An answer, as far as it came."""

    text: str = ""
    is_cut: bool = False  # the text or the list of calls was longer than what is kept
    tool_calls: tuple[ToolCall, ...] = ()
    stop_reason: str | None = None
    usage: TokenUsage | None = None
    model: str | None = None
    id: str | None = None
    error: str | None = None
    is_broken: bool = False
    problem: str | None = None  # what is broken

    def as_json(self) -> dict[str, Any]:
        """Return it for the journal."""
        return {
            "text": self.text,
            "is_cut": self.is_cut,
            "tool_calls": [call.as_json() for call in self.tool_calls],
            "stop_reason": self.stop_reason,
            "usage": None if self.usage is None else self.usage.as_json(),
            "model": self.model,
            "id": self.id,
            "error": self.error,
            "problem": self.problem,
        }
