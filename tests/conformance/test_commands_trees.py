"""Commands that leave something behind or come in numbers: trees, daemons, time-outs, crowds."""

from __future__ import annotations

import random

import pytest

from conformance.conftest import MakeBox
from conformance.host import processes_with
from conformance.inside import is_running
from conformance.waiting import Calls, eventually, result_of
from paddock import CommandTimeout, Sandbox


def _unique_sleep() -> str:
    return f"sleep {random.randrange(10**8, 10**9)}"


def test_timeout_stops_a_command_and_keeps_what_it_printed(shared_box: Sandbox) -> None:
    with pytest.raises(CommandTimeout, match="timeout") as caught:
        shared_box.commands.run("echo begun; sleep 300", timeout=0.3)
    assert (caught.value.stdout, caught.value.killed_by) == ("begun\n", "timeout")
    assert caught.value.result.limits_hit == ("timeout",)
    assert isinstance(caught.value, TimeoutError)


def test_timeout_stops_a_command_that_ignores_sigterm(shared_box: Sandbox) -> None:
    sleep = _unique_sleep()
    with pytest.raises(CommandTimeout) as caught:
        shared_box.commands.run(f"trap '' TERM; {sleep} & while :; do {sleep}; done", timeout=0.3)
    assert caught.value.exit_code == 137
    assert not is_running(shared_box, sleep)


def test_timeout_stops_children_in_sessions_of_their_own(shared_box: Sandbox) -> None:
    sleep = _unique_sleep()
    with pytest.raises(CommandTimeout):
        shared_box.commands.run(f"setsid {sleep} & {sleep}", timeout=0.3)
    eventually(lambda: not is_running(shared_box, sleep))


def test_timeout_of_one_command_leaves_others_alone(shared_box: Sandbox) -> None:
    other = shared_box.commands.run("read x; echo $x", background=True, stdin=True)
    with pytest.raises(CommandTimeout):
        shared_box.commands.run("sleep 300", timeout=0.2)
    other.send_stdin("alive\n")
    assert other.wait().stdout == "alive\n"


@pytest.mark.parametrize("timeout", [None, 0])
def test_timeout_can_be_switched_off(shared_box: Sandbox, timeout: int | None) -> None:
    assert shared_box.commands.run("sleep 0.1; echo on", timeout=timeout).stdout == "on\n"


def test_command_returns_while_its_child_still_holds_its_output(shared_box: Sandbox) -> None:
    sleep = _unique_sleep()
    result = result_of(lambda: shared_box.commands.run(f"{sleep} & echo done"))
    assert result.stdout == "done\n"
    assert is_running(shared_box, sleep)


def test_child_that_prints_after_its_parent_has_ended_is_not_harmed(shared_box: Sandbox) -> None:
    script = "(sleep 0.5; head -c 1000000 /dev/zero; echo ok > survived) & echo parent"
    assert shared_box.commands.run(script).stdout == "parent\n"
    eventually(lambda: shared_box.files.exists("survived"))


def test_daemon_outlives_its_command_but_not_its_sandbox(make_box: MakeBox) -> None:
    box = make_box()
    sleep = _unique_sleep()
    program = (
        "import os, sys\n"
        "if os.fork(): os._exit(0)\n"
        "os.setsid()\n"
        "if os.fork(): os._exit(0)\n"
        "os.closerange(0, 3)\n"
        "os.execvp('sleep', sys.argv[1].split())\n"
    )
    box.commands.run(["python3", "-c", program, sleep])
    eventually(lambda: is_running(box, sleep))
    assert processes_with(sleep), "the host must be able to see it for this test to mean anything"
    box.kill()
    assert not processes_with(sleep)


def test_zombies_are_reaped(shared_box: Sandbox) -> None:
    shared_box.commands.run("for i in $(seq 50); do (true &) ; done")
    count = "cat /proc/[0-9]*/stat 2>/dev/null | grep -c ') Z ' || true"
    eventually(lambda: shared_box.commands.run(count).stdout == "0\n")


def test_fifty_commands_at_once(shared_box: Sandbox) -> None:
    def run(number: int) -> str:
        return shared_box.commands.run(f"sleep 0.2; echo {number}; seq {number}").stdout

    results = Calls([lambda n=n: run(n) for n in range(1, 51)]).results(60)
    for number, printed in enumerate(results, 1):
        expected = "".join(f"{n}\n" for n in range(1, number + 1))
        assert printed == f"{number}\n{expected}"


def test_hundred_commands_one_after_the_other_leave_nothing(shared_box: Sandbox) -> None:
    def open_descriptors() -> int:
        return int(shared_box.commands.run("ls /proc/self/fd | wc -l").stdout)

    before = open_descriptors()
    for number in range(100):
        assert shared_box.commands.run(["echo", str(number)]).stdout == f"{number}\n"
    assert open_descriptors() == before
    assert shared_box.commands.list() == []
