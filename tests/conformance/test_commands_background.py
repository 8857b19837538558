"""Commands in the background: handles, input, signals, leaving and coming back."""

from __future__ import annotations

import signal

import pytest

from conformance.inside import is_running
from conformance.waiting import eventually, result_of
from paddock import (
    CommandExitException,
    CommandNotStarted,
    CommandTimeout,
    Conflict,
    InvalidInput,
    NotFound,
    Sandbox,
)

COUNTER = "i=0; while :; do echo line $i; i=$((i+1)); sleep 0.02; done"


def test_handle_comes_back_while_the_program_runs(shared_box: Sandbox) -> None:
    handle = shared_box.commands.run("echo ready; read x; echo got $x", background=True, stdin=True)
    eventually(lambda: handle.stdout == "ready\n")
    handle.send_stdin("word\n")
    result = handle.wait()
    assert (result.stdout, result.exit_code) == ("ready\ngot word\n", 0)


def test_wait_raises_for_a_nonzero_status(shared_box: Sandbox) -> None:
    handle = shared_box.commands.run("echo no >&2; exit 4", background=True)
    with pytest.raises(CommandExitException) as caught:
        handle.wait()
    assert (caught.value.exit_code, caught.value.stderr) == (4, "no\n")
    assert handle.stderr == "no\n"


def test_wait_can_be_called_again(shared_box: Sandbox) -> None:
    handle = shared_box.commands.run("echo once", background=True)
    assert handle.wait() == handle.wait()


def test_list_shows_what_runs_and_not_what_ended(shared_box: Sandbox) -> None:
    handle = shared_box.commands.run(["sleep", "271"], background=True, cwd="/tmp")
    shown = {p.pid: p for p in shared_box.commands.list()}[handle.pid]
    assert (shown.cmd, shown.args, shown.cwd, shown.is_pty) == ("sleep", ("271",), "/tmp", False)
    handle.kill()
    eventually(lambda: handle.pid not in {p.pid for p in shared_box.commands.list()})


def test_kill_ends_the_program_and_what_it_started(shared_box: Sandbox) -> None:
    handle = shared_box.commands.run("setsid sleep 2721 & sleep 2722", background=True)
    eventually(lambda: is_running(shared_box, "sleep 2721"))
    assert handle.kill() is True
    with pytest.raises(CommandExitException) as caught:
        handle.wait()
    assert caught.value.exit_code == 128 + signal.SIGKILL
    assert not is_running(shared_box, "sleep 2721")
    assert not is_running(shared_box, "sleep 2722")


def test_kill_of_what_has_ended_is_false(shared_box: Sandbox) -> None:
    handle = shared_box.commands.run("true", background=True)
    handle.wait()
    assert handle.kill() is False
    assert shared_box.commands.kill(handle.pid) is False
    assert shared_box.commands.kill(999_999) is False


def test_kill_by_pid(shared_box: Sandbox) -> None:
    handle = shared_box.commands.run(["sleep", "273"], background=True)
    assert shared_box.commands.kill(handle.pid) is True
    with pytest.raises(CommandExitException):
        handle.wait()


def test_any_signal_can_be_sent(shared_box: Sandbox) -> None:
    program = (
        "import signal, sys\n"
        "signal.signal(signal.SIGUSR1, lambda *_: sys.exit('caught'))\n"
        "print('ready', flush=True)\n"
        "signal.pause()\n"
    )
    handle = shared_box.commands.run(["python3", "-c", program], background=True)
    eventually(lambda: "ready" in handle.stdout)
    handle.send_signal(signal.SIGUSR1)
    with pytest.raises(CommandExitException) as caught:
        handle.wait()
    assert (caught.value.exit_code, caught.value.stderr) == (1, "caught\n")


def test_wait_with_a_timeout_stops_the_program(shared_box: Sandbox) -> None:
    handle = shared_box.commands.run(["sleep", "274"], background=True)
    with pytest.raises(CommandTimeout) as caught:
        handle.wait(timeout=0.2)
    assert caught.value.killed_by == "timeout"
    assert not is_running(shared_box, "sleep 274")


def test_close_stdin_is_the_end_of_input(shared_box: Sandbox) -> None:
    handle = shared_box.commands.run(["cat"], background=True, stdin=True)
    handle.send_stdin("a")
    handle.send_stdin(b"\xff")
    handle.close_stdin()
    assert result_of(handle.wait).stdout_bytes == b"a\xff"


def test_send_stdin_by_pid(shared_box: Sandbox) -> None:
    handle = shared_box.commands.run(["head", "-n", "1"], background=True, stdin=True)
    shared_box.commands.send_stdin(handle.pid, "by pid\n")
    assert result_of(handle.wait).stdout == "by pid\n"


def test_disconnected_program_goes_on_and_never_blocks_on_output(shared_box: Sandbox) -> None:
    script = "sleep 0.2; head -c 50000000 /dev/zero; echo done > finished"
    handle = shared_box.commands.run(script, background=True)
    handle.disconnect()
    eventually(lambda: shared_box.files.exists("finished"))


def test_connect_hears_what_is_printed_from_now_on(shared_box: Sandbox) -> None:
    first = shared_box.commands.run(COUNTER, background=True)
    eventually(lambda: "line 3" in first.stdout)
    first.disconnect()
    heard: list[str] = []
    second = shared_box.commands.connect(first.pid, on_stdout=heard.append)
    eventually(lambda: "".join(heard).count("line") > 2)
    assert "line 0\n" not in "".join(heard)
    assert second.pid == first.pid
    second.kill()


def test_two_listeners_hear_the_same(shared_box: Sandbox) -> None:
    script = "read x; echo hello $x"
    first = shared_box.commands.run(script, background=True, stdin=True)
    second = shared_box.commands.connect(first.pid)
    second.send_stdin("both\n")
    assert first.wait().stdout == second.wait().stdout == "hello both\n"


def test_connect_to_an_unknown_pid_is_not_found(shared_box: Sandbox) -> None:
    with pytest.raises(NotFound, match="999999"):
        shared_box.commands.connect(999_999)


def test_connect_to_what_has_ended_gives_its_status(shared_box: Sandbox) -> None:
    handle = shared_box.commands.run("exit 5", background=True)
    with pytest.raises(CommandExitException):
        handle.wait()
    with pytest.raises(CommandExitException) as caught:
        shared_box.commands.connect(handle.pid).wait()
    assert caught.value.exit_code == 5


def test_program_that_the_caller_did_not_start_cannot_be_connected_to(shared_box: Sandbox) -> None:
    printed = shared_box.commands.run("sleep 275 >/dev/null 2>&1 & echo $!").stdout
    with pytest.raises(NotFound):
        shared_box.commands.connect(int(printed))
    with pytest.raises(NotFound):
        shared_box.commands.connect(1)


def test_timeout_ends_a_background_program_and_all_that_it_started(shared_box: Sandbox) -> None:
    orphan = "setsid sh -c 'trap : TERM; while :; do sleep 2761; done'"
    handle = shared_box.commands.run(
        f"{orphan} & sleep 2762 & echo begun; sleep 2763", background=True, timeout=0.5
    )
    with pytest.raises(CommandTimeout) as caught:
        handle.wait()
    assert (caught.value.stdout, caught.value.killed_by) == ("begun\n", "timeout")
    for sleep in ("sleep 2761", "sleep 2762", "sleep 2763"):
        eventually(lambda sleep=sleep: not is_running(shared_box, sleep))


def test_timeout_ends_what_a_program_in_another_session_starts_meanwhile(
    shared_box: Sandbox,
) -> None:
    busy = "setsid sh -c 'trap : TERM; while :; do sleep 2765 & kill -9 $!; done' 2>/dev/null"
    for _ in range(3):
        with pytest.raises(CommandTimeout):
            shared_box.commands.run(f"{busy} & sleep 2766", timeout=0.3)
        eventually(lambda: not is_running(shared_box, "sleep 2765"), 10)


def test_timeout_holds_for_a_program_that_nobody_listens_to(shared_box: Sandbox) -> None:
    first = shared_box.commands.run(["sleep", "2764"], background=True, timeout=0.5)
    first.disconnect()
    second = shared_box.commands.connect(first.pid)
    with pytest.raises(CommandTimeout):
        second.wait()
    with pytest.raises(CommandTimeout):  # it has ended by now
        shared_box.commands.connect(first.pid).wait()


def test_program_that_ends_in_time_does_not_hear_of_its_timeout(shared_box: Sandbox) -> None:
    handle = shared_box.commands.run("echo done", background=True, timeout=30)
    assert (handle.wait().stdout, handle.wait().killed_by) == ("done\n", None)


def test_input_for_a_program_without_one_is_an_error_that_says_how(shared_box: Sandbox) -> None:
    handle = shared_box.commands.run(["sleep", "2765"], background=True)
    connected = shared_box.commands.connect(handle.pid)
    for send in (handle.send_stdin, connected.send_stdin):
        with pytest.raises(InvalidInput, match="stdin=True"):
            send("x")
    with pytest.raises(InvalidInput, match="stdin=True"):
        shared_box.commands.send_stdin(handle.pid, "x")
    with pytest.raises(InvalidInput, match="stdin=True"):
        handle.close_stdin()
    handle.kill()


def test_input_for_a_program_that_has_ended_is_an_error(shared_box: Sandbox) -> None:
    handle = shared_box.commands.run(["true"], background=True, stdin=True)
    handle.wait()
    with pytest.raises(NotFound, match=f"{handle.pid} has ended"):
        handle.send_stdin("x")
    with pytest.raises(NotFound, match=f"{handle.pid} has ended"):
        shared_box.commands.send_stdin(handle.pid, "x")


def test_input_through_a_handle_that_was_disconnected_is_an_error(shared_box: Sandbox) -> None:
    handle = shared_box.commands.run(["cat"], background=True, stdin=True)
    handle.disconnect()
    with pytest.raises(Conflict, match="disconnected"):
        handle.send_stdin("x")
    shared_box.commands.kill(handle.pid)


def test_program_that_cannot_be_started_raises_at_once(shared_box: Sandbox) -> None:
    with pytest.raises(CommandNotStarted) as caught:
        shared_box.commands.run(["no-such-program"], background=True)
    assert caught.value.exit_code == 127
