"""Tool calls in Bedrock's `converse`: content blocks with a `toolUse`, streamed one after the other
like those of Anthropic's messages, but under other names.

Calls that the vendor's servers answer themselves have the type `server_tool_use`. They are decided
on as well: clients that are older than this type drop it, and see an ordinary call.
"""

from __future__ import annotations

from collections.abc import Hashable
from typing import Any

from paddock.llm.json_text import Unreadable, dump
from paddock.llm.tool_calls import (
    MAX_CALLS,
    NOTHING,
    CallNotes,
    PartialCall,
    Verdicts,
    check_spelling,
    is_all_refused,
    number_in,
    object_in,
    objects_in,
    refusal_text,
)

_USE = "toolUse"


class ConverseCalls:
    """The calls of one message. A key is the index of the content block."""

    def __init__(self) -> None:
        self._calls: dict[int, PartialCall] = {}
        self._others: set[int] = set()  # blocks that are no call, or whose call has ended

    def note(self, data: dict[str, Any]) -> CallNotes:
        if len(data) != 1:
            raise Unreadable("an event of the stream has no single name")
        [name] = data
        event = object_in(data, name)
        match name:
            case "contentBlockStart":
                return self._note_start(event)
            case "contentBlockDelta":
                return self._note_delta(event)
            case "contentBlockStop":
                return self._note_stop(event)
            case "messageStop":
                return self.note_end()
            case _ if name.endswith("Exception"):
                return CallNotes(is_error=True)
            case _:
                return NOTHING

    def note_end(self) -> CallNotes:
        left = [call for call in self._calls.values() if not call.is_complete]
        return CallNotes(completed=tuple(call.complete() for call in left))

    def note_body(self, body: dict[str, Any]) -> CallNotes:
        message = object_in(object_in(body, "output"), "message")
        for index, block in enumerate(objects_in(message, "content")):
            check_spelling(block, _USE)
            if block.get(_USE) is not None:
                tool = object_in(block, _USE)
                call = self._open(index, tool)
                call.add(dump(tool["input"]).decode() if "input" in tool else None)
        touched: tuple[Hashable, ...] = tuple(self._calls)
        return CallNotes(touched, self.note_end().completed)

    def edit(
        self, data: dict[str, Any], noted: CallNotes, verdicts: Verdicts
    ) -> list[dict[str, Any]] | None:
        if "messageStop" in data:
            return [data] if self._restate(object_in(data, "messageStop"), verdicts) else None
        if not noted.touched or verdicts[noted.touched[0]] is None:
            return None
        if "contentBlockStart" in data:
            # A block of text has no start, only deltas; it takes the index of the call.
            return [self._replacement(noted.touched[0], verdicts)]
        return [] if "contentBlockDelta" in data else None

    def edit_body(self, body: dict[str, Any], noted: CallNotes, verdicts: Verdicts) -> None:
        content = objects_in(object_in(object_in(body, "output"), "message"), "content")
        for index, call in self._calls.items():
            why = verdicts[index]
            if why is not None:
                content[index].clear()
                content[index]["text"] = refusal_text(call.name, why)
        self._restate(body, verdicts)

    def _note_start(self, event: dict[str, Any]) -> CallNotes:
        index = number_in(event, "contentBlockIndex")
        if index in self._calls or index in self._others:
            raise Unreadable("a content block starts twice")
        if any(not call.is_complete for call in self._calls.values()):
            raise Unreadable("a block starts in the middle of a tool call")
        start = object_in(event, "start")
        check_spelling(start, _USE)
        if start.get(_USE) is None:
            self._remember(index)
            return NOTHING
        return CallNotes((self._open(index, object_in(start, _USE)).key,))

    def _note_delta(self, event: dict[str, Any]) -> CallNotes:
        index = self._index(event)
        tool = object_in(object_in(event, "delta"), _USE)
        call = self._calls.get(index)
        if call is None:
            if tool:
                raise Unreadable("a piece of a tool call belongs to no call")
            self._remember(index)
            return NOTHING
        check_spelling(tool, "input")
        call.add(tool.get("input"))
        return CallNotes((call.key,))

    def _note_stop(self, event: dict[str, Any]) -> CallNotes:
        call = self._calls.get(self._index(event))
        if call is None:
            return NOTHING
        completed = () if call.is_complete else (call.complete(),)
        return CallNotes((call.key,), completed)

    def _index(self, event: dict[str, Any]) -> int:
        """Return the block that goes on or ends. In the middle of a call only its own may: clients
        that keep only the current call do not look at the index."""
        index = number_in(event, "contentBlockIndex")
        if any(not call.is_complete and call.key != index for call in self._calls.values()):
            raise Unreadable("another block goes on in the middle of a tool call")
        return index

    def _open(self, index: int, tool: dict[str, Any]) -> PartialCall:
        if len(self._calls) >= MAX_CALLS:
            raise Unreadable(f"the answer has more than {MAX_CALLS} tool calls")
        check_spelling(tool, "toolUseId", "name", "input")
        call = PartialCall(index)
        call.be(tool.get("toolUseId"), tool.get("name"))
        self._calls[index] = call
        return call

    def _remember(self, index: int) -> None:
        self._others.add(index)
        if len(self._others) > 16 * MAX_CALLS:
            raise Unreadable("the message has too many blocks")

    def _replacement(self, key: Hashable, verdicts: Verdicts) -> dict[str, Any]:
        assert isinstance(key, int)
        text = refusal_text(self._calls[key].name, verdicts[key] or "")
        return {"contentBlockDelta": {"contentBlockIndex": key, "delta": {"text": text}}}

    def _restate(self, holder: dict[str, Any], verdicts: Verdicts) -> bool:
        if holder.get("stopReason") == "tool_use" and is_all_refused(set(self._calls), verdicts):
            holder["stopReason"] = "end_turn"
            return True
        return False
