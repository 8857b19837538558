"""An action that was decided on, carried out: an upstream answers, layers see to the answer, and
whatever goes wrong becomes an answer, too.

The gate calls an execution as the executor of an action and records the Done that it returns.
"""

from __future__ import annotations

import contextlib
from typing import TYPE_CHECKING, Any

from paddock.doors.network.answer import answer_failure
from paddock.doors.network.client_disconnect import ClientDisconnected
from paddock.doors.network.context import REBINDING, STAND_IN
from paddock.doors.network.exchange import BadMessage, HttpExchange
from paddock.doors.network.layers.client_side import ClientSide
from paddock.doors.network.layers.path import AnswerPath
from paddock.doors.network.origin import Origin
from paddock.doors.network.request import RequestProposal
from paddock.doors.network.secrets.keeper import Revoked
from paddock.doors.network.transport.dial import DialError, DialFailure, DialRefused
from paddock.doors.network.transport.pool import UpstreamUnreachable
from paddock.doors.network.transport.stream import ConnIdle, ConnLost
from paddock.doors.network.upstream.base import Upstream
from paddock.doors.network.upstream.live import SecretInClearText
from paddock.doors.network.upstream_request import MisplacedPlaceholder
from paddock.gate.executors import Done
from paddock.model.action import Action, Outcome
from paddock.world.service import StandInFailed

if TYPE_CHECKING:
    from paddock.doors.network.context import DoorContext

_STATUSES = {DialFailure.TIMED_OUT: 504, DialFailure.NOT_ALLOWED: 403, DialFailure.BUSY: 503}


class RequestExecution:
    """The executor of one request: a live or a stand-in upstream behind all layers."""

    def __init__(
        self,
        context: DoorContext,
        exchange: HttpExchange,
        origin: Origin,
        proposal: RequestProposal,
        upstream: Upstream,
    ) -> None:
        self._context = context
        self._client = ClientSide(exchange)
        self._origin = origin
        self._proposal = proposal
        self._upstream = upstream

    @property
    def is_answered(self) -> bool:
        return self._client.is_answered

    async def __call__(self, action: Action) -> Done:
        path = AnswerPath(self._client, self._context, action, self._proposal.wire)
        try:
            done = await self._upstream.answer(action, path)
        except ClientDisconnected as error:
            return await self._fail_disconnected(path, error)
        except (MisplacedPlaceholder, SecretInClearText) as error:
            origin = self._origin
            self._context.alert_misplaced(error.name, origin.host, origin.port, action.step)
            return await self._fail(path, 403, str(error))
        except Revoked as error:
            return await self._fail(path, 403, str(error))
        except UpstreamUnreachable as error:
            return await self._fail(path, error.status, str(error))
        except DialError as error:
            if isinstance(error, DialRefused):
                about = {"host": self._origin.host, "addresses": ", ".join(error.addresses)}
                self._context.alert(REBINDING, about, action.step)
            return await self._fail(path, _STATUSES.get(error.kind, 502), error.why)
        except StandInFailed as error:
            return await self._fail_stand_in(path, error, action)
        except (ConnLost, BadMessage) as error:
            return await self._fail_broken(path, error)
        if done.outcome is Outcome.REFUSED:
            return done
        record = {**await path.record(), **self._upload_record(), **done.record}
        return Done(done.value, record, done.outcome, done.error, path.cost())

    def _upload_record(self) -> dict[str, Any]:
        """Return the record of a body that streamed by. Of one that was not taken to its end, a
        replay compares what was."""
        sent = self._proposal.sent
        if sent is None or (sent.is_whole and not sent.size):
            return {}
        record = sent.record()
        if not sent.is_whole:
            record["is_part"] = True
        return {"sent": record}

    async def _fail_disconnected(self, path: AnswerPath, error: ClientDisconnected) -> Done:
        """The client did not wait for the answer, or for all of it."""
        self._client.abort()
        done = await self._failed(path, f"The client went away: {error}")
        return Done(outcome=done.outcome, error=done.error, record={**done.record, "left": True})

    async def _fail_stand_in(self, path: AnswerPath, error: StandInFailed, action: Action) -> Done:
        """The agent sees a server that fails; whoever reads the journal sees whose fault it is."""
        about = {"host": self._origin.host, "port": self._origin.port, "why": str(error)}
        self._context.alert(STAND_IN, about, action.step)
        message = f"The service failed: {self._origin.host}."
        done = await self._fail(path, 500, message)
        record = {**done.record, "fault_of": "stand-in", "said": message}
        return Done(outcome=Outcome.FAILED, error=f"the stand-in failed: {error}", record=record)

    async def _fail_broken(self, path: AnswerPath, error: ConnLost | BadMessage) -> Done:
        fault = self._proposal.fault
        if fault is not None:
            return await self._fail(path, fault.status, f"The request is malformed: {fault}.")
        status = 504 if isinstance(error, ConnIdle) else 502
        return await self._fail(path, status, f"{self._origin.host_port}: {error}")

    async def _fail(self, path: AnswerPath, status: int, why: str) -> Done:
        """Tell the client while that is possible; an answer that has begun is cut."""
        scrubber = self._context.custody.scrubber(self._origin.host)
        if scrubber is not None:  # whatever a server said may be part of the reason
            why = scrubber.scrub(why.encode()).decode("utf-8", "replace")
        if self._client.is_answered:
            with contextlib.suppress(ConnLost):
                await self._client.break_off()
            return await self._failed(path, why)
        path.recorder.mark_begin()
        try:
            await answer_failure(self._client, status, why)
        except ClientDisconnected:
            self._client.abort()
        return await self._failed(path, why, status)

    async def _failed(self, path: AnswerPath, why: str, status: int | None = None) -> Done:
        record = await path.recorder.record()
        if status is not None:
            record["status"] = status
        record |= self._upload_record()
        return Done(outcome=Outcome.FAILED, error=why, record=record)


class ReplayExecution:
    """The executor of a request that the record of an earlier run answers. No layer is around the
    client: what was recorded has passed them all."""

    def __init__(self, exchange: HttpExchange, upstream: Upstream) -> None:
        self._client = ClientSide(exchange)
        self._upstream = upstream

    @property
    def is_answered(self) -> bool:
        return self._client.is_answered

    async def __call__(self, action: Action) -> Done:
        return await self._upstream.answer(action, self._client)
