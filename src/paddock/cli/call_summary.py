"""An action as one cell of a list: what is called, where, and about how much money. What an agent
chose of it goes through `plain`.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from paddock.cli.call_text import call_text
from paddock.model.money import amount_text
from paddock.model.plain import plain

MOST = 80


def call_summary(
    kind: str | None, name: str | None, arguments: Mapping[str, Any], most: int = MOST
) -> str:
    """`http POST https://api.example/v1/refunds 20.00 EUR`. What is too long loses its middle: the
    amount stays."""
    amount = plain(amount_text(arguments)) if kind == "http" else ""
    end = f" {amount}" if amount else ""
    text = f"{kind or '?'} {call_text(kind, name, {'arguments': arguments})}"
    room = most - len(end)
    return (text if len(text) <= room else f"{text[: room - 3]}...") + end
