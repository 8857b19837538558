"""A sandbox without a network: attempts to use one are steps that were refused, and alerts.

The kernel refuses them; see `fence/container/network/namespace.py`. Nothing of the network door
is loaded.
"""

from __future__ import annotations

import asyncio
import contextlib
from typing import Any

from paddock.doors.machine.actions import SandboxActions
from paddock.fence.driver import Machine
from paddock.fence.network import AttemptLog, NetworkAttempt
from paddock.fence.offload import offload
from paddock.gate.alerts import EGRESS_DENIED
from paddock.journal.errors import JournalBroken
from paddock.model.action import Action, Effect, Kind

_WHY = "This sandbox has no network."


class AbsentNetwork:
    """Watches the log of one sandbox; runs on the engine's loop."""

    def __init__(self, machine: Machine, actions: SandboxActions) -> None:
        self._machine = machine
        self._actions = actions
        self._loop = asyncio.get_running_loop()
        self._log: AttemptLog | None = None

    async def watch(self) -> str | None:
        """Begin to watch. Return None, or why this host cannot log attempts."""
        try:
            await offload(self._machine.network.log_attempts)
        except (OSError, ValueError) as error:  # of a kernel that cannot, of a sandbox that ended
            return str(error)
        # The socket is ours until it is given back: nobody else closes it while it is watched.
        log = self._machine.network.borrow_log()
        if log is None:
            return "the sandbox has ended"
        self._log = log
        self._loop.add_reader(log.fileno(), self._on_readable)
        return None

    def give_back(self) -> None:
        """Stop watching: a network is about to be opened, with the socket that was used here."""
        log = self._unwatched()
        if log is not None:
            self._machine.network.return_log(log)

    def close(self) -> None:
        """Stop watching: the sandbox has ended."""
        log = self._unwatched()
        if log is not None:
            log.close()

    def _unwatched(self) -> AttemptLog | None:
        log, self._log = self._log, None
        if log is not None:
            self._loop.remove_reader(log.fileno())
        return log

    def _on_readable(self) -> None:
        assert self._log is not None
        try:
            attempts = self._log.read()
        except OSError:
            self.close()
            return
        # A resolver asks for one name several times, in both address families.
        for attempt in dict.fromkeys(attempts):
            self._record(attempt)

    def _record(self, attempt: NetworkAttempt) -> None:
        actions = self._actions
        host = attempt.dns_name or attempt.address
        arguments: dict[str, Any] = {"host": host, "transport": attempt.protocol}
        if attempt.dns_name is not None:
            kind, arguments["name"], arguments["transport"] = Kind.DNS, host, "dns"
        else:
            kind, arguments["port"] = Kind.CONNECT, attempt.port or 0
        # The kernel has refused it already; that stands even when it cannot be written down.
        with contextlib.suppress(JournalBroken, OSError):
            action = Action(
                kind, host, arguments, Effect.WRITE, parent=actions.steps.of_process(None)
            )
            receipt = actions.gate.refuse(action, "network", _WHY)
            about = {name: value for name, value in arguments.items() if name != "name"}
            actions.gate.alerts.raised(EGRESS_DENIED, about, receipt.step or None)
