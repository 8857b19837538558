"""Tool calls in OpenAI's responses: output items, streamed one by one and repeated in the response
that ends the stream. All mentions of a call must agree, since clients read different ones."""

from __future__ import annotations

from collections.abc import Hashable
from typing import Any

from paddock.llm.answer import ToolCall
from paddock.llm.json_text import Unreadable
from paddock.llm.openai_responses.items import (
    call_in,
    closing_event,
    essence,
    identity,
    is_call,
    opening_events,
    stand_in,
    text_field,
)
from paddock.llm.tool_calls import (
    MAX_CALLS,
    NOTHING,
    CallNotes,
    PartialCall,
    Verdicts,
    number_in,
    object_in,
    objects_in,
)

_ENDS = ("response.completed", "response.incomplete", "response.failed", "response.cancelled")
_PIECES = ("_arguments.delta", "_input.delta")
_OF_CALLS = ("response.function_call_", "response.custom_tool_call_")
_WHOLES = {"_arguments.done": "arguments", "_input.done": "input"}


class ResponsesCalls:
    """The calls of one response. A key is the call's id."""

    def __init__(self) -> None:
        self._open: dict[
            int, PartialCall | None
        ] = {}  # by output index; None for an item of no call
        self._known: dict[Hashable, bytes] = {}  # the essence of each call that is complete
        self._names: dict[Hashable, str] = {}
        self._shown: set[Hashable] = set()  # stand-ins whose start went out
        self._shift = 0  # how many events more than came went out

    def note(self, data: dict[str, Any]) -> CallNotes:
        kind = data.get("type")
        if kind == "error":
            return CallNotes(is_error=True)
        if kind == "response.output_item.added":
            return self._note_added(data)
        if kind == "response.output_item.done":
            return self._note_done(data)
        if "response" in data:
            return self._note_listing(object_in(data, "response"), is_end=kind in _ENDS)
        return self._note_piece(str(kind), data)

    def note_end(self) -> CallNotes:
        # Only the response at the end says that a call is whole; without it, none is.
        return NOTHING

    def note_body(self, body: dict[str, Any]) -> CallNotes:
        return self._note_listing(body, is_end=True)

    def edit(
        self, data: dict[str, Any], noted: CallNotes, verdicts: Verdicts
    ) -> list[dict[str, Any]] | None:
        events = self._edited(data, noted, verdicts)
        first = data.get("sequence_number")
        if type(first) is not int:
            return events
        if events is None and self._shift == 0:
            return None
        out = [data] if events is None else events
        for place, event in enumerate(out):
            event["sequence_number"] = first + self._shift + place
        self._shift += len(out) - 1
        return out

    def edit_body(self, body: dict[str, Any], noted: CallNotes, verdicts: Verdicts) -> None:
        self._relist(body, verdicts)

    def _note_added(self, data: dict[str, Any]) -> CallNotes:
        index = number_in(data, "output_index")
        if index in self._open or len(self._open) >= 16 * MAX_CALLS:
            raise Unreadable("the items of the response are out of order")
        item = object_in(data, "item")
        if not is_call(item):
            self._open[index] = None
            return NOTHING
        key = identity(item)
        if key in self._known or any(call and call.key == key for call in self._open.values()):
            raise Unreadable("two tool calls have one id")
        call = PartialCall(key)
        call.be(key, item.get("name"))
        self._open[index] = call
        return CallNotes((key,))

    def _note_piece(self, kind: str, data: dict[str, Any]) -> CallNotes:
        if "output_index" not in data and not kind.startswith(_OF_CALLS):
            return NOTHING
        call = self._open.get(number_in(data, "output_index"))
        if call is None:
            if kind.startswith(_OF_CALLS):
                raise Unreadable("a piece of a tool call belongs to no call")
            return NOTHING
        call.add(data.get("delta") if kind.endswith(_PIECES) else None)
        for ending, field in _WHOLES.items():
            if kind.endswith(ending) and data.get(field) != call.text:
                raise Unreadable("the pieces of a tool call are not its arguments")
        return CallNotes((call.key,))

    def _note_done(self, data: dict[str, Any]) -> CallNotes:
        index = number_in(data, "output_index")
        item = object_in(data, "item")
        call = self._open.get(index)
        if not is_call(item):
            if call is not None:
                raise Unreadable("a tool call ends as something else")
            self._open[index] = None
            return NOTHING
        if index not in self._open:  # never announced, and yet an item of the response
            call = self._open[index] = PartialCall(identity(item))
        if call is None or call.is_complete or call.key != identity(item):
            raise Unreadable("an item of the response ends as another tool call")
        return CallNotes((call.key,), (self._complete(call, item),))

    def _complete(self, call: PartialCall, item: dict[str, Any]) -> ToolCall:
        if call.text and call.text != text_field(item):
            raise Unreadable("the pieces of a tool call are not its arguments")
        if call.name and call.name != item.get("name"):
            raise Unreadable("a tool call has two names")
        call.close()
        return self._know(item)

    def _know(self, item: dict[str, Any]) -> ToolCall:
        if len(self._known) >= MAX_CALLS:
            raise Unreadable(f"the answer has more than {MAX_CALLS} tool calls")
        call = call_in(identity(item), item)
        self._known[call.key] = essence(item)
        self._names[call.key] = call.name
        return call

    def _note_listing(self, response: dict[str, Any], *, is_end: bool) -> CallNotes:
        listed = [item for item in objects_in(response, "output") if is_call(item)]
        completed = [call for item in listed if (call := self._note_listed(item)) is not None]
        touched: tuple[Hashable, ...] = tuple(identity(item) for item in listed)
        left = [call for call in self._open.values() if call and not call.is_complete]
        if left and is_end and listed:
            raise Unreadable("the response ends in the middle of a tool call")
        return CallNotes(touched, tuple(completed), is_error=bool(left) and is_end)

    def _note_listed(self, item: dict[str, Any]) -> ToolCall | None:
        key = identity(item)
        if key in self._known:
            if self._known[key] != essence(item):
                raise Unreadable("a tool call is repeated with other arguments")
            return None
        for call in self._open.values():
            if call is not None and call.key == key:
                return self._complete(call, item)
        return self._know(item)

    def _edited(
        self, data: dict[str, Any], noted: CallNotes, verdicts: Verdicts
    ) -> list[dict[str, Any]] | None:
        if "response" in data:
            return [data] if self._relist(object_in(data, "response"), verdicts) else None
        if not noted.touched or verdicts[noted.touched[0]] is None:
            return None
        key = noted.touched[0]
        index = number_in(data, "output_index")
        message = self._stand_in(key, verdicts)
        events = [] if key in self._shown else opening_events(message, index)
        self._shown.add(key)
        if data.get("type") == "response.output_item.done":
            events.append(closing_event(message, index))
        return events

    def _relist(self, response: dict[str, Any], verdicts: Verdicts) -> bool:
        is_changed = False
        for position, item in enumerate(objects_in(response, "output")):
            if is_call(item) and verdicts[identity(item)] is not None:
                response["output"][position] = self._stand_in(identity(item), verdicts)
                is_changed = True
        return is_changed

    def _stand_in(self, key: Hashable, verdicts: Verdicts) -> dict[str, Any]:
        return stand_in(str(key), self._names[key], verdicts[key] or "")
