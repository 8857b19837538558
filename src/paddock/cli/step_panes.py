"""All that is known of one step, as lines: what was proposed, decided, asked and done, the programs
that it started, and its conversation. Every word may be an agent's or a server's: it goes through
`plain`, and a text of several lines stands behind a bar.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, Any

from paddock.cli.step_gist import gist_of, in_order, laid_out
from paddock.cli.times import took
from paddock.journal.traffic import mapping
from paddock.model.plain import plain

if TYPE_CHECKING:
    from paddock.run.rereading import Frame, Past

MAX_LINES = 2000  # of a pane
_MAX_VALUE = 200_000
_MAX_PROGRAMS = 200
_HEADER = "\x00"  # marks a line as a heading of ours; `plain` lets nobody else write it


def step_pane(frame: Frame) -> list[str]:
    """The step from its proposal to its end."""
    return _bounded(_whole(frame))


def messages_pane(past: Past, frame: Frame) -> list[str]:
    """What the model was asked, oldest first."""
    from paddock.cli.conversation_text import conversation_lines
    from paddock.journal.conversations import request_of
    from paddock.model.errors import PaddockError

    arguments = mapping(frame.proposed.get("arguments"))
    try:
        request = request_of(past.reader, arguments) if "request" in arguments else arguments
    except PaddockError as error:
        return [plain(f"the conversation cannot be read: {error}", 400)]
    if not any(key in request for key in ("messages", "input", "system")):
        return ["This step asked no model."]
    return [heading("asked"), *_bounded(conversation_lines(request))]


def heading(text: str) -> str:
    """A line of ours between what others said."""
    return f"{_HEADER}{text}"


def is_heading(line: str) -> bool:
    return line.startswith(_HEADER)


def without_mark(line: str) -> str:
    return line.removeprefix(_HEADER)


def value_lines(value: Any) -> Iterator[str]:
    """A value over as many lines as it takes to be read."""
    if isinstance(value, str):
        yield from _text(value)
        return
    text = json.dumps(value, ensure_ascii=False, indent=2, default=str)[:_MAX_VALUE]
    for line in text.split("\n"):
        yield plain(line, 4000)


def _whole(frame: Frame) -> Iterator[str]:
    for what, text in gist_of(frame.proposed, mapping(frame.settled)):
        yield heading(plain(what, 100))
        yield from _text(text)
    yield from _proposed(frame)
    yield from _decided(mapping(frame.decided))
    yield from _asked(frame)
    yield from _settled(frame)
    yield from _observed(frame)
    yield from _notes(frame)


def _proposed(frame: Frame) -> Iterator[str]:
    body = frame.proposed
    yield heading("proposed")
    yield f"{plain(body.get('kind', '?'), 20)} {plain(body.get('name', '?'), 200)}"
    undo = "can be undone" if body.get("is_reversible") else "cannot be undone"
    where = ", inside the fence" if body.get("is_contained") else ""
    yield f"effect {plain(body.get('effect', '?'), 20)}, {undo}{where}"
    if isinstance(body.get("parent"), int):
        yield f"caused by step {body['parent']}"
    arguments = in_order(mapping(body.get("arguments")))
    if body.get("kind") == "http":
        arguments.pop("body", None)  # stands above
    yield from _fields(arguments)
    if context := mapping(body.get("context")):
        yield heading("context")
        yield from _fields(context)


def _decided(body: Mapping[str, Any]) -> Iterator[str]:
    yield heading("decided")
    if not body:
        yield "nothing: the run ended before"
        return
    verdict, by = plain(body.get("verdict", "?"), 20), plain(body.get("decided_by", "?"), 100)
    yield f"{verdict} by {by}: {plain(body.get('why', ''), 1000)}"
    hits = body.get("hits")
    for hit in hits if isinstance(hits, list) else ():
        one = mapping(hit)
        said = f"{one.get('rule_id')} wants {one.get('verdict')}: {one.get('why')}"
        yield f"  - {plain(said, 1000)}"
    for key in ("fault", "once_approved", "again"):
        if key in body:
            yield f"{key} {plain(json.dumps(body[key], ensure_ascii=False), 1000)}"


def _asked(frame: Frame) -> Iterator[str]:
    if frame.asked is None:
        return
    yield heading("asked")
    yield from _fields(mapping(frame.asked))
    yield heading("answered")
    if frame.answered is None:
        yield "nobody has answered"
    yield from _fields(mapping(frame.answered))


def _settled(frame: Frame) -> Iterator[str]:
    from paddock.cli.replay_text import time_taken_us

    body = mapping(frame.settled)
    yield heading("result")
    if not body:
        yield "no end was recorded"
        return
    yield f"{plain(body.get('outcome', '?'), 20)} after {took(time_taken_us(frame))}"
    for key in ("error", "answered_by", "draft_id"):
        if key in body:
            yield f"{key} {plain(body[key], 2000)}"
    if cost := mapping(body.get("cost")):
        yield f"cost {plain(json.dumps(cost), 400)}"
    yield from _result(body.get("result"), has_body=frame.proposed.get("kind") != "http")


def _result(result: Any, *, has_body: bool) -> Iterator[str]:
    """The body of a request's answer stands above."""
    if not isinstance(result, Mapping):
        yield from value_lines(result)
        return
    yield from _fields(
        {key: one for key, one in in_order(result).items() if key not in ("headers", "body")}
    )
    if has_body and "body" in result:
        yield heading("body")
        yield from _text(laid_out(result["body"]))
    if headers := mapping(result.get("headers")):
        yield heading("headers")
        yield from (plain(f"{name}: {value}", 1000) for name, value in headers.items())


def _observed(frame: Frame) -> Iterator[str]:
    from paddock.cli.show_data import joined
    from paddock.cli.show_text import program_text

    programs = joined(iter(frame.observed))
    if not programs:
        return
    yield heading(f"programs ({len(programs)}{' and more' if frame.is_cut else ''})")
    for one in programs[:_MAX_PROGRAMS]:
        yield "".join(program_text(one))


def _notes(frame: Frame) -> Iterator[str]:
    shown = [note for note in frame.notes if note.get("what") not in ("files", "world moved")]
    if shown:
        yield heading("noted")
    for note in shown:
        yield from _fields(note)


def _fields(values: Mapping[str, Any]) -> Iterator[str]:
    for key, value in values.items():
        name = plain(key, 60)
        lines = list(value_lines(value))
        if len(lines) == 1 and not lines[0].startswith("| "):
            yield f"{name}: {lines[0]}"
        else:
            yield f"{name}:"
            yield from (f"  {line}" for line in lines)


def _text(text: str) -> Iterator[str]:
    lines = text[:_MAX_VALUE].split("\n")
    if len(lines) == 1:
        yield plain(text, _MAX_VALUE)
        return
    yield from (f"| {plain(line, 4000)}" for line in lines)


def _bounded(lines: Iterator[str]) -> list[str]:
    taken: list[str] = []
    for line in lines:
        if len(taken) >= MAX_LINES:
            return [*taken, "(there is more: paddock show --step)"]
        taken.append(line)
    return taken
