"""Executions behind a fault on purpose, which may spoil the answer: whoever answers does not
know."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, Protocol

from paddock.doors.network.exchange import Headers, HttpExchange
from paddock.doors.network.faults.layers import with_fault
from paddock.doors.network.faults.stale_answers import StaleAnswers, replay
from paddock.doors.network.layers.base import ExchangeLayer
from paddock.doors.network.request import RequestProposal
from paddock.gate.executors import Done
from paddock.model.action import Action, Outcome


class UpstreamExecution(Protocol):
    """Carries an action out by having an upstream answer on an exchange."""

    @property
    def is_answered(self) -> bool:
        """Return whether nothing more is to be told to the client."""
        ...

    async def __call__(self, action: Action) -> Done: ...


MakeExecution = Callable[[HttpExchange], UpstreamExecution]


class AnswerFault:
    """The fault that strikes the answer of one request. Which one it is, is known when the gate has
    decided."""

    def __init__(self, exchange: HttpExchange, place: str, stale: StaleAnswers) -> None:
        self.exchange = exchange
        self._place = place
        self._stale = stale
        self._words: Mapping[str, Any] = {}

    def __call__(self, words: Mapping[str, Any]) -> None:
        self._words = words

    @property
    def is_twice(self) -> bool:
        return "duplicate" in self._words

    def answering(self) -> HttpExchange:
        """Return the exchange as the fault leaves it."""
        learning = self._stale.learning(self.exchange, self._place)
        return with_fault(learning, self._words) if self._words else learning

    async def answer_again(self) -> int | None:
        """Give an earlier answer in place of a new one, where the fault wants that, and return its
        status."""
        if "stale" not in self._words:
            return None
        earlier = self._stale.earlier(self.exchange.request, self._place)
        if earlier is None:
            return None
        await replay(self.exchange, earlier)
        return earlier.status


class FaultyExecution:
    """An execution behind a fault."""

    def __init__(
        self,
        spoiling: AnswerFault,
        make: MakeExecution,
        proposal: RequestProposal,
        outcome: Outcome,
    ) -> None:
        self.is_answered = False
        self._outcome = outcome  # of an answer that is given again: real, or of a stand-in
        self._spoiling = spoiling
        self._make = make
        self._proposal = proposal

    async def __call__(self, action: Action) -> Done:
        status = await self._spoiling.answer_again()
        if status is not None:
            self.is_answered = True
            record = {"status": status, "stale": True}
            return Done(value=status, record=record, outcome=self._outcome)
        if self._spoiling.is_twice and self._proposal.read is not None:
            await self._make(_Unheard(self._spoiling.exchange))(action)
        executor = self._make(self._spoiling.answering())
        try:
            return await executor(action)
        finally:
            self.is_answered = executor.is_answered


class _Unheard(ExchangeLayer):
    """The exchange for the first delivery of a request that is delivered twice: nobody hears its
    answer."""

    async def begin(self, status: int, headers: Headers, reason: bytes = b"") -> None: ...

    async def send(self, data: bytes) -> None: ...

    async def finish(self, trailers: Headers | None = None) -> None: ...

    def abort(self) -> None: ...
