"""A plausible answer to a request, from the document alone. No state is kept."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from typing import Any

from paddock.world.context import START
from paddock_services.openapi.api import OpenApiDescription, example_of
from paddock_services.openapi.document import Document
from paddock_services.openapi.envelope import find_list, find_record, is_same
from paddock_services.openapi.errors import error_answer, invalid_request
from paddock_services.openapi.generation import MISSING, Source
from paddock_services.openapi.records import (
    Record,
    make_id,
    sent_record,
    set_parents,
    set_times,
    without_marks,
    writable_fields,
)
from paddock_services.openapi.request import CheckedRequest, RawRequest
from paddock_services.openapi.resources import Resource, Role, RouteInfo
from paddock_services.openapi.routes import Operation, Response
from paddock_services.openapi.validation import Direction


class WriteGuesser:
    """Answers writes as a document describes them."""

    def __init__(self, api: OpenApiDescription) -> None:
        self._api = api

    def guess(self, method: str, path: str, body: Any, timestamp: float) -> tuple[int, Any] | None:
        """Return a status and a body, or None for a request that the document does not know."""
        return plausible(self._api, method, path, body, timestamp=timestamp)


def plausible(
    document: Mapping[str, Any] | Document | OpenApiDescription,
    method: str,
    path: str,
    body: Any = None,
    *,
    timestamp: float = START,
) -> tuple[int, Any] | None:
    """Return status and body of an answer that the document allows, or None if it does not know the
    path or the method. A body of None is an empty one. Raises InvalidInput for an invalid document.

    For many requests pass an `OpenApiDescription`, which is analysed once.
    """
    api = document if isinstance(document, OpenApiDescription) else OpenApiDescription(document)
    match = api.routes.find(path)
    operation = match[0].operations.get(method.upper()) if match else None
    if match is None or operation is None:
        return None
    node = operation.body_node()
    if body is not None and node is not None:
        violations = api.checker.violations(node, body, Direction.REQUEST)
        if violations:
            refused = error_answer(api, operation, invalid_request(operation, violations))
            return refused.status, refused.body
    request = CheckedRequest(RawRequest(method.upper(), path), operation, match[1], {}, body)
    return _answer(api, request, api.resources.info(match[0]), timestamp)


def _answer(
    api: OpenApiDescription, request: CheckedRequest, info: RouteInfo, timestamp: float
) -> tuple[int, Any]:
    operation = request.operation
    status, response = _success(operation, info)
    text = json.dumps(request.body, sort_keys=True, default=str)
    source = Source(f"{operation.method} {request.raw.path} {_digest(text)}", timestamp)
    content: Any = MISSING
    if info.resource is not None and info.role is not Role.OTHER:
        record = _record(api, request, info, info.resource, source)
        content = _content(api, info.resource, record, response)
    if content is MISSING:
        content, source = example_of(response), source.enriched()
    answer = api.shaped_answer(status, response, content, source)
    return status, None if answer.media_type is None else answer.body


def _success(operation: Operation, info: RouteInfo) -> tuple[int, Response]:
    if operation.method == "DELETE":
        return operation.success(204, 200, 202)
    if operation.method == "POST" and info.role in (Role.COLLECTION, Role.VIEW):
        return operation.success(201, 200, 202)
    return operation.success(200, 201, 202)


def _record(
    api: OpenApiDescription,
    request: CheckedRequest,
    info: RouteInfo,
    resource: Resource,
    source: Source,
) -> Record:
    record = writable_fields(api, resource, sent_record(api, request, resource))
    path = request.path
    scope = {key: path[name] for name, key in info.scope.items() if name in path}
    is_new = request.operation.method == "POST" and info.role is not Role.ITEM
    set_parents(api, resource, record, scope)
    set_times(api, resource, record, source.timestamp, is_new=is_new)
    id_name = resource.id_name
    if id_name is not None and info.role is Role.ITEM:
        record[id_name] = path[request.operation.route.segments[-1].strip("{}")]
    elif id_name is not None and is_new and record.get(id_name) is None:
        number = int(_digest(source.key), 16) % 1_000_000
        record[id_name] = make_id(api, resource, 1 + number, source.key)
    return without_marks(record)


def _content(
    api: OpenApiDescription, resource: Resource, record: Record, response: Response
) -> Any:
    """Return the record as the response carries it, or MISSING if it carries something else."""
    envelope = find_record(api.schemas, response.node, resource.noun, resource.node)
    if is_same(api.schemas, envelope.node, resource.node):
        return envelope.wrap(record)
    if find_list(api.schemas, response.node, resource.noun) is not None:
        return MISSING
    properties = api.schemas.of(envelope.node).properties
    fields = {name: value for name, value in record.items() if name in properties}
    return envelope.wrap(fields) if fields else MISSING


def _digest(text: str) -> str:
    return hashlib.sha256(text.encode()).hexdigest()[:8]
