"""The calls on a sandbox as a whole: paused, forked, saved, compared, ended."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, cast

from paddock.doors.machine.box import Box
from paddock.doors.machine.code import DEFAULT, CodeContext, Listeners
from paddock.doors.machine.records import code_record
from paddock.doors.machine.remote import RemoteBox
from paddock.fence.driver import Capability
from paddock.fence.offload import offload
from paddock.gate.alerts import RaisedAlert
from paddock.gate.executors import Done
from paddock.model.action import Action
from paddock.model.code import Execution
from paddock.model.errors import InvalidInput
from paddock.model.events import WorldReset
from paddock.model.results import ExecEvent, FileEvent, Metrics, SandboxInfo
from paddock.model.sizes import parse_duration
from paddock.model.spec import HOME, parse_envs
from paddock.policy.network import network_of

if TYPE_CHECKING:
    from paddock.doors.machine.workspace import Changes
    from paddock.world.changes import DocumentChange
    from paddock.world.world import World

CODE_TIMEOUT_S = 300.0
Loop = asyncio.AbstractEventLoop | None


class BoxCalls:
    """One sandbox as its callers see it."""

    def __init__(self, box: Box | RemoteBox, loop: Loop) -> None:
        # A remote box raises for the few calls that only work in its own process.
        self.box = cast(Box, box)
        self.loop = loop

    async def pause(self) -> None:
        """Freezes everything inside; its time-out stands still too."""
        await self.box.pause()

    async def resume(self) -> None:
        """Lets a paused sandbox go on."""
        await self.box.resume()

    async def kill(self) -> None:
        """Ends everything inside and removes what it left."""
        await self.box.end("killed by its owner")

    async def set_timeout(self, timeout: float | str) -> None:
        """Lets the sandbox end by itself after so long from now."""
        self.box.set_timeout(parse_duration(timeout, "timeout"))

    async def get_info(self) -> SandboxInfo:
        """Returns what it is, how long it has, and what enforces each limit."""
        box: Box | RemoteBox = self.box
        return await box.fetch_info() if isinstance(box, RemoteBox) else box.info()

    async def is_running(self) -> bool:
        """Tells whether it runs: neither paused nor ended."""
        return (await self.get_info()).state == "running"

    async def metrics(self) -> Metrics:
        """Returns CPU, memory, processes, disk and I/O now."""
        return await self.box.metrics()

    async def metrics_history(self) -> list[Metrics]:
        """Returns samples taken every few seconds, oldest first."""
        return self.box.history()

    async def snapshot(self, name: str | None = None) -> str:
        """Saves the files and returns the id; create(snapshot=...) takes the id or the name. A name
        that another snapshot has is a Conflict."""
        return await self.box.snapshot(name)

    async def fork(self, count: int) -> list[Box]:
        """Makes new sandboxes with the files of this moment."""
        if not isinstance(count, int) or count < 1:
            raise InvalidInput(f"fork: {count!r} must be a whole number from 1")
        return await self.box.fork(count)

    async def changes(self) -> Changes:
        """Returns what overlay mounts and the workspace changed since the start."""
        from paddock.doors.machine.workspace import changes_of

        async with self.box.still():
            return await offload(changes_of, self.box)

    async def exec_events(self) -> list[ExecEvent]:
        """Lists every program that was executed inside, whoever started it, oldest first."""
        self.box.machine.require(Capability.EXEC_EVENTS)
        return self.box.machine.execs.all()

    async def file_events(self) -> list[FileEvent]:
        """Lists files opened and written inside, where the host can tell (see get_info)."""
        return self.box.machine.files.all()

    async def update_network(
        self,
        allow: Sequence[str] | None = None,
        *,
        mode: str | None = None,
        tls: Mapping[str, Any] | None = None,
        hosts: Mapping[str, str] | None = None,
        private: Sequence[str] | None = None,
    ) -> None:
        """Puts what is given, as in a paddock file, in the place of what held so far; the rest
        stays. What is then not allowed is cut at once."""
        changes = {"allow": allow, "mode": mode, "tls": tls, "hosts": hosts, "private": private}
        options = self.box.network.as_options()
        options |= {name: value for name, value in changes.items() if value is not None}
        if mode == "none" and allow is None:
            options.pop("allow", None)
        elif mode is None and allow:
            options["mode"] = "filtered"
        for name in ("allow", "private"):
            if isinstance(options.get(name), tuple):
                options[name] = list(options[name])
        await self.box.network.update(network_of(options))

    async def alerts(self) -> list[RaisedAlert]:
        """Lists what somebody should look at, oldest first: attempts that were stopped."""
        return self.box.alerts()

    async def world_digest(self) -> str:
        """Returns a digest that is the same for the same state of all stand-ins."""
        return await offload(self._world.digest)

    async def world_changes(self) -> dict[str, list[DocumentChange]]:
        """Lists what is otherwise than at the beginning, by stand-in."""
        return {stand_in.name: await offload(stand_in.changes) for stand_in in self._world}

    async def broken_invariants(self) -> dict[str, list[str]]:
        """Lists what should always hold in a stand-in and does not, by stand-in."""
        return await offload(self._world.broken)

    async def reset_world(self) -> None:
        """Puts every stand-in back to its beginning, exactly."""
        await self._world.reset()
        self.box.actions.gate.record(WorldReset())

    @property
    def _world(self) -> World:
        if self.box.world is None:
            raise InvalidInput("this sandbox has no world", hint="say world={...} when creating it")
        return self.box.world

    async def run_code(
        self,
        code: str,
        context: CodeContext | str | None = None,
        *,
        language: str = "python",
        envs: Mapping[str, str] | None = None,
        timeout: float | str | None = CODE_TIMEOUT_S,
        on_stdout: Callable[[Any], Any] | None = None,
        on_stderr: Callable[[Any], Any] | None = None,
        on_result: Callable[[Any], Any] | None = None,
        on_error: Callable[[Any], Any] | None = None,
    ) -> Execution:
        """Runs a cell in a stateful interpreter; errors of the code are in the result."""
        if language != "python":
            raise InvalidInput(f"language: {language!r} is not offered; use python")
        engine = self.box.engine
        listeners = Listeners(
            *(engine.callback(f, self.loop) for f in (on_stdout, on_stderr, on_result, on_error))
        )
        seconds = None if not timeout else parse_duration(timeout, "timeout")
        variables = dict(parse_envs(envs))

        async def live(action: Action) -> Done:
            done = await self.box.code.run(code, context, variables, listeners, seconds)
            return Done(value=done, record=code_record(done))

        name = context.id if isinstance(context, CodeContext) else context or DEFAULT
        execution: Execution = await self.box.actions.code(language, code, name, live)
        return execution

    async def create_code_context(
        self, cwd: str = HOME, language: str = "python", envs: Mapping[str, str] | None = None
    ) -> CodeContext:
        """Makes a second interpreter, with a state of its own."""
        return await self.box.code.create_context(cwd, language, dict(parse_envs(envs)))

    async def remove_code_context(self, context: CodeContext | str) -> None:
        """Ends an interpreter."""
        self.box.code.remove(context)
