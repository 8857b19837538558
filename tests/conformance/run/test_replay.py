"""A run is recorded, and played again: the agent's program runs, all that comes from outside comes
from the record, and it does the very same."""

from __future__ import annotations

import os
import shutil
from pathlib import Path

import pytest

from paddock.run.order import order_of
from paddock.run.replaying import replay
from paddock.run.running import Ended, run
from paddock.run.tape import Tape

AGENTS = Path(__file__).with_name("agents")
TIMES = int(os.environ.get("PADDOCK_REPLAYS", "20"))
PYTHON = (
    "one_by_one", "with_asyncio", "with_threads", "with_processes", "with_streams", "with_retries",
    "with_chance", "with_clock", "with_state", "with_cookies",
)  # fmt: skip
COMMANDS = {**{name: ["python3", f"{name}.py"] for name in PYTHON}, "as_shell": ["./as_shell.sh"]}


class Listening:
    """What the agent printed."""

    def __init__(self) -> None:
        self.out = b""

    def began(self, run: str, setting: object) -> None: ...

    def told(self, record: object) -> None: ...

    def said(self, stream: str, data: bytes) -> None:
        self.out += data


@pytest.fixture
def project(tmp_path: Path) -> Path:
    place = tmp_path / "project"
    shutil.copytree(AGENTS, place)
    return place


@pytest.mark.timeout(600)
@pytest.mark.parametrize("name", COMMANDS)
def test_replay_does_exactly_what_was_recorded_every_time(name: str, project: Path) -> None:
    recorded, first = played(project, COMMANDS[name])
    assert recorded.exit_code == 0, first
    tape = Tape.read(recorded.directory)
    for _ in range(TIMES):
        heard = Listening()
        again = replay(recorded.directory, watch=heard)
        assert again.divergence is None, again.divergence.text if again.divergence else ""
        assert again.exit_code == 0
        assert comparable(heard.out) == comparable(first)
        assert steps(again) == [(row.step, row.kind, row.name) for row in tape.rows]


def played(project: Path, command: list[str]) -> tuple[Ended, bytes]:
    heard = Listening()
    return run(order_of(command, cwd=project), heard), heard.out


def steps(ended: Ended) -> list[tuple[int, object, str]]:
    return [(row.step, row.kind, row.name) for row in Tape.read(ended.directory).rows]


def comparable(out: bytes) -> list[bytes]:
    """Lines in any order: who of several writers is first is nobody's promise."""
    return sorted(out.splitlines())
