"""The asyncio face: the same calls, awaited; cancelling a call stops what it started."""

from __future__ import annotations

import asyncio
import inspect
from collections.abc import Awaitable, Callable, Coroutine
from typing import Any

import pytest

from paddock import (
    AsyncSandbox,
    CommandExitException,
    CommandNotStarted,
    CommandTimeout,
    Conflict,
    FileMissing,
    InvalidInput,
    NotFound,
    Sandbox,
    SandboxDied,
    TimeoutReached,
)

pytestmark = pytest.mark.usefixtures("driver")


def _run(work: Callable[[AsyncSandbox], Coroutine[Any, Any, None]]) -> None:
    async def main() -> None:
        async with await AsyncSandbox.create(timeout=60) as box:
            await work(box)

    asyncio.run(asyncio.wait_for(main(), 60))


async def _eventually(condition: Callable[[], Awaitable[Any]]) -> None:
    async with asyncio.timeout(5):
        while not await condition():  # noqa: ASYNC110 - nothing inside could set an event
            await asyncio.sleep(0.02)


@pytest.mark.parametrize("part", [None, "commands", "files", "pty"])
def test_both_faces_have_the_same_methods(shared_box: Sandbox, part: str | None) -> None:
    async def work(box: AsyncSandbox) -> None:
        one = getattr(shared_box, part) if part else shared_box
        other = getattr(box, part) if part else box
        names = {n for n in dir(one) if not n.startswith("_")}
        assert names == {n for n in dir(other) if not n.startswith("_")}
        for name in names:
            if inspect.ismethod(getattr(one, name)) and name not in ("create", "pool"):
                ours, theirs = (inspect.signature(getattr(f, name)) for f in (one, other))
                assert list(ours.parameters) == list(theirs.parameters), name

    _run(work)


def test_commands_files_and_code_work() -> None:
    async def work(box: AsyncSandbox) -> None:
        result = await box.commands.run("echo hi; echo err >&2")
        assert (result.stdout, result.stderr) == ("hi\n", "err\n")  # type: ignore[union-attr]
        with pytest.raises(CommandExitException):
            await box.commands.run("exit 3")
        await box.files.write("f", "x" * 2_000_000)
        assert len(await box.files.read("f")) == 2_000_000
        chunks = [chunk async for chunk in await box.files.read("f", "stream")]
        assert sum(map(len, chunks)) == 2_000_000
        assert [e.name for e in await box.files.list(".")] == ["f"]
        assert (await box.run_code("6 * 7")).text == "42"
        assert (await box.get_info()).state == "running"
        assert (await box.metrics()).pids >= 1

    _run(work)


def test_handles_and_terminals_work() -> None:
    async def work(box: AsyncSandbox) -> None:
        handle = await box.commands.run("read x; echo got $x", background=True, stdin=True)
        await handle.send_stdin("word\n")
        assert (await handle.wait()).stdout == "got word\n"
        with pytest.raises(NotFound, match="has ended"):
            await handle.send_stdin("more")
        for background in (False, True):
            with pytest.raises(CommandNotStarted, match="no-such-program"):
                await box.commands.run(["no-such-program"], background=background)  # type: ignore[call-overload]
        late = await box.commands.run(["sleep", "2771"], background=True, timeout=0.3)
        with pytest.raises(CommandTimeout):
            await late.wait()
        with pytest.raises(FileMissing):
            await box.files.read("nothing", format="stream")
        shown: list[bytes] = []
        terminal = await box.pty.create(
            rows=10, cols=40, cmd=["stty", "size"], on_data=shown.append
        )
        await terminal.wait()
        assert b"".join(shown) == b"10 40\r\n"

    _run(work)


def test_callbacks_run_on_the_callers_loop_and_may_be_coroutines() -> None:
    async def work(box: AsyncSandbox) -> None:
        heard: list[str] = []
        loop = asyncio.get_running_loop()

        async def hear(text: str) -> None:
            assert asyncio.get_running_loop() is loop
            await asyncio.sleep(0.01)
            heard.append((await box.commands.run("echo from callback")).stdout)  # type: ignore[union-attr]
            heard.append(text)

        await box.commands.run("echo direct", on_stdout=hear)
        assert heard == ["from callback\n", "direct\n"]

    _run(work)


def test_cancelled_command_is_killed() -> None:
    async def work(box: AsyncSandbox) -> None:
        call = asyncio.ensure_future(box.commands.run("setsid sleep 815 & sleep 815"))
        await _eventually(lambda: _runs(box, "sleep 815", 2))
        call.cancel()
        with pytest.raises(asyncio.CancelledError):
            await call
        await _eventually(lambda: _runs(box, "sleep 815", 0))
        assert await box.commands.list() == []

    _run(work)


async def _runs(box: AsyncSandbox, words: str, count: int) -> bool:
    """Whether so many processes with exactly this command line run inside."""
    program = "for p in /proc/[0-9]*/cmdline; do tr '\\0' ' ' < $p; echo; done 2>/dev/null"
    result: Any = await box.commands.run(program)
    return [line.strip() for line in result.stdout.splitlines()].count(words) == count


def test_timeout_around_a_call_kills_its_command_too() -> None:
    async def work(box: AsyncSandbox) -> None:
        with pytest.raises(TimeoutError):
            async with asyncio.timeout(0.5):
                await box.commands.run(["sleep", "816"])
        await _eventually(lambda: _runs(box, "sleep 816", 0))

    _run(work)


def test_cancelled_command_with_unread_input_is_killed() -> None:
    async def work(box: AsyncSandbox) -> None:
        with pytest.raises(TimeoutError):
            async with asyncio.timeout(0.5):
                await box.commands.run(["sleep", "817"], stdin=bytes(8 << 20))
        await _eventually(lambda: _runs(box, "sleep 817", 0))

    _run(work)


def test_cancelled_wait_leaves_a_background_program_alone() -> None:
    async def work(box: AsyncSandbox) -> None:
        handle: Any = await box.commands.run("read x; echo $x", background=True, stdin=True)
        with pytest.raises(TimeoutError):
            async with asyncio.timeout(0.2):
                await handle.wait()
        await handle.send_stdin("still here\n")
        assert (await handle.wait()).stdout == "still here\n"

    _run(work)


def test_cancelled_cell_is_interrupted_and_the_next_one_works() -> None:
    async def work(box: AsyncSandbox) -> None:
        await box.run_code("kept = 1")
        with pytest.raises(TimeoutError):
            async with asyncio.timeout(0.5):
                await box.run_code("import time; time.sleep(1000)")
        async with asyncio.timeout(10):
            assert (await box.run_code("1 + 1")).text == "2"

    _run(work)


def test_cancelled_creation_leaves_no_sandbox() -> None:
    from paddock.doors.machine.engine import Engine

    async def main() -> None:
        engine = await asyncio.to_thread(Engine.current)
        before = set(engine.boxes)
        for delay_s in (0, 0.002, 0.01, 0.02, 0.03):
            creation = asyncio.ensure_future(AsyncSandbox.create(limits={"files": 512}))
            await asyncio.sleep(delay_s)
            creation.cancel()
            made = (await asyncio.gather(creation, return_exceptions=True))[0]
            if isinstance(made, AsyncSandbox):
                await made.kill()
        async with asyncio.timeout(10):
            while not set(engine.boxes) <= before:  # noqa: ASYNC110 - of another loop
                await asyncio.sleep(0.02)

    asyncio.run(main())


def test_many_sandboxes_at_once() -> None:
    async def one(number: int) -> str:
        async with await AsyncSandbox.create() as box:
            result: Any = await box.commands.run(["echo", str(number)])
            return str(result.stdout)

    async def main() -> None:
        printed = await asyncio.gather(*(one(n) for n in range(20)))
        assert printed == [f"{n}\n" for n in range(20)]

    asyncio.run(asyncio.wait_for(main(), 60))


def test_locks_watches_forks_and_pauses_work() -> None:
    async def work(box: AsyncSandbox) -> None:
        async with box.files.lock("lock"):
            with pytest.raises(TimeoutReached):
                async with box.files.lock("lock", timeout=0.1):
                    pass
        watch = await box.files.watch_dir(".")
        await box.files.write("seen", "x")
        await _eventually(lambda: _saw(watch, "seen"))
        child = await box.fork()
        assert await child.files.read("seen") == "x"
        await child.kill()
        await box.pause()
        with pytest.raises(Conflict):
            await box.commands.run("true")
        await box.resume()
        snapshot = await box.snapshot()
        async with await AsyncSandbox.create(snapshot=snapshot) as restored:
            assert await restored.files.read("seen") == "x"
        assert "/home/user/seen" in (await box.changes()).added

    _run(work)


async def _saw(watch: Any, name: str) -> bool:
    return name in [event.name for event in await watch.get_new_events()]


def test_end_of_a_sandbox_reaches_all_waiting_calls() -> None:
    async def work(box: AsyncSandbox) -> None:
        waiting = [asyncio.ensure_future(box.commands.run("sleep 1000")) for _ in range(20)]
        await asyncio.sleep(0.3)
        await box.kill()
        async with asyncio.timeout(5):
            results = await asyncio.gather(*waiting, return_exceptions=True)
        assert all(isinstance(r, SandboxDied) and "owner" in r.reason for r in results)

    _run(work)


def test_bad_input_is_told_the_same_way() -> None:
    async def main() -> None:
        with pytest.raises(InvalidInput, match=r"limits\.cpu"):
            await AsyncSandbox.create(limits={"cpu": -1})

    asyncio.run(main())
