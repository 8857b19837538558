"""That the page on tools tells the truth: its examples run, and it names all that there is."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest

from paddock.doors import tools
from paddock.gate.gate import Gate

PAGE = (Path(__file__).resolve().parents[4] / "docs" / "tools.md").read_text()
BLOCKS = re.findall(r"```(\w+)\n(.*?)```", PAGE, re.DOTALL)
FRAMEWORKS = {"langchain_core": "LangChain", "agents": "OpenAI Agents"}


def is_of(framework: str, code: str) -> bool:
    return f"from {framework}" in code


@pytest.fixture
def names(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Any:
    """What the examples have defined, after all that need no framework."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("PADDOCK_HOME", str(tmp_path / "home"))
    found: dict[str, Any] = {"__name__": "page"}
    for kind, code in BLOCKS:
        if kind == "yaml":
            Path("paddock.yaml").write_text(code)
        elif not any(is_of(one, code) for one in FRAMEWORKS):
            exec(compile(code, "docs/tools.md", "exec"), found)  # the page is ours
    yield found
    found["gate"].close()


def test_examples_of_the_page_run(names: dict[str, Any]) -> None:
    assert isinstance(names["gate"], Gate)
    assert len([kind for kind, _ in BLOCKS if kind == "python"]) >= 7


@pytest.mark.parametrize("framework", FRAMEWORKS)
def test_example_for_a_framework_runs(names: dict[str, Any], framework: str) -> None:
    pytest.importorskip(framework, reason=f"{framework} is not installed")
    [code] = [code for _, code in BLOCKS if is_of(framework, code)]
    exec(compile(code, "docs/tools.md", "exec"), names)
    assert names["gated"].name == "send_mail"


@pytest.mark.parametrize("name", tools.__all__)
def test_page_names_everything_that_the_room_offers(name: str) -> None:
    if name in ("Tool", "ToolResult"):  # values that are used, not written down
        return
    assert re.search(rf"\b{name}\b", PAGE), f"docs/tools.md does not mention {name}"


@pytest.mark.parametrize("name", tools.__all__)
def test_everything_that_the_room_offers_can_be_had_and_says_what_it_is(name: str) -> None:
    assert getattr(tools, name).__doc__
    assert set(tools.__all__) == set(tools._HOMES)
