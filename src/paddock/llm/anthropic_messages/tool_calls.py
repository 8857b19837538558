"""Tool calls in Anthropic's messages: content blocks that come one after the other."""

from __future__ import annotations

from collections.abc import Hashable
from typing import Any

from paddock.llm.answer import ToolCall
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

# Done by the vendor's servers while they answer; all other blocks of this ending are the agent's.
_BY_SERVER = frozenset({"server_tool_use", "mcp_tool_use"})


class MessagesCalls:
    """The calls of one message. A key is the position of the block."""

    def __init__(self) -> None:
        self._blocks: list[PartialCall | None] = []  # None for a block that is no call

    def note(self, data: dict[str, Any]) -> CallNotes:
        match data.get("type"):
            case "message_start":
                return self._note_message(object_in(data, "message"))
            case "content_block_start":
                return self._note_start(data)
            case "content_block_delta":
                return self._note_delta(data)
            case "content_block_stop":
                return self._note_stop(data)
            case "message_delta" | "message_stop":
                return self.note_end()
            case "error":
                return CallNotes(is_error=True)
            case _:
                return NOTHING

    def note_end(self) -> CallNotes:
        left = [call for call in self._blocks if call is not None and not call.is_complete]
        return CallNotes(completed=tuple(call.complete() for call in left))

    def note_body(self, body: dict[str, Any]) -> CallNotes:
        calls = [self._open(block) for block in objects_in(body, "content")]
        touched = tuple(call.key for call in calls if call is not None)
        return CallNotes(touched, self.note_end().completed)

    def edit(
        self, data: dict[str, Any], noted: CallNotes, verdicts: Verdicts
    ) -> list[dict[str, Any]] | None:
        if data.get("type") == "message_delta":
            return [data] if self._restate(object_in(data, "delta"), verdicts) else None
        if not noted.touched or verdicts[noted.touched[0]] is None:
            return None
        match data["type"]:
            case "content_block_start":
                return self._replacement(data["index"], verdicts)
            case "content_block_delta":
                return []
            case _:
                return None

    def edit_body(self, body: dict[str, Any], noted: CallNotes, verdicts: Verdicts) -> None:
        for position, call in enumerate(self._blocks):
            why = None if call is None else verdicts[call.key]
            if call is not None and why is not None:
                text = refusal_text(call.name, why)
                body["content"][position] = {"type": "text", "text": text}
        self._restate(body, verdicts)

    def _note_message(self, message: dict[str, Any]) -> CallNotes:
        if self._blocks or objects_in(message, "content"):
            raise Unreadable("a message starts with content that it should send later")
        return NOTHING

    def _note_start(self, data: dict[str, Any]) -> CallNotes:
        # Clients append blocks as they start, and look them up by index: both must agree.
        if number_in(data, "index") != len(self._blocks):
            raise Unreadable("the blocks of the message are out of order")
        if self._blocks and (last := self._blocks[-1]) is not None and not last.is_complete:
            raise Unreadable("a block starts in the middle of a tool call")
        call = self._open(object_in(data, "content_block"))
        return NOTHING if call is None else CallNotes((call.key,))

    def _open(self, block: dict[str, Any]) -> PartialCall | None:
        kind = block.get("type")
        call: PartialCall | None = None
        if isinstance(kind, str) and kind.endswith("tool_use") and kind not in _BY_SERVER:
            call = PartialCall(len(self._blocks))
            call.be(block.get("id"), block.get("name"))
            if block.get("input"):
                call.add(dump(block["input"]).decode())
        if len(self._blocks) >= 16 * MAX_CALLS:
            raise Unreadable("the message has too many blocks")
        self._blocks.append(call)
        return call

    def _at(self, data: dict[str, Any]) -> PartialCall | None:
        index = number_in(data, "index")
        if index >= len(self._blocks):
            raise Unreadable("the message goes on with a block that has not started")
        return self._blocks[index]

    def _note_delta(self, data: dict[str, Any]) -> CallNotes:
        call = self._at(data)
        if call is None:
            return NOTHING
        delta = object_in(data, "delta")
        # With an input from the start, another one after it: joined, no JSON, and so not readable.
        call.add(delta.get("partial_json") if delta.get("type") == "input_json_delta" else None)
        return CallNotes((call.key,))

    def _note_stop(self, data: dict[str, Any]) -> CallNotes:
        call = self._at(data)
        if call is None:
            return NOTHING
        completed: tuple[ToolCall, ...] = () if call.is_complete else (call.complete(),)
        return CallNotes((call.key,), completed)

    def _replacement(self, index: int, verdicts: Verdicts) -> list[dict[str, Any]]:
        """Return a block of text at the same index, so that the blocks after it keep theirs."""
        call = self._blocks[index]
        assert call is not None
        text = refusal_text(call.name, verdicts[call.key] or "")
        start = {"type": "text", "text": ""}
        delta = {"type": "text_delta", "text": text}
        return [
            {"type": "content_block_start", "index": index, "content_block": start},
            {"type": "content_block_delta", "index": index, "delta": delta},
        ]

    def _restate(self, holder: dict[str, Any], verdicts: Verdicts) -> bool:
        keys: set[Hashable] = {call.key for call in self._blocks if call is not None}
        if holder.get("stop_reason") == "tool_use" and is_all_refused(keys, verdicts):
            holder["stop_reason"] = "end_turn"
            return True
        return False
