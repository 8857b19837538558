"""How the name of a service in a paddock file becomes a class."""

from __future__ import annotations

import subprocess
import sys
from importlib.metadata import EntryPoint, EntryPoints
from pathlib import Path

import pytest

from paddock.model.errors import InvalidInput
from paddock.policy.world import SERVICES, world_of
from paddock.world.registry import CORE, GROUP, load_service, service_names
from paddock.world.service import Service
from paddock.world.world import World


class Library(Service):
    """Lends books."""

    name = "library"


@pytest.fixture
def install(monkeypatch: pytest.MonkeyPatch) -> object:
    """Make entry points look installed, beside those that are."""

    def add(**targets: str) -> None:
        points = [EntryPoint(name, f"{__name__}:{to}", GROUP) for name, to in targets.items()]
        monkeypatch.setattr("importlib.metadata.entry_points", lambda **_: EntryPoints(points))

    return add


@pytest.mark.parametrize("name", SERVICES)
def test_every_service_that_comes_with_paddock_is_found(name: str) -> None:
    assert load_service(name).name == name


def test_a_service_of_an_installed_package_is_found(install: object) -> None:
    install(library="Library")  # type: ignore[operator]
    assert load_service("library") is Library
    assert "library" in service_names()


def test_no_package_can_take_the_name_of_a_service_of_paddock(install: object) -> None:
    install(payments="Library", draft="Library")  # type: ignore[operator]
    assert load_service("payments") is not Library
    assert load_service("draft") is not Library


def test_an_entry_point_that_is_not_a_service_is_refused(install: object) -> None:
    install(library="CORE")  # type: ignore[operator]
    with pytest.raises(InvalidInput, match="is not a Service"):
        load_service("library")


def test_an_unknown_service_is_refused_with_the_names_of_all(tmp_path: Path) -> None:
    world = world_of({"a.example": "zeppelin"})
    with pytest.raises(InvalidInput) as refused:
        World.open(tmp_path / "world", "run", world, tmp_path)
    assert "there is no service 'zeppelin'; there are app, chat, command" in refused.value.message
    with pytest.raises(InvalidInput) as mistyped:
        load_service("paiments")
    assert mistyped.value.hint == "did you mean payments?"


def test_metadata_of_packages_is_not_read_for_a_service_of_the_core() -> None:
    code = (
        "import sys\nfrom paddock.world.registry import load_service\n"
        f"for name in {sorted(set(CORE) - {'model'})!r}: load_service(name)\n"
        "assert 'importlib.metadata' not in sys.modules"
    )
    subprocess.run([sys.executable, "-c", code], check=True)


def test_starlette_is_not_loaded_with_a_service_that_is_written_with_the_kit() -> None:
    code = (
        "import sys\nfrom paddock.world.registry import load_service\n"
        "load_service('payments')\nassert 'starlette' not in sys.modules"
    )
    subprocess.run([sys.executable, "-c", code], check=True)
