"""The executors of a decision: the real thing, a draft, a fault, a refusal, or a stand-in.

An executor gives a Done. It never decides, and it never writes to the journal.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Mapping
from typing import Any, NamedTuple

import msgspec

from paddock.gate.recorded_answers import RecordedOutcome
from paddock.model.action import Action, Outcome
from paddock.model.sizes import parse_duration

MAX_DELAY_S = 3600.0


class Done(msgspec.Struct, frozen=True):
    """The result of an action: for the agent, and (where that is not the same) for the journal."""

    value: Any = None
    record: Any = None
    outcome: Outcome = Outcome.DONE
    error: BaseException | str | None = None
    cost: Mapping[str, Any] = {}
    draft_id: str | None = None

    @property
    def recorded(self) -> Any:
        return self.value if self.record is None else self.record


Live = Callable[[Action], Awaitable[Done]]
Preview = Callable[[Action], Awaitable[Any]]
Rebuild = Callable[[Action, Mapping[str, Any]], Action]
Spoil = Callable[[Mapping[str, Any]], None]
Replay = Callable[[Action, RecordedOutcome], Awaitable["Done"]]


class Handlers(NamedTuple):
    """The functions of a door that carry out one action."""

    live: Live  # does the real thing
    preview: Preview | None = None  # tells beforehand what would come of it
    rebuild: Rebuild | None = None  # makes it anew from other arguments; raises InvalidInput
    simulate: Live | None = None  # has a stand-in answer
    spoil: Spoil | None = None  # has a fault spoil its answer
    replay: Replay | None = None  # gives the answer of a recorded run
    carrier: Action | None = None  # the request that carries it, which faults may strike as well


class Fault(Exception):
    """The error that a fault on purpose gives the agent."""

    def __init__(self, message: str, status: int | None = None) -> None:
        super().__init__(message)
        self.status = status


class ActionRefused(Exception):
    """An action did not happen. The message says why, for the agent to read."""


async def inject(fault: Mapping[str, Any] | None) -> Done:
    """Wait where the fault says so, then fail."""
    options = dict(fault or {})
    delay_s = parse_duration(options["delay"], "fault.delay") if options.get("delay") else 0.0
    if delay_s:
        await asyncio.sleep(min(delay_s, MAX_DELAY_S))
    error = Fault(str(options.get("error") or "The service failed."), options.get("status"))
    return Done(outcome=Outcome.FAULTED, error=error)


async def never(action: Action) -> Done:
    """Refuse: the handler of an action that is never carried out."""
    return refusal("It was refused.")


def refusal(why: str) -> Done:
    return Done(outcome=Outcome.REFUSED, error=ActionRefused(why))


def error_text(error: BaseException | str | None) -> str | None:
    """Return the message of an error; an exception of a tool may fail even at that."""
    if error is None:
        return None
    try:
        return str(error) or type(error).__name__
    except Exception:
        return type(error).__name__
