"""Collects the parts of an answer that the journal records, within bounds."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from paddock.llm.answer import ModelAnswer, TokenUsage, ToolCall
from paddock.llm.json_text import clean, cut, mapping, text_or_none

MAX_TEXT = 64 << 10  # characters of an answer's text that the journal keeps
MAX_KEPT_CALLS = 64
MAX_KEPT_ARGUMENTS = 64 << 10  # bytes, of all calls of an answer together
_MAX_VOICES = 16
_MAX_COUNTS = 32


class AnswerBuilder:
    """The parts of an answer so far."""

    def __init__(self) -> None:
        self.id: str | None = None
        self.model: str | None = None
        self.stop_reason: str | None = None
        self.error: str | None = None
        self.tier: str | None = None
        self.usage: dict[str, Any] = {}  # in the words of the vendor
        self.is_over = False
        self._texts: dict[int, list[str]] = {}  # by choice
        self._size = 0
        self._is_cut = False

    def name(self, id: Any, model: Any, tier: Any = None) -> None:
        """Note who answers. The first id and model count."""
        self.id = self.id or text_or_none(id)
        self.model = self.model or text_or_none(model)
        self.tier = text_or_none(tier, 32) or self.tier

    def say(self, text: Any, voice: int = 0) -> None:
        """Add the next piece of text of a choice."""
        if not isinstance(text, str) or not text:
            return
        room = MAX_TEXT - self._size
        if len(text) > room or voice >= _MAX_VOICES:
            self._is_cut = True
            text = text[:room] if voice < _MAX_VOICES else ""
        if not text:
            return
        self._size += len(text)
        self._texts.setdefault(voice, []).append(text)

    def stop(self, reason: Any) -> None:
        """Note why the model stopped."""
        if isinstance(reason, str):
            self.stop_reason = self.stop_reason or text_or_none(reason, 64)

    def fail(self, error: Any) -> None:
        """Note the error that the vendor reports."""
        if error:
            said = mapping(error).get("message") or mapping(error).get("type") or error
            self.error = cut(said if isinstance(said, str) else repr(said)[:1024], 1024)
            self.is_over = True

    def count(self, usage: Any) -> None:
        """Add token counts, which are totals: a later one replaces an earlier one."""
        for key, value in mapping(usage).items():
            if value is not None and (key in self.usage or len(self.usage) < _MAX_COUNTS):
                self.usage[key] = value

    def detail(self, key: str) -> Mapping[str, Any]:
        """Return a breakdown within the usage."""
        return mapping(self.usage.get(key))

    def answer(
        self, calls: Sequence[ToolCall], usage: TokenUsage | None, problem: str | None
    ) -> ModelAnswer:
        """Return the collected answer."""
        kept = _within_bounds(calls)
        return ModelAnswer(
            text=clean("\n\n".join("".join(self._texts[voice]) for voice in sorted(self._texts))),
            is_cut=self._is_cut or len(kept) < len(calls),
            tool_calls=kept,
            stop_reason=self.stop_reason,
            usage=usage,
            model=self.model,
            id=self.id,
            error=self.error,
            is_broken=problem is not None,
            problem=problem,
        )


def _within_bounds(calls: Sequence[ToolCall]) -> tuple[ToolCall, ...]:
    kept: list[ToolCall] = []
    room = MAX_KEPT_ARGUMENTS
    for call in calls[:MAX_KEPT_CALLS]:
        text = call.arguments if isinstance(call.arguments, str) else repr(call.arguments)
        room -= len(text)
        if room < 0:
            # The call itself was an action of its own, with all of its arguments.
            call = ToolCall(call.key, call.id, call.name, cut(text, 1024), False)
        kept.append(call)
    return tuple(kept)
