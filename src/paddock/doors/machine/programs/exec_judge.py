"""The judge of programs that are about to run inside. The fence asks it while the kernel holds the
exec; it has the gate decide on programs that rules or faults name, and on the commands of an agent,
which are steps of its run. Whatever goes wrong here is a refusal."""

from __future__ import annotations

import asyncio
import contextlib
import errno
from collections.abc import Awaitable, Callable, Iterator, Sequence

import msgspec

from paddock.doors.machine.programs.agent_processes import AgentProcesses
from paddock.doors.machine.programs.exec_actions import exec_action, named_action
from paddock.doors.machine.programs.kill_fault import KillFault
from paddock.doors.machine.programs.process_steps import ProcessSteps
from paddock.doors.machine.sandbox_gate import SandboxGate
from paddock.fence.driver import SEARCH_PATH, Machine
from paddock.fence.processes.programs import (
    ExecAttempt,
    KnownPrograms,
    ProgramFile,
    real_path,
    resolve,
)
from paddock.gate.executors import Done
from paddock.model.action import Action, Kind, Outcome, Verdict
from paddock.model.events import ProgramRefused
from paddock.policy.rules import Match

_MAX_HELD = 4096


class _Held(msgspec.Struct, frozen=True):
    """An attempt on which the gate decides, or has decided."""

    key: tuple[object, ...]
    verdict: asyncio.Future[int]

    @property
    def is_binding(self) -> bool:
        """Return whether the verdict holds for the same call again. A yes counts once: whoever
        executes the same again has become another program."""
        if not self.verdict.done():
            return True
        return self.verdict.cancelled() or bool(self.verdict.exception() or self.verdict.result())

    async def answer(self) -> int:
        try:
            return await asyncio.shield(self.verdict)
        except asyncio.CancelledError:
            self.verdict.cancel()  # the sandbox has ended: nobody is left to ask for
            raise


class ExecJudge:
    """Called with each attempt; returns an error number, 0 to let it through, or a wait for one."""

    def __init__(
        self,
        machine: Machine,
        sandbox_gate: SandboxGate,
        steps: ProcessSteps,
        kill_fault: KillFault,
        search_path: Callable[[], str],
    ) -> None:
        """`search_path` returns the PATH that programs of the sandbox begin with."""
        # Of a run: what its agent starts is a step.
        self._agent = AgentProcesses() if sandbox_gate.is_run else None
        self._machine = machine
        self._sandbox_gate = sandbox_gate
        self._steps = steps
        self._kill_fault = kill_fault
        self._search_path = search_path
        self._has_rules = False
        self._known: KnownPrograms | None = None
        self._held: dict[int, _Held] = {}  # by the pid that the host knows

    def __call__(self, attempt: ExecAttempt) -> int | Awaitable[int]:
        """Decide on a program that is about to run.

        A sandbox that is paused and resumed while a call is held makes the kernel begin the call
        anew: that is the same attempt, and has the same answer."""
        same, key = self._held.get(attempt.host_pid), _key(attempt)
        if same is not None and same.key == key and same.is_binding:
            return same.answer()
        verdict = self._judged(attempt)
        if isinstance(verdict, int):
            self._held.pop(attempt.host_pid, None)
            return verdict
        held = _Held(key, asyncio.ensure_future(verdict))
        self._held[attempt.host_pid] = held
        if len(self._held) > _MAX_HELD:
            del self._held[next(iter(self._held))]
        return held.answer()

    def _judged(self, attempt: ExecAttempt) -> int | Awaitable[int]:
        try:
            step = self._steps.of_exec(attempt.event)
            expected = self._steps.expectation(attempt.event)
            is_command = self._is_command(attempt)
            if not self._has_rules and not is_command:
                return 0
            files = self._files(attempt)
            if is_command and self._agent is not None:
                self._agent.started(attempt.event.pid)
            if (
                attempt.is_first
                and expected
                and expected.real_paths == tuple(file.real_path for file in files)
            ):
                return 0  # its command has crossed the gate with these very programs
            event = attempt.event
            actions = [exec_action(event, files[0], step)]
            for file in files[1:]:
                actions.append(named_action(file, event.program, event.cwd, event.pid, step))
            doubtful = [
                action for action in actions if not self._sandbox_gate.gate.lets_pass(action)
            ]
        except FileNotFoundError as error:
            # A program is looked for in one directory after the other.
            return self._unreadable(attempt, error) if self._has_rules else errno.ENOENT
        except Exception as error:
            return self._unreadable(attempt, error)
        if is_command:
            others = [action for action in doubtful if action is not actions[0]]
            return self._judge_command([actions[0], *others], attempt)
        if not doubtful:
            return 0
        if attempt.is_first and any(self._would_ask(action) for action in doubtful):
            return errno.EACCES  # it changed since it was decided on, and the guest cannot wait
        return self._judge_later(doubtful, attempt)

    def change_rules(self, *, has_rules: bool) -> None:
        """Take notice that the policy has changed."""
        self._has_rules, self._known = has_rules, None

    def _is_command(self, attempt: ExecAttempt) -> bool:
        if self._agent is None:
            return False
        if attempt.is_first:
            self._agent.begins(attempt.event.pid, attempt.host_pid)
            return False  # it has crossed, or is ours
        return self._agent.is_command(attempt)

    def _unreadable(self, attempt: ExecAttempt, error: Exception) -> int:
        """Refuse what cannot be looked at, and write that down."""
        event = attempt.event
        self.record_refusal(event.program, event.argv, error, self._steps.of_exec(event))
        code = getattr(error, "errno", None)
        return code if isinstance(code, int) and code > 0 else errno.EACCES

    def record_refusal(
        self, program: str, argv: Sequence[str], error: Exception, step: int | None
    ) -> None:
        """Record that a program was refused because it could not be told what it would run."""
        with contextlib.suppress(Exception):
            self._sandbox_gate.gate.record(ProgramRefused(program, list(argv), str(error)), step)

    async def _judge_command(self, actions: list[Action], attempt: ExecAttempt) -> int:
        code = errno.EACCES
        try:
            code = await self._judge_later(actions, attempt)
        finally:
            if code and self._agent is not None:
                self._agent.refused(attempt.event.pid)
        return code

    async def _judge_later(self, actions: list[Action], attempt: ExecAttempt) -> int:
        kill_after_s: list[float] = []
        for action in actions:
            spoil = self._kill_fault.watch(kill_after_s)
            with self._sandbox_gate.under_way():
                receipt = await self._sandbox_gate.gate.cross(action, let_through, spoil=spoil)
            if self._agent is not None and action is actions[0]:
                self._steps.assign(attempt.event.pid, receipt.step)
            if receipt.outcome is Outcome.FAULTED:
                return getattr(receipt.exception, "errno", None) or errno.EIO
            if not receipt.is_done:
                return errno.EACCES
        self._kill_fault.kill_held(attempt.host_pid, kill_after_s)
        return 0

    def _would_ask(self, action: Action) -> bool:
        return self._sandbox_gate.policy.decide(action).verdict is Verdict.ASK

    def _files(self, attempt: ExecAttempt) -> list[ProgramFile]:
        """Return the programs that the attempt would run; without rules the first one is enough."""
        if self._has_rules:
            return resolve(attempt, self.known_programs())
        event = attempt.event
        return [ProgramFile(event.program, real_path(attempt), event.argv)]

    def known_programs(self) -> KnownPrograms:
        """Return the programs that rules name, as they are in this sandbox."""
        if self._known is None:
            names = {
                pattern
                for rule in self._sandbox_gate.policy.rules
                if Kind.EXEC in rule.kinds
                for match in (rule.match, rule.unless)
                if match is not None
                for pattern in _named_programs(match)
            }
            search = f"{SEARCH_PATH}:{self._search_path()}"
            self._known = KnownPrograms.find(self._machine.init_pid, sorted(names), search)
        return self._known


def _named_programs(match: Match) -> Iterator[str]:
    """Yield the patterns that name programs; one that fits every program names none."""
    patterns = [*(match.get("program") or ()), *(match.get("path") or ())]
    patterns += [argv[0] for argv in match.get("argv") or ()]
    yield from (pattern for pattern in patterns if pattern.strip("*/"))


def _key(attempt: ExecAttempt) -> tuple[object, ...]:
    event = attempt.event
    return event.pid, event.program, event.argv, event.cwd


async def let_through(action: Action) -> Done:
    """Carry out an exec: the kernel does it as soon as the call is answered."""
    return Done(record={"let_through": True})
