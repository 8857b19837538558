"""Checks a paddock file: all that is wrong and all that is doubtful, also as SARIF 2.1.0."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import msgspec

from paddock.policy.analysis.review import CODES, Level, Remark, doubts
from paddock.policy.file import DEFAULT_NAME, problem_of, read_draft
from paddock.policy.file.document import Document
from paddock.policy.problems import PolicyError, Problem


class LintFinding(msgspec.Struct, frozen=True):
    """One thing to say about a place in the file."""

    level: Level
    rule_id: str | None
    code: str
    line: int
    column: int
    message: str
    hint: str | None


def check(text: str, name: str = DEFAULT_NAME) -> list[LintFinding]:
    """Return everything to say about the text, in its order. With an error in it, `load` refuses
    it."""
    try:
        draft = read_draft(text, name)
    except PolicyError as error:
        return [_of_problem(problem) for problem in error.problems]
    remarks = [*draft.remarks, *doubts(draft.terms)]
    findings = [_of_remark(draft.document, remark) for remark in remarks]
    return sorted(findings, key=_reading_order)


def _reading_order(finding: LintFinding) -> tuple[int, int, str, str]:
    return finding.line, finding.column, finding.code, finding.message


def sarif(findings: Iterable[LintFinding], name: str = DEFAULT_NAME) -> dict[str, Any]:
    """Return a SARIF log, which code hosts and editors show beside the lines."""
    return {
        "$schema": "https://json.schemastore.org/sarif-2.1.0.json",
        "version": "2.1.0",
        "runs": [
            {
                "tool": {"driver": _driver()},
                "columnKind": "unicodeCodePoints",
                "results": [_result(finding, name) for finding in findings],
            }
        ],
    }


def _of_problem(problem: Problem) -> LintFinding:
    where = f"{problem.path}: " if problem.path else ""
    return LintFinding(Level.ERROR, None, "invalid", problem.line, problem.column,
                   where + problem.message, problem.hint)  # fmt: skip


def _of_remark(document: Document, remark: Remark) -> LintFinding:
    place = problem_of(document, remark)
    return LintFinding(remark.level, remark.rule_id, remark.code, place.line, place.column,
                   remark.message, remark.hint)  # fmt: skip


def _driver() -> dict[str, Any]:
    return {
        "name": "paddock policy check",
        "rules": [{"id": code, "shortDescription": {"text": text}} for code, text in CODES.items()],
    }


def _result(finding: LintFinding, name: str) -> dict[str, Any]:
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
