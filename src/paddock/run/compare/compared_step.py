"""One step of a run as comparing needs it: the step, and digests of what may be long. What is new
with every run (process ids, dates, ids of requests) is no part of a digest.
"""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Iterable, Mapping
from typing import Any

from paddock.journal.calls import answer_lines, call_words, request_money
from paddock.model.action import Kind, Verdict
from paddock.model.events import BlobRef, JsonObject, Proposed, Settled
from paddock.model.plural import many
from paddock.model.steps import Step
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


class ComparedStep:
    """One step. `key` is equal for steps that want something of the same sort, `proposal` for
    steps that want exactly the same, `answer` for steps that got exactly the same."""

    __slots__ = ("answer", "call", "key", "place", "proposal", "recorded", "says")

    def __init__(self, recorded: Step) -> None:
        self.recorded = recorded
        self.key = _key(recorded)
        self.call = _call(recorded)  # what was wanted, in one line
        # The host, tool or program.
        self.place = (_text(recorded.arguments, "host") or recorded.name)[:MAX_NAME]
        self.proposal = _proposal_digest(recorded)
        self.answer = _answer_digest(recorded)
        # What a model answered, in lines for people.
        is_model = recorded.kind is Kind.MODEL
        self.says = tuple(answer_lines(recorded.result)) if is_model else ()

    @property
    def step(self) -> int:
        """Its number."""
        return self.recorded.number

    @property
    def verdict(self) -> Verdict | None:
        return self.recorded.verdict

    @property
    def result(self) -> str:
        """The outcome in a few words: `done 200`, `failed exit 1`."""
        step = self.recorded
        parts: list[str] = [step.outcome or "no end"]
        if step.status is not None:
            parts.append(str(step.status))
        if step.exit_code:
            parts.append(f"exit {step.exit_code}")
        if step.repeats is not None:
            parts.append(f"and {many(step.repeats.count, 'more time')}")
        return " ".join(parts)


def answer_of(settled: Settled | None) -> JsonObject:
    """Return what the agent got back: the result and the error, without the cost and ids of our
    own."""
    if settled is None:
        return {"result": None}
    answer = {"result": without_varying(settled.result)}
    return {**answer, "error": settled.error} if settled.error else answer


def without_varying(value: Any) -> Any:
    """Return the same without what is new with every run, at the top and among headers."""
    if not isinstance(value, Mapping):
        return value
    kept = {key: item for key, item in value.items() if key not in VARYING_KEYS}
    if isinstance(headers := kept.get("headers"), Mapping):
        kept["headers"] = {name: text for name, text in headers.items() if not varies(name)}
    return kept


def varies(header: str) -> bool:
    """Return whether a header is new with every request."""
    lower = str(header).lower()
    if lower in VARYING_HEADERS or lower.startswith(_VARYING_PREFIXES):
        return True
    # What a replay does not compare either, and values that are new with every request.
    return dropped(lower) is not None or bool(entries("header", lower))


def _proposal_digest(step: Step) -> str:
    record = step.record(Proposed)
    proposal = [step.kind, step.name[:MAX_NAME], without_varying(step.arguments)]
    return _digest(proposal, () if record is None else record.blobs)


def _answer_digest(step: Step) -> str | None:
    record = step.record(Settled)
    return None if record is None else _digest(answer_of(step.settled), record.blobs)


def _digest(value: Any, blobs: Iterable[BlobRef]) -> str:
    """Hash a value. In a record large values are previews, so the digests of their blobs are hashed
    too."""
    large = [(ref.path, ref.sha256) for ref in blobs if not _is_varying(ref.path)]
    text = json.dumps([value, large], sort_keys=True, default=str)
    return hashlib.sha256(text.encode("utf-8", "surrogatepass")).hexdigest()


def _is_varying(path: str) -> bool:
    header = _IN_HEADERS.search(path)
    return varies(header[1]) if header else path.rpartition("/")[2] in VARYING_KEYS


def _key(step: Step) -> str:
    arguments, name = step.arguments, step.name[:MAX_NAME]
    match step.kind:
        case Kind.HTTP:
            path = _template(_text(arguments, "path"))
            parts = [_text(arguments, "method"), _text(arguments, "host"), path]
        case Kind.MODEL:
            parts = [_text(arguments, "host") or name, _text(arguments, "model")]
        case Kind.EXEC:
            parts = [name, *_argv(arguments)[1:_TELLING_WORDS]]
        case Kind.FILE:
            parts = [name, _text(arguments, "path")]
        case Kind.CONNECT | Kind.DNS:
            parts = [name, _text(arguments, "host"), str(arguments.get("port", ""))]
        case _:
            parts = [name]
    return " ".join([step.kind or "", *parts])[: 2 * MAX_NAME]


def _call(step: Step) -> str:
    arguments, name = step.arguments, step.name[:MAX_NAME]
    match step.kind:
        case Kind.HTTP:
            money = request_money(arguments) or ""
            url = _url(arguments)[:MAX_NAME]
            return f"{_text(arguments, 'method')} {url} {money}".rstrip()
        case Kind.MODEL:
            return f"{_text(arguments, 'model') or name} at {_url(arguments)}"[:MAX_NAME]
        case Kind.EXEC if argv := _argv(arguments):
            return " ".join(word[:MAX_NAME] for word in argv[:MAX_NAME])[:MAX_NAME]
        case Kind.CONNECT:
            return f"{_text(arguments, 'host')}:{arguments.get('port')}"[:MAX_NAME]
        case Kind.FILE:
            return f"{name} {_text(arguments, 'path')}"[:MAX_NAME]
        case Kind.TOOL:
            return call_words(name, arguments)
    return name


def _url(arguments: Mapping[str, Any]) -> str:
    query = f"?{arguments['query']}" if arguments.get("query") else ""
    return f"{_text(arguments, 'host')}{_text(arguments, 'path')}{query}"


def _template(path: str) -> str:
    """Return the sort of a path: `/v1/charges/*` for `/v1/charges/ch_123`."""
    first, *rest = path[:MAX_NAME].lstrip("/").split("/")
    return "/".join(["", first, *("*" if _DIGIT.search(part) else part for part in rest)])


def _argv(arguments: Mapping[str, Any]) -> list[str]:
    argv = arguments.get("argv")
    return [str(word) for word in argv] if isinstance(argv, list) else []


def _text(arguments: Mapping[str, Any], key: str) -> str:
    value = arguments.get(key)
    return value if isinstance(value, str) else ""
