"""Heads of HTTP/1 messages: read, checked and written. llhttp parses; what it lets pass and another
parser could read differently is refused here. Bodies are in `bodies`.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable
from typing import Any, TypeVar, cast

import msgspec
from httptools import (
    HttpParserError,
    HttpParserInvalidMethodError,
    HttpParserUpgrade,
    HttpRequestParser,
    HttpResponseParser,
)

from paddock.doors.network.exchange import BadMessage, Headers, HttpRequest
from paddock.doors.network.transport.stream import ByteStream, ConnLost

MAX_HEAD_BYTES = 64 << 10
MAX_HEADERS = 200
HEAD_S = 30.0  # for a head to arrive completely, from its first byte
_MAX_LENGTH_DIGITS = 15
_EMPTY_LINES = 2  # that some clients send after a body

_ALNUM = b"0123456789abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ"
_TOKEN = _ALNUM + b"!#$%&'*+-.^_`|~"
_AUTHORITY = _ALNUM + b"-._~%:[]"
_TARGET = bytes(byte for byte in range(0x21, 0x7F) if byte != ord("#"))
_IN_HEAD = b"\t\r\n" + bytes(range(0x20, 0x7F)) + bytes(range(0x80, 0x100))

_TELLING = frozenset(
    (b"host", b"content-length", b"transfer-encoding", b"connection", b"upgrade", b"expect")
)
_HOP_BY_HOP = frozenset(
    (b"connection", b"keep-alive", b"te", b"transfer-encoding", b"upgrade", b"http2-settings")
)
# A client may not have these removed by naming them in its Connection header.
_ALWAYS_KEPT = frozenset((b"host", b"content-length"))


_Found = TypeVar("_Found")


class Fields:
    """The headers of one head, with those that say how the message is to be read at hand."""

    __slots__ = ("_telling", "headers", "reason")

    def __init__(self) -> None:
        self.headers: Headers = []
        self.reason = b""
        self._telling: dict[bytes, list[bytes]] = {}

    def on_header(self, name: bytes, value: bytes) -> None:
        value = value.strip(b" \t")
        self.headers.append((name, value))
        key = name.lower()
        if key in _TELLING:
            self._telling.setdefault(key, []).append(value)

    def on_status(self, reason: bytes) -> None:
        self.reason += reason

    def all(self, name: bytes) -> list[bytes]:
        return self._telling.get(name, [])

    def one(self, name: bytes) -> bytes | None:
        values = self._telling.get(name)
        if values is None:
            return None
        if len(values) > 1:
            raise BadMessage(400, f"more than one {name.decode()} header")
        return values[0]

    def keeps_alive(self, version: str) -> bool:
        values = self._telling.get(b"connection")
        if values is None:
            return version == "1.1"
        names = tokens(values)
        return b"close" not in names and (version == "1.1" or b"keep-alive" in names)

    def body_length(self, version: str) -> int | None:
        """The announced length, 0 where none is, None for chunks."""
        encoding, length = self.one(b"transfer-encoding"), self.one(b"content-length")
        if encoding is not None:
            if length is not None:
                raise BadMessage(400, "both Content-Length and Transfer-Encoding")
            if encoding.lower() != b"chunked":
                raise BadMessage(501, "a transfer encoding other than chunked")
            if version == "1.0":
                raise BadMessage(400, "a transfer encoding in HTTP/1.0")
            return None
        if length is None:
            return 0
        if not is_length(length):
            raise BadMessage(400, "an invalid Content-Length")
        return int(length)

    def drop(self, *names: bytes) -> None:
        self.headers = [pair for pair in self.headers if pair[0].lower() not in names]


class Repeated(list[tuple[bytes, bytes]]):
    """Headers that a client may send again, word for word, with its next request. What was found
    out about them is kept with them, so nobody may change them."""

    __slots__ = ("known",)

    def __init__(self, headers: Headers) -> None:
        super().__init__(headers)
        self.known: dict[object, Any] = {}


def known(headers: Headers, find: Callable[[Headers], _Found]) -> _Found:
    """Return what `find` says about the headers. It is asked once about headers that repeat."""
    if type(headers) is not Repeated:
        return find(headers)
    results = headers.known
    if find not in results:
        results[find] = find(headers)
    return cast("_Found", results[find])


_MAX_KEPT_HEAD = 8192


class LastHead:
    """The last head of a connection: a client's heads differ in their targets, and often in nothing
    else. Then only the first line is read again."""

    __slots__ = ("_fields", "_method", "_rest", "_version")

    def __init__(self) -> None:
        self._fields = Fields()
        self._method = self._rest = self._version = b""

    def parse(self, block: bytes) -> tuple[RequestLine, Fields]:
        end = block.index(b"\r\n")
        line, rest = block[:end], block[end:]
        method, version = line.partition(b" ")[0], line[-9:]
        if rest == self._rest and method == self._method and version == self._version:
            return _request_line(line), self._fields
        parsed = parse_request(block)
        if len(rest) > _MAX_KEPT_HEAD:
            return parsed
        self._fields, self._rest = parsed[1], rest
        self._method, self._version = method, version
        self._fields.headers = Repeated(self._fields.headers)
        return parsed


class RequestLine(msgspec.Struct):
    method: str
    target: str
    authority: str | None  # of an absolute target, or of CONNECT
    version: str


async def read_head(conn: ByteStream) -> bytes | None:
    """The next head with the empty line that ends it; what came after it stays in the connection.
    None where the peer is done."""
    data = await conn.read()
    for _ in range(_EMPTY_LINES):
        if data.startswith(b"\r\n"):
            data = data[2:] or await conn.read()
    if not data:
        return None
    end = data.find(b"\r\n\r\n")
    if end < 0:
        data, end = await _rest_of_head(conn, data)
    end += 4
    if end > MAX_HEAD_BYTES:
        raise BadMessage(431, f"a head of more than {MAX_HEAD_BYTES >> 10} KiB")
    if end == len(data):
        return data
    conn.unread(data[end:])
    return data[:end]


async def _rest_of_head(conn: ByteStream, first: bytes) -> tuple[bytes, int]:
    data, seen = bytearray(first), 0
    try:
        async with asyncio.timeout(HEAD_S):
            while (end := data.find(b"\r\n\r\n", max(seen - 3, 0))) < 0:
                _check_line_ends(data[:seen][-1:], data[seen:])
                if len(data) > MAX_HEAD_BYTES:
                    raise BadMessage(431, f"a head of more than {MAX_HEAD_BYTES >> 10} KiB")
                seen = len(data)
                more = await conn.read()
                if not more:
                    raise ConnLost("it ended in the middle of a head")
                data += more
    except TimeoutError:
        raise BadMessage(408, f"a head that took more than {HEAD_S:g} s") from None
    return bytes(data), end


def _check_line_ends(before: bytearray, part: bytearray) -> None:
    """A head with bare line feeds would be waited for in vain."""
    if part.count(b"\n") > (before + part).count(b"\r\n"):
        raise BadMessage(400, "a line that does not end with CR LF")


def parse_request(block: bytes) -> tuple[RequestLine, Fields]:
    line = _first_line(block)
    fields = Fields()
    try:
        HttpRequestParser(fields).feed_data(block)
    except HttpParserUpgrade:
        pass  # what comes after the head is not fed
    except HttpParserInvalidMethodError:
        is_token = not line.partition(b" ")[0].translate(None, _TOKEN)
        raise BadMessage(501 if is_token else 400, "an unknown method") from None
    except HttpParserError as error:
        raise BadMessage(400, str(error)) from None
    if len(fields.headers) > MAX_HEADERS:
        raise BadMessage(431, f"more than {MAX_HEADERS} headers")
    return _request_line(line), fields


def parse_response(block: bytes) -> tuple[int, str, Fields]:
    """Status, version and fields. Whatever is wrong is the server's fault: 502."""
    fields = Fields()
    try:
        line = _first_line(block)
        HttpResponseParser(fields).feed_data(block)
    except HttpParserUpgrade:
        pass
    except HttpParserError as error:
        raise BadMessage(502, str(error)) from None
    except BadMessage as error:
        raise BadMessage(502, str(error)) from None
    version, status = line[:9], line[9:12]
    if version not in (b"HTTP/1.1 ", b"HTTP/1.0 ") or not (status.isdigit() and len(status) == 3):
        raise BadMessage(502, "not an HTTP/1 status line")
    if len(fields.headers) > MAX_HEADERS:
        raise BadMessage(502, f"more than {MAX_HEADERS} headers")
    return int(status), version[5:8].decode(), fields


def _first_line(block: bytes) -> bytes:
    """Parse the first line of a head in which every byte is fit to be passed on."""
    if block.translate(None, _IN_HEAD):
        raise BadMessage(400, "a control character in the head")
    lines = block.count(b"\r\n")
    if block.count(b"\n") != lines or block.count(b"\r") != lines:
        raise BadMessage(400, "a line that does not end with CR LF")
    if b"\r\n " in block or b"\r\n\t" in block:
        raise BadMessage(400, "a folded header")
    return block[: block.index(b"\r\n")]


def _request_line(line: bytes) -> RequestLine:
    parts = line.split(b" ")
    if len(parts) != 3:
        raise BadMessage(400, "not a request line")
    method, target, version = parts
    if version not in (b"HTTP/1.1", b"HTTP/1.0"):
        raise BadMessage(505, "neither HTTP/1.1 nor HTTP/1.0")
    if target.translate(None, _TARGET):
        raise BadMessage(400, "a character in the target that has no place there")
    path, authority = target, None
    if method == b"CONNECT":
        authority = checked_authority(target)
    elif not target.startswith(b"/") and not (target == b"*" and method == b"OPTIONS"):
        path, authority = _absolute(target)
    return RequestLine(method.decode(), path.decode(), authority, version[5:].decode())


def _absolute(target: bytes) -> tuple[bytes, str]:
    if target[:7].lower() != b"http://":
        raise BadMessage(400, "a target that is neither a path nor an http URL")
    rest = target[7:]
    ends = [at for at in (rest.find(b"/"), rest.find(b"?")) if at >= 0]
    end = min(ends, default=len(rest))
    path = rest[end:]
    return path if path.startswith(b"/") else b"/" + path, checked_authority(rest[:end])


def checked_authority(value: bytes) -> str:
    if not value or value.translate(None, _AUTHORITY):
        raise BadMessage(400, "an invalid host")
    return value.decode()


def same_authority(one: str, other: str) -> bool:
    """For plain HTTP, where port 80 may be left out."""
    return one.lower().removesuffix(":80") == other.lower().removesuffix(":80")


def is_length(value: bytes) -> bool:
    return value.isdigit() and len(value) <= _MAX_LENGTH_DIGITS


def tokens(values: Iterable[bytes]) -> set[bytes]:
    """The words of lists with commas, in lower case."""
    return {word.strip(b" \t").lower() for value in values for word in value.split(b",")} - {b""}


def head_bytes(start: bytes, headers: Headers) -> bytes:
    """A head as it goes out. Whoever made the headers: nothing in them can end a line."""
    names = [name for name, _ in headers]
    if b"" in names:
        raise BadMessage(502, "a header without a name")
    block = b"\r\n".join([start, *[b"%b: %b" % pair for pair in headers], b"\r\n"])
    ends = len(names) + 2
    if (
        b"".join(names).translate(None, _TOKEN)
        or block.translate(None, _IN_HEAD)
        or block.count(b"\n") != ends
        or block.count(b"\r") != ends
    ):
        raise BadMessage(502, "a header that cannot be sent")
    return block


def request_line(request: HttpRequest) -> bytes:
    """As it goes out. HTTP/2 lets more into a method and a target than HTTP/1 can carry."""
    method = request.method.encode("latin-1", "replace")
    target = request.target.encode("utf-8", "replace")
    is_path = target.startswith(b"/") or (target == b"*" and method == b"OPTIONS")
    if not is_path or target.translate(None, _TARGET):
        raise BadMessage(400, "a target that cannot be sent")
    if not method or method.translate(None, _TOKEN):
        raise BadMessage(400, "a method that cannot be sent")
    return b"%b %b HTTP/1.1" % (method, target)


def end_to_end(headers: Headers) -> Headers:
    """Without what is for the next hop only. `TE: trailers` and a websocket's Upgrade stay."""
    keys = [name.lower() for name, _ in headers]
    dropped = _HOP_BY_HOP
    if b"connection" in keys:
        named = tokens(v for (_, v), key in zip(headers, keys, strict=True) if key == b"connection")
        dropped = (_HOP_BY_HOP | named) - _ALWAYS_KEPT
    kept = []
    for pair, key in zip(headers, keys, strict=True):
        name, value = pair
        if key not in dropped and not key.startswith(b"proxy-"):
            kept.append(pair)
        elif key == b"te" and b"trailers" in tokens((value,)):
            kept.append((name, b"trailers"))
        elif key == b"upgrade" and value.lower() == b"websocket":
            kept.append((name, value))
    return kept
