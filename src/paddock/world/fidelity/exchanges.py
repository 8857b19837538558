"""Requests with the answers that they got, from an HTTP archive (HAR 1.2): ours or a browser's."""

from __future__ import annotations

import base64
import binascii
import json
from collections import Counter
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any
from urllib.parse import urlencode, urlsplit

import msgspec

from paddock.model.errors import InvalidInput
from paddock.world.asgi import Headers
from paddock.world.bounded_file import read_bounded
from paddock.world.overlay.bodies import is_json, media_type, parse_json
from paddock.world.overlay.paths import canonical, template

MAX_FILE = 256 << 20
MAX_EXCHANGES = 10_000


class Exchange(msgspec.Struct, frozen=True):
    """One request and the real answer to it."""

    method: str
    host: str
    path: str
    query: str = ""
    headers: Headers = []
    body: bytes = b""
    status: int = 200
    answer_headers: Headers = []
    answer: bytes = b""

    @property
    def endpoint(self) -> str:
        """With `{id}` for what is an id: all requests of one kind have the same."""
        return f"{self.method} {template(canonical(self.path))}"


def value_of(headers: Headers, body: bytes) -> Any:
    """The JSON of an answer, None when it has none."""
    if not body or not is_json(media_type(headers)):
        return None
    try:
        return parse_json(body)
    except ValueError:
        return None


def read_archive(path: Path) -> list[Exchange]:
    """All exchanges of a file, in its order. Raises InvalidInput."""
    data = read_bounded(path, MAX_FILE)
    try:
        log = json.loads(data.removeprefix(b"\xef\xbb\xbf"))["log"]["entries"]
    except (ValueError, KeyError, TypeError, RecursionError):
        raise InvalidInput(f"{path} is no HTTP archive: there is no log with entries") from None
    if not isinstance(log, list) or len(log) > MAX_EXCHANGES:
        raise InvalidInput(f"{path}: entries are a list of at most {MAX_EXCHANGES}")
    return [one for one in map(_exchange, log) if one is not None]


def of_host(exchanges: Iterable[Exchange], host: str | None) -> tuple[str, list[Exchange]]:
    """Those of one host: the one that is named, else the one that was asked most."""
    found = list(exchanges)
    counted = Counter(one.host for one in found)
    if not counted:
        raise InvalidInput("there are no requests in it that were answered")
    host = host or counted.most_common(1)[0][0]
    if host not in counted:
        known = ", ".join(sorted(counted))
        raise InvalidInput(f"there are no requests to {host}", hint=f"there are some to {known}")
    return host, [one for one in found if one.host == host]


def _exchange(entry: Any) -> Exchange | None:
    """None for what got no answer, and for what was never sent or is no HTTP request."""
    request, response = _mapping(entry, "request"), _mapping(entry, "response")
    status, url = response.get("status"), request.get("url")
    if not isinstance(status, int) or not 200 <= status < 600 or not isinstance(url, str):
        return None
    if isinstance(entry.get("_verdict"), str) and entry["_verdict"] != "allow":
        return None  # Paddock's own answer says nothing about the host
    try:
        parts = urlsplit(url)
        host = parts.hostname
    except ValueError:
        return None
    if parts.scheme not in ("http", "https") or not host:
        return None
    return Exchange(
        method=str(request.get("method", "GET")).upper(),
        host=host,
        path=parts.path or "/",
        query=parts.query,
        headers=_headers(request),
        body=_sent(_mapping(request, "postData")),
        status=status,
        answer_headers=_headers(response),
        answer=_content(_mapping(response, "content")),
    )


def _sent(data: Mapping[str, Any]) -> bytes:
    if isinstance(data.get("text"), str) and data["text"]:
        return str(data["text"]).encode("utf-8", "replace")
    fields = data.get("params")
    if not isinstance(fields, list):
        return b""
    pairs = [(str(one.get("name", "")), str(one.get("value", ""))) for one in fields
             if isinstance(one, Mapping)]  # fmt: skip
    return urlencode(pairs).encode()


def _content(content: Mapping[str, Any]) -> bytes:
    text = content.get("text")
    if not isinstance(text, str):
        return b""
    if content.get("encoding") != "base64":
        return text.encode("utf-8", "replace")
    try:
        return base64.b64decode(text)
    except (binascii.Error, ValueError):
        return b""


def _headers(message: Mapping[str, Any]) -> Headers:
    found = message.get("headers")
    pairs = found if isinstance(found, list) else []
    return [
        (str(one["name"]).lower().encode("latin-1", "replace"),
         str(one.get("value", "")).encode("latin-1", "replace"))
        for one in pairs
        if isinstance(one, Mapping) and "name" in one and not str(one["name"]).startswith(":")
    ]  # fmt: skip


def _mapping(holder: Any, name: str) -> Mapping[str, Any]:
    found = holder.get(name) if isinstance(holder, Mapping) else None
    return found if isinstance(found, Mapping) else {}
