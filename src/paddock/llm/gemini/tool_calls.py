"""Tool calls in Gemini's answers: parts of a candidate with a `functionCall`, each of them whole.

Google's clients take names in camel case and in snake case, and newer models can stream the
arguments of a call in pieces. What is not a whole `functionCall` in the usual spelling is
Unreadable, because a client might read a call where this reader sees none.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterator
from typing import Any

from paddock.llm.answer import ToolCall
from paddock.llm.json_text import Unreadable, arguments_of, clean, dump
from paddock.llm.tool_calls import (
    MAX_CALLS,
    CallNotes,
    Verdicts,
    object_in,
    objects_in,
    refusal_text,
)

CHUNKS = "chunks"  # of a stream that came as one JSON array: its answers
_CALL = "functionCall"
_FIELDS = frozenset({"id", "name", "args"})
_MAX_NAME = 256


class GeminiCalls:
    """The calls of one answer, numbered in the order in which they come."""

    def __init__(self) -> None:
        self._names: list[str] = []

    def note(self, data: dict[str, Any]) -> CallNotes:
        is_error = bool(data.get("error"))
        completed = [self._call(part) for part in _call_parts(data)]
        touched: tuple[Hashable, ...] = tuple(call.key for call in completed)
        return CallNotes(touched, tuple(completed), is_error and not completed)

    def note_end(self) -> CallNotes:
        return CallNotes()

    def note_body(self, body: dict[str, Any]) -> CallNotes:
        completed: list[ToolCall] = []
        for chunk in [body, *objects_in(body, CHUNKS)]:
            completed += self.note(chunk).completed
        return CallNotes(tuple(call.key for call in completed), tuple(completed))

    def edit(
        self, data: dict[str, Any], noted: CallNotes, verdicts: Verdicts
    ) -> list[dict[str, Any]] | None:
        return [data] if self._take_out(data, iter(noted.touched), verdicts) else None

    def edit_body(self, body: dict[str, Any], noted: CallNotes, verdicts: Verdicts) -> None:
        keys = iter(noted.touched)
        for chunk in [body, *objects_in(body, CHUNKS)]:
            self._take_out(chunk, keys, verdicts)

    def _call(self, part: dict[str, Any]) -> ToolCall:
        function = object_in(part, _CALL)
        name, arguments = function.get("name"), function.get("args")
        if not isinstance(name, str) or not 0 < len(name) <= _MAX_NAME:
            raise Unreadable("a tool call has no clear name")
        if function.keys() - _FIELDS:
            raise Unreadable("a tool call comes in pieces")
        if len(self._names) >= MAX_CALLS:
            raise Unreadable(f"the answer has more than {MAX_CALLS} tool calls")
        key = len(self._names)
        self._names.append(name)
        id = function.get("id")
        shown_id = clean(id) if isinstance(id, str) else ""
        text = "" if arguments is None else dump(arguments).decode()
        value, is_readable = arguments_of(text)
        return ToolCall(key, shown_id, clean(name), value, is_readable)

    def _take_out(self, data: dict[str, Any], keys: Iterator[Hashable], verdicts: Verdicts) -> bool:
        """Replace the refused calls of an answer by texts; return whether there were any."""
        is_changed = False
        for part in _call_parts(data):
            key = next(keys)
            why = verdicts[key]
            if why is not None:
                assert isinstance(key, int)
                part.clear()
                part["text"] = refusal_text(self._names[key], why)
                is_changed = True
        return is_changed


def _call_parts(data: dict[str, Any]) -> Iterator[dict[str, Any]]:
    """Yield the parts that are calls. Raises Unreadable for what only some clients take for one."""
    _check_spelling(data, "candidates")
    for candidate in objects_in(data, "candidates"):
        _check_spelling(candidate, "content")
        content = object_in(candidate, "content")
        _check_spelling(content, "parts")
        for part in objects_in(content, "parts"):
            _check_spelling(part, _CALL)
            if part.get(_CALL) is not None:
                yield part


def _check_spelling(holder: dict[str, Any], name: str) -> None:
    wanted = name.lower()
    for key in holder:
        if key != name and key.replace("_", "").lower() == wanted:
            raise Unreadable(f"{name} of the answer is spelled in another way")
