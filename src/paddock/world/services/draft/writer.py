"""A write that is kept instead of sent: what it does to the shadow, and what it is answered."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any
from urllib.parse import quote

import msgspec
from msgspec.structs import replace

from paddock.world.asgi import HttpAnswer
from paddock.world.context import Context
from paddock.world.overlay.ids import ID_FIELDS, has_id, like, shadow_id, style
from paddock.world.overlay.new_record import fresh, latest
from paddock.world.overlay.patches import CannotApply, is_operations, typed
from paddock.world.overlay.paths import is_id, last, parent, singular
from paddock.world.overlay.shapes import Keys, find_record, get, put, wrapper_of
from paddock.world.overlay.targets import (
    KnownPaths,
    WriteKind,
    WriteTarget,
    acting,
    outcome,
    target,
)
from paddock.world.services.draft.answers import (
    WriteRefused,
    answer,
    dumped,
    etag_of,
    matches,
    refusal,
)
from paddock.world.services.draft.changes import MAX_CHANGES, added, applied
from paddock.world.services.draft.document import Guess
from paddock.world.services.draft.memory import DraftMemory, Record, SeenRecord, Shadow


class CapturedWrite(msgspec.Struct, frozen=True):
    """One, read."""

    method: str  # that the server would have taken it for
    path: str  # canonical
    raw_path: str
    body: Any
    is_form: bool = False
    is_strict: bool = False  # a merge patch by its media type
    if_match: str = ""
    if_none_match: str = ""
    guess: Guess | None = None  # what a document says that it is answered


class DraftWriter:
    """Does writes to the shadow. Each call is one transaction of its caller."""

    def __init__(self, context: Context, memory: DraftMemory) -> None:
        self._context = context
        self._memory = memory
        self._known = KnownPaths(lambda path: bool(memory.pages(path)), memory.is_record)

    def aim(self, write: CapturedWrite) -> WriteTarget:
        if write.method in ("GET", "HEAD"):
            return acting(write.path, self._known)
        return target(write.method, write.path, write.body, self._known)

    def refusal(self, write: CapturedWrite, aim: WriteTarget) -> HttpAnswer | None:
        """What the real host would not have done either."""
        memory = self._memory
        if memory.is_full:
            return refusal(507, None, "a draft keeps no more writes")
        if memory.gone_above(write.path):
            return refusal(404, memory.refusal(404))
        if write.guess is not None and write.guess[0] >= 400:
            return answer(*write.guess, "refused")
        if aim.does in (WriteKind.CREATE, WriteKind.ASK, WriteKind.EMPTY):
            return None
        shadow, seen = memory.shadow(aim.path), memory.seen(aim.path)
        is_there = shadow is not None and not shadow.is_gone
        is_missing = (shadow is not None and shadow.is_gone) or (
            shadow is None and (self._never(aim.path) or (seen is not None and seen.record is None))
        )
        if is_missing and aim.does is not WriteKind.REPLACE:
            return refusal(404, memory.refusal(404))
        if shadow is not None and len(shadow.changes) >= MAX_CHANGES:
            return refusal(507, None, "too many changes of one record")
        return self._unmet(write, aim.path, is_there or (seen is not None and not is_missing))

    def do(self, write: CapturedWrite, aim: WriteTarget, order: int, seconds: float) -> HttpAnswer:
        """Raises WriteRefused."""
        if aim.does is WriteKind.CREATE:
            return self._create(write, aim.path, order, seconds)
        if aim.does is WriteKind.DELETE:
            return self._delete(write, aim.path, order, seconds)
        if aim.does is WriteKind.EMPTY:
            self._memory.empty(aim.path, order, seconds)
            return self._done(write, 204, None)
        if aim.does is WriteKind.ACT:
            return self._act(write, aim, order, seconds)
        if aim.does is WriteKind.ASK:
            return answer(200, {"data": None}, "captured")
        return self._change(write, aim, order, seconds)

    def _create(
        self, write: CapturedWrite, collection: str, order: int, seconds: float
    ) -> HttpAnswer:
        name = last(collection)
        keys = wrapper_of(write.body, name)
        sent = get(write.body, keys)
        if isinstance(sent, list) and sent and all(isinstance(one, Mapping) for one in sent):
            made = [self._made(write, collection, one, keys, order, seconds) for one in sent]
            return answer(201, [one.record for one in made], ",".join(one.key for one in made))
        fields = sent if isinstance(sent, Mapping) else {}
        guess = write.guess
        one = self._made(write, collection, fields, keys, order, seconds, guess)
        status = guess[0] if guess is not None and 200 <= guess[0] < 300 else 201
        location = write.raw_path.rstrip("/").removesuffix(".json") + "/" + quote(one.key, safe="")
        where = [(b"location", location.encode("latin-1", "replace"))]
        return answer(status, put({}, one.wrapper, one.record), one.key, where)

    def _made(
        self, write: CapturedWrite, collection: str, sent: Mapping[str, Any], keys: Keys, order: int,
        seconds: float, guess: Guess | None = None,
    ) -> Shadow:  # fmt: skip
        siblings = self._memory.siblings(collection)
        seconds = max(seconds, latest(siblings) + 1, self._memory.latest(collection) + 1)
        wrapper = self._memory.wrapper(collection + "/0") or keys
        record: Record | None = None
        if guess is not None and isinstance(guess[1], Mapping):
            way = find_record(guess[1], last(collection))
            wrapper = wrapper or way
            record = self._by_document(get(guess[1], way), sent, siblings)
        if record is None:
            record = fresh(sent, siblings, self._new_id, seconds, is_form=write.is_form)
        record = _with_parent(record, collection)
        field = self._key_field(collection, record)
        path = f"{collection.rstrip('/')}/{quote(str(record[field]), safe='')}"
        one = Shadow(path, "created", order, seconds, record, (), field, True, wrapper)
        self._memory.put(one)
        return one

    def _by_document(
        self, guess: Any, sent: Mapping[str, Any], siblings: list[Record]
    ) -> Record | None:
        if not isinstance(guess, Mapping):
            return None
        record = {**guess, **sent}
        for name in ID_FIELDS[:7]:
            if name in guess and name not in sent:
                values = [one[name] for one in siblings if name in one] or [guess[name]]
                record[name] = self._new_id(style(values))
        if not any(name in record for name in ID_FIELDS[:7]):
            record = {"id": self._new_id("str"), **record}
        return record

    def _key_field(self, collection: str, record: Record) -> str:
        """That the paths of its siblings are made of."""
        for name in (self._memory.field(collection + "/0"), *ID_FIELDS):
            if name is not None and isinstance(record.get(name), str | int):
                return name
        record["id"] = self._new_id("str")
        return "id"

    def _change(
        self, write: CapturedWrite, aim: WriteTarget, order: int, seconds: float
    ) -> HttpAnswer:
        path, memory = aim.path, self._memory
        shadow, seen = memory.shadow(path), memory.seen(path)
        base = self._now(shadow, seen)
        keys = wrapper_of(write.body, last(parent(path)))
        sent = get(write.body, keys)
        change = {"how": _how(write, aim.does, sent), "seconds": seconds,
                  "body": typed(sent, base) if write.is_form else sent}  # fmt: skip
        try:
            new = applied(base, [change])
        except CannotApply as error:
            raise WriteRefused(refusal(409, memory.refusal(409), str(error))) from None
        wrapper = (shadow and shadow.wrapper) or (seen and seen.wrapper) or keys
        field = (shadow and shadow.field) or self._memory.field(path)
        if base is None and isinstance(new, Mapping) and not has_id(new):
            new = {"id": like(last(path), self._sample(path)), **new}
        if shadow is not None and shadow.state == "created":
            memory.put(replace(shadow, record=new, seconds=seconds))
        elif self._is_absent(shadow, seen, path):
            memory.put(Shadow(path, "created", order, seconds, new, (), field, True, wrapper))
        else:
            old = shadow.changes if shadow is not None and not shadow.is_gone else ()
            first = shadow.order if shadow is not None else order
            changes = added(old, change)
            memory.put(
                Shadow(path, "changed", first, seconds, None, changes, field, False, wrapper)
            )
        return self._done(write, 200, put({}, wrapper, new) if base is not None else None, new)

    def _act(
        self, write: CapturedWrite, aim: WriteTarget, order: int, seconds: float
    ) -> HttpAnswer:
        shadow, seen = self._memory.shadow(aim.path), self._memory.seen(aim.path)
        base = self._now(shadow, seen)
        if not isinstance(base, Mapping):
            return self._done(write, 200, None, {} if write.body is None else write.body)
        siblings = [*self._memory.siblings(parent(aim.path)), base]
        done = outcome(aim.verb, base, list(siblings))
        if not done:
            wrapper = (shadow and shadow.wrapper) or (seen and seen.wrapper) or ()
            return self._done(write, 200, put({}, wrapper, base))
        patch = CapturedWrite("PATCH", aim.path, write.raw_path, done)
        return self._change(patch, WriteTarget(WriteKind.CHANGE, aim.path), order, seconds)

    def _delete(self, write: CapturedWrite, path: str, order: int, seconds: float) -> HttpAnswer:
        shadow = self._memory.shadow(path)
        is_unreal = shadow is not None and shadow.is_unreal
        field = (shadow and shadow.field) or self._memory.field(path)
        self._memory.put(Shadow(path, "deleted", order, seconds, field=field, is_unreal=is_unreal))
        return self._done(write, 204, None)

    def _done(self, write: CapturedWrite, status: int, value: Any, echo: Any = None) -> HttpAnswer:
        """With what is known; else what the document says; else what was sent."""
        if value is None and write.guess is not None and 200 <= write.guess[0] < 300:
            return answer(*write.guess, "captured")
        said = answer(status, echo if value is None else value, "captured")
        if isinstance(said.body, bytes) and said.body and (seen := self._memory.seen(write.path)):
            self._memory.learn_record(write.path, replace(seen, etag=etag_of(said.body)))
        return said

    def _unmet(self, write: CapturedWrite, path: str, is_there: bool) -> HttpAnswer | None:
        if write.if_none_match == "*" and is_there:
            return refusal(412, self._memory.refusal(412))
        shadow, seen = self._memory.shadow(path), self._memory.seen(path)
        etag = seen.etag if seen is not None else ""
        if shadow is not None and shadow.state == "created":
            etag = etag_of(dumped(put({}, shadow.wrapper, shadow.record)))
        if write.if_match and etag and not matches(write.if_match, etag):
            return refusal(412, self._memory.refusal(412))
        return None

    def _now(self, shadow: Shadow | None, seen: SeenRecord | None) -> Any:
        if shadow is not None and shadow.state == "created":
            return shadow.record
        if seen is None or seen.record is None or (shadow is not None and shadow.is_gone):
            return None
        try:
            return applied(seen.record, shadow.changes if shadow is not None else ())
        except CannotApply:
            return seen.record

    def _never(self, path: str) -> bool:
        """The id of a shadow that nobody made, or that is gone."""
        return self._memory.is_issued(last(path))

    def _is_absent(self, shadow: Shadow | None, seen: SeenRecord | None, path: str) -> bool:
        if shadow is not None and shadow.is_gone:
            return shadow.is_unreal
        return self._never(path) or (shadow is None and seen is not None and seen.record is None)

    def _sample(self, path: str) -> Any:
        found = self._memory.siblings(parent(path))
        return found[0].get("id") if found else None

    def _new_id(self, style: str) -> str | int:
        number = self._memory.store.next("shadow")
        letters = self._context.new_id("shadow_", 16).removeprefix("shadow_")
        return shadow_id(style, number, letters)


def _how(write: CapturedWrite, does: WriteKind, sent: Any) -> str:
    if is_operations(sent) and write.method == "PATCH" and sent:
        return "patch"
    if does is WriteKind.REPLACE:
        return "replace"
    return "strict" if write.is_strict else "merge"


def _with_parent(record: Record, collection: str) -> Record:
    """`/tickets/7/comments` has comments whose `ticket_id` is 7, if they have such a field."""
    above = parent(collection)
    if not is_id(last(above)):
        return record
    word = singular(last(parent(above)))
    for name in (f"{word}_id", f"{word}Id"):
        if name in record:
            return {**record, name: like(last(above), record[name])}
    return record
