"""Bodies of requests and answers as JSON values, and requests without their credentials."""

from __future__ import annotations

import json
import re
from collections.abc import Sequence
from typing import Any
from urllib.parse import parse_qsl, urlencode

Headers = Sequence[tuple[bytes, bytes]]
MAX_JSON = 8 << 20  # a longer answer is passed on unchanged
_MAX_FIELDS = 1000
_FORM = "application/x-www-form-urlencoded"
_CONNECTION_HEADERS = frozenset({
    "host", "connection", "content-length", "transfer-encoding", "te", "trailer", "upgrade",
    "keep-alive", "proxy-connection", "accept-encoding", "expect",
})  # fmt: skip
_SECRET = re.compile(
    r"auth|cookie|token|secret|passw|session|signature|credential|csrf|xsrf|api[-_]?key|apikey"
    r"|access[-_]?key|[-_]key$|^key$|^sig$|^jwt$"
)
_NOT_SECRET = frozenset({"idempotency-key", "page_token", "pagetoken", "next_token", "sort_key"})
_MASK = "..."


def header_value(headers: Headers, name: str) -> str:
    """Return the value of a header, or an empty string."""
    for key, value in headers:
        if key.lower() == name.encode():
            return value.decode("latin-1").strip()
    return ""


def media_type(headers: Headers) -> str:
    return header_value(headers, "content-type").partition(";")[0].strip().lower()


def is_json(media: str) -> bool:
    return media.endswith(("/json", "+json"))


def parse_json(data: bytes) -> Any:
    """Parse JSON. Raises ValueError, also for what is too long, too deep, NaN or Infinity."""
    if len(data) > MAX_JSON:
        raise ValueError("too long")
    try:
        value = json.loads(data, parse_constant=_refuse_constant)
        if b"\\u" in data:
            json.dumps(value, ensure_ascii=False).encode()  # lone surrogates cannot be stored
        return value
    except RecursionError:
        raise ValueError("too deep") from None


def parse_body(headers: Headers, data: bytes) -> Any:
    """Return the body of a request as a JSON value, the fields of a form, a text, or None."""
    if not data:
        return None
    if is_form(headers):
        return parse_form(data.decode("utf-8", "replace"))
    try:
        return parse_json(data)
    except ValueError:
        return data.decode("utf-8", "replace")


def is_form(headers: Headers) -> bool:
    return media_type(headers) == _FORM


def parse_form(text: str) -> dict[str, Any]:
    """Parse `a=1&b[c]=2&d[]=3` into `{"a": "1", "b": {"c": "2"}, "d": ["3"]}`."""
    try:
        pairs = parse_qsl(text, keep_blank_values=True, max_num_fields=_MAX_FIELDS)
    except ValueError:
        return {}
    fields: dict[str, Any] = {}
    for name, value in pairs:
        _set_nested(fields, name.replace("]", "").split("[", 3), value)
    return fields


def without_secrets(headers: Headers) -> dict[str, str]:
    """Return the headers without credentials and without those of the connection."""
    decoded = ((name.decode("latin-1").lower(), value.decode("latin-1")) for name, value in headers)
    return {
        name: value
        for name, value in decoded
        if name not in _CONNECTION_HEADERS and not is_secret(name)
    }


def masked_query(query: str) -> str:
    """Return the query with its credentials masked."""
    try:
        pairs = parse_qsl(query, keep_blank_values=True, max_num_fields=_MAX_FIELDS)
    except ValueError:
        return ""
    if not any(is_secret(name) for name, _ in pairs):
        return query
    return urlencode([(name, _MASK if is_secret(name) else value) for name, value in pairs])


def is_secret(name: str) -> bool:
    """Return whether a header or field of this name holds a credential."""
    name = name.lower()
    return name not in _NOT_SECRET and _SECRET.search(name) is not None


def _set_nested(fields: dict[str, Any], keys: list[str], value: str) -> None:
    for key in keys[:-1]:
        inner = fields.get(key)
        if keys[-1] == "" and key == keys[-2]:  # d[]=3
            items = inner if isinstance(inner, list) else []
            fields[key] = [*items, value]
            return
        if not isinstance(inner, dict):
            inner = fields[key] = {}
        fields = inner
    fields[keys[-1]] = value


def _refuse_constant(name: str) -> Any:
    raise ValueError(f"{name} is no JSON")
