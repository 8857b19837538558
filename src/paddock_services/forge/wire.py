"""Requests and answers of the forge: routes, pages, entity tags, and errors in its words."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Mapping, Sequence
from typing import Any
from urllib.parse import parse_qsl, unquote, urlencode

import msgspec

MAX_BODY = 50 << 20  # a file of 35 MB as base64
MAX_DEPTH = 32
_MAX_FIELDS = 500
DOCS = "https://docs.github.com/rest"


class Failed(Exception):
    """A request that gets an error, as the forge says it."""

    def __init__(self, status: int, message: str, errors: Sequence[Mapping[str, Any]] = ()) -> None:
        super().__init__(message)
        self.status = status
        self.message = message
        self.errors = errors

    def body(self) -> dict[str, Any]:
        said: dict[str, Any] = {"message": self.message}
        if self.errors:
            said["errors"] = list(self.errors)
        return {**said, "documentation_url": DOCS, "status": str(self.status)}


def not_found() -> Failed:
    return Failed(404, "Not Found")


def invalid(resource: str, name: str, code: str = "invalid", message: str = "") -> Failed:
    """A field that cannot be as it is."""
    error = {"resource": resource, "field": name, "code": code}
    return Failed(422, "Validation Failed", [{**error, "message": message} if message else error])


class Call(msgspec.Struct, frozen=True):
    """One request, read."""

    method: str
    path: str
    query: Mapping[str, str]
    headers: Mapping[str, str]
    raw: bytes
    api: str  # what URLs of this interface begin with
    html: str  # what URLs for people begin with
    me: str | None = None  # who is logged in
    names: Mapping[str, str] = {}  # the parameters of the path

    def body(self) -> dict[str, Any]:
        """The object that was sent. Raises Failed."""
        value = self.json()
        if not isinstance(value, dict):
            raise Failed(400, "Body should be a JSON object")
        return value

    def json(self) -> Any:
        """What was sent; nothing is an empty object. Raises Failed."""
        if not self.raw:
            return {}
        try:
            value = json.loads(self.raw, parse_constant=_no_constant)
            json.dumps(value, ensure_ascii=False).encode()  # half a surrogate pair is no text
        except (ValueError, RecursionError) as error:
            raise Failed(400, "Problems parsing JSON") from error
        if _is_deep(value, 0):
            raise Failed(400, "Problems parsing JSON")
        return value

    @property
    def login(self) -> str:
        """Who it is. Raises Failed where nobody is."""
        if self.me is None:
            raise Failed(401, "Requires authentication")
        return self.me


class Reply(msgspec.Struct, frozen=True):
    """An answer before it is bytes."""

    body: Any = None
    status: int = 200
    headers: Mapping[str, str] = {}


Handler = Callable[[Call], Reply]


class Router:
    """Which handler a path means. `{name}` is one part of a path, `{name*}` all the rest."""

    def __init__(self) -> None:
        self._routes: dict[int, list[tuple[tuple[str, ...], dict[str, Handler]]]] = {}
        self._open: list[tuple[tuple[str, ...], dict[str, Handler]]] = []

    def add(self, method: str, template: str, handler: Handler) -> None:
        parts = tuple(template.strip("/").split("/"))
        routes = self._open if parts[-1].endswith("*}") else self._routes.setdefault(len(parts), [])
        for known, methods in routes:
            if known == parts:
                methods[method] = handler
                return
        routes.append((parts, {method: handler}))

    def find(self, method: str, path: str) -> tuple[Handler, dict[str, str]]:
        """Raises Failed."""
        parts = tuple(unquote(part) for part in path.strip("/").split("/"))
        for routes in (self._routes.get(len(parts), ()), self._open):
            for known, methods in routes:
                names = _match(known, parts)
                if names is not None and method in methods:
                    return methods[method], names
        raise not_found()  # the forge does not say which methods there are


def text(
    body: Mapping[str, Any], name: str, resource: str, *, required: bool = False
) -> str | None:
    """A text of a body. Raises Failed."""
    value = body.get(name)
    if value is None or (required and value == ""):
        if required:
            raise invalid(resource, name, "missing_field")
        return None
    if isinstance(value, int | float) and not isinstance(value, bool):
        return str(value)
    if not isinstance(value, str) or len(value) > MAX_BODY:
        raise invalid(resource, name)
    return value


def names_of(body: Mapping[str, Any], name: str, resource: str) -> list[str]:
    """A list of names, given as texts or as objects with a name. Raises Failed."""
    value = body.get(name)
    if value is None:
        return []
    found = [value] if isinstance(value, str) else value
    if not isinstance(found, list) or len(found) > 100:
        raise invalid(resource, name)
    names = [one.get("name") if isinstance(one, dict) else one for one in found]
    if not all(isinstance(one, str) and 0 < len(one) <= 100 for one in names):
        raise invalid(resource, name)
    return [str(one) for one in names]


def paged(call: Call, found: Sequence[Any], show: Callable[[Any], Any]) -> Reply:
    """One page, with links to the others."""
    size = min(max(_number(call.query.get("per_page"), 30), 1), 100)
    page = max(_number(call.query.get("page"), 1), 1)
    last = max(1, -(-len(found) // size))
    part = [show(one) for one in found[(page - 1) * size : page * size]]
    wanted = {"prev": page - 1, "next": page + 1, "last": last, "first": 1}
    links = [
        f'<{_page_url(call, number)}>; rel="{name}"'
        for name, number in wanted.items()
        if 1 <= number <= last and number != page and last > 1
    ]
    return Reply(part, headers={"link": ", ".join(links)} if links else {})


def tag_of(body: bytes) -> str:
    return f'W/"{hashlib.sha256(body).hexdigest()}"'


def is_fresh(asked: str, tag: str) -> bool:
    """Whether the one who asks has this already."""
    tags = [one.strip() for one in asked.split(",")]
    return "*" in tags or tag.removeprefix("W/") in [one.removeprefix("W/") for one in tags]


def read_query(query: str) -> dict[str, str]:
    """Raises Failed."""
    try:
        return dict(parse_qsl(query, keep_blank_values=True, max_num_fields=_MAX_FIELDS))
    except ValueError as error:
        raise Failed(400, "Too many parameters") from error


def _page_url(call: Call, page: int) -> str:
    return f"{call.api}{call.path}?{urlencode({**call.query, 'page': page})}"


def _number(text: str | None, default: int) -> int:
    try:
        return int(text) if text and len(text) < 10 else default
    except ValueError:
        return default


def _match(known: tuple[str, ...], parts: tuple[str, ...]) -> dict[str, str] | None:
    names: dict[str, str] = {}
    for place, part in enumerate(known):
        if part.endswith("*}"):
            if len(parts) < place:
                return None
            return {**names, part[1:-2]: "/".join(parts[place:])}
        if place >= len(parts):
            return None
        if part.startswith("{"):
            names[part[1:-1]] = parts[place]
        elif part != parts[place]:
            return None
    return names


def _no_constant(name: str) -> Any:
    raise ValueError(name)


def _is_deep(value: Any, depth: int) -> bool:
    if depth > MAX_DEPTH:
        return True
    inner = value.values() if isinstance(value, dict) else value if isinstance(value, list) else ()
    return any(_is_deep(one, depth + 1) for one in inner)
