"""A run: one agent at work under one order, everything that it does on record, from the first note
about its setting to the last one about its files."""

from __future__ import annotations

import asyncio
import contextlib
import importlib
import os
import signal
import threading
from collections.abc import Awaitable, Callable, Coroutine, Mapping
from dataclasses import field
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol, TypeVar

from paddock.doors.machine.box import Box
from paddock.doors.machine.engine import Engine
from paddock.doors.machine.making import create_box
from paddock.doors.machine.passage import Opening
from paddock.doors.machine.processes import Running, Start
from paddock.doors.machine.records import command_record
from paddock.doors.terms import terms_of
from paddock.fence.offload import offload
from paddock.gate.executors import Done
from paddock.gate.past import Past
from paddock.gate.project import project_directory
from paddock.gate.run_keys import run_keyed
from paddock.journal.records import Record, Type
from paddock.model.action import Action
from paddock.model.errors import (
    Blocked,
    CommandNotStarted,
    InvalidInput,
    PaddockError,
    SandboxDied,
    SandboxError,
)
from paddock.model.results import CommandResult
from paddock.model.spec import Limits, MountMode, Spec
from paddock.model.values import dataclass
from paddock.policy.decide import Policy
from paddock.run.order import Order
from paddock.run.proving import prove
from paddock.run.recording import StateRecorder
from paddock.run.setting import chance_envs, setting_of
from paddock.run.surroundings import Surroundings, find, told_again

if TYPE_CHECKING:
    from paddock.doors.network.inside_state import InsideState
    from paddock.gate.gate import Gate
    from paddock.run.again import Divergence

T = TypeVar("T")
TIMED_OUT = ("timeout", "time limit")  # as a sandbox says it whose time is over
INTERRUPTED = "interrupted"
LEFT_RECORD = "stopped: it left its record"
REFUSED = "stopped: it cannot be forked there"
_ENDS_S = 20.0  # for an agent that is interrupted: its steps settle, its journal is closed
# Nobody reads along otherwise: into a pipe Python writes when it is done. The file may say other.
_READ_ALONG = {"PYTHONUNBUFFERED": "1"}
# What the first step needs.
_SOON = (
    "paddock.doors.machine.inside_door",
    "paddock.doors.network.trust",
    "paddock.run.files",
    "paddock.state.trees.recorder",
)


class Watcher(Protocol):
    """Who looks on while a run goes. Called from threads of the engine, one call at a time."""

    def began(self, run: str, setting: Mapping[str, Any]) -> None: ...

    def told(self, record: Record) -> None:
        """A record as it was written."""
        ...

    def said(self, stream: str, data: bytes) -> None:
        """What the agent wrote to stdout or stderr."""
        ...


class Nobody:
    """Looks away."""

    def began(self, run: str, setting: Mapping[str, Any]) -> None: ...

    def told(self, record: Record) -> None: ...

    def said(self, stream: str, data: bytes) -> None: ...


@dataclass(frozen=True, slots=True)
class Ended:
    """A run that is over."""

    run: str
    directory: Path
    exit_code: int | None
    ended_by: str
    divergence: Divergence | None = None
    error: str | None = None  # why the agent was not even started
    not_started: int = 126  # the exit code that a shell would have for that
    limit: str | None = None  # which one ended the agent
    limits: Limits = Limits()  # that it had
    differs: tuple[str, ...] = ()  # of a replay: what is not as it was, and may be so
    beside: int = 0  # of a past that was lived through again: what went on beside it
    varied: Mapping[str, int] = field(default_factory=dict)  # of such a past: what was let vary
    left: Divergence | None = None  # of a replay that went on as a fork: where it left its record


@dataclass(slots=True)
class Stage:
    """What a run is played on besides its order: a record that it lives through, and what is got
    ready in its sandbox."""

    kind: str = "run"
    past: Past | None = None
    lineage: Mapping[str, Any] | None = None
    prepare: Callable[[Box], None] | None = None
    ready: Callable[[Box, Gate, StateRecorder], None] | None = None
    envs: Mapping[str, str] = field(default_factory=dict)
    told: Mapping[str, str] | None = None  # what a recorded run was told of its host
    sandbox: Policy | None = None  # whose limits and mounts hold, if not those of the order
    begin: Callable[[Box], Awaitable[None]] | None = None  # before the agent does
    finish: Callable[[], Awaitable[None]] | None = None  # after the agent, before its last files
    inside: InsideState | None = None  # what its agent has declared before


def run(order: Order, watch: Watcher | None = None, stage: Stage | None = None) -> Ended:
    """Runs it to its end. An interrupt of the caller ends the agent."""
    engine = Engine.current()
    performance = Performance(engine, order, watch or Nobody(), stage or Stage())
    return called(engine, performance.play())


def called(engine: Engine, work: Coroutine[Any, Any, T]) -> T:
    """Waits for it. An interrupt of the caller goes on to the caller when it is all on record."""
    is_over = threading.Event()

    async def to_its_end() -> T:
        try:
            return await work
        finally:
            is_over.set()

    try:
        return engine.call(to_its_end())
    except KeyboardInterrupt:
        is_over.wait(_ENDS_S)
        raise


class Performance:
    """One run while it goes."""

    def __init__(self, engine: Engine, order: Order, watch: Watcher, stage: Stage) -> None:
        self._engine = engine
        self._order = order
        self._watch = watch
        self._stage = stage
        self._recorder: StateRecorder | None = None
        self._running: Running | None = None
        self._cut_off: str | None = None  # why it did not come to its own end
        self.result: CommandResult | None = None

    async def play(self, conclude: Callable[[Ended], None] | None = None) -> Ended:
        """To its end. `conclude` is told of it while the journal is still open."""
        order, stage = self._order, self._stage
        environ = os.environ if stage.told is None else told_again(os.environ, stage.told)
        around = await offload(find, order.command, order.cwd, environ)
        envs = {**around.envs, **chance_envs(order.seed), **stage.envs, **order.envs}
        of_file = (stage.sandbox or order.policy).sandbox.words
        words = {
            "mounts": [*(of_file.get("mounts") or ()), *around.mount_words()],
            "envs": {**_READ_ALONG, **(of_file.get("envs") or {}), **envs},
            "timeout": order.timeout_s,
        }
        _, spec = terms_of(stage.sandbox or order.policy, words)
        if stage.past is not None:
            _check_own(spec)
        self._engine.remember(asyncio.ensure_future(offload(_load_ahead)))
        box = await create_box(self._engine, spec, order.policy, self._prepare)
        try:
            ended = await self._perform(box, around)
            if conclude is not None:
                conclude(ended)
        except asyncio.CancelledError:
            self._cut_off = self._cut_off or INTERRUPTED
            raise
        finally:
            await box.end(self._ending())
        if box.failure is not None:  # what the agent did last is not on record: that is no end
            raise box.failure
        return ended

    def _ending(self) -> str:
        """For the journal: why it is over."""
        if self._cut_off is not None:
            return self._cut_off
        killed_by = None if self.result is None else self.result.killed_by
        return f"the agent was beyond its {killed_by} limit" if killed_by else "the agent has ended"

    def _prepare(self, box: Box) -> None:
        order, stage = self._order, self._stage
        about: dict[str, Any] = {
            "kind": stage.kind,
            "command": list(order.command),
            "cwd": str(order.cwd),
            "project": project_directory(order.cwd),
            "seed": order.seed,
            **({"lineage": dict(stage.lineage)} if stage.lineage else {}),
        }
        box.passage.begin(Opening(about, stage.past, self._opened))
        if stage.prepare is not None:
            stage.prepare(box)

    def _opened(self, gate: Gate) -> None:
        if not isinstance(self._watch, Nobody):
            gate.writing.journal.listeners.append(self._heard)

    def _heard(self, lines: list[bytes]) -> None:
        for line in lines:
            record = Record.parse(line)
            if record.type is not Type.HEAD:  # these come on a thread of their own
                self._watch.told(record)

    async def _perform(self, box: Box, around: Surroundings) -> Ended:
        gate = box.passage.gate
        root = str((self._stage.lineage or {}).get("root") or box.sandbox_id)
        keyed = run_keyed(self._engine.home, box.sandbox_id, root)
        setting = await offload(setting_of, self._order, box, around, keyed)
        gate.note(setting)
        self._recorder = gate.recorder = StateRecorder(box, gate)
        if self._stage.ready is not None:
            self._stage.ready(box, gate, self._recorder)
        gate.note({"what": "proved", "boundaries": prove(box)})
        gate.writing.journal.sign()  # a run that is killed from here on can be replayed and forked
        if self._stage.begin is not None:
            await self._stage.begin(box)
        await box.network.serve_inside(self._stage.inside)
        self._watch.began(box.sandbox_id, setting)
        error, ended_by = None, "the agent"
        not_started = 126
        try:
            self.result = await self._agent(box, around)
        except Blocked as blocked:
            error, ended_by = blocked.message, "a refusal"
        except SandboxDied as died:
            ended_by = died.reason
        except SandboxError as failed:
            error, ended_by = failed.message, "an error"
            if isinstance(failed, CommandNotStarted):
                not_started = failed.exit_code
        if self._stage.finish is not None and box.machine.ended_by is None:
            await self._stage.finish()
        await self._wind_up(box)
        code = None if self.result is None else self.result.exit_code
        limit = None if self.result is None else self.result.killed_by
        if limit is not None:
            ended_by = f"the {limit} limit"
        return Ended(
            box.sandbox_id,
            self._directory(box),
            code,
            ended_by,
            error=error,
            not_started=not_started,
            limit=limit,
            limits=box.spec.limits,
        )

    async def _wind_up(self, box: Box) -> None:
        if self._recorder is not None and box.machine.ended_by is None:
            with contextlib.suppress(PaddockError, OSError):
                await self._recorder.ended()

    def _directory(self, box: Box) -> Path:
        return self._engine.home.runs / box.sandbox_id

    async def _agent(self, box: Box, around: Surroundings) -> CommandResult:
        """Step 1: the agent's own program, from its start to its end."""
        order = self._order
        start = Start(
            argv=list(around.argv),
            cwd=around.cwd,
            envs=box.envs({}),
            stdin=order.stdin is not None,
        )
        start.check()
        deliver = {
            1: self._engine.callback(partial(self._watch.said, "stdout"), None),
            2: self._engine.callback(partial(self._watch.said, "stderr"), None),
        }

        async def live(action: Action) -> Done:
            running = await Running.start(box, start, deliver, is_binary=True)
            self._running = running
            if order.stdin is not None:
                running.feed(order.stdin)
            try:
                result = await running.wait(None)
            except asyncio.CancelledError:
                running.signal(signal.SIGKILL)
                raise
            return Done(value=result, record=command_record(result))

        result: CommandResult = await box.passage.command(start.argv, start.cwd, live)
        return result

    def stop(self, reason: str = LEFT_RECORD) -> None:
        """Ends the agent, whatever it does."""
        if self.result is None:
            self._cut_off = reason
        if self._running is not None:
            with contextlib.suppress(PaddockError):
                self._running.signal(signal.SIGKILL)


def _check_own(spec: Spec) -> None:
    """Who lives through a past writes all of it again: that must reach nobody's files."""
    shared = [one.target for one in spec.mounts if one.mode is MountMode.WRITE]
    if shared:
        raise InvalidInput(
            f"{', '.join(shared)}: mounted for writing, and what was written there in the past"
            " would be written again",
            hint="a run whose mounts are overlays can be replayed and forked",
        )


def _load_ahead() -> None:
    """While the sandbox gets up there is time for it."""
    for name in _SOON:
        importlib.import_module(name)
