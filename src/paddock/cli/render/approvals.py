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
from paddock.cli.render.table import age, terminal_table
from paddock.gate.approvals.proposals import Proposal
from paddock.gate.approvals.question_text import context_lines, question_lines, time_left
from paddock.gate.approvals.questions import PENDING, Approval, Approvals
from paddock.gate.approvals.statistics import RuleStatistics
from paddock.model.printable import printable

_LOOK_S = 0.5
_MAX_CALL = 60


def approvals_table(approvals: Iterable[Approval]) -> str:
    header = ("ID", "STATE", "AGENT", "CALL", "RULE", "LEFT")
    return terminal_table(
        header,
        [_row(approval) for approval in approvals],
        flexible=("RULE", "AGENT", "CALL"),
        with_ends=("CALL",),
    )


def approval_text(approval: Approval) -> str:
    """The whole question, and its answer."""
    width = shutil.get_terminal_size().columns
    lines = [*question_lines(approval, width), *context_lines(approval, width)]
    lines.append(f"  state      {_state(approval)}")
    if approval.edited is not None:
        lines.append(f"  edited     {printable(json.dumps(approval.edited))}")
    return "\n".join(lines)


def approval_json(approval: Approval) -> dict[str, Any]:
    fields = msgspec.structs.asdict(approval)
    content = {key: value for key, value in approval.content.items() if key != "terms"}
    left_s = approval.left_s if approval.state == PENDING else None
    return {**fields, "content": content, "left_s": left_s}


def watch(approvals: Approvals, *, run: str | None, is_json: bool) -> int:
    """One line for each question that comes and each that is answered, until it is interrupted."""
    seen: set[str] = set()
    while True:
        pending = {approval.approval_id: approval for approval in approvals.all(run=run)}
        answered = [approvals.get(approval_id) for approval_id in seen - set(pending)]
        for approval in [*answered, *(pending[key] for key in pending if key not in seen)]:
            say(json.dumps(approval_json(approval)) if is_json else _event(approval))
            sys.stdout.flush()
        seen = set(pending)
        time.sleep(_LOOK_S)


def statistics_table(statistics: Iterable[RuleStatistics]) -> str:
    header = ("RULE", "ASKED", "APPROVED", "EDITED", "DENIED", "EXPIRED", "MEDIAN WAIT",
              "FALSE ALARMS")  # fmt: skip
    rows = [
        (
            printable(rule.rule, _MAX_CALL),
            rule.asked,
            rule.approved,
            rule.edited,
            rule.denied,
            rule.expired,
            "-" if rule.median_wait_s is None else age(rule.median_wait_s),
            "-" if rule.false_alarms is None else f"{rule.false_alarms:.0%}",
        )
        for rule in statistics
    ]
    return terminal_table(header, rows, flexible=("RULE",))


def statistics_json(rule: RuleStatistics) -> dict[str, Any]:
    counts = msgspec.structs.asdict(rule)
    return {**counts, "answered": rule.answered, "false_alarms": rule.false_alarms}


def proposal_json(proposal: Proposal) -> dict[str, Any]:
    return {**msgspec.structs.asdict(proposal), "yaml": proposal.as_yaml()}


def _row(approval: Approval) -> tuple[str, ...]:
    return (
        approval.approval_id,
        approval.state,
        printable(approval.agent, _MAX_CALL),
        _call(approval),
        printable(approval.content.get("decided_by", "?"), _MAX_CALL),
        time_left(approval.left_s) if approval.state == PENDING else "-",
    )


def _call(approval: Approval) -> str:
    content = approval.content
    return call_summary(content.get("kind"), content.get("name"), content.get("arguments") or {})


def _event(approval: Approval) -> str:
    at = approval.asked_at if approval.state == PENDING else approval.answered_at or time.time()
    clock = time.strftime("%H:%M:%S", time.localtime(at))
    agent = printable(approval.agent, _MAX_CALL)
    return f"{clock}  {approval.approval_id}  {agent}  {_call(approval)}  {_state(approval)}"


def _state(approval: Approval) -> str:
    if approval.state == PENDING:
        return f"pending, {time_left(approval.left_s)} left"
    by = f" by {printable(approval.answered_by, _MAX_CALL)}" if approval.answered_by else ""
    return f"{approval.state}{by}" + (f": {printable(approval.reason)}" if approval.reason else "")
