"""Connections that a stand-in takes as they are: mail, a database."""

from __future__ import annotations

import asyncio
import ssl
import time
from typing import Any

from paddock.doors.network.context import STAND_IN, DoorContext
from paddock.doors.network.origin import Origin
from paddock.doors.network.passthrough import Secured, relay
from paddock.doors.network.transport.conn import Conn
from paddock.doors.network.transport.stream import ConnLost
from paddock.gate.executors import Done, refusal
from paddock.model.action import Outcome
from paddock.world.service import LocalService, StandInFailed, StreamService
from paddock.world.store import STEP

_TLS_FIRST = frozenset({465, 636, 993, 995})  # ports where TLS comes before any word


class _Taken:
    """The client's connection, as a stand-in sees it."""

    def __init__(self, conn: Conn, secured: Secured | None) -> None:
        self._conn = conn
        self._secured = secured

    async def read(self, most: int = 1 << 16) -> bytes:
        return await self._conn.read(most)

    async def write(self, data: bytes) -> None:
        await self._conn.write(data)

    async def secure(self) -> None:
        if self._secured is None:
            raise StandInFailed("there is no TLS here")
        await self._secured()


async def stand_in(
    context: DoorContext, client: Conn, origin: Origin, secured: Secured | None, step: int | None
) -> Done:
    """Serves one connection to its end. What it changes belongs to the step."""
    token = STEP.set(step)
    try:
        return await _served(context, client, origin, secured, step)
    finally:
        STEP.reset(token)


async def _served(
    context: DoorContext, client: Conn, origin: Origin, secured: Secured | None, step: int | None
) -> Done:
    service_entry = context.stand_in(origin.host, origin.port)
    if service_entry is None:
        return refusal(f"Nothing stands in for {origin.host_port}.")
    started, service = time.monotonic(), service_entry.service
    record: dict[str, Any] = {"stand_in": service_entry.terms.service}
    try:
        if origin.port in _TLS_FIRST and secured is not None:
            await secured()
        if isinstance(service, StreamService):
            await service.speak(_Taken(client, secured))
        elif isinstance(service, LocalService):
            record |= await _passed_on(service, client)
        else:
            return refusal(f"{service_entry.terms.service} speaks HTTP only.")
        client.close()
    except (ConnLost, ssl.SSLError) as error:
        client.abort()
        record["ended"] = str(error)
    except asyncio.CancelledError:
        raise
    except Exception as error:  # whatever a stand-in raises is its own fault
        client.abort()
        why = f"the stand-in failed: {error if isinstance(error, StandInFailed) else repr(error)}"
        context.alert(STAND_IN, {"host": origin.host, "port": origin.port, "why": why}, step)
        return Done(outcome=Outcome.FAILED, error=why, record={**record, "fault_of": "stand-in"})
    record |= {"bytes_in": client.bytes_in, "bytes_out": client.bytes_out}
    record["duration_us"] = int(1e6 * (time.monotonic() - started))
    return Done(value=record, outcome=Outcome.SIMULATED)


async def _passed_on(service: LocalService, client: Conn) -> dict[str, Any]:
    server = Conn(await service.connect())
    try:
        ended = await relay(client, server)
    finally:
        server.close()
    return {} if ended is None else {"ended": ended}
