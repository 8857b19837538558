"""What is worth telling of a run while it goes: its records in, a few moments out."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from paddock.journal.records import Record, Type
from paddock.model.values import dataclass

_REFUNDS, _LETTERS = "/v1/refunds", "/v3/mail/send"
_MAX_COMPLAINT = 2000
_MAX_DIGITS = 16


@dataclass(frozen=True, slots=True)
class Moment:
    """One line of the story."""

    what: str  # agent, code, fault, recovered, asked, person, refunded, drafted, blocked
    text: str
    step: int | None = None


@dataclass(frozen=True, slots=True)
class Refund:
    """Money that went back, as far as the agent was told."""

    step: int
    charge: str
    cents: int


class Narrator:
    """Watches a run. Of a fork, only what is new is told."""

    def __init__(self, tell: Callable[[Moment], None], *, is_fork: bool = False) -> None:
        self.run: str | None = None
        self.on_begin: Callable[[str], None] | None = None
        self.moments: list[Moment] = []
        self.refunds: list[Refund] = []
        self.complaint = ""  # the end of what the agent wrote to its error output
        self._tell = tell
        self._is_live = not is_fork
        self._actions: dict[int, Mapping[str, Any]] = {}
        self._lost: dict[str, int] = {}  # steps whose answer did not arrive, by idempotency key
        self._is_model_busy = False

    def began(self, run: str, setting: Mapping[str, Any]) -> None:
        self.run = run
        if self.on_begin is not None:
            self.on_begin(run)

    def said(self, stream: str, data: bytes) -> None:
        """What it prints is what the model said; the records have that in its place."""
        if stream == "stderr":
            self.complaint = (self.complaint + data.decode("utf-8", "replace"))[-_MAX_COMPLAINT:]

    def told(self, record: Record) -> None:
        body, step = record.body, record.step
        if record.type is Type.NOTED and body.get("what") == "live":
            self._is_live = True
        elif step is None:
            return
        elif record.type is Type.PROPOSED:
            self._actions[step] = body
        elif step in self._actions and self._is_live:
            self._follow(record.type, step, body)

    def count(self, what: str) -> int:
        """How many moments of this kind there were."""
        return sum(one.what == what for one in self.moments)

    def _follow(self, type: Type, step: int, body: Mapping[str, Any]) -> None:
        match type:
            case Type.DECIDED:
                self._decided(step, body)
            case Type.ANSWERED:
                reason = f": {body['reason']}" if body.get("reason") else ""
                self._add("person", f"{body.get('state')}{reason}", step)
            case Type.SETTLED:
                self._settled(step, body)
            case _:
                return

    def _decided(self, step: int, body: Mapping[str, Any]) -> None:
        name, why = _named(self._actions[step]), body.get("why")
        match body.get("verdict"):
            case "block":
                self._add("blocked", f"{name}: {why}", step)
            case "ask":
                self._add("asked", f"{name}: {why}", step)
            case "fault":
                self._fault(step, name, body.get("fault") or {})
            case "allow" if (code := _code(self._actions[step])) is not None:
                self._add("code", code, step)

    def _fault(self, step: int, name: str, fault: Mapping[str, Any]) -> None:
        if "after" in fault:
            self._lost[_key(self._actions[step])] = step
            self._add("fault", f"{name}: it is done, and the answer is lost on its way", step)
            return
        self._is_model_busy = self._actions[step].get("kind") == "model"
        self._add("fault", f"{name}: {fault.get('status')}, busy", step)

    def _settled(self, step: int, body: Mapping[str, Any]) -> None:
        action, outcome = self._actions[step], body.get("outcome")
        if outcome == "drafted":
            self._add("drafted", f"{_named(action)}: it waits for a person, unsent", step)
        elif outcome != "simulated" or not _is_good(body.get("result")):
            return
        elif action.get("kind") == "model":
            self._answered(step, body["result"].get("answer") or {})
        elif (cents := _cents(action)) is not None:
            self._refunded(step, action, cents)

    def _answered(self, step: int, answer: Mapping[str, Any]) -> None:
        if self._is_model_busy:
            self._is_model_busy = False
            self._add("recovered", "the SDK waited as it was told, and asked again", step)
        if answer.get("text"):
            self._add("agent", str(answer["text"]), step)

    def _refunded(self, step: int, action: Mapping[str, Any], cents: int) -> None:
        lost_at = self._lost.get(_key(action))
        if lost_at not in (None, step):
            self._add("recovered", "sent again with the same idempotency key: paid once", step)
            return
        self.refunds.append(Refund(step, str(action["arguments"]["body"].get("charge")), cents))
        if lost_at is None:
            self._add("refunded", money(cents), step)

    def _add(self, what: str, text: str, step: int | None = None) -> None:
        moment = Moment(what, text, step)
        self.moments.append(moment)
        self._tell(moment)


def money(cents: int) -> str:
    """As people write it."""
    return f"{cents // 100}.{cents % 100:02d}"


def _named(action: Mapping[str, Any]) -> str:
    arguments = action.get("arguments") or {}
    body = arguments.get("body")
    if (cents := _cents(action)) is not None:
        return f"refund of {money(cents)}"
    if _is_to(action, _LETTERS) and isinstance(body, Mapping):
        return f"letter to {_recipient(body)}"
    if action.get("kind") == "connect":
        return "connection"
    if action.get("kind") == "model":
        return "question to the model"
    return str(action.get("name"))


def _cents(action: Mapping[str, Any]) -> int | None:
    """The amount, where it is a refund."""
    body = (action.get("arguments") or {}).get("body")
    if not _is_to(action, _REFUNDS) or not isinstance(body, Mapping):
        return None
    amount = str(body.get("amount"))
    return int(amount) if amount.isdecimal() and len(amount) < _MAX_DIGITS else None


def _recipient(letter: Mapping[str, Any]) -> str:
    try:
        return str(letter["personalizations"][0]["to"][0]["email"])
    except (KeyError, IndexError, TypeError):
        return "somebody"


def _is_to(action: Mapping[str, Any], path: str) -> bool:
    arguments = action.get("arguments") or {}
    return arguments.get("path") == path and arguments.get("method") == "POST"


def _is_good(result: Any) -> bool:
    return isinstance(result, Mapping) and result.get("status") == 200


def _key(action: Mapping[str, Any]) -> str:
    return str(((action.get("arguments") or {}).get("headers") or {}).get("idempotency-key"))


def _code(action: Mapping[str, Any]) -> str | None:
    """The first line of a program that the agent wrote itself."""
    argv = (action.get("arguments") or {}).get("argv") or []
    if action.get("kind") != "exec" or len(argv) < 3 or argv[1] != "-c":
        return None
    lines = str(argv[2]).splitlines()
    return f"{lines[0]} ..." if len(lines) > 1 else lines[0]
