"""A plausible answer to a request, out of the document alone. Nothing is remembered."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from typing import Any

from paddock.world.context import START
from paddock_services.openapi.api import Api, example_of
from paddock_services.openapi.asking import Asked, Raw
from paddock_services.openapi.changing import created, own
from paddock_services.openapi.check import Way
from paddock_services.openapi.document import Document
from paddock_services.openapi.envelope import find_list, find_one, is_same
from paddock_services.openapi.fit import MISSING, Source, richer
from paddock_services.openapi.keeping import Record, adopt, bare, make_id, touch
from paddock_services.openapi.problems import invalid, problem
from paddock_services.openapi.resources import Place, Resource, Role
from paddock_services.openapi.routes import Operation, Response


class WriteGuesser:
    """Answers writes as a document describes them."""

    def __init__(self, api: Api) -> None:
        self._api = api

    def guess(self, method: str, path: str, body: Any, timestamp: float) -> tuple[int, Any] | None:
        """Return a status and a body, or None for a request that the document does not know."""
        return plausible(self._api, method, path, body, moment=timestamp)


def plausible(
    document: Mapping[str, Any] | Document | Api,
    method: str,
    path: str,
    body: Any = None,
    *,
    moment: float = START,
) -> tuple[int, Any] | None:
    """Status and body of an answer that the document allows; a body of None is an empty one. None
    if it does not know the path or the method. Raises InvalidInput for what is no document.

    A document that is asked often should come as an `Api`, which is worked out once."""
    api = document if isinstance(document, Api) else Api(document)
    found = api.routes.find(path)
    operation = found[0].operations.get(method.upper()) if found else None
    if found is None or operation is None:
        return None
    node = operation.body_node()
    if body is not None and node is not None:
        faults = api.checker.faults(node, body, Way.REQUEST)
        if faults:
            refused = problem(api, operation, invalid(operation, faults))
            return refused.status, refused.body
    asked = Asked(Raw(method.upper(), path), operation, found[1], {}, body)
    return _answer(api, asked, api.resources.place(found[0]), moment)


def _answer(api: Api, asked: Asked, place: Place, moment: float) -> tuple[int, Any]:
    operation = asked.operation
    status, response = _success(operation, place)
    text = json.dumps(asked.body, sort_keys=True, default=str)
    source = Source(f"{operation.method} {asked.raw.path} {_hash(text)}", moment)
    given: Any = MISSING
    if place.resource is not None and place.role is not Role.OTHER:
        record = _record(api, asked, place, place.resource, source)
        given = _given(api, place.resource, record, response)
    if given is MISSING:
        example = example_of(response)
        given, source = MISSING if example is None else example, richer(source)
    shaped = api.shaped(status, response, given, source)
    return status, shaped.body if shaped.media_type is not None else None


def _success(operation: Operation, place: Place) -> tuple[int, Response]:
    match operation.method:
        case "POST" if place.role in (Role.COLLECTION, Role.VIEW):
            return operation.success(201, 200, 202)
        case "DELETE":
            return operation.success(204, 200, 202)
    return operation.success(200, 201, 202)


def _record(api: Api, asked: Asked, place: Place, resource: Resource, source: Source) -> Record:
    record = created(api, resource, own(api, asked, resource))
    scope = {key: asked.path[name] for name, key in place.scope.items() if name in asked.path}
    is_new = asked.operation.method == "POST" and place.role is not Role.ITEM
    adopt(api, resource, record, scope)
    touch(api, resource, record, source.moment, is_new=is_new)
    name = resource.id_name
    if name is not None and place.role is Role.ITEM:
        text = asked.path[asked.operation.route.segments[-1].strip("{}")]
        record[name] = text
    elif name is not None and is_new and record.get(name) is None:
        number = int(_hash(source.key), 16) % 1_000_000
        record[name] = make_id(api, resource, 1 + number, source.key)
    return bare(record)


def _given(api: Api, resource: Resource, record: Record, response: Response) -> Any:
    """The record as the response carries it. MISSING: it speaks of something else."""
    envelope = find_one(api.shapes, response.node, resource.noun, resource.node)
    if is_same(api.shapes, envelope.node, resource.node):
        return envelope.wrap(record)
    listing = find_list(api.shapes, response.node, resource.noun)
    if listing is not None:
        return MISSING
    known = api.shapes.of(envelope.node).properties
    told = {name: value for name, value in record.items() if name in known}
    return envelope.wrap(told) if told else MISSING


def _hash(text: str) -> str:
    return hashlib.sha256(text.encode()).hexdigest()[:8]
