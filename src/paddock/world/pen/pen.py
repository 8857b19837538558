"""A process in a pen: started at the first connection, started again after it has died, and ended
with the world."""

from __future__ import annotations

import asyncio
import contextlib
import os
import socket
import subprocess
import time
from collections import deque
from collections.abc import AsyncIterator
from pathlib import Path

from paddock.model.errors import PaddockError
from paddock.world.pen.launch import LISTENER, READY, PenProgram, spawn
from paddock.world.pen.log import LOG, PenLog, read_log
from paddock.world.pen.sockets import (
    MAX_REPORT,
    close_all,
    connect,
    readable,
    short_name,
    socket_of,
    wait_for_end,
)
from paddock.world.service import StandInFailed

_MAX_STARTS, _STARTS_S = 4, 60.0  # the first one, and three more within a minute
_WARDEN_S = 6.0  # for its answer
_RETRY_S = 0.03
_BACKLOG = 128
_QUOTED_LINES = 5


class Pen:
    """One process. It belongs to the event loop that first connects."""

    def __init__(self, program: PenProgram, directory: Path) -> None:
        self.program = program
        self._directory = directory
        self._process: subprocess.Popen[bytes] | None = None
        self._control: socket.socket | None = None
        self._log: PenLog | None = None
        self._start_lock = asyncio.Lock()
        self._command_lock = asyncio.Lock()
        self._starts: deque[float] = deque(maxlen=_MAX_STARTS)

    @property
    def is_running(self) -> bool:
        return self._process is not None and self._process.poll() is None

    async def connect(self) -> socket.socket:
        """Return a new connection to the process. Raises StandInFailed."""
        async with self._start_lock:
            if not self.is_running:
                await self._start()
        try:
            return await self._open()
        except (ConnectionRefusedError, FileNotFoundError, EOFError):
            pass  # it has just died; `_start` limits how often it is started again
        async with self._start_lock:
            await self._end()
            await self._start()
        try:
            return await self._open()
        except (OSError, EOFError) as error:
            raise StandInFailed(f"it takes no connections: {error}") from error

    async def end(self) -> None:
        """Kill the process and everything that it started."""
        async with self._start_lock:
            await self._end()

    async def finish(self) -> None:
        """Ask the process to end, and then kill it."""
        with contextlib.suppress(StandInFailed, OSError, EOFError):
            if self.is_running:
                await self._command(b"end", timeout_s=10.0)
        await self.end()

    @contextlib.asynccontextmanager
    async def frozen(self) -> AsyncIterator[None]:
        """Stop all processes in the pen meanwhile, so that its files can be copied."""
        async with self._start_lock:
            if not self.is_running:
                yield
                return
            try:
                with contextlib.suppress(EOFError):  # it has died
                    if (await self._command(b"stop"))[0] != b"done":
                        raise StandInFailed("it cannot be made to stand still")
                yield
            finally:
                with contextlib.suppress(EOFError, OSError, StandInFailed):
                    await self._command(b"go")

    def output(self) -> str:
        """Return the last part of stdout and stderr."""
        return read_log(self._log_path)

    async def _start(self) -> None:
        self._count_start()
        await self._end()
        try:
            await self._spawn()
        except PaddockError as error:
            raise StandInFailed(f"it could not be started: {error.message}") from error
        except OSError as error:
            raise StandInFailed(f"it could not be started: {error}") from error
        except BaseException:
            await self._end()
            raise

    def _count_start(self) -> None:
        now = time.monotonic()
        if len(self._starts) == _MAX_STARTS and now - self._starts[0] < _STARTS_S:
            raise StandInFailed(f"it ended too often within a minute{self._quote_output()}")
        self._starts.append(now)

    async def _spawn(self) -> None:
        deadline = time.monotonic() + self.program.ready_s
        self._directory.mkdir(parents=True, exist_ok=True)
        ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        ours.setblocking(False)
        reading, writing = os.pipe()
        report, reports = os.pipe()
        self._control = ours
        self._log = PenLog(reading, self._log_path)
        with contextlib.ExitStack() as stack:  # closes the pen's ends, also after a failure
            stack.callback(theirs.close)
            stack.callback(os.close, writing)
            stack.callback(os.close, reports)
            fds = {READY: reports}
            if self.program.port is None:
                fds[LISTENER] = stack.enter_context(self._listener()).fileno()
            try:
                self._process = spawn(self.program, theirs.fileno(), writing, fds)
            except BaseException:
                os.close(report)
                raise
        try:
            await self._become_ready(report, deadline)
        finally:
            os.close(report)

    async def _become_ready(self, report: int, deadline: float) -> None:
        left_s = max(0.1, deadline - time.monotonic())
        try:
            async with asyncio.timeout(left_s):
                if self.program.port is None:
                    await self._wait_for_report(report)
                else:
                    await self._wait_for_port()
        except TimeoutError:
            reason = f"it was not ready within {self.program.ready_s:g} s{self._quote_output()}"
            await self._end()
            raise StandInFailed(reason) from None
        except (EOFError, StandInFailed) as error:
            await asyncio.sleep(_RETRY_S)  # its last output may not have arrived yet
            reason = str(error) or f"it ended before it was ready{self._quote_output()}"
            await self._end()
            raise StandInFailed(reason) from None

    async def _wait_for_report(self, report: int) -> None:
        """Wait until the process reports that it accepts connections."""
        os.set_blocking(report, False)
        await readable(report)
        text = os.read(report, MAX_REPORT).decode("utf-8", "replace")
        if not text:
            raise EOFError
        if text != "ready":
            raise StandInFailed(text)

    async def _wait_for_port(self) -> None:
        while True:
            try:
                (await self._connect_by_warden()).close()
                return
            except ConnectionRefusedError:
                await asyncio.sleep(_RETRY_S)

    async def _open(self) -> socket.socket:
        if self.program.port is not None:
            return await self._connect_by_warden()
        return connect(self._directory)

    async def _connect_by_warden(self) -> socket.socket:
        message, fds = await self._command(b"connect")
        if message != b"ok" or len(fds) != 1:
            close_all(fds)
            raise ConnectionRefusedError(message.decode("utf-8", "replace") or "no answer")
        return socket_of(fds[0])

    async def _command(
        self, command: bytes, timeout_s: float = _WARDEN_S
    ) -> tuple[bytes, list[int]]:
        """Send a command to the warden and return its answer. Raises EOFError when it has died, and
        StandInFailed when it does not answer."""
        async with self._command_lock:
            control = self._control
            if control is None:
                raise EOFError
            try:
                async with asyncio.timeout(timeout_s):
                    control.send(command)
                    await readable(control.fileno())
                    message, fds, _, _ = socket.recv_fds(control, MAX_REPORT, 4)
            except (BrokenPipeError, ConnectionResetError):
                raise EOFError from None
            except (TimeoutError, BlockingIOError):
                raise StandInFailed("it cannot be reached in its pen") from None
            if not message:
                raise EOFError
            return message, fds

    def _listener(self) -> socket.socket:
        path = self._directory / "socket"
        path.unlink(missing_ok=True)
        listener = socket.socket(socket.AF_UNIX)
        try:
            with short_name(self._directory) as directory:
                listener.bind(f"{directory}/socket")
            path.chmod(0o600)
            listener.listen(_BACKLOG)
        except BaseException:
            listener.close()
            raise
        return listener

    async def _end(self) -> None:
        process, self._process = self._process, None
        control, self._control = self._control, None
        log, self._log = self._log, None
        if process is not None:
            if process.poll() is None:
                process.kill()
            await wait_for_end(process, control)
        if control is not None:
            control.close()
        if log is not None:
            log.close()
        with contextlib.suppress(OSError):
            (self._directory / "socket").unlink(missing_ok=True)

    @property
    def _log_path(self) -> Path:
        return self._directory / LOG

    def _quote_output(self) -> str:
        if self._log is not None:
            self._log.copy()
        lines = [line for line in self.output().splitlines() if line.strip()][-_QUOTED_LINES:]
        if not lines:
            return ""
        return "; it said: " + " | ".join(line[:300] for line in lines)
