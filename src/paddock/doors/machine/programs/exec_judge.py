"""Programs that are about to run inside, before the gate: those that rules or faults mind, and the
commands of an agent, which are steps of its run."""

from __future__ import annotations

import asyncio
import contextlib
import errno
from collections.abc import Awaitable, Iterator, Sequence
from typing import TYPE_CHECKING

import msgspec

from paddock.doors.machine.programs.agent_processes import Commanders
from paddock.doors.machine.programs.exec_actions import exec_action, named_action
from paddock.doors.machine.programs.kill_fault import Killer
from paddock.fence.container.driver import PATH
from paddock.fence.processes.programs import Attempt, KnownPrograms, ProgramFile, real_path, resolve
from paddock.gate.executors import Done
from paddock.model.action import Action, Kind, Outcome, Verdict
from paddock.model.events import ProgramRefused
from paddock.policy.rules import Match

if TYPE_CHECKING:
    from paddock.doors.machine.actions import Passage

_MAX_HELD = 4096


class _Held(msgspec.Struct, frozen=True):
    """An attempt that is judged, or was."""

    key: tuple[object, ...]
    verdict: asyncio.Future[int]

    @property
    def is_binding(self) -> bool:
        """A yes counts once: whoever executes the same again has become another program."""
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
    """Asked by the notifier while the kernel holds the call."""

    def __init__(self, passage: Passage, killer: Killer, *, has_rules: bool) -> None:
        self.commanders: Commanders | None = None  # of a run: what its agent starts is a step
        self._passage = passage
        self._killer = killer
        self._has_rules = has_rules
        self._known: KnownPrograms | None = None
        self._held: dict[int, _Held] = {}  # by the pid that the host knows

    def __call__(self, attempt: Attempt) -> int | Awaitable[int]:
        """What a program that is about to run meets. Whatever goes wrong here is a no.

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

    def _judged(self, attempt: Attempt) -> int | Awaitable[int]:
        try:
            step = self._passage.step_of(attempt.event)
            expected = self._passage.expectation(attempt.event)
            is_command = self._is_command(attempt)
            if not self._has_rules and not is_command:
                return 0
            files = self._files(attempt)
            if is_command and self.commanders is not None:
                self.commanders.started(attempt.event.pid)
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
            doubtful = [action for action in actions if not self._passage.gate.lets_pass(action)]
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
        """Of other terms."""
        self._has_rules, self._known = has_rules, None

    def _is_command(self, attempt: Attempt) -> bool:
        if self.commanders is None:
            return False
        if attempt.is_first:
            self.commanders.begins(attempt.event.pid, attempt.host_pid)
            return False  # it has crossed, or is ours
        return self.commanders.is_command(attempt)

    def _unreadable(self, attempt: Attempt, error: Exception) -> int:
        """Refuse what cannot be looked at, and write that down."""
        event = attempt.event
        self.record_refusal(event.program, event.argv, error, self._passage.step_of(event))
        code = getattr(error, "errno", None)
        return code if isinstance(code, int) and code > 0 else errno.EACCES

    def record_refusal(
        self, program: str, argv: Sequence[str], error: Exception, step: int | None
    ) -> None:
        """Record that a program was refused because it could not be told what it would run."""
        with contextlib.suppress(Exception):
            self._passage.gate.record(ProgramRefused(program, list(argv), str(error)), step)

    async def _judge_command(self, actions: list[Action], attempt: Attempt) -> int:
        code = errno.EACCES
        try:
            code = await self._judge_later(actions, attempt)
        finally:
            if code and self.commanders is not None:
                self.commanders.refused(attempt.event.pid)
        return code

    async def _judge_later(self, actions: list[Action], attempt: Attempt) -> int:
        killing: list[float] = []
        for action in actions:
            spoil = self._killer.watch(killing)
            with self._passage.under_way():
                receipt = await self._passage.gate.cross(action, let_through, spoil=spoil)
            if self.commanders is not None and action is actions[0]:
                self._passage.belongs_to(attempt.event.pid, receipt.step)
            if receipt.outcome is Outcome.FAULTED:
                return getattr(receipt.exception, "errno", None) or errno.EIO
            if not receipt.is_done:
                return errno.EACCES
        self._killer.kill_held(attempt.host_pid, killing)
        return 0

    def _would_ask(self, action: Action) -> bool:
        return self._passage.policy.decide(action).verdict is Verdict.ASK

    def _files(self, attempt: Attempt) -> list[ProgramFile]:
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
                for rule in self._passage.policy.rules
                if Kind.EXEC in rule.kinds
                for match in (rule.match, rule.unless)
                if match is not None
                for pattern in _named_programs(match)
            }
            search = f"{PATH}:{self._passage.search_path}"
            self._known = KnownPrograms.find(self._passage.init_pid, sorted(names), search)
        return self._known


def _named_programs(match: Match) -> Iterator[str]:
    """Yield the patterns that name programs; one that fits every program names none."""
    patterns = [*(match.get("program") or ()), *(match.get("path") or ())]
    patterns += [words[0] for words in match.get("argv") or ()]
    yield from (pattern for pattern in patterns if pattern.strip("*/"))


def _key(attempt: Attempt) -> tuple[object, ...]:
    event = attempt.event
    return event.pid, event.program, event.argv, event.cwd


async def let_through(action: Action) -> Done:
    """Carry out an exec: the kernel does it as soon as the call is answered."""
    return Done(record={"let_through": True})
