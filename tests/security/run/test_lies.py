"""An agent that tells stories: to the journal, to the terminal, and to whoever takes its work."""

from __future__ import annotations

import contextlib
import os
import subprocess
import sys
import time
from pathlib import Path

import pytest

from paddock.cli.commands.apply import main as apply
from paddock.cli.commands.files import main as files
from paddock.cli.commands.show import main as show
from paddock.cli.render.replay import print_past, tell_divergence, tell_what_next
from paddock.journal.log import RunLog
from paddock.model.errors import PaddockError
from paddock.model.events import Alert, Marked, PromptReported, WentLive
from paddock.run.replay.replay import replay
from security.run.conftest import GET, Stand, said, steps

REPORTING = r"""
import json, os, socket
def report(path, body):
    host = os.environ["PADDOCK_INSIDE"].removeprefix("http://")
    name, _, port = host.partition(":")
    raw = json.dumps(body).encode()
    with socket.create_connection((name, int(port or 80)), 5) as sock:
        head = f"POST {path} HTTP/1.1\r\nHost: x\r\nConnection: close\r\n"
        sock.sendall(f"{head}Content-Length: {len(raw)}\r\n\r\n".encode() + raw)
        return sock.recv(100).split()[1].decode()
"""
ACTS = ("\x1b", "\x07", "\u202e")  # on a terminal


def test_a_report_of_the_agent_is_no_alert_and_no_step(
    stand: Stand, capsys: pytest.CaptureFixture[str]
) -> None:
    lie = {"text": "\x1b[2J! ALERT \u202e", "what": "alert", "step": 99, "type": "decided",
           "data": {"what": "alert", "alert": "x"}}  # fmt: skip
    ended = stand.record(
        f"{REPORTING}print(report('/v1/mark', {lie!r}))\n"
        "print(report('/v1/prompt', {'version': '\\x1b]0;x\\x07', 'what': 'live'}))\n"
    )
    assert said(ended).split() == ["200", "200"]
    log = RunLog(ended.directory)
    assert not list(log.events(Alert, WentLive))
    reports = list(log.events(Marked, PromptReported))
    assert [record.step for record in reports] == [1, 1]
    print_past(ended.directory, policy=None, is_json=False)
    show([ended.run])
    shown = "".join(capsys.readouterr())
    assert "ALERT" in shown and not any(one in shown for one in ACTS)


def test_reports_without_end_do_not_fill_the_journal(stand: Stand) -> None:
    flood = f"{REPORTING}print({{report('/v1/mark', {{'text': str(n)}}) for n in range(1100)}})\n"
    ended = stand.record(flood)
    assert "429" in said(ended)
    assert len(list(RunLog(ended.directory).events())) < 1100


def test_a_place_in_a_body_does_not_act_on_the_terminal(
    stand: Stand, capfd: pytest.CaptureFixture[str]
) -> None:
    posting = GET.replace("'http://api.example/one'", "urllib.request.Request('http://api.example/'"
                          ", BODY, {'content-type': 'application/json'})")  # fmt: skip
    recorded = stand.record(f"BODY = b'{{}}'\n{posting}")
    stand.plan(f"BODY = rb'{{\"\\u001b[2J\\u202e\": 1}}'\n{posting}")
    ended = replay(recorded.directory)
    assert ended.divergence is not None and "\x1b" in ended.divergence.differences[0].at
    tell_divergence(ended.divergence)
    tell_what_next(ended.divergence, is_fork=False)
    shown = capfd.readouterr().err
    assert "left its record" in shown and not any(one in shown for one in ACTS)


def test_names_of_files_do_not_act_on_the_terminal(
    stand: Stand, capsys: pytest.CaptureFixture[str]
) -> None:
    ended = stand.record("import os\nfor name in (b'\\x1b[2J', b'a\\nb', b'\\xff'):\n"
                         "    open(name, 'w').close()\nos.mkfifo('pipe')\n")  # fmt: skip
    files([ended.run])
    shown = capsys.readouterr().out
    assert "pipe" in shown and not any(one in shown for one in ACTS)
    assert not any(line.startswith("b") for line in shown.splitlines()[1:])


def test_what_git_would_run_is_applied_only_when_it_is_named(stand: Stand) -> None:
    (stand.project / ".git/hooks").mkdir(parents=True)
    (stand.project / ".git/config").write_text("[core]\n")
    ended = stand.record(
        "import os\nos.makedirs('deep/.git')\n"
        "for path in ('.git/hooks/pre-commit', '.git/config', 'deep/.git/config', 'work'):\n"
        "    open(path, 'w').write('theirs')\n"
    )
    apply([ended.run, "--yes"])
    apply([ended.run, str(stand.project), "--yes", "--force"])
    assert (stand.project / "work").read_text() == "theirs"
    assert (stand.project / ".git/config").read_text() == "[core]\n"
    assert not (stand.project / ".git/hooks/pre-commit").exists()
    assert not (stand.project / "deep/.git/config").exists()
    apply([ended.run, ".git/hooks/pre-commit", "--yes"])
    assert (stand.project / ".git/hooks/pre-commit").read_text() == "theirs"


def test_a_directory_that_became_a_link_is_not_written_through(
    stand: Stand, tmp_path: Path
) -> None:
    outside = tmp_path / "outside"
    outside.mkdir()
    (stand.project / "sub").mkdir()
    (stand.project / "sub/file").write_text("old")
    ended = stand.record("open('sub/file', 'w').write('new')\nopen('sub/other', 'w').close()\n")
    (stand.project / "sub/file").unlink()
    (stand.project / "sub").rmdir()
    (stand.project / "sub").symlink_to(outside)
    with contextlib.suppress(PaddockError):
        apply([ended.run, "--yes", "--force"])
    assert not list(outside.iterdir())


def test_a_program_that_leaves_the_agent_ends_with_it(stand: Stand) -> None:
    ended = stand.record(
        "import os, time, urllib.request\n"
        "if os.fork() == 0:\n"
        "    os.setsid()\n"
        "    if os.fork() == 0:\n"
        "        time.sleep(1)\n"
        "        urllib.request.urlopen('http://api.example/late')\n"
        "    os._exit(0)\n"
        "os.wait()\n"
    )
    time.sleep(1.5)
    assert stand.server.connections == 0 and not steps(ended, "http")


_SLOW = """
import sys, time
from pathlib import Path
import paddock.run.files as files
def slowly(*args, **words):
    print("still", flush=True)
    time.sleep(60)
files.restore_into = slowly
from paddock.run.replay.fork import ForkOptions
from paddock.run.replay.fork import fork
fork(Path(sys.argv[1]), ForkOptions(at=int(sys.argv[2])))
"""


def test_a_fork_that_is_killed_while_its_sandbox_stands_still_leaves_nothing(stand: Stand) -> None:
    agent = "open('work', 'w').write('{}')\n" + GET + "import time\ntime.sleep({})\n"
    recorded = stand.record(agent.format("old", 0))
    stand.plan(agent.format("new", 61.25))  # so that there is something to restore
    http = next(iter(steps(recorded, "http")))
    words = [sys.executable, "-c", _SLOW, str(recorded.directory), str(http)]
    with subprocess.Popen(words, stdout=subprocess.PIPE, env=dict(os.environ)) as forking:
        try:
            assert forking.stdout is not None and forking.stdout.readline() == b"still\n"
            assert _running_in(stand.project)
        finally:
            forking.kill()
    deadline = time.monotonic() + 20
    while _running_in(stand.project) and time.monotonic() < deadline:
        time.sleep(0.1)
    assert not _running_in(stand.project)


def _running_in(project: Path) -> list[str]:
    """Processes of the sandbox whose agent works there, by what they have as their directory."""
    found = []
    for one in Path("/proc").iterdir():
        if one.name.isdecimal() and int(one.name) != os.getpid():
            try:
                if os.readlink(one / "cwd") == str(project):
                    found.append(one.name)
            except OSError:
                continue
    return found
