"""A call of a tool as an action that goes through the gate, in the same way for every adapter."""

from __future__ import annotations

import contextlib
import contextvars
from collections.abc import Mapping
from typing import Any

import msgspec

from paddock.doors.tools.plain import said
from paddock.doors.tools.result import ToolResult, invalid, of_receipt
from paddock.gate.executors import Done, Live, Preview
from paddock.gate.gate import Gate
from paddock.journal.errors import JournalBroken
from paddock.journal.plain_values import as_json
from paddock.model.action import Action, Effect, Kind
from paddock.model.errors import InvalidInput
from paddock.model.events import InvalidCall
from paddock.policy.decide import Policy
from paddock.policy.effects import STRICTNESS
from paddock.policy.tools import ToolTerms

MAX_NESTING = 16  # tools that call tools; each level may hold a thread
_MAX_RECORDED = 2000


class Entry(msgspec.Struct, frozen=True):
    """A tool as it goes to the gate: declared in the file, and in code not looser than there."""

    name: str
    effect: Effect
    is_reversible: bool


class _Inside(msgspec.Struct, frozen=True):
    """The call that is carried out. It links steps; nothing is decided by it."""

    run: str
    step: int | None
    depth: int


_inside: contextvars.ContextVar[_Inside | None] = contextvars.ContextVar("inside", default=None)


def entry(
    policy: Policy, name: str, effect: Effect | None = None, is_reversible: bool | None = None
) -> Entry:
    """Return the entry of a tool. Raises InvalidInput when the file does not declare the tool, or
    is stricter than the code."""
    declared = policy.tools.get(name)
    if declared is None:
        written = f"{{effect: {effect or Effect.WRITE}}}"
        raise InvalidInput(
            f"the paddock file of {policy.agent!r} does not declare the tool {name!r}",
            hint=f"add {name}: {written} to its tools",
        )
    strictest, loosest = _effects(declared)
    if effect is not None and STRICTNESS[effect] < STRICTNESS[strictest]:
        raise InvalidInput(
            f"the tool {name!r} has the effect {effect} in code, and {strictest} in the paddock "
            f"file of {policy.agent!r}",
            hint="say the same in both, or leave effect out of the code",
        )
    if is_reversible and not declared.is_reversible and strictest.is_write:
        raise InvalidInput(
            f"the tool {name!r} is reversible in code, and not in the paddock file of "
            f"{policy.agent!r}",
            hint="add reversible: true there, or leave it out of the code",
        )
    undoable = declared.is_reversible if is_reversible is None else is_reversible
    return Entry(name, effect or loosest, undoable)


async def cross(
    gate: Gate,
    entry: Entry,
    arguments: Mapping[str, Any],
    live: Live,
    preview: Preview | None = None,
    context: Mapping[str, Any] | None = None,
) -> ToolResult:
    """Take a call through the gate. `arguments` must be JSON that nobody else holds."""
    outer = _inside.get()
    depth = 0 if outer is None else outer.depth
    if depth >= MAX_NESTING:
        return invalid(entry.name, f"Tools call each other more than {MAX_NESTING} deep.")
    ran_with: list[Mapping[str, Any]] = []

    async def inside(action: Action) -> Done:
        ran_with.append(action.arguments)
        step = action.step
        token = _inside.set(_Inside(gate.run, step, depth + 1))
        try:
            return await live(action)
        finally:
            _inside.reset(token)

    action = Action(
        kind=Kind.TOOL,
        name=entry.name,
        arguments=arguments,
        effect=entry.effect,
        is_reversible=entry.is_reversible,
        parent=outer.step if outer is not None and outer.run == gate.run else None,
        context=as_json(dict(context or {})),
    )
    try:
        receipt = await gate.cross(action, inside, preview)
    except Exception as error:  # the gate's own trouble is no answer, and no reason to end the host
        return invalid(entry.name, f"The call of {entry.name} was not settled: {said(error)}")
    changed = ran_with[-1] if ran_with and ran_with[-1] != arguments else None
    return of_receipt(entry.name, receipt, changed)


def record_invalid(gate: Gate, result: ToolResult, context: Mapping[str, Any] | None) -> ToolResult:
    """Record a call that could not become an action, because that is evidence too."""
    event = InvalidCall(result.name[:200], result.text[:_MAX_RECORDED], dict(context or {}))
    with contextlib.suppress(JournalBroken):  # nothing happens either way
        gate.record(event)
    return result


def _effects(declared: ToolTerms) -> tuple[Effect, Effect]:
    """Return the strictest and the loosest effect that the file gives the tool."""
    if isinstance(declared.effect, Effect):
        return declared.effect, declared.effect
    effects = [effect for effect, condition in declared.effect if condition is not False]
    effects = effects or [Effect.ADMIN]
    return max(effects, key=STRICTNESS.__getitem__), min(effects, key=STRICTNESS.__getitem__)
