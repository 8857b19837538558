"""Ids that a draft has from a stand-in, and the real ones in their place: an earlier draft made the
record, was sent since, and the real server's answer says what the record is called there.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping
from typing import Any
from urllib.parse import quote, unquote

import msgspec

from paddock.gate.drafts import Draft, Drafts
from paddock.gate.signed_journals import check_trusted
from paddock.journal.log import RunLog
from paddock.model.action import Kind, Outcome
from paddock.model.errors import InvalidInput, PaddockError
from paddock.model.events import Settled
from paddock.state.home import Home
from paddock.world.overlay.ids import is_marked

_STAND_IN = "draft"
_MAX_BODY = 1 << 20
_MAX_DEPTH = 40
_MAX_VALUES = 20_000  # of one answer
_LOCATION = ("location",)
_ID = re.compile(r"[^\x00-\x20\x7f]{1,200}")
# A word that may be one. `world.overlay.ids` says how they look.
_WORD = re.compile(
    r"(?<![A-Za-z0-9_])(?:(?:[a-zA-Z]{1,12}_)?shadow_[A-Za-z0-9]{16}"
    r"|5ad00000-0000-8000-8000-[0-9a-f]{12}|9[0-9]{15})(?![A-Za-z0-9_])"
)
Pointer = tuple[str | int, ...]
_SPOKEN = ("path", "query", "headers", "body")


class RealIds(msgspec.Struct, frozen=True):
    """By shadow's id."""

    found: Mapping[str, str | int] = {}

    def value(self, value: Any) -> Any:
        """A text or a number of a body or a header; a text stays a text."""
        if isinstance(value, str):
            return _WORD.sub(lambda word: str(self.found.get(word[0], word[0])), value)
        is_number = isinstance(value, int) and not isinstance(value, bool)
        return self.found.get(str(value), value) if is_number else value

    def target(self, text: Any) -> str:
        """A part of an address."""
        return _WORD.sub(lambda word: quote(str(self.found.get(word[0], word[0])), safe=""), text)


def real_ids(draft: Draft, drafts: Drafts, home: Home) -> RealIds:
    """Raises InvalidInput where one is not known yet: the message says what to send first."""
    arguments = draft.action.arguments
    wanted = dict.fromkeys(_marked([arguments.get(name) for name in _SPOKEN]))
    if not wanted or not _is_stood_in(draft, home):
        return RealIds()
    earlier = [other for other in drafts.all(run=draft.run, state=None)
               if other.step < draft.step and other.action.kind is Kind.HTTP]  # fmt: skip
    earlier.sort(key=lambda one: one.step)
    answers = [(other, _answer(home, other.run, other.step)) for other in earlier]
    return RealIds({shadow: _real(shadow, answers, home) for shadow in wanted})


def _real(shadow: str, answers: list[tuple[Draft, dict[Pointer, Any]]], home: Home) -> str | int:
    for maker, answer in answers:
        pointers = [at for at, value in answer.items() if _text(value) == shadow]
        if pointers:
            return _sent_as(shadow, maker, pointers, home)
    raise InvalidInput(
        f"it holds the id {shadow}, which only a stand-in of its run knew, and no earlier draft of"
        " the run made it",
        hint="let the agent make the request again, about a real record",
    )


def _sent_as(shadow: str, maker: Draft, pointers: list[Pointer], home: Home) -> str | int:
    holds = f"it holds the id {shadow}, which draft {maker.draft_id} makes"
    if maker.state == "draft":
        raise InvalidInput(holds, hint=f"send that first: paddock drafts send {maker.draft_id}")
    if maker.state != "sent":
        raise InvalidInput(f"{holds}, and that is {maker.state}")
    answer = _real_answer(maker, home)
    for at in pointers:
        value = answer.get(at)
        if isinstance(value, str | int) and _is_id(value):
            return value
    raise InvalidInput(f"{holds}; the answer to that does not say what it is called really")


def _real_answer(maker: Draft, home: Home) -> dict[Pointer, Any]:
    """Return the answer from the run that sent the draft: the newest one, since earlier ones may
    have failed."""
    made = []
    for path in home.runs.glob("*"):
        try:
            if path.stat().st_mtime >= maker.made_at:
                made.append((path.stat().st_mtime, path))
        except OSError:
            continue
    for _, path in sorted(made, reverse=True):
        try:
            is_it = RunLog(path).opened.draft == maker.draft_id
        except (PaddockError, OSError):
            continue
        answer = _answer(home, path.name, maker.sent_step or 0, Outcome.DONE) if is_it else {}
        if answer:
            return answer
    return {}


def _is_stood_in(draft: Draft, home: Home) -> bool:
    """Return whether a stand-in answered the step. If that is not known it counts as yes: then ids
    that look so are taken for shadow ids."""
    settled = _settled(home, draft.run, draft.step)
    result = None if settled is None else settled.result
    return not isinstance(result, Mapping) or result.get("stand_in") == _STAND_IN


def _answer(home: Home, run: str, step: int, outcome: Outcome | None = None) -> dict[Pointer, Any]:
    """Return which value the answer to a step has where."""
    settled = _settled(home, run, step)
    if settled is None or outcome not in (None, settled.outcome):
        return {}
    result = settled.result
    if not isinstance(result, Mapping):
        return {}
    values: dict[Pointer, Any] = {}
    for at, value in _leaves(_parsed(result.get("body")), ()):
        values[at] = value
        if len(values) >= _MAX_VALUES:
            break
    headers = result.get("headers")
    location = headers.get("location") if isinstance(headers, Mapping) else None
    if isinstance(location, str):
        path = location.partition("?")[0].partition("#")[0]
        values[_LOCATION] = unquote(path.rstrip("/").rpartition("/")[2])
    return values


def _settled(home: Home, run: str, step: int) -> Settled | None:
    try:
        # A real id goes into a request that is sent: only what this home has signed says one.
        log = RunLog(home.runs / run, check_trusted(home.runs / run, home))
        record = log.step(step).record(Settled)
        event = None if record is None else log.whole(record).event
    except (PaddockError, OSError):
        return None
    return event if isinstance(event, Settled) else None


def _parsed(body: Any) -> Any:
    if not isinstance(body, str) or len(body) > _MAX_BODY:
        return None
    try:
        return json.loads(body)
    except (ValueError, RecursionError):
        return None


def _leaves(value: Any, at: Pointer) -> Iterator[tuple[Pointer, Any]]:
    if len(at) > _MAX_DEPTH:
        return
    if isinstance(value, Mapping):
        for name, item in value.items():
            yield from _leaves(item, (*at, "." + str(name)))
    elif isinstance(value, list):
        for number, item in enumerate(value):
            yield from _leaves(item, (*at, number))
    else:
        yield at, value


def _marked(value: Any, depth: int = _MAX_DEPTH) -> Iterator[str]:
    if depth == 0:
        raise InvalidInput("its body is nested too deeply")
    if isinstance(value, str):
        yield from (word[0] for word in _WORD.finditer(value) if is_marked(word[0]))
    elif isinstance(value, Mapping):
        for name, item in value.items():
            yield from _marked(str(name), depth - 1)
            yield from _marked(item, depth - 1)
    elif isinstance(value, list | tuple):
        for item in value:
            yield from _marked(item, depth - 1)
    elif isinstance(value, int) and not isinstance(value, bool) and is_marked(value):
        yield str(value)


def _is_id(value: str | int) -> bool:
    """Return whether a server may have called a record so; a path must not lead elsewhere by it."""
    is_word = not isinstance(value, bool) and _ID.fullmatch(str(value)) is not None
    return is_word and value not in (".", "..")


def _text(value: Any) -> str | None:
    is_id = isinstance(value, str | int) and not isinstance(value, bool)
    return str(value) if is_id else None
