"""A document made ready to answer: its schemas, routes and resources, worked out once."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import msgspec

from paddock.model.errors import InvalidInput
from paddock_services.openapi.document import Document
from paddock_services.openapi.fit import Fitter, Source
from paddock_services.openapi.resources import Resources
from paddock_services.openapi.routes import Operation, Response, Routes, is_json
from paddock_services.openapi.shape import Node, Shapes

GUESS = "x-paddock-guess"


class Answer(msgspec.Struct, frozen=True):
    """An answer before it is bytes."""

    status: int
    body: Any = None
    headers: Mapping[str, str] = {}
    media_type: str | None = "application/json"  # None: there is no body


class Api:
    """What a document describes."""

    def __init__(self, root: Mapping[str, Any] | Document) -> None:
        self.document = root if isinstance(root, Document) else Document(root)
        self.shapes = Shapes(self.document)
        self.fitter = Fitter(self.shapes)
        self.checker = self.fitter.checker
        try:
            self.routes = Routes(self.document)
            self.resources = Resources(self.routes, self.shapes)
        except (AttributeError, TypeError, KeyError) as error:
            raise InvalidInput(f"it is malformed: {error}") from error
        components = self.document.mapping(self.document.root.get("components"))
        self.schemes = self.document.mapping(components.get("securitySchemes"))
        self._check_security()

    def _check_security(self) -> None:
        for route in self.routes.all:
            for operation in route.operations.values():
                for name in (name for one in operation.security for name in one):
                    if name not in self.schemes:
                        raise InvalidInput(f"its security scheme {name!r} is not there")

    def shaped(
        self, status: int, response: Response, given: Any, source: Source, **headers: str
    ) -> Answer:
        """An answer of the response's shape around what is given."""
        media = response.media_type
        if media is None or status in (204, 304):
            return Answer(status, None, headers, None)
        node = response.node
        if not is_json(media):
            return Answer(status, self._raw(node, given, source), headers, media)
        media = "application/json" if "*" in media else media
        body = given if node is None else self.fitter.fit(node, given, source)
        return Answer(status, body, headers, media)

    def _raw(self, node: Node | None, given: Any, source: Source) -> str:
        """A body that is not JSON can only be a text."""
        if isinstance(given, str):
            return given
        made = self.fitter.fit(node, source=source) if node is not None else ""
        return made if isinstance(made, str) else ""


def example_of(response: Response) -> Any:
    """The example that a response has of its own. Else None."""
    said = response.content.get(response.media_type or "")
    if not isinstance(said, Mapping):
        return None
    if "example" in said:
        return said["example"]
    examples = said.get("examples")
    for one in examples.values() if isinstance(examples, Mapping) else ():
        if isinstance(one, Mapping) and "value" in one:
            return one["value"]
    return None


def accepts(operation: Operation, media_type: str) -> str | None:
    """The media type of the document that this one is. None: it is not taken."""
    name = media_type.split(";", 1)[0].strip().lower()
    for known in operation.body:
        plain = known.split(";", 1)[0].strip().lower()
        if plain in (name, "*/*") or (is_json(plain) and is_json(name)):
            return known
        if plain.endswith("/*") and name.startswith(plain[:-1]):
            return known
    return None
