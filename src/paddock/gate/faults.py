"""The schedule of the file's faults, and what their options do before and after the effect.

Chance is a hash, not a stream of random numbers: whether the third GET of a path is struck does not
depend on what else happened meanwhile. The same seed gives the same faults on the same actions.
"""

from __future__ import annotations

import errno
import hashlib
import json
import threading
from collections import Counter
from collections.abc import Iterable, Mapping
from typing import Any, NamedTuple

from paddock.gate.executors import MAX_DELAY_S, Fault
from paddock.model.action import Action, Effect, Kind, Verdict
from paddock.policy.compile import CompiledRule, compile_rule
from paddock.policy.expressions import ExpressionError, is_panic
from paddock.policy.faults import INSTEAD, OF_STATUS, SPOILING, FaultTerms
from paddock.policy.fields import Unmatchable
from paddock.policy.rules import Rule
from paddock.policy.subject import Subject

MAX_THINGS = 1 << 16  # an agent can ask for ever new paths; the oldest are forgotten
TIMEOUT_S = 30.0  # of `after: timeout` that does not say how long
_CHANCES = 1 << 64
_SAFE = frozenset({"GET", "HEAD", "OPTIONS"})
# What makes two actions of a kind the same key; arguments that change with every try do not.
_TELLING: Mapping[Kind, tuple[str, ...]] = {
    Kind.HTTP: ("host", "port", "method", "path"),
    Kind.CONNECT: ("host", "port"),
    Kind.MODEL: ("host", "model"),
    Kind.FILE: ("operation", "path"),
    Kind.EXEC: ("argv",),
}


class FaultPhases(NamedTuple):
    """The options of a fault by the time at which they act."""

    before: Mapping[str, Any]  # wait, or answer in place of the effect
    effect: Mapping[str, Any]  # duplicate, kill, stale: how the effect is carried out
    answer: Mapping[str, Any]  # what is done to the answer, once there is one

    @property
    def is_instead(self) -> bool:
        """Return whether there is no effect at all."""
        return any(word in self.before for word in INSTEAD)


class FaultPlan:
    """The faults of one run, and how often each matched. May be used from any thread."""

    def __init__(self, terms: Iterable[FaultTerms], seed: int = 0) -> None:
        """Compile the terms. Raises InvalidInput when an expression does not compile."""
        self._seed = seed
        self._by_kind: dict[Kind, list[tuple[FaultTerms, CompiledRule]]] = {}
        for fault in terms:
            for kind in fault.kinds:
                compiled = compile_rule(_as_rule(fault), kind)
                self._by_kind.setdefault(kind, []).append((fault, compiled))
        self._matches: Counter[str] = Counter()
        self._struck: Counter[str] = Counter()
        self._things: dict[str, int] = {}
        self._lock = threading.Lock()

    def could_strike(self, action: Action, effect: Effect) -> bool:
        """Return whether any fault is about such an action, whether or not it is its turn now.
        Nothing is counted."""
        faults = self._by_kind.get(action.kind, ())
        subject = Subject(action, effect)
        return any(_matches(compiled, subject) for _, compiled in faults)

    def strike(
        self,
        action: Action,
        step: int,
        effect: Effect | None = None,
        *,
        is_real: bool = False,
    ) -> Mapping[str, Any] | None:
        """Return the options of the fault that strikes the action, with its `id`; of several the
        first of the file. To be called once for each action that is about to be carried out. What
        `is_real` is never done twice, whatever the file says."""
        faults = self._by_kind.get(action.kind)
        if faults is None:
            return None
        subject = Subject(action, action.effect if effect is None else effect)
        matching = [fault for fault, compiled in faults if _matches(compiled, subject)]
        if is_real and (subject.effect.is_write or not _is_free(action)):
            matching = [fault for fault in matching if "duplicate" not in fault.options]
        key = _action_key(action)
        with self._lock:
            # Each is asked, even behind one that strikes: what one counts is no other's matter.
            due = [fault for fault in matching if self._is_due(fault, key, step)]
            if not due:
                return None
            self._struck[due[0].id] += 1
        return {"id": due[0].id, **due[0].options}

    def counts(self) -> dict[str, Any]:
        """Return how often each fault matched and struck, as JSON: a fork of the run goes on from
        it."""
        with self._lock:
            return {
                "matches": dict(self._matches),
                "struck": dict(self._struck),
                "things": dict(self._things),
            }

    def restore(self, counts: Mapping[str, Any]) -> None:
        """Go on where another plan of the same terms was."""
        with self._lock:
            self._matches = Counter(counts["matches"])
            self._struck = Counter(counts["struck"])
            self._things = dict(counts["things"])

    def _is_due(self, fault: FaultTerms, key: str, step: int) -> bool:
        self._matches[fault.id] += 1
        strikes = fault.strikes
        occurrence = self._occurrence(fault.id, key) if strikes.rate < 1 else 0
        if not strikes.could(self._matches[fault.id], self._struck[fault.id], step):
            return False
        seed = self._seed if strikes.seed is None else strikes.seed
        return strikes.rate >= 1 or _random_fraction(seed, fault.id, key, occurrence) < strikes.rate

    def _occurrence(self, fault_id: str, key: str) -> int:
        digest = _digest(fault_id, key).hex()
        number = self._things.pop(digest, 0) + 1
        self._things[digest] = number
        if len(self._things) > MAX_THINGS:
            del self._things[next(iter(self._things))]
        return number


def fault_phases(fault: Mapping[str, Any]) -> FaultPhases:
    """Sort the options of a fault by when they act: before the effect, on it, on its answer."""
    is_late = "after" in fault
    late = {"after", *SPOILING, *((*OF_STATUS, "timeout", "error") if is_late else ())}
    effect = {name: fault[name] for name in ("duplicate", "kill", "stale") if name in fault}
    answer = {name: value for name, value in fault.items() if name in late}
    rest = {k: v for k, v in fault.items() if k not in effect and k not in answer and k != "id"}
    return FaultPhases(rest, effect, answer)


def wait_of(fault: Mapping[str, Any]) -> float:
    """Return for how many seconds nothing happens, before the effect or in place of it."""
    return min(float(fault.get("delay", 0)) + float(fault.get("timeout", 0)), MAX_DELAY_S)


def error_of(fault: Mapping[str, Any]) -> Exception:
    """Return the exception that a function raises in place of its answer, where no wire carries
    one."""
    late = fault.get("after")
    message = fault.get("error")
    if fault.get("reset") or late == "reset":
        return ConnectionResetError(errno.ECONNRESET, message or "Connection reset by peer")
    if fault.get("disk_full"):
        return OSError(errno.ENOSPC, "No space left on device")
    status = late if isinstance(late, int) else fault.get("status")
    if status is None and ("timeout" in fault or late == "timeout"):
        return TimeoutError(message or "timed out")
    return Fault(message or ("The service failed." if status is None else f"HTTP {status}"), status)


def spoiled_value(value: Any, fault: Mapping[str, Any]) -> Any:
    """Return the result of a function as a broken text, where the options spoil answers."""
    if "truncate" not in fault and not fault.get("malformed"):
        return value
    text = value if isinstance(value, str) else json.dumps(value, default=str)
    if fault.get("malformed"):
        text = break_text(text)
    if "truncate" in fault:
        text = text[: cut_at(fault["truncate"], len(text))]
    return text


def cut_at(truncate: int | float, length: int) -> int:
    """Return how much of an answer of that length is left: a share, or at most so many bytes. The
    last is always missing, so that it was cut can be seen."""
    kept = int(length * truncate) if isinstance(truncate, float) else truncate
    return max(0, min(kept, length - 1))


def break_text(text: str) -> str:
    """Return a text that is no JSON any more, whatever it was, and looks like it had been: behind a
    comma no bracket closes anything, and no text ends in one."""
    return text[:-1] + ",}"


def _as_rule(fault: FaultTerms) -> Rule:
    return Rule(
        id=fault.id,
        kinds=fault.kinds,
        decide=Verdict.FAULT,
        match=fault.match,
        unless=fault.unless,
        when=fault.when,
    )


def _matches(compiled: CompiledRule, subject: Subject) -> bool:
    """Return whether the fault matches. Where that cannot be told it does not: a fault permits
    nothing, so nothing is lost."""
    try:
        return compiled.applies(subject)
    except (ExpressionError, Unmatchable):
        return False
    except BaseException as error:
        if not is_panic(error):
            raise
        return False


def _is_free(action: Action) -> bool:
    """Return whether a request that reads costs nothing: a question to a model is read only, and
    paid."""
    return action.arguments.get("method", "GET") in _SAFE


def _action_key(action: Action) -> str:
    """Return a text for the action, without what changes from one try to the next."""
    names = _TELLING.get(action.kind, ())
    values = [action.arguments.get(name) for name in names]
    return json.dumps([action.kind.value, action.name, values], default=str)


def _random_fraction(seed: int, fault_id: str, key: str, occurrence: int) -> float:
    """Return a pseudo-random number from 0 up to, but not including, 1."""
    digest = _digest(str(seed), fault_id, key, str(occurrence))
    return int.from_bytes(digest[:8], "big") / _CHANCES


def _digest(*parts: str) -> bytes:
    text = json.dumps(parts)  # so that no two lists of parts read the same
    return hashlib.sha256(text.encode()).digest()[:16]
