"""Programs in a sandbox: started, streamed with back-pressure, bounded, ended. The core of the
commands and terminals that callers run.
"""

from __future__ import annotations

import asyncio
import codecs
import contextlib
import errno
import signal
import time
from collections.abc import Awaitable, Callable
from typing import Any

import msgspec

from paddock.doors.machine.guest import Guest
from paddock.fence.channel import GuestStream, StreamData, StreamEnd, StreamEvent
from paddock.model.errors import (
    CommandExitException,
    CommandNotStarted,
    Conflict,
    InvalidInput,
    NotFound,
    SandboxError,
)
from paddock.model.results import CommandResult, ProcessInfo
from paddock.model.spec import text_bytes

Deliver = Callable[[Any], Awaitable[None]] | None
TERM_GRACE_S = 1.0
MAX_ARGV_BYTES = 2 << 20  # the kernel's own ceiling for arguments and environment together
MAX_ARGUMENT_BYTES = 128 << 10  # and for one of them


class CommandTimeout(CommandExitException, TimeoutError):
    """A command ran longer than its time-out and was stopped; what it printed is in `result`."""


class Start(msgspec.Struct, frozen=True):
    """A program to start, and how."""

    argv: list[str]
    cwd: str
    envs: dict[str, str]
    stdin: bool = False
    rows: int | None = None
    cols: int | None = None
    timeout_s: float | None = None  # kept by the guest, whoever listens

    def check(self) -> None:
        argv = self.argv
        if not isinstance(argv, list | tuple) or not all(isinstance(a, str) for a in argv):
            raise InvalidInput(f"command: {argv!r} is not a text or a list of texts")
        if not argv:
            raise InvalidInput("command: empty; give a program and its arguments")
        sizes = [len(text_bytes(a, "command")) + 1 for a in argv]
        sizes += [
            len(k) + len(v.encode("utf-8", "surrogateescape")) + 2 for k, v in self.envs.items()
        ]
        if any("\0" in a for a in self.argv):
            raise InvalidInput("command: contains a NUL byte")
        if max(sizes) > MAX_ARGUMENT_BYTES or sum(sizes) > MAX_ARGV_BYTES:
            raise InvalidInput(
                f"command: {sum(sizes)} bytes of arguments; Linux takes {MAX_ARGUMENT_BYTES} for"
                f" one and {MAX_ARGV_BYTES} for all",
                hint="write the input to a file with files.write, or send it by stdin",
            )


class Running:
    """One attached program. Reads its stream in a task of its own from start to end."""

    def __init__(
        self, guest: Guest, stream: GuestStream, deliver: dict[int, Deliver], is_pty: bool
    ) -> None:
        self._guest = guest
        self._stream = stream
        self._deliver = deliver
        self.is_pty = is_pty
        self.pid = 0
        self.began = time.monotonic()
        self._has_stdin = False
        self._is_disconnected = False
        self.output = {1: bytearray(), 2: bytearray()}
        self._decoders = {p: codecs.getincrementaldecoder("utf-8")("replace") for p in (1, 2)}
        self._is_binary = is_pty
        self._limit: str | None = None
        self._early: dict[str, Any] | None = None
        self._reader: asyncio.Task[CommandResult] | None = None
        self._feeder: asyncio.Task[None] | None = None

    @classmethod
    async def start(
        cls, guest: Guest, start: Start, deliver: dict[int, Deliver], *, is_binary: bool = False
    ) -> Running:
        pty = {"rows": start.rows, "cols": start.cols} if start.rows and start.cols else None
        stream = guest.channel.open(
            "exec",
            argv=start.argv,
            cwd=start.cwd,
            env=start.envs,
            stdin=start.stdin,
            pty=pty,
            timeout=start.timeout_s,
        )
        running = cls(guest, stream, deliver, pty is not None)
        running._is_binary = is_binary or pty is not None
        refusal = await running._begin()
        if refusal is not None:
            program = "the shell" if start.argv[0] == "@shell" else start.argv[0]
            raise start_error(refusal, program)
        return running

    def listen(self) -> Running:
        """Read the program's stream in the background from now on."""
        if self._reader is None:
            self._reader = asyncio.ensure_future(self._read())
            self._reader.add_done_callback(lambda t: t.cancelled() or t.exception())
        return self

    @classmethod
    async def attach(cls, guest: Guest, pid: int, deliver: dict[int, Deliver]) -> Running:
        running = cls(guest, guest.channel.open("attach", pid=pid), deliver, False)
        running.pid = pid
        refusal = await running._begin()
        if refusal is not None:
            raise NotFound(f"no process {pid} was started through this API, or it ended long ago")
        return running

    async def _begin(self) -> dict[str, Any] | None:
        """Wait until the program runs; return the guest's refusal if it cannot."""
        try:
            first = await self._stream.next()
        except asyncio.CancelledError:
            self._stream.close()
            raise
        if isinstance(first, StreamEnd):
            if "exit" in first.value:  # it had ended before we attached
                self._early = first.value
                return None
            return first.value
        assert isinstance(first, StreamEvent)
        self.pid = first.value.get("pid", 0)
        self._has_stdin = bool(first.value.get("stdin"))
        return None

    async def wait(self, timeout_s: float | None = None) -> CommandResult:
        """Wait for the end. After the time-out: SIGTERM, a moment, SIGKILL; the result says so."""
        timer = self._stop_after(timeout_s) if timeout_s is not None else None
        try:
            if self._reader is None:  # a foreground command: nobody else listens
                return await self._read()
            return await asyncio.shield(self._reader)
        finally:
            if timer is not None:
                timer.cancel()

    def feed(self, content: bytes) -> None:
        """Send all of the program's input in the background, then its end."""
        self._feeder = asyncio.ensure_future(self._feed(content))

    async def _feed(self, content: bytes) -> None:
        with contextlib.suppress(SandboxError):  # it ended without reading: that is its right
            await self._stream.send(content)
            self._stream.send_eof()

    async def send_stdin(self, data: bytes) -> None:
        """Send input. Raises unless all of it is on its way to a program that can read it."""
        _ = self._guest.channel  # of a paused or ended sandbox nobody reads
        self._check_stdin()
        self._check_running()
        await self._stream.send(data)
        self._check_running()

    def close_stdin(self) -> None:
        self._check_stdin()
        self._stream.send_eof()

    def _check_stdin(self) -> None:
        if self._is_disconnected:
            raise Conflict(
                "this handle was disconnected", hint=f"commands.connect({self.pid}) gives another"
            )
        if not self._has_stdin and self._early is None:
            raise InvalidInput(
                f"process {self.pid} was started without an input",
                hint="start it with commands.run(..., background=True, stdin=True)",
            )

    def _check_running(self) -> None:
        if self._early is not None or self._stream.is_ended:
            raise NotFound(f"process {self.pid} has ended; nothing reads its input")

    def signal(self, number: int) -> None:
        self._stream.call("signal", signal=int(number))

    def resize(self, rows: int, cols: int) -> None:
        self._stream.call("resize", rows=rows, cols=cols)

    def disconnect(self) -> None:
        """Stop listening; the program goes on, and its output is dropped."""
        self._is_disconnected = True
        if self._reader is not None:
            self._reader.cancel()
        self._stream.close()

    def text(self, port: int) -> str:
        return self.output[port].decode("utf-8", "replace")

    async def _read(self) -> CommandResult:
        if self._early is not None:
            return await self._result(self._early)
        try:
            while True:
                item = await self._stream.next()
                if isinstance(item, StreamEnd):
                    return await self._result(item.value)
                if isinstance(item, StreamData):
                    await self._take(item)
        except BaseException:
            if self._reader is None:  # a foreground command that nobody waits for any more
                with contextlib.suppress(SandboxError):
                    self.signal(signal.SIGKILL)
            raise
        finally:
            self._stream.close()

    async def _take(self, item: StreamData) -> None:
        if item.port not in self.output:
            return
        kept = self.output[item.port]
        room = self._guest.spec.limits.output - len(self.output[1]) - len(self.output[2])
        content = item.content
        if not self.is_pty:  # a terminal's stream is for its listener, not for keeping
            content = item.content[: max(room, 0)]
            kept += content
        deliver = self._deliver.get(item.port)
        if deliver is not None and content:
            value = bytes(content) if self._is_binary else self._decoders[item.port].decode(content)
            await deliver(value)
        if len(content) < len(item.content) and self._limit is None:
            self._limit = "output"
            self.signal(signal.SIGKILL)

    def _stop_after(self, delay_s: float) -> asyncio.TimerHandle:
        def stop() -> None:
            self._limit = self._limit or "timeout"
            with contextlib.suppress(SandboxError):
                self._stream.call("stop", grace=TERM_GRACE_S)

        return asyncio.get_running_loop().call_later(delay_s, stop)

    async def _result(self, ending: dict[str, Any]) -> CommandResult:
        if "error" in ending:
            raise SandboxError(f"process {self.pid}: {_error_in(ending).get('message')}")
        hit = await self._guest.limits_hit(ending)
        exit_code = int(ending.get("exit", -1))
        killed_by = self._limit or ending.get("killed_by")
        if killed_by is None and exit_code != 0 and hit:
            killed_by = hit[0]
        out, err = bytes(self.output[1]), bytes(self.output[2])
        return CommandResult(
            stdout=out.decode("utf-8", "replace"),
            stderr=err.decode("utf-8", "replace"),
            exit_code=exit_code,
            duration_s=float(ending.get("duration", time.monotonic() - self.began)),
            killed_by=killed_by,
            limits_hit=tuple(dict.fromkeys([*([killed_by] if killed_by else []), *hit])),
            error=f"stopped by the {killed_by} limit" if killed_by else None,
            stdout_bytes=out,
            stderr_bytes=err,
        )


def checked(result: CommandResult) -> CommandResult:
    """Return the result of a foreground command; anything but success raises."""
    if result.killed_by == "timeout":
        raise CommandTimeout(result)
    if result.exit_code != 0 or result.killed_by == "output":
        raise CommandExitException(result)
    return result


async def running_processes(guest: Guest) -> list[ProcessInfo]:
    answer = await guest.channel.ask("processes")
    now = time.time()
    return [
        ProcessInfo(
            pid=p["pid"],
            cmd=p["argv"][0],
            args=tuple(p["argv"][1:]),
            cwd=p["cwd"],
            is_pty=p["pty"],
            started_at=now - p["age"],
        )
        for p in answer["processes"]
    ]


async def send_signal(guest: Guest, pid: int, number: int) -> bool:
    return bool((await guest.channel.ask("signal", pid=pid, signal=int(number))).get("found"))


def start_error(ending: dict[str, Any], program: str) -> CommandNotStarted:
    """Return the error that says why the guest could not start a program."""
    error = _error_in(ending)
    path, number = str(error.get("path") or program), error.get("errno")
    code = errno.errorcode.get(number, "EIO") if isinstance(number, int) else "EIO"
    reason = str(error.get("message") or "unknown reason")
    exit_code, hint = 126, None
    match error.get("cause"), number:
        case "directory", _:
            why = f"its working directory {path}: {reason}"
            hint = "make it first, or give another working directory"
        case "interpreter", _:
            why = f"{path} is there, but the interpreter that its first line names is not"
        case "program", errno.ENOENT:
            why, exit_code = "there is no such program in the sandbox", 127
            hint = "check its name, and the PATH that programs have inside"
        case "program", errno.EACCES:
            why = f"it is not executable: {reason}"
            hint = "give it the right with chmod +x, or name its interpreter"
        case "program", errno.ENOEXEC:
            why = f"it is no program: {reason}"
            hint = "a script begins with a line such as #!/bin/sh"
        case _:
            why = reason
    return CommandNotStarted(
        why, program=program, path=path, code=code, exit_code=exit_code, hint=hint
    )


def _error_in(ending: dict[str, Any]) -> dict[str, Any]:
    """Return what the guest says went wrong; it may say anything."""
    error = ending.get("error")
    return error if isinstance(error, dict) else {}
