"""An action as rules see it: with the effect that was computed for it, and its names for CEL."""

from __future__ import annotations

from typing import Any

from paddock.model.action import Action, Effect, Kind
from paddock.policy.expressions import Scope

NAMES = frozenset({"args", "action", "context"})
HTTP_NAMES = frozenset({"host", "method", "path", "query", "headers", "body"})


def names_for(kinds: tuple[Kind, ...]) -> frozenset[str]:
    """Return the names that an expression of a rule for these kinds can read."""
    return NAMES | HTTP_NAMES if kinds == (Kind.HTTP,) else NAMES


class Subject:
    """One action while it is decided on."""

    __slots__ = ("_keys", "_scope", "action", "effect", "memo")

    def __init__(self, action: Action, effect: Effect, keys: frozenset[str] | None = None) -> None:
        self.action = action
        self.effect = effect
        self._keys = keys
        self._scope: Scope | None = None
        self.memo: dict[str, Any] = {}  # the values of fields that were looked at

    @property
    def scope(self) -> Scope:
        """Return the values that expressions read; made when the first one asks."""
        if self._scope is None:
            self._scope = Scope(self._value, self._keys)
        return self._scope

    def _value(self, name: str) -> Any:
        """Return what a name of an expression stands for. Raises KeyError."""
        action = self.action
        if name == "args":
            return action.arguments
        if name == "context":
            return action.context
        if name == "action":
            return {
                "kind": action.kind.value,
                "name": action.name,
                "effect": self.effect.value,
                "reversible": action.is_reversible,
            }
        return action.arguments[name]  # of an HTTP request
