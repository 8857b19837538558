"""A request to a model in one shape for all formats. Nothing here knows a wire format or the
script."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import msgspec

_encode = json.JSONEncoder().encode
_PER_MESSAGE = 4  # tokens that a message costs besides its text


class RequestedCall(msgspec.Struct, frozen=True):
    """A tool that the model asks for. The arguments are JSON text, or what was meant to be."""

    id: str
    name: str
    arguments: str


class CallResult(msgspec.Struct, frozen=True):
    """The result that a tool returned."""

    call_id: str
    name: str
    text: str


class Turn(msgspec.Struct, frozen=True):
    """All that one side says until the other speaks."""

    is_assistant: bool
    text: str = ""
    calls: tuple[RequestedCall, ...] = ()
    results: tuple[CallResult, ...] = ()


class ModelRequest(msgspec.Struct, frozen=True):
    """One request for an answer."""

    model: str
    system: str
    messages: tuple[Turn, ...]  # the last is not the assistant's
    tools: tuple[str, ...]
    count: int  # of messages as they were sent, without those of the system
    tools_text: str = ""
    is_stream: bool = False
    body: Mapping[str, Any] = {}  # as it was sent, for what is echoed

    @property
    def news(self) -> Turn:
        """The turn that came after the last answer."""
        return self.messages[-1]

    @property
    def turn(self) -> int:
        """1 for the first answer of the conversation."""
        return 1 + sum(message.is_assistant for message in self.messages)

    @property
    def user(self) -> str:
        """The last text of the user, new or not."""
        said = (m.text for m in reversed(self.messages) if m.text and not m.is_assistant)
        return next(said, "")

    @property
    def result(self) -> CallResult | None:
        """The newest result of a tool."""
        return next((m.results[-1] for m in reversed(self.messages) if m.results), None)

    def result_of(self, name: str) -> CallResult | None:
        """Return the newest result of the tool of that name."""
        for message in reversed(self.messages):
            for result in reversed(message.results):
                if result.name == name:
                    return result
        return None

    def tokens(self) -> int:
        """Return the length of the request in tokens, roughly."""
        total = count_tokens(self.system) + count_tokens(self.tools_text)
        for message in self.messages:
            total += _PER_MESSAGE + count_tokens(message.text)
            total += sum(count_tokens(c.name) + count_tokens(c.arguments) for c in message.calls)
            total += sum(count_tokens(result.text) for result in message.results)
        return total


class ConversationPoint(msgspec.Struct, frozen=True):
    """Names of points in conversations, that follow from what was said and nothing else."""

    conversation: str
    here: str
    before: str | None  # where the answer before this one was asked for


class InvalidRequest(Exception):
    """A request that the real service would not take either."""

    def __init__(self, message: str, param: str | None = None, status: int = 400) -> None:
        super().__init__(message)
        self.param = param
        self.status = status


class Transcript:
    """Collects messages. What one side says in a row becomes one: some clients send the parts of
    an answer one by one, others together."""

    def __init__(self, messages: Iterable[Turn] = ()) -> None:
        self._messages = list(messages)
        self._names = {call.id: call.name for m in self._messages for call in m.calls}

    def user(self, text: str) -> None:
        self._add(Turn(False, text))

    def assistant(self, text: str) -> None:
        self._add(Turn(True, text))

    def call(self, call: RequestedCall) -> None:
        self._names[call.id] = call.name
        self._add(Turn(True, calls=(call,)))

    def result(self, call_id: str, text: str) -> None:
        result = CallResult(call_id, self._names.get(call_id, ""), text)
        self._add(Turn(False, results=(result,)))

    def messages(self) -> tuple[Turn, ...]:
        """Return all turns, without a beginning that the caller wrote for the assistant to
        continue. Raises InvalidRequest if there is none."""
        found = self._messages
        if found and found[-1].is_assistant and not found[-1].calls:
            found = found[:-1]
        if not found:
            raise InvalidRequest("There is no message of a user.", "messages")
        return tuple(found)

    def _add(self, new: Turn) -> None:
        last = self._messages[-1] if self._messages else None
        if last is None or last.is_assistant is not new.is_assistant:
            self._messages.append(new)
            return
        text = f"{last.text}\n{new.text}" if last.text and new.text else last.text or new.text
        self._messages[-1] = Turn(
            last.is_assistant, text, last.calls + new.calls, last.results + new.results
        )


def check_calls(messages: Sequence[Turn], *, is_adjacent: bool) -> None:
    """Raise InvalidRequest when calls and results do not match: a call needs its result in the next
    message (or, if not `is_adjacent`, in any later one)."""
    open_calls: set[str] = set()
    known: set[str] = set()
    for message in messages:
        if message.is_assistant:
            _check_none_open(open_calls if is_adjacent else set())
            mine = {call.id for call in message.calls}
            open_calls |= mine
            known = mine if is_adjacent else known | mine
            continue
        for result in message.results:
            if result.call_id not in known:
                raise InvalidRequest(f"A tool result answers no call: {result.call_id[:80]!r}.")
        open_calls -= {result.call_id for result in message.results}
        _check_none_open(open_calls if is_adjacent else set())
    _check_none_open(open_calls)


def _check_none_open(open_calls: set[str]) -> None:
    if open_calls:
        shown = ", ".join(sorted(open_calls))[:200]
        raise InvalidRequest(f"Tool calls without a result after them: {shown}.")


def places(messages: Sequence[Turn]) -> ConversationPoint:
    """Return the point in the conversation. Ids of calls, the system prompt and the model are left
    out, because clients change them on the way."""
    last = max((n for n, message in enumerate(messages) if message.is_assistant), default=-1)
    hashed = hashlib.sha256()
    before = None
    for number, message in enumerate(messages):
        if number == last:
            before = hashed.hexdigest()[:32]
        hashed.update(_essence(message))
    first = hashlib.sha256(messages[0].text.encode()).hexdigest()[:16]
    return ConversationPoint(first, hashed.hexdigest()[:32], before)


def _essence(message: Turn) -> bytes:
    calls = [(call.name, call.arguments) for call in message.calls]
    results = [(result.name, result.text) for result in message.results]
    return _encode([message.is_assistant, message.text, calls, results]).encode()


def count_tokens(text: str) -> int:
    """About what a tokenizer counts in English, and the same every time."""
    size = len(text) if text.isascii() else len(text.encode())
    return (size + 3) // 4


def to_json(messages: Sequence[Turn]) -> list[Any]:
    """Return the turns as they are stored; `from_json` reads them again."""
    return [
        [
            m.is_assistant,
            m.text,
            [[call.id, call.name, call.arguments] for call in m.calls],
            [[result.call_id, result.name, result.text] for result in m.results],
        ]
        for m in messages
    ]


def from_json(kept: list[Any]) -> tuple[Turn, ...]:
    return tuple(
        Turn(
            mine,
            text,
            tuple(RequestedCall(*c) for c in calls),
            tuple(CallResult(*r) for r in results),
        )
        for mine, text, calls, results in kept
    )
