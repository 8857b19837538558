"""`paddock policy check`, `test` and `schema`: a paddock file looked at by itself."""

from __future__ import annotations

import argparse
import asyncio
import json
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import msgspec
from msgspec.structs import asdict, replace

from paddock.cli.output import say, say_json, warn
from paddock.cli.policy_file import STDIN, read_text
from paddock.model.errors import HostCannot, InvalidInput, PaddockError
from paddock.model.printable import printable

if TYPE_CHECKING:
    from paddock.policy.analysis.lint import LintFinding
    from paddock.policy.rules import Rule

_EXAMPLE_FAILS = "example-fails"
_MAX_EXAMPLE = 200


def check_files(options: argparse.Namespace) -> int:
    """Write every finding of every file, as compilers write them."""
    from paddock.cli.commands.policy import DEFAULT_FILE
    from paddock.policy.analysis.review import Level

    paths = [Path(word) for word in options.files] or [DEFAULT_FILE]
    findings_by_file = [(str(path), _findings(read_text(path), path)) for path in paths]
    if options.sarif:
        say_json(_sarif(findings_by_file))
    elif options.json:
        say_json(
            [
                {"file": name, **asdict(finding)}
                for name, findings in findings_by_file
                for finding in findings
            ]
        )
    else:
        for name, findings in findings_by_file:
            say("\n".join(_line(name, finding) for finding in findings) or f"{name}: ok")
    return int(
        any(
            finding.level is Level.ERROR for _, findings in findings_by_file for finding in findings
        )
    )


def _findings(text: str, path: Path) -> list[LintFinding]:
    from paddock.policy.analysis.lint import check
    from paddock.policy.analysis.review import Level

    findings = check(text, str(path))
    if path != STDIN and not any(finding.level is Level.ERROR for finding in findings):
        findings = [*findings, *_replay_findings(text, path), *world_findings(text, path)]
    return findings


def _replay_findings(text: str, path: Path) -> Iterator[LintFinding]:
    """Yield what the replay of a run would refuse under `replay.vary`."""
    from paddock.policy.analysis.lint import LintFinding
    from paddock.policy.analysis.review import Level
    from paddock.policy.file import read_draft
    from paddock.run.matching.rules import vary_of

    draft = read_draft(text, path.name)
    for number, rule in enumerate(draft.terms.vary):
        try:
            vary_of(rule)
        except InvalidInput as error:
            place = draft.document.place(("replay", "vary", number))
            message = f"replay.vary: {error.message}"
            yield LintFinding(Level.ERROR, None, "invalid", place.line, place.column, message,
                          error.hint)  # fmt: skip


def world_findings(text: str, path: Path) -> Iterator[LintFinding]:
    """Yield what only the stand-ins themselves know to be wrong: each one of the file is made, with
    its seed, and closed again."""
    from paddock.policy.analysis.lint import LintFinding
    from paddock.policy.analysis.review import Level
    from paddock.policy.file import read_draft
    from paddock.world.world import World

    draft = read_draft(text, path.name)
    world, project = draft.terms.world, path.absolute().parent
    for number, stand_in in enumerate(world.stand_ins if world is not None else ()):
        assert world is not None
        with tempfile.TemporaryDirectory(prefix="paddock-check-") as scratch:
            alone = replace(world, stand_ins=(stand_in,))
            try:
                made = World.open(Path(scratch) / str(number), "check", alone, project)
            except PaddockError as error:
                place = draft.document.place(("world", stand_in.place))
                # What this machine lacks, another one may have.
                level = Level.WARNING if isinstance(error, HostCannot) else Level.ERROR
                yield LintFinding(level, None, "invalid", place.line, place.column, error.message,
                              error.hint)  # fmt: skip
            else:
                asyncio.run(made.close())


def _line(name: str, finding: LintFinding) -> str:
    hint = f"\n  hint: {printable(finding.hint)}" if finding.hint else ""
    where = f"{name}:{finding.line}:{finding.column}"
    rule = f"{printable(finding.rule_id, 80)}: " if finding.rule_id else ""
    return (
        f"{where}: {finding.level.value}: {rule}{printable(finding.message)} [{finding.code}]{hint}"
    )


def _sarif(findings_by_file: list[tuple[str, list[LintFinding]]]) -> dict[str, Any]:
    """Return one log with one run: code hosts do not take several of one tool."""
    from paddock.policy.analysis.lint import sarif

    logs = [sarif(findings, Path(name).as_posix()) for name, findings in findings_by_file]
    first = logs[0]
    first["runs"][0]["results"] = [result for log in logs for result in log["runs"][0]["results"]]
    return first


class _Tried(msgspec.Struct, frozen=True):
    """An example of a rule, and why it does not hold if it does not."""

    rule_id: str
    should: str  # "match" or "not_match"
    example: dict[str, Any]
    why_not: str | None


def test_file(options: argparse.Namespace) -> int:
    """Write a line for each example. Anything else that is wrong with the file is an error."""
    from paddock.policy.file import problem_of, read_draft
    from paddock.policy.problems import PolicyError

    name = str(options.file)
    draft = read_draft(read_text(options.file), name)
    others = [remark for remark in draft.remarks if remark.code != _EXAMPLE_FAILS]
    if others:
        raise PolicyError(name, [problem_of(draft.document, remark) for remark in others])
    tried = [example for rule in draft.terms.rules for example in _try_examples(rule)]
    if options.json:
        say_json([{**asdict(example), "ok": example.why_not is None} for example in tried])
    elif tried:
        say("\n".join(map(_example_line, tried)))
    else:
        warn(f"{name}: no rule has examples")
    return int(any(example.why_not is not None for example in tried))


def _try_examples(rule: Rule) -> Iterator[_Tried]:
    from paddock.policy.analysis.examples import failures

    failed = {(key, number): why for key, number, why in failures(rule)}
    numbers = {"match": 0, "not_match": 0}
    for example in rule.examples:
        key = "match" if example.should_match else "not_match"
        yield _Tried(rule.id, key, dict(example.content), failed.get((key, numbers[key])))
        numbers[key] += 1


def _example_line(tried: _Tried) -> str:
    shown = printable(json.dumps(tried.example, ensure_ascii=False, default=str), _MAX_EXAMPLE)
    line = f"{tried.rule_id}: {tried.should} {shown}"
    return f"ok    {line}" if tried.why_not is None else f"FAIL  {line}: {printable(tried.why_not)}"


def print_schema(options: argparse.Namespace) -> int:
    from paddock.policy.terms import json_schema

    say(json.dumps(json_schema(), indent=2))
    return 0
