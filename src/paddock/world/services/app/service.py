"""Any ASGI application as a stand-in. It runs in a pen, and shares the store of its world."""

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
from paddock.world.pen.launch import PenLimits, PenProgram, own_directory, run_once
from paddock.world.pen.log import last_lines
from paddock.world.pen.mounts import CODE, OWN, PenMounts
from paddock.world.pen.options import PEN_OPTIONS, environment, memory, reads, ready_seconds
from paddock.world.pen.pen import Pen
from paddock.world.service import LocalService, Seed, StandInFailed

_NAME = re.compile(r"[A-Za-z_][\w.]*:[A-Za-z_][\w.]*")
_QUESTION_S = 60.0


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
        self._is_plain = False  # an application without invariants

    def check(self) -> None:
        if not _NAME.fullmatch(self.target):
            raise InvalidInput(f"app: {self.target!r} is not of the form package.module:attribute")
        if not isinstance(self.context.options.get("options", {}), dict):
            raise InvalidInput("options: expected words with values")
        if "python" not in self.context.options and find_spec("uvicorn") is None:
            hint = install_command("world")
            raise InvalidInput("app needs uvicorn, which is not installed", hint=hint)
        self.program()

    @property
    def target(self) -> str:
        """The application, as `module:attribute`."""
        return str(self.context.options.get("app", ""))

    @property
    def project(self) -> Path | None:
        """The directory from which the application is imported."""
        return self.context.project.absolute()

    @property
    def packages(self) -> tuple[Path, ...]:
        """Return the directories of packages that it imports besides Paddock's own."""
        return ()

    async def connect(self) -> socket.socket:
        if self._pen is None:
            self._pen = Pen(self.program(), self.context.directory)
        return await self._pen.connect()

    async def stuck(self) -> None:
        """End the process, so that the next connection starts it again."""
        await self.close()

    async def close(self) -> None:
        if self._pen is not None:
            await self._pen.end()

    async def reset(self) -> None:
        """End the process, and with it any state outside the store."""
        await self.close()
        self._pen = None

    def seed(self, data: Seed) -> None:
        """Seed by the application's own `seed` if it is a Service, else as documents."""
        if data:
            self._ask("seed", json.dumps(data).encode())

    def invariants(self) -> list[str]:
        if self._is_plain:
            return []
        messages = self._ask("invariants")
        self._is_plain = messages is None
        return [str(message) for message in messages or ()]

    def show(self) -> dict[str, Any]:
        state = super().show()
        output = last_lines(self.context.directory)
        return {**state, "said": output} if output else state

    def program(self, question: str | None = None) -> PenProgram:
        """Return the program that serves the application, or answers one question about it."""
        python = self.context.options.get("python")
        chosen = interpreter.find(self.context.path(str(python)) if python else None)
        files, store = _store_files(self.context.store.path)
        module = "paddock.world.pen.app_server"
        return PenProgram(
            argv=(str(chosen.path), "-P", "-m", module, self._plan(store, question)),
            mounts=PenMounts(
                own=own_directory(self.context.directory),
                project=self.project,
                reads=reads(self.context),
                packages=self.packages,
                files=files,
            ),
            env={"PYTHONPATH": CODE, **environment(self.context)},
            limits=PenLimits(memory_bytes=memory(self.context)),
            python=chosen,
            ready_s=ready_seconds(self.context),
        )

    def _plan(self, store: str, question: str | None) -> str:
        context = self.context
        plan = {
            "app": self.target, "name": context.name, "host": context.host, "port": context.port,
            "store": store, "seed": context.seed, "start": context.start, "directory": OWN,
            "project": str(self.project) if self.project else "",
            "options": context.options.get("options", {}), "ask": question,
        }  # fmt: skip
        return json.dumps(plan)

    def _ask(self, question: str, stdin: bytes = b"") -> Any:
        program, what = self.program(question), f"its {question}"
        finished = run_once(program, stdin=stdin, timeout_s=_QUESTION_S, what=what)
        report = finished.report.decode("utf-8", "replace")
        if finished.code != 0:
            raise StandInFailed(report or f"{what} failed: {finished.output[-500:]}")
        return json.loads(report)


def _store_files(path: Path) -> tuple[tuple[tuple[Path, str], ...], str]:
    """Return the store's files and its path in the pen. They are shared one by one, because other
    stores are in the same directory."""
    inside = "/store/store.sqlite"
    files = []
    for suffix in ("", "-wal", "-shm"):
        file = path.with_name(path.name + suffix)
        file.touch(exist_ok=True)  # SQLite could not create it in the pen
        files.append((file.absolute(), inside + suffix))
    return tuple(files), inside
