"""The steps of a run with the properties that verdicts on faults need.

The arguments of an action may hold anything; a value of the wrong type is treated as absent.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
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
# With these the agent gets no answer, or one that is visibly broken.
_NO_ANSWER = ("after", "truncate", "malformed", "wrong_type", "kill")


class JudgedStep:
    """A step as verdicts see it: the action, the fault that struck it, and the outcome."""

    def __init__(self, step: Step, proposed: Proposed) -> None:
        self.step = step
        self.proposed = proposed
        self.target, description = _describe(proposed)  # the target is a host, tool or program
        self.what = description[:MAX_WHAT]
        self._description = description

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
    def identity(self) -> str:
        """A hash that is equal for retries of the same action."""
        if not self.proposed.effect.is_write:
            return _digest([self.kind, self._description])
        record = self.step.record(Proposed)
        assert record is not None
        # Large values are only previews in the event; their digests identify them.
        blobs = [(ref.path, ref.sha256) for ref in record.blobs if "/headers" not in ref.path]
        return _digest([self.kind, self._description, _content(self.proposed), blobs])

    @cached_property
    def key(self) -> str | None:
        """The idempotency key, with which a write is safe to repeat."""
        return _idempotency_key(self.proposed.arguments)

    @cached_property
    def fault_terms(self) -> Mapping[str, Any]:
        """The terms of the fault that struck the step; empty if none did."""
        return {name: value for name, value in self.step.fault.items() if name != "id"}

    @property
    def fault_id(self) -> str:
        """The name of the fault that struck the step, or of the rule that has the fault."""
        if not self.step.fault:
            return ""
        name = self.step.fault.get("id")
        return name if isinstance(name, str) and name else self.step.decided_by or ""

    @property
    def is_faulted(self) -> bool:
        return bool(self.fault_terms or self.fault_id)

    @property
    def is_asked(self) -> bool:
        return self.step.asked is not None

    @property
    def took_effect(self) -> bool:
        """True if the action really happened, whatever the agent was told."""
        is_after_effect = "after" in self.fault_terms
        if not is_after_effect and any(name in self.fault_terms for name in _NO_EFFECT):
            return False
        if self.step.status is not None and self.step.status >= 400:
            return False
        if self.step.outcome in _DONE:
            return True
        return is_after_effect and self.step.outcome in (Outcome.FAULTED, Outcome.FAILED)

    @property
    def is_answered(self) -> bool:
        """True if the agent got a readable answer that the action had happened."""
        return self.took_effect and not any(name in self.fault_terms for name in _NO_ANSWER)

    @property
    def retry_after_s(self) -> float | None:
        """The wait that the answer asked for."""
        wait_s = self.fault_terms.get("retry_after")
        headers = self.fault_terms.get("headers")
        if wait_s is None and isinstance(headers, Mapping):
            lower = {str(name).lower(): value for name, value in headers.items()}
            wait_s = lower.get("retry-after")
        if wait_s is None or isinstance(wait_s, bool):
            return None
        try:
            return float(wait_s)
        except (TypeError, ValueError):
            return None


class JudgedRun(msgspec.Struct):
    """The steps of a run, and the invariants of each service that are broken at its end."""

    steps: list[JudgedStep] = []
    broken: dict[str, list[str]] = {}


def read_run(log: RunLog) -> JudgedRun:
    """Read what verdicts need, in one pass over the journal."""
    run = JudgedRun()
    steps: dict[int, list[Record]] = {}
    for record in log.events(Proposed, Decided, Asked, Settled, WorldEnded):
        if isinstance(record.event, WorldEnded):
            broken = {name: texts for name, texts in record.event.broken.items() if texts}
            run.broken = broken or run.broken
        elif record.step is not None:
            steps.setdefault(record.step, []).append(record)
    for number in sorted(steps):
        step = Step(number, steps[number])
        if step.proposed is not None:
            run.steps.append(JudgedStep(step, step.proposed))
    return run


def _describe(proposed: Proposed) -> tuple[str, str]:
    """Return the target of an action, and the action in one line."""
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
    """Return the content of a write, without its idempotency key."""
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


def _digest(value: Any) -> str:
    text = json.dumps(value, sort_keys=True, default=str)
    return hashlib.sha256(text.encode()).hexdigest()


def _mapping(value: Any) -> Mapping[str, Any]:
    return value if isinstance(value, Mapping) else {}
