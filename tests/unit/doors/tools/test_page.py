"""That the page on tools names all that there is; tests/clients/docs runs its examples."""

from __future__ import annotations

import re
from pathlib import Path

from cases import for_each
from paddock.doors import tools

PAGE = (Path(__file__).resolve().parents[4] / "docs" / "tools.md").read_text()


@for_each("name", tools.__all__)
def test_page_names_everything_that_the_room_offers(name: str) -> None:
    if name in ("Tool", "ToolResult"):  # values that are used, not written down
        return
    assert re.search(rf"\b{name}\b", PAGE), f"docs/tools.md does not mention {name}"


@for_each("name", tools.__all__)
def test_everything_that_the_room_offers_can_be_had_and_says_what_it_is(name: str) -> None:
    assert getattr(tools, name).__doc__
    assert set(tools.__all__) == set(tools._HOMES)
