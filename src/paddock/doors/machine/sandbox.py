"""`Sandbox`: the synchronous face. Every method waits for its answer; the shape is E2B's."""

from __future__ import annotations

import builtins
import contextlib
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
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
from paddock.doors.machine.faces import Face, FileStreamFace, HandleFace, synced
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
        **options: Unpack[CommandKeywords],
    ) -> CommandResult: ...

    @overload
    def run(
        self,
        cmd: str | list[str],
        background: Literal[True],
        **options: Unpack[CommandKeywords],
    ) -> CommandHandle: ...

    def run(
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
    ) -> CommandResult | CommandHandle:
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
            return self._engine.call(self._calls.run(cmd, options))
        handle = self._engine.call(self._calls.start(cmd, options))
        return CommandHandle(self._engine, handle)

    def connect(
        self,
        pid: int,
        on_stdout: TextCallback | None = None,
        on_stderr: TextCallback | None = None,
    ) -> CommandHandle:
        """Returns a handle on a program that runs already; it hears what is printed from now on."""
        calls = self._engine.call(self._calls.connect(pid, on_stdout, on_stderr))
        return CommandHandle(self._engine, calls)

    list = synced(CommandCalls.list)
    kill = synced(CommandCalls.kill)
    send_stdin = synced(CommandCalls.send_stdin)


class Pty(Face):
    """Terminals in the sandbox."""

    _calls: PtyCalls

    def create(
        self,
        rows: int = 24,
        cols: int = 80,
        on_data: Callable[[bytes], Any] | None = None,
        *,
        cmd: list[str] | None = None,
        cwd: str | None = None,
        envs: Mapping[str, str] | None = None,
    ) -> CommandHandle:
        """Starts a shell (or `cmd`) on a terminal; `on_data` gets the raw bytes."""
        starting = self._calls.start(rows, cols, on_data, cmd=cmd, cwd=cwd, envs=envs)
        return CommandHandle(self._engine, self._engine.call(starting))


class WatchHandle(Face):
    """A directory that is watched."""

    stop = synced(WatchCalls.stop)
    get_new_events = synced(WatchCalls.get_new_events)


class FileStream(FileStreamFace):
    """The pieces of a file, one after the other."""

    def __iter__(self) -> Iterator[bytes]:
        return self

    def __next__(self) -> bytes:
        piece = self._engine.call(self._calls.next())
        if piece is None:
            raise StopIteration
        return bytes(piece)

    def close(self) -> None:
        """Lets go of the file before its end."""
        self._let_go()


class Files(Face):
    """Files in the sandbox. Relative paths start at the home directory."""

    _calls: FileCalls

    @overload
    def read(self, path: str, format: Literal["text"] = "text") -> str: ...

    @overload
    def read(self, path: str, format: Literal["bytes"]) -> bytes: ...

    @overload
    def read(self, path: str, format: Literal["stream"]) -> FileStream: ...

    def read(
        self, path: str, format: Literal["text", "bytes", "stream"] = "text"
    ) -> str | bytes | FileStream:
        """Returns the content as text (UTF-8, faulty bytes replaced), as bytes, or as an iterator
        of bytes that never holds it all. A file that cannot be read raises here, for all three."""
        if format == "stream":
            opened = self._engine.call(self._calls.read_stream(path))
            return FileStream(self._engine, opened)
        content: str | bytes = self._engine.call(self._calls.read(path, format))
        return content

    def watch_dir(
        self,
        path: str,
        on_event: Callable[[WatchEvent], Any] | None = None,
        *,
        recursive: bool = False,
    ) -> WatchHandle:
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
        """Lets the warm sandboxes go."""
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
    def create(
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
    ) -> Sandbox:
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
        engine = Engine.current()
        return cls(engine, engine.call(create_box(engine, spec, decided)))

    @classmethod
    def connect(cls, sandbox_id: str) -> Sandbox:
        """Returns a sandbox that runs already, also one of another process of the same user."""
        engine = Engine.current()
        return cls(engine, engine.call(connect_box(engine, sandbox_id)))

    @classmethod
    def list(cls) -> builtins.list[SandboxInfo]:
        """Lists all sandboxes of this user that run or are paused, oldest first."""
        engine = Engine.current()
        return engine.call(list_boxes(engine))

    @classmethod
    def list_snapshots(cls) -> builtins.list[SnapshotInfo]:
        """Lists what snapshot() has saved: name, id, size and date of each, oldest first."""
        engine = Engine.current()
        return engine.call(list_snapshots(engine))

    @classmethod
    def delete_snapshot(cls, snapshot: str) -> int:
        """Removes a snapshot by its name or id, and returns how many bytes that freed."""
        engine = Engine.current()
        return engine.call(delete_snapshot(engine, snapshot))

    @classmethod
    def pool(cls, size: int) -> SandboxPool:
        """Keeps `size` sandboxes warm for this process, and returns when they are."""
        engine = Engine.current()
        engine.call(resize_pool(engine, size))
        return SandboxPool(engine)

    @overload
    def fork(self) -> Sandbox: ...

    @overload
    def fork(self, count: int) -> builtins.list[Sandbox]: ...

    def fork(self, count: int | None = None) -> Sandbox | builtins.list[Sandbox]:
        """Makes a second sandbox (or a list of `count`) with the files of this moment."""
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
