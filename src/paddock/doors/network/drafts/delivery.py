"""Sends a request that was kept as a draft: made again from what is known of it, checked before
there is a run of it, and carried out by the door's own code, for real and once. No stand-in answers
it and no fault strikes it, whatever the file has of them.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Iterator, Mapping
from typing import Any

import msgspec
from msgspec.structs import replace

from paddock.doors.network.context import DoorContext
from paddock.doors.network.drafts.request import DraftedRequest, read_drafted, with_secrets
from paddock.doors.network.drafts.shadow_ids import real_ids
from paddock.doors.network.exchange import Headers, HttpRequest
from paddock.doors.network.execution import RequestExecution
from paddock.doors.network.model_actions import as_model_action
from paddock.doors.network.origin import Origin
from paddock.doors.network.request import RequestProposal, method_override, propose, rebuild_action
from paddock.doors.network.secrets.custody import Custody
from paddock.doors.network.secrets.keeper import SecretKeeper
from paddock.doors.network.transport.conn import Conn
from paddock.doors.network.transport.dial import Dialer
from paddock.doors.network.transport.pool import ConnectionPool
from paddock.doors.network.upstream.live import LiveUpstream
from paddock.gate.drafts import Draft, Drafts, Uncertain
from paddock.gate.executors import Done, error_text
from paddock.gate.gate import Gate
from paddock.model.action import Action, Effect, Outcome
from paddock.model.errors import InvalidInput
from paddock.policy.decide import Policy
from paddock.policy.network import Mode, NetworkTerms
from paddock.state.home import Home

SEND_S = 900.0  # from the dialling to the end of the answer
MAX_ANSWER = 1 << 20  # of the answer that is shown; the rest is read and dropped
_MAX_QUOTED = 300
_TLS_PORT = 443
_MOVED = (307, 308)  # nothing was done: the server wants it sent elsewhere


def for_real(policy: Policy) -> Policy:
    """Return the same rules without a world and without faults on purpose."""
    return Policy.of(replace(policy.terms, world=None, faults=()))


class SendableDraft(msgspec.Struct, frozen=True):
    """A drafted request that can be sent: nothing has happened yet."""

    action: Action
    origin: Origin
    proposal: RequestProposal
    network: NetworkTerms

    def rebuild(self, action: Action, words: Mapping[str, Any]) -> Action:
        """With the arguments of an approver. Raises InvalidInput."""
        if (words.get("host"), words.get("port")) != (self.origin.host, self.origin.port):
            raise InvalidInput("The host and the port of a draft cannot be edited.")
        return _as_write(rebuild_action(self.proposal, action, words), self.action.effect)


def read_request(draft: Draft, drafts: Drafts, home: Home, policy: Policy) -> DraftedRequest:
    """Return the drafted request with real ids, to a host that the file reaches. Raises
    InvalidInput."""
    kept = read_drafted(draft.action)
    _reaching(policy, kept.origin)
    ids = real_ids(draft, drafts, home)
    return kept.changed(ids.value, ids.target)


def load_secrets(home: Home, policy: Policy, host: str) -> SecretKeeper:
    """Load the secrets that the host gets, and no others. Raises InvalidInput or HostCannot."""
    terms = {name: secret for name, secret in policy.secrets.items() if secret.is_for(host)}
    if not terms:
        return SecretKeeper(home)
    return SecretKeeper.load(home, terms, base=policy.terms.base)


async def remake(
    kept: DraftedRequest, draft: Draft, keeper: SecretKeeper, policy: Policy
) -> SendableDraft:
    """Return the request as it will be decided on. Raises InvalidInput."""
    network = _reaching(policy, kept.origin)
    request = with_secrets(kept, keeper, policy.secrets).request()
    proposal = await propose(request, kept.origin)
    if proposal.read is None or (kept.spell is not None and proposal.parsed is None):
        raise InvalidInput("its body cannot be read as it was kept")
    if kept.origin.port == _TLS_PORT and kept.origin.scheme == "http":
        raise InvalidInput(f"{kept.origin.host_port} is for TLS; this request came without")
    if (method := method_override(request)) is not None:
        raise InvalidInput(f"it is a {request.method} that asks to be taken for a {method}")
    if as_model_action(proposal, kept.origin) is not None:
        raise InvalidInput("it is a question to a model: nobody waits for the answer any more")
    effect = draft.action.effect if draft.action.effect.is_write else Effect.WRITE
    proposal.action = _as_write(proposal.action, effect)
    return SendableDraft(proposal.action, kept.origin, proposal, network)


@contextlib.contextmanager
def open_delivery(
    draft: SendableDraft, gate: Gate, keeper: SecretKeeper
) -> Iterator[DraftDelivery]:
    """Give the live executor of one draft, with connections of its own."""
    pool = ConnectionPool(Dialer(draft.network), ca=draft.network.ca)
    context = DoorContext(lambda: gate, pool, Custody(keeper), lambda: gate.policy)
    try:
        yield DraftDelivery(context, draft)
    finally:
        pool.close()


class DraftDelivery:
    """Carries out a draft. What may have arrived, and nobody knows, is Uncertain."""

    def __init__(self, context: DoorContext, draft: SendableDraft) -> None:
        self._origin = draft.origin
        self._answer = CollectedAnswer(draft.proposal.request)
        # Not compressed: the journal keeps the answer to be read.
        self._upstream = LiveUpstream(context, draft.origin, draft.proposal, is_plain=True)
        self._execution = RequestExecution(
            context, self._answer, draft.origin, draft.proposal, self._upstream
        )

    async def __call__(self, action: Action) -> Done:
        try:
            async with asyncio.timeout(SEND_S):
                return self._judge(await self._execution(action))
        except TimeoutError:
            why = f"{self._origin.host_port} did not end its answer within {SEND_S:g} s"
            return self._as_failed(Done(outcome=Outcome.FAILED), why)
        except Exception as error:
            if not self._upstream.may_have_arrived:
                raise
            raise Uncertain(f"{_MAYBE}: {error_text(error)}") from error

    def _judge(self, done: Done) -> Done:
        """Tell by the server's answer what came of it."""
        if done.outcome is not Outcome.DONE:
            return self._as_failed(done, error_text(done.error) or "no answer")
        status = int(done.value)
        answered = replace(done, value=self._answer.answer())
        if status < 400 and status not in _MOVED:
            return answered
        why = f"{self._origin.host_port} answered {status}{self._answer.quoted()}"
        if status >= 500:
            return self._as_failed(answered, why)
        return replace(answered, outcome=Outcome.FAILED, error=why)

    def _as_failed(self, done: Done, why: str) -> Done:
        error = Uncertain(f"{_MAYBE}: {why}") if self._upstream.may_have_arrived else why
        return replace(done, outcome=Outcome.FAILED, error=error)


_MAYBE = "it may have been done"


class CollectedAnswer:
    """An exchange without a client: the answer is held in memory, as far as it is shown."""

    def __init__(self, request: HttpRequest) -> None:
        self.request = request
        self._status = 0
        self._body = bytearray()

    def answer(self) -> dict[str, Any]:
        return {"status": self._status, "body": self._body.decode("utf-8", "replace")}

    def quoted(self) -> str:
        text = self._body[: 4 * _MAX_QUOTED].decode("utf-8", "replace").strip()
        return f": {text[:_MAX_QUOTED]}" if text else ""

    async def proceed(self) -> None:
        """Nobody waits for it."""

    async def begin(self, status: int, headers: Headers, reason: bytes = b"") -> None:
        self._status = status

    async def send(self, data: bytes) -> None:
        self._body += data[: MAX_ANSWER - len(self._body)]

    async def finish(self, trailers: Headers | None = None) -> None:
        """It is all here."""

    def abort(self) -> None:
        """Keep what came."""

    async def cut(self) -> None:
        """Keep what came."""

    async def break_off(self) -> None:
        self.abort()

    def is_gone(self) -> bool:
        return False

    def take_over(self) -> Conn:
        raise RuntimeError("a draft does not change the protocol")


def _as_write(action: Action, effect: Effect) -> Action:
    """Return the action as a write: it was captured because it writes, whatever its method looks
    like."""
    return replace(action, effect=effect, is_reversible=False)


def _reaching(policy: Policy, origin: Origin) -> NetworkTerms:
    network = policy.network
    if network is None or network.mode is Mode.NONE:
        raise InvalidInput(
            "the file has no network, so that nothing can be sent under it",
            hint=f"add to it: network: {{allow: [{origin.host_port!r}]}}",
        )
    if network.covers(origin.host, origin.port) is None:
        raise InvalidInput(
            f"network.allow does not reach {origin.host_port}; a world does not count, since"
            " this is sent for real",
            hint=f"add to network.allow: - {origin.host_port}",
        )
    return network
