"""Calls an ASGI application with one request. It may be anybody's: what it does wrong is found out
here, and a time limit holds for each wait.

The application runs in a task of its own, and an `_Exchange` stands between it and the caller.
There are three ways an answer comes:

1. in one message, from a prompt application that never waits: the caller drives the coroutine
   itself, and no task is made. This is the common case of the built-in stand-ins, and much faster;
2. in one message, after some waiting: the caller gets bytes, and the task may go on for a while;
3. in parts: the caller gets a `_StreamedBody` and reads from a bounded queue, so that the
   application is never far ahead of its reader.
"""

from __future__ import annotations

import asyncio
import types
from collections.abc import AsyncIterable, AsyncIterator, Coroutine, Generator, MutableMapping
from functools import partial
from typing import Any, Self, TypeVar
from urllib.parse import unquote_to_bytes

import msgspec

from paddock.world.service import ASGIApp, StandInFailed

T = TypeVar("T")
Headers = list[tuple[bytes, bytes]]
TIMEOUT_S = 30.0  # to the first byte of the answer, and from each part to the next
_MAX_PARTS = 16  # that an application is ahead of its reader
_READER_S = 600.0  # that a reader may take for a part; the door has limits of its own


class WorldRequest(msgspec.Struct, frozen=True):
    """A request to a stand-in, as it came from the agent."""

    method: str
    path: str
    query: str = ""
    headers: Headers = []
    body: bytes | AsyncIterable[bytes] = b""
    scheme: str = "https"
    host: str = "localhost"
    port: int = 443


class HttpAnswer(msgspec.Struct, frozen=True):
    """The answer of a stand-in. A body may come in parts."""

    status: int = 200
    headers: Headers = []
    body: bytes | AsyncIterable[bytes] = b""


async def call(
    app: ASGIApp,
    request: WorldRequest,
    *,
    timeout_s: float = TIMEOUT_S,
    is_prompt: bool = False,
) -> HttpAnswer:
    """Return the answer of the application. A body that comes at once is bytes, one that comes in
    parts is read as it is made, and `aclose` ends it. What the application does after its answer
    has the same limit. Raises StandInFailed when it raises, hangs or breaks the protocol. One that
    `is_prompt` hardly ever waits, and has no task of its own unless it does."""
    exchange = _Exchange(request, timeout_s)
    running: Coroutine[Any, Any, None] = exchange.run(app)
    if is_prompt:
        try:
            awaited = running.send(None)
        except StopIteration:
            return HttpAnswer(exchange.status, exchange.headers, exchange.read_buffered())
        running = _resume(running, awaited)
    exchange.start(running)
    try:
        await exchange.wait_for_start()
    except BaseException:
        exchange.stop()
        raise
    if exchange.is_whole:
        exchange.finish()
        return HttpAnswer(exchange.status, exchange.headers, exchange.read_buffered())
    return HttpAnswer(exchange.status, exchange.headers, _StreamedBody(exchange))


@types.coroutine
def _resume(running: Coroutine[Any, Any, None], awaited: Any) -> Generator[Any, Any, None]:
    """Run the rest of a coroutine that waits for `awaited`."""
    while True:
        try:
            answer = yield awaited
        except BaseException as error:
            step = partial(running.throw, error)
        else:
            step = partial(running.send, answer)
        try:
            awaited = step()
        except StopIteration:
            return


class _StreamedBody:
    """A body in parts. It is no generator: closing one that nobody began to read would end
    nothing."""

    def __init__(self, exchange: _Exchange) -> None:
        self._exchange = exchange
        self._is_over = False

    def __aiter__(self) -> Self:
        return self

    async def __anext__(self) -> bytes:
        try:
            while not self._is_over:
                part = await self._exchange.next()
                if part:
                    return part
                if part is None:
                    self._is_over = True
                    self._exchange.finish()
        except BaseException:
            await self.aclose()
            raise
        raise StopAsyncIteration

    async def aclose(self) -> None:
        if not self._is_over:
            self._is_over = True
            self._exchange.stop()


class _Exchange:
    """One request to an application, and what has come of its answer so far."""

    def __init__(self, request: WorldRequest, timeout_s: float) -> None:
        self.status = 0
        self.headers: Headers = []
        self.is_whole = False  # nothing of the answer is still to come
        self._request = request
        self._timeout_s = timeout_s
        self._request_body = _RequestBody(request.body, timeout_s)
        # Most answers are one message, and nobody waits for it: then none of these are needed.
        self._single_part: bytes | None = None
        self._queue: asyncio.Queue[bytes | None] | None = None
        self._progress: asyncio.Future[None] | None = None
        self._disconnected: asyncio.Event | None = None  # nobody reads any more
        self._is_ended = False
        self._is_stopped = False

    def start(self, running: Coroutine[Any, Any, None]) -> None:
        self._progress = asyncio.get_running_loop().create_future()
        if self._single_part is not None or self._queue is not None:
            self._note_progress()
        self._task = asyncio.ensure_future(running)
        self._task.add_done_callback(self._on_task_done)

    def stop(self) -> None:
        self._is_stopped = True
        self._disconnect_event().set()
        self._task.cancel()

    def finish(self) -> None:
        """Note that the answer is over. What is done after it may go on, for a while."""
        self._disconnect_event().set()
        if self._task.done():
            return
        timer = asyncio.get_running_loop().call_later(self._timeout_s, self.stop)
        self._task.add_done_callback(lambda _: timer.cancel())

    async def wait_for_start(self) -> None:
        """Wait for the first part of the body, or for the end."""
        assert self._progress is not None
        while not self._progress.done():
            left = (
                self._request_body.idle_since + self._timeout_s - asyncio.get_running_loop().time()
            )
            if left <= 0:
                raise StandInFailed(f"it gave no answer within {self._timeout_s:g} s")
            await asyncio.wait({self._progress}, timeout=left)
        await asyncio.sleep(0)  # most have sent all by then
        if self._task.done():
            self._task.result()

    def read_buffered(self) -> bytes:
        """Return what was sent and not yet read."""
        if self._queue is None:
            return self._single_part or b""
        parts = []
        while not self._queue.empty():
            parts.append(self._queue.get_nowait() or b"")
        return b"".join(parts)

    async def next(self) -> bytes | None:
        """Return the next part, or None after the last one."""
        assert self._queue is not None  # what came in one message is not read in parts
        if not self._queue.empty():
            return self._queue.get_nowait()
        getting = asyncio.ensure_future(self._queue.get())
        try:
            await asyncio.wait({getting, self._task}, timeout=self._timeout_s,
                               return_when=asyncio.FIRST_COMPLETED)  # fmt: skip
            if getting.done():
                return getting.result()
            if self._task.done():
                self._task.result()
                return None if self._queue.empty() else self._queue.get_nowait()
            raise StandInFailed(f"it fell silent for {self._timeout_s:g} s")
        finally:
            getting.cancel()

    async def run(self, app: ASGIApp) -> None:
        try:
            await app(_scope(self._request), self._receive, self._send)
        except (Exception, SystemExit) as error:
            raise StandInFailed(f"it raised {type(error).__name__}: {error}") from error
        except asyncio.CancelledError:
            if self._is_stopped:
                raise
            raise StandInFailed("it cancelled itself") from None  # the caller was not
        if not self.status:
            raise StandInFailed("it ended without an answer")
        if not self._is_ended:
            raise StandInFailed("it ended in the middle of its answer")

    async def _receive(self) -> MutableMapping[str, Any]:
        part = await self._request_body.next()
        if part is not None:
            return {"type": "http.request", "body": part, "more_body": self._request_body.has_more}
        if self._request_body.is_broken:
            # Many an application takes a disconnect for the end, and would do half of a request.
            raise ConnectionError("the body of the request broke off")
        await self._disconnect_event().wait()
        return {"type": "http.disconnect"}

    async def _send(self, message: MutableMapping[str, Any]) -> None:
        if message["type"] == "http.response.start":
            if self.status:
                raise RuntimeError("an answer begins once")
            self.status = _status(message["status"])
            self.headers = [(_bytes(n), _bytes(v)) for n, v in message.get("headers", ())]
        elif message["type"] == "http.response.body":
            await self._send_body(message)

    async def _send_body(self, message: MutableMapping[str, Any]) -> None:
        if not self.status:
            raise RuntimeError("the body came before the status")
        if self._is_ended:
            raise RuntimeError("the body had ended")
        self._is_ended = not message.get("more_body", False)
        body = _bytes(message.get("body", b""))
        if self._is_ended and self._queue is None:
            self._single_part = body
        else:
            await self._put(body)
            if self._is_ended:
                await self._put(None)
        self.is_whole = self._is_ended
        self._note_progress()

    def _note_progress(self) -> None:
        if self._progress is not None and not self._progress.done():
            self._progress.set_result(None)

    def _disconnect_event(self) -> asyncio.Event:
        if self._disconnected is None:
            self._disconnected = asyncio.Event()
        return self._disconnected

    def _on_task_done(self, task: asyncio.Task[None]) -> None:
        self._note_progress()
        if not task.cancelled():
            task.exception()  # nobody may be left to be told of what went wrong after the answer

    async def _put(self, part: bytes | None) -> None:
        if self._queue is None:
            self._queue = asyncio.Queue(_MAX_PARTS)
        if self._queue.full():
            await _with_timeout(_READER_S, self._queue.put(part))
        else:
            self._queue.put_nowait(part)


class _RequestBody:
    """The body of the request. How long the agent takes for it is not the application's fault."""

    def __init__(self, body: bytes | AsyncIterable[bytes], timeout_s: float) -> None:
        self.has_more = True
        self.is_broken = False
        self._body = body
        self._incoming = None if isinstance(body, bytes) else aiter(body)
        self._timeout_s = timeout_s
        self._is_waiting = False
        self._received_at = asyncio.get_running_loop().time()

    @property
    def idle_since(self) -> float:
        """Return since when the application has had all that it asked for."""
        now = asyncio.get_running_loop().time()
        return now if self._is_waiting else self._received_at

    async def next(self) -> bytes | None:
        """Return the next part, or None when there is no more or when it broke off."""
        if not self.has_more or self.is_broken:
            return None
        if self._incoming is None:
            self.has_more = False
            return bytes(self._body)  # type: ignore[arg-type]
        self._is_waiting = True
        try:
            part = await _with_timeout(self._timeout_s, _next_of(self._incoming))
        except Exception:
            self.is_broken = True
            return None
        finally:
            self._is_waiting = False
            self._received_at = asyncio.get_running_loop().time()
        self.has_more = part is not None
        return part or b""


async def _next_of(parts: AsyncIterator[bytes]) -> bytes | None:
    return await anext(parts, None)


async def _with_timeout(limit_s: float, awaited: Coroutine[Any, Any, T]) -> T:
    """Wait in a task of its own: asyncio.timeout is bound to the task that it began in, and a
    prompt application may go on in another."""
    task = asyncio.ensure_future(awaited)
    try:
        await asyncio.wait({task}, timeout=limit_s)
        if not task.done():
            raise TimeoutError
        return task.result()
    finally:
        task.cancel()


def _bytes(value: Any) -> bytes:
    if type(value) is bytes:
        return value
    if not isinstance(value, bytes | bytearray | memoryview):  # bytes(7) would be seven zeros
        raise TypeError(f"bytes are needed, not {type(value).__name__}")
    return bytes(value)


def _status(value: Any) -> int:
    if not isinstance(value, int) or not 200 <= value <= 599:
        raise ValueError(f"{value!r} is no status")
    return int(value)


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
