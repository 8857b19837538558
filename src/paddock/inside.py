"""What an agent may tell Paddock from inside a sandbox: which prompt it uses, marks, its memory.

An agent needs none of it. The file stands alone: standard library only, nothing of Paddock, so that
it works when it is the only file of Paddock that is there. Outside a sandbox, or when nobody
listens, a call does nothing and says so: its answer is False. It raises ValueError for what the
caller did wrong, and nothing else.
"""

from __future__ import annotations

import json
import os
import socket
from collections.abc import Iterator
from typing import Any
from urllib.parse import quote, urlsplit

__all__ = ["is_inside", "mark", "memory", "prompt", "run_id", "step"]

ADDRESS = "PADDOCK_INSIDE"  # the variable that says where to call
MAX_NAMES = 64
MAX_NAME = 200  # characters, of a name in memory and of a version
MAX_MARK = 4096
MAX_DATA_BYTES = 64 << 10
MAX_PROMPT_BYTES = 256 << 10
MAX_VALUE_BYTES = 1 << 20
MAX_DEPTH = 64
MAX_INTEGER = 1 << 53  # beyond it, readers of JSON disagree
_WAIT_S = 5.0
_MAX_ANSWER = (1 << 20) + (64 << 10)
_MISTAKES = (400, 409, 413)  # what the host says of a caller's own mistake
_NOBODY = (0, None)


def is_inside() -> bool:
    """Return whether this program runs in a sandbox that listens."""
    return bool(os.environ.get(ADDRESS))


def run_id() -> str | None:
    """Return the run that this program belongs to; None outside."""
    run = _about().get("run")
    return run if isinstance(run, str) else None


def step() -> int | None:
    """Return the step that this program works for; None outside, or where it is unknown."""
    step_number = _about().get("step")
    return step_number if isinstance(step_number, int) else None


def prompt(version: str, text: str | None = None) -> bool:
    """Report the version of the prompt from here on, and its text if it is to be stored."""
    report = {"version": _text(version, "a version", MAX_NAME)}
    if text is not None:
        report["text"] = _text(text, "a prompt", MAX_PROMPT_BYTES)
    return _said("prompt", report, MAX_PROMPT_BYTES)


def mark(text: str, **data: Any) -> bool:
    """Record a mark in the journal, at the step that this program works for."""
    report: dict[str, Any] = {"text": _text(text, "a mark", MAX_MARK)}
    if data:
        report["data"] = data
    return _said("mark", report, MAX_DATA_BYTES)


class Memory:
    """Values of JSON under names, kept by the host with the run: a fork begins with them. Outside
    a sandbox they are kept in this process alone, so that a program works the same there."""

    def __init__(self) -> None:
        self._own: dict[str, str] = {}

    def set(self, name: str, value: Any) -> bool:
        """Keeps a value. Whether the host has it."""
        text = _json(value, "a value", MAX_VALUE_BYTES)
        name = _text(name, "a name", MAX_NAME)
        if not is_inside() and name not in self._own and len(self._own) >= MAX_NAMES:
            raise ValueError(f"memory has {MAX_NAMES} names, and no more")
        body = f'{{"name":{json.dumps(name, ensure_ascii=False)},"value":{text}}}'
        is_kept = _accepted(_call("POST", "/v1/memory", body))
        self._own[name] = text
        return is_kept

    def get(self, name: str, default: Any = None) -> Any:
        """The value, or the default where there is none."""
        name = _text(name, "a name", MAX_NAME)
        status, answer = _call("GET", "/v1/memory/" + quote(name, safe=""))
        if status == 200 and isinstance(answer, dict) and "value" in answer:
            return answer["value"]
        if status == 404 or name not in self._own:
            return default
        return json.loads(self._own[name])

    def remove(self, name: str) -> bool:
        """Forgets a value. Whether the host has done so."""
        name = _text(name, "a name", MAX_NAME)
        self._own.pop(name, None)
        return _accepted(_call("DELETE", "/v1/memory/" + quote(name, safe="")))

    def names(self) -> list[str]:
        """The names that have a value, in order."""
        status, answer = _call("GET", "/v1/memory")
        names_ = answer.get("names") if status == 200 and isinstance(answer, dict) else None
        return sorted(self._own) if not isinstance(names_, list) else [str(n) for n in names_]

    def __setitem__(self, name: str, value: Any) -> None:
        self.set(name, value)

    def __getitem__(self, name: str) -> Any:
        missing = object()
        value = self.get(name, missing)
        if value is missing:
            raise KeyError(name)
        return value

    def __delitem__(self, name: str) -> None:
        if name not in self:
            raise KeyError(name)
        self.remove(name)

    def __contains__(self, name: object) -> bool:
        missing = object()
        return isinstance(name, str) and self.get(name, missing) is not missing

    def __iter__(self) -> Iterator[str]:
        return iter(self.names())

    def __len__(self) -> int:
        return len(self.names())


memory = Memory()


def _about() -> dict[str, Any]:
    status, answer = _call("GET", "/v1")
    return answer if status == 200 and isinstance(answer, dict) else {}


def _said(what: str, body: dict[str, Any], limit: int) -> bool:
    return _accepted(_call("POST", "/v1/" + what, _json(body, "a " + what, limit + MAX_MARK)))


def _accepted(came: tuple[int, Any]) -> bool:
    status, answer = came
    if status in _MISTAKES:
        why = answer.get("error") if isinstance(answer, dict) else None
        raise ValueError(str(why or "refused"))
    return status == 200


def _text(value: Any, what: str, limit: int) -> str:
    if not isinstance(value, str) or not value:
        raise ValueError(f"{what} is a text that is not empty, not {value!r:.80}")
    try:
        size = len(value.encode("utf-8"))
    except UnicodeError:
        raise ValueError(f"{what} has half a character") from None
    if size > limit:
        raise ValueError(f"{what} has {size} bytes, at most {limit}")
    return value


def _json(value: Any, what: str, limit: int) -> str:
    """Encode a value as JSON that decodes to the same value."""
    try:
        _check(value, MAX_DEPTH)
        text = json.dumps(value, ensure_ascii=False, allow_nan=False, separators=(",", ":"))
        size = len(text.encode("utf-8"))
    except (TypeError, RecursionError, UnicodeError) as error:
        raise ValueError(f"{what} is no JSON: {error}") from None
    if size > limit:
        raise ValueError(f"{what} has {size} bytes as JSON, at most {limit}")
    return text


def _check(value: Any, depth: int) -> None:
    if depth < 0:
        raise ValueError(f"nested deeper than {MAX_DEPTH} levels")
    if isinstance(value, int) and abs(value) > MAX_INTEGER:
        raise ValueError("a number is too large for JSON; write it as a text")
    if isinstance(value, dict):
        for key in value:
            if not isinstance(key, str):
                raise ValueError(f"a key of JSON is a text, not {key!r:.80}")
        value = list(value.values())
    if isinstance(value, (list, tuple)):
        for item in value:
            _check(item, depth - 1)


def _call(method: str, path: str, body: str = "") -> tuple[int, Any]:
    """Send a request; return the status and the answer, 0 where nobody answered."""
    address = os.environ.get(ADDRESS)
    if not address:
        return _NOBODY
    try:
        url = urlsplit(address)
        # By hand: `http.client` takes longer to load than all calls of most programs.
        with socket.create_connection((url.hostname, url.port or 80), _WAIT_S) as conn:
            conn.sendall(_request(method, path, url.netloc, body.encode("utf-8")))
            return _parsed(_received(conn))
    except (OSError, ValueError, TypeError):
        return _NOBODY


def _request(method: str, path: str, host: str, body: bytes) -> bytes:
    head = f"{method} {path} HTTP/1.1\r\nHost: {host}\r\nConnection: close\r\n"
    if body:
        head += f"Content-Type: application/json\r\nContent-Length: {len(body)}\r\n"
    return head.encode("ascii") + b"\r\n" + body


def _received(conn: socket.socket) -> bytes:
    parts: list[bytes] = []
    size = 0
    while size <= _MAX_ANSWER:
        part = conn.recv(1 << 16)
        if not part:
            return b"".join(parts)
        parts.append(part)
        size += len(part)
    raise ValueError("an answer that does not end")


def _parsed(raw: bytes) -> tuple[int, Any]:
    head, _, body = raw.partition(b"\r\n\r\n")
    words = head.split(None, 2)
    if len(words) < 2 or not words[0].startswith(b"HTTP/1."):
        return _NOBODY
    return int(words[1]), json.loads(body.decode("utf-8")) if body else None
