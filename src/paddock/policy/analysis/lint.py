"""Checks a paddock file: all that is wrong and all that is doubtful, also as SARIF 2.1.0."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import msgspec

from paddock.policy.analysis.review import CODES, Level, Remark, doubts
from paddock.policy.file import DEFAULT_NAME, problem_of, read_draft
from paddock.policy.file.document import Document
from paddock.policy.problems import PolicyError, Problem


class Finding(msgspec.Struct, frozen=True):
    """One thing to say about a place in the file."""

    level: Level
    rule_id: str | None
    code: str
    line: int
    column: int
    message: str
    hint: str | None


def check(text: str, name: str = DEFAULT_NAME) -> list[Finding]:
    """Everything to say about the text, in its order. With an error in it, `load` refuses it."""
    try:
        draft = read_draft(text, name)
    except PolicyError as error:
        return [_of_problem(one) for one in error.problems]
    remarks = [*draft.remarks, *doubts(draft.terms)]
    found = [_of_remark(draft.document, one) for one in remarks]
    return sorted(found, key=lambda one: (one.line, one.column, one.code, one.message))


def sarif(findings: Iterable[Finding], name: str = DEFAULT_NAME) -> dict[str, Any]:
    """A SARIF log, which code hosts and editors show beside the lines."""
    return {
        "$schema": "https://json.schemastore.org/sarif-2.1.0.json",
        "version": "2.1.0",
        "runs": [
            {
                "tool": {"driver": _driver()},
                "columnKind": "unicodeCodePoints",
                "results": [_result(one, name) for one in findings],
            }
        ],
    }


def _of_problem(problem: Problem) -> Finding:
    where = f"{problem.path}: " if problem.path else ""
    return Finding(Level.ERROR, None, "invalid", problem.line, problem.column,
                   where + problem.message, problem.hint)  # fmt: skip


def _of_remark(document: Document, remark: Remark) -> Finding:
    place = problem_of(document, remark)
    return Finding(remark.level, remark.rule_id, remark.code, place.line, place.column,
                   remark.message, remark.hint)  # fmt: skip


def _driver() -> dict[str, Any]:
    return {
        "name": "paddock policy check",
        "rules": [{"id": code, "shortDescription": {"text": text}} for code, text in CODES.items()],
    }


def _result(finding: Finding, name: str) -> dict[str, Any]:
    hint = f" {finding.hint[0].upper()}{finding.hint[1:]}." if finding.hint else ""
    text = f"{finding.message[0].upper()}{finding.message[1:]}.{hint}"
    region = {"startLine": finding.line, "startColumn": finding.column}
    return {
        "ruleId": finding.code,
        "ruleIndex": list(CODES).index(finding.code),
        "level": finding.level.value,
        "message": {"text": text},
        "locations": [
            {"physicalLocation": {"artifactLocation": {"uri": name}, "region": region}}
        ],
    }  # fmt: skip
