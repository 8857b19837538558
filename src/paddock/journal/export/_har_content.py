"""The body of a response as an HTTP archive wants it: decoded, not as it was on the wire."""

from __future__ import annotations

import base64
import json
import zlib
from collections.abc import Iterable, Mapping
from typing import Any

MAX_UNPACKED = 4 << 20  # of a compressed body; a few bytes may promise any number
_UNKNOWN_TYPE = "application/octet-stream"
_WINDOWS = {"gzip": 31, "x-gzip": 31, "deflate": 47}  # 47: zlib's own header, or gzip's

Headers = list[dict[str, str]]


def content(result: Mapping[str, Any], headers: Headers) -> dict[str, Any]:
    """Return the `content` of a response: text, or base64 where it is none."""
    entry: dict[str, Any] = {"size": _size(result), "mimeType": type_of(headers)}
    notes = ["cut: the journal has the beginning of it"] if result.get("is_cut") is True else []
    if "pieces" in result:
        notes.append("it is kept in pieces in the journal, and too long for this file")
    kept = _kept(result)
    unpacked = _unpacked(kept, headers) if isinstance(kept, bytes) else None
    if unpacked is not None:
        entry |= {"size": len(unpacked), "compression": len(unpacked) - entry["size"]}
        kept = unpacked
        if len(unpacked) == MAX_UNPACKED:
            notes.append(f"only the first {MAX_UNPACKED} bytes of it are unpacked here")
    entry |= _as_text_or_base64(kept)
    return entry | ({"comment": "; ".join(notes)} if notes else {})


def headers_of(headers: Any) -> Headers:
    """Return names and values, from a mapping or from a list of pairs."""
    pairs: Iterable[Any] = ()
    if isinstance(headers, Mapping):
        pairs = headers.items()
    elif isinstance(headers, list):
        pairs = (pair for pair in headers if isinstance(pair, list) and len(pair) == 2)
    return [{"name": text_of(name), "value": text_of(value)} for name, value in pairs]


def type_of(headers: Headers) -> str:
    return next(iter(_values_of(headers, "content-type")), _UNKNOWN_TYPE)


def _values_of(headers: Headers, name: str) -> list[str]:
    return [header["value"] for header in headers if header["name"].lower() == name]


def text_of(value: Any) -> str:
    """Return a text as it is, bytes as the journal has them decoded, anything else as JSON."""
    if isinstance(value, str):
        return value
    raw = _bytes(value.get("base64")) if isinstance(value, Mapping) and len(value) == 1 else None
    return json.dumps(value, sort_keys=True) if raw is None else raw.decode("latin-1")


def _size(result: Mapping[str, Any]) -> int:
    size = result.get("bytes")
    if type(size) is int and size >= 0:
        return size
    kept = _kept(result)
    return len(kept.encode(errors="replace") if isinstance(kept, str) else kept)


def _kept(result: Mapping[str, Any]) -> str | bytes:
    """Return what the journal has of the body. A stand-in's may be any value."""
    body = result.get("body", "")
    encoded = result.get("base64")
    if isinstance(body, Mapping) and len(body) == 1 and encoded is None:
        encoded = body.get("base64")
    raw = _bytes(encoded)
    return text_of(body) if raw is None else raw


def _as_text_or_base64(kept: str | bytes) -> dict[str, str]:
    if isinstance(kept, str):
        return {"text": kept}
    try:
        return {"text": kept.decode()}
    except UnicodeDecodeError:
        return {"text": base64.b64encode(kept).decode(), "encoding": "base64"}


def _unpacked(raw: bytes, headers: Headers) -> bytes | None:
    """Return the decompressed body, or None if it is not compressed in a way that is known here."""
    codings = _values_of(headers, "content-encoding")
    window = _WINDOWS.get(codings[0].strip().lower()) if len(codings) == 1 else None
    if window is None or not raw:
        return None
    try:
        return zlib.decompressobj(window).decompress(raw, MAX_UNPACKED)
    except zlib.error:
        return None


def _bytes(text: Any) -> bytes | None:
    if not isinstance(text, str):
        return None
    try:
        return base64.b64decode(text, validate=True)
    except ValueError:
        return None
