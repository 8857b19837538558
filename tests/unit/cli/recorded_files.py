"""A real sandbox over a real project, recorded as a run is: its journal has the notes."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from paddock import Sandbox
from paddock.doors.machine.box import Box
from paddock.doors.machine.engine import Engine
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

    def note(self, body: Mapping[str, Any], step: int | None = None) -> None:
        async def write() -> None:
            self.box.passage.gate.note(body, step)

        self.box.engine.call(write())

    def record(self, step: int | None) -> Recorded:
        found = self.recorder.record()
        body = {"what": "files", "tree": found.tree, "changed": len(found.changed)}
        self.note(body if step is not None else {**body, "is_last": True}, step)
        return found


def living(sandbox: Sandbox) -> Living:
    box = Engine.current().boxes[sandbox.sandbox_id]
    return Living(sandbox, box, recorder_of(box))


def create(project: Path, **more: Any) -> Sandbox:
    mount = {"source": str(project), "target": TARGET, "mode": "overlay"}
    return Sandbox.create(mounts=[mount], **more)


def setting(project: Path, hidden: tuple[str, ...] = ()) -> dict[str, Any]:
    mount = {"source": str(project), "target": TARGET, "mode": "overlay", "why": "the project"}
    return {"what": "setting", "cwd": TARGET, "mounts": [mount], "hidden": list(hidden)}


def make_recorded(project: Path, script: str, hidden: tuple[str, ...] = ()) -> Path:
    """The directory of a run that did one thing and has ended."""
    with create(project) as sandbox:
        live = living(sandbox)
        live.note(setting(project, hidden))
        live.record(1)
        live.sh(script)
        live.record(2)
        live.sh(f"echo last > {TARGET}/last.txt; echo home > /home/user/note.txt")
        live.record(None)
        directory = live.directory
    return directory
