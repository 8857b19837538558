"""What running code gives back, and the pure reading of the code interpreter's messages.

The interpreter shares its process with untrusted code, so every message may be a lie. A malformed
one is a SandboxError, an unknown one is ignored, and nothing grows past its bound. No I/O.
"""

from __future__ import annotations

import json
import re
import struct
from collections.abc import Mapping
from typing import Any

import msgspec

from paddock.model.errors import SandboxError

MAX_MESSAGE_BYTES = 64 << 20
# Strings cost about what they weigh, but `[],[],[]` takes some 30 times its size once parsed: what
# a message has outside of its strings is bounded on its own, before it is parsed.
MAX_STRUCTURE_BYTES = (4 << 20) + (128 << 10)
MAX_TOTAL_BYTES = 64 << 20
MAX_ERROR_CHARS = 1 << 20
MAX_DEPTH = 64
_ENTRY_BYTES = 64  # what one entry costs beside its text, so that many tiny ones are bounded too
_LENGTH = struct.Struct(">I")
_STRING = re.compile(rb'"[^"]*"?')  # An open end matches too.
_FIELDS = {
    "text/plain": "text",
    "text/html": "html",
    "text/markdown": "markdown",
    "image/svg+xml": "svg",
    "image/png": "png",
    "image/jpeg": "jpeg",
    "application/pdf": "pdf",
    "text/latex": "latex",
    "application/json": "json",
    "application/javascript": "javascript",
}


class Result(msgspec.Struct, frozen=True):
    """One displayed object in all its forms. Pictures and PDF are base64 text.

    `is_main_result`: it is the value of the cell's last expression. `extra`: other mime types.
    """

    text: str | None = None
    html: str | None = None
    markdown: str | None = None
    svg: str | None = None
    png: str | None = None
    jpeg: str | None = None
    pdf: str | None = None
    latex: str | None = None
    json: Any = None
    javascript: str | None = None
    extra: dict[str, Any] = {}
    is_main_result: bool = False

    def __hash__(self) -> int:
        return hash((self.text, self.html, self.png))  # not all forms can be hashed

    def formats(self) -> list[str]:
        """Return the available forms: names of fields, then the MIME types of `extra`."""
        return [n for n in _FIELDS.values() if getattr(self, n) is not None] + list(self.extra)

    def __getitem__(self, form: str) -> Any:
        """Return one form, by the name of its field or by its MIME type."""
        name = _FIELDS.get(form, form)
        if name in _FIELDS.values():
            return getattr(self, name)
        return self.extra[form]


class OutputMessage(msgspec.Struct, frozen=True):
    """A piece of output as it arrived; `error` means that it came from stderr."""

    line: str
    error: bool = False

    def __str__(self) -> str:
        return self.line


class Logs(msgspec.Struct, frozen=True):
    """The output of a cell, in the pieces in which it arrived."""

    stdout: tuple[str, ...] = ()
    stderr: tuple[str, ...] = ()


class ExecutionError(msgspec.Struct, frozen=True):
    """The exception that ended a cell: its class, its text, the traceback as plain text."""

    name: str
    value: str
    traceback: str


class Execution(msgspec.Struct, frozen=True):
    """All that came of one cell."""

    results: tuple[Result, ...] = ()
    logs: Logs = Logs()
    error: ExecutionError | None = None
    execution_count: int | None = None

    @property
    def text(self) -> str | None:
        """The text of the last expression's value; None when the cell had none."""
        return next((r.text for r in self.results if r.is_main_result), None)

    def to_json(self) -> str:
        return json.dumps(msgspec.to_builtins(self))


Payload = OutputMessage | Result | ExecutionError


class ExecutionBuilder:
    """Gathers the messages of one cell into an Execution.

    `execution_id` is the id that the request had; messages of other cells, and output that belongs
    to none, are ignored. Past `max_bytes`, output and results are dropped and `overflowed` is True.
    """

    def __init__(self, execution_id: int, *, max_bytes: int = MAX_TOTAL_BYTES) -> None:
        self.overflowed = False
        self.is_done = False
        self._id = execution_id
        self._room = max_bytes
        self._results: list[Result] = []
        self._logs: dict[str, list[str]] = {"stdout": [], "stderr": []}
        self._error: ExecutionError | None = None
        self._count: int | None = None

    def feed(self, message: dict[str, Any]) -> Payload | None:
        """Takes one message; gives what a callback is to be told of it, if anything."""
        if not isinstance(message, dict):
            raise _malformed("message")
        kind, cell = message.get("type"), message.get("id")
        is_fatal = kind == "error" and cell is None  # the interpreter itself has ended
        if self.is_done or not (is_fatal or _is_same_id(cell, self._id)):
            return None
        match kind:
            case "stdout" | "stderr":
                return self._output(kind, message)
            case "display" | "result":
                return self._result(message)
            case "error":
                self._error = _error(message)
                return self._error
            case "done":
                self._count = _count(message)
                self.is_done = True
        return None

    def build(self) -> Execution:
        """Return the execution as far as it is known."""
        logs = Logs(tuple(self._logs["stdout"]), tuple(self._logs["stderr"]))
        return Execution(tuple(self._results), logs, self._error, self._count)

    def _output(self, channel: str, message: dict[str, Any]) -> OutputMessage | None:
        text = _text(message, "text")
        raw, room = text.encode(), max(0, self._room - _ENTRY_BYTES)
        if len(raw) > room:
            self.overflowed = True
            raw = raw[:room]
            text = raw.decode(errors="ignore")
        if not text:
            return None
        self._room -= len(raw) + _ENTRY_BYTES
        self._logs[channel].append(text)
        return OutputMessage(text, channel == "stderr")

    def _result(self, message: dict[str, Any]) -> Result | None:
        data, is_main = message.get("data"), message.get("is_main_result")
        if not isinstance(data, dict) or not isinstance(is_main, bool):
            raise _malformed(f"{message['type']} message")
        clean: dict[str, Any] = _clean(data)
        size = _weight(clean)
        if size > self._room:
            self.overflowed = True
            return None
        self._room -= size
        self._results.append(_make_result(clean, is_main))
        return self._results[-1]


class MessageReader:
    """Bytes in, messages out: a 4-byte big-endian length, then that much JSON."""

    def __init__(self, max_message_bytes: int = MAX_MESSAGE_BYTES) -> None:
        self._max = max_message_bytes
        self._buffer = bytearray()
        self._fault: SandboxError | None = None

    @property
    def is_mid_message(self) -> bool:
        """True if the end of the stream now would cut a message."""
        return bool(self._buffer)

    def feed(self, data: bytes | bytearray) -> list[dict[str, Any]]:
        """The messages that are complete now. After an error the stream is lost, and stays so."""
        if self._fault is not None:
            raise self._fault
        self._buffer += data
        try:
            return list(iter(self._next, None))
        except SandboxError as fault:
            self._fault = fault
            self._buffer.clear()
            raise

    def _next(self) -> dict[str, Any] | None:
        if len(self._buffer) < _LENGTH.size:
            return None
        (size,) = _LENGTH.unpack_from(self._buffer)
        if size > self._max:
            raise SandboxError(f"the code interpreter sent a message of {size} bytes")
        end = _LENGTH.size + size
        if len(self._buffer) < end:
            return None
        body = bytes(memoryview(self._buffer)[_LENGTH.size : end])
        del self._buffer[:end]
        return _parse(body)


def _parse(body: bytes) -> dict[str, Any]:
    if len(body) > MAX_STRUCTURE_BYTES and _structure(body) > MAX_STRUCTURE_BYTES:
        raise _malformed("message: too much structure")
    try:
        message = json.loads(body, parse_constant=lambda _: None)
    except (ValueError, RecursionError):
        raise _malformed("message: not JSON") from None
    if not isinstance(message, dict):
        raise _malformed("message: not an object")
    return message


def _structure(body: bytes) -> int:
    """Count the bytes outside of strings, each string counting one; stop at the bound.

    Escaped backslashes and quotes are removed first, so that the pattern of a string needs no
    repeated group: linear in time and flat in memory on any input. A backslash outside of a string
    makes no difference, because the parser refuses the message there.
    """
    body = body.replace(b"\\\\", b"").replace(b'\\"', b"")
    outside, end = 0, 0
    for match in _STRING.finditer(body):
        outside += match.start() - end + 1
        end = match.end()
        if outside > MAX_STRUCTURE_BYTES:
            return outside
    return outside + len(body) - end


def _is_same_id(cell: object, expected: int) -> bool:
    return type(cell) is int and cell == expected  # True == 1, but is no id


def _make_result(data: Mapping[str, Any], is_main: bool) -> Result:
    fields: dict[str, Any] = {}
    extra: dict[str, Any] = {}
    for mime, value in data.items():
        name = _FIELDS.get(mime)
        if name is None:
            extra[mime] = value
        elif name != "json" and not isinstance(value, str):
            raise _malformed(f"display: {mime} must be text")
        else:
            fields[name] = value
    return Result(**fields, extra=extra, is_main_result=is_main)


def _error(message: dict[str, Any]) -> ExecutionError:
    name, value, trace = (_text(message, key) for key in ("name", "value", "traceback"))
    return ExecutionError(name[:1000], value[:MAX_ERROR_CHARS], trace[:MAX_ERROR_CHARS])


def _count(message: dict[str, Any]) -> int:
    count = message.get("execution_count")
    if type(count) is not int or not 0 <= count < 1 << 63:
        raise _malformed("done message")
    return count


def _text(message: dict[str, Any], key: str) -> str:
    value = message.get(key)
    if not isinstance(value, str):
        raise _malformed(f"{message['type']} message: {key} must be text")
    return str(_clean(value))


def _clean(value: Any, depth: int = 0) -> Any:
    """Return the value with text that can be encoded, no deeper than can be walked."""
    if isinstance(value, str):
        return value if value.isascii() else value.encode("utf-8", "replace").decode()
    if depth >= MAX_DEPTH:
        raise _malformed("display: nested too deeply")
    if isinstance(value, dict) and all(isinstance(key, str) for key in value):
        return {_clean(key): _clean(item, depth + 1) for key, item in value.items()}
    if isinstance(value, list):
        return [_clean(item, depth + 1) for item in value]
    if isinstance(value, float):
        return value if abs(value) < float("inf") else None  # 1e999 is JSON, infinity is not
    if value is None or isinstance(value, int):
        return value
    raise _malformed("display: a value that JSON does not have")


def _weight(value: Any) -> int:
    """Return the approximate size of a cleaned value in bytes."""
    if isinstance(value, str):
        return len(value.encode())
    if isinstance(value, dict):
        return _ENTRY_BYTES + sum(_weight(k) + _weight(v) for k, v in value.items())
    if isinstance(value, list):
        return _ENTRY_BYTES + sum(_weight(item) for item in value)
    return 32


def _malformed(what: str) -> SandboxError:
    return SandboxError(f"the code interpreter sent a malformed {what}")
