"""The calls of a sandbox as coroutines on the engine's loop, with the signatures that users see.
The sync and the async face are both made from these, so that they cannot differ.
"""

from __future__ import annotations

import asyncio
import enum
import signal as signals
import threading
from collections import deque
from collections.abc import Awaitable, Callable, Coroutine, Mapping
from typing import Any, Literal, TypedDict

import msgspec

from paddock.doors.machine.box import Box
from paddock.doors.machine.files import Content, FileCore, OpenFile
from paddock.doors.machine.processes import Running, Start, checked, running_processes, send_signal
from paddock.doors.machine.records import command_record
from paddock.fence.channel import GuestStream
from paddock.gate.executors import Done
from paddock.model.action import Action
from paddock.model.errors import InvalidInput
from paddock.model.results import CommandResult, EntryInfo, ProcessInfo, WatchEvent
from paddock.model.sizes import parse_duration
from paddock.model.spec import HOME, parse_envs, sandbox_path, text_bytes

COMMAND_TIMEOUT_S = 60.0
Timeout = float | str | None  # seconds, or text such as "5m"; None and 0 mean: without end
Loop = asyncio.AbstractEventLoop | None
TextCallback = Callable[[Any], Any]  # text, or bytes when binary=True
# The guest picks bash where the root has it, else sh: one exec, whatever the template.
SHELL = "@shell"


class DefaultTimeout(enum.Enum):
    """Stands for the time-out of a command whose caller names none."""

    COMMAND = COMMAND_TIMEOUT_S

    def __repr__(self) -> str:
        return f"<{self.value:g} s, without end in the background>"


class CommandKeywords(TypedDict, total=False):
    """The keyword arguments of `commands.run`."""

    envs: Mapping[str, str] | None
    cwd: str | None
    on_stdout: TextCallback | None
    on_stderr: TextCallback | None
    stdin: bool | str | bytes
    binary: bool
    timeout: Timeout | DefaultTimeout


class CommandOptions(msgspec.Struct, frozen=True):
    """The options of a command, as its caller gave them."""

    envs: Mapping[str, str] | None = None
    cwd: str | None = None
    on_stdout: TextCallback | None = None
    on_stderr: TextCallback | None = None
    stdin: bool | str | bytes = False
    binary: bool = False
    timeout: Timeout | DefaultTimeout = DefaultTimeout.COMMAND

    def limit_s(self, default_s: float | None) -> float | None:
        """Return how long it may take, None for without end."""
        if isinstance(self.timeout, DefaultTimeout):
            return default_s
        return _seconds(self.timeout)


class HandleCalls:
    """A running program as its callers see it."""

    def __init__(self, box: Box, running: Running) -> None:
        self.box = box
        self.running = running

    @property
    def pid(self) -> int:
        return self.running.pid

    async def wait(self, timeout: float | str | None = None) -> CommandResult:
        """Waits for the end. A non-zero status raises CommandExitException. After `timeout`, or
        that of `run`, the program and its children are ended and CommandTimeout is raised."""
        return checked(await self.running.wait(_seconds(timeout)))

    async def kill(self) -> bool:
        """Sends SIGKILL to the program and its descendants; False if it had ended."""
        return await send_signal(self.box.guest, self.pid, signals.SIGKILL)

    async def send_signal(self, signal: int) -> bool:
        """Sends any signal to the program and its descendants; False if it had ended."""
        if not isinstance(signal, int) or not 0 < signal < signals.NSIG:
            raise InvalidInput(f"signal: {signal!r} is not a signal number such as signal.SIGTERM")
        return await send_signal(self.box.guest, self.pid, int(signal))

    async def send_stdin(self, data: str | bytes) -> None:
        """Writes to the program's input; waits while it does not read. Raises InvalidInput for a
        program that was started without stdin=True, and NotFound for one that has ended."""
        await self.running.send_stdin(_bytes(data))

    async def close_stdin(self) -> None:
        """Ends the program's input."""
        self.running.close_stdin()

    async def resize(self, rows: int, cols: int) -> None:
        """Tells a terminal program its new size."""
        self.running.resize(*_terminal_size(rows, cols))

    async def disconnect(self) -> None:
        """Stops listening; the program goes on."""
        self.running.disconnect()


class CommandCalls:
    """Starts and finds programs."""

    def __init__(self, box: Box, loop: Loop) -> None:
        self._box = box
        self._loop = loop

    async def start(self, cmd: str | list[str], options: CommandOptions) -> HandleCalls:
        """Start a program in the background. The guest keeps its time-out, so that it holds for a
        program that nobody listens to, and whoever connects to it later is told."""
        start, begin = self._prepared(cmd, options, options.limit_s(None))

        async def live(action: Action) -> Done:
            running = (await begin()).listen()
            return Done(value=running, record={"pid": running.pid})

        actions = self._box.actions
        running = await actions.command(start.argv, start.cwd, live, is_background=True)
        return HandleCalls(self._box, running)

    def _prepared(
        self, cmd: str | list[str], options: CommandOptions, timeout_s: float | None
    ) -> tuple[Start, Callable[[], Awaitable[Running]]]:
        box, engine, stdin = self._box, self._box.engine, options.stdin
        if not isinstance(stdin, bool | str | bytes):
            raise InvalidInput(f"stdin: {type(stdin).__name__} is not True, text or bytes")
        feed = None if isinstance(stdin, bool) else _bytes(stdin)
        start = Start(
            argv=_argv(cmd),
            cwd=HOME if options.cwd is None else sandbox_path(options.cwd),
            envs=box.envs(dict(parse_envs(options.envs))),
            stdin=bool(stdin) or feed is not None,
            timeout_s=timeout_s,
        )
        deliver = {
            1: engine.callback(options.on_stdout, self._loop),
            2: engine.callback(options.on_stderr, self._loop),
        }
        start.check()

        async def begin() -> Running:
            running = await Running.start(box.guest, start, deliver, is_binary=options.binary)
            if feed is not None:
                running.feed(feed)
            return running

        return start, begin

    async def run(self, cmd: str | list[str], options: CommandOptions) -> CommandResult:
        limit_s = options.limit_s(COMMAND_TIMEOUT_S)
        start, begin = self._prepared(cmd, options, None)

        async def live(action: Action) -> Done:
            result = await (await begin()).wait(limit_s)
            return Done(value=result, record=command_record(result))

        return checked(await self._box.actions.command(start.argv, start.cwd, live))

    async def connect(
        self,
        pid: int,
        on_stdout: TextCallback | None = None,
        on_stderr: TextCallback | None = None,
    ) -> HandleCalls:
        engine = self._box.engine
        deliver = {
            1: engine.callback(on_stdout, self._loop),
            2: engine.callback(on_stderr, self._loop),
        }
        running = await Running.attach(self._box.guest, _pid(pid), deliver)
        return HandleCalls(self._box, running.listen())

    async def list(self) -> list[ProcessInfo]:
        """Lists programs that were started through this API and still run."""
        return await running_processes(self._box.guest)

    async def kill(self, pid: int) -> bool:
        """Sends SIGKILL to a program and its descendants; False if there is none of that pid."""
        return await send_signal(self._box.guest, _pid(pid), signals.SIGKILL)

    async def send_stdin(self, pid: int, data: str | bytes) -> None:
        """Writes to the input of a program that was started with stdin=True."""
        handle = await self.connect(pid)
        try:
            await handle.send_stdin(data)
        finally:
            handle.running.disconnect()


class PtyCalls:
    """Terminals."""

    def __init__(self, box: Box, loop: Loop) -> None:
        self._box = box
        self._loop = loop

    async def start(
        self,
        rows: int = 24,
        cols: int = 80,
        on_data: Callable[[bytes], Any] | None = None,
        *,
        cmd: list[str] | None = None,
        cwd: str | None = None,
        envs: Mapping[str, str] | None = None,
    ) -> HandleCalls:
        box = self._box
        rows, cols = _terminal_size(rows, cols)
        start = Start(
            argv=cmd or [SHELL, "-i"],
            cwd=HOME if cwd is None else sandbox_path(cwd),
            envs=box.envs({"TERM": "xterm-256color", **dict(parse_envs(envs))}),
            rows=rows,
            cols=cols,
        )
        start.check()
        deliver = {1: box.engine.callback(on_data, self._loop)}

        async def live(action: Action) -> Done:
            running = (await Running.start(box.guest, start, deliver)).listen()
            return Done(value=running, record={"pid": running.pid})

        running = await box.actions.command(start.argv, start.cwd, live, is_background=True)
        return HandleCalls(box, running)


class WatchCalls:
    """A directory watch: events come to a callback, or are collected until asked for."""

    MAX_KEPT = 10_000

    def __init__(self) -> None:
        self.task: asyncio.Task[None] | None = None
        self.kept: deque[WatchEvent] = deque(maxlen=self.MAX_KEPT)
        self.guard = threading.Lock()

    async def keep(self, event: WatchEvent) -> None:
        with self.guard:
            self.kept.append(event)

    async def stop(self) -> None:
        """Ends the watch."""
        if self.task is not None:
            self.task.cancel()

    async def get_new_events(self) -> list[WatchEvent]:
        """Returns what came since the last call."""
        with self.guard:
            events = list(self.kept)
            self.kept.clear()
        return events


class FileCalls(FileCore):
    """Files, with the formats and callbacks that users name."""

    def __init__(self, box: Box, loop: Loop) -> None:
        super().__init__(box.guest)
        self._box = box
        self._loop = loop

    async def read(self, path: str, format: Literal["text", "bytes"] = "text") -> Any:
        """Returns the content as text (UTF-8, faulty bytes replaced) or bytes."""
        if format not in ("text", "bytes"):
            raise InvalidInput(f"format: {format!r} is not text, bytes or stream")
        content = await self._cross("read", path, self.read_bytes(path), len)
        return content if format == "bytes" else content.decode("utf-8", "replace")

    async def read_stream(self, path: str) -> OpenFile:
        """Open a file to be read piece by piece; raises here if it cannot be read."""
        opened: OpenFile = await self._cross("read", path, self.open_file(path))
        return opened

    async def write(self, path: str, content: Content, *, is_append: bool = False) -> EntryInfo:
        """Writes text, bytes or an open file, in the place of what was there or, with `is_append`,
        behind it; missing directories are made."""
        work = super().write(path, content, is_append=is_append)
        written: EntryInfo = await self._cross("write", path, work, lambda e: e.size)
        return written

    async def list(self, path: str, depth: int = 1) -> list[EntryInfo]:
        """Lists what is in a directory, and below it down to `depth`; links are not followed."""
        found: list[EntryInfo] = await self._cross("list", path, super().list(path, depth), len)
        return found

    async def get_info(self, path: str) -> EntryInfo:
        """Returns type, size, mode and time of one path; a link is itself."""
        info: EntryInfo = await self._cross("info", path, super().get_info(path))
        return info

    async def exists(self, path: str) -> bool:
        """Tells whether there is something of that name, a dangling link included."""
        return bool(await self._cross("exists", path, super().exists(path)))

    async def make_dir(self, path: str) -> bool:
        """Makes a directory and its parents; False if it was there."""
        return bool(await self._cross("make_dir", path, super().make_dir(path)))

    async def rename(self, old: str, new: str) -> EntryInfo:
        """Moves a file or directory."""
        target = sandbox_path(new)
        work = super().rename(old, target)
        moved: EntryInfo = await self._cross("rename", old, work, to=target)
        return moved

    async def remove(self, path: str) -> None:
        """Removes a file, or a directory with all in it."""
        await self._cross("remove", path, super().remove(path))

    async def _cross(
        self,
        operation: str,
        path: str,
        work: Coroutine[Any, Any, Any],
        measure: Callable[[Any], int] | None = None,
        **more: str,
    ) -> Any:
        """Does the work if the gate lets it; the journal keeps a size, not the content."""

        async def live(action: Action) -> Done:
            value = await work
            record = {} if measure is None else {"size": measure(value)}
            return Done(value=value, record=record)

        try:
            return await self._box.actions.file(operation, sandbox_path(path), live, **more)
        finally:
            work.close()  # when it was not let through

    async def watch_dir(
        self,
        path: str,
        on_event: Callable[[WatchEvent], Any] | None = None,
        *,
        recursive: bool = False,
    ) -> WatchCalls:
        calls = WatchCalls()
        deliver: Callable[[WatchEvent], Awaitable[None]]
        deliver = self._box.engine.callback(on_event, self._loop) or calls.keep
        watching = self.watch(path, deliver, is_recursive=recursive)
        calls.task = await self._cross("watch", path, watching)
        return calls

    async def take_lock(
        self, path: str, shared: bool = False, timeout: float | str | None = None
    ) -> GuestStream:
        locking = self.lock(path, is_shared=shared, timeout_s=_seconds(timeout))
        held: GuestStream = await self._cross("lock", path, locking)
        return held


async def close_stream(stream: GuestStream) -> None:
    stream.close()


def _argv(cmd: str | list[str]) -> list[str]:
    if isinstance(cmd, str):
        if "\0" in cmd:
            raise InvalidInput("command: contains a NUL byte")
        if not cmd.strip():
            raise InvalidInput("command: empty; give a shell command or a list of words")
        return [SHELL, "-c", cmd]
    if not isinstance(cmd, list | tuple) or not cmd:
        raise InvalidInput(f"command: {cmd!r} is not a text or a list of texts")
    return list(cmd)


def _pid(value: object) -> int:
    if isinstance(value, bool) or not isinstance(value, int) or not 0 < value < 1 << 31:
        raise InvalidInput(f"pid: {value!r} is not a process number")
    return value


def _seconds(value: float | str | None) -> float | None:
    """Return a time-out in seconds; None for None and 0, which both mean that there is none."""
    return None if value is None or value == 0 else parse_duration(value, "timeout")


def _bytes(data: str | bytes) -> bytes:
    if not isinstance(data, str | bytes | bytearray | memoryview):
        raise InvalidInput(f"stdin: {type(data).__name__} is not text or bytes")
    return text_bytes(data, "stdin") if isinstance(data, str) else bytes(data)


def _terminal_size(rows: int, cols: int) -> tuple[int, int]:
    if not all(isinstance(n, int) and 0 < n < 10_000 for n in (rows, cols)):
        raise InvalidInput(
            f"terminal size: {rows!r} x {cols!r} is not a number of rows and columns"
        )
    return rows, cols
