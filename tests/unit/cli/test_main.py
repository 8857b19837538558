"""The command line as a shell meets it: exit codes, what goes to which stream, and no traceback."""

from __future__ import annotations

import importlib
import os
import subprocess
import sys
from pathlib import Path

import pytest

import paddock
from paddock.cli.main import COMMANDS, EXIT_FAILED, EXIT_HOST, EXIT_USAGE, main
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
    try:
        assert main(words) == 0
    except SystemExit as end:
        assert end.code == 0
    out = capsys.readouterr().out
    for name, what in COMMANDS.items():
        assert name in out
        assert what in out


@pytest.mark.parametrize("command", COMMANDS)
def test_every_command_has_a_module_and_helps_instead_of_doing_it(
    command: str, tmp_path: Path
) -> None:
    assert callable(importlib.import_module(f"paddock.cli.{command}").main)
    done = run(command, "--help", PADDOCK_HOME=str(tmp_path / "home"))
    assert done.returncode == 0
    assert f"usage: paddock {command}" in done.stdout
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
    assert main([word]) == EXIT_USAGE
    said = capsys.readouterr()
    assert repr(word) in said.err
    assert "--help" in said.err
    assert said.out == ""


def test_unknown_option_ends_with_two(capsys: pytest.CaptureFixture[str]) -> None:
    for words in (["--frobnicate"], ["ps", "--frobnicate"]):
        with pytest.raises(SystemExit) as end:
            main(words)
        assert end.value.code == EXIT_USAGE
        assert "frobnicate" in capsys.readouterr().err


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
    assert done.returncode == EXIT_USAGE
    assert done.stderr.startswith("paddock: ")
    assert says in done.stderr
    assert "Traceback" not in done.stderr
    assert done.stdout == ""


@pytest.mark.parametrize("words", [["ps"], ["snapshot", "list"], ["template", "list"]])
def test_host_that_cannot_ends_with_three_and_a_hint(words: list[str]) -> None:
    done = run(*words, PADDOCK_HOME="/proc/no/such/place")
    assert done.returncode == EXIT_HOST
    assert done.stderr.startswith("paddock: ")
    assert "hint:" in done.stderr
    assert "Traceback" not in done.stderr


def test_thing_that_is_not_there_ends_with_one(tmp_path: Path) -> None:
    home = str(tmp_path / "home")
    for words in (["snapshot", "verify", "snap-" + "0" * 32], ["template", "remove", "none"],
                  ["volume", "remove", "none"], ["kill", "none"]):  # fmt: skip
        done = run(*words, PADDOCK_HOME=home)
        assert done.returncode == EXIT_FAILED, words
        assert done.stderr.startswith("paddock: ")
        assert "Traceback" not in done.stderr


@pytest.mark.parametrize(
    ("error", "code"),
    [(InvalidInput("x: bad"), EXIT_USAGE), (HostCannot("x", hint="y"), EXIT_HOST),
     (SandboxError("x"), EXIT_FAILED), (KeyboardInterrupt(), 130)],
)  # fmt: skip
def test_every_family_of_errors_has_its_exit_code(
    error: BaseException, code: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(words: list[str]) -> int:
        raise error

    monkeypatch.setattr(importlib.import_module("paddock.cli.ps"), "main", fail)
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
