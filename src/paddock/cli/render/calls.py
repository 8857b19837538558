"""The call of an action in one line. An agent chose the words: they go through `plain` and are
bounded. There are three forms:

    call_text        the call of an action in the form that suits its kind
    short_call_text  the same for a step whose answer is shown too: of a model only its tokens
    call_summary     one cell of a list: with the kind, or with the amount of a request
"""

from __future__ import annotations

import shlex
from collections.abc import Mapping
from typing import Any

from paddock.cli.render.cells import cut
from paddock.cli.render.units import thousands
from paddock.journal.calls import MAX_CALL, call_words
from paddock.journal.traffic import KINDS, Traffic
from paddock.model.action import Effect, Kind
from paddock.model.events import Proposed, Record
from paddock.model.money import amount_text
from paddock.model.printable import printable
from paddock.model.steps import Step

_MAX_SUMMARY = 80
_DEFAULT_PORTS = {"http": 80, "https": 443}


def call_text(kind: str | None, name: str | None, arguments: Mapping[str, Any]) -> str:
    """Return the call of an action."""
    if kind == Kind.EXEC and isinstance(arguments.get("argv"), list):
        return printable(shlex.join(map(str, arguments["argv"])), MAX_CALL)
    if kind == Kind.FILE:
        to = f" -> {arguments['to']}" if "to" in arguments else ""
        return printable(f"{name} {arguments.get('path')}{to}", MAX_CALL)
    if kind == Kind.CODE:
        return printable(f"{name}: {arguments.get('code')}", MAX_CALL)
    if kind in KINDS and ("host" in arguments or "name" in arguments):
        return printable(_network_call(Kind(kind), name or "", arguments), MAX_CALL)
    return call_words(name, arguments)


def step_call_text(step: Step) -> str:
    """Return the call of a recorded step; its name alone where its arguments are not here, because
    they were stored as a blob."""
    record = step.record(Proposed)
    is_stored_apart = record is not None and record.encoded is not None and not step.arguments
    if record is None or is_stored_apart:
        return printable(step.name or "-", MAX_CALL)
    return call_text(step.kind, step.name, step.arguments)


def short_call_text(step: Step) -> str:
    """Return `POST api.stripe.com/v1/refunds`, `claude-x 1.2k→340 tok`, `git status`."""
    if step.kind is Kind.MODEL:
        return printable(f"{step.arguments.get('model') or step.name}{_tokens(step)}", MAX_CALL)
    traffic = Traffic(step)
    if step.kind is not Kind.HTTP or not traffic.host:
        return step_call_text(step)
    is_default_port = traffic.port in (None, _DEFAULT_PORTS.get(traffic.scheme))
    place = traffic.host if is_default_port else traffic.endpoint
    return printable(f"{traffic.method} {place}{traffic.target or '/'}", MAX_CALL)


def call_summary(
    kind: str | None, name: str | None, arguments: Mapping[str, Any], most: int = _MAX_SUMMARY
) -> str:
    """Return `POST api.example/v1/refunds 20.00 EUR`, `tool refund(amount=2000)`. What is too long
    loses its end, but for the amount."""
    call = call_text(kind, name, arguments)
    if kind != "http":
        return cut(f"{kind or '?'} {call}", most)
    amount = printable(amount_text(arguments))
    end = f" {amount}" if amount else ""
    return cut(call, most - len(end)) + end


def _network_call(kind: Kind, name: str, arguments: Mapping[str, Any]) -> str:
    proposed = Proposed(kind, name, dict(arguments), Effect.READ, True, False)
    traffic = Traffic(Step(0, [Record(n=0, at=0, step=0, event=proposed)]))
    if kind is Kind.MODEL:
        prompt = arguments.get("prompt")
        question = f": {prompt}" if isinstance(prompt, str) and prompt else ""
        return f"{arguments.get('model') or name} at {traffic.endpoint}{traffic.target}{question}"
    if kind is Kind.HTTP:
        return f"{traffic.method} {traffic.url.removeprefix('https://')}"
    return f"{traffic.method or ''} {traffic.endpoint}".strip()


def _tokens(step: Step) -> str:
    counts = [step.cost.get(key) for key in ("input_tokens", "output_tokens")]
    input_tokens, output_tokens = (
        count if type(count) is int and count >= 0 else None for count in counts
    )
    if input_tokens is None or output_tokens is None:
        return ""
    return f" {thousands(input_tokens)}→{thousands(output_tokens)} tok"
