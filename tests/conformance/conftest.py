"""The sandboxes that the conformance tests use, one set for each driver. No test lives here."""

from __future__ import annotations

import os
import shutil
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from paddock import Sandbox, Volume
from paddock.fence.registry import driver_names
from paddock.state.home import new_id

MakeBox = Callable[..., Sandbox]


@pytest.fixture(scope="session", params=driver_names())
def driver(request: pytest.FixtureRequest) -> str:
    """The driver under test. A new one that is registered has the whole suite run over it."""
    name: str = request.param
    return name


@pytest.fixture
def make_box(driver: str) -> Iterator[MakeBox]:
    """Creates sandboxes that end with the test."""
    made: list[Sandbox] = []

    def make(**spec: object) -> Sandbox:
        made.append(Sandbox.create(**spec))  # type: ignore[arg-type]
        return made[-1]

    yield make
    for box in made:
        box.kill()


@pytest.fixture
def box(make_box: MakeBox) -> Sandbox:
    """A sandbox of the test's own."""
    return make_box()


@pytest.fixture(scope="module")
def shared_box(driver: str) -> Iterator[Sandbox]:
    """One for all tests of a file that neither end it nor fill it up."""
    with Sandbox.create() as box:
        yield box


@pytest.fixture
def make_volume(driver: str) -> Iterator[Callable[..., Volume]]:
    """Creates volumes under names of their own. Ask for it before `make_box`."""
    made: list[Volume] = []

    def make(**options: object) -> Volume:
        made.append(Volume.create(f"t-{new_id()}", **options))  # type: ignore[arg-type]
        return made[-1]

    yield make
    for volume in made:
        if volume in Volume.list():
            volume.delete()


@pytest.fixture(scope="module")
def private_home(driver: str) -> Iterator[Path]:
    """A PADDOCK_HOME that only this file uses, for tests that count what lies in it."""
    from paddock.doors.machine.engine import Engine

    outer = os.environ["PADDOCK_HOME"]
    directory = tempfile.mkdtemp(prefix="pdk-")
    os.environ["PADDOCK_HOME"] = os.path.join(directory, "h")
    try:
        yield Path(directory, "h")
        Engine.current().close()
    finally:
        os.environ["PADDOCK_HOME"] = outer
        shutil.rmtree(directory, ignore_errors=True)


@pytest.fixture
def shared_directory(tmp_path: Path) -> Path:
    """A directory of the host to mount."""
    path = tmp_path / "shared"
    path.mkdir()
    return path
