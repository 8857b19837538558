"""`AsyncSandbox`: the face for asyncio. The same calls as `Sandbox`, awaited; callbacks run on the
caller's loop and may be coroutines.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator
from typing import Any, Literal, Unpack

from paddock.doors.machine.calls import (
    COMMAND_TIMEOUT_S,
    CommandCalls,
    FileCalls,
    HandleCalls,
    PtyCalls,
    TextCallback,
    WatchCalls,
    close_stream,
    next_chunk,
)
from paddock.doors.machine.engine import Engine
from paddock.doors.machine.faces import Face, HandleFace, asynced
from paddock.doors.machine.lifecycle import BoxCalls
from paddock.doors.machine.making import connect_box, create_box, resize_pool
from paddock.doors.terms import CreateWords, PolicyWord, terms_of
from paddock.model.results import CommandResult


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

    async def run(
        self,
        cmd: str | list[str],
        background: bool = False,
        *,
        timeout: float | str | None = COMMAND_TIMEOUT_S,
        **options: Any,
    ) -> CommandResult | AsyncCommandHandle:
        """Runs a command; see Sandbox.commands.run."""
        if not background:
            return await self._engine.acall(self._calls.run(cmd, timeout=timeout, **options))
        handle = await self._engine.acall(self._calls.start(cmd, **options))
        return AsyncCommandHandle(self._engine, handle)

    async def connect(
        self,
        pid: int,
        on_stdout: TextCallback | None = None,
        on_stderr: TextCallback | None = None,
    ) -> AsyncCommandHandle:
        """A handle on a program that runs already; it hears what is printed from now on."""
        calls = await self._engine.acall(self._calls.connect(pid, on_stdout, on_stderr))
        return AsyncCommandHandle(self._engine, calls)

    list = asynced(CommandCalls.list)
    kill = asynced(CommandCalls.kill)
    send_stdin = asynced(CommandCalls.send_stdin)


class AsyncPty(Face):
    """Terminals in the sandbox."""

    _calls: PtyCalls

    async def create(
        self, rows: int = 24, cols: int = 80, on_data: Any = None, **options: Any
    ) -> AsyncCommandHandle:
        """A shell (or `cmd`) on a terminal; `on_data` gets the raw bytes."""
        calls = await self._engine.acall(self._calls.start(rows, cols, on_data, **options))
        return AsyncCommandHandle(self._engine, calls)


class AsyncWatchHandle(Face):
    """A directory that is watched."""

    stop = asynced(WatchCalls.stop)
    get_new_events = asynced(WatchCalls.get_new_events)


class AsyncFiles(Face):
    """Files in the sandbox. Relative paths start at the home directory."""

    _calls: FileCalls

    async def read(self, path: str, format: Literal["text", "bytes", "stream"] = "text") -> Any:
        """The content as text, as bytes, or as an async iterator of bytes."""
        if format == "stream":
            return self._stream(self._calls.read_stream(path))
        return await self._engine.acall(self._calls.read(path, format))

    async def _stream(self, chunks: AsyncIterator[bytes]) -> AsyncIterator[bytes]:
        while (chunk := await self._engine.acall(next_chunk(chunks))) is not None:
            yield chunk

    async def watch_dir(
        self, path: str, on_event: Any = None, *, recursive: bool = False
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
    async def create(cls, policy: PolicyWord = None, **words: Unpack[CreateWords]) -> AsyncSandbox:
        """A new sandbox; takes what Sandbox.create takes."""
        decided, spec = terms_of(policy, words)
        engine = await asyncio.to_thread(Engine.current)
        return cls(engine, await engine.acall(create_box(engine, spec, decided)))

    @classmethod
    async def connect(cls, sandbox_id: str) -> AsyncSandbox:
        """A sandbox that runs already, also one of another process of the same user."""
        engine = await asyncio.to_thread(Engine.current)
        return cls(engine, await engine.acall(connect_box(engine, sandbox_id)))

    @classmethod
    async def pool(cls, size: int) -> None:
        """Keeps `size` sandboxes warm for this process; 0 lets them go."""
        engine = await asyncio.to_thread(Engine.current)
        await engine.acall(resize_pool(engine, size))

    async def fork(self, count: int | None = None) -> Any:
        """A second sandbox (or a list of `count`) with the files of this moment."""
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
