"""A request and its answer, the same for HTTP/1 and HTTP/2. Values and protocols; no parsing."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from typing import TYPE_CHECKING, Protocol

import msgspec

if TYPE_CHECKING:
    from paddock.doors.network.transport.conn import Conn

Headers = list[tuple[bytes, bytes]]  # names as they were sent; no pseudo headers

SWITCHING_PROTOCOLS = 101
# RFC 9112, 6.3: whatever their headers announce, nothing follows the heads of these answers.
UNFRAMED = frozenset({204, 304})
# RFC 9110, 15.3.6: a 205 has no content either, but how it is framed says its head.
BODYLESS = UNFRAMED | {205}


class BadMessage(Exception):
    """The peer broke the protocol, or tried to be understood in two ways."""

    def __init__(self, status: int, message: str) -> None:
        super().__init__(message)
        self.status = status


class Body(Protocol):
    """Bytes that come one after the other."""

    @property
    def length(self) -> int | None:
        """The announced length, where there is one."""
        ...

    @property
    def trailers(self) -> Headers:
        """The trailers, which are known after the end."""
        ...

    async def read(self) -> bytes:
        """Return the next part; b"" at the end. Raises BadMessage or ConnLost."""
        ...


class NoBody:
    """The body of a message that has none."""

    __slots__ = ()
    length: int | None = 0

    @property
    def trailers(self) -> Headers:
        return []

    async def read(self) -> bytes:
        return b""


class BodyWrapper:
    """A body around another one. A subclass says what `read` does."""

    __slots__ = ("_body",)

    def __init__(self, body: Body) -> None:
        self._body = body

    @property
    def length(self) -> int | None:
        return self._body.length

    @property
    def trailers(self) -> Headers:
        return self._body.trailers


class BufferedBody:
    """A body of which parts are in memory already, and the rest, if any, comes from another one."""

    __slots__ = ("_parts", "_rest", "length")

    def __init__(self, parts: Sequence[bytes], rest: Body | None = None) -> None:
        self._parts = list(parts)
        self._rest = rest
        self.length = rest.length if rest is not None else sum(map(len, self._parts))

    @property
    def trailers(self) -> Headers:
        return self._rest.trailers if self._rest is not None else []

    async def read(self) -> bytes:
        if self._parts:
            return self._parts.pop(0)
        return await self._rest.read() if self._rest is not None else b""


class HttpRequest(msgspec.Struct):
    """A request as a client sent it. `authority` is its Host, or that of HTTP/2; which destination
    is meant is not for the request to say."""

    method: str
    scheme: str  # http or https
    authority: str | None
    target: str  # path and query, as sent
    headers: Headers
    version: str  # 1.0, 1.1 or 2
    body: Body = msgspec.field(default_factory=NoBody)
    expects_continue: bool = False
    upgrade: str | None = None  # what the client wants to speak instead, e.g. websocket


class Response(msgspec.Struct):
    """An answer as a server sent it."""

    status: int
    reason: bytes
    headers: Headers
    body: Body
    version: str


class HttpExchange(Protocol):
    """One request, and the way to answer it."""

    request: HttpRequest

    async def proceed(self) -> None:
        """Tell a client that waits for it to send its body."""
        ...

    async def begin(self, status: int, headers: Headers, reason: bytes = b"") -> None:
        """Send the head of the answer. How the body is framed is the driver's business; a
        Content-Length among the headers is kept, and then held."""
        ...

    async def send(self, data: bytes) -> None:
        """Send a part of the body, as fast as the client takes it."""
        ...

    async def finish(self, trailers: Headers | None = None) -> None: ...

    def abort(self) -> None:
        """Cut the answer so that the client sees that it is not whole."""
        ...

    async def cut(self) -> None:
        """End the answer where it is: what was sent arrives, and what is missing can be seen."""
        ...

    async def break_off(self) -> None:
        """End the answer like `cut`, and so that no client can take it for the end: it sees a
        failure."""
        ...

    def is_gone(self) -> bool:
        """Return whether nobody waits for the answer any more, as far as that can be told at
        once."""
        ...

    def take_over(self) -> Conn:
        """Return the connection itself, after an answer of 101. HTTP/1 only."""
        ...


Handler = Callable[[HttpExchange], Awaitable[None]]
Faulted = Callable[[Exception], None]


def ignore_fault(error: Exception) -> None:
    """Ignore an error that nobody has to be told."""


def has_body(method: str, status: int) -> bool:
    """Return whether the answer to such a request with this status has a body."""
    return method != "HEAD" and status >= 200 and status not in BODYLESS


def header(headers: Headers, name: bytes) -> bytes | None:
    """Return the first value of a header; `name` is in lower case."""
    for key, value in headers:
        if key.lower() == name:
            return value
    return None


def values_of(headers: Headers, name: bytes) -> list[bytes]:
    return [value for key, value in headers if key.lower() == name]


def without(headers: Headers, *names: bytes) -> Headers:
    return [pair for pair in headers if pair[0].lower() not in names]
