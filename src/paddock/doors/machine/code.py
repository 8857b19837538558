"""Code execution: stateful contexts, each an IPython process inside the sandbox."""

from __future__ import annotations

import asyncio
import contextlib
import json
import signal
import struct
from collections.abc import Awaitable, Callable
from functools import partial
from pathlib import Path
from typing import Any

import msgspec

from paddock.doors.machine.guest import Guest
from paddock.doors.machine.processes import start_error
from paddock.fence.channel import GuestStream, StreamData, StreamEnd
from paddock.fence.offload import offload
from paddock.model.code import (
    Execution,
    ExecutionBuilder,
    ExecutionError,
    MessageReader,
    OutputMessage,
    Result,
)
from paddock.model.errors import HostCannot, InvalidInput, NotFound, SandboxError
from paddock.model.spec import HOME, sandbox_path
from paddock.state.home import new_id

DEFAULT = "default"
INTERRUPT_GRACE_S = 2.0
_PYTHONS = "for p in /usr/local/bin/python3 /usr/bin/python3; do [ -x $p ] && exec $p"
_SCRIPT = "/.paddock/kernel/kernel.py"


class CodeContext(msgspec.Struct, frozen=True):
    """A named interpreter state."""

    id: str
    cwd: str
    language: str = "python"


class Listeners(msgspec.Struct, frozen=True):
    """Functions that are told what happens while a cell runs."""

    on_stdout: Callable[[Any], Awaitable[None]] | None = None
    on_stderr: Callable[[Any], Awaitable[None]] | None = None
    on_result: Callable[[Any], Awaitable[None]] | None = None
    on_error: Callable[[Any], Awaitable[None]] | None = None

    async def tell(self, payload: object) -> None:
        heard: Callable[[Any], Awaitable[None]] | None = None
        if isinstance(payload, OutputMessage):
            heard = self.on_stderr if payload.error else self.on_stdout
        elif isinstance(payload, Result):
            heard = self.on_result
        elif isinstance(payload, ExecutionError):
            heard = self.on_error
        if heard is not None:
            await heard(payload)


class Kernel:
    """One interpreter process; cells run one after the other."""

    def __init__(
        self, guest: Guest, context: CodeContext, stream: GuestStream, on_end: Callable[[], object]
    ) -> None:
        """`on_end` is called when the interpreter is lost."""
        self.context = context
        self._guest = guest
        self._on_end = on_end
        self._stream = stream
        self._reader = MessageReader()
        self._turn = asyncio.Lock()
        self._number = 0
        self._leftover: tuple[asyncio.Task[Execution], ExecutionBuilder] | None = None

    async def run(
        self, code: str, envs: dict[str, str], listeners: Listeners, timeout_s: float | None
    ) -> Execution:
        async with self._turn:
            if self._leftover is not None:  # a cell whose caller went away
                await self._interrupt(*self._leftover, INTERRUPT_GRACE_S)
            self._number += 1
            request = {"id": self._number, "op": "execute", "code": code, "envs": envs or None}
            builder = ExecutionBuilder(self._number, max_bytes=self._guest.spec.limits.output)
            await self._send(request)
            work = asyncio.ensure_future(self._collect(builder, listeners))
            try:
                done, _ = await asyncio.wait([work], timeout=timeout_s)
            except asyncio.CancelledError:
                self._leftover = (work, builder)
                self.interrupt()
                raise
            if done:
                return work.result()
            return await self._interrupt(work, builder, timeout_s)

    def interrupt(self) -> None:
        self._stream.call("signal", signal=int(signal.SIGINT))

    def end(self) -> None:
        with contextlib.suppress(SandboxError):
            self._stream.call("signal", signal=int(signal.SIGKILL))
        self._stream.close()

    async def _interrupt(
        self, work: asyncio.Task[Execution], builder: ExecutionBuilder, timeout_s: float | None
    ) -> Execution:
        """Interrupt a cell that took too long, so that the state of the context survives."""
        self._leftover = None
        self.interrupt()
        done, _ = await asyncio.wait([work], timeout=INTERRUPT_GRACE_S)
        if not done:
            work.cancel()
            self._on_end()
            self.end()
        partial = work.result() if done else builder.build()
        kept = "its state is kept" if done else "it ignored the interrupt and was ended"
        error = ExecutionError(
            "TimeoutError", f"the cell ran longer than {timeout_s} s; {kept}", ""
        )
        return Execution(partial.results, partial.logs, error, partial.execution_count)

    async def _send(self, request: dict[str, Any]) -> None:
        body = json.dumps(request).encode()
        await self._stream.send(struct.pack(">I", len(body)) + body)

    async def _collect(self, builder: ExecutionBuilder, listeners: Listeners) -> Execution:
        noise = bytearray()
        while not builder.is_done:
            item = await self._stream.next()
            if isinstance(item, StreamEnd):
                self._on_end()
                return await self._died(builder, item.value, bytes(noise))
            if isinstance(item, StreamData) and item.port == 2:
                noise = (noise + item.content)[-4096:]
            elif isinstance(item, StreamData):
                for message in self._messages(item.content):
                    await listeners.tell(builder.feed(message))
        return builder.build()

    def _messages(self, content: bytes | bytearray) -> list[dict[str, Any]]:
        try:
            return self._reader.feed(content)
        except SandboxError:
            # A cell got at the protocol and broke it: nothing that follows can be understood.
            self._on_end()
            self.end()
            raise

    async def _died(
        self, builder: ExecutionBuilder, ending: dict[str, Any], noise: bytes
    ) -> Execution:
        partial = builder.build()
        hit = await self._guest.limits_hit(ending)
        limit = ending.get("killed_by") or (hit[0] if hit else None)
        why = f"stopped by the {limit} limit" if limit else f"exit status {ending.get('exit')}"
        text = noise.decode("utf-8", "replace")
        error = partial.error or ExecutionError(
            "InterpreterDied", f"{why}; its state is lost", text
        )
        return Execution(partial.results, partial.logs, error, partial.execution_count)


class CodeCore:
    """The interpreters of one sandbox, by the id of their context."""

    def __init__(
        self,
        guest: Guest,
        environment: Callable[[dict[str, str]], dict[str, str]],
        cache: Path,
    ) -> None:
        """`environment` returns the variables of a program; `cache` holds IPython for sandboxes."""
        self._guest = guest
        self._environment = environment
        self._cache = cache
        self._kernels: dict[str, Kernel] = {}
        self._starting = asyncio.Lock()

    async def create_context(
        self, cwd: str = HOME, language: str = "python", envs: dict[str, str] | None = None
    ) -> CodeContext:
        return await self._new(new_id(), cwd, language, envs or {})

    async def run(
        self,
        code: str,
        context: CodeContext | str | None,
        envs: dict[str, str],
        listeners: Listeners,
        timeout_s: float | None,
    ) -> Execution:
        if not isinstance(code, str):
            raise InvalidInput(f"code: {type(code).__name__} is not text")
        kernel = await self._kernel(context)
        return await kernel.run(code, envs, listeners, timeout_s)

    async def _kernel(self, context: CodeContext | str | None) -> Kernel:
        wanted = context.id if isinstance(context, CodeContext) else context or DEFAULT
        async with self._starting:
            if wanted == DEFAULT and DEFAULT not in self._kernels:
                await self._new(DEFAULT, HOME, "python", {})
        kernel = self._kernels.get(wanted)
        if kernel is None:
            raise NotFound(f"no code context {wanted!r} in this sandbox", hint="it may have died")
        return kernel

    def remove(self, context: CodeContext | str) -> None:
        kernel = self._kernels.pop(
            context.id if isinstance(context, CodeContext) else context, None
        )
        if kernel is not None:
            kernel.end()

    async def _new(self, name: str, cwd: str, language: str, envs: dict[str, str]) -> CodeContext:
        if language != "python":
            raise InvalidInput(f"language: {language!r} is not offered; use python")
        # Heavy, and rarely needed.
        from paddock.state.kernel_site import kernel_site, kernel_site_hint

        site = await offload(kernel_site, self._cache)
        if site is None:
            raise HostCannot("run_code needs IPython", hint=kernel_site_hint())
        context = CodeContext(name, sandbox_path(cwd))
        self._kernels[name] = await self._start(context, envs, site.name)
        return context

    async def _start(self, context: CodeContext, envs: dict[str, str], site: str) -> Kernel:
        argv, env = _command(site), self._environment(envs)
        stream = self._guest.channel.open(
            "exec", argv=argv, cwd=context.cwd, env=env, stdin=True, pty=None
        )
        first = await stream.next()
        if isinstance(first, StreamEnd):
            raise start_error(first.value, "the code interpreter")
        forget = partial(self._kernels.pop, context.id, None)
        return Kernel(self._guest, context, stream, forget)


def _command(site: str) -> list[str]:
    """Return the command that starts an interpreter: the sandbox's own Python if it has one, so
    that its packages are there; else ours."""
    ours = (
        "/.paddock/python/lib/ld* --library-path /.paddock/python/lib /.paddock/python/bin/python3"
    )
    run = f"-I {_SCRIPT} /.paddock/site/{site}"
    return ["/bin/sh", "-c", f"{_PYTHONS} {run}; done; exec {ours} {run}"]
