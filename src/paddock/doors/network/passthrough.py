"""Connections that are passed through as they are: bare TCP, and TLS that is not ended here.

Only who speaks to whom is decided on. The journal gets how many bytes went each way.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from typing import Any

from paddock.doors.network.context import DENIED, MISPLACED, REBINDING, DoorContext
from paddock.doors.network.decision import is_out_of_reach
from paddock.doors.network.origin import Origin
from paddock.doors.network.secrets.custody import PlaceholderWatch
from paddock.doors.network.transport.conn import BULK_BYTES, Conn, pump
from paddock.doors.network.transport.dial import DialError, DialRefused
from paddock.doors.network.transport.stream import ConnLost
from paddock.gate.executors import Done
from paddock.gate.recorded_answers import RecordedOutcome
from paddock.journal.errors import JournalBroken
from paddock.model.action import Action, Effect, Kind, Outcome

IDLE_S = 3600.0  # without a byte in either direction
_LOOK_S = 15.0
Secured = Callable[[], Awaitable[None]]


def connect_action(origin: Origin, transport: str, **more: Any) -> Action:
    """A connection as an action. What is said on it is unknown, so it is taken for a write."""
    arguments = {"host": origin.host, "port": origin.port, "transport": transport, **more}
    return Action(Kind.CONNECT, origin.host_port, arguments, Effect.WRITE, is_reversible=False,
                  parent=origin.parent)  # fmt: skip


def dns_action(name: str, qtype: str, parent: int | None = None) -> Action:
    """A DNS query as an action."""
    arguments = {"host": name, "name": name, "type": qtype}
    return Action(Kind.DNS, name, arguments, Effect.READ, parent=parent)


async def pass_through(
    context: DoorContext,
    client: Conn,
    origin: Origin,
    transport: str,
    secured: Secured | None = None,
) -> None:
    """Asks the gate, dials, and moves bytes until both sides are done. A stand-in may want to go on
    in TLS, which is what `secured` does."""
    action = connect_action(origin, transport)

    async def live(action: Action) -> Done:
        return await _carry(context, client, origin, action)

    async def simulate(action: Action) -> Done:
        from paddock.doors.network.upstream.stand_in_stream import stand_in

        return await stand_in(context, client, origin, secured, action.step)

    try:
        receipt = await context.gate().cross(action, live, simulate=simulate, replay=_unkept)
    except (JournalBroken, OSError):
        client.abort()
        return
    if receipt.outcome not in (Outcome.DONE, Outcome.SIMULATED):
        client.abort()
    if is_out_of_reach(receipt):
        context.alert(DENIED, {"host": origin.host, "port": origin.port}, receipt.step)


async def _unkept(action: Action, recorded: RecordedOutcome) -> Done:
    raise recorded.diverged(
        None, "a connection that was passed through: its bytes are not kept", None
    )


async def _carry(context: DoorContext, client: Conn, origin: Origin, action: Action) -> Done:
    started = time.monotonic()
    try:
        server, address = await context.pool.dial(origin.host, origin.port)
    except DialError as error:
        if isinstance(error, DialRefused):
            led_to = {"host": origin.host, "addresses": ", ".join(error.addresses)}
            context.alert(REBINDING, led_to, action.step)
        return Done(outcome=Outcome.FAILED, error=error.why)
    watch = context.custody.watch(origin.host)
    try:
        ended = await relay(client, server, watch)
    finally:
        server.close()
    record: dict[str, Any] = {
        "address": address,
        "bytes_out": server.bytes_out,
        "bytes_in": server.bytes_in,
        "duration_us": int(1e6 * (time.monotonic() - started)),
    }
    if watch is not None and watch.found is not None:
        about = {"secret": watch.found, "host": origin.host, "port": origin.port}
        context.alert(MISPLACED, about, action.step)
        why = f"the placeholder of {watch.found} is not for {origin.host}"
        return Done(outcome=Outcome.FAILED, error=why, record=record)
    if ended is not None:
        record["ended"] = ended
        if not server.bytes_in:
            return Done(outcome=Outcome.FAILED, error=ended, record=record)
    # What is spoken is unknown, and so is whether a reset is its usual end: PostgreSQL resets a
    # client that says farewell in TLS.
    return Done(value=record)


async def relay(client: Conn, server: Conn, watch: PlaceholderWatch | None = None) -> str | None:
    """Moves bytes both ways. Gives how it ended, if not by the end of both."""
    ended: str | None = None
    async with _ended_when_idle(client, server):
        try:
            async with asyncio.TaskGroup() as both:
                both.create_task(_moved(client, server, watch))
                both.create_task(pump(server, client))
        except* (ConnLost, _Stopped) as group:
            client.abort()
            server.abort()
            ended = str(group.exceptions[0])
    return ended


class _Stopped(Exception):
    """Something was on its way that must not go."""


async def _moved(client: Conn, server: Conn, watch: PlaceholderWatch | None) -> None:
    if watch is None:
        await pump(client, server)
        return
    while data := await client.read(BULK_BYTES):
        if not await watch.is_clean(data):
            raise _Stopped("a placeholder was on its way to where it is not for")
        await server.write(data)
    server.write_eof()


@asynccontextmanager
async def _ended_when_idle(*conns: Conn) -> AsyncIterator[None]:
    """One side may be silent for long while the other speaks: both together must not be."""
    before = [conn.idle_s for conn in conns]
    for conn in conns:
        conn.idle_s = float("inf")
    watching = asyncio.ensure_future(_watch(conns))
    try:
        yield
    finally:
        watching.cancel()
        for conn, idle_s in zip(conns, before, strict=True):
            conn.idle_s = idle_s


async def _watch(conns: tuple[Conn, ...]) -> None:
    seen, since = -1, time.monotonic()
    while True:
        moved = sum(conn.bytes_in for conn in conns)
        if moved != seen:
            seen, since = moved, time.monotonic()
        elif time.monotonic() - since > IDLE_S:
            for conn in conns:
                conn.abort()
            return
        await asyncio.sleep(_LOOK_S)
