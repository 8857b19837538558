"""Sandboxes of another process of the same user: found by id, used, and lost with it."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator

import pytest

from conformance.waiting import Calls, eventually
from paddock import (
    CommandExitException,
    CommandNotStarted,
    CommandTimeout,
    Conflict,
    InvalidInput,
    NotFound,
    Sandbox,
    SandboxDied,
)

OTHER = (
    "import sys\n"
    "from paddock import Sandbox\n"
    "with Sandbox.create(envs={'A': '1'}, limits={'output': 50000}, metadata={'k': 'v'}) as box:\n"
    "    box.files.write('f', 'of the other')\n"
    "    print(box.sandbox_id, flush=True)\n"
    "    sys.stdin.read()\n"
)


@pytest.fixture
def other(driver: str) -> Iterator[subprocess.Popen[str]]:
    """A process that holds a sandbox and tells its id."""
    with subprocess.Popen(
        [sys.executable, "-c", OTHER], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    ) as process:
        yield process
        process.kill()


@pytest.fixture
def remote(other: subprocess.Popen[str]) -> Sandbox:
    assert other.stdout is not None
    return Sandbox.connect(other.stdout.readline().strip())


def test_commands_files_and_code_work_from_afar(remote: Sandbox) -> None:
    assert remote.files.read("f") == "of the other"
    assert remote.commands.run("echo here; echo err >&2").stdout == "here\n"
    with pytest.raises(CommandExitException) as caught:
        remote.commands.run("exit 4")
    assert caught.value.exit_code == 4
    remote.files.write("g", b"\0" * 3_000_000)
    assert remote.files.read("g", "bytes") == b"\0" * 3_000_000
    assert remote.run_code("6 * 7").text == "42"


def test_envs_of_the_sandbox_hold_from_afar(remote: Sandbox) -> None:
    assert remote.commands.run("echo $A").stdout == "1\n"


def test_output_limit_holds_from_afar(remote: Sandbox) -> None:
    with pytest.raises(CommandExitException) as caught:
        remote.commands.run("yes")
    assert caught.value.killed_by == "output"
    assert len(caught.value.stdout) == 50_000


def test_info_and_metrics_come_from_afar(remote: Sandbox) -> None:
    info = remote.get_info()
    assert (info.state, info.metadata, info.sandbox_id) == (
        "running",
        {"k": "v"},
        remote.sandbox_id,
    )
    assert remote.metrics().pids >= 1


def test_programs_of_the_other_process_can_be_connected_to(remote: Sandbox) -> None:
    handle = remote.commands.run("read x; echo $x", background=True, stdin=True)
    again = Sandbox.connect(remote.sandbox_id).commands.connect(handle.pid)
    again.send_stdin("from a second connection\n")
    assert handle.wait().stdout == "from a second connection\n"


def test_pause_and_resume_from_afar(remote: Sandbox) -> None:
    remote.pause()
    assert remote.get_info().state == "paused"
    with pytest.raises(Conflict, match="paused"):
        remote.commands.run("true")
    remote.resume()
    assert remote.commands.run("echo on").stdout == "on\n"


def test_kill_from_afar_ends_it(remote: Sandbox) -> None:
    waiting = Calls([lambda: remote.commands.run("sleep 1000")])
    remote.kill()
    assert isinstance(waiting.results(5)[0], SandboxDied)
    with pytest.raises(NotFound):
        Sandbox.connect(remote.sandbox_id)


def test_end_of_the_other_process_ends_waiting_calls(
    remote: Sandbox, other: subprocess.Popen[str]
) -> None:
    waiting = Calls([lambda: remote.commands.run("sleep 1000")] * 5)
    eventually(lambda: len(remote.commands.list()) == 5)
    other.kill()
    assert all(isinstance(result, SandboxDied) for result in waiting.results(5))


def test_own_sandbox_can_be_connected_to(shared_box: Sandbox) -> None:
    again = Sandbox.connect(shared_box.sandbox_id)
    shared_box.files.write("same", "x")
    assert again.files.read("same") == "x"


def test_unknown_id_is_not_found(driver: str) -> None:
    with pytest.raises(NotFound, match="nosuchsandbox"):
        Sandbox.connect("nosuchsandbox")


@pytest.mark.parametrize("name", ["", "../x", 7])
def test_id_that_is_none_is_invalid(driver: str, name: object) -> None:
    with pytest.raises(InvalidInput, match="sandbox"):
        Sandbox.connect(name)  # type: ignore[arg-type]


def test_sandbox_of_another_process_is_listed(remote: Sandbox) -> None:
    listed = {info.sandbox_id: info for info in Sandbox.list()}[remote.sandbox_id]
    assert (listed.state, listed.metadata) == ("running", {"k": "v"})
    remote.pause()
    assert {info.sandbox_id: info.state for info in Sandbox.list()}[remote.sandbox_id] == "paused"
    remote.resume()


def test_errors_of_programs_and_names_are_the_same_from_afar(remote: Sandbox) -> None:
    with pytest.raises(CommandNotStarted, match="no-such-program") as caught:
        remote.commands.run(["no-such-program"])
    assert caught.value.exit_code == 127
    handle = remote.commands.run(["sleep", "2781"], background=True, timeout=0.3)
    with pytest.raises(InvalidInput, match="stdin=True"):
        handle.send_stdin("x")
    with pytest.raises(CommandTimeout):
        handle.wait()
    remote.snapshot(name=f"of-{remote.sandbox_id}")
    with pytest.raises(Conflict, match="exists already"):
        remote.snapshot(name=f"of-{remote.sandbox_id}")
    Sandbox.delete_snapshot(f"of-{remote.sandbox_id}")
