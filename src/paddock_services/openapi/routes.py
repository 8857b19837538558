"""The operations of a document, and finding the one that a request is for."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any
from urllib.parse import unquote, urlsplit

import msgspec

from paddock.model.errors import InvalidInput
from paddock_services.openapi.document import Document
from paddock_services.openapi.schemas import SchemaNode

METHODS = ("GET", "PUT", "POST", "DELETE", "OPTIONS", "HEAD", "PATCH", "TRACE")
_MAX_SEGMENTS = 64


class Parameter(msgspec.Struct, frozen=True):
    """One parameter of a request."""

    name: str
    location: str  # path, query, header, cookie
    node: SchemaNode
    is_required: bool = False
    style: str = ""
    is_exploded: bool = True


class Response(msgspec.Struct, frozen=True):
    """One answer that an operation declares."""

    status: str  # "201", "4XX", "default"
    content: Mapping[str, Any] = {}
    headers: Mapping[str, Any] = {}

    @property
    def media_type(self) -> str | None:
        """The media type of the body, JSON if possible; None without a body."""
        for name in self.content:
            if is_json(name):
                return name
        return next(iter(self.content), None)

    @property
    def node(self) -> SchemaNode | None:
        media = self.media_type
        if media is None or not isinstance(self.content[media], Mapping):
            return None
        return self.content[media].get("schema")


class Operation(msgspec.Struct, frozen=True):
    """One method of one path."""

    method: str
    route: PathRoute
    parameters: tuple[Parameter, ...]
    body: Mapping[str, Any]  # by media type
    is_body_required: bool
    responses: tuple[Response, ...]
    security: tuple[Mapping[str, Any], ...]

    def body_node(self, media_type: str = "") -> SchemaNode | None:
        """Return the schema of the request's body, in this media type or the first that is JSON."""
        for name in (media_type, *self.body):
            if name in self.body and (name == media_type or is_json(name)):
                content = self.body[name]
                return content.get("schema") if isinstance(content, Mapping) else None
        first = next(iter(self.body.values()), None)
        return first.get("schema") if isinstance(first, Mapping) else None

    def response(self, status: int) -> Response | None:
        """Return the response for a status: by number, by class, or the default."""
        declared = {response.status.upper(): response for response in self.responses}
        for name in (str(status), f"{status // 100}XX", "DEFAULT"):
            if name in declared:
                return declared[name]
        return None

    def success(self, *preferred: int) -> tuple[int, Response]:
        """Return the status of a successful answer, and its response."""
        declared = {response.status.upper(): response for response in self.responses}
        for status in preferred:
            if str(status) in declared:
                return status, declared[str(status)]
        numbers = sorted(int(name) for name in declared if name.isdecimal() and name[0] == "2")
        if numbers:
            return numbers[0], declared[str(numbers[0])]
        status = (preferred or (200,))[0]
        return status, declared.get("2XX") or declared.get("DEFAULT") or Response(str(status))


class PathRoute(msgspec.Struct, frozen=True):
    """One path template."""

    template: str
    segments: tuple[str, ...]
    bases: tuple[tuple[str, ...], ...]
    operations: dict[str, Operation] = {}

    @property
    def names(self) -> tuple[str, ...]:
        """The names of the parameters, in order."""
        return tuple(name for part in self.segments for _, name in _pieces(part) if name)

    @property
    def is_item(self) -> bool:
        return bool(self.segments) and is_parameter(self.segments[-1])

    def match(self, parts: tuple[str, ...]) -> dict[str, str] | None:
        if len(parts) != len(self.segments):
            return None
        values: dict[str, str] = {}
        for segment, part in zip(self.segments, parts, strict=True):
            matched = _match(segment, part)
            if matched is None:
                return None
            values |= matched
        return values

    @property
    def rank(self) -> tuple[int, ...]:
        """A sort key: the more literal a path is, and the earlier, the sooner it is tried."""
        return tuple(0 if "{" not in part else 1 + is_parameter(part) for part in self.segments)


class Routes:
    """All paths of a document."""

    def __init__(self, document: Document) -> None:
        self.document = document
        self.all = [_route(document, path, item) for path, item in _paths(document)]
        self._by_length: dict[int, list[PathRoute]] = {}
        for route in sorted(self.all, key=lambda route: route.rank):
            self._by_length.setdefault(len(route.segments), []).append(route)

    def find(self, path: str) -> tuple[PathRoute, dict[str, str]] | None:
        """Find the route of a percent-encoded path, and the values of its parameters."""
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


def _route(document: Document, path: str, item: Mapping[str, Any]) -> PathRoute:
    segments = tuple(part for part in path.strip("/").split("/") if part)
    servers = item.get("servers") or document.root.get("servers") or [{"url": "/"}]
    route = PathRoute(path, segments, _bases(servers))
    for method in METHODS:
        operation = item.get(method.lower())
        if isinstance(operation, Mapping):
            route.operations[method] = _operation(document, route, method, item, operation)
    return route


def _bases(servers: Any) -> tuple[tuple[str, ...], ...]:
    bases = []
    for server in servers if isinstance(servers, list) else ():
        if not isinstance(server, Mapping):
            continue
        url = str(server.get("url", "/"))
        for name, variable in (server.get("variables") or {}).items():
            url = url.replace("{" + name + "}", str(variable.get("default", "")))
        path = urlsplit(url).path if "://" in url else url
        bases.append(tuple(part for part in path.split("/") if part))
    return tuple(dict.fromkeys(bases)) or ((),)


def _operation(
    document: Document,
    route: PathRoute,
    method: str,
    item: Mapping[str, Any],
    operation: Mapping[str, Any],
) -> Operation:
    body = document.mapping(operation.get("requestBody"))
    security = operation.get("security", document.root.get("security"))
    if security is not None and not isinstance(security, list):
        raise InvalidInput(f"the security of {method} {route.template} is no list")
    return Operation(
        method,
        route,
        _parameters(document, item, operation),
        _content(document, body.get("content")),
        body.get("required") is True,
        tuple(_responses(document, operation)),
        tuple(each for each in security or () if isinstance(each, Mapping)),
    )


def _parameters(
    document: Document, item: Mapping[str, Any], operation: Mapping[str, Any]
) -> tuple[Parameter, ...]:
    parameters: dict[tuple[str, str], Parameter] = {}
    for each in (*(item.get("parameters") or ()), *(operation.get("parameters") or ())):
        node = document.mapping(each)
        name, location = str(node.get("name", "")), str(node.get("in", ""))
        content = node.get("content")
        if isinstance(content, Mapping):  # a parameter in JSON is not checked
            schema: SchemaNode = True
        else:
            schema = node.get("schema", True)
        is_required = node.get("required") is True or location == "path"
        style = str(node.get("style", ""))
        is_exploded = bool(node.get("explode", style in ("", "form", "deepObject")))
        parameter = Parameter(name, location, schema, is_required, style, is_exploded)
        parameters[location, name] = parameter
    return tuple(parameters.values())


def _responses(document: Document, operation: Mapping[str, Any]) -> Iterator[Response]:
    for status, response in (operation.get("responses") or {}).items():
        node = document.mapping(response)
        headers = node.get("headers")
        yield Response(
            str(status),
            _content(document, node.get("content")),
            headers if isinstance(headers, Mapping) else {},
        )


def _content(document: Document, content: Any) -> Mapping[str, Any]:
    if not isinstance(content, Mapping):
        return {}
    return {str(name): document.mapping(media) for name, media in content.items()}


def _pieces(segment: str) -> list[tuple[str, str]]:
    """Split "v{a}-{b}" into [("v", "a"), ("-", "b"), ("", "")]: a text and the name after it."""
    pieces = []
    while "{" in segment and "}" in segment:
        text, _, rest = segment.partition("{")
        name, _, segment = rest.partition("}")
        pieces.append((text, name))
    return [*pieces, (segment, "")]


def _match(segment: str, part: str) -> dict[str, str] | None:
    if "{" not in segment:
        return {} if segment == part else None
    values: dict[str, str] = {}
    open_name = ""  # the parameter whose value ends where the next text begins
    for text, name in _pieces(segment):
        is_end = not name
        if not open_name:
            cut = 0
        elif text:
            cut = part.rfind(text) if is_end else part.find(text)
        else:
            cut = len(part) if is_end else 1
        if cut < 0 or not part.startswith(text, cut) or (open_name and cut == 0):
            return None
        if open_name:
            values[open_name] = part[:cut]
        part, open_name = part[cut + len(text) :], name
    return None if part else values
