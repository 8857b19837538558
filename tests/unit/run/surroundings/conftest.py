"""A user with a home and a project, and ways to look around from there. No test lives here."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path

import pytest

from paddock import Sandbox
from paddock.run.surroundings import Surroundings, find


@dataclass
class User:
    """Whoever types the command."""

    home: Path
    project: Path
    environ: dict[str, str] = field(default_factory=dict)

    def find(self, *command: str, cwd: Path | None = None) -> Surroundings:
        environ = {"HOME": str(self.home), "PATH": "/usr/bin:/bin", **self.environ}
        return find(command, cwd or self.project, environ)

    def put_first_on_path(self, *directories: Path) -> None:
        words = [*map(str, directories), self.environ.get("PATH", "/usr/bin:/bin")]
        self.environ["PATH"] = ":".join(words)


@pytest.fixture
def user(tmp_path: Path) -> User:
    home = tmp_path / "home"
    project = home / "work" / "project"
    project.mkdir(parents=True)
    return User(home, project)


@pytest.fixture
def run_inside() -> Iterator[Callable[..., str]]:
    """Really runs what was found, and gives its output."""
    made: list[Sandbox] = []

    def run(found: Surroundings, argv: Sequence[str] | None = None) -> str:
        import shlex

        box = Sandbox.create(mounts=found.mount_words(), envs=dict(found.envs))
        made.append(box)
        return box.commands.run(shlex.join(argv or found.argv), cwd=found.cwd).stdout

    yield run
    for box in made:
        box.kill()


def program(path: Path, text: str = "#!/bin/sh\necho ran\n") -> Path:
    """A program that says that it ran."""
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text)
    path.chmod(0o755)
    return path


def real_base() -> Path:
    """The prefix of the interpreter that runs the tests; outside of /usr or in it."""
    return Path(sys.base_prefix)


def link_tree(prefix: Path, of: Path) -> Path:
    """A prefix with a Python as a version manager lays it out; the interpreter is a link."""
    version = f"python{sys.version_info[0]}.{sys.version_info[1]}"
    (prefix / "bin").mkdir(parents=True)
    (prefix / "lib" / version).mkdir(parents=True)
    (prefix / "lib" / version / "os.py").write_text("")
    executable = of / "bin" / version
    os.symlink(executable, prefix / "bin" / version)
    for name in ("python3", "python"):
        os.symlink(version, prefix / "bin" / name)
    return prefix
