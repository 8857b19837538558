"""Programs in a sandbox: started, streamed with back-pressure, bounded, ended. The core of
`commands` and `pty`; the faces for sync and async callers wrap it.
"""

from __future__ import annotations

import asyncio
import codecs
import contextlib
import signal
import time
from collections.abc import Awaitable, Callable
from typing import TYPE_CHECKING, Any

from paddock.fence.channel import Data, End, Event, Stream
from paddock.model.errors import CommandExitException, InvalidInput, NotFound, SandboxError
from paddock.model.results import CommandResult, ProcessInfo
from paddock.model.spec import text_bytes
from paddock.model.values import dataclass

if TYPE_CHECKING:
    from paddock.doors.machine.box import Box

Deliver = Callable[[Any], Awaitable[None]] | None
TERM_GRACE_S = 1.0
MAX_ARGV_BYTES = 2 << 20  # the kernel's own ceiling for arguments and environment together
MAX_ARGUMENT_BYTES = 128 << 10  # and for one of them


class CommandTimeout(CommandExitException, TimeoutError):
    """A command ran longer than its time-out and was stopped; what it printed is in `result`."""


@dataclass(frozen=True, slots=True)
class Start:
    """What to run and how."""

    argv: list[str]
    cwd: str
    envs: dict[str, str]
    stdin: bool = False
    rows: int | None = None
    cols: int | None = None

    def check(self) -> None:
        words = self.argv
        if not isinstance(words, list | tuple) or not all(isinstance(a, str) for a in words):
            raise InvalidInput(f"command: {words!r} is not a text or a list of texts")
        if not words:
            raise InvalidInput("command: empty; give a program and its arguments")
        sizes = [len(text_bytes(a, "command")) + 1 for a in words]
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

    def __init__(self, box: Box, stream: Stream, deliver: dict[int, Deliver], is_pty: bool) -> None:
        self._box = box
        self._stream = stream
        self._deliver = deliver
        self.is_pty = is_pty
        self.pid = 0
        self.began = time.monotonic()
        self.output = {1: bytearray(), 2: bytearray()}
        self._decoders = {p: codecs.getincrementaldecoder("utf-8")("replace") for p in (1, 2)}
        self._is_binary = is_pty
        self._limit: str | None = None
        self._early: dict[str, Any] | None = None
        self._reader: asyncio.Task[CommandResult] | None = None
        self._feeder: asyncio.Task[None] | None = None

    @classmethod
    async def start(
        cls, box: Box, start: Start, deliver: dict[int, Deliver], *, is_binary: bool = False
    ) -> Running:
        pty = {"rows": start.rows, "cols": start.cols} if start.rows and start.cols else None
        stream = box.channel.open(
            "exec", argv=start.argv, cwd=start.cwd, env=start.envs, stdin=start.stdin, pty=pty
        )
        running = cls(box, stream, deliver, pty is not None)
        running._is_binary = is_binary or pty is not None
        await running._begin(" ".join(start.argv)[:200])
        return running

    def listen(self) -> Running:
        """Reads the program's stream in the background from now on."""
        if self._reader is None:
            self._reader = asyncio.ensure_future(self._read())
            self._reader.add_done_callback(lambda t: t.cancelled() or t.exception())
        return self

    @classmethod
    async def attach(cls, box: Box, pid: int, deliver: dict[int, Deliver]) -> Running:
        running = cls(box, box.channel.open("attach", pid=pid), deliver, False)
        await running._begin(str(pid))
        return running

    async def _begin(self, what: str) -> None:
        try:
            first = await self._stream.next()
        except asyncio.CancelledError:
            self._stream.close()
            raise
        if isinstance(first, End):
            if "exit" in first.value:  # it had ended before we attached
                self.pid = 0
                self._early = first.value
                return
            raise _start_error(first.value, what)
        assert isinstance(first, Event)
        self.pid = first.value.get("pid", 0)

    async def wait(self, timeout_s: float | None = None) -> CommandResult:
        """The ending. Beyond the time-out: SIGTERM, a moment, SIGKILL, and the limit is named."""
        timer = self._stop_after(timeout_s) if timeout_s is not None else None
        try:
            if self._reader is None:  # a foreground command: nobody else listens
                return await self._read()
            return await asyncio.shield(self._reader)
        finally:
            if timer is not None:
                timer.cancel()

    def feed(self, content: bytes) -> None:
        """Sends all of the program's input in the background, then its end."""
        self._feeder = asyncio.ensure_future(self._feed(content))

    async def _feed(self, content: bytes) -> None:
        with contextlib.suppress(SandboxError):  # it ended without reading: that is its right
            await self._stream.send(content)
            self.close_stdin()

    async def send_stdin(self, data: bytes) -> None:
        await self._stream.send(data)

    def close_stdin(self) -> None:
        self._stream.send_eof()

    def signal(self, number: int) -> None:
        self._stream.call("signal", signal=int(number))

    def resize(self, rows: int, cols: int) -> None:
        self._stream.call("resize", rows=rows, cols=cols)

    def disconnect(self) -> None:
        """Stops listening; the program goes on, and its output is dropped."""
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
                if isinstance(item, End):
                    return await self._result(item.value)
                if isinstance(item, Data):
                    await self._take(item)
        except BaseException:
            if self._reader is None:  # a foreground command that nobody waits for any more
                with contextlib.suppress(SandboxError):
                    self.signal(signal.SIGKILL)
            raise
        finally:
            self._stream.close()

    async def _take(self, item: Data) -> None:
        if item.port not in self.output:
            return
        kept = self.output[item.port]
        room = self._box.spec.limits.output - len(self.output[1]) - len(self.output[2])
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
            raise _start_error(ending, "stdin")
        hit = await self._box.limits_hit(ending)
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
    """The result of a foreground command; anything but success raises."""
    if result.killed_by == "timeout":
        raise CommandTimeout(result)
    if result.exit_code != 0 or result.killed_by == "output":
        raise CommandExitException(result)
    return result


async def running_processes(box: Box) -> list[ProcessInfo]:
    answer = await box.channel.ask("processes")
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


async def send_signal(box: Box, pid: int, number: int) -> bool:
    return bool((await box.channel.ask("signal", pid=pid, signal=int(number))).get("found"))


def _start_error(value: dict[str, Any], what: str) -> SandboxError:
    error = value.get("error", {})
    what = what.removeprefix("@shell -c ")
    place = error.get("path") or what
    if error.get("errno") == 3:
        return NotFound(f"no process {place} was started through this API, or it ended long ago")
    return SandboxError(
        f"cannot run {what!r}: {place}: {error.get('message', 'unknown reason')}",
        hint="the working directory or the program is not there"
        if error.get("errno") == 2
        else None,
    )
