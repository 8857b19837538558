"""`AsyncSandbox`: the face for asyncio. The same calls as `Sandbox`, awaited; callbacks run on the
caller's loop and may be coroutines.
"""

from __future__ import annotations

import asyncio
import builtins
import contextlib
from collections.abc import AsyncIterator, Callable, Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Literal, Unpack, overload

from paddock.doors.machine.calls import (
    CommandCalls,
    CommandKeywords,
    CommandOptions,
    DefaultTimeout,
    FileCalls,
    HandleCalls,
    PtyCalls,
    TextCallback,
    Timeout,
    WatchCalls,
    close_stream,
)
from paddock.doors.machine.engine import Engine
from paddock.doors.machine.faces import Face, FileStreamFace, HandleFace, asynced
from paddock.doors.machine.lifecycle import BoxCalls
from paddock.doors.machine.sandboxes import (
    connect_box,
    create_box,
    delete_snapshot,
    list_boxes,
    list_snapshots,
    resize_pool,
)
from paddock.doors.terms import PolicyLike, terms_of
from paddock.model.results import CommandResult, SandboxInfo, WatchEvent

if TYPE_CHECKING:
    from paddock.state.snapshots.store import SnapshotInfo


class AsyncCommandHandle(HandleFace):
    """A program that runs in the background."""

    wait = asynced(HandleCalls.wait)
    kill = asynced(HandleCalls.kill)
    send_signal = asynced(HandleCalls.send_signal)
    send_stdin = asynced(HandleCalls.send_stdin)
    close_stdin = asynced(HandleCalls.close_stdin)
    resize = asynced(HandleCalls.resize)
    disconnect = asynced(HandleCalls.disconnect)


class AsyncCommands(Face):
    """Programs in the sandbox."""

    _calls: CommandCalls

    @overload
    async def run(
        self,
        cmd: str | list[str],
        background: Literal[False] = False,
        **options: Unpack[CommandKeywords],
    ) -> CommandResult: ...

    @overload
    async def run(
        self,
        cmd: str | list[str],
        background: Literal[True],
        **options: Unpack[CommandKeywords],
    ) -> AsyncCommandHandle: ...

    async def run(
        self,
        cmd: str | list[str],
        background: bool = False,
        *,
        envs: Mapping[str, str] | None = None,
        cwd: str | None = None,
        on_stdout: TextCallback | None = None,
        on_stderr: TextCallback | None = None,
        stdin: bool | str | bytes = False,
        binary: bool = False,
        timeout: Timeout | DefaultTimeout = DefaultTimeout.COMMAND,
    ) -> CommandResult | AsyncCommandHandle:
        """Runs a command: a text goes to the shell, a list is executed as it is.

        In the foreground a non-zero exit status raises CommandExitException. In the background a
        handle comes back as soon as the program runs. A program that cannot be started raises
        CommandNotStarted. After `timeout` (60 s in the foreground, without end in the background;
        None and 0: without end) the program and its children are ended, and CommandTimeout is
        raised, in the background by the handle's wait(). stdin: text or bytes are its whole input,
        True keeps it open for send_stdin. binary: callbacks get bytes.
        """
        options = CommandOptions(envs, cwd, on_stdout, on_stderr, stdin, binary, timeout)
        if not background:
            return await self._engine.acall(self._calls.run(cmd, options))
        handle = await self._engine.acall(self._calls.start(cmd, options))
        return AsyncCommandHandle(self._engine, handle)

    async def connect(
        self,
        pid: int,
        on_stdout: TextCallback | None = None,
        on_stderr: TextCallback | None = None,
    ) -> AsyncCommandHandle:
        """Returns a handle on a program that runs already; it hears what is printed from now on."""
        calls = await self._engine.acall(self._calls.connect(pid, on_stdout, on_stderr))
        return AsyncCommandHandle(self._engine, calls)

    list = asynced(CommandCalls.list)
    kill = asynced(CommandCalls.kill)
    send_stdin = asynced(CommandCalls.send_stdin)


class AsyncPty(Face):
    """Terminals in the sandbox."""

    _calls: PtyCalls

    async def create(
        self,
        rows: int = 24,
        cols: int = 80,
        on_data: Callable[[bytes], Any] | None = None,
        *,
        cmd: list[str] | None = None,
        cwd: str | None = None,
        envs: Mapping[str, str] | None = None,
    ) -> AsyncCommandHandle:
        """Starts a shell (or `cmd`) on a terminal; `on_data` gets the raw bytes."""
        starting = self._calls.start(rows, cols, on_data, cmd=cmd, cwd=cwd, envs=envs)
        return AsyncCommandHandle(self._engine, await self._engine.acall(starting))


class AsyncWatchHandle(Face):
    """A directory that is watched."""

    stop = asynced(WatchCalls.stop)
    get_new_events = asynced(WatchCalls.get_new_events)


class AsyncFileStream(FileStreamFace):
    """The pieces of a file, one after the other."""

    def __aiter__(self) -> AsyncIterator[bytes]:
        return self

    async def __anext__(self) -> bytes:
        piece = await self._engine.acall(self._calls.next())
        if piece is None:
            raise StopAsyncIteration
        return bytes(piece)

    async def close(self) -> None:
        """Lets go of the file before its end."""
        self._let_go()


class AsyncFiles(Face):
    """Files in the sandbox. Relative paths start at the home directory."""

    _calls: FileCalls

    @overload
    async def read(self, path: str, format: Literal["text"] = "text") -> str: ...

    @overload
    async def read(self, path: str, format: Literal["bytes"]) -> bytes: ...

    @overload
    async def read(self, path: str, format: Literal["stream"]) -> AsyncFileStream: ...

    async def read(
        self, path: str, format: Literal["text", "bytes", "stream"] = "text"
    ) -> str | bytes | AsyncFileStream:
        """Returns the content as text (UTF-8, faulty bytes replaced), as bytes, or as an iterator
        of bytes that never holds it all. A file that cannot be read raises here, for all three."""
        if format == "stream":
            opened = await self._engine.acall(self._calls.read_stream(path))
            return AsyncFileStream(self._engine, opened)
        content: str | bytes = await self._engine.acall(self._calls.read(path, format))
        return content

    async def watch_dir(
        self,
        path: str,
        on_event: Callable[[WatchEvent], Any] | None = None,
        *,
        recursive: bool = False,
    ) -> AsyncWatchHandle:
        """Watches a directory; events go to `on_event` or wait for get_new_events()."""
        made = self._calls.watch_dir(path, on_event, recursive=recursive)
        return AsyncWatchHandle(self._engine, await self._engine.acall(made))

    @contextlib.asynccontextmanager
    async def lock(
        self, path: str, *, shared: bool = False, timeout: float | str | None = None
    ) -> AsyncIterator[None]:
        """Holds an advisory lock (flock) on a file, made if missing, for the block's time."""
        stream = await self._engine.acall(self._calls.take_lock(path, shared, timeout))
        try:
            yield
        finally:
            await self._engine.acall(close_stream(stream))

    write = asynced(FileCalls.write)
    write_files = asynced(FileCalls.write_many)
    list = asynced(FileCalls.list)
    exists = asynced(FileCalls.exists)
    get_info = asynced(FileCalls.get_info)
    make_dir = asynced(FileCalls.make_dir)
    rename = asynced(FileCalls.rename)
    remove = asynced(FileCalls.remove)


class AsyncSandbox(Face):
    """An isolated machine for an agent. Make one with `await AsyncSandbox.create()`."""

    _calls: BoxCalls

    def __init__(self, engine: Engine, box: Any) -> None:
        loop = asyncio.get_running_loop()
        super().__init__(engine, BoxCalls(box, loop))
        self.sandbox_id: str = box.sandbox_id
        self.commands = AsyncCommands(engine, CommandCalls(box, loop))
        self.files = AsyncFiles(engine, FileCalls(box, loop))
        self.pty = AsyncPty(engine, PtyCalls(box, loop))

    @classmethod
    async def create(
        cls,
        policy: PolicyLike = None,
        *,
        limits: Mapping[str, Any] | None = None,
        mounts: Iterable[Mapping[str, Any]] | None = None,
        envs: Mapping[str, str] | None = None,
        template: str | None = None,
        snapshot: str | None = None,
        timeout: float | str | None = None,
        metadata: Mapping[str, str] | None = None,
        audit_files: bool | None = None,
        network: Mapping[str, Any] | None = None,
        secrets: Mapping[str, Mapping[str, Any]] | None = None,
        world: Mapping[str, Any] | None = None,
        faults: str | Sequence[Any] | None = None,
        record: Mapping[str, Any] | None = None,
        trust: bool = False,
    ) -> AsyncSandbox:
        """Makes a new sandbox. CannotEnforce is raised rather than a limit not kept.

        policy: the path of a paddock file, or a Policy; what it says holds where an argument is
        None. limits: cpu, memory, pids, disk, files, output, time. mounts: a list of source (or
        volume), target, mode. template: host, dir:/path, or the name of an added one. snapshot: the
        name or id of one. timeout: the sandbox ends after this (300 s); it always has one.
        metadata: labels for list(). audit_files: tell reads and writes of files (True). network,
        secrets, world, faults and record: as in a paddock file; without them nothing leaves the
        sandbox. trust: agree, for this time, to all that the paddock file asks of the host.
        """
        words = {
            "limits": limits,
            "mounts": mounts,
            "envs": envs,
            "template": template,
            "snapshot": snapshot,
            "timeout": timeout,
            "metadata": metadata,
            "audit_files": audit_files,
            "network": network,
            "secrets": secrets,
            "world": world,
            "faults": faults,
            "record": record,
            "trust": trust,
        }
        decided, spec = terms_of(policy, words)
        engine = await asyncio.to_thread(Engine.current)
        return cls(engine, await engine.acall(create_box(engine, spec, decided)))

    @classmethod
    async def connect(cls, sandbox_id: str) -> AsyncSandbox:
        """Returns a sandbox that runs already, also one of another process of the same user."""
        engine = await asyncio.to_thread(Engine.current)
        return cls(engine, await engine.acall(connect_box(engine, sandbox_id)))

    @classmethod
    async def list(cls) -> builtins.list[SandboxInfo]:
        """Lists all sandboxes of this user that run or are paused, oldest first."""
        engine = await asyncio.to_thread(Engine.current)
        return await engine.acall(list_boxes(engine))

    @classmethod
    async def list_snapshots(cls) -> builtins.list[SnapshotInfo]:
        """Lists what snapshot() has saved: name, id, size and date of each, oldest first."""
        engine = await asyncio.to_thread(Engine.current)
        return await engine.acall(list_snapshots(engine))

    @classmethod
    async def delete_snapshot(cls, snapshot: str) -> int:
        """Removes a snapshot by its name or id, and returns how many bytes that freed."""
        engine = await asyncio.to_thread(Engine.current)
        return await engine.acall(delete_snapshot(engine, snapshot))

    @classmethod
    async def pool(cls, size: int) -> None:
        """Keeps `size` sandboxes warm for this process; 0 lets them go."""
        engine = await asyncio.to_thread(Engine.current)
        await engine.acall(resize_pool(engine, size))

    @overload
    async def fork(self) -> AsyncSandbox: ...

    @overload
    async def fork(self, count: int) -> builtins.list[AsyncSandbox]: ...

    async def fork(self, count: int | None = None) -> AsyncSandbox | builtins.list[AsyncSandbox]:
        """Makes a second sandbox (or a list of `count`) with the files of this moment."""
        boxes = await self._engine.acall(self._calls.fork(1 if count is None else count))
        made = [AsyncSandbox(self._engine, box) for box in boxes]
        return made[0] if count is None else made

    async def __aenter__(self) -> AsyncSandbox:
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.kill()

    def __repr__(self) -> str:
        return f"<AsyncSandbox {self.sandbox_id}>"

    pause = asynced(BoxCalls.pause)
    resume = asynced(BoxCalls.resume)
    kill = asynced(BoxCalls.kill)
    set_timeout = asynced(BoxCalls.set_timeout)
    get_info = asynced(BoxCalls.get_info)
    is_running = asynced(BoxCalls.is_running)
    metrics = asynced(BoxCalls.metrics)
    metrics_history = asynced(BoxCalls.metrics_history)
    snapshot = asynced(BoxCalls.snapshot)
    changes = asynced(BoxCalls.changes)
    exec_events = asynced(BoxCalls.exec_events)
    file_events = asynced(BoxCalls.file_events)
    update_network = asynced(BoxCalls.update_network)
    alerts = asynced(BoxCalls.alerts)
    world_digest = asynced(BoxCalls.world_digest)
    world_changes = asynced(BoxCalls.world_changes)
    broken_invariants = asynced(BoxCalls.broken_invariants)
    reset_world = asynced(BoxCalls.reset_world)
    run_code = asynced(BoxCalls.run_code)
    create_code_context = asynced(BoxCalls.create_code_context)
    remove_code_context = asynced(BoxCalls.remove_code_context)
