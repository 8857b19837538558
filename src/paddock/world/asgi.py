"""Calls an ASGI application with one request. It may be anybody's: what it does wrong is found out
here, and a limit holds for each wait."""

from __future__ import annotations

import asyncio
import types
from collections.abc import AsyncIterable, AsyncIterator, Coroutine, Generator, MutableMapping
from dataclasses import dataclass, field
from functools import partial
from typing import Any
from urllib.parse import unquote_to_bytes

from paddock.world.service import ASGIApp, StandInFailed

Headers = list[tuple[bytes, bytes]]
TIMEOUT_S = 30.0  # to the first byte of the answer, and from each part to the next
_MAX_PARTS = 16  # that an application is ahead of its reader


@dataclass(frozen=True, slots=True)
class WorldRequest:
    """A request to a stand-in, as it came from the agent."""

    method: str
    path: str
    query: str = ""
    headers: Headers = field(default_factory=list)
    body: bytes | AsyncIterable[bytes] = b""
    scheme: str = "https"
    host: str = "localhost"
    port: int = 443


@dataclass(frozen=True, slots=True)
class HttpAnswer:
    """What a stand-in answers. A body may come in parts."""

    status: int = 200
    headers: Headers = field(default_factory=list)
    body: bytes | AsyncIterable[bytes] = b""


async def call(
    app: ASGIApp,
    request: WorldRequest,
    *,
    timeout_s: float = TIMEOUT_S,
    is_prompt: bool = False,
) -> HttpAnswer:
    """The answer of the application. A body that comes at once is bytes, one that comes in parts
    is read as it is made. Raises StandInFailed when it raises, hangs or breaks the protocol. One
    that `is_prompt` hardly ever waits, and has no task of its own unless it does."""
    asked = _Call(request, timeout_s)
    running: Coroutine[Any, Any, None] = asked.run(app)
    if is_prompt:
        try:
            waited_for = running.send(None)
        except StopIteration:
            return asked.whole()
        running = _go_on(running, waited_for)
    task = asyncio.ensure_future(running)
    try:
        await asked.begun(task)
    except BaseException:
        task.cancel()
        raise
    if task.done() and task.exception() is None:
        return asked.whole()
    return HttpAnswer(asked.status, asked.headers, asked.parts(task))


@types.coroutine
def _go_on(running: Coroutine[Any, Any, None], waited_for: Any) -> Generator[Any, Any, None]:
    """The rest of a coroutine that has been begun."""
    while True:
        try:
            answer = yield waited_for
        except BaseException as error:
            step = partial(running.throw, error)
        else:
            step = partial(running.send, answer)
        try:
            waited_for = step()
        except StopIteration:
            return


class _Call:
    def __init__(self, request: WorldRequest, timeout_s: float) -> None:
        self.status = 0
        self.headers: Headers = []
        self._request = request
        self._timeout_s = timeout_s
        self._incoming = _chunks(request.body)
        self._is_read = False
        self._out: asyncio.Queue[bytes | None] = asyncio.Queue(_MAX_PARTS)
        self._moved = asyncio.Event()
        self._is_ended = False

    async def run(self, app: ASGIApp) -> None:
        try:
            await app(_scope(self._request), self._receive, self._send)
        except Exception as error:
            raise StandInFailed(f"it raised {type(error).__name__}: {error}") from error
        finally:
            self._moved.set()
        if not self.status:
            raise StandInFailed("it ended without an answer")
        if not self._is_ended:
            raise StandInFailed("it ended in the middle of its answer")

    async def begun(self, task: asyncio.Task[None]) -> None:
        """Waits for the first part of the body, or for the end."""
        waiting = asyncio.ensure_future(self._moved.wait())
        try:
            await asyncio.wait({task, waiting}, timeout=self._timeout_s,
                               return_when=asyncio.FIRST_COMPLETED)  # fmt: skip
        finally:
            waiting.cancel()
        await asyncio.sleep(0)  # most have said all by then
        if task.done():
            task.result()
        elif not self._moved.is_set():
            raise StandInFailed(f"it gave no answer within {self._timeout_s:g} s")

    def whole(self) -> HttpAnswer:
        parts = []
        while not self._out.empty():
            parts.append(self._out.get_nowait() or b"")
        return HttpAnswer(self.status, self.headers, b"".join(parts))

    async def parts(self, task: asyncio.Task[None]) -> AsyncIterator[bytes]:
        try:
            while True:
                part = await self._next(task)
                if part is None:
                    break
                if part:
                    yield part
            await task
        finally:
            task.cancel()

    async def _next(self, task: asyncio.Task[None]) -> bytes | None:
        if not self._out.empty():
            return self._out.get_nowait()
        getting = asyncio.ensure_future(self._out.get())
        try:
            await asyncio.wait({getting, task}, timeout=self._timeout_s,
                               return_when=asyncio.FIRST_COMPLETED)  # fmt: skip
            if getting.done():
                return getting.result()
            if task.done():
                task.result()
                return self._out.get_nowait() if not self._out.empty() else None
            raise StandInFailed(f"it fell silent for {self._timeout_s:g} s")
        finally:
            getting.cancel()

    async def _receive(self) -> MutableMapping[str, Any]:
        if self._is_read:
            await asyncio.sleep(self._timeout_s)
            return {"type": "http.disconnect"}
        try:
            part = await anext(self._incoming)
        except StopAsyncIteration:
            self._is_read = True
            return {"type": "http.request", "body": b"", "more_body": False}
        return {"type": "http.request", "body": part, "more_body": True}

    async def _send(self, message: MutableMapping[str, Any]) -> None:
        if message["type"] == "http.response.start":
            if self.status:
                raise RuntimeError("an answer begins once")
            self.status = int(message["status"])
            self.headers = [(bytes(n), bytes(v)) for n, v in message.get("headers", ())]
        elif message["type"] == "http.response.body":
            await self._send_body(message)

    async def _send_body(self, message: MutableMapping[str, Any]) -> None:
        if not self.status:
            raise RuntimeError("the body came before the status")
        if self._is_ended:
            raise RuntimeError("the body had ended")
        body = bytes(message.get("body", b""))
        if not message.get("more_body", False):
            self._is_ended = True
            await self._out.put(body)
            await self._out.put(None)
        else:
            await self._out.put(body)
        self._moved.set()


def _scope(request: WorldRequest) -> dict[str, Any]:
    raw = request.path.encode("latin-1", "replace")
    return {
        "type": "http",
        "asgi": {"version": "3.0", "spec_version": "2.4"},
        "http_version": "1.1",
        "method": request.method,
        "scheme": request.scheme,
        "path": unquote_to_bytes(raw).decode("utf-8", "replace"),
        "raw_path": raw,
        "query_string": request.query.encode("latin-1", "replace"),
        "root_path": "",
        "headers": [(name.lower(), value) for name, value in request.headers],
        "client": ("10.0.2.15", 40000),
        "server": (request.host, request.port),
        "state": {},
        "extensions": {},
    }


async def _chunks(body: bytes | AsyncIterable[bytes]) -> AsyncIterator[bytes]:
    if isinstance(body, bytes):
        if body:
            yield body
        return
    async for part in body:
        yield part
