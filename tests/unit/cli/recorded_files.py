"""A real sandbox over a real project, recorded as a run is: its journal has the files."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

from paddock import Sandbox
from paddock.doors.machine.box import Box
from paddock.doors.machine.engine import Engine
from paddock.model.events import AnyEvent, Configured, FilesRecorded, MountRecorded
from paddock.run.files import recorder_of
from paddock.state.home import Home
from paddock.state.trees.recorder import Recorded, Recorder

TARGET = "/srv/project"


def make_project(place: Path) -> Path:
    (place / "sub").mkdir(parents=True)
    (place / "a.txt").write_text("one\ntwo\nthree\n")
    (place / "sub" / "b.txt").write_text("b\n")
    (place / "gone.txt").write_text("gone\n")
    return place


@dataclass
class Living:
    """The sandbox, and what records it."""

    sandbox: Sandbox
    box: Box
    recorder: Recorder

    @property
    def directory(self) -> Path:
        return Home.find().runs / self.sandbox.sandbox_id

    def sh(self, script: str) -> str:
        return str(self.sandbox.commands.run(script).stdout)

    def write(self, event: AnyEvent, step: int | None = None) -> None:
        async def write() -> None:
            self.box.actions.gate.record(event, step)

        self.box.engine.call(write())

    def record(self, step: int | None) -> Recorded:
        recorded = self.recorder.record()
        changed = len(recorded.changed)
        self.write(FilesRecorded(recorded.tree, changed, is_last=step is None), step)
        return recorded


def living(sandbox: Sandbox) -> Living:
    box = Engine.current().boxes[sandbox.sandbox_id]
    return Living(sandbox, box, recorder_of(box))


def create(project: Path, **more: Any) -> Sandbox:
    mount = {"source": str(project), "target": TARGET, "mode": "overlay"}
    return Sandbox.create(mounts=[mount], **more)


def configured(project: Path, hidden: tuple[str, ...] = ()) -> Configured:
    mount = MountRecorded(str(project), TARGET, "overlay", "the project")
    return Configured(cwd=TARGET, mounts=[mount], hidden=list(hidden))


def make_recorded(project: Path, script: str, hidden: tuple[str, ...] = ()) -> Path:
    """The directory of a run that did one thing and has ended."""
    with create(project) as sandbox:
        live = living(sandbox)
        live.write(configured(project, hidden))
        live.record(1)
        live.sh(script)
        live.record(2)
        live.sh(f"echo last > {TARGET}/last.txt; echo home > /home/user/note.txt")
        live.record(None)
        directory = live.directory
    return directory
