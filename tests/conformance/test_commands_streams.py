"""Input and output while a command runs: callbacks, back-pressure, binary data, bounds."""

from __future__ import annotations

import os
import threading
import time

import pytest

from conformance.conftest import MakeBox
from conformance.host import memory_bytes, peak_memory
from conformance.waiting import Calls, eventually, result_of
from paddock import CommandExitException, CommandTimeout, InvalidInput, Sandbox

MIB = 1 << 20


def test_callbacks_hear_all_output_in_order(shared_box: Sandbox) -> None:
    out: list[str] = []
    err: list[str] = []
    result = shared_box.commands.run(
        "seq 20000; seq 5 >&2", on_stdout=out.append, on_stderr=err.append
    )
    assert "".join(out) == result.stdout == "".join(f"{n}\n" for n in range(1, 20001))
    assert "".join(err) == result.stderr == "1\n2\n3\n4\n5\n"


def test_callback_hears_output_while_the_program_still_runs(shared_box: Sandbox) -> None:
    heard: list[str] = []
    handle = shared_box.commands.run(
        "echo first; read x", background=True, stdin=True, on_stdout=heard.append
    )
    eventually(lambda: heard == ["first\n"])
    handle.send_stdin("\n")
    handle.wait()


def test_character_that_arrives_in_two_pieces_is_one_for_the_callback(shared_box: Sandbox) -> None:
    heard: list[str] = []
    shared_box.commands.run(r"printf '\303'; sleep 0.1; printf '\251'", on_stdout=heard.append)
    assert "".join(heard) == "é"


def test_callback_may_call_the_sandbox(shared_box: Sandbox) -> None:
    def keep(text: str) -> None:
        shared_box.files.write("heard", text)
        shared_box.commands.run(["true"])

    result_of(lambda: shared_box.commands.run("echo note", on_stdout=keep))
    assert shared_box.files.read("heard") == "note\n"


def test_exception_of_a_callback_reaches_its_caller_and_harms_nothing_else(
    shared_box: Sandbox,
) -> None:
    def fail(text: str) -> None:
        raise LookupError(f"cannot take {text!r}")

    with pytest.raises(LookupError, match="cannot take"):
        result_of(lambda: shared_box.commands.run("echo x; sleep 0.1", on_stdout=fail))
    assert shared_box.commands.run("echo fine").stdout == "fine\n"


def test_blocked_callback_does_not_grow_memory_and_others_go_on(make_box: MakeBox) -> None:
    box = make_box(limits={"output": "400MiB"})
    release, is_blocked = threading.Event(), threading.Event()

    def block(text: str) -> None:
        is_blocked.set()
        release.wait(60)

    before = memory_bytes()
    handle = box.commands.run("head -c 200000000 /dev/zero", background=True, on_stdout=block)
    try:
        assert is_blocked.wait(10)
        time.sleep(1)  # long enough for 200 MB to arrive, were they let through
        assert memory_bytes() - before < 24 * MIB
        assert handle.pid in {p.pid for p in box.commands.list()}
        assert box.commands.run("echo others").stdout == "others\n"
    finally:
        handle.kill()
        release.set()


def test_output_that_nobody_waits_for_is_bounded(make_box: MakeBox) -> None:
    box = make_box(limits={"output": "2MiB"})
    with peak_memory() as peak:
        handle = box.commands.run("head -c 200000000 /dev/zero", background=True)
        eventually(lambda: not box.commands.list())
    assert peak.grown_bytes < 24 * MIB
    with pytest.raises(CommandExitException) as caught:
        handle.wait()
    assert caught.value.killed_by == "output"
    assert len(caught.value.stdout) == 2 * MIB


def test_binary_input_of_8_mib_comes_back_through_cat(shared_box: Sandbox) -> None:
    data = os.urandom(8 * MIB)
    result = result_of(lambda: shared_box.commands.run(["cat"], stdin=data))
    assert result.stdout_bytes == data


def test_text_input_is_utf8(shared_box: Sandbox) -> None:
    assert shared_box.commands.run(["wc", "-c"], stdin="ä€").stdout.strip() == "5"


def test_without_input_a_program_reads_the_end_at_once(shared_box: Sandbox) -> None:
    assert result_of(lambda: shared_box.commands.run(["cat"])).stdout == ""
    assert result_of(lambda: shared_box.commands.run(["cat"], stdin="")).stdout == ""


def test_input_for_a_program_that_ends_without_reading_is_dropped(shared_box: Sandbox) -> None:
    data = bytes(8 * MIB)
    assert result_of(lambda: shared_box.commands.run("exit 0", stdin=data)).exit_code == 0


def test_input_for_a_program_that_closes_its_stdin_is_dropped(shared_box: Sandbox) -> None:
    data = bytes(8 * MIB)
    result = result_of(lambda: shared_box.commands.run("exec <&-; sleep 0.3; echo on", stdin=data))
    assert result.stdout == "on\n"


def test_timeout_holds_while_a_program_does_not_read_its_input(make_box: MakeBox) -> None:
    box = make_box()
    with pytest.raises(CommandTimeout):
        result_of(lambda: box.commands.run("sleep 60", stdin=bytes(8 * MIB), timeout=0.5), 8)


def test_two_threads_may_write_to_one_program(make_box: MakeBox) -> None:
    handle = make_box().commands.run("sleep 0.3; wc -c", background=True, stdin=True)
    Calls([lambda: handle.send_stdin(bytes(4 * MIB))] * 3).results(15)
    handle.close_stdin()
    assert result_of(handle.wait).stdout.strip() == str(12 * MIB)


def test_input_that_is_not_text_or_bytes_is_invalid(shared_box: Sandbox) -> None:
    with pytest.raises(InvalidInput, match="stdin"):
        shared_box.commands.run("cat", stdin=7, timeout=2)  # type: ignore[call-overload]


def test_slow_input_does_not_hold_up_output(shared_box: Sandbox) -> None:
    handle = shared_box.commands.run(["cat"], background=True, stdin=True)
    for number in range(5):
        handle.send_stdin(f"{number}\n")
        eventually(lambda n=number: handle.stdout.endswith(f"{n}\n"))
    handle.close_stdin()
    assert handle.wait().stdout == "0\n1\n2\n3\n4\n"
