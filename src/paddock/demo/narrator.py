"""The moments of a run that are worth telling while it goes: its records in, a few moments out."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping
from typing import Any

import msgspec

from paddock.journal.traffic import mapping
from paddock.model.action import Kind, Outcome, Verdict
from paddock.model.events import (
    Answered,
    Configured,
    Decided,
    Proposed,
    Record,
    Settled,
    WentLive,
)

_REFUNDS, _LETTERS = "/v1/refunds", "/v3/mail/send"
_MAX_COMPLAINT = 2000
_MAX_DIGITS = 16


class StoryMoment(msgspec.Struct, frozen=True):
    """One line of the story."""

    what: str  # agent, code, fault, recovered, asked, person, refunded, drafted, blocked
    text: str
    step: int | None = None


class Refund(msgspec.Struct, frozen=True):
    """A refund, as far as the agent was told of it."""

    step: int
    charge: str


class Narrator:
    """Watches a run. Of a fork, only what is new is told. `on_begin` gets the id of the run."""

    def __init__(
        self,
        tell: Callable[[StoryMoment], None],
        *,
        is_fork: bool = False,
        on_begin: Callable[[str], None] | None = None,
    ) -> None:
        self.counts: Counter[str] = Counter()  # of moments, by what they are
        self.refunds: list[Refund] = []
        self.complaint = ""  # the end of what the agent wrote to its error output
        self._tell = tell
        self._on_begin = on_begin
        self._is_live = not is_fork
        self._actions: dict[int, Proposed] = {}
        self._lost: dict[str, int] = {}  # steps whose answer did not arrive, by idempotency key
        self._is_model_busy = False

    def began(self, run: str, configured: Configured) -> None:
        if self._on_begin is not None:
            self._on_begin(run)

    def said(self, stream: str, data: bytes) -> None:
        """Print nothing: the agent prints what the model said, and the records have that in its
        place."""
        if stream == "stderr":
            self.complaint = (self.complaint + data.decode("utf-8", "replace"))[-_MAX_COMPLAINT:]

    def told(self, record: Record) -> None:
        event, step = record.event, record.step
        if isinstance(event, WentLive):
            self._is_live = True
        elif isinstance(event, Proposed) and step is not None:
            self._actions[step] = event
        elif step in self._actions and self._is_live:
            action = self._actions[step]
            match event:
                case Decided():
                    self._tell_decision(step, action, event)
                case Answered(state=state, reason=reason):
                    self._add("person", f"{state}: {reason}" if reason else state, step)
                case Settled():
                    self._tell_settlement(step, action, event)

    def _tell_decision(self, step: int, action: Proposed, decided: Decided) -> None:
        match decided.verdict:
            case Verdict.BLOCK:
                self._add("blocked", f"{_named(action)}: {decided.why}", step)
            case Verdict.ASK:
                self._add("asked", f"{_named(action)}: {decided.why}", step)
            case Verdict.FAULT:
                self._tell_fault(step, action, decided.fault or {})
            case Verdict.ALLOW if (code := _code(action)) is not None:
                self._add("code", code, step)

    def _tell_fault(self, step: int, action: Proposed, fault: Mapping[str, Any]) -> None:
        name = _named(action)
        if "after" in fault:
            self._lost[_key(action)] = step
            self._add("fault", f"{name}: it is done, and the answer is lost on its way", step)
            return
        self._is_model_busy = action.kind is Kind.MODEL
        self._add("fault", f"{name}: {fault.get('status')}, busy", step)

    def _tell_settlement(self, step: int, action: Proposed, settled: Settled) -> None:
        result = mapping(settled.result)
        if settled.outcome is Outcome.DRAFTED:
            self._add("drafted", f"{_named(action)}: it waits for a person, unsent", step)
        elif settled.outcome is not Outcome.SIMULATED or result.get("status") != 200:
            return
        elif action.kind is Kind.MODEL:
            self._tell_answer(step, mapping(result.get("answer")))
        elif (cents := _cents(action)) is not None:
            self._tell_refund(step, action, cents)

    def _tell_answer(self, step: int, answer: Mapping[str, Any]) -> None:
        if self._is_model_busy:
            self._is_model_busy = False
            self._add("recovered", "the SDK waited as it was told, and asked again", step)
        if answer.get("text"):
            self._add("agent", str(answer["text"]), step)

    def _tell_refund(self, step: int, action: Proposed, cents: int) -> None:
        lost_at = self._lost.get(_key(action))
        if lost_at not in (None, step):
            self._add("recovered", "sent again with the same idempotency key: paid once", step)
            return
        self.refunds.append(Refund(step, str(_body(action).get("charge"))))
        if lost_at is None:
            self._add("refunded", money(cents), step)

    def _add(self, what: str, text: str, step: int) -> None:
        self.counts[what] += 1
        self._tell(StoryMoment(what, text, step))


def money(cents: int) -> str:
    """Return an amount as people write it."""
    return f"{cents // 100}.{cents % 100:02d}"


def _named(action: Proposed) -> str:
    if (cents := _cents(action)) is not None:
        return f"refund of {money(cents)}"
    if _is_to(action, _LETTERS) and _body(action):
        return f"letter to {_recipient(action)}"
    if action.kind is Kind.CONNECT:
        return "connection"
    if action.kind is Kind.MODEL:
        return "question to the model"
    return action.name


def _cents(action: Proposed) -> int | None:
    """Return the amount, where it is a refund."""
    amount = str(_body(action).get("amount"))
    is_amount = amount.isdecimal() and len(amount) < _MAX_DIGITS
    return int(amount) if is_amount and _is_to(action, _REFUNDS) else None


def _recipient(letter: Proposed) -> str:
    try:
        return str(_body(letter)["personalizations"][0]["to"][0]["email"])
    except (KeyError, IndexError, TypeError):
        return "somebody"


def _is_to(action: Proposed, path: str) -> bool:
    return action.arguments.get("path") == path and action.arguments.get("method") == "POST"


def _body(action: Proposed) -> Mapping[str, Any]:
    return mapping(action.arguments.get("body"))


def _key(action: Proposed) -> str:
    return str(mapping(action.arguments.get("headers")).get("idempotency-key"))


def _code(action: Proposed) -> str | None:
    """Return the first line of a program that the agent wrote itself."""
    argv = action.arguments.get("argv") or []
    if action.kind is not Kind.EXEC or len(argv) < 3 or argv[1] != "-c":
        return None
    lines = str(argv[2]).splitlines()
    return f"{lines[0]} ..." if len(lines) > 1 else lines[0]
