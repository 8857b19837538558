"""Any program on loopback as a stand-in. Its state is a directory."""

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
from paddock.world.pen.log import said_in
from paddock.world.pen.mounts import PenMounts
from paddock.world.pen.options import PEN_OPTIONS, environment, memory, reads, seconds
from paddock.world.pen.pen import Pen
from paddock.world.service import LocalService, Seed, Service, StandInFailed
from paddock.world.services.command import state

_MAX_HEAD = 4096
_READY_S = 10.0


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
        self._beginning = asyncio.Lock()
        self._is_ready = False

    def check(self) -> None:
        options = self.context.options
        run, port, ready = options.get("run"), options.get("port"), options.get("ready")
        if not isinstance(run, list) or not run or not all(isinstance(w, str) for w in run):
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
        self.kept()

    async def connect(self) -> socket.socket:
        async with self._beginning:
            if self._pen is None:
                self._pen = Pen(self.kept(), self.context.directory)
            if not self._pen.is_running or not self._is_ready:
                await self._begin(self._pen)
        return await self._pen.connect()

    async def stuck(self) -> None:
        """It gave no answer in time: the next call starts it anew."""
        await self.close()

    async def close(self) -> None:
        self._is_ready = False
        if self._pen is not None:
            await self._pen.end()

    async def reset(self) -> None:
        """The program ends, and its files are as they were when it was ready for the first time."""
        await self.close()
        self._pen = None
        if self._pristine.exists():
            await offload(state.replace, self._pristine, self._state)
        else:
            await offload(self._fill)

    async def copy_from(self, parent: Service) -> None:
        """The parent stands still while its files are copied."""
        assert isinstance(parent, Command)
        async with parent._held_still():
            await offload(state.replace, parent._state, self._state)
            if parent._pristine.exists():
                await offload(state.replace, parent._pristine, self._pristine)

    def seed(self, data: Seed) -> None:
        if data:
            raise InvalidInput(
                "seed: a command has no documents; `state` names files to begin with"
            )

    def extra_digest(self) -> str:
        """As long as it is as it began, it does not matter whether it was started at all."""
        now = state.digest(self._state)
        if self._pristine.exists() and now != state.digest(self._pristine):
            return now
        return "" if self._begin_with is None else state.digest(self._begin_with)

    def extra_changes(self) -> list[DocumentChange]:
        return state.changes(self._pristine, self._state) if self._pristine.exists() else []

    def show(self) -> dict[str, Any]:
        files = dict(list(state.entries(self._state).items())[:100])
        return {"files": files, "said": said_in(self.context.directory)}

    def kept(self) -> PenProgram:
        """What is started, and what it sees."""
        options = self.context.options
        project = self.context.project.absolute()
        cwd = (project / str(options.get("cwd", "."))).resolve()
        if not cwd.is_relative_to(project.resolve()):
            raise InvalidInput(f"cwd: {cwd} is outside the project")
        return PenProgram(
            words=tuple(options["run"]),
            walls=PenMounts(own_directory(self.context.directory), project, reads(self.context)),
            env=environment(self.context),
            cwd=str(cwd),
            limits=PenLimits(memory_bytes=memory(self.context)),
            port=int(options["port"]),
            ready_s=seconds(self.context, "ready_s", _READY_S),
        )

    async def _begin(self, pen: Pen) -> None:
        if not self._state.exists():
            await offload(self._fill)
        (await pen.connect()).close()
        ready = self.context.options.get("ready")
        if ready is not None:
            await self._wait_for(pen, str(ready))
        if not self._pristine.exists():
            async with pen.held_still():
                await offload(state.replace, self._state, self._pristine)
        self._is_ready = True

    async def _wait_for(self, pen: Pen, path: str) -> None:
        deadline = time.monotonic() + pen.kept.ready_s
        while (left_s := deadline - time.monotonic()) > 0:
            with contextlib.suppress(TimeoutError, OSError, ValueError):
                async with asyncio.timeout(left_s):
                    if await _status(await pen.connect(), path, self.context.host) < 400:
                        return
            await asyncio.sleep(0.05)
        await pen.end()
        raise StandInFailed(f"{path} was not answered well within {pen.kept.ready_s:g} s")

    def _fill(self) -> None:
        state.clear(self._state)
        if self._begin_with is not None:
            self._state.rmdir()
            shutil.copytree(self._begin_with, self._state, symlinks=True)

    @contextlib.asynccontextmanager
    async def _held_still(self) -> AsyncIterator[None]:
        async with self._beginning:
            if self._pen is None:
                yield
                return
            async with self._pen.held_still():
                yield

    @property
    def _state(self) -> Path:
        return own_directory(self.context.directory) / "state"

    @property
    def _begin_with(self) -> Path | None:
        named = self.context.options.get("state")
        return None if named is None else self.context.path(str(named))

    @property
    def _pristine(self) -> Path:
        return self.context.directory / "pristine"


def _is_path(text: Any) -> bool:
    return isinstance(text, str) and text.startswith("/") and text.isprintable() and " " not in text


async def _status(caller: socket.socket, path: str, host: str) -> int:
    """Of a GET, over a connection of its own."""
    loop = asyncio.get_running_loop()
    with caller:
        head = f"GET {path} HTTP/1.1\r\nHost: {host}\r\nConnection: close\r\n\r\n"
        await loop.sock_sendall(caller, head.encode())
        answer = b""
        while b"\r\n" not in answer and len(answer) < _MAX_HEAD:
            part = await loop.sock_recv(caller, _MAX_HEAD)
            if not part:
                break
            answer += part
    return int(answer.split(b" ", 2)[1]) if answer.startswith(b"HTTP/1.") else 599
