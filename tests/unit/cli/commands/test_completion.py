"""Completion: what is offered, and that real shells offer it when a person presses Tab."""

from __future__ import annotations

import os
import pty
import re
import shutil
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from cases import for_each
from paddock.cli.command_list import COMMANDS
from paddock.cli.commands.completion import SCRIPTS, candidates
from paddock.cli.main import main
from paddock.state.snapshots.store import SnapshotStore
from polling import is_readable
from unit.cli.past import make_run

START = {
    "bash": ["bash", "--norc", "--noprofile", "-i"],
    "zsh": ["zsh", "-f", "-i"],
    "fish": ["fish", "--no-config", "-i"],
}
LOAD = {
    "bash": "source <(paddock completion bash)",
    "zsh": "bindkey -e; autoload -U compinit; compinit -u -D; source <(paddock completion zsh)",
    "fish": "paddock completion fish | source",
}


def offered(*words: str) -> list[str]:
    return [line.split("\t")[0] for line in candidates(words)]


@pytest.fixture
def runs(home: Path) -> Path:
    make_run(home, "older")
    make_run(home, "newer")
    os.utime(home / "runs" / "older", (1, 1))
    return home


@for_each(
    ("line", "expected"),
    [
        ("re|", ["replay", "reindex"]),
        ("--|", ["--help", "--version"]),
        ("nonsense |", []),
        ("show |", ["last", "newer", "older"]),
        ("show n|", ["newer"]),
        ("show last --on|", ["--only"]),
        ("show --only b|", ["blocked"]),
        ("show --json --js|", []),  # once is enough
        ("run -e A=1 --en|", ["--env"]),  # may be repeated
        ("export --format=h|", ["--format=har"]),
        ("export --format = h|", ["har"]),  # as bash takes it apart
        ("export --format =|", ["otel", "har", "jsonl", "csv"]),
        ("run --file |", [":files"]),
        ("run a|", [":command 1"]),
        ("run --json agent |", [":command 2"]),
        ("replay last --agent -- |", [":command 4"]),
        ("verify o|", ["older", ":files"]),
        ("compare newer o|", ["older"]),
        ("policy ch|", ["check"]),
        ("policy check --s|", ["--sarif"]),
        ("policy replay x.yaml n|", ["newer"]),
        ("policy explain --http GET u|", []),
        ("policy explain --http GET u --sta|", ["--stage"]),
        ("help ver|", ["verdicts", "verify"]),
        ("help policy ch|", ["check"]),
        ("init |", [":directories"]),
        ("ps |", ["--help", "--json", "--quiet"]),
        ("completion z|", ["zsh"]),
    ],
)
def test_what_may_stand_there_is_offered(runs: Path, line: str, expected: list[str]) -> None:
    words = line.removesuffix("|").split(" ")
    assert offered(*words) == expected


def test_snapshot_is_offered_by_its_name(home: Path, tmp_path: Path) -> None:
    assert offered("exec", "--snapshot", "") == []
    assert not (home / "snapshots").exists()
    (tree := tmp_path / "tree").mkdir()
    store = SnapshotStore(home / "snapshots")
    unnamed = store.save(tree, meta={})
    store.save(tree, meta={}, name="first")
    assert set(offered("exec", "--snapshot", "")) == {unnamed, "first"}
    assert offered("exec", "--snapshot", "f") == ["first"]


@for_each("separator", [[], ["--"]])
def test_words_are_taken_with_and_without_a_separator(
    home: Path, capsys: pytest.CaptureFixture[str], separator: list[str]
) -> None:
    assert main(["completion", "--words", *separator, "verd"]) == 0
    assert capsys.readouterr().out.startswith("verdicts")


def test_completing_loads_nothing_heavy(home: Path) -> None:
    program = (
        "import sys\nfrom paddock.cli.commands.completion import candidates\n"
        f"for name in {sorted(set(COMMANDS) - {'init', 'show'})}: list(candidates([name, '']))\n"
        "heavy = {'asyncio', 'pydantic', 'cryptography', 'sqlite3', 'yaml', 'subprocess', 'h2'}\n"
        "sys.exit(repr(heavy & set(sys.modules)) if heavy & set(sys.modules) else 0)"
    )
    subprocess.run([sys.executable, "-c", program], check=True)


@pytest.mark.parametrize("shell", SCRIPTS)
def test_script_is_sound(shell: str) -> None:
    if shutil.which(shell) is None:
        pytest.skip(f"{shell} is not installed")
    subprocess.run([shell, "-n"], input=SCRIPTS[shell], text=True, check=True)


class Shell:
    """A shell in a terminal of its own, at which somebody types."""

    def __init__(self, shell: str, cwd: Path, home: Path, programs: Path) -> None:
        path = f"{programs}:{os.path.dirname(sys.executable)}:{os.environ['PATH']}"
        self._pid, self._fd = pty.fork()
        if self._pid == 0:
            os.chdir(cwd)
            environment = {
                "PATH": path,
                "HOME": str(cwd),
                "PADDOCK_HOME": str(home),
                "TERM": "dumb",
            }
            os.execvpe(shell, START[shell], environment)

    def type(self, text: str, until: bytes) -> str:
        """Types, and returns all that is shown up to and with a text."""
        os.write(self._fd, text.encode())
        data, end = b"", time.monotonic() + 60
        while not re.search(until, data):
            assert time.monotonic() < end, data
            if is_readable(self._fd, 1.0):
                data += os.read(self._fd, 65536)
        return data.decode(errors="replace")

    def completed(self, line: str) -> list[str]:
        """Presses Tab behind a line, and returns the words that it then has: they are printed, with
        a command that is written before them."""
        os.write(self._fd, f"{line}\t".encode())
        shown = self.type("\x01printf '<%s>' \x05 ;echo ' the-''end'\n", until=rb"the-end")
        printed = shown.partition("the-end")[0]  # the next prompt has a ">"
        return re.findall(r"<([^<>\n]*)>", printed.rpartition(">")[0].rpartition("\n")[2] + ">")

    def end(self) -> None:
        os.close(self._fd)
        os.waitpid(self._pid, 0)


@pytest.fixture(params=list(SCRIPTS))
def shell(request: pytest.FixtureRequest, runs: Path, tmp_path: Path) -> Iterator[Shell]:
    if shutil.which(request.param) is None:
        pytest.skip(f"{request.param} is not installed")
    programs, project = tmp_path / "programs", tmp_path / "project"
    for place in (programs, project):
        place.mkdir()
    (programs / "my-own-agent").write_text("#!/bin/sh\n")
    (programs / "my-own-agent").chmod(0o755)
    (project / "paddock.yaml").write_text("agent: a\n")
    shell = Shell(request.param, project, runs, programs)
    shell.type(f"{LOAD[request.param]}; echo 'is-''ready'\n", until=rb"is-ready")
    yield shell
    shell.end()


def test_shell_completes_at_tab(shell: Shell) -> None:
    for line, words in {
        "paddock repl": ["paddock", "replay"],
        "paddock show l": ["paddock", "show", "last"],
        "paddock show newe": ["paddock", "show", "newer"],
        "paddock show last --on": ["paddock", "show", "last", "--only"],
        "paddock show last --only bl": ["paddock", "show", "last", "--only", "blocked"],
        "paddock export last --format=js": ["paddock", "export", "last", "--format=jsonl"],
        "paddock run -f padd": ["paddock", "run", "-f", "paddock.yaml"],
        "paddock run -- my-own-a": ["paddock", "run", "--", "my-own-agent"],
        "paddock run --offline my-own-a": ["paddock", "run", "--offline", "my-own-agent"],
    }.items():
        assert shell.completed(line) == words, line
