"""A document made ready to answer: its schemas, routes and resources, analysed once."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import msgspec

from paddock.model.errors import InvalidInput
from paddock_services.openapi.document import Document
from paddock_services.openapi.generation import MISSING, Source, ValueFitter
from paddock_services.openapi.resources import Resources
from paddock_services.openapi.routes import Response, Routes, is_json
from paddock_services.openapi.schemas import Schemas

GUESS = "x-paddock-guess"
NO_BODY = frozenset({204, 304})


class Answer(msgspec.Struct, frozen=True):
    """An answer before it is encoded."""

    status: int
    body: Any = None
    headers: Mapping[str, str] = {}
    media_type: str | None = "application/json"  # None: there is no body


class OpenApiDescription:
    """An analysed document."""

    def __init__(self, root: Mapping[str, Any] | Document) -> None:
        self.document = root if isinstance(root, Document) else Document(root)
        self.schemas = Schemas(self.document)
        self.fitter = ValueFitter(self.schemas)
        self.checker = self.fitter.checker
        try:
            self.routes = Routes(self.document)
            self.resources = Resources(self.routes, self.schemas)
        except (AttributeError, TypeError, KeyError) as error:
            raise InvalidInput(f"it is malformed: {error}") from error
        components = self.document.mapping(self.document.root.get("components"))
        self.security_schemes = self.document.mapping(components.get("securitySchemes"))
        self._check_security_schemes()

    def _check_security_schemes(self) -> None:
        for route in self.routes.all:
            for operation in route.operations.values():
                for requirement in operation.security:
                    for name in requirement:
                        if name not in self.security_schemes:
                            raise InvalidInput(f"its security scheme {name!r} is not there")

    def shaped_answer(
        self, status: int, response: Response, content: Any, source: Source, **headers: str
    ) -> Answer:
        """Return an answer in the shape of the response, with the content as far as it fits."""
        media_type, node = response.media_type, response.node
        if media_type is None or status in NO_BODY:
            return Answer(status, None, headers, None)
        if is_json(media_type):
            body = content if node is None else self.fitter.fit(node, content, source)
            media_type = "application/json" if "*" in media_type else media_type
            return Answer(status, body, headers, media_type)
        text = content  # a body that is not JSON can only be a text
        if not isinstance(text, str) and node is not None:
            text = self.fitter.fit(node, source=source)
        return Answer(status, text if isinstance(text, str) else "", headers, media_type)


def example_of(response: Response) -> Any:
    """Return the example of a response, or MISSING."""
    content = response.content.get(response.media_type or "")
    if not isinstance(content, Mapping):
        return MISSING
    if content.get("example") is not None:
        return content["example"]
    examples = content.get("examples")
    for example in examples.values() if isinstance(examples, Mapping) else ():
        if isinstance(example, Mapping) and example.get("value") is not None:
            return example["value"]
    return MISSING
