"""`Sandbox`: the synchronous face. Every method waits for its answer; the shape is E2B's."""

from __future__ import annotations

import contextlib
from collections.abc import AsyncIterator, Iterator, Mapping
from typing import Any, Literal, Unpack, overload

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
from paddock.doors.machine.faces import Face, HandleFace, synced
from paddock.doors.machine.lifecycle import BoxCalls
from paddock.doors.machine.making import connect_box, create_box, resize_pool
from paddock.doors.terms import CreateWords, PolicyWord, terms_of
from paddock.model.results import CommandResult


class CommandHandle(HandleFace):
    """A program that runs in the background."""

    wait = synced(HandleCalls.wait)
    kill = synced(HandleCalls.kill)
    send_signal = synced(HandleCalls.send_signal)
    send_stdin = synced(HandleCalls.send_stdin)
    close_stdin = synced(HandleCalls.close_stdin)
    resize = synced(HandleCalls.resize)
    disconnect = synced(HandleCalls.disconnect)


class Commands(Face):
    """Programs in the sandbox."""

    _calls: CommandCalls

    @overload
    def run(
        self,
        cmd: str | list[str],
        background: Literal[False] = False,
        *,
        envs: Mapping[str, str] | None = ...,
        cwd: str | None = ...,
        on_stdout: TextCallback | None = ...,
        on_stderr: TextCallback | None = ...,
        stdin: bool | str | bytes = ...,
        binary: bool = ...,
        timeout: float | str | None = ...,
    ) -> CommandResult: ...

    @overload
    def run(
        self,
        cmd: str | list[str],
        background: Literal[True],
        *,
        envs: Mapping[str, str] | None = ...,
        cwd: str | None = ...,
        on_stdout: TextCallback | None = ...,
        on_stderr: TextCallback | None = ...,
        stdin: bool | str | bytes = ...,
        binary: bool = ...,
        timeout: float | str | None = ...,
    ) -> CommandHandle: ...

    def run(
        self,
        cmd: str | list[str],
        background: bool = False,
        *,
        timeout: float | str | None = COMMAND_TIMEOUT_S,
        **options: Any,
    ) -> CommandResult | CommandHandle:
        """Runs a command: a text goes to the shell, a list is executed as it is.

        In the foreground a non-zero exit status raises CommandExitException, and `timeout` stops
        the program. In the background a handle comes back as soon as the program runs.
        """
        if not background:
            return self._engine.call(self._calls.run(cmd, timeout=timeout, **options))
        return CommandHandle(self._engine, self._engine.call(self._calls.start(cmd, **options)))

    def connect(
        self,
        pid: int,
        on_stdout: TextCallback | None = None,
        on_stderr: TextCallback | None = None,
    ) -> CommandHandle:
        """A handle on a program that runs already; it hears what is printed from now on."""
        calls = self._engine.call(self._calls.connect(pid, on_stdout, on_stderr))
        return CommandHandle(self._engine, calls)

    list = synced(CommandCalls.list)
    kill = synced(CommandCalls.kill)
    send_stdin = synced(CommandCalls.send_stdin)


class Pty(Face):
    """Terminals in the sandbox."""

    _calls: PtyCalls

    def create(
        self, rows: int = 24, cols: int = 80, on_data: Any = None, **options: Any
    ) -> CommandHandle:
        """A shell (or `cmd`) on a terminal; `on_data` gets the raw bytes."""
        calls = self._engine.call(self._calls.start(rows, cols, on_data, **options))
        return CommandHandle(self._engine, calls)


class WatchHandle(Face):
    """A directory that is watched."""

    stop = synced(WatchCalls.stop)
    get_new_events = synced(WatchCalls.get_new_events)


class Files(Face):
    """Files in the sandbox. Relative paths start at the home directory."""

    _calls: FileCalls

    def read(self, path: str, format: Literal["text", "bytes", "stream"] = "text") -> Any:
        """The content as text, as bytes, or as an iterator of bytes that never holds it all."""
        if format == "stream":
            return self._stream(self._calls.read_stream(path))
        return self._engine.call(self._calls.read(path, format))

    def _stream(self, chunks: AsyncIterator[bytes]) -> Iterator[bytes]:
        while (chunk := self._engine.call(next_chunk(chunks))) is not None:
            yield chunk

    def watch_dir(self, path: str, on_event: Any = None, *, recursive: bool = False) -> WatchHandle:
        """Watches a directory; events go to `on_event` or wait for get_new_events()."""
        calls = self._engine.call(self._calls.watch_dir(path, on_event, recursive=recursive))
        return WatchHandle(self._engine, calls)

    @contextlib.contextmanager
    def lock(
        self, path: str, *, shared: bool = False, timeout: float | str | None = None
    ) -> Iterator[None]:
        """Holds an advisory lock (flock) on a file, made if missing, for the block's time."""
        stream = self._engine.call(self._calls.take_lock(path, shared, timeout))
        try:
            yield
        finally:
            self._engine.call(close_stream(stream))

    write = synced(FileCalls.write)
    write_files = synced(FileCalls.write_many)
    list = synced(FileCalls.list)
    exists = synced(FileCalls.exists)
    get_info = synced(FileCalls.get_info)
    make_dir = synced(FileCalls.make_dir)
    rename = synced(FileCalls.rename)
    remove = synced(FileCalls.remove)


class SandboxPool:
    """Warm sandboxes for this process; leaving the context lets them go."""

    def __init__(self, engine: Engine) -> None:
        self._engine = engine

    def __enter__(self) -> SandboxPool:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        self._engine.call(resize_pool(self._engine, 0))


class Sandbox(Face):
    """An isolated machine for an agent. Make one with `Sandbox.create()`, best in a `with`."""

    _calls: BoxCalls

    def __init__(self, engine: Engine, box: Any) -> None:
        super().__init__(engine, BoxCalls(box, None))
        self.sandbox_id: str = box.sandbox_id
        self.commands = Commands(engine, CommandCalls(box, None))
        self.files = Files(engine, FileCalls(box, None))
        self.pty = Pty(engine, PtyCalls(box, None))

    @classmethod
    def create(cls, policy: PolicyWord = None, **words: Unpack[CreateWords]) -> Sandbox:
        """A new sandbox. CannotEnforce is raised rather than a limit not kept.

        limits: cpu, memory, pids, disk, files, output, time. mounts: a list of source (or volume),
        target, mode. envs, template, snapshot, timeout, metadata, audit_files. network, secrets,
        world and faults as in a paddock file; without them nothing leaves the sandbox. policy: the
        path of a paddock file, or a Policy; what it says holds where no word is given.
        """
        decided, spec = terms_of(policy, words)
        engine = Engine.current()
        return cls(engine, engine.call(create_box(engine, spec, decided)))

    @classmethod
    def connect(cls, sandbox_id: str) -> Sandbox:
        """A sandbox that runs already, also one of another process of the same user."""
        engine = Engine.current()
        return cls(engine, engine.call(connect_box(engine, sandbox_id)))

    @classmethod
    def pool(cls, size: int) -> SandboxPool:
        """Keeps `size` sandboxes warm for this process, and returns when they are."""
        engine = Engine.current()
        engine.call(resize_pool(engine, size))
        return SandboxPool(engine)

    @overload
    def fork(self) -> Sandbox: ...

    @overload
    def fork(self, count: int) -> list[Sandbox]: ...

    def fork(self, count: int | None = None) -> Sandbox | list[Sandbox]:
        """A second sandbox (or a list of `count`) with the files of this moment."""
        boxes = self._engine.call(self._calls.fork(1 if count is None else count))
        made = [Sandbox(self._engine, box) for box in boxes]
        return made[0] if count is None else made

    def __enter__(self) -> Sandbox:
        return self

    def __exit__(self, *_: object) -> None:
        self.kill()

    def __repr__(self) -> str:
        return f"<Sandbox {self.sandbox_id}>"

    pause = synced(BoxCalls.pause)
    resume = synced(BoxCalls.resume)
    kill = synced(BoxCalls.kill)
    set_timeout = synced(BoxCalls.set_timeout)
    get_info = synced(BoxCalls.get_info)
    is_running = synced(BoxCalls.is_running)
    metrics = synced(BoxCalls.metrics)
    metrics_history = synced(BoxCalls.metrics_history)
    snapshot = synced(BoxCalls.snapshot)
    changes = synced(BoxCalls.changes)
    exec_events = synced(BoxCalls.exec_events)
    file_events = synced(BoxCalls.file_events)
    update_network = synced(BoxCalls.update_network)
    alerts = synced(BoxCalls.alerts)
    world_digest = synced(BoxCalls.world_digest)
    world_changes = synced(BoxCalls.world_changes)
    broken_invariants = synced(BoxCalls.broken_invariants)
    reset_world = synced(BoxCalls.reset_world)
    run_code = synced(BoxCalls.run_code)
    create_code_context = synced(BoxCalls.create_code_context)
    remove_code_context = synced(BoxCalls.remove_code_context)
