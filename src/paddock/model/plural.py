"""Counted things in words."""

from __future__ import annotations


def many(count: int, noun: str, plural: str | None = None) -> str:
    """Return `1 step`, `2 steps`; a plural that is not the noun with `s` is given as well."""
    return f"{count} {noun if count == 1 else plural or noun + 's'}"
