"""Every command, file call and cell crosses the gate: decided by the paddock file, and recorded."""

from __future__ import annotations

import os
import subprocess
import sys
import threading
from pathlib import Path
from typing import Any

import pytest

from conformance.conftest import MakeBox
from conformance.waiting import eventually
from paddock import Blocked, CommandExitException, FaultInjected, InvalidInput, Sandbox
from paddock.gate.approvals import Approval
from paddock.gate.run_gate import gate_store
from paddock.journal.errors import JournalBroken
from paddock.journal.integrity.verify import verify
from paddock.journal.log import RunLog
from paddock.model.action import Outcome
from paddock.model.events import ProgramRefused, ProgramStarted, Record, Settled
from paddock.state.home import Home

HEAD = "version: 1\nagent: tester\nstage: draft\napprovals: {timeout: 20s, by: [store]}\nrules:\n"
NO_SORT = """
  - id: no-sort
    match: {kind: exec, program: [sort]}
    decide: block
    why: Nothing is sorted here.
    examples: {match: [{argv: [sort, x]}]}
"""


@pytest.fixture
def file(tmp_path: Path) -> Any:
    def write(rules: str) -> str:
        path = tmp_path / "paddock.yaml"
        path.write_text(HEAD + rules)
        return str(path)

    return write


def _run(box: Sandbox, command: str | list[str]) -> str:
    """What it printed, or how it failed."""
    try:
        return box.commands.run(command).stdout.strip()
    except Blocked as error:
        return f"blocked by {error.rule}"
    except CommandExitException as error:
        return f"exit {error.exit_code}"


def _is_refusal(record: Record) -> bool:
    match record.event:
        case Settled(outcome=outcome):
            return outcome is Outcome.REFUSED
        case event:
            return isinstance(event, ProgramRefused)


def _records(box: Sandbox) -> list[Record]:
    return list(RunLog(Home.find().runs / box.sandbox_id).events())


def _approvals() -> Any:
    from paddock.gate.approvals import Approvals

    return Approvals(gate_store(Home.find()))


def _pending(run: str) -> Approval:
    eventually(lambda: bool(_approvals().all(run=run)), timeout_s=15)
    found: Approval = _approvals().all(run=run)[0]
    return found


# ---- programs ------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "command",
    [
        "true; sort /dev/null",
        "env sort /dev/null",
        "$(which sort) /dev/null",
        "sh -c 'sh -c \"sort /dev/null\"'",
        "bash -c 'exec -a harmless sort /dev/null'",
        "cp $(readlink -f $(which sort)) ./harmless; ./harmless /dev/null",
        "ln -sf $(which sort) ./link; ./link /dev/null",
        "printf '#!%s\\n' $(which sort) > script; chmod +x script; ./script",
        "xargs -a /dev/null -r echo; echo /dev/null | xargs sort",
        "find /etc/hostname -exec sort {} ';'",
        "nohup sort /dev/null & wait $!",
        "(setsid sort /dev/null; exit $?)",
        "cd /usr/bin && ./sort /dev/null",
        "/usr/bin/../bin/sort /dev/null",
        'python3 -c \'import os; os.execv("/usr/bin/sort", ["x", "/dev/null"])\'',
        'python3 -c \'import os; f = os.open("/usr/bin/sort", 0); os.execve(f, ["x"], {})\'',
        'python3 -c \'import os; f = os.memfd_create("x");'
        ' os.write(f, open("/usr/bin/sort", "rb").read()); os.execve(f, ["x"], {})\'',
        "$(ls /lib64/ld-linux* /lib/ld-linux* 2>/dev/null | head -1) /usr/bin/sort /dev/null",
    ],
)
def test_rule_decides_on_the_program_that_is_really_executed(
    make_box: MakeBox, file: Any, command: str
) -> None:
    box = make_box(policy=file(NO_SORT))
    try:
        box.commands.run(command)
    except CommandExitException as error:
        if "Function not implemented" in error.stderr:
            return  # where memory is watched, there are no files without a name at all
    records = _records(box)
    assert any(map(_is_refusal, records)), f"nothing was refused: {command}"
    ran = [r.event.program for r in records if isinstance(r.event, ProgramStarted)]
    suspects = ("/sort", "/harmless", "/link", "/script")
    assert not [program for program in ran if program.endswith(suspects) or program == ""]


def test_blocked_command_says_the_rule_and_why(make_box: MakeBox, file: Any) -> None:
    box = make_box(policy=file(NO_SORT))
    with pytest.raises(Blocked) as caught:
        box.commands.run(["sort", "/dev/null"])
    assert caught.value.rule == "no-sort"
    assert "Nothing is sorted here." in str(caught.value)
    assert box.commands.run("echo fine").stdout == "fine\n"


def test_other_programs_run_under_the_same_rules(make_box: MakeBox, file: Any) -> None:
    box = make_box(policy=file(NO_SORT))
    assert _run(box, "echo b a | tr ' ' '\\n' | wc -l") == "2"
    assert _run(box, ["uname"]) == "Linux"
    assert box.run_code("6 * 7").text == "42"


def test_asked_program_waits_for_the_answer_and_then_runs(make_box: MakeBox, file: Any) -> None:
    rules = NO_SORT.replace("decide: block", "decide: ask")
    box = make_box(policy=file(rules))
    found: list[str] = []
    worker = threading.Thread(target=lambda: found.append(_run(box, "echo b | sort")))
    worker.start()
    approval = _pending(box.sandbox_id)
    assert approval.content["name"] == "sort"
    assert box.commands.run("echo others go on").exit_code == 0
    _approvals().approve(approval.approval_id, "ann")
    worker.join(15)
    assert found == ["b"]


def test_asked_program_that_is_denied_does_not_run(make_box: MakeBox, file: Any) -> None:
    box = make_box(policy=file(NO_SORT.replace("decide: block", "decide: ask")))
    for command in ("echo b | sort; exit ${PIPESTATUS[1]}", ["sort", "/dev/null"]):
        found: list[str] = []
        worker = threading.Thread(target=lambda c=command, f=found: f.append(_run(box, c)))
        worker.start()
        _approvals().deny(_pending(box.sandbox_id).approval_id, "ann", "not today")
        worker.join(15)
        assert found and found[0] in ("exit 126", "blocked by no-sort")


def test_approved_command_is_not_asked_for_twice(make_box: MakeBox, file: Any) -> None:
    box = make_box(policy=file(NO_SORT.replace("decide: block", "decide: ask")))
    found: list[str] = []
    worker = threading.Thread(target=lambda: found.append(_run(box, ["sort", "/dev/null"])))
    worker.start()
    _approvals().approve(_pending(box.sandbox_id).approval_id, "ann")
    worker.join(15)
    assert found == [""]
    assert _approvals().all(run=box.sandbox_id) == []


def test_sandbox_that_is_killed_while_a_program_is_asked_about_hangs_nobody(
    make_box: MakeBox, file: Any
) -> None:
    box = make_box(policy=file(NO_SORT.replace("decide: block", "decide: ask")))
    failed: list[BaseException] = []

    def run() -> None:
        try:
            box.commands.run("sort /dev/null")
        except BaseException as error:
            failed.append(error)

    worker = threading.Thread(target=run)
    worker.start()
    _pending(box.sandbox_id)
    box.kill()
    worker.join(10)
    assert not worker.is_alive() and len(failed) == 1
    eventually(lambda: _approvals().all(run=box.sandbox_id) == [])


def test_limit_on_programs_counts_each_once(make_box: MakeBox, file: Any) -> None:
    rules = """
  - id: few-sorts
    match: {kind: exec, program: [sort]}
    limit: {count: 1, max: 3, per: run}
    decide: block
    why: Three are enough.
"""
    box = make_box(policy=file(rules))
    outcomes = [_run(box, ["sort", "/dev/null"]) for _ in range(2)]
    outcomes += [_run(box, "sort /dev/null"), _run(box, "sort /dev/null")]
    assert outcomes == ["", "", "", "exit 126"]


def test_fault_makes_a_program_fail(make_box: MakeBox, file: Any) -> None:
    rules = """
  - id: broken-sort
    match: {kind: exec, program: [sort]}
    decide: fault
    fault: {error: The disk is on fire.}
    why: A test.
"""
    box = make_box(policy=file(rules))
    with pytest.raises(FaultInjected, match="on fire"):
        box.commands.run(["sort", "/dev/null"])
    assert _run(box, "sort /dev/null") != ""


# ---- files and cells -----------------------------------------------------------------------------

NO_SECRETS = """
  - id: no-secrets
    match: {kind: file, path: /home/user/secret/**}
    decide: block
    why: Not for agents.
    examples: {match: [{path: /home/user/secret/x}]}
  - id: read-only-notes
    match: {kind: file, operation: [write, remove, rename], path: /home/user/notes}
    decide: block
    why: Notes are read.
"""


@pytest.mark.parametrize(
    "path",
    ["secret/x", "/home/user/secret/x", "link/x", "../user/secret/x", "/home/user/./secret//x"],
)
def test_file_rule_holds_for_whatever_leads_to_the_file(
    make_box: MakeBox, file: Any, path: str
) -> None:
    box = make_box(policy=file(NO_SECRETS))
    box.commands.run("mkdir secret; echo top > secret/x; ln -s secret link")
    for call in (
        lambda: box.files.read(path),
        lambda: box.files.read(path, format="bytes"),
        lambda: list(box.files.read(path, format="stream")),
        lambda: box.files.write(path, "y"),
        lambda: box.files.remove(path),
        lambda: box.files.rename(path, "elsewhere"),
        lambda: box.files.get_info(path),
        lambda: box.files.exists(path),
    ):
        with pytest.raises(Blocked):
            call()
    assert box.commands.run("cat secret/x").stdout == "top\n"


def test_rename_is_blocked_by_a_rule_on_either_end(make_box: MakeBox, file: Any) -> None:
    box = make_box(policy=file(NO_SECRETS))
    box.files.write("open", "x")
    box.commands.run("mkdir secret")
    with pytest.raises(Blocked):
        box.files.rename("open", "secret/hidden")
    assert box.files.exists("open")


def test_operation_decides_as_well_as_the_path(make_box: MakeBox, file: Any) -> None:
    box = make_box(policy=file(NO_SECRETS))
    box.commands.run("echo hello > notes")
    assert box.files.read("notes") == "hello\n"
    with pytest.raises(Blocked):
        box.files.write("notes", "bye")


def test_cells_are_decided_on(make_box: MakeBox, file: Any) -> None:
    rules = """
  - id: no-os
    match: {kind: code}
    when: args.code.contains("import os")
    decide: block
    why: Not os.
"""
    box = make_box(policy=file(rules))
    assert box.run_code("1 + 1").text == "2"
    with pytest.raises(Blocked, match="Not os"):
        box.run_code("import os")


# ---- what is recorded ----------------------------------------------------------------------------


def test_every_call_is_a_step_and_the_journal_verifies(make_box: MakeBox) -> None:
    box = make_box()
    box.commands.run("echo hi; ls / > /dev/null")
    box.files.write("a", "x")
    box.files.read("a")
    box.run_code("1")
    with pytest.raises(CommandExitException):
        box.commands.run("exit 3")
    box.kill()
    home = Home.find()
    steps = list(RunLog(home.runs / box.sandbox_id).steps())
    assert [step.kind for step in steps] == ["exec", "file", "file", "code", "exec"]
    assert steps[0].result["stdout"] == "hi\n"
    assert steps[-1].exit_code == 3
    assert any(program.started.program.endswith("/ls") for program in steps[0].programs)
    from paddock.gate.run_gate import signing_key

    report = verify(home.runs / box.sandbox_id, signing_key(home).public)
    assert report.ok, report


def test_journal_that_cannot_be_written_ends_the_sandbox(make_box: MakeBox) -> None:
    box = make_box()
    box.commands.run("true")
    inner = box._calls.box
    inner.actions.gate._journal._appender.close()
    with pytest.raises(JournalBroken, match="it cannot be written"):
        box.commands.run("touch happened")
    with pytest.raises(JournalBroken, match="it cannot be written"):
        box.files.write("happened", "x")
    eventually(lambda: inner.machine.ended_by is not None, timeout_s=10)
    assert "it cannot be written" in inner.machine.ended_by


def test_program_that_cannot_be_recorded_ends_the_sandbox(make_box: MakeBox) -> None:
    box = make_box()
    box.commands.run("while sleep 0.05; do date > last; done", background=True)
    eventually(lambda: box.files.exists("last"), timeout_s=10)
    inner = box._calls.box
    inner.actions.gate._journal._appender.close()
    eventually(lambda: inner.machine.ended_by is not None, timeout_s=10)


def test_run_directory_that_cannot_be_made_stops_everything(
    make_box: MakeBox, monkeypatch: pytest.MonkeyPatch
) -> None:
    box = make_box()
    place = Home.find().runs / box.sandbox_id
    place.parent.mkdir(exist_ok=True)
    place.write_text("in the way")
    with pytest.raises(Blocked, match="recorded"):
        box.commands.run("true")
    place.unlink()


def test_connected_process_crosses_the_same_gate(make_box: MakeBox, file: Any) -> None:
    box = make_box(policy=file(NO_SORT))
    program = (
        "import sys\n"
        "from paddock import Blocked, Sandbox\n"
        "box = Sandbox.connect(sys.argv[1])\n"
        "print(box.commands.run('echo far').stdout, end='')\n"
        "box.files.write('from-afar', 'x')\n"
        "try:\n"
        "    box.commands.run(['sort', '/dev/null'])\n"
        "except Blocked as error:\n"
        "    print(error.rule)\n"
    )
    words = [sys.executable, "-c", program, box.sandbox_id]
    done = subprocess.run(words, capture_output=True, text=True, timeout=60, env=dict(os.environ))
    assert (done.returncode, done.stdout) == (0, "far\nno-sort\n"), done.stderr
    kinds = [step.kind for step in RunLog(Home.find().runs / box.sandbox_id).steps()]
    assert kinds == ["exec", "file", "exec"]


def test_fork_has_the_same_policy_and_a_journal_of_its_own(make_box: MakeBox, file: Any) -> None:
    box = make_box(policy=file(NO_SORT))
    box.commands.run("true")
    with box.fork() as child:
        assert _run(child, ["sort", "/dev/null"]) == "blocked by no-sort"
        opened = RunLog(Home.find().runs / child.sandbox_id).opened
    assert opened.parent == box.sandbox_id
    assert opened.policy_digest == RunLog(Home.find().runs / box.sandbox_id).opened.policy_digest


def test_sandbox_of_the_file_is_the_sandbox_that_is_made(make_box: MakeBox, tmp_path: Path) -> None:
    path = tmp_path / "paddock.yaml"
    path.write_text(
        "version: 1\nagent: a\nstage: observe\n"
        "sandbox: {limits: {memory: 128MiB, pids: 40}}\n"
        "rules: [{id: r, match: {kind: exec, program: x}, decide: block, why: w}]\n"
    )
    assert make_box(policy=str(path)).get_info().limits["memory"] == 128 << 20
    mixed = make_box(policy=str(path), limits={"pids": 50}).get_info().limits
    assert (mixed["memory"], mixed["pids"]) == (128 << 20, 50)


def test_bad_file_names_the_line_and_makes_no_sandbox(tmp_path: Path) -> None:
    path = tmp_path / "paddock.yaml"
    path.write_text("version: 1\nagent: a\nstage: observe\nruls: []\n")
    with pytest.raises(InvalidInput, match=r"paddock\.yaml.*4.*ruls"):
        Sandbox.create(policy=str(path))
    with pytest.raises(InvalidInput, match="cannot be read"):
        Sandbox.create(policy=str(tmp_path / "missing.yaml"))
