"""Values of `--env` are for the agent: no file of the home has them; a replay needs them again."""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from paddock.journal.secrets.value_hmac import ValueHmac
from paddock.model.errors import InvalidInput
from paddock.model.events import Configured
from paddock.run.configuration import given_envs

VALUE = "sw0rdfish-0f-the-caller"
AGENT = "import os, hashlib; print(hashlib.sha256(os.environ['TOKEN'].encode()).hexdigest())\n"


@pytest.fixture
def home() -> Iterator[Path]:
    """A home that no other test uses, so that `last` is ours. And a process must not open the files
    of databases that it uses: to close such a file gives up SQLite's locks on it."""
    with tempfile.TemporaryDirectory(prefix="pdk-") as directory:
        yield Path(directory, "h")


def paddock(
    home: Path, place: Path, *words: str, **environ: str
) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "paddock.cli.main", *words]
    everything = {**os.environ, "PADDOCK_HOME": str(home), **environ}
    return subprocess.run(command, cwd=place, stdin=subprocess.DEVNULL, text=True, timeout=120,
                          env=everything, capture_output=True, check=False)  # fmt: skip


def holding(home: Path, text: str) -> list[str]:
    """The files of the home that have a text in them."""
    found = []
    for directory, _, names in os.walk(home):
        for name in names:
            path = Path(directory, name)
            is_small = path.is_file() and path.stat().st_size < 64 << 20
            if is_small and text.encode() in path.read_bytes():
                found.append(str(path))
    return found


def test_value_is_in_no_file_and_is_needed_again(home: Path, tmp_path: Path) -> None:
    (tmp_path / "agent.py").write_text(AGENT)
    given = f"TOKEN={VALUE}"
    assert paddock(home, tmp_path, "exec", "--env", given, "--", "true").returncode == 0
    done = paddock(home, tmp_path, "run", "-q", "--env", given, "--", "python3", "agent.py")
    assert done.returncode == 0, done.stderr
    assert holding(home, VALUE) == []
    for words in (("replay", "last", "--agent", "-q"), ("fork", "last", "--at", "1", "-q")):
        missing = paddock(home, tmp_path, *words)
        assert missing.returncode == 2
        assert "--env TOKEN=VALUE" in missing.stderr
    again = paddock(home, tmp_path, "replay", "last", "--agent", "-q", "--env", given)
    assert (again.returncode, again.stdout) == (0, done.stdout)
    again = paddock(home, tmp_path, "replay", "last", "--agent", "-q", TOKEN=VALUE)
    assert (again.returncode, again.stdout) == (0, done.stdout)
    future = paddock(home, tmp_path, "fork", "last", "--at", "1", "-q", "--env", given)
    assert (future.returncode, future.stdout) == (0, done.stdout)
    assert holding(home, VALUE) == []


def test_value_of_the_environment_must_be_the_recorded_one() -> None:
    keyed = ValueHmac(bytes(32))
    configured = Configured(given_envs={"A": keyed.of("one")})
    assert given_envs(configured, keyed, {}, {"A": "one"}) == {"A": "one"}
    assert given_envs(configured, keyed, {"A": "two"}, {}) == {"A": "two"}
    with pytest.raises(InvalidInput, match="another value"):
        given_envs(configured, keyed, {}, {"A": "two"})
    with pytest.raises(InvalidInput, match="not set"):
        given_envs(configured, keyed, {}, {})


def test_older_run_has_its_values_itself() -> None:
    assert given_envs(Configured(own_envs={"A": "x"}), ValueHmac(bytes(32)), {}, {}) == {"A": "x"}
