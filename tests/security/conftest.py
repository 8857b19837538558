"""Sandboxes for the attacks, and what on the host is worth reaching. No test lives here."""

from __future__ import annotations

import secrets
import shutil
import subprocess
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from paddock import Sandbox, Volume
from paddock.state.home import new_id

MakeBox = Callable[..., Sandbox]


@pytest.fixture
def make_box() -> Iterator[MakeBox]:
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
def shared_box() -> Iterator[Sandbox]:
    """One for all attempts of a file that leave it as it was."""
    with Sandbox.create() as box:
        yield box


@pytest.fixture
def make_volume() -> Iterator[Callable[..., Volume]]:
    """Creates volumes. Ask for it before `make_box`, so that sandboxes end first."""
    made: list[Volume] = []

    def make(**options: object) -> Volume:
        made.append(Volume.create(f"s-{new_id()}", **options))  # type: ignore[arg-type]
        return made[-1]

    yield make
    for volume in made:
        volume.delete()


@pytest.fixture(scope="session")
def secret() -> str:
    """A text that nothing but the host has; finding it inside is an escape."""
    return f"secret-{secrets.token_hex(16)}"


@pytest.fixture
def secret_file(tmp_path: Path, secret: str) -> Path:
    """A file of the host that everybody may read, beside whatever the test mounts."""
    directory = tmp_path / "outside"
    directory.mkdir()
    path = directory / "key"
    path.write_text(secret)
    path.chmod(0o644)
    return path


@pytest.fixture
def source(tmp_path: Path) -> Path:
    """A directory of the host to mount."""
    path = tmp_path / "source"
    path.mkdir()
    return path


@pytest.fixture(scope="session")
def compile_c(tmp_path_factory: pytest.TempPathFactory) -> Callable[[str, str], bytes]:
    """Turns a C program into an executable, for attempts that no interpreter can make."""
    compiler = shutil.which("gcc") or shutil.which("cc")
    if compiler is None:
        pytest.skip("no C compiler on this host to build the attacking program with")
    directory = tmp_path_factory.mktemp("c")

    def build(name: str, code: str) -> bytes:
        target = directory / name
        target.with_suffix(".c").write_text(code)
        words = [compiler, "-O1", "-w", "-o", str(target), f"{target}.c"]
        subprocess.run(words, check=True, timeout=60)
        return target.read_bytes()

    return build


@pytest.fixture(scope="module")
def shared_source(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A directory of the host that all tests of a file mount."""
    return tmp_path_factory.mktemp("shared")
