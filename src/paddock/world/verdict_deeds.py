"""What an agent did, step by step, as far as verdicts on faults need it. Read from the records of a
run; a journal may say anything, so what has the wrong shape is taken for not said.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterator, Mapping
from dataclasses import field
from typing import Any

from paddock.journal.reader import Reader, Spot
from paddock.journal.records import Record
from paddock.model.values import dataclass
from paddock.policy.faults import INSTEAD

MAX_WHAT = 200
_PARTS = frozenset({b"decided", b"asked", b"settled"})
_DONE = frozenset({"done", "simulated", "drafted"})
_KEY_HEADERS = ("idempotency-key", "x-idempotency-key")
_KEY_NAMES = frozenset({"idempotency_key", "idempotencykey", "client_token", "clienttoken"})
_NO_EFFECT = (*INSTEAD, "kill")
# With these the agent gets no answer, or one that it can see is broken.
_SEEN = ("after", "truncate", "malformed", "wrong_type", "kill")


@dataclass(slots=True)
class Deed:
    """One action of a run, what a fault did to it, and what came of it."""

    step: int
    at: int  # microseconds since 1970
    kind: str
    what: str  # in one line, for people
    place: str  # the host, tool or program
    thing: str  # equal for tries of the same
    is_write: bool
    key: str | None = None  # that makes a write safe to repeat
    words: Mapping[str, Any] = field(default_factory=dict)  # of the fault, if one struck
    fault_id: str = ""
    is_asked: bool = False
    outcome: str | None = None
    status: int | None = None
    ended_at: int | None = None

    @property
    def took_effect(self) -> bool:
        """Whether what was wanted really happened, whatever the agent was told."""
        is_late = "after" in self.words
        if not is_late and any(word in self.words for word in _NO_EFFECT):
            return False
        if self.status is not None and self.status >= 400:
            return False
        return self.outcome in _DONE or (is_late and self.outcome in ("faulted", "failed"))

    @property
    def is_answered(self) -> bool:
        """Whether the agent was told that it happened, and could read what it was told."""
        return self.took_effect and not any(word in self.words for word in _SEEN)

    @property
    def retry_after_s(self) -> float | None:
        """How long the answer asked the agent to wait."""
        said = self.words.get("retry_after")
        headers = self.words.get("headers")
        if said is None and isinstance(headers, Mapping):
            lower = {str(name).lower(): value for name, value in headers.items()}
            said = lower.get("retry-after")
        try:
            return None if said is None or isinstance(said, bool) else float(said)
        except (TypeError, ValueError):
            return None


@dataclass(slots=True)
class Past:
    """A run as verdicts need it."""

    deeds: list[Deed] = field(default_factory=list)
    broken: dict[str, list[str]] = field(default_factory=dict)  # by service, at the end


def read_past(reader: Reader) -> Past:
    """One pass over the journal."""
    past = Past()
    known: dict[int, Deed] = {}
    for _, line, (_, step, kind) in reader.scan(Spot(1, 0)):
        if step is not None and kind == b"proposed":
            known[step] = deed = _proposed(Record.parse(line))
            past.deeds.append(deed)
        elif step in known and kind in _PARTS:
            assert step is not None
            _add(known[step], kind, Record.parse(line))
        elif kind == b"noted" and b'"broken"' in line:
            past.broken = _broken(Record.parse(line).body) or past.broken
    past.deeds.sort(key=lambda deed: deed.step)
    return past


def _proposed(record: Record) -> Deed:
    body = record.body
    kind, name = _text(body.get("kind")), _text(body.get("name"))
    given = _mapping(body.get("arguments"))
    is_write = body.get("effect") in ("write", "admin")
    place, what = _place_and_what(kind, name, given)
    # Large values are previews in the body; what they really are is in their digests.
    blobs = [(one.path, one.sha256) for one in record.blobs if "/headers" not in one.path]
    thing = _digest([kind, what, _content(kind, given), blobs] if is_write else [kind, what])
    return Deed(
        step=record.step or 0,
        at=record.at,
        kind=kind,
        what=what[:MAX_WHAT],
        place=place,
        thing=thing,
        is_write=is_write,
        key=_key(given),
    )


def _add(deed: Deed, kind: bytes, record: Record) -> None:
    body = record.body
    if kind == b"asked":
        deed.is_asked = True
    elif kind == b"decided":
        words = _mapping(body.get("fault"))
        deed.words = {name: value for name, value in words.items() if name != "id"}
        if words:
            deed.fault_id = _text(words.get("id")) or _text(body.get("decided_by"))
        deed.is_write = deed.is_write or body.get("effect") in ("write", "admin")
    else:
        status = _mapping(body.get("result")).get("status")
        deed.outcome = _text(body.get("outcome"))
        deed.status = status if type(status) is int else None
        deed.ended_at = record.at


def _place_and_what(kind: str, name: str, given: Mapping[str, Any]) -> tuple[str, str]:
    host = _text(given.get("host"))
    match kind:
        case "http":
            query = f"?{given['query']}" if given.get("query") else ""
            return host, f"{given.get('method')} {host}{given.get('path')}{query}"
        case "connect":
            return host, f"{host}:{given.get('port')}"
        case "model":
            return host or name, f"{given.get('model') or name} at {host}"
        case "exec":
            argv = given.get("argv")
            words = argv if isinstance(argv, list) else [name]
            return name, " ".join(map(str, words))
        case "file":
            return name, f"{name} {given.get('path')}"
    return name, name


def _content(kind: str, given: Mapping[str, Any]) -> Any:
    """What a write carries, without what makes no two tries equal."""
    if kind in ("http", "model"):
        body = given.get("body")
        return given.get("body_sha256") if body is None else _without_key(body)
    return _without_key(given)


def _without_key(value: Any) -> Any:
    if not isinstance(value, Mapping):
        return value
    return {name: one for name, one in value.items() if str(name).lower() not in _KEY_NAMES}


def _key(given: Mapping[str, Any]) -> str | None:
    headers = _mapping(given.get("headers"))
    for name in _KEY_HEADERS:
        if headers.get(name):
            return str(headers[name])
    for source in (given, _mapping(given.get("body"))):
        for name, value in source.items():
            if str(name).lower() in _KEY_NAMES and value:
                return str(value)
    return None


def _broken(body: Mapping[str, Any]) -> dict[str, list[str]]:
    if body.get("what") != "world":
        return {}
    found = _mapping(body.get("broken")).items()
    return {
        str(service): [str(one) for one in said] if isinstance(said, list) else [str(said)]
        for service, said in found
        if said
    }


def broken_note(broken: Mapping[str, list[str]]) -> dict[str, Any]:
    """The note in which a run says, at its end, which invariants of its services are broken."""
    return {"what": "world", "broken": {name: list(said) for name, said in broken.items()}}


def struck(past: Past) -> Iterator[Deed]:
    """What a fault struck, in order."""
    return (deed for deed in past.deeds if deed.words or deed.fault_id)


def _digest(value: Any) -> str:
    text = json.dumps(value, sort_keys=True, default=str)
    return hashlib.sha256(text.encode()).hexdigest()


def _text(value: Any) -> str:
    return value if isinstance(value, str) else ""


def _mapping(value: Any) -> Mapping[str, Any]:
    return value if isinstance(value, Mapping) else {}
