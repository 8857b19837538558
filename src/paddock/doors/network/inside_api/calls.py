"""The calls of `paddock.inside`, on the host's side: programs report events for the journal, and
values that are kept for the run.

It is the agent's own report. It is bounded, and nothing is decided by it; nothing here reaches
further than the journal and the memory of this process.
"""

from __future__ import annotations

import contextlib
import hashlib
import json
import time
from collections import deque
from collections.abc import Callable, Mapping
from functools import partial
from typing import Any
from urllib.parse import unquote

from paddock.doors.network.exchange import BadMessage, HttpExchange
from paddock.doors.network.http1 import server as http1
from paddock.doors.network.inside_api.state import InsideState
from paddock.doors.network.transport.conn import Conn
from paddock.gate.gate import Gate
from paddock.inside import (
    MAX_DATA_BYTES,
    MAX_DEPTH,
    MAX_INTEGER,
    MAX_MARK,
    MAX_NAME,
    MAX_NAMES,
    MAX_PROMPT_BYTES,
    MAX_VALUE_BYTES,
)
from paddock.journal.errors import JournalBroken
from paddock.model.events import (
    AgentEvent,
    Marked,
    MemoryChanged,
    PromptReported,
    ReportsDropped,
)

MAX_A_MINUTE, MAX_A_RUN = 1000, 20_000  # calls that change anything
MAX_RUN_BYTES = 128 << 20  # of all of them together: what the journal may grow by
MAX_PARTS = 100_000  # of one value: more of them take the host longer than they may
_MAX_BODY = MAX_VALUE_BYTES + (64 << 10)
_IDLE_S = 30.0
_MINUTE_S = 60.0
_VALUES = "/v1/memory/"


class Unwanted(Exception):
    """A call that is not taken; the message is meant for its caller."""

    def __init__(self, status: int, why: str) -> None:
        super().__init__(why)
        self.status = status


class Allowance:
    """Bounds how much a run may still report."""

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._recent: deque[float] = deque(maxlen=MAX_A_MINUTE)
        self._calls = self._size_bytes = 0

    def spend(self, size_bytes: int) -> None:
        """Counts a call. Raises Unwanted."""
        now = self._clock()
        if self._calls >= MAX_A_RUN or self._size_bytes + size_bytes > MAX_RUN_BYTES:
            raise Unwanted(429, "this run has said as much as it may")
        if len(self._recent) == MAX_A_MINUTE and now - self._recent[0] < _MINUTE_S:
            raise Unwanted(429, f"more than {MAX_A_MINUTE} calls in a minute")
        self._recent.append(now)
        self._calls += 1
        self._size_bytes += size_bytes


class InsideCalls:
    """The calls of one run. Runs on the loop of its door."""

    def __init__(self, gate: Callable[[], Gate], run: str, state: InsideState) -> None:
        self.latest_prompt: str | None = None
        self._gate = gate
        self._run = state.run or run
        self._values = {name: _encoded(value) for name, value in state.memory.items()}
        self._allowance = Allowance()
        self._last_prompt: tuple[str, str | None] | None = None
        self._has_dropped_reports = False

    @property
    def memory(self) -> dict[str, Any]:
        """Return the values that are kept now."""
        return {name: json.loads(raw) for name, raw in self._values.items()}

    async def serve(self, conn: Conn, step: int | None) -> None:
        """Answers calls that are made for a step until the connection ends."""
        conn.idle_s = min(conn.idle_s, _IDLE_S)
        await http1.serve(conn, partial(self._handle, step), scheme="http")

    async def _handle(self, step: int | None, exchange: HttpExchange) -> None:
        request = exchange.request
        try:
            raw = await _read(exchange)
            status, answer = 200, self._answered(request.method, request.target, raw, step)
        except Unwanted as error:
            status, answer = error.status, _encoded({"error": str(error)})
            self._record_excess(status, step)
        except (JournalBroken, OSError):
            status, answer = 503, _encoded({"error": "it could not be recorded"})
        headers = [(b"content-type", b"application/json")]
        headers.append((b"content-length", b"%d" % len(answer)))
        await exchange.begin(status, headers)
        await exchange.send(answer)
        await exchange.finish()

    def _answered(self, method: str, target: str, raw: bytes, step: int | None) -> bytes:
        match method, target:
            case "GET", "/v1":
                return _encoded({"run": self._run, "step": step})
            case "GET", "/v1/memory":
                return _encoded({"names": sorted(self._values)})
            case "GET", _ if target.startswith(_VALUES):
                return b'{"value":%b}' % self._value(_named(target))
            case "DELETE", _ if target.startswith(_VALUES):
                self._forget(_named(target), step)
            case "POST", "/v1/memory":
                self._keep(_parsed(raw), len(raw), step)
            case "POST", "/v1/prompt":
                self._prompt(_parsed(raw), len(raw), step)
            case "POST", "/v1/mark":
                self._mark(_parsed(raw), len(raw), step)
            case _:
                raise Unwanted(404, "there is no such call")
        return b"{}"

    def _prompt(self, said: Mapping[str, Any], size_bytes: int, step: int | None) -> None:
        version = _text(said, "version", MAX_NAME)
        text, digest = None, None
        if said.get("text") is not None:
            text = _text(said, "text", MAX_PROMPT_BYTES)
            digest = hashlib.sha256(text.encode()).hexdigest()
        if (version, digest) != self._last_prompt:
            self._record(PromptReported(version, text, digest), size_bytes, step)
        self._last_prompt = (version, digest)
        self.latest_prompt = version

    def _mark(self, said: Mapping[str, Any], size_bytes: int, step: int | None) -> None:
        text, data = _text(said, "text", MAX_MARK), said.get("data")
        if data is not None and (
            not isinstance(data, dict) or len(_encoded(data)) > MAX_DATA_BYTES
        ):
            raise Unwanted(413, f"data is an object of at most {MAX_DATA_BYTES} bytes")
        self._record(Marked(text, data), size_bytes, step)

    def _keep(self, said: Mapping[str, Any], size_bytes: int, step: int | None) -> None:
        name = _text(said, "name", MAX_NAME)
        if "value" not in said:
            raise Unwanted(400, "there is no value")
        raw = _encoded(said["value"])
        if len(raw) > MAX_VALUE_BYTES:
            raise Unwanted(413, f"a value has at most {MAX_VALUE_BYTES} bytes")
        if name not in self._values and len(self._values) >= MAX_NAMES:
            raise Unwanted(409, f"memory has {MAX_NAMES} names, and no more")
        if self._values.get(name) != raw:
            digest = hashlib.sha256(raw).hexdigest()
            self._record(MemoryChanged(name, said["value"], digest), size_bytes, step)
        self._values[name] = raw

    def _forget(self, name: str, step: int | None) -> None:
        _ = self._value(name)
        self._record(MemoryChanged(name, is_removed=True), len(name), step)
        del self._values[name]

    def _value(self, name: str) -> bytes:
        if name not in self._values:
            raise Unwanted(404, "there is no value of that name")
        return self._values[name]

    def _record(self, event: AgentEvent, size_bytes: int, step: int | None) -> None:
        """Raises Unwanted; JournalBroken and OSError where it cannot be recorded."""
        self._allowance.spend(size_bytes)
        self._gate().record(event, step)

    def _record_excess(self, status: int, step: int | None) -> None:
        """Once: that something is missing must be seen, and must not fill the journal itself."""
        if status != 429 or self._has_dropped_reports:
            return
        self._has_dropped_reports = True
        with contextlib.suppress(JournalBroken, OSError):
            self._gate().record(ReportsDropped(), step)


async def _read(exchange: HttpExchange) -> bytes:
    body, parts, size = exchange.request.body, [], 0
    if (body.length or 0) > _MAX_BODY:
        raise BadMessage(413, f"more than {_MAX_BODY} bytes")
    while part := await body.read():
        size += len(part)
        if size > _MAX_BODY:
            raise BadMessage(413, f"more than {_MAX_BODY} bytes")
        parts.append(part)
    return b"".join(parts)


def _named(target: str) -> str:
    name = unquote(target[len(_VALUES) :], errors="replace")
    if not name or len(name) > MAX_NAME:
        raise Unwanted(400, f"a name has 1 to {MAX_NAME} characters")
    return name


def _parsed(raw: bytes) -> dict[str, Any]:
    """An object of JSON that the journal can give back as it is."""
    try:
        message = json.loads(raw.decode("utf-8"), parse_constant=_no_constant)
        _ = _encoded(message)
    except (ValueError, RecursionError):
        raise Unwanted(400, "that is no JSON") from None
    if not isinstance(message, dict):
        raise Unwanted(400, "that is no object")
    _check(message)
    return message


def _check(value: Any) -> None:
    level, count = [value], 1
    for _ in range(MAX_DEPTH + 2):
        below: list[Any] = []
        for item in level:
            if isinstance(item, dict):
                below += item.values()
            elif isinstance(item, list):
                below += item
            elif isinstance(item, int) and abs(item) > MAX_INTEGER:
                raise Unwanted(400, "a number is too large for JSON; write it as a text")
        count += len(below)
        if count > MAX_PARTS:
            raise Unwanted(413, f"a value has at most {MAX_PARTS} parts")
        if not below:
            return
        level = below
    raise Unwanted(400, f"nested deeper than {MAX_DEPTH} levels")


def _text(said: Mapping[str, Any], key: str, limit: int) -> str:
    value = said.get(key)
    if not isinstance(value, str) or not 0 < len(value.encode()) <= limit:
        raise Unwanted(400, f"{key} is a text of 1 to {limit} bytes")
    return value


def _encoded(value: Any) -> bytes:
    """Raises ValueError for what no text can say: infinity, half a character."""
    text = json.dumps(
        value, ensure_ascii=False, allow_nan=False, separators=(",", ":"), sort_keys=True
    )
    return text.encode()


def _no_constant(name: str) -> Any:
    raise ValueError(f"{name} is no JSON")
