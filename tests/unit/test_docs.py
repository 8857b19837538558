"""That the pages name all that a user can name, and that the index leads to every page."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

import paddock
from cases import for_each
from paddock.cli.exit_codes import ExitCode
from paddock.model.spec import Limits, MountMode

ROOT = Path(__file__).resolve().parents[2]
README = (ROOT / "README.md").read_text()
SDK = (ROOT / "docs/sdk.md").read_text() + (ROOT / "docs/tools.md").read_text()
# Words inside code, where a name means the thing and not an English word.
CODE = "\n".join(re.findall(r"```.*?```|`[^`\n]+`", SDK, re.DOTALL))


@for_each("name", paddock.__all__)
def test_pages_name_everything_that_the_package_offers(name: str) -> None:
    assert re.search(rf"\b{name}\b", CODE), f"docs/sdk.md and docs/tools.md do not mention `{name}`"


@pytest.mark.parametrize("name", Limits.__struct_fields__)
def test_page_names_every_limit(name: str) -> None:
    as_key = rf'"{name}"\s*:|`{name}`|\b{name}='
    assert re.search(as_key, CODE), f"docs/sdk.md does not name the limit `{name}`"


@pytest.mark.parametrize("mode", [mode.value for mode in MountMode])
def test_page_names_every_mount_mode(mode: str) -> None:
    assert re.search(rf'"{mode}"|`{mode}`', CODE), f"docs/sdk.md does not name `{mode}`"


@pytest.mark.parametrize("script", ["scripts/demo", "scripts/test"])
def test_readme_names_the_scripts_on_its_first_screen(script: str) -> None:
    assert script in "\n".join(README.splitlines()[:25])
    assert (ROOT / script).stat().st_mode & 0o100


def test_readme_fits_on_a_few_screens_and_leads_to_every_page() -> None:
    assert len(README.splitlines()) <= 140
    index = (ROOT / "docs/README.md").read_text()
    pages = [page.relative_to(ROOT / "docs") for page in ROOT.glob("docs/**/*.md")]
    missing = [str(page) for page in pages if f"({page}" not in index and page.name != "README.md"]
    assert not missing, f"docs/README.md does not lead to {missing}"


@for_each("name", paddock.__all__)
def test_everything_that_the_package_offers_can_be_had_and_says_what_it_is(name: str) -> None:
    assert getattr(paddock, name).__doc__


def test_name_that_the_package_does_not_offer_is_an_ordinary_error() -> None:
    with pytest.raises(AttributeError, match="Sandbx"):
        _ = paddock.Sandbx


def test_lazy_names_and_promised_names_are_the_same() -> None:
    assert {*paddock.__all__, "__version__"} == set(paddock._HOMES)
    assert paddock.__all__ == sorted(paddock.__all__)


def test_exit_codes_are_all_in_one_table() -> None:
    rows = re.findall(
        r"^\| (\d+) \| `(\w+)` \|", (ROOT / "docs/exit-codes.md").read_text(), re.MULTILINE
    )
    assert {name: int(code) for code, name in rows} == {code.name: code.value for code in ExitCode}
