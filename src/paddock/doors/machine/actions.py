"""A sandbox's way through the gate: its commands, file calls and cells as actions, and the programs
that its programs start. One run, one journal, opened by the first action.
"""

from __future__ import annotations

import asyncio
import contextlib
import errno
import time
from collections.abc import Awaitable, Callable, Iterator, Mapping
from functools import partial
from typing import TYPE_CHECKING, Any

import msgspec

from paddock.doors.machine.programs.agent_processes import Commanders
from paddock.doors.machine.programs.exec_actions import file_arguments, named_action
from paddock.doors.machine.programs.exec_judge import ExecJudge, let_through
from paddock.doors.machine.programs.kill_fault import Killer
from paddock.fence.container.driver import PATH
from paddock.fence.offload import offload
from paddock.fence.processes.programs import ProgramFile, resolve_command
from paddock.gate.alerts import RaisedAlert
from paddock.gate.executors import Done, Fault, Spoil
from paddock.gate.gate import Gate
from paddock.gate.recorded_answers import RecordedAnswers
from paddock.gate.run_gate import approvers_for, open_gate
from paddock.gate.run_keys import run_keyed
from paddock.journal.errors import JournalBroken
from paddock.model.action import Action, Effect, Kind, Outcome, Receipt, Verdict
from paddock.model.errors import Blocked, FaultInjected, InvalidInput, OutOfSpace, SandboxError
from paddock.model.events import Opened, ProgramEnded, ProgramStarted
from paddock.model.results import ExecEvent
from paddock.model.space import is_out_of_space
from paddock.policy.decide import Policy
from paddock.policy.fields import READ_OPERATIONS
from paddock.state.disk_space import full_disk

if TYPE_CHECKING:
    from paddock.doors.machine.box import Box

_MAX_EXPECTED = 1000
_SETTLE_S = 2.0  # a caller whose callback hangs is not waited for any longer
_MAX_STEPS = 10_000
_FLUSH_S = 0.05  # how long an observation may wait for a record to go with
Work = Callable[[Action], Awaitable[Done]]


class _Expected(msgspec.Struct, frozen=True):
    """A command that the guest has been told to start."""

    step: int
    argv: tuple[str, ...]
    real_paths: tuple[str, ...]  # of all programs that it runs, as they were decided on


def _nobody(gate: Gate) -> None:
    """Wants to know that the gate is open."""


class Opening(msgspec.Struct, frozen=True):
    """How the journal of a sandbox begins, and where answers come from."""

    about: Opened | None = None  # of the run of an agent; the programs that it starts are steps
    kind: str | None = None  # of any other sandbox: the command that made it
    answers: RecordedAnswers | None = None
    on_open: Callable[[Gate], None] = _nobody  # told of the gate before anything crosses


class Passage:
    """One per sandbox; runs on the engine's loop."""

    def __init__(self, box: Box, policy: Policy, opening: Opening) -> None:
        self.policy = policy
        self._box = box
        self._gate: Gate | None = None
        self._counts: Mapping[str, Any] | None = None  # how often the parent recorded each fault
        self._is_closed = False
        self._under_way = 0
        self._quiet = asyncio.Event()
        self._has_exec_rules = _has_rules(policy, Kind.EXEC)
        self._has_file_rules = _has_rules(policy, Kind.FILE)
        self._expected: list[_Expected] = []  # commands that are begun and not seen yet
        self._steps: dict[int, int] = {}  # pid, as the sandbox numbers it, to step
        self._flushing: asyncio.TimerHandle | None = None
        self._cells: list[int] = []  # steps of cells that run now
        self._killer = Killer(box)
        self._running: list[int] = []  # steps of commands and cells that run now
        self._opening = opening
        self._judge = ExecJudge(self, self._killer, has_rules=self._has_exec_rules)
        if self.is_run:
            self._judge.commanders = Commanders()
        is_judged = self.is_run or self._has_exec_rules
        box.machine.execs.judge = self._judge if is_judged else None
        box.machine.execs.listeners.append(self._observed)

    @property
    def is_run(self) -> bool:
        """Return whether an agent is at work, whose run can be replayed."""
        return self._opening.about is not None

    @property
    def root(self) -> str:
        """The first run of its lineage; itself, if it is no fork and no replay."""
        about = self._opening.about
        if about is None or about.lineage is None:
            return self._box.sandbox_id
        return about.lineage.root

    @property
    def search_path(self) -> str:
        """Return where the sandbox's programs look for programs, unless they are told otherwise."""
        return self._box.envs(None).get("PATH", PATH)

    @property
    def gate(self) -> Gate:
        """Opened when first needed. What cannot be recorded is not done, so this may raise."""
        if self._gate is None:
            box = self._box
            self._gate = open_gate(
                box.engine.home,
                box.sandbox_id,
                self.policy,
                about=self._about(),
                secrets=box.network.secret_values,
                approvers=approvers_for(self.policy),
                answers=self._opening.answers,
            )
            self._gate.records.journal.failure_listeners.append(box.fail)
            self._gate.records.keyed = run_keyed(box.engine.home, box.sandbox_id, self.root)
            self._opening.on_open(self._gate)
            if self._counts is not None and self._gate.faults is not None:
                self._gate.faults.restore(self._counts)
        return self._gate

    def _about(self) -> Opened:
        """Return what the first record says about the run."""
        box = self._box
        run = self._opening.about or Opened(
            box.sandbox_id, self.policy.agent, kind=self._opening.kind
        )
        return msgspec.structs.replace(
            run,
            sandbox=box.sandbox_id,
            template=box.spec.template,
            enforcement=dict(box.machine.enforcement),
            parent=box.parent_id,
        )

    def go_on_from(self, parent: Passage) -> None:
        """A fork counts faults from where its parent was."""
        plan = None if parent._gate is None else parent._gate.faults
        self._counts = parent._counts if plan is None else plan.counts()

    async def command(
        self,
        argv: list[str],
        cwd: str,
        live: Work,
        *,
        is_background: bool = False,
        is_begun_elsewhere: bool = False,
    ) -> Any:
        """A program that the host asks for."""
        shown = ["sh", *argv[1:]] if argv[0] == "@shell" else list(argv)
        arguments: dict[str, Any] = {"argv": shown, "cwd": cwd, "program": shown[0]}
        if is_background:
            arguments["background"] = True
        files = await self._program_files(argv, cwd) if self._has_exec_rules else []
        if files:
            arguments |= {"program": files[0].called, **file_arguments(files[0])}

        killing: list[float] = []  # the fault that ends it, and when

        async def begin(action: Action) -> Done:
            assert action.step is not None
            await self._cross_named_programs(files, cwd, action.step)
            real_paths = tuple(file.real_path for file in files)
            expected = _Expected(action.step, tuple(argv), real_paths)
            self._expected = [*self._expected[-_MAX_EXPECTED:], expected]
            self._running.append(action.step)
            self._killer.kill(partial(self._pids_of, action.step), killing)
            try:
                return await live(action)
            finally:
                self._running.remove(action.step)
                if not is_begun_elsewhere:
                    with contextlib.suppress(ValueError):
                        self._expected.remove(expected)

        spoil = self._killer.watch(killing)
        return await self._cross(Kind.EXEC, shown[0], arguments, Effect.WRITE, begin, spoil)

    def _pids_of(self, step: int) -> list[int]:
        return [pid for pid, one in self._steps.items() if one == step]

    async def file(self, operation: str, path: str, live: Work, **more: Any) -> Any:
        """A call on a file; `path` is absolute."""
        arguments = {"operation": operation, "path": path, **more}
        if self._has_file_rules:
            arguments |= await self._resolved_paths(path, more.get("to"))
        effect = Effect.READ if operation in READ_OPERATIONS else Effect.WRITE
        return await self._cross(Kind.FILE, operation, arguments, effect, live)

    async def code(self, language: str, code: str, context: str, live: Work) -> Any:
        arguments = {"language": language, "code": code, "context": context}

        async def begin(action: Action) -> Done:
            assert action.step is not None
            self._cells.append(action.step)
            self._running.append(action.step)
            try:
                return await live(action)
            finally:
                self._cells.remove(action.step)
                self._running.remove(action.step)

        return await self._cross(Kind.CODE, language, arguments, Effect.WRITE, begin)

    def belongs_to(self, pid: int, step: int) -> None:
        """What that process does from now on is part of the step."""
        self._steps[pid] = step

    @property
    def init_pid(self) -> int:
        """The sandbox's first process, as the host numbers it."""
        return self._box.machine.init_pid

    def step_of_process(self, pid: int | None) -> int | None:
        """The step that a process of the sandbox works for, as far as that can be told."""
        step = None if pid is None else self._steps.get(pid)
        if step is not None and (step in self._running or not self._cells):
            return step
        if self._cells:
            return self._cells[-1]  # an interpreter outlives the cell that started it
        return self._running[0] if step is None and len(self._running) == 1 else step

    def change_policy(self, policy: Policy) -> None:
        """Other terms from the next action on. What is under way was decided by the old ones."""
        self.policy = policy
        self._has_exec_rules = _has_rules(policy, Kind.EXEC)
        self._has_file_rules = _has_rules(policy, Kind.FILE)
        self._judge.change_rules(has_rules=self._has_exec_rules)
        if self._has_exec_rules:
            self._box.machine.execs.judge = self._judge
        if self._gate is not None:
            self._gate.change_policy(policy)

    def count_stored(self, size: int) -> None:
        """Count bytes that were stored for the run outside of its journal."""
        if self._gate is not None:
            self._gate.records.journal.budget.add(size)

    def alerts(self) -> list[RaisedAlert]:
        return [] if self._gate is None else self._gate.alerts.all()

    async def admit(self, ask: Mapping[str, Any]) -> None:
        """An action that another process of the user is about to carry out by itself."""

        async def elsewhere(action: Action) -> Done:
            return Done(record={"by": "another process"})

        arguments = dict(ask["arguments"])
        match Kind(ask["kind"]):
            case Kind.EXEC:
                words = [str(word) for word in arguments["argv"]]
                await self.command(words, arguments["cwd"], elsewhere, is_begun_elsewhere=True)
            case Kind.FILE:
                operation, path = arguments.pop("operation"), arguments.pop("path")
                await self.file(operation, path, elsewhere, **arguments)
            case Kind.CODE:
                language, code = str(arguments["language"]), str(arguments["code"])
                await self.code(language, code, str(arguments["context"]), elsewhere)
            case kind:
                raise InvalidInput(f"{kind} is no action of a machine")

    @contextlib.contextmanager
    def under_way(self) -> Iterator[None]:
        """Something that has to settle before the journal is closed."""
        self._under_way += 1
        try:
            yield
        finally:
            self._under_way -= 1
            self._quiet.set()

    async def close(self, why: str) -> None:
        """Ends the journal when what is under way has been settled; what comes later is refused."""
        deadline = time.monotonic() + _SETTLE_S
        while self._under_way and (left_s := deadline - time.monotonic()) > 0:
            self._quiet.clear()
            with contextlib.suppress(TimeoutError):
                await asyncio.wait_for(self._quiet.wait(), left_s)
        gate, self._is_closed = self._gate, True
        if gate is not None:
            try:
                await offload(gate.close, why)
            except JournalBroken as failure:
                self._box.failure = self._box.failure or failure

    async def _cross(
        self,
        kind: Kind,
        name: str,
        arguments: Mapping[str, Any],
        effect: Effect,
        live: Work,
        spoil: Spoil | None = None,
    ) -> Any:
        _ = self._box.channel  # an ended or paused sandbox says so, before anything is recorded
        action = Action(kind, name, arguments, effect, is_contained=True)
        try:
            gate = self.gate
        except OutOfSpace:
            raise
        except (JournalBroken, OSError) as error:
            if is_out_of_space(error):
                raise full_disk(self._box.engine.home.root, error) from error
            raise Blocked(f"it could not be recorded, so it was not done: {error}") from error
        with self.under_way():
            receipt = await gate.cross(action, live, spoil=spoil)
        if self._box.failure is not None and not receipt.is_done:
            raise self._box.failure
        if isinstance(receipt.exception, JournalBroken):
            _ = self._box.channel  # the journal of an ended sandbox is closed: say that it ended
        return value_of(receipt)

    async def _program_files(self, argv: list[str], cwd: str) -> list[ProgramFile]:
        """Return the programs that a command would run; none when there is no such program."""
        found = await self._box.channel.ask(
            "resolve", path=argv[0], cwd=cwd, search=self.search_path
        )
        if "error" in found:
            return []
        try:
            return resolve_command(str(found["path"]), argv, cwd, self._judge.known_programs())
        except FileNotFoundError:
            return []
        except OSError as error:
            self._judge.record_refusal(str(found["path"]), argv, error, None)
            raise Blocked(f"{found['path']}: {error.strerror}") from error

    async def _cross_named_programs(self, files: list[ProgramFile], cwd: str, step: int) -> None:
        """Have the gate decide on the programs that a command's program names: a script's
        interpreter, what a loader loads. Once the guest starts it, nobody could be asked."""
        for file in files[1:]:
            action = named_action(file, files[0].called, cwd, None, step)
            if not self.gate.lets_pass(action):
                value_of(await self.gate.cross(action, let_through))

    async def _resolved_paths(self, path: str, to: str | None) -> dict[str, Any]:
        """Rules compare what a path leads to: a link is no way around them."""
        real = {}
        for key, place in (("path", path), ("to", to)):
            if place is not None:
                found = await self._box.channel.ask("resolve", path=place)
                real[key] = str(found.get("real") or place)
        return real if real.get("path") == path else {**real, "called": path}

    def expectation(self, event: ExecEvent) -> _Expected | None:
        for one in self._expected:
            skip = 1 if one.argv[0] == "@shell" else 0  # the guest chooses the shell
            if event.argv[skip:] == one.argv[skip:]:
                return one
        return None

    def step_of(self, event: ExecEvent) -> int | None:
        step = self._steps.get(event.pid)
        if step is None:
            step = self._steps.get(event.parent)
        expected = self.expectation(event) if step is None else None
        if expected is not None:
            step = expected.step
        elif step is None and self._cells:
            step = self._cells[-1]  # an interpreter that is started for a cell
        if step is not None:
            if len(self._steps) > _MAX_STEPS:
                self._steps.pop(next(iter(self._steps)))
            self._steps[event.pid] = step
        return step

    def _observed(self, event: ExecEvent) -> None:
        """Told once when a program starts, and once when it has ended."""
        if self._gate is None or self._is_closed:
            return
        self._gate.observe(_observation(event), self.step_of(event))
        if self._flushing is None:
            self._flushing = self._box.engine.loop.call_later(_FLUSH_S, self._flush)

    def _flush(self) -> None:
        self._flushing = None
        if self._gate is not None and not self._is_closed:
            try:
                self._gate.flush()
            except JournalBroken:  # what cannot be recorded does not happen, inside either
                self._box.machine.execs.judge = lambda attempt: errno.EACCES


def _observation(event: ExecEvent) -> ProgramStarted | ProgramEnded:
    if event.duration_s is not None:
        duration_us = int(1e6 * event.duration_s)
        return ProgramEnded(event.pid, event.parent, event.exit_code, duration_us)
    is_elsewhere = event.real_path != event.program
    return ProgramStarted(
        program=event.program,
        argv=list(event.argv),
        cwd=event.cwd,
        pid=event.pid,
        parent=event.parent,
        real_path=event.real_path if is_elsewhere else None,
    )


def value_of(receipt: Receipt) -> Any:
    """What the caller gets of a receipt: the value, or the error that says what happened."""
    if receipt.is_done:
        return receipt.result
    if receipt.outcome is Outcome.FAULTED or isinstance(receipt.exception, Fault):
        raise FaultInjected(receipt.error or "a fault was injected")
    if receipt.outcome is Outcome.FAILED:
        raise receipt.exception or SandboxError(receipt.error or "it failed")
    decision = receipt.decision
    rule = decision.decided_by if decision and decision.decided_by != "default" else None
    raise Blocked(receipt.error or "no reason was given", rule=rule, step=receipt.step)


def _has_rules(policy: Policy, kind: Kind) -> bool:
    """Whether a rule can say anything but yes to what stays inside."""
    return any(
        kind in rule.kinds and rule.decide is not Verdict.ALLOW for rule in policy.rules
    ) or any(kind in fault.kinds for fault in policy.faults)
