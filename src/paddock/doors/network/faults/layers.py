"""Faults on purpose in answers: they come in place of an answer, or spoil it on its way.

The exchange that a request is answered on is wrapped, so whoever answers does not know: the real
server or its stand-in has done its part, and the journal has what it said.
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import Mapping
from typing import Any

from paddock.doors.network.exchange import Headers, HttpExchange, has_body, header, without
from paddock.doors.network.layers.base import ExchangeLayer
from paddock.gate.executors import MAX_DELAY_S
from paddock.gate.faults import TIMEOUT_S, cut_at

_LOOK_S = 0.25  # how often a silent server looks whether anybody still waits
_HELD_BYTES = 1 << 20  # of an answer whose length is not known, to find its share
_TICKS_PER_S = 4
_TYPES = {
    400: "invalid_request_error",
    401: "authentication_error",
    403: "permission_error",
    404: "not_found_error",
    429: "rate_limit_error",
    529: "overloaded_error",
}


def with_fault(exchange: HttpExchange, words: Mapping[str, Any]) -> HttpExchange:
    """Return the exchange with the layers of a fault around it: what is answered on it arrives
    spoiled."""
    if "after" in words:
        return _Lost(exchange, words)
    if "drip" in words:
        exchange = _Dripping(exchange, words["drip"])
    if "truncate" in words:
        exchange = _Truncated(exchange, words["truncate"])
    if words.get("malformed"):
        exchange = _Malformed(exchange)
    if "wrong_type" in words:
        exchange = _Mistyped(exchange, words["wrong_type"])
    return exchange


async def tell_fault(exchange: HttpExchange, words: Mapping[str, Any]) -> None:
    """Answer a request that went nowhere: with a status, a reset, or not at all."""
    if words.get("reset"):
        exchange.abort()
    elif "timeout" in words:
        await _fall_silent(exchange, words["timeout"])
    else:
        await _say_status(exchange, words.get("status", 500), words)


async def silence(exchange: HttpExchange, seconds: float) -> None:
    """Wait so long, or until nobody waits for the answer any more."""
    loop = asyncio.get_running_loop()
    end = loop.time() + min(seconds, MAX_DELAY_S)
    # A client that leaves is not announced to who does not read from it, so it is looked at.
    while (left := end - loop.time()) > 0 and not exchange.is_gone():  # noqa: ASYNC110
        await asyncio.sleep(min(left, _LOOK_S))


class _Mistyped(ExchangeLayer):
    """Gives the answer another content type."""

    def __init__(self, inner: HttpExchange, content_type: str) -> None:
        super().__init__(inner)
        self._content_type = content_type.encode("latin-1")

    async def begin(self, status: int, headers: Headers, reason: bytes = b"") -> None:
        kept = without(headers, b"content-type")
        await self._inner.begin(status, [*kept, (b"content-type", self._content_type)], reason)


class _Malformed(ExchangeLayer):
    """Puts a comma behind the first bracket, where JSON has none; at the end, if there is no
    bracket."""

    def __init__(self, inner: HttpExchange) -> None:
        super().__init__(inner)
        self._is_broken = False
        self._has_text = False  # a bracket behind a quote may be a part of a text

    async def begin(self, status: int, headers: Headers, reason: bytes = b"") -> None:
        await self._inner.begin(status, without(headers, b"content-length"), reason)

    async def send(self, data: bytes) -> None:
        if self._is_broken or self._has_text:
            await self._inner.send(data)
            return
        at = _first(data, b"{[")
        quote = _first(data[:at], b'"')
        self._has_text = quote < at
        if at < len(data) and not self._has_text:
            self._is_broken = True
            data = data[: at + 1] + b"," + data[at + 1 :]
        await self._inner.send(data)

    async def finish(self, trailers: Headers | None = None) -> None:
        if not self._is_broken:
            await self._inner.send(b",}")
        await self._inner.finish(trailers)


class _Truncated(ExchangeLayer):
    """Ends the answer in the middle. What it announced stays announced."""

    def __init__(self, inner: HttpExchange, truncate: int | float) -> None:
        super().__init__(inner)
        self._truncate = truncate
        self._left: int | None = None  # of what may pass; None while the whole is not known
        self._is_length_known = False
        self._is_over = False  # cut, or there is nothing to cut
        self._held = bytearray()

    async def begin(self, status: int, headers: Headers, reason: bytes = b"") -> None:
        length = _length(headers)
        if length is not None:
            self._is_length_known = True
            self._left = cut_at(self._truncate, length)
        elif isinstance(self._truncate, int):
            self._left = self._truncate
        if not has_body(self.request.method, status) or length == 0:
            self._left, self._is_over = -1, True
        await self._inner.begin(status, headers, reason)

    async def send(self, data: bytes) -> None:
        if self._is_over or not data:
            return
        self._held += data
        if self._left is None:
            if len(self._held) <= _HELD_BYTES:
                return
            self._left = cut_at(self._truncate, len(self._held))
        # Of an answer that may end at any byte, one stays behind: what was sent is never all.
        ready = len(self._held) - (0 if self._is_length_known else 1)
        part = bytes(self._held[: min(ready, self._left)])
        del self._held[: len(part)]
        self._left -= len(part)
        await self._inner.send(part)
        if self._left == 0:
            await self._end()

    async def finish(self, trailers: Headers | None = None) -> None:
        if self._is_over or not self._held:
            if self._left == -1 or not self._is_over:
                await self._inner.finish(trailers)  # there was nothing to cut
            return
        if self._left is None:
            kept = cut_at(self._truncate, len(self._held))
            await self._inner.send(bytes(self._held[:kept]))
        await self._end()

    async def _end(self) -> None:
        self._is_over = True
        self._held.clear()
        await self._inner.cut()


class _Dripping(ExchangeLayer):
    """Lets the answer come at so many bytes a second."""

    def __init__(self, inner: HttpExchange, speed: int) -> None:
        super().__init__(inner)
        self._speed = speed
        self._until = asyncio.get_running_loop().time() + MAX_DELAY_S

    async def send(self, data: bytes) -> None:
        size = max(1, self._speed // _TICKS_PER_S)
        for start in range(0, len(data), size):
            if asyncio.get_running_loop().time() > self._until:
                self._inner.abort()  # nobody waits for ever, and neither do we
            part = data[start : start + size]
            await self._inner.send(part)
            await asyncio.sleep(len(part) / self._speed)


class _Lost(ExchangeLayer):
    """Lets the request take effect, while its answer does not arrive."""

    def __init__(self, inner: HttpExchange, words: Mapping[str, Any]) -> None:
        super().__init__(inner)
        self._words = words
        self._has_changed = False  # to another protocol, of which we know nothing

    async def begin(self, status: int, headers: Headers, reason: bytes = b"") -> None:
        if status == 101:
            self._has_changed = True
            await self._inner.begin(status, headers, reason)

    async def send(self, data: bytes) -> None:
        if self._has_changed:
            await self._inner.send(data)

    async def finish(self, trailers: Headers | None = None) -> None:
        late = self._words["after"]
        if self._has_changed:
            await self._inner.finish(trailers)
        elif late == "reset":
            self._inner.abort()
        elif late == "timeout":
            await _fall_silent(self._inner, self._words.get("timeout", TIMEOUT_S))
        else:
            status = late if isinstance(late, int) else 500
            await _say_status(self._inner, status, self._words)


async def _fall_silent(exchange: HttpExchange, seconds: float) -> None:
    await silence(exchange, seconds)
    if exchange.is_gone():
        exchange.abort()
    else:
        await exchange.cut()


async def _say_status(exchange: HttpExchange, status: int, words: Mapping[str, Any]) -> None:
    """Answer with an error as most services shape it. Nothing in it says that it was made on
    purpose."""
    body = words.get("body")
    raw, content_type = _body(status, words) if body is None else _given(body)
    headers = [(name.encode("latin-1"), value.encode("latin-1"))
               for name, value in words.get("headers", {}).items()]  # fmt: skip
    if header(headers, b"content-type") is None:
        headers.append((b"content-type", content_type))
    if "retry_after" in words and header(headers, b"retry-after") is None:
        headers.append((b"retry-after", b"%d" % -(-words["retry_after"] // 1)))
    await exchange.begin(status, [*headers, (b"content-length", b"%d" % len(raw))])
    if has_body(exchange.request.method, status):
        await exchange.send(raw)
    await exchange.finish()


def _body(status: int, words: Mapping[str, Any]) -> tuple[bytes, bytes]:
    """Return an error as the usual clients look for it: at the top, and below `error`."""
    message = words.get("error") or "The service could not answer. Try again."
    kind = _TYPES.get(status, "api_error" if status >= 500 else "invalid_request_error")
    error = {"type": kind, "message": message}
    return _given({"type": "error", "message": message, "error": error})


def _given(body: Any) -> tuple[bytes, bytes]:
    if isinstance(body, str):
        is_json = body.lstrip()[:1] in ("{", "[")
        return body.encode(), b"application/json" if is_json else b"text/plain; charset=utf-8"
    return json.dumps(body).encode(), b"application/json"


def _length(headers: Headers) -> int | None:
    text = header(headers, b"content-length")
    return int(text) if text is not None and text.isdigit() else None


def _first(data: bytes, wanted: bytes) -> int:
    """Return the position of the first of the wanted bytes; behind the end, if there is none."""
    positions = (data.find(byte) for byte in (wanted[i : i + 1] for i in range(len(wanted))))
    return min((at for at in positions if at >= 0), default=len(data))
