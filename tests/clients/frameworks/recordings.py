"""A framework's agent in a project of its own, run and recorded, and what its record says. No test
lives here."""

from __future__ import annotations

import shutil
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from paddock.model.action import Kind
from paddock.run.files import home_of, store_of
from paddock.run.matching.background import marked
from paddock.run.matching.recorded_step import RecordedStep
from paddock.run.order import order_of
from paddock.run.replay.fork import ForkOptions, fork
from paddock.run.replay.recorded_run import RecordedRun
from paddock.run.replay.replay import PastOptions, replay, rules_for
from paddock.run.session import FinishedRun, run

AGENTS = Path(__file__).with_name("agents")
TIMEOUT_S = 100.0


class Listening:
    """What the agent printed."""

    def __init__(self) -> None:
        self.out = b""

    def began(self, run: str, setting: object) -> None: ...

    def told(self, record: object) -> None: ...

    def said(self, stream: str, data: bytes) -> None:
        if stream == "stdout":
            self.out += data


@dataclass(frozen=True, slots=True)
class Played:
    """A run that is over, with what it printed and what it left on record."""

    project: Path
    ended: FinishedRun
    out: str
    tape: RecordedRun

    def steps(self) -> list[tuple[int, str, str]]:
        """What the agent did: traces that its library sends by the clock are beside that."""
        return [
            (row.number, str(row.kind), row.name) for row in self._rows() if row.background is None
        ]

    def traces(self) -> list[RecordedStep]:
        """What was sent of them."""
        beside = [row for row in self._rows() if row.background is not None]
        return [row for row in beside if row.kind is Kind.HTTP]

    def _rows(self) -> tuple[RecordedStep, ...]:
        return marked(self.tape.steps, rules_for(self.tape, PastOptions()).beside)

    def of(self, kind: Kind) -> list[RecordedStep]:
        return [row for row in self.tape.steps if row.kind is kind]

    def payments(self) -> list[tuple[str, str]]:
        """Method and path of what was asked of the payments provider."""
        asked = [row.arguments for row in self.of(Kind.HTTP)]
        return [(one["method"], one["path"]) for one in asked if one["host"] == "api.stripe.com"]

    def refund(self) -> RecordedStep:
        """The step that pays the money back."""
        return next(row for row in self.tape.steps if row.arguments.get("path") == "/v1/refunds")

    def result(self, row: RecordedStep) -> Mapping[str, Any]:
        result: Mapping[str, Any] = self.tape.settled(row.number).result
        return result

    def file(self, name: str, step: int | None = None) -> str:
        """A file of the project: as the agent left it, or as it was at a step."""
        store = store_of(home_of(self.ended.directory))
        tree = self.tape.last_tree if step is None else self.tape.tree_at(step)
        assert tree is not None
        return b"".join(store.open_blob(store.find(tree, str(self.project), name))).decode()

    def replay(self, vary: tuple[str, ...] = ()) -> Played:
        heard = Listening()
        return self._played(
            replay(self.ended.directory, watch=heard, past=PastOptions(vary=tuple(vary))), heard
        )

    def fork(self, *words: ForkOptions) -> list[Played]:
        heard = [Listening() for _ in words]
        made = fork(self.ended.directory, words, watch=heard)
        return [self._played(*pair) for pair in zip(made, heard, strict=True)]

    def _played(self, ended: FinishedRun, heard: Listening) -> Played:
        return Played(self.project, ended, heard.out.decode(), RecordedRun(ended.directory))


def project_of(framework: str, place: Path) -> Path:
    """A directory with the framework's agent, and the tools, script and files that all have."""
    place.mkdir()
    for source in AGENTS.iterdir():
        if source.is_file():
            shutil.copy(source, place)
    shutil.copytree(AGENTS / "tickets", place / "tickets")
    shutil.copytree(AGENTS / framework, place, dirs_exist_ok=True)
    return place


def record(project: Path, command: list[str], **words: Any) -> Played:
    heard = Listening()
    ended = run(order_of(command, cwd=project, timeout=TIMEOUT_S, **words), heard)
    return Played(project, ended, heard.out.decode(), RecordedRun(ended.directory))
