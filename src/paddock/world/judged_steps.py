"""What an agent did, step by step, as far as verdicts on faults need it. The arguments of an action
may hold anything, so what has the wrong shape there is taken for not said.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterator, Mapping
from functools import cached_property
from typing import Any

import msgspec

from paddock.journal.log import RunLog
from paddock.model.action import Kind, Outcome
from paddock.model.events import Asked, Decided, Proposed, Record, Settled, WorldEnded
from paddock.model.steps import Step
from paddock.policy.faults import INSTEAD

MAX_WHAT = 200
_DONE = frozenset({Outcome.DONE, Outcome.SIMULATED, Outcome.DRAFTED})
_KEY_HEADERS = ("idempotency-key", "x-idempotency-key")
_KEY_NAMES = frozenset({"idempotency_key", "idempotencykey", "client_token", "clienttoken"})
_NO_EFFECT = (*INSTEAD, "kill")
# With these the agent gets no answer, or one that it can see is broken.
_SEEN = ("after", "truncate", "malformed", "wrong_type", "kill")


class JudgedStep:
    """A step as verdicts see it: what was wanted, what a fault did to it, and what came of it."""

    def __init__(self, step: Step, proposed: Proposed) -> None:
        self.step = step
        self.proposed = proposed
        self.place, what = _place_and_what(proposed)  # the host, tool or program
        self.what = what[:MAX_WHAT]  # in one line, for people
        self._whole_what = what

    @property
    def number(self) -> int:
        return self.step.number

    @property
    def kind(self) -> Kind:
        return self.proposed.kind

    @property
    def is_write(self) -> bool:
        effect = self.step.effect
        return self.proposed.effect.is_write or (effect is not None and effect.is_write)

    @cached_property
    def thing(self) -> str:
        """What is equal for tries of the same."""
        if not self.proposed.effect.is_write:
            return _digest([self.kind, self._whole_what])
        record = self.step.record(Proposed)
        assert record is not None
        # Large values are previews in the event; what they really are is in their digests.
        blobs = [(ref.path, ref.sha256) for ref in record.blobs if "/headers" not in ref.path]
        return _digest([self.kind, self._whole_what, _content(self.proposed), blobs])

    @cached_property
    def key(self) -> str | None:
        """The idempotency key, which makes a write safe to repeat."""
        return _idempotency_key(self.proposed.arguments)

    @cached_property
    def fault_terms(self) -> Mapping[str, Any]:
        """What the fault that struck it does; empty if none struck."""
        return {name: value for name, value in self.step.fault.items() if name != "id"}

    @property
    def fault_id(self) -> str:
        """The name of the fault that struck it, or of the rule whose fault it is."""
        if not self.step.fault:
            return ""
        name = self.step.fault.get("id")
        return name if isinstance(name, str) and name else self.step.decided_by or ""

    @property
    def is_asked(self) -> bool:
        return self.step.asked is not None

    @property
    def took_effect(self) -> bool:
        """Whether what was wanted really happened, whatever the agent was told."""
        is_late = "after" in self.fault_terms
        if not is_late and any(name in self.fault_terms for name in _NO_EFFECT):
            return False
        if self.step.status is not None and self.step.status >= 400:
            return False
        if self.step.outcome in _DONE:
            return True
        return is_late and self.step.outcome in (Outcome.FAULTED, Outcome.FAILED)

    @property
    def is_answered(self) -> bool:
        """Whether the agent was told that it happened, and could read what it was told."""
        return self.took_effect and not any(name in self.fault_terms for name in _SEEN)

    @property
    def retry_after_s(self) -> float | None:
        """How long the answer asked the agent to wait."""
        wait_s = self.fault_terms.get("retry_after")
        headers = self.fault_terms.get("headers")
        if wait_s is None and isinstance(headers, Mapping):
            lower = {str(name).lower(): value for name, value in headers.items()}
            wait_s = lower.get("retry-after")
        try:
            return None if wait_s is None or isinstance(wait_s, bool) else float(wait_s)
        except (TypeError, ValueError):
            return None


class JudgedRun(msgspec.Struct):
    """A run as verdicts need it."""

    deeds: list[JudgedStep] = []
    broken: dict[str, list[str]] = {}  # by service, at the end


def read_run(log: RunLog) -> JudgedRun:
    """Read what verdicts need, in one pass over the journal."""
    run = JudgedRun()
    steps: dict[int, list[Record]] = {}
    for record in log.events(Proposed, Decided, Asked, Settled, WorldEnded):
        if isinstance(record.event, WorldEnded):
            broken = {name: held for name, held in record.event.broken.items() if held}
            run.broken = broken or run.broken
        elif record.step is not None:
            steps.setdefault(record.step, []).append(record)
    for number in sorted(steps):
        step = Step(number, steps[number])
        if step.proposed is not None:
            run.deeds.append(JudgedStep(step, step.proposed))
    return run


def _place_and_what(proposed: Proposed) -> tuple[str, str]:
    name, arguments = proposed.name, proposed.arguments
    host = arguments.get("host")
    if not isinstance(host, str):
        host = ""
    match proposed.kind:
        case Kind.HTTP:
            query = f"?{arguments['query']}" if arguments.get("query") else ""
            return host, f"{arguments.get('method')} {host}{arguments.get('path')}{query}"
        case Kind.CONNECT:
            return host, f"{host}:{arguments.get('port')}"
        case Kind.MODEL:
            return host or name, f"{arguments.get('model') or name} at {host}"
        case Kind.EXEC:
            argv = arguments.get("argv")
            return name, " ".join(map(str, argv)) if isinstance(argv, list) else name
        case Kind.FILE:
            return name, f"{name} {arguments.get('path')}"
    return name, name


def _content(proposed: Proposed) -> Any:
    """Return what a write carries, without what makes no two tries equal."""
    arguments = proposed.arguments
    if proposed.kind in (Kind.HTTP, Kind.MODEL):
        body = arguments.get("body")
        return arguments.get("body_sha256") if body is None else _without_key(body)
    return _without_key(arguments)


def _without_key(value: Any) -> Any:
    if not isinstance(value, Mapping):
        return value
    return {name: item for name, item in value.items() if str(name).lower() not in _KEY_NAMES}


def _idempotency_key(arguments: Mapping[str, Any]) -> str | None:
    headers = _mapping(arguments.get("headers"))
    for name in _KEY_HEADERS:
        if headers.get(name):
            return str(headers[name])
    for source in (arguments, _mapping(arguments.get("body"))):
        for name, value in source.items():
            if str(name).lower() in _KEY_NAMES and value:
                return str(value)
    return None


def struck(run: JudgedRun) -> Iterator[JudgedStep]:
    """Yield what a fault struck, in order."""
    return (deed for deed in run.deeds if deed.fault_terms or deed.fault_id)


def _digest(value: Any) -> str:
    text = json.dumps(value, sort_keys=True, default=str)
    return hashlib.sha256(text.encode()).hexdigest()


def _mapping(value: Any) -> Mapping[str, Any]:
    return value if isinstance(value, Mapping) else {}
