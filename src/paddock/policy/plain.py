"""Patterns as the file writes them."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from paddock.policy.rules import Match


def plain_match(match: Match) -> dict[str, Any]:
    return {
        name: one_or_many([list(one) if isinstance(one, tuple) else one for one in patterns])
        for name, patterns in match.fields
    }


def one_or_many(values: list[Any]) -> Any:
    """A list of one is written as that one."""
    return values[0] if len(values) == 1 else values
