"""Bodies as values, and requests without what is secret in them."""

from __future__ import annotations

import json
import re
from collections.abc import Sequence
from typing import Any
from urllib.parse import parse_qsl, urlencode

Headers = Sequence[tuple[bytes, bytes]]
MAX_JSON = 8 << 20  # a longer answer is passed on as it is
_MAX_FIELDS = 1000
_FORM = "application/x-www-form-urlencoded"
_HOP = frozenset({
    "host", "connection", "content-length", "transfer-encoding", "te", "trailer", "upgrade",
    "keep-alive", "proxy-connection", "accept-encoding", "expect",
})  # fmt: skip
_SECRET = re.compile(
    r"auth|cookie|token|secret|passw|session|signature|credential|csrf|xsrf|api[-_]?key|apikey"
    r"|access[-_]?key|[-_]key$|^key$|^sig$|^jwt$"
)
_NOT_SECRET = frozenset({"idempotency-key", "page_token", "pagetoken", "next_token", "sort_key"})
_MASK = "..."


def header(headers: Headers, name: str) -> str:
    """Its value, empty when it is not there."""
    wanted = name.encode()
    return next((v.decode("latin-1").strip() for n, v in headers if n.lower() == wanted), "")


def media_of(headers: Headers) -> str:
    return header(headers, "content-type").partition(";")[0].strip().lower()


def is_json(media: str) -> bool:
    return media.endswith(("/json", "+json"))


def loaded(data: bytes) -> Any:
    """The JSON value. Raises ValueError, also for what is too long, too deep or no number."""
    if len(data) > MAX_JSON:
        raise ValueError("too long")
    try:
        value = json.loads(data, parse_constant=_no_constant)
        if b"\\u" in data:
            json.dumps(value, ensure_ascii=False).encode()  # half a character cannot be kept
        return value
    except RecursionError:
        raise ValueError("too deep") from None


def parsed(headers: Headers, data: bytes) -> Any:
    """A body that was sent: a JSON value, the fields of a form, a text, or None."""
    if not data:
        return None
    if media_of(headers) == _FORM:
        return form_fields(data.decode("utf-8", "replace"))
    try:
        return loaded(data)
    except ValueError:
        return data.decode("utf-8", "replace")


def is_form(headers: Headers) -> bool:
    return media_of(headers) == _FORM


def form_fields(text: str) -> dict[str, Any]:
    """`a=1&b[c]=2&d[]=3` is `{"a": "1", "b": {"c": "2"}, "d": ["3"]}`."""
    try:
        pairs = parse_qsl(text, keep_blank_values=True, max_num_fields=_MAX_FIELDS)
    except ValueError:
        return {}
    fields: dict[str, Any] = {}
    for name, value in pairs:
        outer, *inner = name.replace("]", "").split("[", 3)
        _set(fields, [outer, *inner], value)
    return fields


def without_secrets(headers: Headers) -> dict[str, str]:
    """What may be kept of the headers: nothing of the connection, no credentials."""
    kept = ((n.decode("latin-1").lower(), v.decode("latin-1")) for n, v in headers)
    return {name: value for name, value in kept if name not in _HOP and not is_secret(name)}


def masked_query(query: str) -> str:
    """The query with credentials blotted out."""
    try:
        pairs = parse_qsl(query, keep_blank_values=True, max_num_fields=_MAX_FIELDS)
    except ValueError:
        return ""
    if not any(is_secret(name) for name, _ in pairs):
        return query
    return urlencode([(name, _MASK if is_secret(name) else value) for name, value in pairs])


def is_secret(name: str) -> bool:
    name = name.lower()
    return name not in _NOT_SECRET and _SECRET.search(name) is not None


def _set(fields: dict[str, Any], way: list[str], value: str) -> None:
    for part in way[:-1]:
        inner = fields.get(part)
        if way[-1] == "" and part == way[-2]:
            fields[part] = [*(inner if isinstance(inner, list) else []), value]
            return
        if not isinstance(inner, dict):
            inner = fields[part] = {}
        fields = inner
    fields[way[-1]] = value


def _no_constant(name: str) -> Any:
    raise ValueError(f"{name} is no JSON")
