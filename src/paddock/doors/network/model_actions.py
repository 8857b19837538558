"""Requests to a model as `model` actions, and the tool calls in its answers as `tool` actions."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from msgspec.structs import replace

from paddock.doors.network.exchange import header
from paddock.doors.network.origin import Origin
from paddock.doors.network.request import RequestProposal
from paddock.gate.executors import Done
from paddock.gate.gate import Gate
from paddock.journal.secrets.value_hmac import ValueHmac
from paddock.llm.answer import ToolCall
from paddock.llm.formats import Wire, is_vendor, recognise
from paddock.llm.request import describe_request, without_definitions
from paddock.llm.traffic import traffic_format
from paddock.model.action import Action, Effect, Kind
from paddock.policy.decide import Policy

_KEPT = (
    "method", "scheme", "host", "port", "path", "query", "headers", "body_bytes", "body_sha256"
)  # fmt: skip


def as_model_action(
    proposal: RequestProposal,
    origin: Origin,
    gate: Gate | None = None,
    keyed: ValueHmac | None = None,
) -> Action | None:
    """Return the `model` action of a request to a model, or None for any other request. With a
    gate, all messages are stored in its run, each once. Raises JournalBroken."""
    request = proposal.request
    path = proposal.action.arguments["path"]
    body = proposal.parsed if isinstance(proposal.parsed, Mapping) else None
    kind = (header(request.headers, b"content-type") or b"").decode("latin-1")
    wire = recognise(request.method, path, kind or None, body, origin.host)
    if wire is None:
        return None
    description = describe_request(wire, body or {})
    kept = {
        key: proposal.action.arguments[key] for key in _KEPT if key in proposal.action.arguments
    }
    if gate is not None and body is not None:
        messages_key = traffic_format(wire.api).messages_key
        kept |= gate.conversations.request(body, messages_key, keyed)
        description["tools"] = without_definitions(description["tools"])
    proposal.wire, proposal.model_arguments = wire, {**description, **kept}
    if is_vendor(origin.host):
        proposal.action = as_read(proposal.action)
    return Action(
        Kind.MODEL,
        str(description.get("model") or wire.provider),
        proposal.model_arguments,
        proposal.action.effect,
        is_reversible=proposal.action.is_reversible,
        parent=origin.parent,
        context=proposal.action.context,
    )


def as_read(action: Action) -> Action:
    """Return the action as a read: a call of a vendor's model changes nothing there, though it is a
    POST."""
    return replace(action, effect=Effect.READ, is_reversible=True)


def decides_on_calls(policy: Policy) -> bool:
    """Return whether the file says anything about tools; otherwise a model's calls are the agent's
    own."""
    return bool(policy.tools) or any(Kind.TOOL in rule.kinds for rule in policy.rules)


async def refusal_of(gate: Gate, call: ToolCall, wire: Wire, step: int | None) -> str | None:
    """Cross the gate with a call that a model asks for, and return why it is refused, or None."""
    if not call.is_readable:
        return "its arguments cannot be read"
    arguments: Any = call.arguments
    action = Action(
        Kind.TOOL,
        call.name,
        arguments if isinstance(arguments, Mapping) else {"input": arguments},
        Effect.WRITE,
        is_reversible=True,
        parent=step,
        context={"proposed_by": wire.provider, "tool_call_id": call.id},
    )
    receipt = await gate.cross(action, _let_through)
    if receipt.is_done:
        return None
    return receipt.error or f"it was {receipt.outcome.value}"


async def _let_through(action: Action) -> Done:
    """The agent makes the call itself; here it is only let through."""
    return Done(record={"proposed": True})
