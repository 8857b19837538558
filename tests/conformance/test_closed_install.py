"""An installation, a PADDOCK_HOME and a project in directories that nobody else may enter, made
under a umask of 077, as in root's home: everything works as anywhere else."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

import paddock
from conformance.test_templates import fill_root
from paddock.fence import bubblewrap

PROGRAM = Path(__file__).parent / "programs" / "closed_install.py"


@pytest.fixture(scope="module")
def closed(driver: str) -> Iterator[Path]:
    """The directory. Not pytest's own: paths of sockets in it must be short."""
    directory = Path(tempfile.mkdtemp(prefix="pdk-"))
    _install(directory / "venv")
    _close(directory)
    template = directory / "template"  # a root file system has modes of its own
    fill_root(template)
    yield directory
    shutil.rmtree(directory)


def _install(venv: Path) -> None:
    """A virtual environment with copies of what a sandbox is made from. What only the host
    process imports comes from where the tests have it."""
    version = f"python{sys.version_info.major}.{sys.version_info.minor}"
    site = venv / "lib" / version / "site-packages"
    (venv / "bin").mkdir(parents=True)
    real = Path(os.path.realpath(sys.executable))
    (venv / "bin" / "python3").symlink_to(real)
    (venv / "pyvenv.cfg").write_text(f"home = {real.parent}\n")
    package = Path(bubblewrap.find()).parent.parent
    for source in (Path(paddock.__path__[0]), package, package.parent / f"{package.name}.libs"):
        if source.exists():
            shutil.copytree(source, site / source.name)
    (site / "others.pth").write_text(f"{package.parent}\n")


def _close(directory: Path) -> None:
    for path in (directory, *directory.rglob("*")):
        if not path.is_symlink():
            path.chmod(path.stat().st_mode & 0o700)


@pytest.mark.timeout(300)
def test_everything_works_from_an_installation_that_others_cannot_enter(closed: Path) -> None:
    done = subprocess.run(
        [str(closed / "venv/bin/python3"), "-c", PROGRAM.read_text(), str(closed / "template")],
        cwd=closed,
        env={"PATH": os.environ["PATH"], "HOME": str(closed), "PADDOCK_HOME": str(closed / "h")},
        umask=0o077,
        capture_output=True,
        text=True,
    )
    assert done.returncode == 0, done.stderr
    found = json.loads(done.stdout)
    assert found.pop("mount").startswith("\nversion: 1\n")
    assert found == {
        "volume": "kept\n", "code": "cell\n", "snapshot": "snapshot", "fork": "snapshot",
        "app": "app\n", "command": "command\n", "template": "of the template",
        "brought": "brought\n",
    }  # fmt: skip


def test_home_that_was_closed_later_is_opened_again_for_what_sandboxes_see(closed: Path) -> None:
    """As a careful `chmod -R go= ~/.local/share/paddock` leaves it."""
    home = closed / "h2"
    command = [str(closed / "venv/bin/python3"), "-m", "paddock.cli.main", "exec", "--", "true"]
    for _ in range(2):
        done = subprocess.run(
            command,
            cwd="/",
            env={"PATH": os.environ["PATH"], "PADDOCK_HOME": str(home)},
            capture_output=True,
            text=True,
        )
        assert done.returncode == 0, done.stderr
        _close(home)
