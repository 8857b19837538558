"""What the kernel tells of a sandbox: every program executed, and files where it can."""

from __future__ import annotations

import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from conformance import differences
from conformance.conftest import MakeBox
from conformance.waiting import eventually
from paddock import CommandExitException, Sandbox
from paddock.model.results import ExecEvent, FileEvent

NESTED = (
    "import subprocess\n"
    "subprocess.run(['/bin/sh', '-c', 'exit 5'], cwd='/tmp')\n"
    "subprocess.run(['/bin/echo', 'leaf', 'ü', ''], cwd='/usr')\n"
)


def _events(box: Sandbox, matches: Callable[[ExecEvent], bool]) -> list[ExecEvent]:
    return [event for event in box.exec_events() if matches(event)]


def _ended(box: Sandbox, matches: Callable[[ExecEvent], bool]) -> ExecEvent:
    """The one event that matches, once its program has ended."""
    found = eventually(lambda: [e for e in _events(box, matches) if e.duration_s is not None])
    assert len(found) == 1, found
    return found[0]


def test_every_program_of_a_nested_command_is_told(box: Sandbox) -> None:
    box.files.write("nested.py", NESTED)
    box.commands.run("cd /var; python3 /home/user/nested.py; true")
    shell = _ended(box, lambda e: e.parent == 1)
    python = _ended(box, lambda e: e.argv == ("python3", "/home/user/nested.py"))
    inner = _ended(box, lambda e: e.argv == ("/bin/sh", "-c", "exit 5"))
    leaf = _ended(box, lambda e: e.argv == ("/bin/echo", "leaf", "ü", ""))
    assert [e.cwd for e in (shell, python, inner, leaf)] == ["/home/user", "/var", "/tmp", "/usr"]
    assert python.parent == shell.pid
    assert inner.parent == leaf.parent == python.pid
    assert len({e.pid for e in (shell, python, inner, leaf)}) == 4
    assert python.program == "/usr/bin/python3"
    assert not leaf.is_truncated
    assert shell.duration_s is not None and leaf.duration_s is not None
    assert shell.duration_s >= leaf.duration_s > 0


def test_exit_status_of_every_program_is_told(box: Sandbox) -> None:
    differences.EXIT_STATUS_OF_DESCENDANTS.require(box)
    box.files.write("nested.py", NESTED)
    box.commands.run("python3 nested.py; sh -c 'kill -9 $$'; true")
    assert _ended(box, lambda e: e.argv[-1:] == ("exit 5",)).exit_code == 5
    assert _ended(box, lambda e: "leaf" in e.argv).exit_code == 0
    assert _ended(box, lambda e: e.argv == ("sh", "-c", "kill -9 $$")).exit_code == 137
    assert _ended(box, lambda e: e.parent == 1).exit_code == 0


def test_exit_status_of_a_direct_command_is_told(box: Sandbox) -> None:
    differences.EXIT_STATUS_OF_DESCENDANTS.require(box)
    with pytest.raises(CommandExitException):
        box.commands.run(["sh", "-c", "exit 9"])
    assert _ended(box, lambda e: e.argv == ("sh", "-c", "exit 9")).exit_code == 9


def test_pids_in_events_are_those_that_programs_see(box: Sandbox) -> None:
    printed = box.commands.run(["sh", "-c", "echo $$ $PPID"]).stdout
    event = _ended(box, lambda e: e.argv == ("sh", "-c", "echo $$ $PPID"))
    assert f"{event.pid} {event.parent}\n" == printed


def test_program_behind_a_symbolic_link_is_told_as_it_was_called(box: Sandbox) -> None:
    box.commands.run("ln -s /bin/echo linked; ./linked called")
    event = _ended(box, lambda e: e.argv == ("./linked", "called"))
    assert event.program == "./linked"


def test_script_with_a_shebang_is_told_with_its_arguments(box: Sandbox) -> None:
    box.files.write("script", '#!/bin/sh\necho "$@"\n')
    box.commands.run("chmod +x script; ./script one 'two words'")
    event = _ended(box, lambda e: e.argv == ("./script", "one", "two words"))
    assert event.program == "./script"
    assert event.cwd == "/home/user"


def test_exec_in_place_of_a_program_is_a_second_event_of_the_same_pid(box: Sandbox) -> None:
    box.commands.run(["sh", "-c", "exec /bin/echo replaced"])
    first = _ended(box, lambda e: e.argv[0] == "sh")
    second = _ended(box, lambda e: e.argv == ("/bin/echo", "replaced"))
    assert first.pid == second.pid


def test_names_that_a_search_of_the_path_tries_in_vain_are_no_events(box: Sandbox) -> None:
    box.commands.run(["python3", "-c", "import os; os.system('true'); os.spawnlp(0, 'ls', 'ls')"])
    assert [e.program for e in _events(box, lambda e: e.argv == ("ls",))] == ["/usr/bin/ls"]


def test_code_terminals_and_background_programs_are_told_too(box: Sandbox) -> None:
    box.run_code("import subprocess; subprocess.run(['/bin/echo', 'from-code'])")
    box.pty.create(cmd=["/bin/echo", "from-pty"]).wait()
    box.commands.run(["/bin/echo", "from-background"], background=True).wait()
    for word in ("from-code", "from-pty", "from-background"):
        _ended(box, lambda e, word=word: e.argv == ("/bin/echo", word))


def test_long_argument_lists_are_cut_and_say_so(box: Sandbox) -> None:
    box.commands.run(["true", "x" * 100_000])
    event = _ended(box, lambda e: e.argv[0] == "true")
    assert event.is_truncated
    assert sum(map(len, event.argv)) < 20_000


def test_arguments_that_are_not_utf8_are_told_readably(box: Sandbox) -> None:
    box.commands.run(["true", "caf\udce9"])
    assert _ended(box, lambda e: e.argv[0] == "true").argv[1] == r"caf\xe9"


def test_events_are_bounded_and_the_sandbox_stays_usable(box: Sandbox) -> None:
    box.commands.run("for i in $(seq 300); do /bin/true; done")
    events = _events(box, lambda e: e.program == "/bin/true")
    assert len(events) == 300
    assert sys.getsizeof(events) < 1 << 20


def test_files_read_and_written_are_told(box: Sandbox) -> None:
    differences.FILE_EVENTS.require(box)
    box.commands.run("mkdir d; echo x > d/written; cat d/written > /dev/null; echo y > /tmp/t")

    def seen(path: str, access: str) -> list[FileEvent]:
        return [e for e in box.file_events() if (e.path, e.access) == (path, access)]

    for path, access in (
        ("/home/user/d/written", "write"),
        ("/home/user/d/written", "read"),
        ("/tmp/t", "write"),
    ):
        eventually(lambda path=path, access=access: seen(path, access), what=f"{access} {path}")


def test_file_events_name_the_process_even_when_it_has_ended(box: Sandbox) -> None:
    differences.FILE_EVENTS.require(box)
    pids = {box.commands.run(f"echo $$; echo x > short-lived-{n}").stdout for n in range(10)}
    written = eventually(
        lambda: (
            len(e := [e for e in box.file_events() if "short" in e.path and e.access == "write"])
            == 10
            and e
        )
    )
    assert {f"{event.pid}\n" for event in written} == pids


def test_file_events_of_a_mount_have_the_path_inside(
    make_box: MakeBox, shared_directory: Path
) -> None:
    mount = {"source": str(shared_directory), "target": "/input", "mode": "read"}
    (shared_directory / "data").write_text("x")
    box = make_box(mounts=[mount])
    differences.FILE_EVENTS.require(box)
    box.commands.run("cat /input/data")
    eventually(lambda: [e for e in box.file_events() if e.path == "/input/data"])


def test_without_file_events_info_says_why(box: Sandbox) -> None:
    if differences.FILE_EVENTS(box):
        assert box.get_info().enforcement["file_audit"] == "fanotify"
        return
    assert "not available" in box.get_info().enforcement["file_audit"]
    box.commands.run("echo x > f")
    assert box.file_events() == []


def test_audit_can_be_switched_off(make_box: MakeBox) -> None:
    box = make_box(audit_files=False)
    assert "off" in box.get_info().enforcement["file_audit"]
    box.commands.run("echo x > f")
    assert box.file_events() == []
