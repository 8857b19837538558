"""Any ASGI application as a stand-in. It runs in a pen, with the store of its world."""

from __future__ import annotations

import json
import re
import socket
from importlib.util import find_spec
from pathlib import Path
from typing import Any, ClassVar

from paddock.model.errors import InvalidInput
from paddock.model.version import install_command
from paddock.world.context import Context
from paddock.world.pen import interpreter
from paddock.world.pen.launch import Kept, Limits, own_directory, run_once
from paddock.world.pen.log import said_in
from paddock.world.pen.options import PEN_OPTIONS, environment, memory, reads, seconds
from paddock.world.pen.pen import Pen
from paddock.world.pen.walls import CODE, OWN, Walls
from paddock.world.service import LocalService, Seed, StandInFailed

_NAME = re.compile(r"[A-Za-z_][\w.]*:[A-Za-z_][\w.]*")
_ASK_S = 60.0


class App(LocalService):
    """`{service: app, app: "mypkg.fake_crm:app"}`"""

    name = "app"
    is_rewindable = False
    options: ClassVar = {
        "app": "module:attribute of an ASGI application, of a Service or of what makes one",
        "python": "another interpreter, which has the application's packages and uvicorn",
        "options": "words for the application; it finds them in its context",
        **PEN_OPTIONS,
    }

    def __init__(self, context: Context) -> None:
        super().__init__(context)
        self._pen: Pen | None = None
        self._is_plain = False  # no Service, which could have invariants

    def check(self) -> None:
        if not _NAME.fullmatch(self.target):
            raise InvalidInput(f"app: {self.target!r} is not of the form package.module:attribute")
        if not isinstance(self.context.options.get("options", {}), dict):
            raise InvalidInput("options: expected words with values")
        if "python" not in self.context.options and find_spec("uvicorn") is None:
            hint = install_command("world")
            raise InvalidInput("app needs uvicorn, which is not installed", hint=hint)
        self.kept()

    @property
    def target(self) -> str:
        """What is served, as `module:attribute`."""
        return str(self.context.options.get("app", ""))

    @property
    def project(self) -> Path | None:
        """Where it is imported from."""
        return self.context.project.absolute()

    @property
    def packages(self) -> tuple[Path, ...]:
        """Return the directories of packages that it imports besides Paddock's own."""
        return ()

    async def connect(self) -> socket.socket:
        if self._pen is None:
            self._pen = Pen(self.kept(), self.context.directory)
        return await self._pen.connect()

    async def stuck(self) -> None:
        """It gave no answer in time: the next call starts it anew."""
        if self._pen is not None:
            await self._pen.end()

    async def close(self) -> None:
        if self._pen is not None:
            await self._pen.end()

    async def reset(self) -> None:
        """What it remembers besides the store is forgotten with its process."""
        await self.close()
        self._pen = None

    def seed(self, data: Seed) -> None:
        """By its own `seed` when it is a Service, else as documents."""
        if data:
            self._ask("seed", json.dumps(data).encode())

    def invariants(self) -> list[str]:
        found = None if self._is_plain else self._ask("invariants")
        self._is_plain = found is None
        return [str(one) for one in found] if isinstance(found, list) else []

    def show(self) -> dict[str, Any]:
        shown = super().show()
        said = said_in(self.context.directory)
        return {**shown, "said": said} if said else shown

    def kept(self, ask: str | None = None) -> Kept:
        """What is started, and what it sees."""
        options = self.context.options
        python = options.get("python")
        chosen = interpreter.find(self.context.path(str(python)) if python else None)
        files, store = _store_files(self.context.store.path)
        words = [str(chosen.path), "-P", "-m", "paddock.world.pen.serve", self._plan(store, ask)]
        return Kept(
            words=tuple(words),
            walls=Walls(
                own=own_directory(self.context.directory),
                project=self.project,
                reads=reads(self.context),
                packages=self.packages,
                files=files,
            ),
            env={"PYTHONPATH": CODE, **environment(self.context)},
            limits=Limits(memory_bytes=memory(self.context)),
            python=chosen,
            ready_s=seconds(self.context, "ready_s", 10.0),
        )

    def _plan(self, store: str, ask: str | None) -> str:
        context = self.context
        plan = {
            "app": self.target, "name": context.name, "host": context.host, "port": context.port,
            "store": store, "seed": context.seed, "start": context.start, "directory": OWN,
            "project": str(self.project) if self.project else "",
            "options": context.options.get("options", {}), "ask": ask and {"what": ask},
        }  # fmt: skip
        return json.dumps(plan)

    def _ask(self, what: str, given: bytes = b"") -> Any:
        done = run_once(self.kept(what), given=given, timeout_s=_ASK_S, what=f"its {what}")
        text = done.report.decode("utf-8", "replace")
        if done.code != 0:
            raise StandInFailed(text or f"its {what} failed: {done.said[-500:]}")
        return json.loads(text)


def _store_files(path: Path) -> tuple[tuple[tuple[Path, str], ...], str]:
    """The store and its log, shared with the pen one by one: other stores may lie beside it."""
    inside = "/store/store.sqlite"
    files = []
    for end in ("", "-wal", "-shm"):
        beside = path.with_name(path.name + end)
        beside.touch(exist_ok=True)  # SQLite could not make it in there
        files.append((beside.absolute(), inside + end))
    return tuple(files), inside
