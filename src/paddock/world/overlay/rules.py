"""Which requests write. What is not surely a read is a write."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from typing import Any
from urllib.parse import parse_qsl

import msgspec

from paddock.model.action import Effect
from paddock.model.errors import InvalidInput
from paddock.policy.graphql import effect_of, is_endpoint
from paddock.world.overlay.bodies import media_of
from paddock.world.overlay.paths import canonical, loosest

Headers = Sequence[tuple[bytes, bytes]]
_SAFE = frozenset({"GET", "HEAD", "OPTIONS"})
_OVERRIDES = frozenset({b"x-http-method-override", b"x-http-method", b"x-method-override"})
_EXTENSION = re.compile(r"\.[a-z]{2,5}$")  # /tickets/7/close.xml is the same to some servers
_FORMS = frozenset({"application/x-www-form-urlencoded", "multipart/form-data"})
_MAX_GLOB = 500


class RequestPattern(msgspec.Struct, frozen=True):
    """A method and the paths that it holds for: `GET /tickets/*/close`."""

    method: str
    pattern: re.Pattern[str]

    @classmethod
    def parse(cls, text: str) -> RequestPattern:
        """`*` stands for one part of a path, `**` for any number. Raises InvalidInput."""
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


def routes(words: object, option: str) -> tuple[RequestPattern, ...]:
    """The routes of an option of the file. Raises InvalidInput."""
    if not isinstance(words, list | tuple):
        raise InvalidInput(f"{option}: a list of METHOD /path, not {words!r}")
    return tuple(RequestPattern.parse(str(word)) for word in words)


def method_of(method: str, query: str, headers: Headers) -> str:
    """The method that the server may take it for: one that writes wins."""
    said = [value.decode("latin-1").strip().upper() for name, value in headers
            if name.lower() in _OVERRIDES]  # fmt: skip
    said += [value.strip().upper() for name, value in _pairs(query) if name.lower() == "_method"]
    return next((one for one in said if one not in _SAFE), method)


def is_write(
    method: str,
    path: str,
    query: str,
    headers: Headers,
    writes: Sequence[RequestPattern] = (),
    reads: Sequence[RequestPattern] = (),
    body: Any = None,
) -> bool:
    """A rule for writes is matched as the most forgiving server reads the path, one for reads
    only with a path that has a single reading."""
    really = method_of(method, query, headers)
    if any(name.lower() == b"upgrade" for name, _ in headers):
        return True  # what is said after it is seen by nobody
    seen = {method, really} | ({"GET"} if method == "HEAD" else set())
    loose = loosest(path)
    spellings = (path, canonical(path), loose, _EXTENSION.sub("", loose))
    if any(route.matches(seen, spellings) for route in writes):
        return True
    is_plain = path == canonical(path) and "%" not in path and ";" not in path
    is_declared = is_plain and any(one.matches({method}, (path,)) for one in reads)
    if is_endpoint(loose):
        is_json = body is None or media_of(headers) == "application/json"
        asked = effect_of(really, loose, query, body, is_declared=is_declared and is_json)
        return asked is not Effect.READ
    if really in _SAFE:
        return False
    if really != method or _is_overridden(headers, body):
        return True
    return not is_declared


def _is_overridden(headers: Headers, body: Any) -> bool:
    """A form may name another method; one that was not read may do so as well."""
    if media_of(headers) in _FORMS:
        return not isinstance(body, Mapping) or "_method" in body
    return isinstance(body, Mapping) and "_method" in body


def _expression(glob: str) -> str:
    parts = re.split(r"(\*\*|\*)", glob.rstrip("/") or "/")
    wild = {"**": ".*", "*": "[^/]*"}
    return "".join(wild.get(part) or re.escape(part) for part in parts)


def _pairs(query: str) -> list[tuple[str, str]]:
    try:
        return parse_qsl(query, keep_blank_values=True, max_num_fields=1000)
    except ValueError:
        return [("_method", "UNREADABLE")]
