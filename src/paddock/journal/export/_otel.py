"""A run as OpenTelemetry traces (OTLP/JSON, one line): the run is a span, each step one below it.

Names are those of the GenAI conventions. What policy said and what was done are two attributes.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from hashlib import sha256
from typing import Any

from paddock.journal.canonical import canonical_text
from paddock.journal.codec import value_in
from paddock.journal.log import RunLog
from paddock.model.action import Kind, Outcome
from paddock.model.events import Closed, Head, Proposed, Record
from paddock.model.steps import Step

_INTERNAL, _CLIENT = 1, 3  # kinds of span
_OK, _ERROR = 1, 2
_MAX_ATTRIBUTE = 4096
_USAGE = ("input_tokens", "output_tokens")


def as_otel(log: RunLog) -> Iterator[str]:
    """Yield one `ExportTraceServiceRequest`, written span by span."""
    run = _Run(log)
    resource = json.dumps({"attributes": run.resource()})
    yield f'{{"resourceSpans":[{{"resource":{resource},"scopeSpans":[{{'
    yield f'"scope":{json.dumps(run.scope())},"spans":[\n{json.dumps(run.span(*_end(log)))}'
    for step in log.steps():
        yield ",\n" + json.dumps(run.step_span(step))
    yield "]}]}]}\n"


def _end(log: RunLog) -> tuple[int, bool]:
    """Return when the last record was written, and whether the run was closed."""
    last, is_closed = log.opening, False
    for record in log.events():
        is_closed = isinstance(record.event, Head) and isinstance(last.event, Closed)
        last = record
    return last.at, is_closed


class _Run:
    """The facts that all spans of a run share."""

    def __init__(self, log: RunLog) -> None:
        self._opened = log.opened
        self._at = log.opening.at
        self._trace_id = sha256(f"trace {self._opened.run}".encode()).hexdigest()[:32]

    def resource(self) -> list[dict[str, Any]]:
        return _attributes(
            {
                "service.name": self._opened.agent,
                "telemetry.sdk.name": "paddock",
                "telemetry.sdk.language": "python",
                "paddock.policy.digest": self._opened.policy_digest,
                "paddock.stage": self._opened.stage,
            }
        )

    def scope(self) -> dict[str, str]:
        return {"name": "paddock", "version": self._opened.paddock}

    def span(self, ended_at: int, is_closed: bool) -> dict[str, Any]:
        facts = {
            "gen_ai.operation.name": "invoke_agent",
            "gen_ai.agent.name": self._opened.agent,
            "gen_ai.conversation.id": self._opened.run,
            "paddock.run.is_closed": is_closed,
        }
        return {
            "traceId": self._trace_id,
            "spanId": self._span_id("run"),
            "name": f"invoke_agent {self._opened.agent}",
            "kind": _INTERNAL,
            **_times(self._at, ended_at),
            "attributes": _attributes(facts),
            "status": {},
        }

    def step_span(self, step: Step) -> dict[str, Any]:
        is_client = step.kind in (Kind.HTTP, Kind.MODEL)
        end = step.records[-1].at if step.ended_at is None else step.ended_at
        return {
            "traceId": self._trace_id,
            "spanId": self._span_id(str(step.number)),
            "parentSpanId": self._span_id("run" if step.parent is None else str(step.parent)),
            "name": _name(step),
            "kind": _CLIENT if is_client else _INTERNAL,
            **_times(step.records[0].at, end),
            "attributes": _attributes({"gen_ai.conversation.id": self._opened.run, **_facts(step)}),
            "events": [_event(record) for record in step.records[1:]],
            "status": _status(step),
        }

    def _span_id(self, name: str) -> str:
        return sha256(f"span {self._opened.run} {name}".encode()).hexdigest()[:16]


def _name(step: Step) -> str:
    if step.kind is Kind.MODEL:
        return f"chat {step.name}"
    return f"execute_tool {'unknown' if step.proposed is None else step.name}"


def _facts(step: Step) -> dict[str, Any]:
    proposed, settled = step.record(Proposed), step.settled
    is_model = step.kind is Kind.MODEL
    return {
        "gen_ai.operation.name": "chat" if is_model else "execute_tool",
        "gen_ai.request.model" if is_model else "gen_ai.tool.name": step.name if proposed else None,
        "gen_ai.provider.name": step.context.get("provider"),
        "gen_ai.tool.type": None if is_model else "function",
        "gen_ai.tool.call.id": step.context.get("tool_call_id"),
        "gen_ai.tool.call.arguments": value_in(proposed, "arguments") if proposed else None,
        **_usage(step.cost),
        "mcp.method.name": step.context.get("mcp_method"),
        "error.type": step.outcome if step.error else None,
        "paddock.step": step.number,
        "paddock.action.kind": step.kind,
        "paddock.action.effect": step.effect,
        "paddock.policy.verdict": step.verdict,
        "paddock.policy.rule": step.decided_by,
        "paddock.enforcement.outcome": step.outcome,
        "paddock.approval.answered_by": settled.answered_by if settled else None,
    }


def _usage(cost: Mapping[str, Any]) -> dict[str, Any]:
    return {f"gen_ai.usage.{name}": cost.get(name) for name in _USAGE}


def _event(record: Record) -> dict[str, Any]:
    return {
        "timeUnixNano": str(record.at * 1000),
        "name": f"paddock.{record.type}",
        "attributes": _attributes({"paddock.record": record.n}),
    }


def _status(step: Step) -> dict[str, Any]:
    if step.outcome is None:
        return {}
    if step.outcome in (Outcome.FAILED, Outcome.REFUSED, Outcome.FAULTED):
        return {"code": _ERROR, "message": step.error or step.outcome}
    return {"code": _OK}


def _times(start: int, end: int) -> dict[str, str]:
    return {"startTimeUnixNano": str(start * 1000), "endTimeUnixNano": str(end * 1000)}


def _attributes(facts: Mapping[str, Any]) -> list[dict[str, Any]]:
    return [{"key": key, "value": _value(fact)} for key, fact in facts.items() if fact is not None]


def _value(fact: Any) -> dict[str, Any]:
    if isinstance(fact, bool):
        return {"boolValue": fact}
    if isinstance(fact, int):
        return {"intValue": str(fact)}
    if isinstance(fact, float):
        return {"doubleValue": fact}
    text = fact if isinstance(fact, str) else canonical_text(fact)
    return {"stringValue": text[:_MAX_ATTRIBUTE]}
