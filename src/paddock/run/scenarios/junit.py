"""Results as JUnit XML, in the shape that CI systems read: suites, cases, failures, properties."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from itertools import groupby
from pathlib import PurePath
from xml.etree import ElementTree as Xml

from paddock.run.scenarios.play import CaseResult, CaseStatus, ScenarioRun

_MAX_TEXT = 100_000
# What XML 1.0 cannot say, not even escaped.
_UNSPEAKABLE = re.compile(r"[^\t\n\r\u0020-\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]")


def junit_xml(results: Sequence[CaseResult]) -> str:
    """Render the whole document."""
    root = Xml.Element("testsuites", _counts(results))
    root.set("name", "paddock")
    for source, group in groupby(results, key=lambda result: result.case.scenario.source):
        cases = list(group)
        suite = Xml.SubElement(root, "testsuite", _counts(cases))
        suite.set("name", _text(source))
        for result in cases:
            _case(suite, result)
    Xml.indent(root)
    return (
        '<?xml version="1.0" encoding="utf-8"?>\n' + Xml.tostring(root, encoding="unicode") + "\n"
    )


def _counts(results: Sequence[CaseResult]) -> dict[str, str]:
    standings = [result.standing for result in results]
    failed = standings.count(CaseStatus.FAILED) + standings.count(CaseStatus.INCONCLUSIVE)
    return {
        "tests": str(len(results)),
        "failures": str(failed),
        "errors": str(standings.count(CaseStatus.BROKEN)),
        "skipped": str(standings.count(CaseStatus.SKIPPED)),
        "time": f"{sum(result.duration_s for result in results):.3f}",
    }


def _case(suite: Xml.Element, result: CaseResult) -> None:
    source = PurePath(result.case.scenario.source)
    case = Xml.SubElement(suite, "testcase", {
        "classname": _text(source.name.removesuffix(source.suffix)),
        "name": _text(result.case.name),
        "file": _text(str(source)),
        "time": f"{result.duration_s:.3f}",
    })  # fmt: skip
    _properties(case, result)
    match result.standing:
        case CaseStatus.FAILED | CaseStatus.INCONCLUSIVE:
            _complaint(case, "failure", result)
        case CaseStatus.BROKEN:
            _complaint(case, "error", result)
        case CaseStatus.SKIPPED:
            Xml.SubElement(case, "skipped", {"message": "another case had failed"})
        case CaseStatus.PASSED:
            pass
    runs = [
        f"run {attempt.number}: paddock show {attempt.run}"
        for attempt in result.attempts
        if attempt.run
    ]
    if runs:
        Xml.SubElement(case, "system-out").text = _text("\n".join(runs))
    if result.warning is not None:
        Xml.SubElement(case, "system-err").text = _text(f"warning: {result.warning}")


def _properties(case: Xml.Element, result: CaseResult) -> None:
    properties = Xml.SubElement(case, "properties")
    values = {**result.case.point, "standing": result.standing.value}
    if result.case.scenario.repeat > 1:
        values["rate"] = str(result.rate)
    if result.unstruck:
        values["faults-never-struck"] = ", ".join(result.unstruck)
    for name, value in values.items():
        Xml.SubElement(properties, "property", {"name": name, "value": _text(value)})


def _complaint(case: Xml.Element, kind: str, result: CaseResult) -> None:
    lines = list(failure_lines(result.attempts))
    first = lines[0] if lines else f"passed {result.rate}"
    element = Xml.SubElement(
        case, kind, {"message": _text(first)[:1000], "type": result.standing.value}
    )
    element.text = _text("\n".join(lines))


def failure_lines(attempts: Iterable[ScenarioRun]) -> Iterable[str]:
    """Yield every failure of every run: what was expected, what came, and the command that shows
    more."""
    for attempt in attempts:
        if attempt.error is not None:
            yield f"run {attempt.number} is broken: {attempt.error}"
        for failure in attempt.failures:
            yield f"{failure.where}: expected {failure.expected}"
            yield f"  found: {failure.found}"
            yield f"  look:  {failure.look(attempt.run or '?')}"


def _text(text: str) -> str:
    return _UNSPEAKABLE.sub("?", text[:_MAX_TEXT])
