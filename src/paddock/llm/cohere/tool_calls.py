"""Tool calls in Cohere's chat: events that start a call, add to its arguments and end it.

In an answer that is not streamed they are a list.
"""

from __future__ import annotations

from collections.abc import Hashable
from typing import Any

from paddock.llm.json_text import Unreadable
from paddock.llm.tool_calls import (
    MAX_CALLS,
    NOTHING,
    CallNotes,
    PartialCall,
    Verdicts,
    is_all_refused,
    number_in,
    object_in,
    objects_in,
    refusal_text,
)

_FOR_CALLS = "TOOL_CALL"
_DONE = "COMPLETE"
_EVENTS = ("tool-call-start", "tool-call-delta", "tool-call-end")


class CohereCalls:
    """The calls of one answer. A key is the call's position."""

    def __init__(self) -> None:
        self._calls: list[PartialCall] = []
        self._texts = 0  # content blocks so far; a refusal takes the next index

    def note(self, data: dict[str, Any]) -> CallNotes:
        kind = data.get("type")
        message = object_in(object_in(data, "delta"), "message")
        if kind == "message-end":
            return self.note_end()
        if kind == "content-start":
            self._texts = max(self._texts, number_in(data, "index", 0) + 1)
        if kind not in _EVENTS:
            if message.get("tool_calls"):
                raise Unreadable("a tool call stands in an event of another kind")
            return NOTHING
        if kind == "tool-call-start":
            return self._note_start(data, message)
        call = self._at(data)
        if kind == "tool-call-delta":
            call.add(object_in(object_in(message, "tool_calls"), "function").get("arguments"))
            return CallNotes((call.key,))
        return CallNotes((call.key,), () if call.is_complete else (call.complete(),))

    def note_end(self) -> CallNotes:
        left = [call for call in self._calls if not call.is_complete]
        return CallNotes(completed=tuple(call.complete() for call in left))

    def note_body(self, body: dict[str, Any]) -> CallNotes:
        if isinstance(body.get("message"), str):  # an error
            return NOTHING
        for tool in objects_in(object_in(body, "message"), "tool_calls"):
            self._open(tool)
        touched: tuple[Hashable, ...] = tuple(call.key for call in self._calls)
        return CallNotes(touched, self.note_end().completed)

    def edit(
        self, data: dict[str, Any], noted: CallNotes, verdicts: Verdicts
    ) -> list[dict[str, Any]] | None:
        if data.get("type") == "message-end":
            return [data] if self._restate(object_in(data, "delta"), verdicts) else None
        if not noted.touched:
            return None
        key = noted.touched[0]
        if verdicts[key] is None:
            return self._renumber(data, key, verdicts)
        if data.get("type") == "tool-call-start":
            return self._replacement(key, verdicts)
        return []

    def edit_body(self, body: dict[str, Any], noted: CallNotes, verdicts: Verdicts) -> None:
        message = object_in(body, "message")
        refused = [call for call in self._calls if verdicts[call.key] is not None]
        if not refused:
            return
        kept = [
            tool
            for call, tool in zip(self._calls, objects_in(message, "tool_calls"), strict=True)
            if call not in refused
        ]
        texts = [
            {"type": "text", "text": refusal_text(call.name, verdicts[call.key] or "")}
            for call in refused
        ]
        message["content"] = [*objects_in(message, "content"), *texts]
        message["tool_calls"] = kept
        if not kept:
            del message["tool_calls"]
        self._restate(body, verdicts)

    def _note_start(self, data: dict[str, Any], message: dict[str, Any]) -> CallNotes:
        if number_in(data, "index", len(self._calls)) != len(self._calls):
            raise Unreadable("the tool calls of the answer are out of order")
        return CallNotes((self._open(object_in(message, "tool_calls")).key,))

    def _at(self, data: dict[str, Any]) -> PartialCall:
        index = number_in(data, "index", len(self._calls) - 1)
        if index >= len(self._calls):
            raise Unreadable("a piece of a tool call belongs to no call")
        return self._calls[index]

    def _open(self, tool: dict[str, Any]) -> PartialCall:
        if len(self._calls) >= MAX_CALLS:
            raise Unreadable(f"the answer has more than {MAX_CALLS} tool calls")
        function = object_in(tool, "function")
        call = PartialCall(len(self._calls))
        call.be(tool.get("id"), function.get("name"))
        call.add(function.get("arguments"))
        self._calls.append(call)
        return call

    def _replacement(self, key: Hashable, verdicts: Verdicts) -> list[dict[str, Any]]:
        """Return a block of text that says why. Clients take the index from the event."""
        assert isinstance(key, int)
        text = refusal_text(self._calls[key].name, verdicts[key] or "")
        index = self._texts
        self._texts += 1
        start = {"message": {"content": {"type": "text", "text": ""}}}
        delta = {"message": {"content": {"text": text}}}
        return [
            {"type": "content-start", "index": index, "delta": start},
            {"type": "content-delta", "index": index, "delta": delta},
            {"type": "content-end", "index": index},
        ]

    def _renumber(
        self, data: dict[str, Any], key: Hashable, verdicts: Verdicts
    ) -> list[dict[str, Any]] | None:
        """Close the gaps that refused calls leave: clients put calls into a list by their index."""
        assert isinstance(key, int)
        gone = sum(verdicts.get(before) is not None for before in range(key))
        if not gone:
            return None
        data["index"] = key - gone
        return [data]

    def _restate(self, holder: dict[str, Any], verdicts: Verdicts) -> bool:
        keys: set[Hashable] = {call.key for call in self._calls}
        if holder.get("finish_reason") == _FOR_CALLS and is_all_refused(keys, verdicts):
            holder["finish_reason"] = _DONE
            return True
        return False
