"""That the README names all that a user can name: commands, public names, limits, scripts."""

from __future__ import annotations

import re
from dataclasses import fields
from pathlib import Path

import pytest

import paddock
from paddock.cli.main import COMMANDS
from paddock.model.spec import Limits, MountMode

ROOT = Path(__file__).resolve().parents[2]
README = (ROOT / "README.md").read_text()
# Words inside code, where a name means the thing and not an English word.
CODE = "\n".join(re.findall(r"```.*?```|`[^`\n]+`", README, re.DOTALL))


@pytest.mark.parametrize("command", COMMANDS)
def test_readme_shows_every_command(command: str) -> None:
    assert re.search(rf"\bpaddock {command}\b", CODE), f"README.md has no `paddock {command}`"


@pytest.mark.parametrize("name", paddock.__all__)
def test_readme_names_everything_that_the_package_offers(name: str) -> None:
    assert re.search(rf"\b{name}\b", CODE), f"README.md does not mention `{name}`"


@pytest.mark.parametrize("name", [field.name for field in fields(Limits)])
def test_readme_names_every_limit(name: str) -> None:
    as_key = rf'"{name}"\s*:|`{name}`|\b{name}='
    assert re.search(as_key, CODE), f"README.md does not name the limit `{name}`"


@pytest.mark.parametrize("mode", [mode.value for mode in MountMode])
def test_readme_names_every_mount_mode(mode: str) -> None:
    assert re.search(rf'"{mode}"|`{mode}`|:{mode}\b', CODE), f"README.md does not name `{mode}`"


@pytest.mark.parametrize("script", ["scripts/demo", "scripts/test"])
def test_readme_names_the_scripts_on_its_first_screen(script: str) -> None:
    assert script in "\n".join(README.splitlines()[:25])
    assert (ROOT / script).stat().st_mode & 0o100


@pytest.mark.parametrize("name", re.findall(r"\]\(([A-Z]+\.md)\)", README))
def test_documents_that_the_readme_points_to_are_there(name: str) -> None:
    assert (ROOT / name).is_file()


@pytest.mark.parametrize("name", paddock.__all__)
def test_everything_that_the_package_offers_can_be_had_and_says_what_it_is(name: str) -> None:
    assert getattr(paddock, name).__doc__


def test_name_that_the_package_does_not_offer_is_an_ordinary_error() -> None:
    with pytest.raises(AttributeError, match="Sandbx"):
        _ = paddock.Sandbx


def test_lazy_names_and_promised_names_are_the_same() -> None:
    assert {*paddock.__all__, "__version__"} == set(paddock._HOMES)
    assert paddock.__all__ == sorted(paddock.__all__)
