"""An answer that has come from a server or a stand-in, passed on to the client."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Any

from paddock.doors.network.exchange import (
    SWITCHING_PROTOCOLS,
    HttpExchange,
    Response,
    has_body,
    without,
)
from paddock.doors.network.http1.client import Http1Client
from paddock.doors.network.origin import Origin
from paddock.doors.network.websocket.frames import FrameLog
from paddock.doors.network.websocket.relay import relay
from paddock.gate.executors import Done
from paddock.model.action import Action, Outcome

if TYPE_CHECKING:
    from paddock.doors.network.context import DoorContext


async def forward(response: Response, method: str, client: HttpExchange) -> None:
    """Pass the answer to a request with this method on, as fast as the client takes it."""
    await client.begin(response.status, response.headers, response.reason)
    if not has_body(method, response.status):
        await client.finish()
        return
    while data := await response.body.read():
        await client.send(data)
    await client.finish(response.body.trailers)


async def forward_websocket(
    context: DoorContext,
    action: Action,
    origin: Origin,
    server: Http1Client,
    response: Response,
    client: HttpExchange,
) -> Done:
    """Tell the client that the protocol changes, and pass messages both ways until one side ends
    it. Placeholders on their way to a host that they are not for end it, too."""
    headers = without(response.headers, b"sec-websocket-extensions")
    await client.begin(SWITCHING_PROTOCOLS, headers, response.reason)
    client_conn, server_conn = client.take_over(), server.take_over()
    watch = context.custody.watch(origin.host)
    scrubber = context.custody.scrubber(str(action.arguments["host"]))
    gate = context.gate()
    log = FrameLog(context.room, lambda: context.position, gate.store_bytes)
    try:
        counts = await relay(
            client_conn,
            server_conn,
            inspect=None if watch is None else watch.is_clean,
            scrub=None if scrubber is None else partial(context.work.search, scrubber.scrub),
            log=log,
        )
    finally:
        server_conn.close()
        client_conn.close()
    record = {"websocket": counts.record(), "frames": await log.record(gate.store)}
    if watch is not None and watch.found is not None:
        context.alert_misplaced(watch.found, origin.host, origin.port, action.step)
        why = f"the placeholder of {watch.found} is not for {origin.host}"
        return Done(outcome=Outcome.FAILED, error=why, record=record)
    return Done(value=SWITCHING_PROTOCOLS, record=record)


def version_record(response: Response) -> dict[str, Any]:
    """Return what the journal gets of the protocol, where it is not HTTP/1.1."""
    return {} if response.version == "1.1" else {"http_version": f"HTTP/{response.version}"}
