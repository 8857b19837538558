"""Where the programs of a run report to: at the network door, or, in a sandbox without a network,
at a port of its loopback that leads to the host and takes nothing else."""

from __future__ import annotations

import asyncio
import contextlib
import socket
from collections.abc import Callable
from typing import TYPE_CHECKING

from paddock.fence.container.network.namespace import listen_within
from paddock.model.errors import CannotEnforce

if TYPE_CHECKING:
    from paddock.doors.machine.box import Box
    from paddock.doors.network.door import NetworkDoor
    from paddock.doors.network.inside_api.calls import InsideCalls
    from paddock.doors.network.inside_api.state import InsideState

PORT = 19803  # of loopback; always the same, so that a run that is tried again has the same words
_MAX_CONNECTIONS = 64
_ADDRESS = "PADDOCK_INSIDE"


class InsideDoor:
    """Of one sandbox; runs on the engine's loop."""

    def __init__(
        self,
        box: Box,
        state: InsideState,
        step_of: Callable[[socket.socket | None], int | None],
    ) -> None:
        self._box = box
        self._state = state
        self._step_of = step_of
        self._calls: InsideCalls | None = None
        self._listener: socket.socket | None = None
        self._open: set[asyncio.Task[None]] = set()
        self.environment: dict[str, str] = {}

    @property
    def calls(self) -> InsideCalls:
        """Made at the first call: most programs make none."""
        if self._calls is None:
            from paddock.doors.network.inside_api.calls import InsideCalls

            box = self._box
            self._calls = InsideCalls(lambda: box.passage.gate, box.sandbox_id, self._state)
        return self._calls

    @property
    def latest_prompt(self) -> str | None:
        return None if self._calls is None else self._calls.latest_prompt

    def open(self, door: NetworkDoor | None) -> None:
        """Begins to take reports."""
        if door is not None:
            self.move_to(door)
            return
        listener = self._box.machine.network_sockets.lend("tcp4")
        if listener is None:
            raise CannotEnforce("reports of programs: this kernel has no tcp4 socket")
        self._listener = listener
        port = listen_within(listener, PORT)
        self._box.engine.loop.add_reader(listener.fileno(), self._accept)
        self.environment = {_ADDRESS: f"http://127.0.0.1:{port}"}

    def stand_back(self) -> None:
        """A network door is about to be opened, with the listener that was used here."""
        if self._listener is not None:
            self._box.engine.loop.remove_reader(self._listener.fileno())
            self._box.machine.network_sockets.give_back("tcp4", self._listener)
            self._listener = None

    def move_to(self, door: NetworkDoor) -> None:
        """Takes reports at the door. Programs that know only the listener are not heard any more:
        where there is a door, the kernel lets nobody in there."""
        from paddock.doors.network.names.table import INSIDE_ADDRESS

        door.context.inside = self.calls
        self.environment = {_ADDRESS: f"http://{INSIDE_ADDRESS}"}

    async def close(self) -> None:
        if self._listener is not None:
            self._box.engine.loop.remove_reader(self._listener.fileno())
            self._listener.close()
            self._listener = None
        for task in list(self._open):
            task.cancel()
        await asyncio.gather(*self._open, return_exceptions=True)

    def _accept(self) -> None:
        assert self._listener is not None
        with contextlib.suppress(OSError):
            sock, _ = self._listener.accept()
            if len(self._open) >= _MAX_CONNECTIONS:
                sock.close()
                return
            task = asyncio.ensure_future(self._serve(sock))
            self._open.add(task)
            task.add_done_callback(self._open.discard)

    async def _serve(self, sock: socket.socket) -> None:
        """One connection to its end. Whatever fails, it is cut and that is all."""
        from paddock.doors.network.transport.conn import Conn

        conn = Conn(sock)
        try:
            await self.calls.serve(conn, self._step_of(sock))
        except Exception:
            conn.abort()
        finally:
            conn.close()
