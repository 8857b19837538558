"""The pages about services and data: their examples run, and they name all that there is."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest
import yaml

from cases import for_each
from paddock.world.seeds.custom_fields import _WITH_VALUE, PLAIN
from paddock.world.seeds.generator import _RECIPE_KEYS
from paddock.world.seeds.oddities import MILD, ODDITIES
from paddock.world.seeds.shapes import SHAPES

DOCS = Path(__file__).resolve().parents[3] / "docs"
SERVICES = (DOCS / "writing-a-service.md").read_text()
DATA = (DOCS / "world-data.md").read_text()


def blocks(page: str, language: str) -> list[str]:
    return re.findall(rf"^```{language}\n(.*?)^```", page, re.DOTALL | re.MULTILINE)


@pytest.mark.parametrize("page", ["writing-a-service.md", "world-data.md"])
def test_examples_run_one_after_the_other(
    page: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    names: dict[str, Any] = {"__name__": "page"}
    found = blocks((DOCS / page).read_text(), "python")
    assert found
    for code in found:
        exec(compile(code, page, "exec"), names)
    for name in ("store", "fork"):
        if name in names:
            names[name].close()


def test_the_first_service_has_thirty_lines() -> None:
    first = blocks(SERVICES, "python")[0]
    assert len([line for line in first.splitlines() if line.strip()]) <= 30


def test_seeds_of_the_page_can_be_loaded(tmp_path: Path) -> None:
    from paddock.world.context import Context
    from paddock.world.seeds import load_seed

    (tmp_path / "data").mkdir()
    (tmp_path / "data" / "crm.json").write_text('{"people": []}')
    (tmp_path / "data" / "products.csv").write_text("id,name,price\np1,Kettle,1999\n")
    context = Context("x", "x.example", 443, store=None)  # type: ignore[arg-type]
    seen = 0
    for text in blocks(DATA, "yaml") + blocks(SERVICES, "yaml"):
        content = yaml.safe_load(text)
        for one in content.get("world", {"": content}).values():
            load_seed(one["seed"], context, tmp_path)
            seen += 1
    assert seen == 4


@for_each("name", [*SHAPES, *ODDITIES, *PLAIN, *_RECIPE_KEYS])
def test_the_page_names_every_kind_oddity_field_and_word(name: str) -> None:
    assert f"`{name}`" in DATA


@for_each("name", _WITH_VALUE)
def test_the_page_shows_every_field_with_a_value(name: str) -> None:
    assert f"{{{name}: " in DATA


def test_the_page_tells_which_oddities_come_unasked() -> None:
    rows = re.findall(r"^\| `(\w+)` \|[^|]*\|( yes)? \|$", DATA, re.MULTILINE)
    assert {name for name, _ in rows} == set(ODDITIES)
    assert {name for name, unasked in rows if unasked} == set(MILD)
