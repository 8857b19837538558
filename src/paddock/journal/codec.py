"""The journal's encoding: events as canonical JSON, and lines of a journal as events.

This is the only module that knows how a record is written. A line of a journal is one JSON object:

    {"after":"<hash of the line before>","at":<microseconds>,"blobs":[...],"body":{...},
     "n":<number>,"step":<number>,"type":"<name of the event>"}

`body` holds the fields of the event. Fields that have their default value are left out.

Format 1 had eleven types. Everything that was neither an action nor the frame of the journal was
`noted` or `observed`, and its body said under "what" which it was. `_upgraded` turns such a body
into that of the event that has taken its place, so no reader needs to know of it.

A journal may come from anywhere. An envelope that is damaged is an IntegrityError. A body that is
not what its type promises becomes an `Unknown` event, which is shown and never acted on.
"""

from __future__ import annotations

import enum
from collections.abc import Callable
from functools import cache, lru_cache
from json.encoder import encode_basestring
from operator import attrgetter
from typing import Any, get_args

import msgspec

from paddock.journal.canonical import MAX_INTEGER, canonical_text, plain_text
from paddock.journal.plain_values import (
    MAX_VALUE_DEPTH,
    as_json,
    as_text,
    fields_of,
    written_fields,
)
from paddock.journal.strict_json import may_be_too_deep, parse_json
from paddock.model.errors import IntegrityError
from paddock.model.events import (
    AnyEvent,
    BlobRef,
    Decided,
    EncodedEvent,
    Event,
    JsonObject,
    Record,
    Unknown,
)

FORMAT = 2
_MAX_NUMBER = 1 << 53
_MAX_AT = 253_402_300_799_999_999  # the last microsecond of the year 9999


_CLASSES: dict[str, type[Event]] = {
    event.TYPE: event for event in get_args(AnyEvent) if event is not Unknown
}
_DECODERS: dict[str, msgspec.json.Decoder[Event]] = {}


# ---- writing -------------------------------------------------------------------------------------


def encode(event: AnyEvent) -> str:
    """Return the body of a record as canonical JSON."""
    if isinstance(event, Decided) and event.fault is None:
        return _encode_decided(event)  # many actions are decided on in the same words
    return _encode(event)


@lru_cache(maxsize=256)
def _encode_decided(event: Decided) -> str:
    return _encode(event)


def _encode(event: AnyEvent) -> str:
    if isinstance(event, Unknown):
        return canonical_text(event.body)
    # Every action is written three times, so the types that most fields have come first.
    values, keys = _plan(type(event))
    parts = []
    for value, (key, default) in zip(values(event), keys, strict=True):
        if value is default or value == default:
            continue
        kind = type(value)
        if kind is str:
            parts.append(key + encode_basestring(value if value.isascii() else as_text(value)))
        elif kind is bool:
            parts.append(key + ("true" if value else "false"))
        elif kind is int and -MAX_INTEGER <= value <= MAX_INTEGER:
            parts.append(f"{key}{value}")
        elif kind is not dict and isinstance(value, enum.StrEnum):
            parts.append(f'{key}"{value._value_}"')
        else:
            parts.append(key + _value_text(value))
    return f"{{{','.join(parts)}}}"


def _value_text(value: Any) -> str:
    text = plain_text(value, MAX_VALUE_DEPTH)
    return canonical_text(as_json(value)) if text is None else text


@cache
def _plan(cls: type[Event]) -> tuple[Callable[[Event], tuple[Any, ...]], list[tuple[str, Any]]]:
    """Return what gets the fields of an event, and for each its name as it is written and its
    default."""
    fields = fields_of(cls)
    names = [field.name for field in fields]
    if len(names) > 1:
        values: Callable[[Event], tuple[Any, ...]] = attrgetter(*names)
    else:
        values = lambda event: tuple(getattr(event, name) for name in names)  # noqa: E731
    return values, [(f'"{field.key}":', field.default) for field in fields]


def body_of(event: AnyEvent) -> JsonObject:
    """Return the body of a record as a JSON object, with the fields that `encode` writes."""
    if isinstance(event, Unknown):
        return event.body
    return {key: as_json(value) for key, value in written_fields(event)}


# ---- reading -------------------------------------------------------------------------------------


class _Line(msgspec.Struct, frozen=True):
    """The envelope of a record."""

    after: str
    at: int
    body: msgspec.Raw
    n: int
    type: str
    step: int | None = None
    blobs: tuple[BlobRef, ...] = ()


_line_decoder = msgspec.json.Decoder(_Line)


def decode(line: bytes) -> Record:
    """Return the record of a line. Raises IntegrityError for what is no record of a journal."""
    try:
        if may_be_too_deep(line):
            parse_json(line)  # raises ValueError if it is
        envelope = _line_decoder.decode(line)
        _check_numbers(envelope)
        encoded = _encoded_event(envelope) if envelope.blobs else None
        event = _event(envelope) if encoded is None else event_from(encoded, envelope.blobs)
    except (msgspec.MsgspecError, ValueError, RecursionError) as error:
        reason = f"{type(error).__name__}: {error}"
        raise IntegrityError(f"not a record of a journal ({reason:.200})") from None
    return Record(
        n=envelope.n,
        at=envelope.at,
        step=envelope.step,
        event=event,
        blobs=envelope.blobs,
        after=envelope.after,
        encoded=encoded,
    )


def _event(envelope: _Line) -> AnyEvent:
    decoder = _decoder(envelope.type)
    if decoder is not None:
        try:
            return decoder.decode(envelope.body)  # type: ignore[return-value]
        except msgspec.ValidationError:
            pass  # of an earlier version, or not what its type promises
    return event_from(_encoded_event(envelope))


def _encoded_event(envelope: _Line) -> EncodedEvent:
    body = msgspec.json.decode(envelope.body)
    if not isinstance(body, dict):
        raise ValueError("the body is not an object")
    return EncodedEvent(envelope.type, body)


def event_from(encoded: EncodedEvent, blobs: tuple[BlobRef, ...] = ()) -> AnyEvent:
    """Return the event of a body that was parsed already. `blobs` are those values of it that are
    not there."""
    upgrade = _FORMAT_1.get(encoded.type)
    body = _without_previews(encoded.body, blobs)
    name, fields = (encoded.type, body) if upgrade is None else upgrade(body)
    cls = _CLASSES.get(name)
    if cls is not None:
        try:
            return msgspec.convert(fields, cls)  # type: ignore[return-value]
        except (msgspec.ValidationError, RecursionError):
            pass
    return Unknown(encoded.type, encoded.body)


def value_in(record: Record, field: str) -> Any:
    """Return a field of the event as it stands in the record: a large value is its preview."""
    if record.encoded is not None and field in record.encoded.body:
        return record.encoded.body[field]
    return getattr(record.event, field)


def tags_of(classes: tuple[type[Event], ...]) -> frozenset[bytes]:
    """Return the types of the records that can hold such events, as the end of a line has them."""
    names = {cls.TYPE for cls in classes if cls is not Unknown}
    tags = {name.encode() for name in names}
    if names & {*_NOTES.values(), "internal_error", "invalid_call"} or Unknown in classes:
        tags.add(b"noted")
    if names & set(_OBSERVATIONS.values()) or Unknown in classes:
        tags.add(b"observed")
    return frozenset(tags)


def _decoder(type_name: str) -> msgspec.json.Decoder[Event] | None:
    decoder = _DECODERS.get(type_name)
    if decoder is None and type_name in _CLASSES:
        decoder = _DECODERS[type_name] = msgspec.json.Decoder(_CLASSES[type_name])
    return decoder


def _without_previews(body: JsonObject, blobs: tuple[BlobRef, ...]) -> JsonObject:
    """Return the body with an empty object or list in place of one that was stored as a blob. Its
    preview is text, which is not what the field holds; `RunLog.whole` puts the value back."""
    body = dict(body) if blobs else body
    for ref in blobs:
        key = ref.path[1:].replace("~1", "/").replace("~0", "~")
        preview = body.get(key)
        if ref.form == "json" and isinstance(preview, str) and key not in _ANY_VALUE:
            body[key] = [] if preview.startswith("[") else {}
    return body


# Fields that hold any JSON value, and so may hold the preview as well.
_ANY_VALUE = frozenset({"result", "value", "preview"})


def _check_numbers(line: _Line) -> None:
    if not 0 <= line.n <= _MAX_NUMBER or not 0 <= line.at <= _MAX_AT:
        raise ValueError("a number of the record is out of range")
    if line.step is not None and not 0 <= line.step <= _MAX_NUMBER:
        raise ValueError("the step of the record is out of range")
    if line.blobs and any(not 0 <= ref.size_bytes <= _MAX_NUMBER for ref in line.blobs):
        raise ValueError("the size of a blob is out of range")


# ---- format 1 ------------------------------------------------------------------------------------

_NOTES = {
    "setting": "configured",
    "proved": "boundaries_proved",
    "policy changed": "policy_changed",
    "terms": "terms_changed",
    "record budget used up": "budget_used_up",
    "secret revoked": "secret_revoked",
    "reports of the agent were refused: too many": "reports_dropped",
    "refused again": "refused_again",
    "exec refused": "program_refused",
    "alert": "alert",
    "files": "files_recorded",
    "files not recorded": "files_not_recorded",
    "world moved": "world_changed",
    "world reset": "world_reset",
    "world": "world_ended",
    "prompt": "prompt_reported",
    "mark": "marked",
    "memory": "memory_changed",
    "beside": "background_counted",
    "varied": "varied",
    "diverged": "diverged",
    "live": "went_live",
    "fork refused": "fork_refused",
}
_OBSERVATIONS = {
    "exec": "program_started",
    "exit": "program_ended",
    "again": "replay_repeated",
    "beside": "background_answered",
}
_FAILED_WHILE = "failed while "
_ALERT_FIELDS = ("what", "alert", "times")
_Upgrade = Callable[[JsonObject], tuple[str, JsonObject]]


def _upgraded_note(body: JsonObject) -> tuple[str, JsonObject]:
    what = body.get("what")
    if "invalid_call" in body:
        return "invalid_call", {**body, "name": body["invalid_call"]}
    if not isinstance(what, str):
        return "noted", body
    if what.startswith(_FAILED_WHILE):
        return "internal_error", {**body, "doing": what.removeprefix(_FAILED_WHILE)}
    if what == "alert":
        about = {key: value for key, value in body.items() if key not in _ALERT_FIELDS}
        return "alert", {**body, "about": about}
    return _NOTES.get(what, "noted"), body


def _upgraded_observation(body: JsonObject) -> tuple[str, JsonObject]:
    what = body.get("what")
    return _OBSERVATIONS.get(what, "observed") if isinstance(what, str) else "observed", body


def _upgraded_settled(body: JsonObject) -> tuple[str, JsonObject]:
    return "settled", {"result": None, **body}


def _upgraded_asked(body: JsonObject) -> tuple[str, JsonObject]:
    return "asked", {"preview": None, **body}


_FORMAT_1: dict[str, _Upgrade] = {
    "noted": _upgraded_note,
    "observed": _upgraded_observation,
    "settled": _upgraded_settled,
    "asked": _upgraded_asked,
}
