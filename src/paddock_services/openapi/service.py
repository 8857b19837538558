"""The service `openapi`: the ASGI application, and seeds."""

from __future__ import annotations

import contextlib
import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any, ClassVar

from starlette.requests import Request
from starlette.responses import Response

from paddock.model.errors import InvalidInput
from paddock.world.kit.input import MalformedRequest, TooLarge, read_body, read_multipart
from paddock.world.service import ASGIApp, Receive, Scope, Seed, Send, Service
from paddock_services.openapi.api import NO_BODY, Answer, OpenApiDescription
from paddock_services.openapi.document import load
from paddock_services.openapi.errors import RequestRefused, error_answer
from paddock_services.openapi.handler import RequestHandler
from paddock_services.openapi.plausible import WriteGuesser
from paddock_services.openapi.records import (
    ID,
    Records,
    parent_id,
    set_parents,
    text_of,
    without_marks,
)
from paddock_services.openapi.request import MAX_BODY, RawRequest, wants_form


class OpenApi(Service):
    """Creates, reads, lists, changes and deletes the records that a document describes."""

    name: ClassVar[str] = "openapi"
    options: ClassVar[dict[str, str]] = {
        "spec": "path of the OpenAPI 3.0 or 3.1 document, JSON or YAML",
    }
    _api: OpenApiDescription | None = None

    @property
    def api(self) -> OpenApiDescription:
        """The document, analysed when it is first needed. Raises InvalidInput."""
        if self._api is None:
            spec = self.context.options.get("spec")
            if not isinstance(spec, str) or not spec:
                raise InvalidInput("openapi needs `spec:`, the path of an OpenAPI document")
            self._api = OpenApiDescription(load(self.context.path(spec)))
        return self._api

    @staticmethod
    def write_guesser(path: Path) -> WriteGuesser:
        """Return a guesser of answers for the service `draft`. Raises InvalidInput."""
        return WriteGuesser(OpenApiDescription(load(path)))

    def check(self) -> None:
        if not self.api.routes.all:
            raise InvalidInput("spec: the document has no paths")

    def app(self) -> ASGIApp:
        handler = RequestHandler(self.api, self.context)

        async def app(scope: Scope, receive: Receive, send: Send) -> None:
            request = Request(scope, receive)
            try:
                answer = handler.answer(await _read(request))
            except TooLarge:
                refused = RequestRefused(413, f"the body has more than {MAX_BODY} bytes")
                answer = error_answer(self.api, None, refused)
            await _response(answer, request.method)(scope, receive, send)

        return app

    def seed(self, data: Seed) -> None:
        """Store documents by kind: the name of a collection, or of its schema."""
        with self.context.store.transaction():
            for name, documents in data.items():
                self._seed_kind(name, documents)

    def _seed_kind(self, name: str, documents: Sequence[Any]) -> None:
        records = Records(self.api, self.context)
        resource = self.api.resources.named(name)
        if resource is None:
            kinds = ", ".join(sorted(self.api.resources.by_kind)) or "none"
            raise InvalidInput(f"seed: the document has no {name!r}; it has {kinds}")
        properties = self.api.schemas.properties(resource.node)
        for document in documents:
            record = without_marks(document)
            parents = {parent: parent_id(record, parent, {}) for parent in resource.parents}
            scope = {parent: text_of(id) for parent, id in parents.items() if id is not None}
            for key in scope:
                if key not in properties:
                    record.pop(key, None)
            set_parents(self.api, resource, record, scope)
            id_name = resource.id_name or ID
            if record.get(id_name) is None:
                record[id_name] = records.new_id(resource, scope, record)
            records.put(resource, record)
            records.advance_counter(resource, record)


async def _read(request: Request) -> RawRequest:
    """Read a request. Raises TooLarge."""
    body = await read_body(request, MAX_BODY)
    headers = {name.lower(): value for name, value in request.headers.items()}
    form = None
    if wants_form(headers):
        with contextlib.suppress(MalformedRequest):
            form = await read_multipart(headers["content-type"], body)
    scope = request.scope
    path = scope.get("raw_path") or scope["path"].encode()
    host = headers.get("host") or scope["server"][0]
    return RawRequest(
        request.method.upper(),
        path.decode("latin-1"),
        scope["query_string"].decode("latin-1"),
        headers,
        body,
        form,
        f"{scope['scheme']}://{host}",
    )


def _response(answer: Answer, method: str) -> Response:
    """Encode an answer. Line ends in a header's value are removed: it may have an agent's text."""
    lines = {
        name: value.replace("\r", "").replace("\n", "") for name, value in answer.headers.items()
    }
    body = b""
    if answer.media_type is not None and answer.status not in NO_BODY:
        lines["content-type"] = answer.media_type
        if answer.media_type.endswith("json"):
            text = json.dumps(answer.body, ensure_ascii=False, separators=(",", ":"))
        else:
            text = answer.body
        body = text.encode()
    if answer.status not in NO_BODY:
        lines["content-length"] = str(len(body))
    response = Response(b"" if method == "HEAD" else body, answer.status)
    response.raw_headers = [(name.encode("latin-1"), v.encode()) for name, v in lines.items()]
    return response
