"""That the pages are true: every command that they show does what they say, every file is valid."""

from __future__ import annotations

import re
import shutil
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from cases import for_each
from clients.docs.blocks import ROOT, Block, fits, pages, parse, with_real_ids
from clients.docs.session import Session

PAGES = pages()
RUN = {"console", "sh", "python", "yaml"}
SHOWN = {"text", "json", "js", "html", "toml", "ini"}
# Pages that run the examples once more; by default, others prove the same commands.
THOROUGH = {"docs/agents.md", "docs/approvals.md", "docs/ci.md", "docs/compare.md",
            "docs/files-of-a-run.md", "docs/packages.md", "docs/services/chat.md",
            "docs/services/forge.md", "docs/world.md",
            "examples/pydantic-ai/README.md"}  # fmt: skip
COMMAND = re.compile(r"^(?:    )?(?:\$ |paddock |pip |scripts/)", re.MULTILINE)


def name_of(page: Path) -> str:
    return str(page.relative_to(ROOT))


def pages_to_run() -> list[Any]:
    """Return the pages with something to run, each with its name and its suite."""
    found = []
    for page in PAGES:
        name = name_of(page)
        marks = [pytest.mark.thorough] if name in THOROUGH else []
        if any(isinstance(part, Block) and part.language in RUN for part in parse(page)):
            found.append(pytest.param(page, id=name, marks=marks))
    return found


@pytest.fixture
def place() -> Iterator[Path]:
    """A directory with a short path: the pages show no wrapped lines, and sockets fit below it."""
    made = Path(tempfile.mkdtemp(prefix="pdk-"))
    made.chmod(0o711)  # sandboxes of root run as other users
    yield made
    shutil.rmtree(made, ignore_errors=True)


@pytest.mark.timeout(300)
@pytest.mark.parametrize("page", pages_to_run())
def test_everything_that_the_page_shows_is_true(
    page: Path, place: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    session = Session(place)
    for name, value in session.environment.items():
        monkeypatch.setenv(name, value)
    for part in parse(page):
        monkeypatch.chdir(session.project)
        session.follow(part)


@for_each("page", PAGES)
def test_a_block_is_run_or_says_what_it_is(page: Path) -> None:
    for block in parse(page):
        if not isinstance(block, Block):
            continue
        assert block.language in RUN | SHOWN, f"{block.place}: no language that is known"
        if block.language == "text":
            assert not COMMAND.search(block.text), f"{block.place}: commands that nothing runs"


@for_each("page", PAGES)
def test_no_command_hides_in_an_indented_block(page: Path) -> None:
    outside = re.sub(r"^```.*?^```$", "", page.read_text(), flags=re.DOTALL | re.MULTILINE)
    found = re.findall(r"^\n    (?:\$ .*|paddock .*)", outside, re.MULTILINE)
    assert not found, f"{name_of(page)}: {found}"


def test_blocks_that_are_not_run_say_why(capsys: pytest.CaptureFixture[str]) -> None:
    """Lists them, with `pytest -s`. Few blocks need the real world; a new one raises the number."""
    blocks = [part for page in PAGES for part in parse(page) if isinstance(part, Block)]
    skipped = [f"{block.place}: {block.skipped}" for block in blocks if block.skipped]
    with capsys.disabled():
        print("\nblocks that no test runs:", *skipped, sep="\n  ")
    assert len(skipped) <= 6


@for_each("page", PAGES)
def test_links_lead_to_pages_and_headings_that_are_there(page: Path) -> None:
    text = re.sub(r"^```.*?^```$", "", page.read_text(), flags=re.DOTALL | re.MULTILINE)
    for link in re.findall(r"\]\(([^)\s]+)\)", text):
        if re.match(r"[a-z]+:", link):
            continue
        file, _, heading = link.partition("#")
        target = (page.parent / file).resolve() if file else page
        assert target.exists(), f"{name_of(page)}: {link}"
        if heading:
            assert heading in headings(target), f"{name_of(page)}: {link}"


def headings(page: Path) -> set[str]:
    """Return the anchors of a page, as code hosts make them."""
    found = re.findall(r"^#+ (.+)$", page.read_text(), re.MULTILINE)
    return {re.sub(r"[^\w\- ]", "", title).strip().lower().replace(" ", "-") for title in found}


@for_each(
    "shown, printed, is_true",
    [
        ("a 1", "a 1\n", True),
        ("a …", "  a   27 ms  \n", True),
        ("a … b", "a 27\nb\n", False),
        ("a\n…\nz", "a\nb\nc\nz\n", True),
        ("a\n…\nz", "a\nz\n", True),
        ("a", "a\nb\n", False),
        ("", "x\n", False),
        ("a.c", "abc\n", False),
    ],
)
def test_ellipsis_stands_for_what_varies_and_for_nothing_else(
    shown: str, printed: str, is_true: bool
) -> None:
    assert fits(shown, printed) is is_true


def test_id_that_a_page_shows_stands_for_one_real_id() -> None:
    ids: dict[str, str] = {}
    assert fits("run base4kq7zt2m", "run aaaabbbbcccc\n", ids)
    assert with_real_ids("paddock show base4kq7zt2m", ids) == "paddock show aaaabbbbcccc"
    assert fits("base4kq7zt2m again", "aaaabbbbcccc again\n", ids)
    assert not fits("base4kq7zt2m again", "ddddbbbbcccc again\n", ids)
