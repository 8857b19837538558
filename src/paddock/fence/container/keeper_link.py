"""The host process's side of its keeper: start it, ask it, hear of sandboxes that ended."""

from __future__ import annotations

import asyncio
import contextlib
import os
import socket
import subprocess
from collections.abc import Callable
from typing import Any

from paddock.fence.container.keeper_protocol import FIRST, MAX_MESSAGE
from paddock.fence.container.keeper_start import keeper_for
from paddock.fence.guest import wire
from paddock.model.errors import HostCannot
from paddock.state.home import Home
from paddock.state.layers.layers import BtrfsLayers, Layers, PlainLayers


class KeeperLink:
    """A running keeper. All methods are called from the engine's loop."""

    def __init__(self, sock: socket.socket, process: subprocess.Popen[bytes]) -> None:
        self._sock = sock
        self._process = process
        self._number = FIRST
        self._waiting: dict[int, asyncio.Future[tuple[dict[str, Any], list[int]]]] = {}
        self._on_exit: dict[str, Callable[[], None]] = {}
        self._lost: str | None = None
        self.layers: Layers
        self.why_plain = ""

    @classmethod
    async def start(cls, home: Home) -> KeeperLink:
        """Starts the keeper and waits until it has swept and has its layers ready."""
        ours, process = keeper_for(os.fspath(home.root.absolute()))  # a vfork; nothing to wait for
        link = cls(ours, process)
        loop = asyncio.get_running_loop()
        first = link._waiting[FIRST] = loop.create_future()
        loop.add_reader(ours.fileno(), link._on_readable)
        answer, fds = await first
        link.layers = BtrfsLayers(fds[0]) if fds else PlainLayers(home.layers)
        link.why_plain = answer["why_plain"]
        return link

    async def ask(self, op: str, *, fds: list[int] | None = None, **values: Any) -> dict[str, Any]:
        answer, _ = await self._ask({"op": op, **values}, fds)
        if "error" in answer:
            raise HostCannot(f"the sandbox could not be {op}ed: {answer['error']}")
        return answer

    def when_exited(self, sandbox_id: str, callback: Callable[[], None]) -> None:
        self._on_exit[sandbox_id] = callback

    def forget(self, sandbox_id: str) -> None:
        self._on_exit.pop(sandbox_id, None)

    @property
    def is_lost(self) -> bool:
        return self._lost is not None

    def close_in_child(self) -> None:
        """Close the socket in a forked child, or the keeper would never see its host end."""
        self._sock.close()

    def close(self, *, is_waiting: bool = True) -> None:
        """Hangs up; the keeper ends what is left, and then itself."""
        if not self.is_lost:
            asyncio.get_running_loop().remove_reader(self._sock.fileno())
            self._sock.close()
        if not is_waiting:
            self._process.returncode = 0  # nobody is left to reap it, and it is not ours to mourn
            return
        with contextlib.suppress(subprocess.TimeoutExpired):
            self._process.wait(timeout=10)

    async def _ask(
        self, message: dict[str, Any], fds: list[int] | None = None
    ) -> tuple[dict[str, Any], list[int]]:
        if self._lost:
            raise HostCannot(self._lost)
        self._number += 1
        data: bytes = wire.pack({"number": self._number, **message})  # type: ignore[no-untyped-call]
        future: asyncio.Future[tuple[dict[str, Any], list[int]]]
        future = asyncio.get_running_loop().create_future()
        self._waiting[self._number] = future
        await self._send(data, fds or [])
        return await future

    async def _send(self, data: bytes, fds: list[int]) -> None:
        while True:
            try:
                socket.send_fds(self._sock, [data], fds)
                return
            except BlockingIOError:
                await asyncio.sleep(0.001)  # a hundred at once fill the socket's queue
            except OSError as error:
                raise HostCannot(f"the keeper is gone: {error.strerror}") from None

    def _on_readable(self) -> None:
        try:
            data, fds, _, _ = socket.recv_fds(self._sock, MAX_MESSAGE, 4)
        except BlockingIOError:
            return
        except OSError:
            data, fds = b"", []
        if not data:
            self._lose()
            return
        message: dict[str, Any] = wire.unpack_map(data)  # type: ignore[no-untyped-call]
        if "exited" in message:
            callback = self._on_exit.pop(message["exited"], None)
            if callback is not None:
                callback()
            return
        future = self._waiting.pop(message["number"], None)
        if future is not None and not future.done():
            future.set_result((message, fds))

    def _lose(self) -> None:
        self._lost = "the keeper process has ended; its sandboxes are gone"
        asyncio.get_running_loop().remove_reader(self._sock.fileno())
        self._sock.close()
        with contextlib.suppress(subprocess.TimeoutExpired):
            self._process.wait(timeout=1)  # it closed its socket by ending: this only reaps
        for future in self._waiting.values():
            if not future.done():
                future.set_exception(HostCannot(self._lost))
        for callback in list(self._on_exit.values()):
            callback()
        self._on_exit.clear()
