"""The command line as a shell meets it: exit codes, what goes to which stream, and no traceback."""

from __future__ import annotations

import argparse
import importlib
import os
import re
import shlex
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

import paddock
from cases import for_each
from paddock.cli.agent_run import split_command
from paddock.cli.command_list import COMMANDS, overview
from paddock.cli.exit_codes import ExitCode
from paddock.cli.main import main
from paddock.cli.parser import CommandParser, parser_of
from paddock.model.errors import HostCannot, InvalidInput, SandboxError


def run(*words: str, **environment: str) -> subprocess.CompletedProcess[str]:
    """`paddock` in a process of its own."""
    return subprocess.run(
        [sys.executable, "-m", "paddock.cli.main", *words],
        capture_output=True,
        text=True,
        env={**os.environ, **environment},
        stdin=subprocess.DEVNULL,
        timeout=60,
    )


# ---- help and version ----------------------------------------------------------------------------


@pytest.mark.parametrize("words", [[], ["--help"], ["-h"]])
def test_help_names_every_command_and_what_it_is_for(
    words: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(words) == 0
    out = capsys.readouterr().out
    for command in COMMANDS.values():
        assert re.search(rf"^.{{10}}{command.name} +{re.escape(command.what)}$", out, re.M), command


def test_every_command_has_a_module_and_helps_instead_of_doing_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("PADDOCK_HOME", str(tmp_path / "home"))
    for command in COMMANDS:
        assert callable(importlib.import_module(f"paddock.cli.commands.{command}").main)
        with pytest.raises(SystemExit) as end:
            sys.exit(main([command, "--help"]))
        assert not end.value.code, command
        assert f"usage: paddock {command}" in capsys.readouterr().out
    assert not (tmp_path / "home").exists()


def test_version_is_the_packages_own(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["--version"]) == 0
    assert capsys.readouterr().out == f"paddock {paddock.__version__}\n"


@pytest.mark.parametrize("words", ["['--version']", "[]"])
def test_what_needs_no_sandbox_loads_no_machinery(words: str) -> None:
    program = (
        "import sys\nfrom paddock.cli.main import main\n"
        f"main({words})\n"
        "heavy = {'asyncio', 'ctypes', 'subprocess', 'socket', 'json', 'IPython'}\n"
        "print(sorted(heavy & set(sys.modules)))\n"
        "print([m for m in sys.modules if m.startswith('paddock.doors')])\n"
    )
    done = subprocess.run(
        [sys.executable, "-S", "-c", f"import sys; sys.path[:0] = {sys.path!r}\n{program}"],
        capture_output=True,
        text=True,
        check=True,
    )
    assert done.stdout.splitlines()[-2:] == ["[]", "[]"]


def test_import_of_the_package_loads_no_machinery() -> None:
    program = "import sys, paddock; print('asyncio' in sys.modules, len(dir(paddock)) > 5)"
    done = subprocess.run(
        [sys.executable, "-S", "-c", f"import sys; sys.path[:0] = {sys.path!r}\n{program}"],
        capture_output=True,
        text=True,
        check=True,
    )
    assert done.stdout.split() == ["False", "True"]


# ---- exit codes ----------------------------------------------------------------------------------


@pytest.mark.parametrize("word", ["frobnicate", "Exec", "exe", ""])
def test_unknown_command_is_named_and_ends_with_two(
    word: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main([word]) == ExitCode.USAGE
    said = capsys.readouterr()
    assert repr(word) in said.err
    assert "--help" in said.err
    assert said.out == ""


@for_each(
    ("line", "message"),
    [
        ("--frobnicate", "there is no option '--frobnicate' before a command"),
        ("--versoin", "there is no option '--versoin' before a command; did you mean --version?"),
        ("rplay last", "there is no command 'rplay'; did you mean replay?"),
        ("sh -x", "there is no command 'sh'; to run it as an agent: paddock run -- sh -x"),
        ("help rplay", "help: there is no command 'rplay'; did you mean replay?"),
        ("help policy chek", "help: paddock policy has no subcommand 'chek'; did you mean check?"),
        ("ps --frobnicate", "ps: there is no option --frobnicate"),
        ("ps --jsn", "ps: there is no option --jsn; did you mean --json?"),
        ("ps x", "ps: 'x' is one word too many"),
        ("runs --limt 3", "runs: there is no option --limt; did you mean --limit?"),
        ("runs --limt=3", "runs: there is no option --limt; did you mean --limit?"),
        ("run --limit pids=9 -- true", "run: there is no option --limit; write --set sandbox."),
        ("compare last", "compare: a second RUN is needed, to compare last with"),
        ("run --ofline -- true", "run: there is no option --ofline; did you mean --offline?"),
        ("run --stage narow -- true", "run: argument --stage: there is no value 'narow'; did you"),
        ("policy chek", "policy: argument COMMAND: there is no subcommand 'chek'; did you mean"),
        ("policy check --sarfi", "policy check: there is no option --sarfi; did you mean --sarif?"),
        ("files last --caat", "files: there is no option --caat; did you mean --cat?"),
        ("show", "show: the following arguments are required: RUN"),
    ],
)
def test_wrong_word_ends_with_two_and_names_what_was_meant(line: str, message: str) -> None:
    done = run(*line.split())
    assert done.returncode == ExitCode.USAGE
    assert done.stderr.startswith(f"paddock: {message}"), done.stderr
    assert "\n  hint: paddock " in done.stderr
    assert done.stdout == ""


# ---- help ----------------------------------------------------------------------------------------


def test_overview_fits_a_small_terminal() -> None:
    lines = overview().splitlines()
    assert len(lines) <= 48
    assert max(map(len, lines)) <= 79


def test_help_of_a_command_is_the_same_by_all_ways(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit):
        main(["policy", "check", "--help"])
    by_option = capsys.readouterr().out
    assert main(["help", "policy", "check"]) == 0
    assert capsys.readouterr().out == by_option
    assert main(["help"]) == 0
    assert capsys.readouterr().out == overview() + "\n"


def _below(parser: CommandParser) -> Iterator[CommandParser]:
    yield parser
    for one in parser.subcommands().values():
        yield from _below(one)


@for_each("command", COMMANDS)
def test_help_has_a_description_an_example_and_all_defaults(command: str) -> None:
    example = COMMANDS[command].example
    assert re.search(rf"\bpaddock {command}\b", example)
    assert f"example:\n  {example}" in parser_of(command).format_help()
    for parser in _below(parser_of(command)):
        assert parser.description, parser.prog
        text = " ".join(parser.format_help().split())
        for action in parser._actions:
            if isinstance(action, argparse._SubParsersAction):
                continue
            assert action.help, (parser.prog, action.dest)
            if action.default not in (None, False, "", argparse.SUPPRESS) and action.default != []:
                assert f"(default: {action.default})" in text, (parser.prog, action.dest)


@for_each("command", sorted(set(COMMANDS) - {"init", "completion", "help", "kill"}))
def test_example_of_a_command_is_a_command_line_that_it_takes(command: str) -> None:
    words = shlex.split(COMMANDS[command].example)[2:]
    if command in ("replay", "fork"):
        words, _ = split_command(words)
    parser = parser_of(command)
    _, rest = (
        parser.parse_known_intermixed_args(words)
        if command in ("files", "apply")
        else (parser.parse_known_args(words))
    )
    assert not rest


@pytest.mark.parametrize(
    ("words", "says"),
    [
        (["exec"], "no command"),
        (["exec", "--limit", "cpu=x", "--", "true"], "--limit"),
        (["exec", "--mount", "nonsense", "--", "true"], "--mount"),
        (["exec", "--env", "A", "--", "true"], "--env"),
        (["kill"], "ids, or --all"),
        (["kill", "--all", "abc"], "ids, or --all"),
    ],
)
def test_wrong_words_end_with_two_and_a_sentence(words: list[str], says: str) -> None:
    done = run(*words)
    assert done.returncode == ExitCode.USAGE
    assert done.stderr.startswith("paddock: ")
    assert says in done.stderr
    assert "Traceback" not in done.stderr
    assert done.stdout == ""


@pytest.mark.parametrize("words", [["ps"], ["snapshot", "list"], ["template", "list"]])
def test_host_that_cannot_ends_with_three_and_a_hint(words: list[str]) -> None:
    done = run(*words, PADDOCK_HOME="/proc/no/such/place")
    assert done.returncode == ExitCode.HOST_CANNOT
    assert done.stderr.startswith("paddock: ")
    assert "hint:" in done.stderr
    assert "Traceback" not in done.stderr


def test_thing_that_is_not_there_ends_with_one(tmp_path: Path) -> None:
    home = str(tmp_path / "home")
    for words in (["snapshot", "verify", "snap-" + "0" * 32], ["template", "remove", "none"],
                  ["volume", "remove", "none"], ["kill", "none"]):  # fmt: skip
        done = run(*words, PADDOCK_HOME=home)
        assert done.returncode == ExitCode.FAILED, words
        assert done.stderr.startswith("paddock: ")
        assert "Traceback" not in done.stderr


@pytest.mark.parametrize(
    ("error", "code"),
    [(InvalidInput("x: bad"), ExitCode.USAGE), (HostCannot("x", hint="y"), ExitCode.HOST_CANNOT),
     (SandboxError("x"), ExitCode.FAILED), (KeyboardInterrupt(), 130)],
)  # fmt: skip
def test_every_family_of_errors_has_its_exit_code(
    error: BaseException, code: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(words: list[str]) -> int:
        raise error

    monkeypatch.setattr(importlib.import_module("paddock.cli.commands.ps"), "main", fail)
    assert main(["ps"]) == code


# ---- pipes ---------------------------------------------------------------------------------------


def test_empty_home_lists_nothing_and_is_no_error(tmp_path: Path) -> None:
    home = str(tmp_path / "home")
    assert run("ps", PADDOCK_HOME=home).stdout == ""
    assert run("ps", "--json", PADDOCK_HOME=home).stdout == "[]\n"
    assert run("ps", "-q", PADDOCK_HOME=home).stdout == ""
    assert run("template", "list", "--json", PADDOCK_HOME=home).stdout == "[]\n"
    assert run("volume", "list", "--json", PADDOCK_HOME=home).stdout == "[]\n"
    assert run("snapshot", "list", "--json", PADDOCK_HOME=home).stdout == "[]\n"


def test_reader_that_goes_away_is_no_traceback(tmp_path: Path) -> None:
    reader, writer = os.pipe()
    os.close(reader)
    process = subprocess.Popen(
        [sys.executable, "-m", "paddock.cli.main", "ps", "--json"],
        stdout=writer,
        stderr=subprocess.PIPE,
        text=True,
        env={**os.environ, "PADDOCK_HOME": str(tmp_path / "home")},
    )
    os.close(writer)
    _, said = process.communicate(timeout=60)
    assert "Traceback" not in said
