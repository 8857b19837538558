"""Any program on loopback as a stand-in. Its state is a directory.

When the program is ready for the first time it is frozen and its files are copied: the copy is what
`reset` returns to and what changes are counted from.
"""

from __future__ import annotations

import asyncio
import contextlib
import shutil
import socket
import time
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any, ClassVar

from paddock.fence.offload import offload
from paddock.model.errors import InvalidInput
from paddock.world.changes import DocumentChange
from paddock.world.context import Context
from paddock.world.pen.launch import PenLimits, PenProgram, own_directory
from paddock.world.pen.log import last_lines
from paddock.world.pen.mounts import PenMounts
from paddock.world.pen.options import PEN_OPTIONS, environment, memory, reads, ready_seconds
from paddock.world.pen.pen import Pen
from paddock.world.service import LocalService, Seed, Service, StandInFailed
from paddock.world.services.command import state

_MAX_HEAD = 4096


class Command(LocalService):
    """`{service: command, run: [python3, fake.py], port: 9000}`"""

    name = "command"
    is_rewindable = False
    options: ClassVar = {
        "run": "the program and its arguments",
        "port": "where it listens on 127.0.0.1",
        "cwd": "a directory of the project to run in",
        "ready": "a path that it answers well when it is ready; without it the port will do",
        "tcp": "true when it does not speak HTTP",
        "state": "a directory of the project whose files its state begins with",
        **PEN_OPTIONS,
    }

    def __init__(self, context: Context) -> None:
        super().__init__(context)
        self.is_http = context.options.get("tcp") is not True  # type: ignore[misc]
        self._pen: Pen | None = None
        self._start_lock = asyncio.Lock()
        self._is_ready = False

    def check(self) -> None:
        options = self.context.options
        run, port, ready = options.get("run"), options.get("port"), options.get("ready")
        if not isinstance(run, list) or not run or not all(isinstance(word, str) for word in run):
            raise InvalidInput("run: expected a list of words, as [python3, fake.py]")
        if isinstance(port, bool) or not isinstance(port, int) or not 0 < port < 65536:
            raise InvalidInput("port: expected the number where the program listens on 127.0.0.1")
        if not isinstance(options.get("tcp", False), bool):
            raise InvalidInput("tcp: expected true or false")
        if ready is not None and not _is_path(ready):
            raise InvalidInput("ready: expected a path, as /health")
        if ready is not None and not self.is_http:
            raise InvalidInput("ready: only a program that speaks HTTP has paths")
        if "state" in options and not self.context.path(str(options["state"])).is_dir():
            raise InvalidInput(f"state: {options['state']} is no directory")
        self.program()

    async def connect(self) -> socket.socket:
        async with self._start_lock:
            if self._pen is None:
                self._pen = Pen(self.program(), self.context.directory)
            if not self._pen.is_running or not self._is_ready:
                await self._start(self._pen)
        return await self._pen.connect()

    async def stuck(self) -> None:
        """End the process, so that the next connection starts it again."""
        await self.close()

    async def close(self) -> None:
        self._is_ready = False
        if self._pen is not None:
            await self._pen.end()

    async def reset(self) -> None:
        """End the program, and restore its files to what they were when it was first ready."""
        await self.close()
        self._pen = None
        if self._pristine.exists():
            await offload(state.replace, self._pristine, self._state)
        else:
            await offload(self._copy_initial)

    async def copy_from(self, parent: Service) -> None:
        """Copy the parent's files while it is frozen."""
        assert isinstance(parent, Command)
        async with parent._frozen():
            await offload(state.replace, parent._state, self._state)
            if parent._pristine.exists():
                await offload(state.replace, parent._pristine, self._pristine)

    def seed(self, data: Seed) -> None:
        if data:
            raise InvalidInput(
                "seed: a command has no documents; `state` names files to begin with"
            )

    def extra_digest(self) -> str:
        """Return the digest of the files. As long as they are unchanged, it is the same whether the
        program was started or not."""
        now = state.digest(self._state)
        if self._pristine.exists() and now != state.digest(self._pristine):
            return now
        return "" if self._initial is None else state.digest(self._initial)

    def extra_changes(self) -> list[DocumentChange]:
        if not self._pristine.exists():
            return []
        return state.changes(self._pristine, self._state)

    def show(self) -> dict[str, Any]:
        files = dict(list(state.entries(self._state).items())[:100])
        return {"files": files, "said": last_lines(self.context.directory)}

    def program(self) -> PenProgram:
        options = self.context.options
        project = self.context.project.absolute()
        cwd = (project / str(options.get("cwd", "."))).resolve()
        if not cwd.is_relative_to(project.resolve()):
            raise InvalidInput(f"cwd: {cwd} is outside the project")
        return PenProgram(
            argv=tuple(options["run"]),
            mounts=PenMounts(own_directory(self.context.directory), project, reads(self.context)),
            env=environment(self.context),
            cwd=str(cwd),
            limits=PenLimits(memory_bytes=memory(self.context)),
            port=int(options["port"]),
            ready_s=ready_seconds(self.context),
        )

    async def _start(self, pen: Pen) -> None:
        if not self._state.exists():
            await offload(self._copy_initial)
        (await pen.connect()).close()
        ready = self.context.options.get("ready")
        if ready is not None:
            await self._wait_until_ready(pen, str(ready))
        if not self._pristine.exists():
            async with pen.frozen():
                await offload(state.replace, self._state, self._pristine)
        self._is_ready = True

    async def _wait_until_ready(self, pen: Pen, path: str) -> None:
        deadline = time.monotonic() + pen.program.ready_s
        while (left_s := deadline - time.monotonic()) > 0:
            with contextlib.suppress(TimeoutError, OSError, ValueError):
                async with asyncio.timeout(left_s):
                    if await _get_status(await pen.connect(), path, self.context.host) < 400:
                        return
            await asyncio.sleep(0.05)
        await pen.end()
        raise StandInFailed(f"{path} was not answered well within {pen.program.ready_s:g} s")

    def _copy_initial(self) -> None:
        state.clear(self._state)
        if self._initial is not None:
            self._state.rmdir()
            shutil.copytree(self._initial, self._state, symlinks=True)

    @contextlib.asynccontextmanager
    async def _frozen(self) -> AsyncIterator[None]:
        async with self._start_lock:
            if self._pen is None:
                yield
                return
            async with self._pen.frozen():
                yield

    @property
    def _state(self) -> Path:
        return own_directory(self.context.directory) / "state"

    @property
    def _initial(self) -> Path | None:
        path = self.context.options.get("state")
        return None if path is None else self.context.path(str(path))

    @property
    def _pristine(self) -> Path:
        return self.context.directory / "pristine"


def _is_path(text: Any) -> bool:
    return isinstance(text, str) and text.startswith("/") and text.isprintable() and " " not in text


async def _get_status(connection: socket.socket, path: str, host: str) -> int:
    """Send a GET, close the connection, and return the status of the answer."""
    loop = asyncio.get_running_loop()
    with connection:
        head = f"GET {path} HTTP/1.1\r\nHost: {host}\r\nConnection: close\r\n\r\n"
        await loop.sock_sendall(connection, head.encode())
        answer = b""
        while b"\r\n" not in answer and len(answer) < _MAX_HEAD:
            part = await loop.sock_recv(connection, _MAX_HEAD)
            if not part:
                break
            answer += part
    if not answer.startswith(b"HTTP/1."):
        return 599
    return int(answer.split(b" ", 2)[1])
