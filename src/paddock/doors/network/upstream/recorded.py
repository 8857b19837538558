"""The record of an earlier run as an upstream: the answer that a request got then is given again,
byte by byte."""

from __future__ import annotations

import asyncio
import base64
import binascii
import contextlib
from collections.abc import Callable, Iterator, Mapping
from functools import partial
from typing import Any

from paddock.doors.network.answer import answer_failure
from paddock.doors.network.bodies.capture import BodyCapture
from paddock.doors.network.bodies.stable_digests import stable_digest
from paddock.doors.network.client_disconnect import (
    ClientDisconnected,
    ended_by_disconnect,
    stay_silent,
)
from paddock.doors.network.context import DoorContext
from paddock.doors.network.exchange import (
    SWITCHING_PROTOCOLS,
    BadMessage,
    Headers,
    HttpExchange,
    has_body,
    header,
    without,
)
from paddock.doors.network.request import QUIET_S, RequestProposal, speaks_in_turns
from paddock.doors.network.transport.stream import ConnLost
from paddock.doors.network.upstream.base import Upstream
from paddock.doors.network.websocket.frames import FrameLog, read_frames
from paddock.doors.network.websocket.replay import accept_of, replay_frames
from paddock.fence.offload import offload
from paddock.gate.executors import Done
from paddock.gate.recorded_answers import RecordedOutcome
from paddock.journal.plain_values import StoredBytes
from paddock.model.action import Action, Outcome

_EVENT_END = b"\n\n"  # of a stream of events: who reads them may act on each


class RecordedUpstream(Upstream):
    """Gives the answer that the request got in an earlier run. Nobody is asked."""

    _client: HttpExchange

    def __init__(
        self, proposal: RequestProposal, recorded: RecordedOutcome, context: DoorContext
    ) -> None:
        self._context = context
        self._proposal = proposal
        self._recorded = recorded
        self._log: FrameLog | None = None  # of a WebSocket
        self._ended: dict[str, int] = {}  # the last record before its end, where that is known
        self._rest: asyncio.Task[None] | None = None  # of a body that comes while it is answered
        self._known: Mapping[str, Any] = (
            recorded.result if isinstance(recorded.result, Mapping) else {}
        )

    async def answer(self, action: Action, client: HttpExchange) -> Done:
        """Raise ReplayDiverged for what was not kept, or when another body came."""
        self._client = client
        self._check_kept()
        await self._take_body()
        begun = self._context.position
        try:
            with ended_by_disconnect(self._client):
                await self._answer()
        except (ConnLost, ClientDisconnected):
            self._client.abort()
        finally:
            if self._rest is not None:
                self._rest.cancel()
        recorded = self._recorded
        record = {**self._known, "begun": begun} | self._ended | await self._pieces_again()
        return Done(
            self._known.get("status"), record, recorded.outcome, recorded.error, recorded.cost
        )

    async def _take_body(self) -> None:
        """Compare a body that was decided on by its head when all of it has come. Where the client
        may wait for parts of the answer before it sends the rest, that is at the end of the answer,
        if it is not soon."""
        if self._proposal.read is not None:
            return
        if self._client.request.expects_continue:
            await self._client.proceed()
        if not speaks_in_turns(self._client.request):
            await self._compare_body()
            return
        self._rest = asyncio.create_task(self._compare_body())
        await asyncio.wait({self._rest}, timeout=QUIET_S)
        if self._rest.done():
            self._rest.result()

    async def _compare_body(self) -> None:
        """Compare the body with the recorded one. Raises ReplayDiverged."""
        recorded = self._known.get("sent") or {"bytes": 0, "is_part": self._is_failed}
        came = await self._came(recorded["bytes"] if recorded.get("is_part") else None)
        if self._recorded.background is not None:
            return  # what it says is not compared
        if not self._recorded.is_same_body(recorded, came):
            raise self._recorded.diverged("body", recorded, came)

    async def _came(self, most: int | None) -> dict[str, Any]:
        """Return the record of the body that comes; where only a part was taken then, of as much of
        it."""
        sent = BodyCapture(stable=stable_digest(self._client.request.headers))
        with contextlib.suppress(ConnLost, BadMessage):  # then it is shorter than the recorded one
            while (most is None or sent.size < most) and (data := await self._proposal.body.read()):
                sent.feed(data if most is None else data[: most - sent.size])
        return sent.record()

    @property
    def _is_failed(self) -> bool:
        return self._recorded.outcome is Outcome.FAILED

    async def _pieces_again(self) -> dict[str, Any]:
        """Store the pieces of a long answer, or of a WebSocket, for this run's own record: whoever
        forks this run finds them there."""
        if self._log is not None:
            return {"frames": await self._log.record(self._context.gate().store)}
        if not self._recorded.pieces:
            return {}
        return {"pieces": [await offload(self._copied, read) for read in self._recorded.pieces]}

    def _copied(self, read: Callable[[], bytes]) -> StoredBytes:
        return self._context.gate().store_bytes(read())

    def _check_kept(self) -> None:
        if "websocket" in self._known and "frames" not in self._known:
            raise self._recorded.diverged(
                None, "a WebSocket: what was said there is not kept", None
            )
        if self._known.get("is_cut"):
            size = self._known.get("bytes")
            raise self._recorded.diverged(
                None, f"an answer of {size} bytes, not all of it kept", None
            )

    async def _answer(self) -> None:
        status = self._known.get("status")
        is_told = isinstance(status, int) and not self._recorded.is_unseen
        if not is_told and (self._recorded.is_unseen or self._known.get("left")):
            await stay_silent(self._client)
            return
        if not isinstance(status, int):
            self._client.abort()  # whatever the agent saw then, it was no whole answer
            return
        if self._is_failed and "headers" not in self._known:
            message = self._known.get("said") or self._recorded.error or ""
            await answer_failure(self._client, status, str(message))
            return
        if status == SWITCHING_PROTOCOLS and "frames" in self._known:
            await self._converse()
            return
        await self._tell(status)

    async def _converse(self) -> None:
        """Replay a WebSocket: the same handshake for another key, then its frames."""
        headers = without(list(_headers(self._recorded, self._known)), b"sec-websocket-accept")
        key = header(self._client.request.headers, b"sec-websocket-key") or b""
        headers.append((b"Sec-WebSocket-Accept", accept_of(key)))
        reason = str(self._known.get("reason") or "").encode("latin-1", "replace")
        await self._client.begin(SWITCHING_PROTOCOLS, headers, reason)
        context = self._context
        self._log = FrameLog(context.room, lambda: context.position, context.gate().store_bytes)
        frames = read_frames(self._parts_of(self._known["frames"]))
        conn = self._client.take_over()
        try:
            ended_by = str(self._known["websocket"].get("closed_by"))
            following = partial(offload, next, frames, None)
            await replay_frames(conn, following, self._recorded, self._log, ended_by)
        except ValueError as error:
            why = f"a WebSocket whose log is damaged: {error}"
            raise self._recorded.diverged(None, why, None) from None
        finally:
            conn.close()

    def _parts_of(self, kept: Mapping[str, Any]) -> Iterator[bytes]:
        """Yield what was kept, one piece after the other."""
        if "pieces" in kept:
            return (read() for read in self._recorded.pieces)
        return iter((_body(kept),))

    async def _tell(self, status: int) -> None:
        is_bodyless = not has_body(self._client.request.method, status)
        headers = list(_headers(self._recorded, self._known))
        is_long = "pieces" in self._known
        body = b"" if is_long else _body(self._known)
        if not is_bodyless and not self._is_failed:
            size = int(self._known.get("bytes") or 0) if is_long else len(body)
            headers = _of_length(headers, size)
        reason = str(self._known.get("reason") or "").encode("latin-1", "replace")
        await self._client.begin(status, headers, reason)
        for part in _parts(headers, body) if not is_bodyless else ():
            await self._client.send(part)
        for read in self._recorded.pieces if not is_bodyless else ():
            await self._client.send(await offload(read))
        if self._known.get("left"):
            await stay_silent(self._client)
        elif self._is_failed:
            await self._client.break_off()
        else:
            if self._rest is not None:
                await self._rest
            if isinstance(ended := self._known.get("ended"), int):
                await self._recorded.until_end(ended)
                self._ended = {"ended": self._context.position}
            await self._client.finish(_trailers(self._known))


def _body(known: Mapping[str, Any]) -> bytes:
    if "base64" in known:
        try:
            return base64.b64decode(known["base64"], validate=True)
        except (binascii.Error, TypeError):
            return b""
    return str(known.get("body", "")).encode("utf-8", "surrogateescape")


def _headers(recorded: RecordedOutcome, known: Mapping[str, Any]) -> Iterator[tuple[bytes, bytes]]:
    """Yield the headers that the journal shows, and in place of credentials those that it seals."""
    sealed = recorded.unsealed()
    hidden = {name for name, _ in sealed}
    shown = known.get("headers")
    for name, value in (shown if isinstance(shown, Mapping) else {}).items():
        if name not in hidden:
            yield str(name).encode("latin-1"), str(value).encode("latin-1", "replace")
    for name, value in sealed:
        yield name.encode("latin-1"), value.encode("latin-1", "replace")


def _of_length(headers: Headers, size: int) -> Headers:
    """Return headers with this length, where they announce one."""
    kept = without(headers, b"content-length")
    return kept if len(kept) == len(headers) else [*kept, (b"content-length", b"%d" % size)]


def _trailers(known: Mapping[str, Any]) -> Headers:
    trailers = known.get("trailers")
    pairs = trailers.items() if isinstance(trailers, Mapping) else ()
    return [(str(k).encode("latin-1"), str(v).encode("latin-1", "replace")) for k, v in pairs]


def _is_stream(headers: Headers) -> bool:
    return any(n == b"content-type" and v.startswith(b"text/event-stream") for n, v in headers)


def _parts(headers: Headers, body: bytes) -> Iterator[bytes]:
    if not _is_stream(headers):
        if body:
            yield body
        return
    while body:
        event, end, body = body.partition(_EVENT_END)
        yield event + end
