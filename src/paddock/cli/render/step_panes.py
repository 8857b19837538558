"""All that is known of one step, as lines. There are four panes: the step itself (what was
proposed, decided, asked and done, and the programs that it started), its conversation with a model,
and what became of the files and of the world. The last two are read from the trees and stores that
the run left; where they are gone, that is said.

Every word may be an agent's or a server's: it goes through `plain`, and a text of several lines
stands behind a bar.
"""

from __future__ import annotations

import difflib
import json
from collections.abc import Iterator, Mapping
from itertools import islice
from typing import TYPE_CHECKING, Any

from paddock.cli.render.conversation import conversation_lines
from paddock.cli.render.step_gist import gist_of, in_order, laid_out
from paddock.cli.render.steps import program_text
from paddock.cli.render.units import took
from paddock.journal.codec import body_of
from paddock.journal.conversations import request_of
from paddock.journal.traffic import mapping
from paddock.model.action import Kind
from paddock.model.errors import PaddockError
from paddock.model.events import (
    Alert,
    Answered,
    Asked,
    BackgroundAnswered,
    Decided,
    FilesRecorded,
    ProgramEnded,
    ProgramStarted,
    Proposed,
    Record,
    ReplayRepeated,
    Settled,
    WorldChanged,
)
from paddock.model.plural import many
from paddock.model.printable import printable
from paddock.state.home import Home

if TYPE_CHECKING:
    from paddock.cli.render.world import DocumentDiff
    from paddock.model.steps import Step
    from paddock.run.history import HistoryStep, RunHistory
    from paddock.state.trees.comparison import TreeChange
    from paddock.state.trees.nodes import Node
    from paddock.state.trees.store import TreeStore

MAX_LINES = 2000  # of a pane
_MAX_VALUE = 200_000
_MAX_PROGRAMS = 200
_MAX_DIFF_BYTES = 64 << 10  # of a file that is compared line by line
_MAX_FILES = 200
_MAX_DIFFS = 20
_MAX_DIFF_LINES = 400  # of one file
_MAX_FIELDS = 200
_HEADER = "\x00"  # marks a line as a heading of ours; `plain` lets nobody else write it
# What has a place of its own in this pane or in another one, or tells nothing about the step.
_NOT_LISTED = (Proposed, Decided, Asked, Answered, Settled, ProgramStarted, ProgramEnded,
               FilesRecorded, WorldChanged, ReplayRepeated, BackgroundAnswered)  # fmt: skip


def step_pane(recorded: HistoryStep) -> list[str]:
    """Return the step from its proposal to its end."""
    return _bounded(_step_lines(recorded))


def messages_pane(history: RunHistory, step: Step) -> list[str]:
    """Return what the model was asked, oldest first."""
    request = step.arguments
    try:
        if "request" in request:
            request = request_of(history.log, request)
    except PaddockError as error:
        return [printable(f"the conversation cannot be read: {error}", 400)]
    if not any(key in request for key in ("messages", "input", "system")):
        return ["This step asked no model."]
    return [heading("asked"), *_bounded(conversation_lines(request))]


def heading(text: str) -> str:
    """Return a line of ours between what others said."""
    return f"{_HEADER}{text}"


def is_heading(line: str) -> bool:
    return line.startswith(_HEADER)


def without_mark(line: str) -> str:
    return line.removeprefix(_HEADER)


def _value_lines(value: Any) -> Iterator[str]:
    """Yield a value over as many lines as it takes to be read."""
    if isinstance(value, str):
        yield from _text(value)
        return
    text = json.dumps(value, ensure_ascii=False, indent=2, default=str)[:_MAX_VALUE]
    for line in text.split("\n"):
        yield printable(line, 4000)


def _step_lines(recorded: HistoryStep) -> Iterator[str]:
    step = recorded.step
    for what, text in gist_of(step):
        yield heading(printable(what, 100))
        yield from _text(text)
    yield from _proposal_lines(step)
    yield from _decision_lines(step.decided)
    yield from _question_lines(step)
    yield from _settlement_lines(step)
    yield from _program_lines(recorded)
    yield from _other_lines(step)


def _proposal_lines(step: Step) -> Iterator[str]:
    yield heading("proposed")
    proposed = step.proposed
    if proposed is None:
        yield "nothing that can be read"
        return
    yield f"{proposed.kind} {printable(proposed.name, 200)}"
    undo = "can be undone" if proposed.is_reversible else "cannot be undone"
    where = ", inside the fence" if proposed.is_contained else ""
    yield f"effect {proposed.effect}, {undo}{where}"
    if proposed.parent is not None:
        yield f"caused by step {proposed.parent}"
    arguments = in_order(proposed.arguments)
    if proposed.kind is Kind.HTTP:
        arguments.pop("body", None)  # stands above
    yield from _fields(arguments)
    if proposed.context:
        yield heading("context")
        yield from _fields(proposed.context)


def _decision_lines(decided: Decided | None) -> Iterator[str]:
    yield heading("decided")
    if decided is None:
        yield "nothing: the run ended before"
        return
    by = printable(decided.decided_by, 100)
    yield f"{decided.verdict} by {by}: {printable(decided.why, 1000)}"
    for hit in decided.hits:
        yield f"  - {printable(f'{hit.rule_id} wants {hit.verdict}: {hit.why}', 1000)}"
    fields = body_of(decided)
    for key in ("fault", "once_approved", "again"):
        if key in fields:
            yield f"{key} {printable(json.dumps(fields[key], ensure_ascii=False), 1000)}"


def _question_lines(step: Step) -> Iterator[str]:
    if step.asked is None:
        return
    yield heading("asked")
    yield from _fields(body_of(step.asked))
    yield heading("answered")
    if step.answered is None:
        yield "nobody has answered"
    else:
        yield from _fields(body_of(step.answered))


def _settlement_lines(step: Step) -> Iterator[str]:
    yield heading("result")
    settled = step.settled
    if settled is None:
        yield "no end was recorded"
        return
    yield f"{settled.outcome} after {took(step.duration_us)}"
    for key in ("error", "answered_by", "draft_id"):
        value = getattr(settled, key)
        if value is not None:
            yield f"{key} {printable(value, 2000)}"
    if settled.cost:
        yield f"cost {printable(json.dumps(settled.cost), 400)}"
    yield from _result_lines(settled.result, has_body=step.kind is not Kind.HTTP)


def _result_lines(result: Any, *, has_body: bool) -> Iterator[str]:
    """Yield a result. The body of a request's answer stands above."""
    if not isinstance(result, Mapping):
        yield from _value_lines(result)
        return
    fields = in_order(result)
    fields.pop("headers", None)
    fields.pop("body", None)
    yield from _fields(fields)
    if has_body and "body" in result:
        yield heading("body")
        yield from _text(laid_out(result["body"]))
    if headers := mapping(result.get("headers")):
        yield heading("headers")
        yield from (printable(f"{name}: {value}", 1000) for name, value in headers.items())


def _program_lines(recorded: HistoryStep) -> Iterator[str]:
    programs = recorded.step.programs
    if not programs:
        return
    yield heading(f"programs ({len(programs)}{' and more' if recorded.is_cut else ''})")
    for program in programs[:_MAX_PROGRAMS]:
        yield "".join(program_text(program))


def _other_lines(step: Step) -> Iterator[str]:
    """Yield what else was recorded with the step."""
    others = [record for record in step.records if not isinstance(record.event, _NOT_LISTED)]
    if others:
        yield heading("noted")
    for record in others:
        yield from _fields(_named_fields(record))


def _named_fields(record: Record) -> dict[str, Any]:
    event = record.event
    if isinstance(event, Alert):
        fields = {"alert": event.alert, "times": event.times, **event.about}
    else:
        fields = body_of(event)
    return dict(sorted({"what": record.type, **fields}.items()))


def _fields(values: Mapping[str, Any]) -> Iterator[str]:
    for key, value in values.items():
        name = printable(key, 60)
        lines = list(_value_lines(value))
        if len(lines) == 1 and not lines[0].startswith("| "):
            yield f"{name}: {lines[0]}"
        else:
            yield f"{name}:"
            yield from (f"  {line}" for line in lines)


def _text(text: str) -> Iterator[str]:
    lines = text[:_MAX_VALUE].split("\n")
    if len(lines) == 1:
        yield printable(text, _MAX_VALUE)
        return
    yield from (f"| {printable(line, 4000)}" for line in lines)


def _bounded(lines: Iterator[str]) -> list[str]:
    bounded = list(islice(lines, MAX_LINES))
    if next(lines, None) is not None:
        bounded.append("(there is more: paddock show --step)")
    return bounded


# ---- files and world ---------------------------------------------------------------------------


def files_pane(history: RunHistory, recorded: HistoryStep) -> list[str]:
    """Return what is other from here to the next step."""
    before, after = recorded.state.tree, history.tree_after(recorded.step.number)
    if before is None or after is None:
        return ["No files were recorded here."]
    if before == after:
        return ["No file changed until the next step."]
    from paddock.run.files import store_of

    try:
        store = store_of(Home.find())
        return list(_change_lines(store, store.diff(before, after)))
    except (PaddockError, OSError) as error:
        return [printable(f"the files cannot be compared: {error}", 400)]


def world_pane(run: str, step: int) -> list[str]:
    """Return what a step changed in the stand-ins, field by field."""
    from paddock.cli.render.world import differences
    from paddock.world.saved_worlds import open_saved_world

    lines: list[str] = []
    try:
        with open_saved_world(Home.find().root, run) as world:
            for service in world.services:
                for difference in differences(service, step, step):
                    lines += _difference_lines(service.name, difference)
    except (PaddockError, OSError) as error:
        return [printable(str(error), 400)]
    return lines or ["No stand-in changed at this step."]


def _difference_lines(service: str, difference: DocumentDiff) -> Iterator[str]:
    change = difference.change
    yield heading(printable(f"{service}: {change.kind} {change.id} {difference.what}", 200))
    for field in difference.fields[:_MAX_FIELDS]:
        before = "" if field.is_new else f"{_json(field.before)} -> "
        after = "gone" if field.is_gone else _json(field.after)
        yield f"{printable(field.field, 100)}: {before}{after}"


def _change_lines(store: TreeStore, changes: list[TreeChange]) -> Iterator[str]:
    for number, change in enumerate(changes[:_MAX_FILES]):
        yield heading(f"{change.kind} {printable(change.path, 400)}")
        if number < _MAX_DIFFS:
            yield from _diff_lines(store, change)
    if len(changes) > _MAX_FILES:
        yield f"({many(len(changes) - _MAX_FILES, 'more file')})"


def _diff_lines(store: TreeStore, change: TreeChange) -> Iterator[str]:
    before, after = (_file_text(store, node) for node in (change.before, change.after))
    if before is None or after is None:
        yield "(it is no text, or too long to compare)"
        return
    lines = difflib.unified_diff(before.splitlines(), after.splitlines(), lineterm="", n=3)
    for number, line in enumerate(lines):
        if number >= _MAX_DIFF_LINES:
            yield "(there is more)"
            return
        if number >= 2:  # the names of the two files stand above already
            yield printable(line, 1000)


def _file_text(store: TreeStore, node: Node | None) -> str | None:
    from paddock.state.trees.nodes import NodeKind

    if node is None or node.kind is NodeKind.WHITEOUT:
        return ""
    if node.kind is not NodeKind.FILE or node.size > _MAX_DIFF_BYTES or not store.is_kept(node):
        return None
    try:
        return b"".join(store.open_blob(node)).decode()
    except UnicodeDecodeError:
        return None


def _json(value: object) -> str:
    return printable(json.dumps(value, ensure_ascii=False, default=str), 400)
