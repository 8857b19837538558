"""What callers may ask of commands, files and terminals, checked before anything reaches a guest.

There is no sandbox here: a real channel ends at a peer of the test's own, which must stay quiet
whenever a call is refused.
"""

from __future__ import annotations

import asyncio
from types import SimpleNamespace
from typing import Any

import pytest

from paddock.doors.machine.calls import (
    SHELL,
    CommandCalls,
    CommandOptions,
    FileCalls,
    HandleCalls,
    PtyCalls,
    WatchCalls,
)
from paddock.doors.machine.lifecycle import BoxCalls
from paddock.doors.machine.processes import MAX_ARGUMENT_BYTES, MAX_ARGV_BYTES, Start
from paddock.model.action import Action, Kind
from paddock.model.errors import (
    CommandNotStarted,
    FileError,
    FileMissing,
    InvalidInput,
    SandboxError,
)
from paddock.model.results import WatchEvent
from paddock.model.spec import HOME, Spec
from unit.fence.scripted_peer import Wired, end, event, in_loop


class OpenGate:
    """Lets everything through: what the gate decides is tested where it is."""

    async def command(self, argv: Any, cwd: str, live: Any, *, is_background: bool = False) -> Any:
        return await self._through(live)

    async def file(self, operation: str, path: str, live: Any, **more: Any) -> Any:
        return await self._through(live)

    async def code(self, language: str, code: str, context: str, live: Any) -> Any:
        return await self._through(live)

    async def _through(self, live: Any) -> Any:
        return (await live(Action(Kind.EXEC, "x", {}, step=1))).value


class Desk:
    """The calls of one sandbox that has nobody inside."""

    def __init__(self, wired: Wired) -> None:
        self.box: Any = SimpleNamespace(
            guest=SimpleNamespace(channel=wired.channel, spec=Spec(), sandbox_id="box1"),
            engine=SimpleNamespace(callback=lambda function, loop: function),
            envs=lambda more: {"BASE": "1", **more},
            spec=Spec(),
            sandbox_id="box1",
            set_timeout=None,
            actions=OpenGate(),
        )
        self.commands = CommandCalls(self.box, None)
        self.files = FileCalls(self.box, None)
        self.pty = PtyCalls(self.box, None)
        self.whole = BoxCalls(self.box, None)
        self.handle = HandleCalls(self.box, SimpleNamespace(pid=5, resize=None))  # type: ignore[arg-type]


async def refused(wired: Wired, key: str, call: Any) -> str:
    """What a call is refused with; it must name the argument, and nothing may have been sent."""
    with pytest.raises(InvalidInput) as caught:
        await asyncio.wait_for(call, timeout=1)
    assert str(caught.value).startswith(key), str(caught.value)
    await wired.peer.quiet(0.01)
    return str(caught.value)


# ---- commands ------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "cmd",
    ["", "  \n", [], (), None, 7, b"ls", {"ls": 1}, ["ls", 1], ["ls", None], [b"ls"], "a\0b",
     ["a\0b"], "\ud800", ["x" * (MAX_ARGUMENT_BYTES + 1)],
     ["x" * 100_000] * (MAX_ARGV_BYTES // 100_000 + 1)],
    ids=lambda c: repr(c)[:30],
)  # fmt: skip
@in_loop
async def test_command_that_makes_no_sense_is_refused(cmd: Any) -> None:
    async with Wired() as wired:
        await refused(wired, "command", Desk(wired).commands.run(cmd, CommandOptions()))


@pytest.mark.parametrize(
    ("options", "key"),
    [
        ({"cwd": "a\0b"}, "path"),
        ({"cwd": ""}, "path"),
        ({"cwd": 7}, "path"),
        ({"envs": {"1A": "x"}}, "envs"),
        ({"envs": {"A": 1}}, "envs.A"),
        ({"envs": {"A": "\0"}}, "envs.A"),
        ({"envs": "A=1"}, "envs"),
        ({"stdin": 7}, "stdin"),
        ({"stdin": ["x"]}, "stdin"),
        ({"stdin": "\ud800"}, "stdin"),
        ({"timeout": -1}, "timeout"),
        ({"timeout": "soon"}, "timeout"),
        ({"timeout": True}, "timeout"),
        ({"timeout": float("nan")}, "timeout"),
    ],
    ids=repr,
)
@in_loop
async def test_option_that_makes_no_sense_is_refused_by_its_name(
    options: dict[str, Any], key: str
) -> None:
    async with Wired() as wired:
        await refused(wired, key, Desk(wired).commands.run("true", CommandOptions(**options)))


@pytest.mark.parametrize("pid", [0, -1, "5", None, True, 1.5, 1 << 31])
@in_loop
async def test_number_that_is_no_pid_is_refused(pid: Any) -> None:
    async with Wired() as wired:
        desk = Desk(wired)
        for call in (desk.commands.kill, desk.commands.connect):
            await refused(wired, "pid", call(pid))
        await refused(wired, "pid", desk.commands.send_stdin(pid, "x"))


@pytest.mark.parametrize("signal", [9999, -1, "TERM", None])
@in_loop
async def test_signal_that_there_is_none_of_is_refused(signal: Any) -> None:
    async with Wired() as wired:
        await refused(wired, "signal", Desk(wired).handle.send_signal(signal))


@pytest.mark.parametrize(
    ("cmd", "argv"), [("echo hi", [SHELL, "-c", "echo hi"]), (["echo", "hi"], ["echo", "hi"]),
                      (("a", ""), ["a", ""]), (["\udcff"], ["\udcff"])],
)  # fmt: skip
@in_loop
async def test_text_goes_to_the_shell_and_a_list_is_taken_as_it_is(
    cmd: Any, argv: list[str]
) -> None:
    async with Wired() as wired:
        starting = asyncio.ensure_future(
            Desk(wired).commands.start(cmd, CommandOptions(cwd="sub", envs={"A": "2"}))
        )
        number, request = await wired.peer.opened()
        assert request["argv"] == argv
        assert request["cwd"] == f"{HOME}/sub"
        assert request["env"] == {"BASE": "1", "A": "2"}
        assert request["stdin"] is False
        await wired.peer.send(event(number, {"pid": 7}))
        handle = await starting
        assert handle.pid == 7
        await handle.disconnect()


@pytest.mark.parametrize("timeout", [None, 0, "30s", 0.5])
@in_loop
async def test_timeout_may_be_none_or_as_people_write_it(timeout: Any) -> None:
    async with Wired() as wired:
        running = asyncio.ensure_future(
            Desk(wired).commands.run("true", CommandOptions(timeout=timeout))
        )
        number, _ = await wired.peer.opened()
        with pytest.raises(SandboxError, match="not there"):
            await wired.peer.send(end(number, {"error": {"errno": 2, "message": "not there"}}))
            await running


@pytest.mark.parametrize("error", ["x", 7, {}, {"errno": []}, {"errno": "2", "path": 5}])
@in_loop
async def test_refusal_that_makes_no_sense_is_still_one(error: Any) -> None:
    async with Wired() as wired:
        running = asyncio.ensure_future(Desk(wired).commands.run(["x"], CommandOptions()))
        number, _ = await wired.peer.opened()
        await wired.peer.send(end(number, {"error": error}))
        with pytest.raises(CommandNotStarted, match="cannot start x"):
            await running


def test_arguments_of_a_program_are_a_list_of_texts() -> None:
    for argv in ("bash", [], [1], None):
        with pytest.raises(InvalidInput, match=r"^command: "):
            Start(argv, HOME, {}).check()  # type: ignore[arg-type]


def test_largest_arguments_that_linux_takes_are_taken() -> None:
    Start(["x" * (MAX_ARGUMENT_BYTES - 1)], HOME, {}).check()
    Start(["x"] * (MAX_ARGV_BYTES // 2), HOME, {}).check()
    with pytest.raises(InvalidInput, match=r"files\.write"):
        Start(["x"], HOME, {"A": "x" * MAX_ARGUMENT_BYTES}).check()


# ---- terminals -----------------------------------------------------------------------------------


@pytest.mark.parametrize(("rows", "cols"), [(0, 80), (24, 0), (-1, 80), (24, 10_000), ("24", 80),
                                            (24.5, 80), (None, 80)])  # fmt: skip
@in_loop
async def test_terminal_of_an_impossible_size_is_refused(rows: Any, cols: Any) -> None:
    async with Wired() as wired:
        desk = Desk(wired)
        await refused(wired, "terminal size", desk.pty.start(rows, cols))
        await refused(wired, "terminal size", desk.handle.resize(rows, cols))


@pytest.mark.parametrize(
    ("options", "key"), [({"cmd": "bash"}, "command"), ({"cmd": ["a\0b"]}, "command"),
                         ({"cwd": "a\0b"}, "path"), ({"envs": {"": "x"}}, "envs")],
)  # fmt: skip
@in_loop
async def test_terminal_with_a_bad_option_is_refused(options: Any, key: str) -> None:
    async with Wired() as wired:
        await refused(wired, key, Desk(wired).pty.start(**options))


# ---- files ---------------------------------------------------------------------------------------


@pytest.mark.parametrize("path", ["", "a\0b", None, 7, b"/x", "x" * 5000])
@pytest.mark.parametrize(
    "call", ["read", "list", "get_info", "exists", "make_dir", "remove", "watch_dir", "take_lock"]
)
@in_loop
async def test_impossible_path_is_refused_by_every_call(call: str, path: Any) -> None:
    async with Wired() as wired:
        await refused(wired, "path", getattr(Desk(wired).files, call)(path))


@in_loop
async def test_impossible_path_is_refused_where_there_are_two() -> None:
    async with Wired() as wired:
        desk = Desk(wired)
        await refused(wired, "path", desk.files.rename("a", ""))
        await refused(wired, "path", desk.files.rename("", "a"))
        await refused(wired, "path", desk.files.write("", "x"))


@pytest.mark.parametrize("format", ["Text", "json", None, b"bytes"])
@in_loop
async def test_unknown_format_is_refused(format: Any) -> None:
    async with Wired() as wired:
        await refused(wired, "format", Desk(wired).files.read("x", format))


@pytest.mark.parametrize("depth", [0, -1, "1", None, 1.0])
@in_loop
async def test_impossible_depth_is_refused(depth: Any) -> None:
    async with Wired() as wired:
        await refused(wired, "depth", Desk(wired).files.list("x", depth))


@pytest.mark.parametrize("data", [None, 7, ["x"], "\ud800"], ids=repr)
@in_loop
async def test_data_that_cannot_be_written_is_refused_before_the_file_is_emptied(
    data: Any,
) -> None:
    async with Wired() as wired:
        await refused(wired, "data", Desk(wired).files.write("notes.txt", data))


@pytest.mark.parametrize("file", [{}, {"path": "x"}, {"data": "x"}, "x", None, ("x", "y")])
@in_loop
async def test_file_without_path_and_data_is_refused(file: Any) -> None:
    async with Wired() as wired:
        await refused(wired, "write_files", Desk(wired).files.write_many([file]))


@pytest.mark.parametrize("timeout", [-1, "soon", True])
@in_loop
async def test_lock_with_a_bad_timeout_is_refused(timeout: Any) -> None:
    async with Wired() as wired:
        await refused(wired, "timeout", Desk(wired).files.take_lock("x", False, timeout))


@pytest.mark.parametrize(
    ("number", "kind", "says"),
    [(2, FileMissing, "No such"), (21, FileError, "is a directory"), (22, FileError, "regular"),
     (30, FileError, "read-only"), (122, FileError, "disk limit"), (13, FileError, "denied"),
     (99999, FileError, "strange")],
)  # fmt: skip
@in_loop
async def test_failure_inside_names_the_path_and_says_why(
    number: int, kind: type[FileError], says: str
) -> None:
    async with Wired() as wired:
        asking = asyncio.ensure_future(Desk(wired).files.get_info("x"))
        at, request = await wired.peer.opened()
        messages = {2: "No such file", 13: "Permission denied", 99999: "strange"}
        error = {"errno": number, "message": messages.get(number, ""), "path": request["path"]}
        await wired.peer.send(end(at, {"error": error}))
        with pytest.raises(kind, match=f"{HOME}/x: .*{says}") as caught:
            await asking
        assert caught.value.path == f"{HOME}/x"


@pytest.mark.parametrize(
    "answer",
    [{}, {"entry": None}, {"entry": 7}, {"entry": {}}, {"entry": {"path": "x", "type": "planet"}},
     {"entry": {"path": "x", "type": "file", "size": "big", "mode": 0, "mtime": 0}},
     {"error": 7}, {"error": {"errno": "x"}}],
    ids=repr,
)  # fmt: skip
@in_loop
async def test_answer_that_makes_no_sense_is_an_error_of_the_sandbox(answer: Any) -> None:
    async with Wired() as wired:
        asking = asyncio.ensure_future(Desk(wired).files.get_info("x"))
        at, _ = await wired.peer.opened()
        await wired.peer.send(end(at, answer))
        with pytest.raises(SandboxError):
            await asking


@in_loop
async def test_watch_keeps_no_more_events_than_its_bound() -> None:
    watch = WatchCalls()
    for n in range(watch.MAX_KEPT + 5):
        await watch.keep(WatchEvent("create", str(n)))
    events = await watch.get_new_events()
    assert len(events) == watch.MAX_KEPT
    assert events[-1].name == str(watch.MAX_KEPT + 4)
    assert await watch.get_new_events() == []
    await watch.stop()


# ---- the sandbox as a whole ----------------------------------------------------------------------


@in_loop
async def test_arguments_of_the_whole_sandbox_are_refused_by_their_names() -> None:
    async with Wired() as wired:
        whole = Desk(wired).whole
        await refused(wired, "language", whole.run_code("1", language="ruby"))
        await refused(wired, "timeout", whole.run_code("1", timeout="soon"))
        await refused(wired, "envs", whole.run_code("1", envs={"1": "x"}))
        await refused(wired, "timeout", whole.set_timeout(0))
        for count in (0, -1, "2", 1.5):
            await refused(wired, "fork", whole.fork(count))  # type: ignore[arg-type]
