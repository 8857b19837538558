"""The endpoint that programs of a run report to through `paddock.inside`: at the network door, or,
in a sandbox without a network, at a port of its loopback that leads to the host alone."""

from __future__ import annotations

import asyncio
import contextlib
import socket
from collections.abc import Callable
from typing import TYPE_CHECKING

from paddock.fence.driver import Machine
from paddock.gate.gate import Gate
from paddock.model.errors import CannotEnforce

if TYPE_CHECKING:
    from paddock.doors.network.door import NetworkDoor
    from paddock.doors.network.inside_api.calls import InsideCalls
    from paddock.doors.network.inside_api.state import InsideState

PORT = 19803  # of loopback; always the same, so that a replay has the same environment
_MAX_CONNECTIONS = 64
_ADDRESS = "PADDOCK_INSIDE"


class InsideDoor:
    """Takes the reports of one sandbox; runs on the engine's loop."""

    def __init__(
        self,
        machine: Machine,
        gate: Callable[[], Gate],
        state: InsideState,
        step_of: Callable[[socket.socket | None], int | None],
    ) -> None:
        self._machine = machine
        self._gate = gate
        self._loop = asyncio.get_running_loop()
        self._state = state
        self._step_of = step_of
        self._calls: InsideCalls | None = None
        self._listener: socket.socket | None = None
        self._open: set[asyncio.Task[None]] = set()
        self.environment: dict[str, str] = {}

    @property
    def calls(self) -> InsideCalls:
        """Return the calls, made at the first one: most programs make none."""
        if self._calls is None:
            from paddock.doors.network.inside_api.calls import InsideCalls

            self._calls = InsideCalls(self._gate, self._machine.machine_id, self._state)
        return self._calls

    @property
    def latest_prompt(self) -> str | None:
        return None if self._calls is None else self._calls.latest_prompt

    def open(self, door: NetworkDoor | None) -> None:
        """Begin to take reports."""
        if door is not None:
            self.move_to(door)
            return
        listener = self._machine.network.borrow_listener(PORT)
        if listener is None:
            raise CannotEnforce("reports of programs: this kernel has no tcp4 socket")
        self._listener = listener
        port = int(listener.getsockname()[1])
        self._loop.add_reader(listener.fileno(), self._accept)
        self.environment = {_ADDRESS: f"http://127.0.0.1:{port}"}

    def stand_back(self) -> None:
        """Give back the listener: a network door is about to be opened with it."""
        if self._listener is not None:
            self._loop.remove_reader(self._listener.fileno())
            self._machine.network.return_listener(self._listener)
            self._listener = None

    def move_to(self, door: NetworkDoor) -> None:
        """Take reports at the door. Programs that know only the listener are not heard any more:
        where there is a door, the kernel lets nobody in there."""
        from paddock.doors.network.names.table import INSIDE_ADDRESS

        door.context.inside = self.calls
        self.environment = {_ADDRESS: f"http://{INSIDE_ADDRESS}"}

    async def close(self) -> None:
        if self._listener is not None:
            self._loop.remove_reader(self._listener.fileno())
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
        """Serve one connection to its end. Whatever fails, it is cut and that is all."""
        from paddock.doors.network.transport.conn import Conn

        conn = Conn(sock)
        try:
            await self.calls.serve(conn, self._step_of(sock))
        except Exception:
            conn.abort()
        finally:
            conn.close()
