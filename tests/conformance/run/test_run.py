"""Any program as an agent: it runs as it would on the host, nothing it does is real, and all of it
is on record."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from paddock.cli.main import main
from paddock.doors.machine.engine import Engine
from paddock.journal.conversations import request_of
from paddock.journal.log import RunLog
from paddock.model.action import Kind
from paddock.model.errors import InvalidInput
from paddock.run.order import order_of
from paddock.run.replay.fork import ForkOptions, fork
from paddock.run.replay.recorded_run import RecordedRun
from paddock.run.replay.replay import replay
from paddock.run.report import report_of
from paddock.run.session import FinishedRun, run

AGENTS = Path(__file__).with_name("agents")


@pytest.fixture
def project(tmp_path: Path) -> Path:
    place = tmp_path / "project"
    shutil.copytree(AGENTS, place)
    return place


class Heard:
    def __init__(self) -> None:
        self.out = b""
        self.records: list[object] = []

    def began(self, run: str, setting: object) -> None: ...

    def told(self, record: object) -> None:
        self.records.append(record)

    def said(self, stream: str, data: bytes) -> None:
        self.out += data


def ran(project: Path, *command: str, **words: object) -> tuple[FinishedRun, str]:
    heard = Heard()
    ended = run(order_of(command, cwd=project, **words), heard)  # type: ignore[arg-type]
    return ended, heard.out.decode()


def bare(project: Path) -> Path:
    (project / "paddock.yaml").unlink()
    return project


def test_writes_in_the_project_stay_in_the_run_until_they_are_applied(project: Path) -> None:
    ended, _ = ran(bare(project), "sh", "-c", "echo mine >new.txt; echo more >>wire.py; rm shop.py")
    assert not (project / "new.txt").exists() and (project / "shop.py").exists()
    main(["apply", str(ended.run), "--yes", str(project / "new.txt")])
    assert (project / "new.txt").read_text() == "mine\n"
    assert (project / "shop.py").exists()


def test_what_is_piped_in_is_part_of_the_run_and_comes_again(project: Path) -> None:
    command = ["python3", "-c", "import sys; print(sys.stdin.read().upper())"]
    order = order_of(command, cwd=bare(project), stdin=b"from a pipe")
    first, again = Heard(), Heard()
    ended = run(order, first)
    assert b"FROM A PIPE" in first.out
    assert replay(ended.directory, watch=again).divergence is None
    assert again.out == first.out


def test_an_agent_that_fails_gives_its_own_status_and_is_replayed_as_it_failed(
    project: Path,
) -> None:
    ended, out = ran(bare(project), "python3", "-c", "raise SystemExit(7)")
    assert ended.exit_code == 7 and out == ""
    assert replay(ended.directory).exit_code == 7


def test_an_agent_that_ends_otherwise_than_it_did_is_a_divergence(project: Path) -> None:
    (bare(project) / "status").write_text("0")
    ended, _ = ran(project, "sh", "-c", "exit $(cat status)")
    (project / "status").write_text("3")
    again = replay(ended.directory)
    assert again.divergence is not None
    assert again.divergence.differences[0].at == "exit_code"


def test_keys_of_the_project_are_hidden_and_the_hosts_variables_stay_outside(
    project: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HOST_ONLY", "secret")
    (bare(project) / ".env").write_text("KEY=1")
    _, out = ran(project, "sh", "-c", "cat .env; ls -a; env")
    assert "KEY=1" not in out and "HOST_ONLY" not in out


def test_each_program_of_the_agent_is_a_step_and_what_it_starts_belongs_to_it(
    project: Path,
) -> None:
    ended, _ = ran(bare(project), "sh", "-c", "sh -c 'id; uname' >/dev/null; (exec ls >/dev/null)")
    rows = RecordedRun(ended.directory).steps
    assert [row.name for row in rows] == ["sh", "sh", "ls"]
    assert [row.step.parent for row in rows] == [None, 1, 1]
    names = [
        (Path(program.started.program).name, step.number)
        for step in RunLog(ended.directory).steps()
        for program in step.programs
    ]
    assert ("id", 2) in names and ("uname", 2) in names


def test_a_program_that_is_looked_for_in_many_places_is_one_step(project: Path) -> None:
    code = "import subprocess; subprocess.run(['true']); subprocess.run(['true'])"
    envs = {"PATH": "/nowhere:/home/user:/usr/local/bin:/usr/bin:/bin"}
    ended, _ = ran(bare(project), "/usr/bin/python3", "-c", code, envs=envs)
    assert [row.name for row in RecordedRun(ended.directory).steps].count("true") == 2


def test_journal_grows_with_what_is_new_also_where_rules_look_at_requests(project: Path) -> None:
    (project / "talk.py").write_text(
        "import json, sys, urllib.request\n"
        "from wire import MODEL\n"
        "said = []\n"
        "for n in range(int(sys.argv[1])):\n"
        "    said.append({'role': 'user', 'content': f'{n} ' + 'x' * 2000})\n"
        "    body = {'model': 'm', 'max_tokens': 9, 'messages': said}\n"
        "    head = {'content-type': 'application/json', 'x-api-key': 'k',"
        " 'anthropic-version': '2023-06-01'}\n"
        "    ask = urllib.request.Request(MODEL, json.dumps(body).encode(), head)\n"
        "    got = json.load(urllib.request.urlopen(ask))['content'][0]['text']\n"
        "    said.append({'role': 'assistant', 'content': got[:20]})\n"
    )
    sizes = {}
    for turns in (20, 40):
        ended, _ = ran(project, "python3", "talk.py", str(turns))
        assert ended.exit_code == 0
        sizes[turns] = sum(p.stat().st_size for p in ended.directory.rglob("*") if p.is_file())
    assert sizes[40] < 2.3 * sizes[20]
    log = RunLog(ended.directory)
    last = [step for step in log.steps() if step.kind is Kind.MODEL][-1]
    body = request_of(log, log.whole_step(last).arguments)
    assert len(body["messages"]) == 79
    assert replay(ended.directory).divergence is None


def test_a_fork_of_the_state_alone_has_files_world_and_memory_of_the_step(project: Path) -> None:
    (project / "agent.py").write_text(
        "import paddock.inside as inside\n"
        "from wire import pay\n"
        "for n in range(3):\n"
        "    inside.memory['n'] = n\n"
        "    open('n.txt', 'w').write(str(n))\n"
        "    pay('POST', '/v1/customers', name=f'c{n}')\n"
    )
    (project / "look.py").write_text(
        "import paddock.inside as inside\n"
        "from wire import pay\n"
        "known = pay('GET', '/v1/customers')['data']\n"
        "print(open('n.txt').read(), inside.memory.get('n'), len(known))\n"
    )
    ended, out = ran(project, "python3", "agent.py")
    assert ended.exit_code == 0, out
    posts = [r.number for r in RecordedRun(ended.directory).steps if r.name.startswith("POST")]
    heard = Heard()
    words = ForkOptions(at=posts[1], command=("python3", "look.py"), is_state_only=True)
    future = fork(ended.directory, words, watch=heard)[0]
    assert future.exit_code == 0
    assert heard.out.split() == [b"1", b"1", b"1"]


def test_an_agent_of_another_kind_cannot_be_played_against_the_record(project: Path) -> None:
    ended, _ = ran(project, "python3", "one_by_one.py")
    again = replay(ended.directory, command=["python3", "with_clock.py"])
    assert again.divergence is not None and again.divergence.step != 1
    assert again.divergence.kind in ("changed", "extra", "missing")


def test_a_journal_that_is_no_run_is_refused_with_a_word_on_why(tmp_path: Path) -> None:
    from paddock import Sandbox

    with Sandbox.create() as box:
        box.commands.run("true")
    with pytest.raises(InvalidInput, match="no run of an agent"):
        replay(Engine.current().home.runs / box.sandbox_id)


def test_the_command_line_is_scriptable(project: Path) -> None:
    bare(project)
    command = [sys.executable, "-m", "paddock.cli.main", "run"]
    environment = {**os.environ, "PADDOCK_HOME": str(Engine.current().home.root)}

    def paddock(*words: str) -> subprocess.CompletedProcess[str]:
        return subprocess.run([*command, *words], cwd=project, env=environment, text=True,
                              capture_output=True, stdin=subprocess.DEVNULL)  # fmt: skip

    plain = paddock("--", "sh", "-c", "echo out; echo err >&2; exit 4")
    assert (plain.returncode, plain.stdout) == (4, "out\n")
    assert "err\n" in plain.stderr and "exit code 4" in plain.stderr
    told = json.loads(paddock("--json", "--", "echo", "hi").stdout)
    assert told["exit_code"] == 0 and told["command"] == ["echo", "hi"]
    quiet = paddock("-q", "--", "echo", "hi")
    assert (quiet.stdout, quiet.stderr) == ("hi\n", "")
    missing = paddock("--", "no-such-program")
    assert missing.returncode == 127 and "no-such-program" in missing.stderr
    assert "Traceback" not in missing.stderr


def test_report_says_what_was_enforced_and_how_it_was_seen(project: Path) -> None:
    ended, _ = ran(bare(project), "true")
    report = report_of(ended.directory)
    assert {"capabilities", "seccomp", "no_new_privs", "user"} <= set(report.proved)
    assert report.exit_code == 0 and report.state == "ended"
