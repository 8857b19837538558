"""An allowed request on its way to the real server, and the answer on its way back.

Both bodies stream: what a slow client does not take is not read from the server. Secrets are put
in on the way out and taken out on the way back; the journal gets neither.
"""

from __future__ import annotations

import contextlib
import time
from collections.abc import Awaitable
from contextlib import aclosing
from functools import partial
from typing import Any

from msgspec.structs import replace

from paddock.doors.network.answer import failed
from paddock.doors.network.bodies.capture import MAX_HASHED, BodyCapture
from paddock.doors.network.client_disconnect import ClientDisconnected, DisconnectWatch, watched
from paddock.doors.network.context import MISPLACED, REBINDING, STAND_IN, DoorContext
from paddock.doors.network.exchange import (
    BadMessage,
    Exchange,
    Headers,
    Response,
    without,
)
from paddock.doors.network.http1.client import Http1Client
from paddock.doors.network.http1.exchange import REASONS
from paddock.doors.network.http1.messages import end_to_end
from paddock.doors.network.http2.client import NotProcessed
from paddock.doors.network.layers.answer_filter import AnswerFilter
from paddock.doors.network.request import Origin, Proposal, hidden_headers, shown_headers
from paddock.doors.network.secrets.keeper import Revoked
from paddock.doors.network.transport.conn import ConnIdle, ConnLost
from paddock.doors.network.transport.dial import DialError, DialFailure, DialRefused
from paddock.doors.network.transport.pool import ServerConnection, UpstreamUnreachable
from paddock.doors.network.upstream_request import (
    MisplacedPlaceholder,
    UpstreamRequest,
    make_upstream_request,
)
from paddock.doors.network.websocket.frames import FrameLog
from paddock.doors.network.websocket.relay import relay
from paddock.gate.executors import Done
from paddock.model.action import Action, Outcome
from paddock.world.service import StandInFailed

_BODYLESS = frozenset({204, 205, 304})
_HELD_S = 1.0  # from the request to its sending; longer, and a person was asked
_REPEATABLE = frozenset({"GET", "HEAD", "OPTIONS", "TRACE"})
_STATUSES = {DialFailure.TIMED_OUT: 504, DialFailure.NOT_ALLOWED: 403, DialFailure.BUSY: 503}


class SecretInClearText(Exception):
    """A secret was to be put into a request that anybody on its way can read."""

    def __init__(self, name: str, host: str) -> None:
        super().__init__(f"The secret {name} is sent to {host} by https only.")
        self.name = name


class Carrying:
    """The live executor of one request."""

    _is_watched = True  # whether it ends when its client leaves

    def __init__(
        self, context: DoorContext, exchange: Exchange, origin: Origin, proposal: Proposal
    ) -> None:
        self.is_answered = False  # nothing more is to be said to the client
        self._context = context
        self._exchange = exchange
        self._origin = origin
        self._proposal = proposal
        self._kept = BodyCapture(hashed=MAX_HASHED, room=context.room)
        self._begun: tuple[int, Headers, bytes] | None = None  # what the client was told first
        self._begun_n: int | None = None  # the last record before it was told anything
        self._ended_n: int | None = None  # the last record before the end, if there were others
        self._made_at = time.monotonic()
        self._watch: DisconnectWatch | None = None

    async def __call__(self, action: Action) -> Done:
        """Sends what was decided on, and nothing else."""
        if self._is_watched and self._context.pacer is not None:
            self._watch = DisconnectWatch(self._exchange)
        try:
            with watched(self._exchange, self._watch):
                return await self._carried(action)
        except ClientDisconnected as error:
            return await self._left(error)
        except MisplacedPlaceholder as error:
            return await self._misplaced(error.name, str(error), action)
        except SecretInClearText as error:
            return await self._misplaced(error.name, str(error), action)
        except Revoked as error:
            return await self._no_answer(403, str(error))
        except UpstreamUnreachable as error:
            return await self._no_answer(error.status, str(error))
        except DialError as error:
            return await self._not_dialled(error, action)
        except StandInFailed as error:
            return await self._stood_in_badly(error, action)
        except (ConnLost, BadMessage) as error:
            return await self._broken(error)

    async def _carried(self, action: Action) -> Done:
        sent = self._outgoing(action)
        line, response = await self._send(sent)
        try:
            return await self._answer(sent, line, response)
        except BaseException:
            _give_up(line, response)
            raise
        finally:
            self._context.custody.forget(line.conn, sent.used)

    def _outgoing(self, action: Action) -> UpstreamRequest:
        sent = make_upstream_request(self._context.custody, self._origin, self._proposal, action)
        self._check_clear(sent)
        return sent

    def _check_clear(self, sent: UpstreamRequest) -> None:
        place = sent.endpoint
        if sent.used and place.scheme == "http" and not self._context.is_staged(place.host):
            raise SecretInClearText(sent.used[0], place.host)

    async def _send(self, sent: UpstreamRequest) -> tuple[ServerConnection, Response]:
        """A kept connection may have been closed meanwhile: what the server did not see is sent
        again on a new one."""
        if self._exchange.request.expects_continue and self._proposal.read is None:
            await self._to_client(self._exchange.proceed())
        if time.monotonic() - self._made_at > _HELD_S and self._exchange.is_gone():
            raise ClientDisconnected(
                "before its request was sent"
            )  # it may have asked again meanwhile
        is_repeatable = sent.request.method in _REPEATABLE
        line = await self._context.pool.take(sent.endpoint, is_sure=not is_repeatable)
        try:
            return line, await self._sent(line, sent)
        except ConnLost as error:
            # A server that closes a connection may have read what was sent on it before.
            is_unseen = isinstance(error, NotProcessed) or (error.is_stale and is_repeatable)
            if line.is_new or not is_unseen or self._proposal.read is None:
                raise
        line = await self._context.pool.take(sent.endpoint, is_fresh=True)
        return line, await self._sent(line, self._outgoing(sent.action))

    async def _sent(self, line: ServerConnection, sent: UpstreamRequest) -> Response:
        custody, headers = self._context.custody, sent.headers
        if line.is_h2:
            headers = [(name.lower(), value) for name, value in headers]
        else:
            host = (b"Host", (sent.request.authority or "").encode("latin-1"))
            headers = [host, *_joined_cookies(headers)]
        custody.carries(line.conn, sent.used)
        try:
            for name in sent.used:  # it may have been revoked while the server was dialled
                if custody.is_revoked(name):
                    raise Revoked(name)
            return await line.client.send(sent.request, headers)
        except BaseException:
            custody.forget(line.conn, sent.used)
            _give_up(line, None)
            raise

    async def _answer(
        self, sent: UpstreamRequest, line: ServerConnection, response: Response
    ) -> Done:
        if response.status == 101:
            return await self._upgraded(sent, line, response)
        has_body = not _is_bodyless(sent, response)
        wire = self._proposal.wire
        answer = AnswerFilter(self._context, sent, response, wire, has_body=has_body)
        headers = await answer.headers(end_to_end(response.headers))
        if answer.is_needed and not answer.keeps_length:
            headers = without(headers, b"content-length")
        if not has_body:
            await self._begin(response.status, headers, answer.reason(response.reason))
            await self._to_client(self._exchange.finish())
        else:
            await self._stream(answer, response, headers)
        self._release(line)
        await self._store_kept()
        record = self._record(line, response, headers) | answer.record()
        return Done(value=response.status, record=record, cost=answer.cost())

    def _release(self, line: ServerConnection) -> None:
        """The answer is over, and its connection may serve another."""
        self._context.pool.give_back(line)

    async def _stream(self, answer: AnswerFilter, response: Response, headers: Headers) -> None:
        exchange, body = self._exchange, response.body
        reason = answer.reason(response.reason)
        if answer.is_needed:
            await self._stream_filtered(answer, response, headers, reason)
        else:
            await self._begin(response.status, headers, reason)
            while data := await body.read():
                await self._keep(data)
                await self._to_client(exchange.send(data))
        trailers = await answer.headers(body.trailers)
        await self._let_others_be_taken()
        await self._to_client(exchange.finish(trailers))

    async def _stream_filtered(
        self, answer: AnswerFilter, response: Response, headers: Headers, reason: bytes
    ) -> None:
        if not answer.is_held:
            await self._begin(response.status, headers, reason)
        async with aclosing(answer.parts(response.body)) as parts:
            async for part in parts:
                if not self.is_answered:
                    await self._begin(response.status, headers, reason)
                await self._keep(part)
                await self._to_client(self._exchange.send(part))
        if not self.is_answered:
            await self._begin(response.status, headers, reason)

    async def _keep(self, part: bytes) -> None:
        """Keep a part of the answer; of a long one it is stored before more is read."""
        self._kept.feed(part)
        if self._kept.is_due:
            await self._kept.spill(self._context.gate().store_bytes)

    async def _store_kept(self) -> None:
        gate = self._context.gate()
        await self._kept.store(gate.store, gate.store_bytes)

    async def _begin(self, status: int, headers: Headers, reason: bytes) -> None:
        if self._context.pacer is not None and self._exchange.is_gone():
            raise ClientDisconnected("it did not wait for its answer")
        self.is_answered, self._begun = True, (status, headers, reason)
        if self._context.pacer is not None:
            await self._context.pacer.turn()
        self._begun_n = self._context.position
        await self._to_client(self._exchange.begin(status, headers, reason))

    async def _let_others_be_taken(self) -> None:
        """Before the end of an answer: what the agent was told while it streamed came earlier, and
        a replay has to know that."""
        pacer, context = self._context.pacer, self._context
        if pacer is not None and context.position != self._begun_n:
            await pacer.turn()
            self._ended_n = context.position

    async def _to_client(self, sending: Awaitable[None]) -> None:
        try:
            await sending
        except ConnLost as error:
            raise ClientDisconnected(str(error)) from None

    async def _upgraded(
        self, sent: UpstreamRequest, line: ServerConnection, response: Response
    ) -> Done:
        """A WebSocket: its messages go both ways until one side ends it."""
        scrubber = self._context.custody.scrubber(sent.endpoint.host)
        headers = without(response.headers, b"sec-websocket-extensions")
        reason = response.reason
        if scrubber is not None:
            headers, reason = scrubber.scrub_headers(headers), scrubber.scrub(reason)
        assert isinstance(line.client, Http1Client)
        if self._watch is not None:
            self._watch.end()  # one that leaves says so
        self.is_answered, self._begun_n = True, self._context.position
        await self._to_client(self._exchange.begin(101, headers, reason))
        client, server = self._exchange.take_over(), line.client.take_over()
        watch = self._context.custody.watch(self._origin.host)
        gate = self._context.gate()
        log = FrameLog(self._context.room, lambda: self._context.position, gate.store_bytes)
        try:
            counts = await relay(
                client,
                server,
                inspect=None if watch is None else watch.is_clean,
                scrub=None
                if scrubber is None
                else partial(self._context.work.search, scrubber.scrub),
                log=log,
            )
        finally:
            server.close()
            client.close()
        record = {
            **self._record(line, response, headers),
            "websocket": counts.record(),
            "frames": await log.record(gate.store),
        }
        if watch is not None and watch.found is not None:
            self._alert_misplaced(watch.found, sent.action)
            why = f"the placeholder of {watch.found} is not for {self._origin.host}"
            return Done(outcome=Outcome.FAILED, error=why, record=record)
        return Done(value=101, record=record)

    def _record(
        self, line: ServerConnection, response: Response, headers: Headers
    ) -> dict[str, Any]:
        begun = self._begun or (response.status, headers, b"")
        record = self._head_record(*begun) | self._kept.record()
        if trailers := response.body.trailers:
            record["trailers"] = self._shown_trailers(trailers)
        if self._ended_n is not None:
            record["ended"] = self._ended_n
        if line.address != self._origin.host:
            record["address"] = line.address
        if response.version != "1.1":
            record["http_version"] = f"HTTP/{response.version}"
        return record | self._upload_record()

    def _upload_record(self) -> dict[str, Any]:
        """Of a body that streamed by. Of one that was not taken to its end, a replay compares what
        was."""
        sent = self._proposal.sent
        if sent is None or (sent.is_whole and not sent.size):
            return {}
        return {"sent": sent.record() | ({} if sent.is_whole else {"is_part": True})}

    def _head_record(self, status: int, headers: Headers, reason: bytes) -> dict[str, Any]:
        """What the agent was told before the body. What is not shown is sealed, for a replay."""
        record: dict[str, Any] = {"status": status, "headers": shown_headers(headers)}
        record["begun"] = self._begun_n
        if reason and reason != REASONS.get(status):
            record["reason"] = reason.decode("latin-1")
        context = self._context
        if context.sealer is not None and (hidden := hidden_headers(headers)):
            run = context.sealed_for or context.gate().run
            record["sealed"] = context.sealer.seal(hidden, run)
        return record

    def _shown_trailers(self, trailers: Headers) -> dict[str, str]:
        scrubber = self._context.custody.scrubber(self._origin.host)
        return shown_headers(trailers if scrubber is None else scrubber.scrub_headers(trailers))

    async def _misplaced(self, name: str, why: str, action: Action) -> Done:
        self._alert_misplaced(name, action)
        return await self._no_answer(403, why)

    def _alert_misplaced(self, name: str, action: Action) -> None:
        about = {"secret": name, "host": self._origin.host, "port": self._origin.port}
        self._context.alert(MISPLACED, about, action.step)

    async def _not_dialled(self, error: DialError, action: Action) -> Done:
        if isinstance(error, DialRefused):
            about = {"host": self._origin.host, "addresses": ", ".join(error.addresses)}
            self._context.alert(REBINDING, about, action.step)
        return await self._no_answer(_STATUSES.get(error.kind, 502), error.why)

    async def _stood_in_badly(self, error: StandInFailed, action: Action) -> Done:
        """The agent sees a server that fails; whoever reads the journal sees whose fault it is."""
        about = {"host": self._origin.host, "port": self._origin.port, "why": str(error)}
        self._context.alert(STAND_IN, about, action.step)
        said = f"The service failed: {self._origin.host}."
        done = await self._no_answer(500, said)
        record = {**(done.record or {}), "fault_of": "stand-in", "said": said}
        return Done(outcome=Outcome.FAILED, error=f"the stand-in failed: {error}", record=record)

    async def _broken(self, error: ConnLost | BadMessage) -> Done:
        fault = self._proposal.fault
        if fault is not None:
            return await self._no_answer(fault.status, f"The request is malformed: {fault}.")
        status = 504 if isinstance(error, ConnIdle) else 502
        return await self._no_answer(status, f"{self._origin.host_port}: {error}")

    async def _no_answer(self, status: int, why: str) -> Done:
        """Says so while that is possible; an answer that has begun is cut."""
        scrubber = self._context.custody.scrubber(self._origin.host)
        if scrubber is not None:  # whatever a server said may be part of the reason
            why = scrubber.scrub(why.encode()).decode("utf-8", "replace")
        if self.is_answered:
            with contextlib.suppress(ConnLost):
                await self._exchange.break_off()
            return await self._failed(why)
        self.is_answered, self._begun_n = True, self._context.position
        try:
            await failed(self._exchange, status, why)
        except ConnLost:
            self._exchange.abort()
        return await self._failed(why, status)

    async def _left(self, error: Exception) -> Done:
        """The client did not wait for the answer, or for all of it."""
        self._exchange.abort()
        done = await self._failed(f"The client went away: {error}")
        return replace(done, record={**done.record, "left": True})

    async def _failed(self, why: str, status: int | None = None) -> Done:
        self.is_answered = True
        await self._store_kept()
        begun = {} if self._begun is None else self._head_record(*self._begun)
        record = begun | self._kept.record() | ({} if status is None else {"status": status})
        if self._begun_n is not None:
            record["begun"] = self._begun_n
        record |= self._upload_record()
        return Done(outcome=Outcome.FAILED, error=why, record=record)


def _is_bodyless(sent: UpstreamRequest, response: Response) -> bool:
    return sent.request.method == "HEAD" or response.status in _BODYLESS


def _give_up(line: ServerConnection, response: Response | None) -> None:
    """What came was not taken to its end, so the connection cannot be used again. One that is
    shared goes on without this stream."""
    if not line.is_h2:
        line.close()
    elif response is not None:
        cancel = getattr(response.body, "cancel", None)
        if cancel is not None:
            cancel()


def _joined_cookies(headers: Headers) -> Headers:
    """HTTP/2 sends cookies one by one, HTTP/1 has one line for them."""
    cookies = [value for name, value in headers if name.lower() == b"cookie"]
    if len(cookies) < 2:
        return headers
    return [*without(headers, b"cookie"), (b"cookie", b"; ".join(cookies))]
