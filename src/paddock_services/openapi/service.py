"""Any OpenAPI 3 document as a service with a memory."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any, ClassVar

from paddock.model.errors import InvalidInput
from paddock.world.service import ASGIApp, Receive, Scope, Seed, Send, Service
from paddock_services.openapi.answering import Answering
from paddock_services.openapi.api import Answer, Api
from paddock_services.openapi.asking import MAX_BODY, Raw
from paddock_services.openapi.document import load
from paddock_services.openapi.keeping import ID, adopt, linked, text_of
from paddock_services.openapi.plausible import WriteGuesser
from paddock_services.openapi.problems import Refused, problem
from paddock_services.openapi.records import Records

_NO_BODY = {204, 304}


class OpenApi(Service):
    """Creates, reads, lists, changes and deletes what a document describes."""

    name: ClassVar[str] = "openapi"
    options: ClassVar[dict[str, str]] = {
        "spec": "path of the OpenAPI 3.0 or 3.1 document, JSON or YAML",
    }
    _api: Api | None = None

    @property
    def api(self) -> Api:
        """The document, worked out when it is first needed. Raises InvalidInput."""
        if self._api is None:
            spec = self.context.options.get("spec")
            if not isinstance(spec, str) or not spec:
                raise InvalidInput("openapi needs `spec:`, the path of an OpenAPI document")
            self._api = Api(load(self.context.path(spec)))
        return self._api

    @staticmethod
    def write_guesser(path: Path) -> WriteGuesser:
        """Return what guesses answers by a document; a draft asks for it. Raises InvalidInput."""
        return WriteGuesser(Api(load(path)))

    def check(self) -> None:
        if not self.api.routes.all:
            raise InvalidInput("spec: the document has no paths")

    def app(self) -> ASGIApp:
        answering = Answering(self.api, self.context)

        async def app(scope: Scope, receive: Receive, send: Send) -> None:
            raw = await _read(scope, receive)
            if raw is None:
                refused = Refused(413, f"the body has more than {MAX_BODY} bytes")
                await _send(send, problem(self.api, None, refused), scope["method"])
                return
            await _send(send, answering.answer(raw), raw.method)

        return app

    def seed(self, data: Seed) -> None:
        """Documents by kind: the collection's name, or that of its schema."""
        records = Records(self.api, self.context)
        with self.context.store.transaction():
            for name, documents in data.items():
                self._seed_kind(records, name, documents)

    def _seed_kind(self, records: Records, name: str, documents: Any) -> None:
        resource = self.api.resources.named(name)
        if resource is None:
            known = ", ".join(sorted(self.api.resources.by_kind)) or "none"
            raise InvalidInput(f"seed: the document has no {name!r}; it has {known}")
        properties = self.api.shapes.properties(resource.node)
        for document in documents:
            record = {key: value for key, value in document.items() if not key.startswith("~")}
            found = {parent: linked(record, parent, {}) for parent in resource.parents}
            scope = {parent: text_of(one) for parent, one in found.items() if one is not None}
            for key in [key for key in record if key in scope and key not in properties]:
                del record[key]
            adopt(self.api, resource, record, scope)
            id_name = resource.id_name or ID
            if record.get(id_name) is None:
                record[id_name] = records.new_id(resource, scope, record)
            records.put(resource, record)
            records.skip(resource, record)


async def _read(scope: Scope, receive: Receive) -> Raw | None:
    """The request. None: its body is too large."""
    parts, size = [], 0
    while True:
        message = await receive()
        if message["type"] != "http.request":
            break
        part = message.get("body", b"")
        size += len(part)
        if size > MAX_BODY:
            return None
        parts.append(part)
        if not message.get("more_body", False):
            break
    headers = {name.decode("latin-1").lower(): value.decode("latin-1")
               for name, value in scope["headers"]}  # fmt: skip
    path = scope.get("raw_path") or scope["path"].encode()
    host = headers.get("host") or scope["server"][0]
    return Raw(
        scope["method"].upper(),
        path.decode("latin-1"),
        scope["query_string"].decode("latin-1"),
        headers,
        b"".join(parts),
        f"{scope['scheme']}://{host}",
    )


async def _send(send: Send, answer: Answer, method: str) -> None:
    body = b""
    headers = {name: value for name, value in answer.headers.items()}
    if answer.media_type is not None and answer.status not in _NO_BODY:
        is_text = not (answer.media_type.endswith("json"))
        body = answer.body.encode() if is_text else json.dumps(
            answer.body, ensure_ascii=False, separators=(",", ":")).encode()  # fmt: skip
        headers["content-type"] = answer.media_type
    if answer.status not in _NO_BODY:
        headers["content-length"] = str(len(body))
    raw = [(name.encode("latin-1"), _clean(value)) for name, value in headers.items()]
    await send({"type": "http.response.start", "status": answer.status, "headers": raw})
    await send({"type": "http.response.body", "body": b"" if method == "HEAD" else body})


def _clean(value: str) -> bytes:
    """A header's value on one line: an agent's text may be in it."""
    return value.encode("utf-8").replace(b"\r", b"").replace(b"\n", b"")
