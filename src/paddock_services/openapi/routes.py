"""The operations of a document, and which of them a request means."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any
from urllib.parse import unquote, urlsplit

import msgspec

from paddock.model.errors import InvalidInput
from paddock_services.openapi.document import Document
from paddock_services.openapi.shape import Node

METHODS = ("GET", "PUT", "POST", "DELETE", "OPTIONS", "HEAD", "PATCH", "TRACE")
_MAX_SEGMENTS = 64


class Parameter(msgspec.Struct, frozen=True):
    """One parameter of a request."""

    name: str
    place: str  # path, query, header, cookie
    node: Node
    is_required: bool = False
    style: str = ""
    is_exploded: bool = True


class Response(msgspec.Struct, frozen=True):
    """One answer that an operation may give."""

    status: str  # "201", "4XX", "default"
    content: Mapping[str, Any] = {}
    headers: Mapping[str, Any] = {}

    @property
    def media_type(self) -> str | None:
        """That of the body; JSON where there is a choice. None: there is no body."""
        for name in self.content:
            if is_json(name):
                return name
        return next(iter(self.content), None)

    @property
    def node(self) -> Node | None:
        media = self.media_type
        if media is None or not isinstance(self.content[media], Mapping):
            return None
        return self.content[media].get("schema")


class Operation(msgspec.Struct, frozen=True):
    """One method of one path."""

    method: str
    route: Route
    parameters: tuple[Parameter, ...]
    body: Mapping[str, Any]  # media types and what they carry
    is_body_required: bool
    responses: tuple[Response, ...]
    security: tuple[Mapping[str, Any], ...]

    def body_node(self, media_type: str = "") -> Node | None:
        """The schema of the request's body, in this media type or the first that is JSON."""
        for name in (media_type, *self.body):
            if name in self.body and (name == media_type or is_json(name)):
                found = self.body[name]
                return found.get("schema") if isinstance(found, Mapping) else None
        first = next(iter(self.body.values()), None)
        return first.get("schema") if isinstance(first, Mapping) else None

    def response(self, status: int) -> Response | None:
        """What is said about a status: by number, by class, by default."""
        wanted = (str(status), f"{status // 100}XX", "default")
        known = {one.status.upper(): one for one in self.responses}
        return next((known[name.upper()] for name in wanted if name.upper() in known), None)

    def success(self, *preferred: int) -> tuple[int, Response]:
        """The status of a good answer, and its shape."""
        known = {one.status.upper(): one for one in self.responses}
        for status in preferred:
            if str(status) in known:
                return status, known[str(status)]
        numbers = sorted(int(name) for name in known if name.isdecimal() and name[0] == "2")
        if numbers:
            return numbers[0], known[str(numbers[0])]
        status = (preferred or (200,))[0]
        return status, known.get("2XX") or known.get("DEFAULT") or Response(str(status))


class Route(msgspec.Struct, frozen=True):
    """One path template."""

    template: str
    segments: tuple[str, ...]
    bases: tuple[tuple[str, ...], ...]
    operations: dict[str, Operation] = {}

    @property
    def names(self) -> tuple[str, ...]:
        """Of the parameters, in order."""
        return tuple(name for part in self.segments for _, name in _pieces(part) if name)

    @property
    def is_item(self) -> bool:
        return bool(self.segments) and is_parameter(self.segments[-1])

    def match(self, parts: tuple[str, ...]) -> dict[str, str] | None:
        if len(parts) != len(self.segments):
            return None
        values: dict[str, str] = {}
        for segment, part in zip(self.segments, parts, strict=True):
            found = _match(segment, part)
            if found is None:
                return None
            values |= found
        return values

    @property
    def rank(self) -> tuple[int, ...]:
        """The more literal a path is, and the earlier, the sooner it is tried."""
        return tuple(0 if "{" not in part else 1 + is_parameter(part) for part in self.segments)


class Routes:
    """All paths of a document."""

    def __init__(self, document: Document) -> None:
        self.document = document
        self.all = [_route(document, path, item) for path, item in _paths(document)]
        self._by_length: dict[int, list[Route]] = {}
        for route in sorted(self.all, key=lambda one: one.rank):
            self._by_length.setdefault(len(route.segments), []).append(route)

    def find(self, path: str) -> tuple[Route, dict[str, str]] | None:
        """The route that a raw path (still percent-encoded) means, and its parameters."""
        raw = path.split("?", 1)[0].strip("/")
        parts = tuple(unquote(part) for part in raw.split("/")) if raw else ()
        if len(parts) > _MAX_SEGMENTS:
            return None
        for length in range(len(parts), -1, -1):
            base, rest = parts[: len(parts) - length], parts[len(parts) - length :]
            for route in self._by_length.get(length, ()):
                values = route.match(rest) if base in route.bases else None
                if values is not None:
                    return route, values
        return None


def is_json(media_type: str) -> bool:
    name = media_type.split(";", 1)[0].strip().lower()
    return name in ("application/json", "*/*", "application/*") or name.endswith("+json")


def is_parameter(segment: str) -> bool:
    return segment.startswith("{") and segment.endswith("}") and segment.count("{") == 1


def _paths(document: Document) -> Iterator[tuple[str, Mapping[str, Any]]]:
    for path, item in document.root.get("paths", {}).items():
        if path.startswith("/"):
            yield path, document.mapping(item)


def _route(document: Document, path: str, item: Mapping[str, Any]) -> Route:
    segments = tuple(part for part in path.strip("/").split("/") if part)
    servers = item.get("servers") or document.root.get("servers") or [{"url": "/"}]
    route = Route(path, segments, _bases(servers))
    for method in METHODS:
        operation = item.get(method.lower())
        if isinstance(operation, Mapping):
            route.operations[method] = _operation(document, route, method, item, operation)
    return route


def _bases(servers: Any) -> tuple[tuple[str, ...], ...]:
    found = []
    for server in servers if isinstance(servers, list) else ():
        if not isinstance(server, Mapping):
            continue
        url = str(server.get("url", "/"))
        for name, variable in (server.get("variables") or {}).items():
            url = url.replace("{" + name + "}", str(variable.get("default", "")))
        path = urlsplit(url).path if "://" in url else url
        found.append(tuple(part for part in path.split("/") if part))
    return tuple(dict.fromkeys(found)) or ((),)


def _operation(
    document: Document, route: Route, method: str, item: Mapping[str, Any], said: Mapping[str, Any]
) -> Operation:
    body = document.mapping(said.get("requestBody"))
    security = said.get("security", document.root.get("security"))
    if security is not None and not isinstance(security, list):
        raise InvalidInput(f"the security of {method} {route.template} is no list")
    return Operation(
        method,
        route,
        _parameters(document, item, said),
        _content(document, body.get("content")),
        body.get("required") is True,
        tuple(_responses(document, said)),
        tuple(one for one in security or () if isinstance(one, Mapping)),
    )


def _parameters(
    document: Document, item: Mapping[str, Any], said: Mapping[str, Any]
) -> tuple[Parameter, ...]:
    found: dict[tuple[str, str], Parameter] = {}
    for one in (*(item.get("parameters") or ()), *(said.get("parameters") or ())):
        node = document.mapping(one)
        name, place = str(node.get("name", "")), str(node.get("in", ""))
        content = node.get("content")
        if isinstance(content, Mapping):  # a parameter that carries JSON is not looked into
            schema: Node = True
        else:
            schema = node.get("schema", True)
        is_required = node.get("required") is True or place == "path"
        style = str(node.get("style", ""))
        is_exploded = bool(node.get("explode", style in ("", "form", "deepObject")))
        found[place, name] = Parameter(name, place, schema, is_required, style, is_exploded)
    return tuple(found.values())


def _responses(document: Document, said: Mapping[str, Any]) -> Iterator[Response]:
    for status, one in (said.get("responses") or {}).items():
        node = document.mapping(one)
        headers = node.get("headers")
        yield Response(
            str(status),
            _content(document, node.get("content")),
            headers if isinstance(headers, Mapping) else {},
        )


def _content(document: Document, content: Any) -> Mapping[str, Any]:
    if not isinstance(content, Mapping):
        return {}
    return {str(name): document.mapping(one) for name, one in content.items()}


def _pieces(segment: str) -> list[tuple[str, str]]:
    """ "v{a}-{b}" as [("v", "a"), ("-", "b"), ("", "")]: text, then the name that follows it."""
    found = []
    while "{" in segment and "}" in segment:
        text, _, rest = segment.partition("{")
        name, _, segment = rest.partition("}")
        found.append((text, name))
    return [*found, (segment, "")]


def _match(segment: str, part: str) -> dict[str, str] | None:
    if "{" not in segment:
        return {} if segment == part else None
    values: dict[str, str] = {}
    waiting = ""  # the parameter whose text is not known yet
    for text, name in _pieces(segment):
        if waiting and not text:
            cut = len(part) if not name else 1
        else:
            cut = (part.rfind(text) if not name else part.find(text)) if waiting else 0
        if cut < 0 or not part.startswith(text, cut) or (waiting and cut == 0):
            return None
        if waiting:
            values[waiting] = part[:cut]
        part, waiting = part[cut + len(text) :], name
    return values if not part else None
