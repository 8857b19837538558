"""The talk with the person at the terminal about one question. Loaded with the first question."""

from __future__ import annotations

import asyncio
import contextlib
import os
from collections.abc import Mapping
from typing import Any

from paddock.gate.approvals import EXPIRED, PENDING, WITHDRAWN, Approval, Approvals
from paddock.gate.approvals.argument_edits import (
    arguments_file,
    change_lines,
    editor_command,
    json_text,
    parse_arguments,
    read_arguments,
    with_changes,
)
from paddock.gate.approvals.proposals import Proposals, sketch
from paddock.gate.approvals.question_text import question_lines, time_left
from paddock.gate.approvals.tty import Terminal
from paddock.model.errors import InvalidInput, PaddockError
from paddock.model.printable import printable

_MENU = "[a]pprove  [d]eny  [e]dit  [s]kip  [A]lways"
_HELP = (
    "  a, y  yes, this once       d, n  no; a reason may follow: d too much\n"
    "  e     yes, but changed     s     leave it to others (paddock approvals)\n"
    "  A     yes, and propose a rule for calls like this one, which is shown first\n"
)
_INLINE = "  no $EDITOR is set: body.amount=100 for one field, or all as one JSON object\n  > "
_EDITOR_LEAVES_S = 2.0


class TerminalDialog:
    """One question, until it is answered, left to others, or answered by them."""

    def __init__(
        self, terminal: Terminal, approval: Approval, approvals: Approvals, by: str
    ) -> None:
        self._terminal = terminal
        self._approval = approval
        self._approvals = approvals
        self._by = by

    async def hold(self) -> None:
        lines = question_lines(self._approval, self._terminal.width - 1)
        self._terminal.forget_typed()
        try:
            await self._terminal.write("\n" + "\n".join(lines) + "\n")
            while not await self._round():
                pass
        except asyncio.CancelledError:
            self._terminal.write_now("\n" + self._what_came() + "\n")
            raise

    async def _round(self) -> bool:
        """Ask once. Return whether that was the end of it."""
        left = time_left(self._approval.left_s)
        await self._terminal.write(f"{_MENU}  ({left} left) > ")
        answer = await self._terminal.line()
        if answer is None:
            await self._terminal.write("\n")
            return True
        try:
            done = await self._answer(answer.strip())
        except InvalidInput as error:
            lines = (f"  {printable(line)}\n" for line in str(error).split("\n"))
            await self._terminal.write("".join(lines))
            return False
        except PaddockError as error:  # somebody else was first, or the store cannot be used
            await self._terminal.write(f"  {printable(error)}\n")
            return True
        return done

    async def _answer(self, answer: str) -> bool:
        key, _, rest = answer.partition(" ")
        match key:
            case "a" | "approve" | "y" | "yes":
                self._approvals.approve(self._approval.approval_id, self._by, rest.strip())
            case "d" | "D" | "deny" | "n" | "N" | "no":
                await self._deny(rest.strip())
            case "e" | "E" | "edit":
                return await self._edit()
            case "s" | "S" | "skip":
                await self._terminal.write("  left to others\n")
            case "A":
                return await self._always()
            case _:
                await self._terminal.write(_HELP)
                return False
        return True

    async def _deny(self, reason: str) -> None:
        if not reason:
            await self._terminal.write("  reason (may be empty) > ")
            reason = (await self._terminal.line() or "").strip()
        self._approvals.deny(self._approval.approval_id, self._by, reason)

    async def _always(self) -> bool:
        """Show the rule before anything is answered. Return whether that was the end of it."""
        try:
            rule = sketch(self._approval, self._by).as_yaml()
        except PaddockError as error:
            await self._terminal.write(f"  no rule can be proposed: {printable(error)}\n")
            return False
        await self._terminal.write("".join(f"  {line}\n" for line in rule.splitlines()))
        await self._terminal.write("  approve, and keep this rule for review? [y/N] > ")
        if (await self._terminal.line() or "").strip() not in ("y", "yes"):
            return False
        approved = self._approvals.approve(self._approval.approval_id, self._by)
        proposal = Proposals(self._approvals.store).add(approved, self._by)
        message = f"approved; proposal {proposal.proposal_id} waits for review"
        await self._terminal.write(f"  {message} (paddock approvals proposals)\n")
        return True

    async def _edit(self) -> bool:
        shown: Mapping[str, Any] = self._approval.content.get("arguments") or {}
        editor = os.environ.get("VISUAL") or os.environ.get("EDITOR")
        edited = await (self._in_editor(editor, shown) if editor else self._inline(shown))
        if edited is None or json_text(edited) == json_text(shown):
            await self._terminal.write("  nothing was changed\n")
            return False
        self._approvals.edit(self._approval.approval_id, self._by, edited)
        changes = "".join(f"  {line}\n" for line in change_lines(shown, edited))
        await self._terminal.write(f"{changes}  approved as edited; the rules decide on it again\n")
        return True

    async def _inline(self, shown: Mapping[str, Any]) -> Mapping[str, Any] | None:
        await self._terminal.write(_INLINE)
        text = (await self._terminal.line() or "").strip()
        if not text:
            return None
        return parse_arguments(text) if text.startswith("{") else with_changes(shown, [text])

    async def _in_editor(self, editor: str, shown: Mapping[str, Any]) -> Mapping[str, Any]:
        with arguments_file(shown) as path:
            await self._run_editor([*editor_command(editor), str(path)])
            return read_arguments(path)

    async def _run_editor(self, command: list[str]) -> None:
        with self._terminal.lent() as fd:
            try:
                process = await asyncio.create_subprocess_exec(
                    *command, stdin=fd, stdout=fd, stderr=fd
                )
            except OSError as error:
                raise InvalidInput(f"{command[0]} cannot be started: {error.strerror}") from None
            try:
                code = await process.wait()
            except asyncio.CancelledError:
                await _end(process)
                raise
        if code:
            raise InvalidInput(f"{command[0]} ended with {code}; nothing was changed")

    def _what_came(self) -> str:
        with contextlib.suppress(PaddockError):
            present = self._approvals.get(self._approval.approval_id)
            if present.state == EXPIRED:
                return "  nobody answered in time, and that means no"
            if present.state not in (PENDING, WITHDRAWN):
                return f"  {present.state} by {printable(present.answered_by)}, elsewhere"
        return "  the question was withdrawn"


async def _end(process: asyncio.subprocess.Process) -> None:
    """End a program: politely, so that an editor puts the screen back; then by force."""
    with contextlib.suppress(ProcessLookupError):
        process.terminate()
    try:
        await asyncio.wait_for(process.wait(), _EDITOR_LEAVES_S)
    except TimeoutError:
        with contextlib.suppress(ProcessLookupError):
            process.kill()
        await process.wait()
