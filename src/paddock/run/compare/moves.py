"""One step of a run as comparing needs it: short, with digests in place of what is long. What is
new with every run (process ids, dates, ids of requests) is no part of a digest.
"""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Iterable, Mapping
from dataclasses import field
from typing import Any

from paddock.journal.calls import answer_lines, call_words, request_money
from paddock.journal.reader import Spot
from paddock.journal.records import BlobRef, Record
from paddock.journal.traffic import mapping
from paddock.model.plural import many
from paddock.model.values import dataclass
from paddock.run.matching.volatile import dropped, entries

MAX_NAME = 200
# Named in docs/compare.md. They differ between two runs that did the same.
VARYING_KEYS = frozenset({"pid", "duration_us", "http_version", "sealed", "begun"})
VARYING_HEADERS = frozenset({
    "age", "date", "etag", "expires", "last-modified", "request-id", "set-cookie",
    "x-amzn-requestid",
})  # fmt: skip
_VARYING_PREFIXES = ("x-ratelimit-", "anthropic-ratelimit-", "cf-")
_DIGIT = re.compile(r"[0-9]")
_IN_HEADERS = re.compile(r"/headers/([^/]+)")
# Of a command these words say what it is: `git status` is not `git push`.
_TELLING_WORDS = 2


@dataclass(slots=True)
class Move:
    """One step. `key` is equal for steps that want something of the same sort, `proposal` for
    steps that want exactly the same."""

    step: int
    n: int  # the record in which it was proposed
    at: int  # microseconds since 1970
    kind: str
    name: str
    key: str
    call: str  # what was wanted, in one line
    place: str  # host, tool or program
    proposal: str
    spot: Spot
    parent: int | None = None
    verdict: str | None = None
    decided_by: str | None = None
    why: str | None = None
    fault: Mapping[str, Any] = field(default_factory=dict)
    is_again: bool = False  # answered from a record
    outcome: str | None = None
    answer: str | None = None
    says: tuple[str, ...] = ()  # what a model answered, in lines for people
    status: int | None = None  # of a request
    exit_code: int | None = None  # of a program
    carries: int | None = None  # of a request: the question to a model that is a step inside it
    ended_n: int | None = None
    ended_at: int | None = None
    settled: Spot | None = None
    pid: int | None = None  # of a program that a program started
    ran_us: int | None = None  # how long that program ran
    repeats: int = 0  # how often it was refused again, without a step for each

    @property
    def duration_us(self) -> int | None:
        if self.pid is not None and self.outcome == "done":
            return self.ran_us  # it is settled when it is let through
        return None if self.ended_at is None else max(self.ended_at - self.at, 0)

    @property
    def result(self) -> str:
        """What came of it in a few words: `done 200`, `failed exit 1`."""
        words = [self.outcome or "no end"]
        if self.status is not None:
            words.append(str(self.status))
        if self.exit_code:
            words.append(f"exit {self.exit_code}")
        if self.repeats:
            words.append(f"and {many(self.repeats, 'more time')}")
        return " ".join(words)


def proposed_move(record: Record, spot: Spot) -> Move:
    """From the record in which it was proposed."""
    body = record.body
    kind, name = _text(body, "kind"), _text(body, "name")[:MAX_NAME]
    given = mapping(body.get("arguments"))
    parent = body.get("parent")
    return Move(
        step=record.step or 0,
        n=record.n,
        at=record.at,
        kind=kind,
        name=name,
        key=_key(kind, name, given),
        call=_call(kind, name, given),
        place=(_text(given, "host") or name)[:MAX_NAME],
        proposal=digest_of([kind, name, without_varying(given)], record.blobs),
        spot=spot,
        parent=parent if type(parent) is int else None,
        pid=_whole(given.get("pid")) if kind == "exec" else None,
    )


def add_decided(move: Move, record: Record) -> None:
    """The decision that holds is the last one."""
    body = record.body
    move.verdict = _text(body, "verdict") or None
    move.decided_by = _text(body, "decided_by")[:MAX_NAME] or None
    move.why = _text(body, "why") or None
    move.fault = mapping(body.get("fault"))
    move.is_again = "again" in body


def add_settled(move: Move, record: Record, spot: Spot) -> None:
    body = record.body
    result = mapping(body.get("result"))
    move.outcome = _text(body, "outcome") or None
    move.answer = digest_of(answer_of(body), record.blobs)
    move.says = tuple(answer_lines(result)) if move.kind == "model" else ()
    move.status = _whole(result.get("status"))
    move.exit_code = _whole(result.get("exit_code"))
    move.carries = _whole(result.get("model_step"))
    move.ended_n, move.ended_at, move.settled = record.n, record.at, spot


def add_exit(move: Move, body: Mapping[str, Any]) -> None:
    """The end of a program, if it is the step's own and not one that it started."""
    if move.pid is not None and body.get("pid") == move.pid and move.ran_us is None:
        move.ran_us = _whole(body.get("duration_us"))


def answer_of(settled: Mapping[str, Any]) -> dict[str, Any]:
    """What the agent got back: the result and the error, without the cost and ids of our own."""
    found = {"result": without_varying(settled.get("result"))}
    return {**found, "error": settled["error"]} if settled.get("error") else found


def without_varying(value: Any) -> Any:
    """The same without what is new with every run, at the top and among headers."""
    if not isinstance(value, Mapping):
        return value
    kept = {key: one for key, one in value.items() if key not in VARYING_KEYS}
    if isinstance(headers := kept.get("headers"), Mapping):
        kept["headers"] = {key: one for key, one in headers.items() if not varies(key)}
    return kept


def varies(header: str) -> bool:
    """Whether a header is new with every request."""
    lower = str(header).lower()
    if lower in VARYING_HEADERS or lower.startswith(_VARYING_PREFIXES):
        return True
    # What a replay does not compare either, and values that are new with every request.
    return dropped(lower) is not None or bool(entries("header", lower))


def digest_of(value: Any, blobs: Iterable[BlobRef] = ()) -> str:
    """Large values are previews in a record; what they are is in the digests of their blobs."""
    large = [(one.path, one.sha256) for one in blobs if not _is_varying(one.path)]
    text = json.dumps([value, large], sort_keys=True, default=str)
    return hashlib.sha256(text.encode("utf-8", "surrogatepass")).hexdigest()


def _is_varying(path: str) -> bool:
    header = _IN_HEADERS.search(path)
    return varies(header[1]) if header else path.rpartition("/")[2] in VARYING_KEYS


def _key(kind: str, name: str, given: Mapping[str, Any]) -> str:
    match kind:
        case "http":
            path = _template(_text(given, "path"))
            words = [_text(given, "method"), _text(given, "host"), path]
        case "model":
            words = [_text(given, "host") or name, _text(given, "model")]
        case "exec":
            argv = given.get("argv")
            words = [name, *map(str, argv[1:_TELLING_WORDS] if isinstance(argv, list) else ())]
        case "file":
            words = [name, _text(given, "path")]
        case "connect" | "dns":
            words = [name, _text(given, "host"), str(given.get("port", ""))]
        case _:
            words = [name]
    return " ".join([kind, *words])[: 2 * MAX_NAME]


def _call(kind: str, name: str, given: Mapping[str, Any]) -> str:
    match kind:
        case "http" | "model":
            query = f"?{given['query']}" if given.get("query") else ""
            words = f"{_text(given, 'host')}{_text(given, 'path')}{query}"
            if kind == "model":
                return f"{_text(given, 'model') or name} at {words}"[:MAX_NAME]
            money = request_money(given) or ""
            return f"{_text(given, 'method')} {words[:MAX_NAME]} {money}".rstrip()
        case "exec" if isinstance(argv := given.get("argv"), list):
            return " ".join(str(word)[:MAX_NAME] for word in argv[:MAX_NAME])[:MAX_NAME]
        case "connect":
            return f"{_text(given, 'host')}:{given.get('port')}"[:MAX_NAME]
        case "file":
            return f"{name} {_text(given, 'path')}"[:MAX_NAME]
        case "tool":
            return call_words(name, given)
    return name


def _template(path: str) -> str:
    """`/v1/charges/ch_123` is of the sort `/v1/charges/*`."""
    first, *rest = path[:MAX_NAME].lstrip("/").split("/")
    return "/".join(["", first, *("*" if _DIGIT.search(part) else part for part in rest)])


def _text(body: Mapping[str, Any], key: str) -> str:
    value = body.get(key)
    return value if isinstance(value, str) else ""


def _whole(value: Any) -> int | None:
    return value if type(value) is int else None
