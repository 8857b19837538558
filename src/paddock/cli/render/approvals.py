"""Approvals, statistics and proposals as people and programs read them. An agent chose many of the
words: what goes to a terminal is spelled out by `plain`.
"""

from __future__ import annotations

import json
import shutil
import sys
import time
from collections.abc import Iterable
from typing import Any

import msgspec

from paddock.cli.output import say
from paddock.cli.render.calls import call_summary
from paddock.cli.render.table import age, line_width, table
from paddock.gate.approvals import PENDING, Approval, Approvals
from paddock.gate.approvals.proposals import Proposal
from paddock.gate.approvals.question_text import context_lines, question_lines, time_left
from paddock.gate.approvals.statistics import RuleStatistics
from paddock.model.plain import plain

_LOOK_S = 0.5
_MAX_CALL = 60


def approvals_table(found: Iterable[Approval]) -> str:
    header = ("ID", "STATE", "AGENT", "CALL", "RULE", "LEFT")
    return table(
        header,
        [_row(one) for one in found],
        width=line_width(),
        flexible=("RULE", "AGENT", "CALL"),
        with_ends=("CALL",),
    )


def approval_text(approval: Approval) -> str:
    """The whole question, and its answer."""
    width = shutil.get_terminal_size().columns
    lines = [*question_lines(approval, width), *context_lines(approval, width)]
    lines.append(f"  state      {_state(approval)}")
    if approval.edited is not None:
        lines.append(f"  edited     {plain(json.dumps(approval.edited))}")
    return "\n".join(lines)


def approval_json(approval: Approval) -> dict[str, Any]:
    fields = msgspec.structs.asdict(approval)
    content = {key: value for key, value in approval.content.items() if key != "terms"}
    left_s = approval.left_s if approval.state == PENDING else None
    return {**fields, "content": content, "left_s": left_s}


def watch(approvals: Approvals, *, run: str | None, is_json: bool) -> int:
    """One line for each question that comes and each that is answered, until it is interrupted."""
    known: set[str] = set()
    while True:
        pending = {one.approval_id: one for one in approvals.all(run=run)}
        answered = [approvals.get(one) for one in known - set(pending)]
        for one in [*answered, *(pending[key] for key in pending if key not in known)]:
            say(json.dumps(approval_json(one)) if is_json else _event(one))
            sys.stdout.flush()
        known = set(pending)
        time.sleep(_LOOK_S)


def statistics_table(found: Iterable[RuleStatistics]) -> str:
    header = ("RULE", "ASKED", "APPROVED", "EDITED", "DENIED", "EXPIRED", "MEDIAN WAIT",
              "FALSE ALARMS")  # fmt: skip
    rows = [
        (
            plain(one.rule, _MAX_CALL),
            one.asked,
            one.approved,
            one.edited,
            one.denied,
            one.expired,
            "-" if one.median_wait_s is None else age(one.median_wait_s),
            "-" if one.false_alarms is None else f"{one.false_alarms:.0%}",
        )
        for one in found
    ]
    return table(header, rows, width=line_width(), flexible=("RULE",))


def statistics_json(found: Iterable[RuleStatistics]) -> list[dict[str, Any]]:
    return [
        {**msgspec.structs.asdict(one), "answered": one.answered, "false_alarms": one.false_alarms}
        for one in found
    ]


def proposals_json(found: Iterable[Proposal]) -> list[dict[str, Any]]:
    return [{**msgspec.structs.asdict(one), "yaml": one.as_yaml()} for one in found]


def _row(one: Approval) -> tuple[str, ...]:
    return (
        one.approval_id,
        one.state,
        plain(one.agent, _MAX_CALL),
        _call(one),
        plain(one.content.get("decided_by", "?"), _MAX_CALL),
        time_left(one.left_s) if one.state == PENDING else "-",
    )


def _call(one: Approval) -> str:
    content = one.content
    return call_summary(content.get("kind"), content.get("name"), content.get("arguments") or {})


def _event(one: Approval) -> str:
    at = one.asked_at if one.state == PENDING else one.answered_at or time.time()
    clock = time.strftime("%H:%M:%S", time.localtime(at))
    agent = plain(one.agent, _MAX_CALL)
    return f"{clock}  {one.approval_id}  {agent}  {_call(one)}  {_state(one)}"


def _state(one: Approval) -> str:
    if one.state == PENDING:
        return f"pending, {time_left(one.left_s)} left"
    by = f" by {plain(one.answered_by, _MAX_CALL)}" if one.answered_by else ""
    return f"{one.state}{by}" + (f": {plain(one.reason)}" if one.reason else "")
