"""The decision on a request: it is proposed to the gate, and then carried out or answered with the
reason why not."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import partial
from itertools import chain
from typing import Any

from msgspec.structs import replace

from paddock.doors.network.answer import answer_receipt, answer_refusal
from paddock.doors.network.bodies.memory import BodyRefused, BodyReservation
from paddock.doors.network.context import DENIED, MISMATCH, MISPLACED, DoorContext
from paddock.doors.network.exchange import BadMessage, HttpExchange, HttpRequest
from paddock.doors.network.execution import ReplayExecution, RequestExecution
from paddock.doors.network.faults.execution import (
    AnswerFault,
    FaultyExecution,
    MakeExecution,
    UpstreamExecution,
)
from paddock.doors.network.heavy_work import is_light
from paddock.doors.network.model_actions import as_model_action
from paddock.doors.network.origin import Origin
from paddock.doors.network.request import (
    BodyTerms,
    RequestProposal,
    head_action,
    is_unread,
    method_override,
    propose,
    read_ahead,
    reads_body,
    rebuild_action,
)
from paddock.doors.network.transport.stream import ConnLost
from paddock.doors.network.upstream.base import Upstream
from paddock.doors.network.upstream.draft_reads import DraftReadUpstream
from paddock.doors.network.upstream.live import LiveUpstream
from paddock.doors.network.upstream.recorded import RecordedUpstream
from paddock.doors.network.upstream.stand_in import StandInUpstream
from paddock.gate.executors import Done
from paddock.gate.gate import Gate
from paddock.gate.recorded_answers import RecordedOutcome
from paddock.journal.conversations import CONVERSATION
from paddock.journal.errors import JournalBroken
from paddock.model.action import Action, Outcome, Receipt, Verdict
from paddock.model.errors import InvalidInput

_TLS_PORT = 443


class RequestHandler:
    """Handles the requests of one connection whose destination is known."""

    def __init__(self, context: DoorContext, origin: Origin) -> None:
        self._context = context
        self._origin = origin
        self._agreed: str | None = None  # the authority that was last found to be the origin's

    async def handle(self, exchange: HttpExchange) -> None:
        """Answer one request. Raises ConnLost or BadMessage where that cannot be done."""
        authority = exchange.request.authority
        if authority is not None and authority != self._agreed:
            if not self._origin.is_named(authority):
                await self._refuse_misdirected(exchange)
                return
            self._agreed = authority
        await answer_request(self._context, exchange, self._origin)

    async def _refuse_misdirected(self, exchange: HttpExchange) -> None:
        """Refuse a request whose authority is not the host that the connection leads to."""
        origin, claimed = self._origin, str(exchange.request.authority)[:200]
        action = head_action(exchange.request, origin)
        why = _misdirection(exchange.request, origin)
        about = {"host": origin.host, "port": origin.port, "claimed": claimed}
        receipt = self._context.stop(action, "mismatch", why, MISMATCH, about)
        await answer_refusal(exchange, receipt, 421)


async def answer_request(context: DoorContext, exchange: HttpExchange, origin: Origin) -> None:
    """Decide on one request to one destination, and have it answered."""
    if context.pacer is None:
        await _propose_and_answer(context, exchange, origin)
        return
    with context.pacer.under_way():
        await _propose_and_answer(context, exchange, origin)


async def _propose_and_answer(context: DoorContext, exchange: HttpExchange, origin: Origin) -> None:
    request = exchange.request
    if _is_in_clear(origin):
        await _refuse_in_clear(context, exchange, origin)
        return
    try:
        with context.held.open() as held:
            if request.expects_continue and reads_body(request):
                await exchange.proceed()
            terms = BodyTerms(held, context.work, context.graphql)
            proposal = await _read_request(context, exchange, origin, terms)
            if proposal is not None:
                await _answer_proposed(context, exchange, origin, proposal, held)
    except BodyRefused as error:
        receipt = context.refuse(head_action(request, origin), "limits", str(error))
        await answer_refusal(exchange, receipt, error.status)


async def _read_request(
    context: DoorContext, exchange: HttpExchange, origin: Origin, terms: BodyTerms
) -> RequestProposal | None:
    """Read the request. None where our reader failed and it was refused for that."""
    request = exchange.request
    try:
        return await propose(request, origin, context.keyed, terms)
    except (ConnLost, BadMessage, BodyRefused):
        raise
    except Exception as error:
        receipt = _refuse_unread(context, head_action(request, origin), error)
        await answer_refusal(exchange, receipt)
        return None


async def _answer_proposed(
    context: DoorContext,
    exchange: HttpExchange,
    origin: Origin,
    proposal: RequestProposal,
    held: BodyReservation,
) -> None:
    override = _override(proposal.request)
    if override is not None:
        receipt = context.refuse(proposal.action, "protocol", override)
        await answer_refusal(exchange, receipt)
        return
    name = await _misplaced_secret(context, proposal, origin)
    if name is not None:
        await _refuse_misplaced(context, exchange, proposal, origin, name)
        return
    try:
        gate = context.gate()
        if is_unread(proposal) and gate.needs_body(proposal.action):
            await read_ahead(proposal, held)
        handlers = _Handlers(context, exchange, origin, proposal, gate)
        receipt = await _decide(context, gate, proposal, origin, handlers)
    except (JournalBroken, OSError) as error:
        why = f"It could not be recorded, so it was not done: {error}"
        handlers, receipt = None, Receipt(Outcome.REFUSED, 0, error=why)
    if handlers is not None and handlers.is_answered:
        return
    if is_out_of_reach(receipt):
        context.alert(DENIED, {"host": origin.host, "port": origin.port}, receipt.step)
    await answer_receipt(exchange, receipt)


class _Handlers:
    """The handlers that the gate may call for one request: the real server answers, a stand-in, or
    the record of an earlier run. Each is an execution, behind a fault where the file has any."""

    def __init__(
        self,
        context: DoorContext,
        exchange: HttpExchange,
        origin: Origin,
        proposal: RequestProposal,
        gate: Gate,
    ) -> None:
        self._context = context
        self._exchange = exchange
        self._origin = origin
        self._proposal = proposal
        self._executions: list[UpstreamExecution] = []
        self.spoil: AnswerFault | None = None
        if gate.faults is not None:
            self.spoil = AnswerFault(exchange, origin.host_port, context.stale)
        stand_in = context.stand_in(origin.host, origin.port)
        self.simulate: UpstreamExecution | None = None
        if stand_in is None:
            self.live = self._execution(partial(LiveUpstream, context, origin, proposal))
            return
        self.simulate = self._execution(
            partial(StandInUpstream, context, origin, proposal, stand_in), Outcome.SIMULATED
        )
        self.live = self.simulate  # whatever is decided, nothing is real
        if stand_in.terms.reads_are_real:
            self.live = self._execution(
                partial(DraftReadUpstream, context, origin, proposal, stand_in)
            )

    @property
    def is_answered(self) -> bool:
        return any(execution.is_answered for execution in self._executions)

    async def replay(self, action: Action, recorded: RecordedOutcome) -> Done:
        """Give the answer of the earlier run."""

        def make(exchange: HttpExchange) -> UpstreamExecution:
            upstream = RecordedUpstream(self._proposal, recorded, self._context)
            return ReplayExecution(exchange, upstream)

        return await self._behind_fault(make, recorded.outcome)(action)

    def _execution(
        self, make_upstream: Callable[[], Upstream], outcome: Outcome = Outcome.DONE
    ) -> UpstreamExecution:
        def make(exchange: HttpExchange) -> UpstreamExecution:
            return RequestExecution(
                self._context, exchange, self._origin, self._proposal, make_upstream()
            )

        return self._behind_fault(make, outcome)

    def _behind_fault(self, make: MakeExecution, outcome: Outcome) -> UpstreamExecution:
        execution: UpstreamExecution
        if self.spoil is None:
            execution = make(self._exchange)
        else:
            execution = FaultyExecution(self.spoil, make, self._proposal, outcome)
        self._executions.append(execution)
        return execution


def is_out_of_reach(receipt: Receipt) -> bool:
    """Return whether an action was blocked because its host is not in network.allow."""
    decision = receipt.decision
    is_blocked = decision is not None and decision.verdict is Verdict.BLOCK
    return is_blocked and decision is not None and decision.decided_by == "network"


async def _decide(
    context: DoorContext, gate: Gate, proposal: RequestProposal, origin: Origin, handlers: _Handlers
) -> Receipt:
    """Have the gate decide.

    A request to a model is one action when no rule has anything to say about it as a request.
    Otherwise it is two, one inside the other: to look like a request to a model is no way around
    the rules for requests. Faults on requests strike it in both cases.
    """
    try:
        model = as_model_action(proposal, origin, gate, context.keyed)
    except (JournalBroken, OSError):
        raise
    except Exception as error:
        return _refuse_unread(context, proposal.action, error)
    if (prompt := context.latest_prompt) is not None and model is not None:
        model = replace(model, context={**model.context, "prompt_version": prompt})
    crossing = partial(
        gate.cross, simulate=handlers.simulate, spoil=handlers.spoil, replay=handlers.replay
    )
    if model is None:
        return await crossing(
            proposal.action, handlers.live, rebuild=partial(rebuild_action, proposal)
        )
    if not gate.is_step(proposal.action):
        return await crossing(model, handlers.live, rebuild=_refuse_edit, carrier=proposal.action)
    inner: list[Receipt] = []

    async def within(action: Action) -> Done:
        assert model is not None
        inner_action = replace(model, parent=action.step)
        inner.append(await crossing(inner_action, handlers.live, rebuild=_refuse_edit))
        record = {"model_step": inner[0].step}
        return Done(record=record, outcome=inner[0].outcome, error=inner[0].error)

    async def replay_inner(action: Action, recorded: RecordedOutcome) -> Done:
        return await within(action)

    outer = await gate.cross(
        _with_conversation(proposal.action, model),
        within,
        rebuild=_refuse_edit,
        simulate=None if handlers.simulate is None else within,
        spoil=handlers.spoil,
        replay=replay_inner,
    )
    return inner[0] if inner else outer


def _with_conversation(action: Action, model: Action) -> Action:
    """Return the request around a call of a model as the journal gets it: it names the messages,
    which are stored once. Rules see all of it."""
    named = {key: model.arguments[key] for key in CONVERSATION if key in model.arguments}
    if "conversation" not in named:
        return action
    left = {key: value for key, value in action.arguments.items() if key != "body"}
    return replace(action, recorded={**left, **named})


def _refuse_unread(context: DoorContext, action: Action, error: Exception) -> Receipt:
    """Refuse a request on which our own reader failed: nobody can decide on it."""
    why = f"The request could not be read ({type(error).__name__}), so it was not sent."
    return context.refuse(action, "protocol", why)


async def _refuse_in_clear(context: DoorContext, exchange: HttpExchange, origin: Origin) -> None:
    """Refuse plain HTTP where TLS is spoken. No server answers it, but the values of secrets would
    have gone over the network for everybody to read."""
    action = head_action(exchange.request, origin)
    receipt = context.refuse(action, "protocol", _clear_text(origin))
    await answer_refusal(exchange, receipt)


def refusal_by_door(request: HttpRequest, origin: Origin) -> tuple[str, str] | None:
    """Return who refuses a request whatever the rules say, and why; None where the rules decide."""
    if request.authority is not None and not origin.is_named(request.authority):
        return "mismatch", _misdirection(request, origin)
    if _is_in_clear(origin):
        return "protocol", _clear_text(origin)
    override = _override(request)
    return None if override is None else ("protocol", override)


def _misdirection(request: HttpRequest, origin: Origin) -> str:
    claimed = str(request.authority)[:200]
    return f"The connection leads to {origin.host_port}, but the request is for {claimed!r}."


def _is_in_clear(origin: Origin) -> bool:
    return origin.port == _TLS_PORT and origin.scheme == "http"


def _clear_text(origin: Origin) -> str:
    return f"{origin.host_port} is for TLS; this request came without."


def _override(request: HttpRequest) -> str | None:
    override = method_override(request)
    if override is None:
        return None
    return f"A {request.method} that asks to be taken for a {override} is not let through."


def _refuse_edit(action: Action, words: Mapping[str, Any]) -> Action:
    raise InvalidInput("A request to a model cannot be edited.")


async def _misplaced_secret(
    context: DoorContext, proposal: RequestProposal, origin: Origin
) -> str | None:
    """Return the secret whose placeholder is in a request that it is not for."""
    custody, request = context.custody, proposal.request
    target, body = request.target.encode(errors="replace"), proposal.read or b""
    if not custody or is_light(target, body, *chain.from_iterable(request.headers)):
        return custody.misplaced(proposal, origin.host)
    return await context.work.run(custody.misplaced, proposal, origin.host)


async def _refuse_misplaced(
    context: DoorContext,
    exchange: HttpExchange,
    proposal: RequestProposal,
    origin: Origin,
    name: str,
) -> None:
    """Refuse a request with a placeholder on its way to a host that it is not for."""
    why = f"The placeholder of {name} is not for {origin.host}."
    about = {"secret": name, "host": origin.host, "port": origin.port}
    receipt = context.stop(proposal.action, "secrets", why, MISPLACED, about)
    await answer_refusal(exchange, receipt)
