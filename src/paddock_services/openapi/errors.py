"""Errors in the shape that the document gives them.

Error schemas differ from API to API. The properties of the schema are filled in by their names:
`message` and its synonyms get the message, `field` and its synonyms the path of the violation, and
so on. A list gets one entry for each violation.
"""

from __future__ import annotations

from collections.abc import Sequence
from http import HTTPStatus
from typing import Any

import msgspec

from paddock_services.openapi.api import Answer, OpenApiDescription
from paddock_services.openapi.envelope import plain
from paddock_services.openapi.generation import MISSING, Source
from paddock_services.openapi.routes import Operation, Response, is_json
from paddock_services.openapi.schemas import SchemaNode
from paddock_services.openapi.validation import Violation

_CODES = {
    400: "invalid_request", 401: "unauthorized", 404: "not_found", 405: "method_not_allowed",
    409: "conflict", 413: "too_large", 415: "unsupported_media_type", 422: "validation_failed",
}  # fmt: skip
_MESSAGES = {"message", "msg", "detail", "details", "description", "errormessage", "reason",
             "errordescription", "developermessage", "usermessage"}  # fmt: skip
_LOCATIONS = {"field", "path", "param", "parameter", "loc", "location", "pointer", "property",
              "name", "attribute", "source"}  # fmt: skip
_CONTAINERS = _MESSAGES | {"error", "errors", "fault", "meta", "violations"}
_MAX_DEPTH = 4
_MAX_OPERATIONS = 200  # that are searched for an error schema


class RequestRefused(Exception):
    """A request that is answered with an error."""

    def __init__(self, status: int, message: str, violations: Sequence[Violation] = ()) -> None:
        super().__init__(message)
        self.status = status
        self.message = message
        self.violations = tuple(violations)
        self.headers: dict[str, str] = {}


def invalid_request(operation: Operation, violations: Sequence[Violation]) -> RequestRefused:
    """Return the refusal of a request that violates its schemas."""
    has_422 = any(response.status == "422" for response in operation.responses)
    message = "; ".join(str(violation) for violation in violations[:5])
    return RequestRefused(422 if has_422 else 400, message, violations)


def error_answer(
    api: OpenApiDescription, operation: Operation | None, refused: RequestRefused
) -> Answer:
    response = _error_response(api, operation, refused.status)
    if response is None or response.node is None or not is_json(response.media_type or ""):
        code = _CODES.get(refused.status, "error")
        body = {"error": {"code": code, "message": refused.message}}
        return Answer(refused.status, body, refused.headers)
    content = _ErrorBody(api, refused).value(response.node, None, 0)
    source = Source(f"error/{refused.status}")
    return api.shaped_answer(refused.status, response, content, source, **refused.headers)


def _error_response(
    api: OpenApiDescription, operation: Operation | None, status: int
) -> Response | None:
    """Return the operation's response for the status, or a similar one of any operation."""
    if operation is not None:
        response = operation.response(status)
        if response is not None:
            return response
    operations = [each for route in api.routes.all for each in route.operations.values()]
    operations = operations[:_MAX_OPERATIONS]
    if operation is not None:
        operations.insert(0, operation)
    responses = [each for operation in operations for each in operation.responses]
    responses = [response for response in responses if response.node is not None]
    for response in responses:
        if response.status == str(status):
            return response
    for response in responses:
        is_error = response.status[:1] in ("4", "5") or response.status == "default"
        names = {plain(name) for name in api.schemas.of(response.node).properties}
        if is_error and names & (_MESSAGES | {"error", "errors", "code", "title"}):
            return response
    return None


class _ErrorBody(msgspec.Struct, frozen=True):
    """Fills in an error schema."""

    api: OpenApiDescription
    refused: RequestRefused

    def value(self, node: SchemaNode, violation: Violation | None, depth: int) -> Any:
        schema = self.api.schemas.of(node)
        if schema.main_type == "string":
            return self.refused.message if violation is None else str(violation)
        if schema.main_type == "array":
            violations = self.refused.violations or (None,)
            values = [self.value(schema.items, each, depth + 1) for each in violations]
            return [value for value in values if value is not MISSING]
        if schema.main_type != "object" or depth > _MAX_DEPTH:
            return MISSING
        names = {plain(name) for name in schema.properties}
        if violation is not None and not names & _LOCATIONS:
            # Without a property for the path it goes into the message.
            violation = Violation(violation.path, str(violation), violation.keyword)
        body: dict[str, Any] = {}
        for name, inner in schema.properties.items():
            value = self._property(plain(name), inner, violation, depth)
            if value is not MISSING:
                body[name] = value
        return body

    def _property(
        self, name: str, node: SchemaNode, violation: Violation | None, depth: int
    ) -> Any:
        kind, status = self.api.schemas.of(node).main_type, self.refused.status
        if kind == "integer":
            is_status = name in ("status", "statuscode", "code", "httpstatus")
            return status if is_status else MISSING
        if name in _LOCATIONS and kind == "array" and violation is not None:
            return violation.path.split(".")
        if kind in ("object", "array"):
            return self.value(node, violation, depth + 1) if name in _CONTAINERS else MISSING
        if kind != "string":
            return MISSING
        if name in _MESSAGES:
            return self.refused.message if violation is None else violation.message
        if name in _LOCATIONS and violation is not None:
            return violation.path
        if name in ("code", "errorcode", "error"):
            return _CODES.get(status, "error")
        if name == "status":
            return str(status)
        return HTTPStatus(status).phrase if name == "title" else MISSING
