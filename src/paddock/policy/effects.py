"""The effect of a tool's call, computed from its arguments so that none of them hides a write.

The conditions of a tool are tried from the strictest effect down. A condition that fails gives the
strictest effect of all. Because a tool may be more generous than CEL (`"UPDATE"`, `["update"]`, `1`
for true), the arguments are also looked at as such a tool would read them; that can only tighten.
"""

from __future__ import annotations

import json
import unicodedata
from collections.abc import Callable, Iterable, Mapping
from typing import Any

import msgspec

from paddock.model.action import Action, Effect
from paddock.policy.expressions import (
    LOOSEST,
    Expression,
    ExpressionError,
    Scope,
    compile_expression,
)
from paddock.policy.json_bounds import bound
from paddock.policy.tools import STRICTEST_FIRST, TOOL_NAMES, ToolTerms

_TRUTHS = {"true": True, "yes": True, "on": True, "1": True,
           "false": False, "no": False, "off": False, "0": False}  # fmt: skip
STRICTNESS = {effect: number for number, effect in enumerate(reversed(STRICTEST_FIRST))}


class NoEffect(Exception):
    """The file says of no effect that a call has it."""


def strictest(effect: Effect, other: Effect) -> Effect:
    return effect if STRICTNESS[effect] >= STRICTNESS[other] else other


class EffectOf(msgspec.Struct, frozen=True):
    """The effect of calls of one tool."""

    conditions: tuple[tuple[Effect, Expression | bool], ...]  # from the strictest
    keys: frozenset[str] | None = frozenset()  # of args, that conditions read; None for all

    def of(self, action: Action) -> Effect:
        """Return the effect of an action, never looser than it declares itself. Raises NoEffect."""
        first, condition = self.conditions[0]
        if first is action.effect:
            return first
        effect = first if condition is True else self._from_conditions(action)
        return strictest(effect, action.effect)

    def _from_conditions(self, action: Action) -> Effect:
        first = self.conditions[0][0]
        try:
            effect = self._first(action.arguments, action.context)
            if effect is None:
                raise NoEffect(f"no effect of {action.name} fits these arguments")
            return effect if effect is first else self._as_others_read(action, effect)
        except (ExpressionError, _SameKey):
            return first

    def _first(self, arguments: Mapping[str, Any], context: Mapping[str, Any]) -> Effect | None:
        scope = Scope({"args": arguments, "context": context}.__getitem__, self.keys)
        for effect, condition in self.conditions:
            if condition is True or (condition is not False and condition.holds(scope)):
                return effect
        return None

    def _as_others_read(self, action: Action, effect: Effect) -> Effect:
        part = self._part(action.arguments)
        seen = {repr(part)}
        for reading in (_folded, _parsed, _truthful):
            for unwraps in (False, True):
                arguments = _read_with(reading, part, unwraps=unwraps)
                if repr(arguments) in seen:
                    continue
                seen.add(repr(arguments))
                try:
                    other = self._first(arguments, action.context)
                except ExpressionError:
                    continue  # as it stands it could be evaluated; so read, it makes no sense
                effect = strictest(effect, other or effect)
        return effect

    def _part(self, arguments: Mapping[str, Any]) -> Mapping[str, Any]:
        """Return the arguments that conditions read, also under keys that only a generous reader
        takes for theirs."""
        part: Mapping[str, Any] = arguments
        if self.keys is not None:
            wanted = {_folded(key) for key in self.keys}
            part = {key: arguments[key] for key in arguments if _folded(key) in wanted}
        bound(part, LOOSEST, ExpressionError)
        return part


def compile_effect(tool: ToolTerms) -> EffectOf:
    """Compile the effect of a tool. Raises InvalidInput for a condition that is no expression over
    `args` and `context`."""
    if isinstance(tool.effect, Effect):
        return EffectOf(((tool.effect, True),))
    conditions: list[tuple[Effect, Expression | bool]] = []
    for effect, condition in tool.effect:
        if isinstance(condition, bool):
            conditions.append((effect, condition))
        else:
            conditions.append((effect, compile_expression(condition, TOOL_NAMES)))
    return EffectOf(tuple(conditions), _keys(condition for _, condition in conditions))


def _keys(conditions: Iterable[Expression | bool]) -> frozenset[str] | None:
    keys: frozenset[str] = frozenset()
    for condition in conditions:
        if isinstance(condition, bool):
            continue
        if condition.keys is None:
            return None
        keys |= condition.keys
    return keys


class _SameKey(Exception):
    """Two keys that a generous reader takes for one: nobody knows which of them counts."""


def _read_with(reading: Callable[[Any], Any], value: Any, *, unwraps: bool) -> Any:
    if isinstance(value, Mapping):
        read = {key: _read_with(reading, inner, unwraps=unwraps) for key, inner in value.items()}
        return _with_folded_keys(read) if reading is _folded else read
    if isinstance(value, list | tuple):
        if unwraps and len(value) == 1:
            return _read_with(reading, value[0], unwraps=True)
        return [_read_with(reading, inner, unwraps=unwraps) for inner in value]
    return reading(value)


def _with_folded_keys(read: dict[str, Any]) -> dict[str, Any]:
    """Add the values under folded keys, and keep the keys as they stand: conditions name them as
    the file writes them."""
    folded: dict[str, Any] = {}
    for key, value in read.items():
        name = _folded(key)
        if name in folded:
            raise _SameKey
        folded[name] = value
    return {**read, **folded}


def _folded(value: Any) -> Any:
    """Return a text without differences of case, width and surrounding space."""
    if not isinstance(value, str):
        return value
    return unicodedata.normalize("NFKC", value).casefold().strip()


def _parsed(value: Any) -> Any:
    """Return the number or truth value that a text spells, else the value."""
    if not isinstance(value, str) or len(value) > 40:
        return value
    try:
        read = json.loads(value.strip().lower())
    except ValueError:
        return value
    return read if isinstance(read, bool | int | float) else value


def _truthful(value: Any) -> Any:
    """Return the truth value that a word or number commonly stands for, else the value."""
    word = str(value).strip().lower() if isinstance(value, str | int) else ""
    return _TRUTHS.get(word, value)
