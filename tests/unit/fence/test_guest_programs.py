"""Programs under the real guest: started, fed, streamed, signalled, left alone, found again."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import pytest

from paddock.fence.channel import StreamData
from paddock.fence.guest import wire
from unit.fence.guest_process import Guest, finish, has_ended, started, until_output
from unit.fence.scripted_peer import frame, in_loop, until


@in_loop
async def test_program_gives_its_output_apart_and_its_status() -> None:
    async with Guest() as guest:
        ran = await guest.run(["@shell", "-c", "echo out; echo err >&2; exit 3"])
        assert ran.output == {1: b"out\n", 2: b"err\n"}
        assert (ran.ending["exit"], ran.ending["signal"]) == (3, 0)
        assert ran.ending["duration"] > 0


@in_loop
async def test_program_has_the_environment_and_the_directory_it_was_given(tmp_path: Path) -> None:
    async with Guest() as guest:
        script = "echo $TMPDIR $OWN; pwd"
        ran = await guest.run(["@shell", "-c", script], cwd=str(tmp_path), env={"OWN": "2"})
        assert ran.output[1].decode() == f"/tmp 2\n{tmp_path}\n"


@in_loop
async def test_program_inherits_nothing_but_its_three_descriptors() -> None:
    async with Guest() as guest:
        ran = await guest.run(["ls", "/proc/self/fd"], stdin=b"")
        assert ran.output[1].split() == [b"0", b"1", b"2", b"3"]  # 3 is the directory being read


@in_loop
async def test_input_of_many_windows_comes_out_again() -> None:
    async with Guest() as guest:
        content = bytes(range(256)) * (3 * wire.WINDOW // 256)
        with guest.channel.open("exec", argv=["cat"], cwd="/", stdin=True) as stream:

            async def feed() -> None:
                await stream.send(content)
                stream.send_eof()

            ran, _ = await asyncio.gather(finish(stream), feed())
            assert ran.output[1] == content


@in_loop
async def test_program_stops_printing_when_nobody_takes_it_and_ends_when_they_do() -> None:
    async with Guest() as guest:
        argv = ["head", "-c", str(4 * wire.WINDOW), "/dev/zero"]
        with guest.channel.open("exec", argv=argv, cwd="/") as stream:
            await started(stream)
            await asyncio.sleep(0.3)
            queued = sum(len(i.content) for i in stream._items if isinstance(i, StreamData))
            assert queued <= wire.WINDOW
            ran = await finish(stream)
            assert len(ran.output[1]) == 4 * wire.WINDOW


@in_loop
async def test_program_that_does_not_read_its_input_ends_all_the_same() -> None:
    async with Guest() as guest:
        assert (await guest.run(["true"], stdin=bytes(1 << 20))).ending["exit"] == 0


@in_loop
async def test_ending_does_not_wait_for_a_child_that_keeps_the_output_open() -> None:
    async with Guest() as guest:
        ran = await asyncio.wait_for(guest.run(["@shell", "-c", "sleep 5 & echo $!"]), timeout=3)
        assert ran.ending["exit"] == 0
        assert ran.output[1].strip().isdigit()


@pytest.mark.parametrize(
    ("ask", "code", "path"),
    [
        ({"argv": ["no-such-program"], "cwd": "/"}, 2, "no-such-program"),
        ({"argv": ["/etc/passwd"], "cwd": "/"}, 13, "/etc/passwd"),
        ({"argv": ["true"], "cwd": "/no/such/place"}, 2, "/no/such/place"),
    ],
)
@in_loop
async def test_program_that_cannot_be_started_says_what_is_missing(
    ask: Any, code: int, path: str
) -> None:
    async with Guest() as guest:
        error = (await guest.ask("exec", **ask))["error"]
        assert (error["errno"], error["path"]) == (code, path)
        assert (await guest.run(["pwd"])).output[1] == b"/\n"  # its own directory is as before


@in_loop
async def test_signal_reaches_the_whole_family_of_a_program() -> None:
    async with Guest() as guest:
        script = "setsid sleep 60 & echo $!; sleep 60 & echo $!; echo ready; wait"
        with guest.channel.open("exec", argv=["@shell", "-c", script], cwd="/") as stream:
            pid = await started(stream)
            words = (await until_output(stream, b"ready")).split()
            assert await guest.ask("signal", pid=pid, signal=9) == {"found": True}
            ending = (await finish(stream)).ending
            assert (ending["exit"], ending["signal"]) == (137, 9)
            for child in words[:2]:
                await until(lambda child=child: has_ended(int(child)))


@in_loop
async def test_signal_to_a_program_that_is_not_there_is_said_and_no_error() -> None:
    async with Guest() as guest:
        assert await guest.ask("signal", pid=999_999_999, signal=9) == {"found": False}


@in_loop
async def test_program_goes_on_when_its_stream_is_left_and_can_be_found_again() -> None:
    async with Guest() as guest:
        script = "read line; echo got $line; exit 5"
        ask = {"argv": ["@shell", "-c", script], "cwd": "/", "stdin": True}
        with guest.channel.open("exec", **ask) as stream:
            pid = await started(stream)
        [process] = (await guest.ask("processes"))["processes"]
        assert (process["pid"], process["argv"][1:], process["pty"]) == (pid, ["-c", script], False)
        with guest.channel.open("attach", pid=pid) as again:
            assert await started(again) == pid
            await again.send(b"it\n")
            ran = await finish(again)
        assert (ran.output[1], ran.ending["exit"]) == (b"got it\n", 5)
        # Its ending can be asked for afterwards, too.
        assert (await guest.ask("attach", pid=pid))["exit"] == 5
        assert (await guest.ask("processes"))["processes"] == []


@in_loop
async def test_output_of_a_program_that_nobody_listens_to_does_not_block_it(
    tmp_path: Path,
) -> None:
    async with Guest() as guest:
        script = f"head -c 10000000 /dev/zero; echo done > {tmp_path}/mark"
        with guest.channel.open("exec", argv=["@shell", "-c", script], cwd="/") as stream:
            pid = await started(stream)
        assert "error" not in await guest.ask("attach", pid=pid)
        assert (tmp_path / "mark").read_text() == "done\n"


@in_loop
async def test_unknown_pid_cannot_be_attached_to() -> None:
    async with Guest() as guest:
        assert (await guest.ask("attach", pid=999_999_999))["error"]["errno"] == 3


# ---- terminals -----------------------------------------------------------------------------------


@in_loop
async def test_terminal_has_its_size_and_can_be_resized() -> None:
    async with Guest() as guest:
        size = {"rows": 12, "cols": 34}
        script = "stty size; read x; stty size; tty -s; echo tty=$?"
        with guest.channel.open("exec", argv=["@shell", "-c", script], cwd="/", pty=size) as stream:
            await started(stream)
            await until_output(stream, b"12 34")
            stream.call("resize", rows=50, cols=100)
            await stream.send(b"\n")
            await until_output(stream, b"50 100\r\ntty=0\r\n")
            assert (await finish(stream)).ending["exit"] == 0


@in_loop
async def test_interrupt_key_reaches_the_program_in_the_terminal() -> None:
    async with Guest() as guest:
        argv = ["@shell", "-c", "echo ready; sleep 60"]
        size = {"rows": 24, "cols": 80}
        with guest.channel.open("exec", argv=argv, cwd="/", pty=size) as stream:
            await started(stream)
            await until_output(stream, b"ready")
            await stream.send(b"\x03")
            assert (await finish(stream)).ending["exit"] == 130


@in_loop
async def test_what_is_typed_after_the_end_of_file_key_still_arrives() -> None:
    async with Guest() as guest:
        argv = ["@shell", "-c", "stty -echo; echo ready; cat; echo between; head -n 1"]
        size = {"rows": 24, "cols": 80}
        with guest.channel.open("exec", argv=argv, cwd="/", pty=size) as stream:
            await started(stream)
            await until_output(stream, b"ready")
            kinds = ((wire.DATA, b"one\n"), (wire.EOF, b""), (wire.DATA, b"two\n"))
            together = [frame(kind, stream._number, payload) for kind, payload in kinds]
            assert guest.channel._transport is not None
            guest.channel._transport.write(b"".join(together))  # the guest sees all three at once
            ran = await asyncio.wait_for(finish(stream), timeout=5)
            assert b"between" in ran.output[1]
            assert ran.output[1].endswith(b"two\r\n")


# ---- requests that make no sense -----------------------------------------------------------------


@pytest.mark.parametrize(
    "ask",
    [
        {"op": "no-such-operation"},
        {"op": None},
        {"op": "read"},
        {"op": "read", "path": 7},
        {"op": "read", "path": "a\0b"},
        {"op": "stat", "path": None},
        {"op": "list", "path": "/", "depth": "x"},
        {"op": "lock", "path": []},
        {"op": "watch", "path": 3.5},
        {"op": "exec"},
        {"op": "exec", "argv": "true", "cwd": "/"},
        {"op": "exec", "argv": [], "cwd": "/"},
        {"op": "exec", "argv": [1], "cwd": "/"},
        {"op": "exec", "argv": ["true"], "cwd": "/", "pty": {}},
        {"op": "exec", "argv": ["a\0b"], "cwd": "/"},
        {"op": "attach"},
        {"op": "signal"},
    ],
    ids=repr,
)
@in_loop
async def test_request_that_makes_no_sense_is_an_error_and_not_the_end_of_the_guest(
    ask: dict[str, Any],
) -> None:
    async with Guest() as guest:
        ask = dict(ask)
        answer = await guest.channel.ask(ask.pop("op"), **ask)
        assert answer["error"]["message"]
        assert await guest.ask("ping") == {}


@pytest.mark.parametrize("number", [0, 9999, -1])
@in_loop
async def test_signal_that_there_is_none_of_does_not_end_the_guest(number: Any) -> None:
    async with Guest() as guest:
        with guest.channel.open("exec", argv=["sleep", "5"], cwd="/") as stream:
            pid = await started(stream)
            await asyncio.wait_for(guest.ask("signal", pid=pid, signal=number), timeout=2)
            stream.call("signal", signal=number)
            assert await asyncio.wait_for(guest.ask("ping"), timeout=2) == {}
            stream.call("signal", signal=9)
            await stream.end()


@pytest.mark.parametrize("call", [{"op": "unknown"}, {"op": "resize"}, {"op": "signal"}])
@in_loop
async def test_call_that_makes_no_sense_does_not_end_the_guest(call: dict[str, Any]) -> None:
    async with Guest() as guest:
        size = {"rows": 24, "cols": 80}
        with guest.channel.open("exec", argv=["sleep", "5"], cwd="/", pty=size) as stream:
            await started(stream)
            stream.call(**call)
            assert await guest.ask("ping") == {}
            stream.call("signal", signal=9)
            assert isinstance(await stream.end(), dict)


@in_loop
async def test_guest_goes_when_its_host_hangs_up() -> None:
    async with Guest() as guest:
        with guest.channel.open("exec", argv=["sleep", "1"], cwd="/") as stream:
            await started(stream)
        guest.channel.lose("bye")
        assert await asyncio.to_thread(guest.process.wait, 10) == 0
