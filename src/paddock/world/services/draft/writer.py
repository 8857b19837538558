"""Captured writes: their effect on the shadows, and their answers."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any
from urllib.parse import quote

import msgspec
from msgspec.structs import replace

from paddock.world.context import Context
from paddock.world.overlay.ids import (
    ID_FIELDS,
    OWN_ID_FIELDS,
    has_id,
    id_style,
    key_like,
    shadow_id,
)
from paddock.world.overlay.new_record import latest_creation, new_record
from paddock.world.overlay.patches import (
    MAX_CHANGES,
    CannotApply,
    add_change,
    apply_changes,
    is_json_patch,
    typed_like,
)
from paddock.world.overlay.paths import is_id, last_part, parent, singular
from paddock.world.overlay.shapes import Keys, find_record, get_at, put_at, wrapper_of
from paddock.world.overlay.targets import (
    KnownPaths,
    WriteKind,
    WriteTarget,
    action_changes,
    action_target,
    write_target,
)
from paddock.world.services.draft.answers import (
    DraftAnswer,
    WriteRefused,
    dump_json,
    etag_matches,
    etag_of,
    json_answer,
    refusal,
)
from paddock.world.services.draft.memory import DraftMemory, Record, SeenRecord, Shadow

ExpectedAnswer = tuple[int, Any]  # a status and a body


class CapturedWrite(msgspec.Struct, frozen=True):
    """One write, parsed."""

    method: str  # the effective one
    path: str  # canonical
    raw_path: str
    body: Any
    is_form: bool = False
    is_strict: bool = False  # a merge patch by its media type
    if_match: str = ""
    if_none_match: str = ""
    expected: ExpectedAnswer | None = None  # by the OpenAPI document, if there is one

    @property
    def expected_success(self) -> ExpectedAnswer | None:
        return self.expected if self.expected and 200 <= self.expected[0] < 300 else None


class _WriteTime(msgspec.Struct, frozen=True):
    order: int  # number of the write
    seconds: float


class DraftWriter:
    """Applies writes to the shadows. The caller opens a transaction around each call."""

    def __init__(self, context: Context, memory: DraftMemory) -> None:
        self._context = context
        self._memory = memory
        self._known = KnownPaths(lambda path: bool(memory.pages(path)), memory.is_record)

    def target(self, write: CapturedWrite) -> WriteTarget:
        if write.method in ("GET", "HEAD"):
            return action_target(write.path, self._known)
        return write_target(write.method, write.path, write.body, self._known)

    def refusal(self, write: CapturedWrite, target: WriteTarget) -> DraftAnswer | None:
        """Return the answer to a write that the real host would refuse, else None."""
        memory = self._memory
        if memory.is_full:
            return refusal(507, None, "a draft keeps no more writes")
        if memory.is_below_deleted(write.path):
            return refusal(404, memory.refusal(404))
        if write.expected is not None and write.expected[0] >= 400:
            return json_answer(*write.expected, "refused")
        if target.kind in (WriteKind.CREATE, WriteKind.GRAPHQL, WriteKind.EMPTY):
            return None
        shadow, seen = memory.shadow(target.path), memory.seen(target.path)
        if shadow is not None:
            is_missing = shadow.is_gone
        else:
            is_unknown_shadow = memory.is_issued(last_part(target.path))
            is_missing = is_unknown_shadow or (seen is not None and seen.record is None)
        if is_missing and target.kind is not WriteKind.REPLACE:
            return refusal(404, memory.refusal(404))
        if shadow is not None and len(shadow.changes) >= MAX_CHANGES:
            return refusal(507, None, "too many changes of one record")
        is_known_to_exist = not is_missing and (shadow is not None or seen is not None)
        if self._fails_precondition(write, target.path, is_known_to_exist):
            return refusal(412, memory.refusal(412))
        return None

    def apply(
        self, write: CapturedWrite, target: WriteTarget, order: int, seconds: float
    ) -> DraftAnswer:
        """Apply a write and answer it. Raises WriteRefused."""
        time = _WriteTime(order, seconds)
        match target.kind:
            case WriteKind.CREATE:
                return self._create(write, target.path, time)
            case WriteKind.DELETE:
                return self._delete(write, target.path, time)
            case WriteKind.EMPTY:
                self._memory.empty(target.path, order, seconds)
                return self._answer(write, 204, None)
            case WriteKind.ACT:
                return self._act(write, target, time)
            case WriteKind.GRAPHQL:
                return json_answer(200, {"data": None}, "captured")
        return self._change(write, target, time)

    def _create(self, write: CapturedWrite, collection: str, time: _WriteTime) -> DraftAnswer:
        keys = wrapper_of(write.body, last_part(collection))
        sent = get_at(write.body, keys)
        if isinstance(sent, list) and sent and all(isinstance(item, Mapping) for item in sent):
            bulk = replace(write, expected=None)
            shadows = [self._create_record(bulk, collection, item, keys, time) for item in sent]
            records = [shadow.record for shadow in shadows]
            return json_answer(201, records, ",".join(shadow.key for shadow in shadows))
        fields = sent if isinstance(sent, Mapping) else {}
        shadow = self._create_record(write, collection, fields, keys, time)
        status = write.expected_success[0] if write.expected_success else 201
        url = write.raw_path.rstrip("/").removesuffix(".json") + "/" + quote(shadow.key, safe="")
        location = [(b"location", url.encode("latin-1", "replace"))]
        body = put_at({}, shadow.wrapper, shadow.record)
        return json_answer(status, body, shadow.key, location)

    def _create_record(
        self,
        write: CapturedWrite,
        collection: str,
        sent: Mapping[str, Any],
        keys: Keys,
        time: _WriteTime,
    ) -> Shadow:
        siblings = self._memory.siblings(collection)
        latest = max(latest_creation(siblings), self._memory.latest(collection))
        seconds = max(time.seconds, latest + 1)
        wrapper = self._memory.wrapper(collection + "/0") or keys
        record: Record | None = None
        if write.expected is not None and isinstance(write.expected[1], Mapping):
            record_keys = find_record(write.expected[1], last_part(collection))
            wrapper = wrapper or record_keys
            expected = get_at(write.expected[1], record_keys)
            if isinstance(expected, Mapping):
                record = self._complete_expected(expected, sent, siblings)
        if record is None:
            record = new_record(sent, siblings, self._new_id, seconds, is_form=write.is_form)
        record = _with_parent_id(record, collection)
        field = self._key_field(collection, record)
        path = f"{collection.rstrip('/')}/{quote(str(record[field]), safe='')}"
        shadow = Shadow(path, "created", time.order, seconds, record, (), field, True, wrapper)
        self._memory.put(shadow)
        return shadow

    def _complete_expected(
        self, expected: Mapping[str, Any], sent: Mapping[str, Any], siblings: list[Record]
    ) -> Record:
        """Return the record that the OpenAPI document expects, with ids like the siblings'."""
        record = {**expected, **sent}
        for name in OWN_ID_FIELDS:
            if name in expected and name not in sent:
                values = [sibling[name] for sibling in siblings if name in sibling]
                record[name] = self._new_id(id_style(values or [expected[name]]))
        if not any(name in record for name in OWN_ID_FIELDS):
            record = {"id": self._new_id("str"), **record}
        return record

    def _key_field(self, collection: str, record: Record) -> str:
        """Return the field that the paths of the siblings are made of."""
        for name in (self._memory.key_field(collection + "/0"), *ID_FIELDS):
            if name is not None and isinstance(record.get(name), str | int):
                return name
        record["id"] = self._new_id("str")
        return "id"

    def _change(self, write: CapturedWrite, target: WriteTarget, time: _WriteTime) -> DraftAnswer:
        path, memory = target.path, self._memory
        shadow, seen = memory.shadow(path), memory.seen(path)
        base = _current_record(shadow, seen)
        keys = wrapper_of(write.body, last_part(parent(path)))
        sent = get_at(write.body, keys)
        change = {
            "how": _change_kind(write, target.kind, sent),
            "seconds": time.seconds,
            "body": typed_like(sent, base) if write.is_form else sent,
        }
        try:
            new = apply_changes(base, [change])
        except CannotApply as error:
            raise WriteRefused(refusal(409, memory.refusal(409), str(error))) from None
        if base is None and isinstance(new, Mapping) and not has_id(new):
            siblings = memory.siblings(parent(path))
            sample = siblings[0].get("id") if siblings else None
            new = {"id": key_like(last_part(path), sample), **new}
        wrapper = _known_wrapper(shadow, seen) or keys
        if shadow is not None and shadow.state == "created":
            memory.put(replace(shadow, record=new, seconds=time.seconds))
        else:
            field = self._field_of(shadow, path)
            if self._is_new(shadow, seen, path):
                changed = Shadow(
                    path, "created", time.order, time.seconds, new, (), field, True, wrapper
                )
            else:
                changes = shadow.changes if shadow is not None and not shadow.is_gone else ()
                order = time.order if shadow is None else shadow.order
                changes = add_change(changes, change)
                changed = Shadow(
                    path, "changed", order, time.seconds, None, changes, field, False, wrapper
                )
            memory.put(changed)
        body = None if base is None else put_at({}, wrapper, new)
        return self._answer(write, 200, body, echo=new)

    def _act(self, write: CapturedWrite, target: WriteTarget, time: _WriteTime) -> DraftAnswer:
        shadow, seen = self._memory.shadow(target.path), self._memory.seen(target.path)
        record = _current_record(shadow, seen)
        if not isinstance(record, Mapping):
            return self._answer(write, 200, None, echo={} if write.body is None else write.body)
        siblings = [*self._memory.siblings(parent(target.path)), record]
        changes = action_changes(target.action, record, list(siblings))
        if not changes:
            return self._answer(write, 200, put_at({}, _known_wrapper(shadow, seen), record))
        patch = CapturedWrite("PATCH", target.path, write.raw_path, changes)
        return self._change(patch, WriteTarget(WriteKind.CHANGE, target.path), time)

    def _delete(self, write: CapturedWrite, path: str, time: _WriteTime) -> DraftAnswer:
        shadow = self._memory.shadow(path)
        deleted = Shadow(
            path,
            "deleted",
            time.order,
            time.seconds,
            field=self._field_of(shadow, path),
            is_unreal=shadow is not None and shadow.is_unreal,
        )
        self._memory.put(deleted)
        return self._answer(write, 204, None)

    def _answer(
        self, write: CapturedWrite, status: int, value: Any, echo: Any = None
    ) -> DraftAnswer:
        """Answer with the value if it is known, else as the OpenAPI document says, else with the
        echo of what was sent."""
        if value is None and write.expected_success is not None:
            return json_answer(*write.expected_success, "captured")
        answer = json_answer(status, echo if value is None else value, "captured")
        seen = self._memory.seen(write.path) if answer.body else None
        if seen is not None:
            self._memory.learn_record(write.path, replace(seen, etag=etag_of(answer.body)))
        return answer

    def _fails_precondition(self, write: CapturedWrite, path: str, exists: bool) -> bool:
        if write.if_none_match == "*" and exists:
            return True
        shadow, seen = self._memory.shadow(path), self._memory.seen(path)
        etag = "" if seen is None else seen.etag
        if shadow is not None and shadow.state == "created":
            etag = etag_of(dump_json(put_at({}, shadow.wrapper, shadow.record)))
        return bool(write.if_match and etag) and not etag_matches(write.if_match, etag)

    def _field_of(self, shadow: Shadow | None, path: str) -> str | None:
        if shadow is not None and shadow.field:
            return shadow.field
        return self._memory.key_field(path)

    def _is_new(self, shadow: Shadow | None, seen: SeenRecord | None, path: str) -> bool:
        """Return whether a change creates the record, because the real host does not have it."""
        if shadow is not None and shadow.is_gone:
            return shadow.is_unreal
        is_absent = shadow is None and seen is not None and seen.record is None
        return is_absent or self._memory.is_issued(last_part(path))

    def _new_id(self, style: str) -> str | int:
        number = self._memory.store.next("shadow")
        letters = self._context.new_id("shadow_", 16).removeprefix("shadow_")
        return shadow_id(style, number, letters)


def _current_record(shadow: Shadow | None, seen: SeenRecord | None) -> Any:
    if shadow is not None and shadow.state == "created":
        return shadow.record
    if seen is None or seen.record is None or (shadow is not None and shadow.is_gone):
        return None
    try:
        return apply_changes(seen.record, () if shadow is None else shadow.changes)
    except CannotApply:
        return seen.record


def _known_wrapper(shadow: Shadow | None, seen: SeenRecord | None) -> Keys:
    if shadow is not None and shadow.wrapper:
        return shadow.wrapper
    return () if seen is None else seen.wrapper


def _change_kind(write: CapturedWrite, kind: WriteKind, sent: Any) -> str:
    if is_json_patch(sent) and write.method == "PATCH" and sent:
        return "patch"
    if kind is WriteKind.REPLACE:
        return "replace"
    return "strict" if write.is_strict else "merge"


def _with_parent_id(record: Record, collection: str) -> Record:
    """Set `ticket_id` of a new comment in `/tickets/7/comments` to 7, if there is such a field."""
    above = parent(collection)
    if not is_id(last_part(above)):
        return record
    noun = singular(last_part(parent(above)))
    for name in (f"{noun}_id", f"{noun}Id"):
        if name in record:
            return {**record, name: key_like(last_part(above), record[name])}
    return record
