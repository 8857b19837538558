"""The calls on a sandbox as actions: commands, file calls and cells, each decided by its gate.

A call that the gate lets through is carried out by the function that came with it (`live`). For a
command the gate also decides on every program that it would run, before the guest is told to start
it: from spawn to exec the guest stands still, and nobody could be asked then. On programs that
programs start the judge decides (`programs.exec_judge`); the journal records every one.
"""

from __future__ import annotations

import asyncio
import errno
from collections.abc import Awaitable, Callable, Mapping
from functools import partial
from typing import Any

from paddock.doors.machine.guest import LocalGuest
from paddock.doors.machine.programs.exec_actions import file_arguments, named_action
from paddock.doors.machine.programs.exec_judge import ExecJudge, let_through
from paddock.doors.machine.programs.kill_fault import KillFault
from paddock.doors.machine.programs.process_steps import ExpectedCommand, ProcessSteps
from paddock.doors.machine.sandbox_gate import SandboxGate
from paddock.fence.driver import SEARCH_PATH, Capability
from paddock.fence.processes.programs import ProgramFile, resolve_command
from paddock.gate.executors import Done, Fault, Spoil
from paddock.gate.gate import Gate
from paddock.journal.errors import JournalBroken
from paddock.model.action import Action, Effect, Kind, Outcome, Receipt, Verdict
from paddock.model.errors import Blocked, FaultInjected, InvalidInput, SandboxError
from paddock.model.events import ProgramEnded, ProgramStarted
from paddock.model.results import ExecEvent
from paddock.policy.decide import Policy
from paddock.policy.fields import READ_OPERATIONS

_FLUSH_S = 0.05  # how long an observation may wait for a record to go with
Work = Callable[[Action], Awaitable[Done]]


class SandboxActions:
    """One per sandbox; runs on the engine's loop."""

    def __init__(
        self,
        guest: LocalGuest,
        sandbox_gate: SandboxGate,
        environment: Callable[[], Mapping[str, str]],
    ) -> None:
        """`environment` returns the variables that programs get if nobody says otherwise."""
        self.steps = ProcessSteps()
        self._guest = guest
        self._sandbox_gate = sandbox_gate
        self._environment = environment
        self._loop = asyncio.get_running_loop()
        self._kill_fault = KillFault(guest)
        self._flushing: asyncio.TimerHandle | None = None
        self._judge = ExecJudge(
            guest.machine, sandbox_gate, self.steps, self._kill_fault, self._search_path
        )
        self._look_for_rules()
        if self._has_exec_rules or sandbox_gate.is_run:
            self._be_judged()
        guest.machine.execs.listeners.append(self._observed)

    @property
    def gate(self) -> Gate:
        """Return the gate, opened when first needed. Raises JournalBroken or OSError."""
        return self._sandbox_gate.gate

    @property
    def policy(self) -> Policy:
        """Return the policy that decides now."""
        return self._sandbox_gate.policy

    def change_policy(self, policy: Policy) -> None:
        """Decide by another policy from the next action on. What is under way was decided by the
        old one."""
        self._sandbox_gate.change_policy(policy)
        self._look_for_rules()
        if self._has_exec_rules:
            self._be_judged()

    def _look_for_rules(self) -> None:
        policy = self._sandbox_gate.policy
        self._has_exec_rules = _has_rules(policy, Kind.EXEC)
        self._has_file_rules = _has_rules(policy, Kind.FILE)
        self._judge.change_rules(has_rules=self._has_exec_rules)

    def _be_judged(self) -> None:
        """Have the fence ask the judge from now on. Raises CannotEnforce."""
        self._guest.machine.require(Capability.EXEC_JUDGE)
        self._guest.machine.execs.judge = self._judge

    def _search_path(self) -> str:
        """Return where the sandbox's programs look for programs, unless they are told otherwise."""
        return self._environment().get("PATH", SEARCH_PATH)

    async def command(
        self,
        argv: list[str],
        cwd: str,
        live: Work,
        *,
        is_background: bool = False,
        is_begun_elsewhere: bool = False,
    ) -> Any:
        """Run a program that the host asks for."""
        shown = ["sh", *argv[1:]] if argv[0] == "@shell" else list(argv)
        arguments: dict[str, Any] = {"argv": shown, "cwd": cwd, "program": shown[0]}
        if is_background:
            arguments["background"] = True
        files = await self._program_files(argv, cwd) if self._has_exec_rules else []
        if files:
            arguments |= {"program": files[0].called, **file_arguments(files[0])}

        kill_after_s: list[float] = []  # of a fault that ends it

        async def begin(action: Action) -> Done:
            assert action.step is not None
            await self._cross_named_programs(files, cwd, action.step)
            real_paths = tuple(file.real_path for file in files)
            expected = ExpectedCommand(action.step, tuple(argv), real_paths)
            with self.steps.command(expected, is_begun_elsewhere=is_begun_elsewhere):
                pids = partial(self.steps.pids_of, action.step)
                self._kill_fault.kill(pids, kill_after_s)
                return await live(action)

        spoil = self._kill_fault.watch(kill_after_s)
        return await self._cross(Kind.EXEC, shown[0], arguments, Effect.WRITE, begin, spoil)

    async def file(self, operation: str, path: str, live: Work, **more: Any) -> Any:
        """Do something with a file; `path` is absolute."""
        arguments = {"operation": operation, "path": path, **more}
        if self._has_file_rules:
            arguments |= await self._resolved_paths(path, more.get("to"))
        effect = Effect.READ if operation in READ_OPERATIONS else Effect.WRITE
        return await self._cross(Kind.FILE, operation, arguments, effect, live)

    async def code(self, language: str, code: str, context: str, live: Work) -> Any:
        """Run a cell."""
        arguments = {"language": language, "code": code, "context": context}

        async def begin(action: Action) -> Done:
            assert action.step is not None
            with self.steps.cell(action.step):
                return await live(action)

        return await self._cross(Kind.CODE, language, arguments, Effect.WRITE, begin)

    async def admit(self, ask: Mapping[str, Any]) -> None:
        """Decide on an action that another process of the user is about to carry out by itself."""

        async def elsewhere(action: Action) -> Done:
            return Done(record={"by": "another process"})

        arguments = dict(ask["arguments"])
        match Kind(ask["kind"]):
            case Kind.EXEC:
                argv = [str(word) for word in arguments["argv"]]
                await self.command(argv, arguments["cwd"], elsewhere, is_begun_elsewhere=True)
            case Kind.FILE:
                operation, path = arguments.pop("operation"), arguments.pop("path")
                await self.file(operation, path, elsewhere, **arguments)
            case Kind.CODE:
                language, code = str(arguments["language"]), str(arguments["code"])
                await self.code(language, code, str(arguments["context"]), elsewhere)
            case kind:
                raise InvalidInput(f"{kind} is no action of a machine")

    async def _cross(
        self,
        kind: Kind,
        name: str,
        arguments: Mapping[str, Any],
        effect: Effect,
        live: Work,
        spoil: Spoil | None = None,
    ) -> Any:
        gate = self._sandbox_gate.for_action()
        action = Action(kind, name, arguments, effect, is_contained=True)
        with self._sandbox_gate.under_way():
            receipt = await gate.cross(action, live, spoil=spoil)
        if self._guest.failure is not None and not receipt.is_done:
            raise self._guest.failure
        if isinstance(receipt.exception, JournalBroken):
            _ = self._guest.channel  # the journal of an ended sandbox is closed: say that it ended
        return value_of(receipt)

    async def _program_files(self, argv: list[str], cwd: str) -> list[ProgramFile]:
        """Return the programs that a command would run; none when there is no such program."""
        answer = await self._guest.channel.ask(
            "resolve", path=argv[0], cwd=cwd, search=self._search_path()
        )
        if "error" in answer:
            return []
        path = str(answer["path"])
        try:
            return resolve_command(path, argv, cwd, self._judge.known_programs())
        except FileNotFoundError:
            return []
        except OSError as error:
            self._judge.record_refusal(path, argv, error, None)
            raise Blocked(f"{path}: {error.strerror}") from error

    async def _cross_named_programs(self, files: list[ProgramFile], cwd: str, step: int) -> None:
        """Have the gate decide on the programs that a command's program names: a script's
        interpreter, what a loader loads. Once the guest starts it, nobody could be asked."""
        for file in files[1:]:
            action = named_action(file, files[0].called, cwd, None, step)
            if not self.gate.lets_pass(action):
                value_of(await self.gate.cross(action, let_through))

    async def _resolved_paths(self, path: str, to: str | None) -> dict[str, Any]:
        """Return what paths lead to, which rules compare: a link is no way around them."""
        real = {}
        for key, named in (("path", path), ("to", to)):
            if named is not None:
                answer = await self._guest.channel.ask("resolve", path=named)
                real[key] = str(answer.get("real") or named)
        return real if real.get("path") == path else {**real, "called": path}

    def _observed(self, event: ExecEvent) -> None:
        """Record a program; called when it starts, and when it has ended."""
        gate = self._sandbox_gate.opened
        if gate is None:
            return
        gate.observe(_observation(event), self.steps.of_exec(event))
        if self._flushing is None:
            self._flushing = self._loop.call_later(_FLUSH_S, self._flush)

    def _flush(self) -> None:
        self._flushing = None
        gate = self._sandbox_gate.opened
        if gate is not None:
            try:
                gate.flush()
            except JournalBroken:  # what cannot be recorded does not happen, inside either
                self._guest.machine.execs.judge = lambda attempt: errno.EACCES


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
    """Return the value of a receipt, or raise the error that says what happened."""
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
    """Return whether a rule can say anything but yes to what stays inside."""
    return any(
        kind in rule.kinds and rule.decide is not Verdict.ALLOW for rule in policy.rules
    ) or any(kind in fault.kinds for fault in policy.faults)
