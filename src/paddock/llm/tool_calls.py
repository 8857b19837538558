"""The tool calls of an answer as those see them who hold and edit them, whatever the format."""

from __future__ import annotations

from collections.abc import Hashable, Mapping
from typing import Any, Protocol

import msgspec

from paddock.llm.answer import ToolCall
from paddock.llm.json_text import (
    MAX_ARGUMENTS,
    Unreadable,
    arguments_of,
    clean,
    cut,
)

MAX_CALLS = 256  # in one answer
_MAX_NAME = 256
_MAX_WHY = 2048

# Why a call is refused, by its key; None for a call that is allowed.
Verdicts = Mapping[Hashable, str | None]


class CallNotes(msgspec.Struct, frozen=True):
    """The tool calls that one part of an answer begins, continues or completes."""

    touched: tuple[Hashable, ...] = ()  # calls that it has a piece of, in the order of the pieces
    completed: tuple[ToolCall, ...] = ()  # calls that are known in full with it
    is_error: bool = False  # the answer failed; nothing of a call that is held counts any more

    @property
    def needed(self) -> set[Hashable]:
        """The calls that must be decided before this part may go on."""
        return {*self.touched, *(call.key for call in self.completed)}


NOTHING = CallNotes()


class ToolCallReader(Protocol):
    """The calls of one answer. Parts are noted in the order in which they came and edited in the
    same order, each when all that it needs is decided. `Unreadable` for what breaks the format."""

    def note(self, data: dict[str, Any]) -> CallNotes:
        """Read one event of a stream."""
        ...

    def note_end(self) -> CallNotes:
        """Note that the stream is over: what is open now is complete."""
        ...

    def note_body(self, body: dict[str, Any]) -> CallNotes:
        """Read an answer that is not streamed."""
        ...

    def edit(
        self, data: dict[str, Any], noted: CallNotes, verdicts: Verdicts
    ) -> list[dict[str, Any]] | None:
        """Return the events that go out in place of this one; None where it goes as it came."""
        ...

    def edit_body(self, body: dict[str, Any], noted: CallNotes, verdicts: Verdicts) -> None:
        """Take the refused calls out of a whole answer, in place."""
        ...


class PartialCall:
    """A call whose pieces are still coming."""

    def __init__(self, key: Hashable, *, is_free_text: bool = False) -> None:
        self.key = key
        self.id = ""
        self.name = ""
        self.is_free_text = is_free_text  # the input of a custom tool is text, not JSON
        self.is_complete = False
        self._pieces: list[str] = []
        self._size = 0

    def add(self, piece: Any) -> None:
        """Add the next piece of the arguments."""
        if self.is_complete:
            raise Unreadable("a tool call goes on after its end")
        if piece is None:
            return
        if not isinstance(piece, str):
            raise Unreadable("the arguments of a tool call are no text")
        self._size += len(piece)
        if self._size > MAX_ARGUMENTS:
            raise Unreadable(f"a tool call has more than {MAX_ARGUMENTS} characters of arguments")
        self._pieces.append(piece)

    def be(self, id: Any, name: Any) -> None:
        """Set id and name. The same again is fine; another one is Unreadable, because two readers
        would take two names."""
        self.id = self._same(self.id, id)
        self.name = self._same(self.name, name)

    def _same(self, known: str, said: Any) -> str:
        if said is None or said == "" or said == known:
            return known
        if known or not isinstance(said, str) or len(said) > _MAX_NAME:
            raise Unreadable("a tool call has no clear name")
        if self.is_complete:
            raise Unreadable("a tool call goes on after its end")
        return said

    @property
    def text(self) -> str:
        """The arguments so far."""
        return "".join(self._pieces)

    def complete(self) -> ToolCall:
        """Return the call; nothing more of it may come."""
        if not self.name:
            raise Unreadable("a tool call has no name")
        text = self.text
        self.close()
        return call_of(self.key, self.id, self.name, text, is_free_text=self.is_free_text)

    def close(self) -> None:
        """Take nothing more, and drop the pieces, which no longer count as held."""
        self.is_complete = True
        self._pieces.clear()


def call_of(
    key: Hashable, id: str, name: str, text: str, *, is_free_text: bool = False
) -> ToolCall:
    """Return a call from the text of its arguments."""
    if is_free_text:
        return ToolCall(key, clean(id), clean(name), {"input": clean(text)})
    arguments, is_readable = arguments_of(text)
    return ToolCall(key, clean(id), clean(name), arguments, is_readable)


def object_in(within: Any, key: str) -> dict[str, Any]:
    """Return an object that may be missing. Servers also write an empty value for none."""
    check_spelling(holder(within), key)
    value = within.get(key)
    return holder(value) if value else {}


def objects_in(within: Any, key: str) -> list[dict[str, Any]]:
    """Return an array of objects that may be missing. A text in its place has no parts."""
    check_spelling(holder(within), key)
    value = within.get(key)
    if not value or isinstance(value, str):
        return []
    if not isinstance(value, list) or len(value) > 16 * MAX_CALLS:
        raise Unreadable(f"{key} of the answer is no list")
    return [{} if one is None or isinstance(one, str) else holder(one) for one in value]


def number_in(holder: Mapping[str, Any], key: str, default: int | None = None) -> int:
    """Return a position in a list."""
    check_spelling(holder, key)
    value = holder.get(key)
    if value is None:
        value = default
    if type(value) is not int or not 0 <= value <= 1 << 16:
        raise Unreadable(f"{key} of the answer is no position")
    return value


def refusal_text(name: str, why: str) -> str:
    """Return the text that stands in the answer in place of a refused call."""
    return f"[paddock] The call of {name} was refused: {cut(why, _MAX_WHY)}"


def is_all_refused(keys: set[Hashable], verdicts: Verdicts) -> bool:
    """Return whether there were calls and none of them is left."""
    return bool(keys) and all(verdicts.get(key) is not None for key in keys)


def holder(value: Any) -> dict[str, Any]:
    """Return an object of the answer. Its type is a text: to JavaScript, a list of one text can be
    that text."""
    if not isinstance(value, dict):
        raise Unreadable("the answer has something else where an object belongs")
    check_spelling(value, "type")
    if not isinstance(value.get("type"), str | None):
        raise Unreadable("the type of a part of the answer is no text")
    return value


def check_spelling(value: Mapping[str, Any], *names: str) -> None:
    """Raise Unreadable if a key of an object is another spelling of a name. Some clients take it
    for the same: Google's know names in camel case and in snake case, and Go's `encoding/json`
    knows them in any case, with a long s or the sign for Kelvin too."""
    plain = {_plain(name): name for name in names}
    for key in value:
        if plain.get(_plain(key), key) != key:
            raise Unreadable(f"{key[:64]} is another spelling of a key of the answer")


def _plain(key: str) -> str:
    return key.replace("_", "").casefold()
