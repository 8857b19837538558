"""`paddock policy check`, `test` and `schema`: a paddock file looked at by itself."""

from __future__ import annotations

import argparse
import json
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import msgspec
from msgspec.structs import asdict

from paddock.cli.output import say, say_json, warn
from paddock.cli.policy_file import STDIN, read_text

if TYPE_CHECKING:
    from paddock.policy.analysis.lint import Finding
    from paddock.policy.rules import Rule

_EXAMPLE_FAILS = "example-fails"
_MAX_EXAMPLE = 200


def check_files(options: argparse.Namespace) -> int:
    """Every finding of every file, as compilers write them."""
    from paddock.cli.commands.policy import DEFAULT_FILE
    from paddock.policy.analysis.review import Level

    paths = [Path(word) for word in options.files] or [DEFAULT_FILE]
    found = [(str(path), _findings(read_text(path), path)) for path in paths]
    if options.sarif:
        say_json(_sarif(found))
    elif options.json:
        say_json([{"file": name, **asdict(one)} for name, ones in found for one in ones])
    else:
        for name, findings in found:
            say("\n".join(_line(name, one) for one in findings) or f"{name}: ok")
    return int(any(one.level is Level.ERROR for _, ones in found for one in ones))


def _findings(text: str, path: Path) -> list[Finding]:
    from paddock.policy.analysis.lint import check
    from paddock.policy.analysis.review import Level

    found = check(text, str(path))
    if path != STDIN and not any(one.level is Level.ERROR for one in found):
        from paddock.cli.commands.policy_world import world_findings

        found = [*found, *_replay_findings(text, path), *world_findings(text, path)]
    return found


def _replay_findings(text: str, path: Path) -> Iterator[Finding]:
    """Yield what the replay of a run would refuse under `replay.vary`."""
    from paddock.model.errors import InvalidInput
    from paddock.policy.analysis.lint import Finding
    from paddock.policy.analysis.review import Level
    from paddock.policy.file import read_draft
    from paddock.run.matching.rules import vary_of

    draft = read_draft(text, path.name)
    for number, one in enumerate(draft.terms.vary):
        try:
            vary_of(one)
        except InvalidInput as error:
            place = draft.document.place(("replay", "vary", number))
            message = f"replay.vary: {error.message}"
            yield Finding(Level.ERROR, None, "invalid", place.line, place.column, message,
                          error.hint)  # fmt: skip


def _line(name: str, one: Finding) -> str:
    from paddock.model.plain import plain

    hint = f"\n  hint: {plain(one.hint)}" if one.hint else ""
    where = f"{name}:{one.line}:{one.column}"
    rule = f"{plain(one.rule_id, 80)}: " if one.rule_id else ""
    return f"{where}: {one.level.value}: {rule}{plain(one.message)} [{one.code}]{hint}"


def _sarif(found: list[tuple[str, list[Finding]]]) -> dict[str, Any]:
    """One log with one run: code hosts do not take several of one tool."""
    from paddock.policy.analysis.lint import sarif

    logs = [sarif(findings, Path(name).as_posix()) for name, findings in found]
    first = logs[0]
    first["runs"][0]["results"] = [one for log in logs for one in log["runs"][0]["results"]]
    return first


class _Tried(msgspec.Struct, frozen=True):
    """One example and whether it holds."""

    rule_id: str
    should: str  # "match" or "not_match"
    example: dict[str, Any]
    why_not: str | None


def test_file(options: argparse.Namespace) -> int:
    """A line for each example. What else is wrong with the file is an error as well."""
    from paddock.policy.file import problem_of, read_draft
    from paddock.policy.problems import PolicyError

    name = str(options.file)
    draft = read_draft(read_text(options.file), name)
    others = [one for one in draft.remarks if one.code != _EXAMPLE_FAILS]
    if others:
        raise PolicyError(name, [problem_of(draft.document, one) for one in others])
    tried = [one for rule in draft.terms.rules for one in _tried(rule)]
    if options.json:
        say_json([{**asdict(one), "ok": one.why_not is None} for one in tried])
    elif tried:
        say("\n".join(map(_example_line, tried)))
    else:
        warn(f"{name}: no rule has examples")
    return int(any(one.why_not is not None for one in tried))


def _tried(rule: Rule) -> Iterator[_Tried]:
    from paddock.policy.analysis.examples import failures

    failed = {(key, number): why for key, number, why in failures(rule)}
    numbers = {"match": 0, "not_match": 0}
    for example in rule.examples:
        key = "match" if example.should_match else "not_match"
        yield _Tried(rule.id, key, dict(example.content), failed.get((key, numbers[key])))
        numbers[key] += 1


def _example_line(one: _Tried) -> str:
    from paddock.model.plain import plain

    shown = plain(json.dumps(one.example, ensure_ascii=False, default=str), _MAX_EXAMPLE)
    line = f"{one.rule_id}: {one.should} {shown}"
    return f"ok    {line}" if one.why_not is None else f"FAIL  {line}: {plain(one.why_not)}"


def print_schema(options: argparse.Namespace) -> int:
    from paddock.policy.schema import json_schema

    say(json.dumps(json_schema(), indent=2))
    return 0
