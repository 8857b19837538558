"""What the model remembers in the store: which turns a conversation has used up, and no more.

Where a conversation stands follows from the request itself. So a request that is sent again gets
its answer again, one that goes on from an earlier point goes on from there, and conversations do
not disturb each other.
"""

from __future__ import annotations

import hashlib
import json
import string
from collections.abc import Callable
from typing import Any

import msgspec

from paddock.llm.conversation import (
    ConversationPoint,
    InvalidRequest,
    ModelRequest,
    Turn,
    from_json,
    places,
    to_json,
)
from paddock.llm.served_answer import ServedAnswer, ServedUsage
from paddock.world.context import Context
from paddock.world.services.model.script import Entry

MOMENTS, UNMATCHED, RESPONSES = "moments", "unmatched", "responses"
MAX_KEPT = 4 << 20  # characters of one response with all that was said before it
_SHOWN = 200  # characters
# The fields of a moment that are kept as they are, in their order.
_KEPT = ("used", "given", "failed", "asked", "counters", "answers", "input_tokens", "output_tokens")
# A letter or a digit for each byte.
_LETTERS = ((string.ascii_letters + string.digits) * 5)[:256].encode()
_NONE = {"requests": 0, "input_tokens": 0, "output_tokens": 0}


class Moment(msgspec.Struct):
    """One point of a conversation, and what was answered there."""

    places: ConversationPoint
    turn: int
    used: list[str]  # turns that answers before this point took
    given: list[str] = []  # turns that answered here
    failed: list[str] = []  # turns that answered here with an error
    asked: int = 0  # how often
    counters: dict[str, int] = {}
    answers: dict[str, int] = {}  # how often each entry answered
    input_tokens: int = 0
    output_tokens: int = 0

    def is_left(self, turn: str) -> bool:
        """Return whether a turn can still be used. An answer can be had again by a client that lost
        it; an error is given once."""
        return turn not in self.used and turn not in self.failed


class Memory:
    """Reads and writes moments and conversations. The caller has a transaction open."""

    def __init__(self, context: Context) -> None:
        self._context = context
        self._store = context.store

    def moment(self, asked: ModelRequest) -> Moment:
        where = places(asked.messages)
        kept = self._store.get(MOMENTS, where.here)
        if kept is None:
            return Moment(where, asked.turn, self._used_before(where, asked.turn))
        return Moment(where, asked.turn, *(kept[name] for name in _KEPT))

    def mint(self, moment: Moment) -> Callable[[str, int], str]:
        """Return a function that makes random-looking ids. They follow from the conversation, not
        from what else goes on."""
        context = self._context
        stem = f"{context.seed}/{context.name}/{moment.places.here}/{moment.asked}"
        return lambda what, length: _letters(f"{stem}/{what}", length)

    def count(self, moment: Moment, name: str) -> int:
        """Return a counter of the whole world; asked again at the same point, it does not
        advance."""
        if name not in moment.counters:
            moment.counters[name] = self._store.next(f"script:{name}")
        return moment.counters[name]

    def keep(
        self, moment: Moment, asked: ModelRequest, entry: Entry, usage: ServedUsage | None
    ) -> None:
        """Record that an entry answered here; without usage, with an error."""
        noted = moment.failed if usage is None else moment.given
        if entry.is_turn and entry.id not in noted:
            noted.append(entry.id)
        moment.asked += 1
        moment.answers[entry.id] = moment.answers.get(entry.id, 0) + 1
        if usage is not None:
            moment.input_tokens += usage.input
            moment.output_tokens += usage.output
        here = moment.places
        document = {
            "id": here.here,
            "conversation": here.conversation,
            "begins": asked.messages[0].text[:_SHOWN],
            "at": self._context.tick(),
            "turn": moment.turn,
            "model": asked.model,
            **{name: getattr(moment, name) for name in _KEPT},
        }
        self._store.put(MOMENTS, here.here, document)

    def miss(self, moment: Moment, asked: ModelRequest, why: str) -> None:
        """Record a request that the script has no answer to."""
        here = moment.places
        old = self._store.get(UNMATCHED, here.here) or {"asked": 0}
        document = {
            "id": here.here,
            "conversation": here.conversation,
            "turn": moment.turn,
            "model": asked.model,
            "why": why,
            "asked": old["asked"] + 1,
        }
        self._store.put(UNMATCHED, here.here, document)

    def keep_response(self, id: str, asked: ModelRequest, answer: ServedAnswer, body: str) -> None:
        """So that a later request can refer to it. As text: SQLite need not understand it.
        Raises Unreadable."""
        said = Turn(True, answer.text or "", answer.calls)
        messages = json.dumps(to_json((*asked.messages, said)), ensure_ascii=False)
        if len(messages) + len(body) > MAX_KEPT:
            raise InvalidRequest("It is too long to be kept: send store: false.", "store", 413)
        self._store.put(RESPONSES, id, {"id": id, "messages": messages, "body": body})

    def recall(self, id: str) -> tuple[Turn, ...] | None:
        kept = self._store.get(RESPONSES, id)
        return None if kept is None else from_json(json.loads(kept["messages"]))

    def conversations(self) -> list[dict[str, Any]]:
        """Return the conversations, each with its first text, the entries that answered it, and its
        tokens; the newest last."""
        found: dict[str, dict[str, Any]] = {}
        for moment in self._store.find(MOMENTS):
            id = moment["conversation"]
            one = found.setdefault(
                id, {"id": id, "begins": moment["begins"], **_NONE, "answers": {}}
            )
            one["requests"] += moment["asked"]
            one["input_tokens"] += moment["input_tokens"]
            one["output_tokens"] += moment["output_tokens"]
            for entry, times in moment["answers"].items():
                one["answers"][entry] = one["answers"].get(entry, 0) + times
        return list(found.values())

    def _used_before(self, where: ConversationPoint, turn: int) -> list[str]:
        if where.before is None:
            return []
        kept = self._store.get(MOMENTS, where.before)
        if kept is not None:
            return _in_order([kept])
        # Somebody rewrote the history: then what was used at earlier turns of the conversation.
        moments = self._store.find(MOMENTS, {"conversation": where.conversation})
        return _in_order([moment for moment in moments if moment["turn"] < turn])


def _letters(text: str, length: int) -> str:
    return hashlib.shake_256(text.encode()).digest(length).translate(_LETTERS).decode()


def _in_order(moments: list[dict[str, Any]]) -> list[str]:
    """Return all turns that were used at these points, each once."""
    found: dict[str, None] = {}
    for moment in moments:
        found |= dict.fromkeys([*moment["used"], *moment["failed"], *moment["given"]])
    return list(found)
