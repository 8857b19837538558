"""A paddock file from a cloned repository runs nothing on the host before its user agreed."""

from __future__ import annotations

import json
import os
import pty
import subprocess
import sys
from pathlib import Path

import pytest

NOT_TRUSTED = 6
FILE = """version: 1
agent: a
stage: observe
network: {allow: ["a.example:443"]}
secrets:
  TOKEN: {from: {command: [sh, -c, "touch PLACE/owned; cat PLACE/value"]}, to: [a.example]}
"""


@pytest.fixture
def clone(tmp_path: Path) -> Path:
    place = tmp_path / "clone"
    place.mkdir()
    (place / "value").write_text("a-value-of-a-secret")
    (place / "paddock.yaml").write_text(FILE.replace("PLACE", str(place)))
    return place


def command(*words: str) -> list[str]:
    return [sys.executable, "-m", "paddock.cli.main", *words]


def paddock(place: Path, *words: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(command(*words), cwd=place, stdin=subprocess.DEVNULL, text=True,
                          capture_output=True, check=False, timeout=120)  # fmt: skip


def at_terminal(place: Path, answer: str, *words: str) -> tuple[int, str]:
    """The command with a terminal, and what it showed."""
    main, side = pty.openpty()
    with subprocess.Popen(command(*words), cwd=place, stdin=side, stdout=side, stderr=side) as one:
        os.close(side)
        os.write(main, answer.encode())
        shown = b""
        while True:
            try:
                part = os.read(main, 65536)
            except OSError:
                break
            if not part:
                break
            shown += part
        code = one.wait(120)
    os.close(main)
    return code, shown.decode(errors="replace")


def test_run_is_refused_until_somebody_agreed(clone: Path) -> None:
    owned = clone / "owned"
    refused = paddock(clone, "run", "-q", "--", "true")
    assert refused.returncode == NOT_TRUSTED
    assert "touch" in refused.stderr
    assert "paddock trust" in refused.stderr
    for words in (("exec", "-f", "paddock.yaml", "--", "true"), ("test", ".")):
        if words[0] == "test":
            scenario = "version: 1\nname: one\nagent: ['true']\nfile: paddock.yaml\n"
            (clone / "a.scenario.yaml").write_text(scenario)
        assert paddock(clone, *words).returncode == NOT_TRUSTED
    assert not owned.exists()
    assert paddock(clone, "run", "-q", "--trust", "--", "true").returncode == 0
    assert owned.exists()
    owned.unlink()
    assert paddock(clone, "run", "-q", "--", "true").returncode == NOT_TRUSTED
    assert not owned.exists()


def test_person_is_shown_the_requests_and_asked_once(clone: Path) -> None:
    code, shown = at_terminal(clone, "n\n", "run", "-q", "--", "true")
    assert code == NOT_TRUSTED
    assert "run on this machine" in shown
    code, shown = at_terminal(clone, "y\n", "run", "-q", "--", "true")
    assert code == 0
    done = paddock(clone, "run", "--json", "--", "true")
    assert done.returncode == 0
    run = json.loads(done.stdout)["run"]
    assert paddock(clone, "fork", run, "--at", "1", "-q").returncode == 0
    assert paddock(clone, "trust", "--revoke", "paddock.yaml").returncode == 0
    assert paddock(clone, "run", "-q", "--", "true").returncode == NOT_TRUSTED
    (clone / "owned").unlink()
    assert paddock(clone, "fork", run, "--at", "1", "-q").returncode == NOT_TRUSTED
    assert paddock(clone, "replay", run, "--agent", "-q").returncode == NOT_TRUSTED
    assert not (clone / "owned").exists()
    assert paddock(clone, "replay", run, "--agent", "-q", "--trust").returncode == 0


def test_scenario_cannot_add_to_what_was_agreed_to(clone: Path) -> None:
    """A set of the scenario is not a word of the user."""
    (clone / "paddock.yaml").write_text("version: 1\nagent: a\nstage: observe\nrules: []\n"
                                        "network: {allow: ['a.example:443']}\n")  # fmt: skip
    said = f"{{T: {{from: 'command:touch {clone}/owned', to: [a.example]}}}}"
    text = f"version: 1\nname: one\nagent: ['true']\nset: {{secrets: {said}}}\n"
    (clone / "a.scenario.yaml").write_text(text)
    assert paddock(clone, "test", ".").returncode == NOT_TRUSTED
    (clone / "paddock.yaml").unlink()
    assert paddock(clone, "test", ".").returncode != 0
    assert not (clone / "owned").exists()


def test_scenario_shows_nothing_from_elsewhere_unasked(clone: Path, tmp_path: Path) -> None:
    (clone / "paddock.yaml").unlink()
    (tmp_path / "key").write_text("mine")
    for said in ("files: {x: {from: ../key}}", "cwd: .."):
        text = f"version: 1\nname: one\nagent: ['true']\n{said}\n"
        (clone / "a.scenario.yaml").write_text(text)
        refused = paddock(clone, "test", ".")
        assert refused.returncode == NOT_TRUSTED, refused.stderr
        assert "show the agent" in refused.stderr


def test_trust_command_agrees_lists_and_revokes(clone: Path) -> None:
    assert paddock(clone, "trust").returncode == 2
    agreed = paddock(clone, "trust", "--yes")
    assert agreed.returncode == 0
    assert "run on this machine" in agreed.stdout
    listed = json.loads(paddock(clone, "trust", "--list", "--json").stdout)["files"]
    assert str(clone / "paddock.yaml") in [one["file"] for one in listed]
    assert paddock(clone, "run", "-q", "--", "true").returncode == 0
    assert paddock(clone, "trust", "--revoke", "paddock.yaml").returncode == 0
    assert paddock(clone, "trust", "--revoke", "paddock.yaml").returncode == 1


def test_file_that_init_wrote_is_trusted(tmp_path: Path) -> None:
    (tmp_path / "agent.py").write_text("print('hello')\n")
    assert paddock(tmp_path, "init").returncode == 0
    assert paddock(tmp_path, "run", "-q", "--", "python3", "agent.py").returncode == 0


def test_command_is_run_in_the_directory_of_its_file(tmp_path: Path) -> None:
    """Not in the one that Paddock is started in, which may have a script of the same name."""
    for name in ("project", "elsewhere"):
        place = tmp_path / name
        place.mkdir()
        script = f"#!/bin/sh\ntouch {tmp_path}/{name}-was-run\necho a-value-of-a-secret\n"
        (place / "token.sh").write_text(script)
        (place / "token.sh").chmod(0o755)
    (tmp_path / "project" / "paddock.yaml").write_text(
        "version: 1\nagent: a\nstage: observe\nnetwork: {allow: ['a.example:443']}\n"
        "secrets: {TOKEN: {from: 'command:./token.sh', to: [a.example]}}\n"
    )
    assert paddock(tmp_path / "project", "trust", "--yes").returncode == 0
    words = ("-f", "../project/paddock.yaml")
    done = paddock(tmp_path / "elsewhere", "run", "--json", *words, "--", "true")
    assert done.returncode == 0, done.stderr
    run = json.loads(done.stdout)["run"]
    assert paddock(tmp_path / "elsewhere", "fork", run, "--at", "1", "-q").returncode == 0
    assert (tmp_path / "project-was-run").exists()
    assert not (tmp_path / "elsewhere-was-run").exists()


def test_link_to_a_trusted_file_runs_nothing(clone: Path, tmp_path: Path) -> None:
    assert paddock(clone, "trust", "--yes").returncode == 0
    other = tmp_path / "other"
    other.mkdir()
    (other / "paddock.yaml").symlink_to(clone / "paddock.yaml")
    refused = paddock(other, "run", "-q", "--", "true")
    assert refused.returncode == NOT_TRUSTED
    assert f"paddock trust {other}/paddock.yaml" in refused.stderr
    assert not (clone / "owned").exists()
    assert paddock(other, "trust", "--yes").returncode == 0
    assert paddock(other, "run", "-q", "--", "true").returncode == 0
