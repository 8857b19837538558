"""A run: one agent at work under one order, with everything that it does on record, from its
configuration to the files that it leaves.

`RunSession` runs the agent. What is different about a replay or a fork is a `RunMode`: where
answers, secrets and the world come from, and what is done before the agent starts and after it has
ended.
"""

from __future__ import annotations

import asyncio
import contextlib
import importlib
import os
import signal
import threading
from collections.abc import Callable, Coroutine, Mapping
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple, Protocol, TypeVar

import msgspec

from paddock.doors.machine.box import Box
from paddock.doors.machine.engine import Engine
from paddock.doors.machine.files import FileCore
from paddock.doors.machine.processes import Running, Start
from paddock.doors.machine.records import command_record
from paddock.doors.machine.sandbox_gate import Opening
from paddock.doors.machine.sandboxes import create_box
from paddock.doors.machine.sources import BoxSources
from paddock.doors.terms import terms_of
from paddock.fence.offload import offload
from paddock.gate.executors import Done
from paddock.gate.project import project_directory
from paddock.gate.recorded_answers import RecordedAnswers
from paddock.gate.run_keys import run_keyed
from paddock.model.action import Action
from paddock.model.errors import (
    Blocked,
    CommandNotStarted,
    InvalidInput,
    PaddockError,
    SandboxDied,
    SandboxError,
)
from paddock.model.events import BoundariesProved, Configured, Head, Lineage, Opened, Record
from paddock.model.results import CommandResult
from paddock.model.spec import Limits, MountMode, Spec
from paddock.policy.decide import Policy
from paddock.run.boundary_proof import prove
from paddock.run.configuration import configured_of, seed_environment
from paddock.run.order import Order
from paddock.run.state_recorder import StateRecorder
from paddock.run.surroundings import Surroundings, find, told_again

if TYPE_CHECKING:
    from paddock.doors.network.inside_api.state import InsideState
    from paddock.gate.gate import Gate
    from paddock.run.replay.session import Divergence

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
    "paddock.doors.machine.network.inside_door",
    "paddock.doors.network.tls.sandbox_trust",
    "paddock.run.files",
    "paddock.state.trees.recorder",
)


class Watcher(Protocol):
    """An observer of a run. It is called from threads of the engine, one call at a time."""

    def began(self, run: str, configured: Configured) -> None: ...

    def told(self, record: Record) -> None:
        """Take a record as it was written."""
        ...

    def said(self, stream: str, data: bytes) -> None:
        """Receive what the agent wrote to stdout or stderr."""
        ...


class Nobody:
    """Looks away."""

    def began(self, run: str, configured: Configured) -> None: ...

    def told(self, record: Record) -> None: ...

    def said(self, stream: str, data: bytes) -> None: ...


class FinishedRun(msgspec.Struct, frozen=True):
    """The end of a run."""

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
    background: int = 0  # of a replayed past: how much background traffic there was
    varied: Mapping[str, int] = {}  # of such a past: what varied
    left: Divergence | None = None  # of a replay that went on as a fork: where it left its record


class ActiveRun(NamedTuple):
    """A run that has started: its sandbox, its gate, and who records the state around its steps."""

    box: Box
    gate: Gate
    recorder: StateRecorder
    stop: Callable[..., None]  # ends the agent; because it left its record, if no reason is given


class RunMode:
    """The differences of a run from a plain one, which this is; replay and fork override what they
    need.

    The attributes are read once, when the run starts. The methods are called in this order: `begin`
    before the agent starts, `finish` when it has ended and its sandbox is still there, `conclude`
    while the journal is still open.
    """

    kind = "run"
    answers: RecordedAnswers | None = None  # what stands before the rules
    lineage: Lineage | None = None  # the run that this one repeats
    envs: Mapping[str, str] = {}  # for the agent, besides those of its order
    host_envs: Mapping[str, str] | None = None  # what a recorded run was told of its host
    sandbox_policy: Policy | None = None  # whose limits and mounts hold, if not those of the order
    inside: InsideState | None = None  # what the agent has declared before

    def __init__(self, files: Mapping[str, bytes] | None = None) -> None:
        """Take files to put into the sandbox, by their paths inside. They are in its own layer, as
        if the agent had found them there: they are no step, and nothing on the host."""
        self.sources = BoxSources()
        self._files = files or {}

    async def begin(self, run: ActiveRun) -> None:
        """Prepare the sandbox before the agent starts."""
        core = FileCore(run.box.guest)
        for path, content in self._files.items():
            await core.write(path, content)

    async def finish(self) -> None:
        """Do what is left when the agent has ended."""

    def conclude(self, result: FinishedRun) -> FinishedRun:
        """Return the result with what is known only now."""
        return result


def run(order: Order, watch: Watcher | None = None, mode: RunMode | None = None) -> FinishedRun:
    """Run the agent to its end. An interrupt of the caller ends the agent."""
    engine = Engine.current()
    session = RunSession(engine, order, watch or Nobody(), mode or RunMode())
    return called(engine, session.run())


def called(engine: Engine, work: Coroutine[Any, Any, T]) -> T:
    """Wait for the work. An interrupt is passed on to the caller when everything is recorded."""
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


class RunSession:
    """One run while it goes."""

    def __init__(self, engine: Engine, order: Order, watch: Watcher, mode: RunMode) -> None:
        self._engine = engine
        self._order = order
        self._watch = watch
        self._mode = mode
        self._running: Running | None = None
        self._cut_off: str | None = None  # why it did not come to its own end
        self._result: CommandResult | None = None

    async def run(self) -> FinishedRun:
        """Run the agent to its end."""
        order, mode = self._order, self._mode
        environ: Mapping[str, str] = os.environ
        if mode.host_envs is not None:
            environ = told_again(os.environ, mode.host_envs)
        surroundings = await offload(find, order.command, order.cwd, environ)
        spec = self._spec(surroundings)
        if mode.answers is not None:
            _check_own(spec)
        self._engine.remember(asyncio.ensure_future(offload(_load_ahead)))
        opening = Opening(self._opened(), answers=mode.answers, on_open=self._watch_gate)
        box = await create_box(self._engine, spec, order.policy, mode.sources, opening)
        try:
            result = await self._run_in(box, surroundings)
            result = mode.conclude(result)
        except asyncio.CancelledError:
            self._cut_off = self._cut_off or INTERRUPTED
            raise
        finally:
            await box.end(self._ended_by())
        if box.failure is not None:  # what the agent did last is not on record: that is no end
            raise box.failure
        return result

    def _spec(self, surroundings: Surroundings) -> Spec:
        order, mode = self._order, self._mode
        policy = mode.sandbox_policy or order.policy
        of_file = policy.sandbox.options
        options = {
            "mounts": [*(of_file.get("mounts") or ()), *surroundings.mount_words()],
            "envs": {
                **_READ_ALONG,
                **(of_file.get("envs") or {}),
                **surroundings.envs,
                **seed_environment(order.seed),
                **mode.envs,
                **order.envs,
            },
            "timeout": order.timeout_s,
        }
        _, spec = terms_of(policy, options)
        return spec

    def _ended_by(self) -> str:
        """Return why it is over, for the journal."""
        if self._cut_off is not None:
            return self._cut_off
        killed_by = None if self._result is None else self._result.killed_by
        return f"the agent was beyond its {killed_by} limit" if killed_by else "the agent has ended"

    def _opened(self) -> Opened:
        """Return what the first event of the journal says about the run. The gate adds its name
        and its agent."""
        order, mode = self._order, self._mode
        return Opened(
            run="",
            agent=order.policy.agent,
            kind=mode.kind,
            command=list(order.command),
            cwd=str(order.cwd),
            project=project_directory(order.cwd),
            seed=order.seed,
            lineage=mode.lineage,
        )

    def _watch_gate(self, gate: Gate) -> None:
        if not isinstance(self._watch, Nobody):
            gate.records.journal.listeners.append(self._tell_watcher)

    def _tell_watcher(self, record: Record) -> None:
        if not isinstance(record.event, Head):  # these come on a thread of their own
            self._watch.told(record)

    async def _run_in(self, box: Box, surroundings: Surroundings) -> FinishedRun:
        gate, mode = box.actions.gate, self._mode
        root = box.sandbox_id if mode.lineage is None else mode.lineage.root or box.sandbox_id
        keyed = run_keyed(self._engine.home, box.sandbox_id, root)
        configured = await offload(configured_of, self._order, box, surroundings, keyed)
        gate.record(configured)
        recorder = StateRecorder(box, gate)
        gate.observe_steps(recorder)
        gate.record(BoundariesProved(prove(box)))
        gate.records.journal.sign()  # a run that is killed from here on can be replayed and forked
        await mode.begin(ActiveRun(box, gate, recorder, self.stop))
        await box.network.serve_inside(mode.inside)
        self._watch.began(box.sandbox_id, configured)
        error, ended_by = None, "the agent"
        not_started = 126
        try:
            self._result = await self._run_agent(box, surroundings)
        except Blocked as blocked:
            error, ended_by = blocked.message, "a refusal"
        except SandboxDied as died:
            ended_by = died.reason
        except SandboxError as failed:
            error, ended_by = failed.message, "an error"
            if isinstance(failed, CommandNotStarted):
                not_started = failed.exit_code
        if box.machine.ended_by is None:
            await mode.finish()
        if box.machine.ended_by is None:
            with contextlib.suppress(PaddockError, OSError):
                await recorder.ended()
        code = None if self._result is None else self._result.exit_code
        limit = None if self._result is None else self._result.killed_by
        if limit is not None:
            ended_by = f"the {limit} limit"
        return FinishedRun(
            box.sandbox_id,
            self._engine.home.runs / box.sandbox_id,
            code,
            ended_by,
            error=error,
            not_started=not_started,
            limit=limit,
            limits=box.spec.limits,
        )

    async def _run_agent(self, box: Box, surroundings: Surroundings) -> CommandResult:
        """Run step 1: the agent's own program, from its start to its end."""
        order = self._order
        start = Start(
            argv=list(surroundings.argv),
            cwd=surroundings.cwd,
            envs=box.envs({}),
            stdin=order.stdin is not None,
        )
        start.check()
        deliver = {
            1: self._engine.callback(partial(self._watch.said, "stdout"), None),
            2: self._engine.callback(partial(self._watch.said, "stderr"), None),
        }

        async def live(action: Action) -> Done:
            running = await Running.start(box.guest, start, deliver, is_binary=True)
            self._running = running
            if order.stdin is not None:
                running.feed(order.stdin)
            try:
                result = await running.wait(None)
            except asyncio.CancelledError:
                running.signal(signal.SIGKILL)
                raise
            return Done(value=result, record=command_record(result))

        result: CommandResult = await box.actions.command(start.argv, start.cwd, live)
        return result

    def stop(self, reason: str = LEFT_RECORD) -> None:
        """End the agent, whatever it does."""
        if self._result is None:
            self._cut_off = reason
        if self._running is not None:
            with contextlib.suppress(PaddockError):
                self._running.signal(signal.SIGKILL)


def _check_own(spec: Spec) -> None:
    """Raise InvalidInput if what a replayed past writes again would reach somebody's files."""
    shared = [mount.target for mount in spec.mounts if mount.mode is MountMode.WRITE]
    if shared:
        raise InvalidInput(
            f"{', '.join(shared)}: mounted for writing, and what was written there in the past"
            " would be written again",
            hint="a run whose mounts are overlays can be replayed and forked",
        )


def _load_ahead() -> None:
    """Import modules while the sandbox starts, because there is time then."""
    for name in _SOON:
        importlib.import_module(name)
