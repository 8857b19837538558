"""Tool calls in OpenAI's chat completions: pieces in `delta.tool_calls`, one list for each choice.

Pieces of several calls may come in any order, so all calls of a choice are complete when the
choice says why it stopped, and not before.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterator
from typing import Any

from paddock.llm.answer import ToolCall
from paddock.llm.json_text import Unreadable
from paddock.llm.tool_calls import (
    MAX_CALLS,
    CallNotes,
    PartialCall,
    Verdicts,
    is_all_refused,
    number_in,
    object_in,
    objects_in,
    refusal_text,
)

_LEGACY = -1  # the position of the one `function_call` of older models
_FOR_CALLS = ("tool_calls", "function_call")  # reasons to stop


class ChatCalls:
    """The calls of one chat completion. A key is (choice, position)."""

    def __init__(self) -> None:
        self._calls: dict[tuple[int, int], PartialCall] = {}
        self._kinds: set[str] = set()
        self._is_numbered: bool | None = None  # whether pieces say of which call they are
        self._is_over: set[int] = set()  # choices that gave a reason to stop
        self._has_spoken: set[int] = set()  # choices with text that went out
        self._said: set[Hashable] = set()  # refusals that went out
        self._has_late_pieces: set[int] = set()  # choices with empty pieces after their end
        self._has_loose_arguments: set[tuple[int, bool]] = set()  # see `_is_of_no_call`

    def note(self, data: dict[str, Any]) -> CallNotes:
        touched: list[Hashable] = []
        completed: list[ToolCall] = []
        for choice in objects_in(data, "choices"):
            number = number_in(choice, "index", 0)
            self._drop_empty(number, object_in(choice, "delta"))
            self._drop_empty(number, object_in(choice, "message"), is_misplaced=True)
            if _holds_calls(object_in(choice, "message")):
                raise Unreadable("a tool call stands where a stream has none")
            touched += self._pieces(number, object_in(choice, "delta"))
            if choice.get("finish_reason"):  # servers also write an empty one for none
                completed += self._complete(number)
                self._is_over.add(number)
        if touched:
            # A client skips chunks that do not call themselves what it expects.
            self._kinds.add(str(data.get("object")))
            if len(self._kinds) > 1:
                raise Unreadable("the pieces of tool calls are in things of different kinds")
        # What carries a piece of a call is never let through as an error.
        is_error = bool(data.get("error")) and not touched and not completed
        return CallNotes(tuple(touched), tuple(completed), is_error)

    def note_end(self) -> CallNotes:
        choices = sorted({number for number, _ in self._calls})
        return CallNotes(completed=tuple(c for number in choices for c in self._complete(number)))

    def note_body(self, body: dict[str, Any]) -> CallNotes:
        touched: list[Hashable] = []
        for number, choice in enumerate(objects_in(body, "choices")):
            self._drop_empty(number, object_in(choice, "delta"), is_misplaced=True)
            if _holds_calls(object_in(choice, "delta")):
                raise Unreadable("a tool call stands where only a stream has one")
            message = object_in(choice, "message")
            self._drop_empty(number, message)
            for position, piece in enumerate(objects_in(message, "tool_calls")):
                touched.append(self._piece(number, position, piece))
            touched += self._legacy(number, message)
        return CallNotes(tuple(touched), self.note_end().completed)

    def edit(
        self, data: dict[str, Any], noted: CallNotes, verdicts: Verdicts
    ) -> list[dict[str, Any]] | None:
        keys = iter(noted.touched)
        is_changed = False
        for choice in objects_in(data, "choices"):
            number = number_in(choice, "index", 0)
            delta = object_in(choice, "delta")
            refused = self._take_out(number, delta, keys, verdicts)
            if delta.get("content"):
                self._has_spoken.add(number)
            restated = self._restate(number, choice, verdicts)
            is_changed |= refused or restated
            # Without the call that was refused, an empty piece would be one by itself.
            is_changed |= number in self._has_late_pieces and self._has_refused(number, verdicts)
        if not is_changed:
            return None
        return [] if _is_empty(data) else [data]

    def edit_body(self, body: dict[str, Any], noted: CallNotes, verdicts: Verdicts) -> None:
        keys = iter(noted.touched)
        for number, choice in enumerate(objects_in(body, "choices")):
            message = object_in(choice, "message")
            if message.get("content"):
                self._has_spoken.add(number)
            self._take_out(number, message, keys, verdicts)
            self._restate(number, choice, verdicts)

    def _drop_empty(
        self, number: int, holder: dict[str, Any], *, is_misplaced: bool = False
    ) -> None:
        """Leave out calls with nothing in them, which some servers send with every answer. What is
        let through unchanged still has them."""
        legacy = object_in(holder, "function_call")
        if legacy and self._is_of_no_call(
            number, {"function": legacy}, is_legacy=True, is_misplaced=is_misplaced
        ):
            del holder["function_call"]
        pieces = objects_in(holder, "tool_calls")
        kept = [
            piece
            for piece in pieces
            if not self._is_of_no_call(number, piece, is_legacy=False, is_misplaced=is_misplaced)
        ]
        if kept:
            holder["tool_calls"] = kept
        elif pieces:
            del holder["tool_calls"]

    def _is_of_no_call(
        self, number: int, piece: dict[str, Any], *, is_legacy: bool, is_misplaced: bool
    ) -> bool:
        """Return whether a piece is no part of a call.

        There are three cases. While a call is open, every piece in its place may be one of it.
        After the end of the choice, and out of place, a piece must have nothing in it. Where there
        was no call yet, it may have the arguments `{}`; a client adds what follows to them, so no
        call may follow.
        """
        is_empty = not _content(piece)
        if any(key[0] == number and (key[1] == _LEGACY) == is_legacy for key in self._calls):
            if is_empty and number in self._is_over:
                self._has_late_pieces.add(number)
            return is_empty and (is_misplaced or number in self._is_over)
        is_loose = _content(piece) == ["{}"] == [object_in(piece, "function").get("arguments")]
        if is_loose:
            self._has_loose_arguments.add((number, is_legacy))
        return is_empty or is_loose

    def _pieces(self, number: int, delta: dict[str, Any]) -> Iterator[Hashable]:
        for piece in objects_in(delta, "tool_calls"):
            yield self._piece(number, self._position(number, piece), piece)
        yield from self._legacy(number, delta)

    def _position(self, number: int, piece: dict[str, Any]) -> int:
        is_numbered = piece.get("index") is not None
        if self._is_numbered not in (None, is_numbered):
            raise Unreadable("some pieces of tool calls say of which they are, and some do not")
        self._is_numbered = is_numbered
        if is_numbered:
            return number_in(piece, "index")
        # Some servers leave it out and send calls whole: an id that is new is a new call.
        own = [key[1] for key in self._calls if key[0] == number and key[1] != _LEGACY]
        for position in own:
            if self._calls[number, position].id == piece.get("id"):
                return position
        if piece.get("id"):
            return max(own, default=-1) + 1
        if len(own) != 1:
            raise Unreadable("a piece of a tool call does not say of which")
        return own[0]

    def _piece(self, number: int, position: int, piece: dict[str, Any]) -> Hashable:
        custom = object_in(piece, "custom")
        function = object_in(piece, "function")
        if custom and function:
            raise Unreadable("a tool call is of two kinds")
        call = self._call(number, position, is_free_text=bool(custom))
        call.be(piece.get("id"), function.get("name") or custom.get("name"))
        call.add(custom.get("input") if custom else function.get("arguments"))
        return call.key

    def _legacy(self, number: int, holder: dict[str, Any]) -> Iterator[Hashable]:
        function = object_in(holder, "function_call")
        if function:
            call = self._call(number, _LEGACY)
            call.be(None, function.get("name"))
            call.add(function.get("arguments"))
            yield call.key

    def _call(self, number: int, position: int, *, is_free_text: bool = False) -> PartialCall:
        if number in self._is_over:
            raise Unreadable("a tool call comes after the end of its choice")
        known = self._calls.get((number, position))
        if known is None:
            if (number, position == _LEGACY) in self._has_loose_arguments:
                raise Unreadable("a tool call comes after arguments of no call")
            if any(key[0] == number and key[1] > position != _LEGACY for key in self._calls):
                # Clients insert calls into a list, and put pieces of one into another then.
                raise Unreadable("the tool calls of the answer are out of order")
            if len(self._calls) >= MAX_CALLS:
                raise Unreadable(f"the answer has more than {MAX_CALLS} tool calls")
            known = PartialCall((number, position), is_free_text=is_free_text)
            self._calls[number, position] = known
        elif is_free_text and not known.is_free_text:
            raise Unreadable("a tool call is of two kinds")
        return known

    def _complete(self, number: int) -> list[ToolCall]:
        own = sorted(key for key in self._calls if key[0] == number)
        return [self._calls[key].complete() for key in own if not self._calls[key].is_complete]

    def _take_out(
        self, number: int, holder: dict[str, Any], keys: Iterator[Hashable], verdicts: Verdicts
    ) -> bool:
        """Take the pieces of refused calls out of a delta or a message. Return whether there were
        any."""
        pieces = objects_in(holder, "tool_calls")
        kept = [piece for piece in pieces if not self._refuse(number, next(keys), holder, verdicts)]
        is_changed = len(kept) < len(pieces)
        if is_changed and not kept:
            del holder["tool_calls"]
        elif is_changed:
            holder["tool_calls"] = kept
        if object_in(holder, "function_call") and self._refuse(
            number, next(keys), holder, verdicts
        ):
            del holder["function_call"]
            is_changed = True
        return self._renumber(number, kept, verdicts) or is_changed

    def _refuse(
        self, number: int, key: Hashable, holder: dict[str, Any], verdicts: Verdicts
    ) -> bool:
        """Return whether the call is refused; its first piece becomes the text that says so."""
        why = verdicts[key]
        if why is None:
            return False
        if key not in self._said:
            self._said.add(key)
            before = holder.get("content") or ""
            gap = "\n\n" if before or number in self._has_spoken else ""
            name = next(call.name for call in self._calls.values() if call.key == key)
            holder["content"] = f"{before}{gap}{refusal_text(name, why)}"
            self._has_spoken.add(number)
        return True

    def _renumber(self, number: int, pieces: list[dict[str, Any]], verdicts: Verdicts) -> bool:
        """Close the gaps that refused calls leave: clients put calls into a list by their index."""
        is_changed = False
        for piece in pieces:
            index = piece.get("index")
            if not isinstance(index, int):
                continue
            gone = sum(verdicts.get((number, before)) is not None for before in range(index))
            if gone:
                piece["index"] = index - gone
                is_changed = True
        return is_changed

    def _has_refused(self, number: int, verdicts: Verdicts) -> bool:
        return any(verdicts.get(key) is not None for key in self._calls if key[0] == number)

    def _restate(self, number: int, choice: dict[str, Any], verdicts: Verdicts) -> bool:
        own: set[Hashable] = {key for key in self._calls if key[0] == number}
        if choice.get("finish_reason") in _FOR_CALLS and is_all_refused(own, verdicts):
            choice["finish_reason"] = "stop"
            return True
        return False


def _holds_calls(holder: dict[str, Any]) -> bool:
    return bool(holder.get("tool_calls") or holder.get("function_call"))


def _content(piece: dict[str, Any]) -> list[Any]:
    """Return what a piece of a call says, but for the place and the kind of the call."""
    values = [piece[key] for key in piece.keys() - {"index", "type", "function", "custom"}]
    values += [*object_in(piece, "function").values(), *object_in(piece, "custom").values()]
    return [value for value in values if value]


def _is_empty(data: dict[str, Any]) -> bool:
    """Return whether nothing is left that a client would look at."""
    if data.get("usage"):
        return False
    return not any(choice.get("delta") or choice.get("finish_reason") for choice in data["choices"])
