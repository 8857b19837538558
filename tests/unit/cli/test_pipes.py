"""Commands in real pipes: whose reader goes away, and which programs cannot be started."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from paddock.cli.exit_codes import ExitCode
from unit.cli.conftest import Call
from unit.cli.past import make_run

ENDLESS = "while :; do echo line; done"


@pytest.fixture
def project(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    place = tmp_path / "project"
    place.mkdir()
    monkeypatch.chdir(place)
    return place


def piped(words: list[str], cwd: Path, *, lines: int) -> tuple[int, str]:
    """Reads so many lines of the output of `paddock`, closes the pipe, and returns the exit code
    and what was written to the error output."""
    environment = {key: value for key, value in os.environ.items() if key != "PYTHONUNBUFFERED"}
    process = subprocess.Popen(
        [sys.executable, "-m", "paddock.cli.main", *words],
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        cwd=cwd,
        env=environment,
    )
    assert process.stdout is not None and process.stderr is not None
    with process, process.stdout, process.stderr:
        for _ in range(lines):
            assert process.stdout.readline()
        process.stdout.close()
        said = process.stderr.read()
        return process.wait(60), said


def test_run_whose_reader_goes_away_ends_its_agent_and_closes_the_journal(
    home: Path, project: Path, call: Call
) -> None:
    # It does not stop by itself, and ignores a broken pipe of its own.
    agent = ["sh", "-c", f"trap '' PIPE; {ENDLESS}"]
    code, said = piped(["run", "--", *agent], project, lines=2)

    assert code == ExitCode.READER_GONE
    assert "Traceback" not in said
    assert "(nobody reads its output any more)" in said
    assert call("verify", "last", "--closed").code == ExitCode.DONE
    assert call("ps", "-q").out == ""


def test_quiet_agent_that_goes_on_without_writing_is_ended_at_its_first_lost_line(
    home: Path, project: Path, call: Call
) -> None:
    agent = ["sh", "-c", f"for i in 1 2 3 4 5; do echo {'x' * 70_000}; done; sleep 60"]
    code, said = piped(["run", "-q", "--", *agent], project, lines=1)

    assert code == ExitCode.READER_GONE
    assert said == ""
    assert call("verify", "last", "--closed").code == ExitCode.DONE


def test_exec_whose_reader_goes_away_ends_its_command(
    home: Path, project: Path, call: Call
) -> None:
    code, said = piped(["exec", "--", "sh", "-c", ENDLESS], project, lines=2)

    assert (code, said) == (ExitCode.READER_GONE, "")
    assert call("ps", "-q").out == ""


@pytest.mark.parametrize(
    "words",
    [["show", "r", "--step", "1", "--blobs"], ["export", "r", "--format", "jsonl"],
     ["runs"], ["--help"], ["show", "--help"]],
)  # fmt: skip
def test_command_whose_reader_goes_away_ends_with_141_and_says_nothing(
    words: list[str], home: Path, project: Path
) -> None:
    make_run(home, "r")
    reader, writer = os.pipe()
    os.close(reader)
    done = subprocess.run(
        [sys.executable, "-m", "paddock.cli.main", *words],
        stdout=writer,
        stderr=subprocess.PIPE,
        text=True,
        cwd=project,
        check=False,
    )
    os.close(writer)
    assert (done.returncode, done.stderr) == (ExitCode.READER_GONE, "")


@pytest.mark.parametrize("command", ["run", "exec"])
def test_program_that_is_not_there_ends_with_127_and_one_that_is_none_with_126(
    command: str, home: Path, project: Path, call: Call, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(project)
    (project / "data").write_text("no program")
    mounts = ["--mount", f"{project}:{project}"] if command == "exec" else []

    for program in ("no-such-program", f"{project}/none"):
        said = call(command, *mounts, "--", program)
        assert said.code == ExitCode.NO_PROGRAM, said
        assert program in said.err
    for program in (f"{project}/data", "/etc"):
        said = call(command, *mounts, "--", program)
        assert said.code == ExitCode.NOT_STARTED, said
        assert program in said.err
    if command == "exec":
        said = call("exec", "--cwd", "/none", "--", "true")
        assert said.code == ExitCode.NOT_STARTED
        assert "working directory /none" in said.err
