"""The answer that a request got in an earlier run, given again byte by byte. Nobody is asked."""

from __future__ import annotations

import base64
import binascii
import contextlib
from collections.abc import Callable, Iterator, Mapping
from typing import Any

from paddock.doors.network.answers import failed
from paddock.doors.network.conn import ConnLost
from paddock.doors.network.exchange import BadMessage, Exchange, Headers, without
from paddock.doors.network.kept import Kept
from paddock.doors.network.leaving import ClientGone, be_silent, watched
from paddock.doors.network.requests import Proposal
from paddock.gate.executors import Done
from paddock.gate.past import Met
from paddock.model.action import Action, Outcome

_EVENT_END = b"\n\n"  # of a stream of events: who reads them may act on each
_BODYLESS = frozenset({204, 205, 304})


class Answering:
    """The executor of one request whose answer is known."""

    def __init__(
        self, exchange: Exchange, proposal: Proposal, met: Met, position: Callable[[], int]
    ) -> None:
        self.is_answered = False
        self._position = position
        self._exchange = exchange
        self._proposal = proposal
        self._met = met
        self._known: Mapping[str, Any] = met.result if isinstance(met.result, Mapping) else {}

    async def __call__(self, action: Action) -> Done:
        """Raises Departed for what was not kept, or when another body came with the request."""
        await self._take_body()
        self._check_kept()
        begun = self._position()
        try:
            with watched(self._exchange):
                await self._answer()
        except (ConnLost, ClientGone):
            self._exchange.abort()
        met = self._met
        record = {**self._known, "begun": begun}
        return Done(self._known.get("status"), record, met.outcome, met.error, met.cost)

    async def _take_body(self) -> None:
        """A body that was decided on by its head is compared when all of it has come."""
        if self._proposal.read is not None:
            return
        if self._exchange.request.expects_continue:
            await self._exchange.proceed()
        recorded = self._known.get("sent") or {"bytes": 0, "is_part": self._is_failed}
        came = await self._came(recorded["bytes"] if recorded.get("is_part") else None)
        if self._met.beside is not None:
            return  # what it says is not compared
        if any(came.get(name) != recorded.get(name) for name in ("bytes", "sha256")):
            raise self._met.departed("body", recorded, came)

    async def _came(self, most: int | None) -> dict[str, Any]:
        """What came of a body; where only a part was taken then, as much of it."""
        sent = Kept()
        with contextlib.suppress(ConnLost, BadMessage):  # then it is shorter than the recorded one
            while (most is None or sent.size < most) and (data := await self._proposal.body.read()):
                sent.feed(data if most is None else data[: most - sent.size])
        return sent.record()

    @property
    def _is_failed(self) -> bool:
        return self._met.outcome is Outcome.FAILED

    def _check_kept(self) -> None:
        if "websocket" in self._known:
            raise self._met.departed(None, "a WebSocket: what was said there is not kept", None)
        if self._known.get("is_cut"):
            size = self._known.get("bytes")
            raise self._met.departed(None, f"an answer of {size} bytes, not all of it kept", None)

    async def _answer(self) -> None:
        status = self._known.get("status")
        is_told = isinstance(status, int) and not self._met.is_silent
        if not is_told and (self._met.is_silent or self._known.get("left")):
            self.is_answered = True
            await be_silent(self._exchange)
            return
        if not isinstance(status, int):
            self.is_answered = True
            self._exchange.abort()  # whatever the agent saw then, it was no whole answer
            return
        if self._is_failed and "headers" not in self._known:
            self.is_answered = True
            said = self._known.get("said") or self._met.error or ""
            await failed(self._exchange, status, str(said))
            return
        await self._tell(status, _body(self._known))

    async def _tell(self, status: int, body: bytes) -> None:
        is_bodyless = self._exchange.request.method == "HEAD" or status in _BODYLESS
        headers = list(_headers(self._met, self._known))
        if not is_bodyless and not self._is_failed:
            headers = _of_length(headers, len(body))
        self.is_answered = True
        reason = str(self._known.get("reason") or "").encode("latin-1", "replace")
        await self._exchange.begin(status, headers, reason)
        for part in _parts(headers, body) if not is_bodyless else ():
            await self._exchange.send(part)
        if self._known.get("left"):
            await be_silent(self._exchange)
        elif self._is_failed:
            await self._exchange.break_off()
        else:
            await self._exchange.finish(_trailers(self._known))


def _body(known: Mapping[str, Any]) -> bytes:
    if "base64" in known:
        try:
            return base64.b64decode(known["base64"], validate=True)
        except (binascii.Error, TypeError):
            return b""
    return str(known.get("body", "")).encode("utf-8", "surrogateescape")


def _headers(met: Met, known: Mapping[str, Any]) -> Iterator[tuple[bytes, bytes]]:
    """Those that the journal shows, and in place of credentials those that it seals."""
    sealed = met.unsealed()
    hidden = {name for name, _ in sealed}
    shown = known.get("headers")
    for name, value in (shown if isinstance(shown, Mapping) else {}).items():
        if name not in hidden:
            yield str(name).encode("latin-1"), str(value).encode("latin-1", "replace")
    for name, value in sealed:
        yield name.encode("latin-1"), value.encode("latin-1", "replace")


def _of_length(headers: Headers, size: int) -> Headers:
    """An answer says how long it is where it said so."""
    kept = without(headers, b"content-length")
    return kept if len(kept) == len(headers) else [*kept, (b"content-length", b"%d" % size)]


def _trailers(known: Mapping[str, Any]) -> Headers:
    said = known.get("trailers")
    pairs = said.items() if isinstance(said, Mapping) else ()
    return [(str(k).encode("latin-1"), str(v).encode("latin-1", "replace")) for k, v in pairs]


def _is_stream(headers: Headers) -> bool:
    return any(n == b"content-type" and v.startswith(b"text/event-stream") for n, v in headers)


def _parts(headers: Headers, body: bytes) -> Iterator[bytes]:
    if not _is_stream(headers):
        if body:
            yield body
        return
    while body:
        event, end, body = body.partition(_EVENT_END)
        yield event + end
