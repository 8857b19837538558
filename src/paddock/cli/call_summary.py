"""An action as one cell of a list: what is called, where, and about how much money. What an agent
chose of it goes through `plain`.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from paddock.cli.call_text import call_text
from paddock.cli.cells import cut
from paddock.model.money import amount_text
from paddock.model.plain import plain

MOST = 80


def call_summary(
    kind: str | None, name: str | None, arguments: Mapping[str, Any], most: int = MOST
) -> str:
    """`POST api.example/v1/refunds 20.00 EUR`, `tool refund(amount=2000)`. What is too long loses
    its end, but for the amount."""
    call = call_text(kind, name, {"arguments": arguments})
    if kind != "http":
        return cut(f"{kind or '?'} {call}", most)
    amount = plain(amount_text(arguments))
    end = f" {amount}" if amount else ""
    return cut(call, most - len(end)) + end
