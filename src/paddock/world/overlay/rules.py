"""Classification of requests as reads or writes. Whatever is not certainly a read is a write."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from typing import Any
from urllib.parse import parse_qsl

import msgspec

from paddock.model.action import Effect
from paddock.model.errors import InvalidInput
from paddock.policy.graphql import effect_of, is_endpoint
from paddock.world.overlay.bodies import media_type
from paddock.world.overlay.paths import canonical, most_lenient

Headers = Sequence[tuple[bytes, bytes]]
_SAFE = frozenset({"GET", "HEAD", "OPTIONS"})
_OVERRIDES = frozenset({b"x-http-method-override", b"x-http-method", b"x-method-override"})
_EXTENSION = re.compile(r"\.[a-z]{2,5}$")  # /tickets/7/close.xml is the same to some servers
_FORMS = frozenset({"application/x-www-form-urlencoded", "multipart/form-data"})
_MAX_GLOB = 500


class RequestPattern(msgspec.Struct, frozen=True):
    """A method and a glob for paths: `GET /tickets/*/close`."""

    method: str
    pattern: re.Pattern[str]

    @classmethod
    def parse(cls, text: str) -> RequestPattern:
        """Parse a pattern: `*` is one part of a path, `**` any number. Raises InvalidInput."""
        method, _, glob = text.partition(" ")
        glob = glob.strip()
        if not re.fullmatch(r"[A-Z]+|\*", method) or not glob.startswith("/"):
            raise InvalidInput(f"{text!r} is not METHOD /path, as in GET /tickets/*/close")
        if len(glob) > _MAX_GLOB:
            raise InvalidInput(f"a path of {len(glob)} letters, at most {_MAX_GLOB}")
        return cls(method, re.compile(_expression(glob), re.IGNORECASE | re.DOTALL))

    def matches(self, methods: Iterable[str], paths: Iterable[str]) -> bool:
        if self.method != "*" and self.method not in methods:
            return False
        return any(self.pattern.fullmatch(path) for path in paths)


def parse_patterns(value: object, option: str) -> tuple[RequestPattern, ...]:
    """Parse an option of the paddock file. Raises InvalidInput."""
    if not isinstance(value, list | tuple):
        raise InvalidInput(f"{option}: a list of METHOD /path, not {value!r}")
    return tuple(RequestPattern.parse(str(text)) for text in value)


def effective_method(method: str, query: str, headers: Headers) -> str:
    """Return the method that the server may act on: an override that writes wins."""
    overrides = [v.decode("latin-1") for name, v in headers if name.lower() in _OVERRIDES]
    overrides += [value for name, value in _query_pairs(query) if name.lower() == "_method"]
    for override in overrides:
        if override.strip().upper() not in _SAFE:
            return override.strip().upper()
    return method


def is_write(
    method: str,
    path: str,
    query: str,
    headers: Headers,
    writes: Sequence[RequestPattern] = (),
    reads: Sequence[RequestPattern] = (),
    body: Any = None,
) -> bool:
    """Return whether a request writes.

    A pattern of `writes` is matched with every reading of the path, up to that of the most lenient
    server. A pattern of `reads` is matched only with a path that has a single reading.
    """
    if any(name.lower() == b"upgrade" for name, _ in headers):
        return True  # nobody sees what is sent after an upgrade
    effective = effective_method(method, query, headers)
    methods = {method, effective}
    if method == "HEAD":
        methods.add("GET")
    lenient = most_lenient(path)
    readings = (path, canonical(path), lenient, _EXTENSION.sub("", lenient))
    if any(pattern.matches(methods, readings) for pattern in writes):
        return True
    is_plain = path == canonical(path) and "%" not in path and ";" not in path
    is_declared = is_plain and any(pattern.matches({method}, (path,)) for pattern in reads)
    if is_endpoint(lenient):
        is_json = body is None or media_type(headers) == "application/json"
        effect = effect_of(effective, lenient, query, body, is_declared=is_declared and is_json)
        return effect is not Effect.READ
    if effective in _SAFE:
        return False
    is_overridden = effective != method or _may_override_method(headers, body)
    return is_overridden or not is_declared


def _may_override_method(headers: Headers, body: Any) -> bool:
    """Return whether the body may name another method. A form that was not parsed may."""
    if media_type(headers) in _FORMS:
        return not isinstance(body, Mapping) or "_method" in body
    return isinstance(body, Mapping) and "_method" in body


def _expression(glob: str) -> str:
    parts = re.split(r"(\*\*|\*)", glob.rstrip("/") or "/")
    wildcards = {"**": ".*", "*": "[^/]*"}
    return "".join(wildcards.get(part) or re.escape(part) for part in parts)


def _query_pairs(query: str) -> list[tuple[str, str]]:
    try:
        return parse_qsl(query, keep_blank_values=True, max_num_fields=1000)
    except ValueError:
        return [("_method", "UNREADABLE")]
