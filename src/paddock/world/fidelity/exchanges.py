"""Requests with their real answers, from an HTTP archive (HAR 1.2), Paddock's or a browser's."""

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
    """One request and its real answer."""

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
        """The method, and the path with `{id}` for ids."""
        return f"{self.method} {template(canonical(self.path))}"


def json_value(headers: Headers, body: bytes) -> Any:
    """Return the JSON of an answer, or None."""
    if not body or not is_json(media_type(headers)):
        return None
    try:
        return parse_json(body)
    except ValueError:
        return None


def read_archive(path: Path) -> list[Exchange]:
    """Return the exchanges of a file, in its order. Raises InvalidInput."""
    data = read_bounded(path, MAX_FILE)
    try:
        entries = json.loads(data.removeprefix(b"\xef\xbb\xbf"))["log"]["entries"]
    except (ValueError, KeyError, TypeError, RecursionError):
        raise InvalidInput(f"{path} is no HTTP archive: there is no log with entries") from None
    if not isinstance(entries, list) or len(entries) > MAX_EXCHANGES:
        raise InvalidInput(f"{path}: entries are a list of at most {MAX_EXCHANGES}")
    exchanges = map(_exchange, entries)
    return [exchange for exchange in exchanges if exchange is not None]


def of_host(exchanges: Iterable[Exchange], host: str | None) -> tuple[str, list[Exchange]]:
    """Return a host and its exchanges: the named host, or the one with most requests."""
    exchanges = list(exchanges)
    counts = Counter(exchange.host for exchange in exchanges)
    if not counts:
        raise InvalidInput("there are no requests in it that were answered")
    host = host or counts.most_common(1)[0][0]
    if host not in counts:
        hosts = ", ".join(sorted(counts))
        raise InvalidInput(f"there are no requests to {host}", hint=f"there are some to {hosts}")
    return host, [exchange for exchange in exchanges if exchange.host == host]


def _exchange(entry: Any) -> Exchange | None:
    """Return the exchange of an entry, or None if the real host did not answer it."""
    request, response = _mapping(entry, "request"), _mapping(entry, "response")
    status, url = response.get("status"), request.get("url")
    if not isinstance(status, int) or not 200 <= status < 600 or not isinstance(url, str):
        return None
    if isinstance(entry.get("_verdict"), str) and entry["_verdict"] != "allow":
        return None  # Paddock answered it, not the host
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
        body=_request_body(_mapping(request, "postData")),
        status=status,
        answer_headers=_headers(response),
        answer=_answer_body(_mapping(response, "content")),
    )


def _request_body(data: Mapping[str, Any]) -> bytes:
    if isinstance(data.get("text"), str) and data["text"]:
        return str(data["text"]).encode("utf-8", "replace")
    fields = data.get("params")
    if not isinstance(fields, list):
        return b""
    fields = [field for field in fields if isinstance(field, Mapping)]
    pairs = [(str(field.get("name", "")), str(field.get("value", ""))) for field in fields]
    return urlencode(pairs).encode()


def _answer_body(content: Mapping[str, Any]) -> bytes:
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
    entries = message.get("headers")
    headers = []
    for entry in entries if isinstance(entries, list) else []:
        if not isinstance(entry, Mapping) or "name" not in entry:
            continue
        name, value = str(entry["name"]).lower(), str(entry.get("value", ""))
        if not name.startswith(":"):
            headers.append((name.encode("latin-1", "replace"), value.encode("latin-1", "replace")))
    return headers


def _mapping(holder: Any, name: str) -> Mapping[str, Any]:
    value = holder.get(name) if isinstance(holder, Mapping) else None
    return value if isinstance(value, Mapping) else {}
