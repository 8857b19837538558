"""Asks the person at the terminal of the run. Questions go on to the store as well: whoever answers
first has answered, and the others are told who it was.
"""

from __future__ import annotations

import asyncio
import time
from typing import TYPE_CHECKING

from paddock.gate.approvals import PENDING, Approval, Approvals
from paddock.gate.approvals.request import login_name

if TYPE_CHECKING:
    from paddock.gate.approvals.tty import Terminal

_QUIET_S = 1.5  # long enough to finish a word and press Enter


class TerminalApprover:
    """Asks on the controlling terminal, one question at a time; without one it does nothing."""

    def __init__(self, by: str | None = None) -> None:
        self._by = by or login_name()
        self._quiet_until = 0.0

    async def consider(self, approval: Approval, approvals: Approvals) -> None:
        from paddock.gate.approvals.tty import Terminal  # most runs ask nobody

        terminal = Terminal.open()
        if terminal is None:
            return
        try:
            async with terminal.turn():
                await asyncio.sleep(self._quiet_until - time.monotonic())
                if approvals.get(approval.approval_id).state == PENDING:
                    await self._talk(terminal, approval, approvals)
        finally:
            terminal.close()

    async def _talk(self, terminal: Terminal, approval: Approval, approvals: Approvals) -> None:
        from paddock.gate.approvals.terminal_dialog import TerminalDialog

        try:
            await TerminalDialog(terminal, approval, approvals, self._by).hold()
        except asyncio.CancelledError:
            # Somebody may just be typing an answer to it, which is none to the next question.
            self._quiet_until = time.monotonic() + _QUIET_S
            raise
