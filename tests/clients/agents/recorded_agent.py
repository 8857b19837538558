"""An agent in a project of its own, recorded and replayed by the command line, and forked. No test
lives here."""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from clients.frameworks import recordings
from clients.packages import clients
from paddock.model.action import Kind
from paddock.model.errors import InvalidInput
from paddock.run.files import home_of, store_of
from paddock.run.replay.fork import ForkOptions, fork
from paddock.run.replay.recorded_run import RecordedRun
from paddock.state.home import Home
from paddock.state.trees.nodes import NodeKind

PADDOCK = Path(sys.prefix, "bin", "paddock")
PROJECTS = Path(__file__).parent
# These work on a ticket of the support desk; the others have paddock files and tasks of their own.
SUPPORT = ("anthropic", "node", "openai", "pydantic_ai")
BUSY_ONCE = (
    "{id: busy, match: {kind: model}, fault: {status: 429, retry_after: 0}, after: 1, first: 1}"
)
_COMMANDS = {
    "bash": ["bash", "agent.sh", "Please look at issue 1."],
    "node": ["node", "agent.mjs"],
}
_FORKS_AT_ONCE = 2
_TIMEOUT_S = 100


@dataclass(frozen=True, slots=True)
class Ending:
    """How a run ended, as far as two runs of one agent have it in common."""

    exit_code: int | None
    files: dict[str, str]  # digests of what it wrote, by path


@dataclass(frozen=True, slots=True)
class RecordedAgent:
    """A run that is over."""

    name: str
    directory: Path
    tape: RecordedRun

    @property
    def ending(self) -> Ending:
        return ending_of(self.directory)

    def steps(self, kind: Kind) -> list[int]:
        return [row.number for row in self.tape.steps if row.kind is kind and row.within is None]

    def replay(self) -> tuple[int, str, dict[str, Any]]:
        """The exit code, what went to the error output, and the report of a replay."""
        return command("replay", str(self.directory), "--agent", "--json")

    def fork_at(self, steps: Sequence[int], **changes: Any) -> dict[int, Ending | str]:
        """Fork at each of the steps. A fork that was refused is the reason instead of an ending."""

        def one(step: int) -> Ending | str:
            try:
                (ended,) = fork(self.directory, ForkOptions(step, **changes))
            except InvalidInput as refusal:
                return refusal.message
            if ended.divergence is not None:
                return ended.divergence.text
            return replace(ending_of(ended.directory), exit_code=ended.exit_code)

        with ThreadPoolExecutor(_FORKS_AT_ONCE) as threads:
            return dict(zip(steps, threads.map(one, steps), strict=True))


def record(name: str, place: Path, options: Sequence[str] = ()) -> RecordedAgent:
    """Run the agent of that name in a new project, under the project's paddock file."""
    project = project_of(name, place / name)
    words = _COMMANDS.get(name, [sys.executable, "agent.py"])
    faults = ["--fault", BUSY_ONCE] if name in SUPPORT else []
    code, errors, report = command("run", "--json", *faults, *options, "--", *words, cwd=project)
    assert code == 0, errors
    directory = Home.find().runs / report["run"]
    return RecordedAgent(name, directory, RecordedRun(directory))


def project_of(name: str, place: Path) -> Path:
    if name not in SUPPORT:
        return Path(shutil.copytree(PROJECTS / name, place))
    project = recordings.project_of(name, place)
    if name == "node":
        library = Path("node_modules", "openai")
        shutil.copytree(clients() / library, project / library)
    return project


def command(*words: str, cwd: Path | None = None) -> tuple[int, str, dict[str, Any]]:
    """Run `paddock` with `--json`: its exit code, its error output and its object."""
    done = subprocess.run(
        [PADDOCK, *words], cwd=cwd, capture_output=True, text=True, timeout=_TIMEOUT_S
    )
    return done.returncode, done.stderr, json.loads(done.stdout or "{}")


def ending_of(directory: Path) -> Ending:
    tape, store = RecordedRun(directory), store_of(home_of(directory))
    assert tape.last_tree is not None
    files = {
        path: node.digest
        for path, node in store.entries(tape.last_tree)
        # A repository has the times of its commits in it.
        if node.kind is NodeKind.FILE and "/.git/" not in path
    }
    return Ending(tape.exit_code, files)
