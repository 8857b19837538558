"""A run as OpenTelemetry traces (OTLP/JSON, one line): the run is a span, each step one below it.

Names are those of the GenAI conventions. What policy said and what was done are two attributes.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from hashlib import sha256
from typing import Any

from paddock.journal.canonical import canonical_text
from paddock.journal.reader import Reader, Step
from paddock.journal.records import Record, Type

_INTERNAL, _CLIENT = 1, 3  # kinds of span
_OK, _ERROR = 1, 2
_MAX_ATTRIBUTE = 4096
_USAGE = ("input_tokens", "output_tokens")


def as_otel(reader: Reader) -> Iterator[str]:
    """One `ExportTraceServiceRequest`, written span by span."""
    opened = reader.opened()
    run = _Run(opened)
    resource = json.dumps({"attributes": run.resource()})
    yield f'{{"resourceSpans":[{{"resource":{resource},"scopeSpans":[{{'
    yield f'"scope":{json.dumps(run.scope())},"spans":[\n{json.dumps(run.span(*_ends(reader)))}'
    for step in reader.steps():
        yield ",\n" + json.dumps(run.step_span(step))
    yield "]}]}]}\n"


def _ends(reader: Reader) -> tuple[int, bool]:
    """When the last record was written, and whether the run was closed."""
    last, is_closed = reader.opened(), False
    for record in reader.records():
        is_closed = record.type is Type.HEAD and last.type is Type.CLOSED
        last = record
    return last.at, is_closed


class _Run:
    """What all spans of a run share."""

    def __init__(self, opened: Record) -> None:
        self._opened = opened
        self._run = str(opened.body.get("run"))
        self._agent = str(opened.body.get("agent"))
        self._trace_id = sha256(f"trace {self._run}".encode()).hexdigest()[:32]

    def resource(self) -> list[dict[str, Any]]:
        return _attributes(
            {
                "service.name": self._agent,
                "telemetry.sdk.name": "paddock",
                "telemetry.sdk.language": "python",
                "paddock.policy.digest": self._opened.body.get("policy_digest"),
                "paddock.stage": self._opened.body.get("stage"),
            }
        )

    def scope(self) -> dict[str, str]:
        return {"name": "paddock", "version": str(self._opened.body.get("paddock", ""))}

    def span(self, ended_at: int, is_closed: bool) -> dict[str, Any]:
        facts = {
            "gen_ai.operation.name": "invoke_agent",
            "gen_ai.agent.name": self._agent,
            "gen_ai.conversation.id": self._run,
            "paddock.run.is_closed": is_closed,
        }
        return {
            "traceId": self._trace_id,
            "spanId": self._span_id("run"),
            "name": f"invoke_agent {self._agent}",
            "kind": _INTERNAL,
            **_times(self._opened.at, ended_at),
            "attributes": _attributes(facts),
            "status": {},
        }

    def step_span(self, step: Step) -> dict[str, Any]:
        proposed = step.proposed.body if step.proposed else {}
        settled = step.settled.body if step.settled else {}
        parent = proposed.get("parent")
        end = step.settled.at if step.settled else step.records[-1].at
        return {
            "traceId": self._trace_id,
            "spanId": self._span_id(str(step.number)),
            "parentSpanId": self._span_id("run" if parent is None else str(parent)),
            "name": _name(proposed),
            "kind": _CLIENT if proposed.get("kind") in ("http", "model") else _INTERNAL,
            **_times(step.records[0].at, end),
            "attributes": _attributes({"gen_ai.conversation.id": self._run, **_facts(step)}),
            "events": [_event(record) for record in step.records[1:]],
            "status": _status(settled),
        }

    def _span_id(self, name: str) -> str:
        return sha256(f"span {self._run} {name}".encode()).hexdigest()[:16]


def _name(proposed: Mapping[str, Any]) -> str:
    if proposed.get("kind") == "model":
        return f"chat {proposed.get('name')}"
    return f"execute_tool {proposed.get('name', 'unknown')}"


def _facts(step: Step) -> dict[str, Any]:
    proposed = step.proposed.body if step.proposed else {}
    decided = step.decided.body if step.decided else {}
    settled = step.settled.body if step.settled else {}
    context = _mapping(proposed.get("context"))
    is_model = proposed.get("kind") == "model"
    name = proposed.get("name")
    return {
        "gen_ai.operation.name": "chat" if is_model else "execute_tool",
        "gen_ai.request.model" if is_model else "gen_ai.tool.name": name,
        "gen_ai.provider.name": context.get("provider"),
        "gen_ai.tool.type": None if is_model else "function",
        "gen_ai.tool.call.id": context.get("tool_call_id"),
        "gen_ai.tool.call.arguments": proposed.get("arguments"),
        **_usage(_mapping(settled.get("cost"))),
        "mcp.method.name": context.get("mcp_method"),
        "error.type": settled.get("error") and settled.get("outcome"),
        "paddock.step": step.number,
        "paddock.action.kind": proposed.get("kind"),
        "paddock.action.effect": decided.get("effect", proposed.get("effect")),
        "paddock.policy.verdict": decided.get("verdict"),
        "paddock.policy.rule": decided.get("decided_by"),
        "paddock.enforcement.outcome": settled.get("outcome"),
        "paddock.approval.answered_by": settled.get("answered_by"),
    }


def _usage(cost: Mapping[str, Any]) -> dict[str, Any]:
    return {f"gen_ai.usage.{name}": cost.get(name) for name in _USAGE}


def _event(record: Record) -> dict[str, Any]:
    return {
        "timeUnixNano": str(record.at * 1000),
        "name": f"paddock.{record.type}",
        "attributes": _attributes({"paddock.record": record.n}),
    }


def _status(settled: Mapping[str, Any]) -> dict[str, Any]:
    if not settled:
        return {}
    if settled.get("outcome") in ("failed", "refused", "faulted"):
        return {"code": _ERROR, "message": str(settled.get("error") or settled["outcome"])}
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


def _mapping(value: Any) -> Mapping[str, Any]:
    return value if isinstance(value, Mapping) else {}
