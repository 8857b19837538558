"""Tool calls in Bedrock's `converse`: content blocks with a `toolUse`, streamed one after the other
like those of Anthropic's messages, but under other names.
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
    is_all_refused,
    number_in,
    object_in,
    objects_in,
    refusal_text,
)

# Blocks that the vendor's servers answer themselves have another type inside.
_BY_SERVER = "server_tool_use"


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
            tool = object_in(block, "toolUse")
            if tool and tool.get("type") != _BY_SERVER:
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
        tool = object_in(object_in(event, "start"), "toolUse")
        if not tool or tool.get("type") == _BY_SERVER:
            self._remember(index)
            return NOTHING
        return CallNotes((self._open(index, tool).key,))

    def _note_delta(self, event: dict[str, Any]) -> CallNotes:
        index = number_in(event, "contentBlockIndex")
        tool = object_in(object_in(event, "delta"), "toolUse")
        call = self._calls.get(index)
        if call is None:
            if tool and index not in self._others:
                raise Unreadable("a piece of a tool call belongs to no call")
            self._remember(index)
            return NOTHING
        call.add(tool.get("input"))
        return CallNotes((call.key,))

    def _note_stop(self, event: dict[str, Any]) -> CallNotes:
        call = self._calls.get(number_in(event, "contentBlockIndex"))
        if call is None:
            return NOTHING
        completed = () if call.is_complete else (call.complete(),)
        return CallNotes((call.key,), completed)

    def _open(self, index: int, tool: dict[str, Any]) -> PartialCall:
        if len(self._calls) >= MAX_CALLS:
            raise Unreadable(f"the answer has more than {MAX_CALLS} tool calls")
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
