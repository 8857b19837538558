"""Answers that say no, in the shape that the document gives to its errors."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from http import HTTPStatus
from typing import Any

import msgspec

from paddock_services.openapi.api import Answer, Api
from paddock_services.openapi.check import Fault
from paddock_services.openapi.envelope import plain
from paddock_services.openapi.fit import MISSING, Source
from paddock_services.openapi.routes import Operation, Response, is_json
from paddock_services.openapi.shape import Node

_CODES = {
    400: "invalid_request", 401: "unauthorized", 404: "not_found", 405: "method_not_allowed",
    409: "conflict", 413: "too_large", 415: "unsupported_media_type", 422: "validation_failed",
}  # fmt: skip
_MESSAGE = {"message", "msg", "detail", "details", "description", "errormessage", "reason",
            "errordescription", "developermessage", "usermessage"}  # fmt: skip
_WHERE = {"field", "path", "param", "parameter", "loc", "location", "pointer", "property", "name",
          "attribute", "source"}  # fmt: skip


class Refused(Exception):
    """A request that gets no. It carries what to say."""

    def __init__(self, status: int, message: str, faults: Sequence[Fault] = ()) -> None:
        super().__init__(message)
        self.status = status
        self.message = message
        self.faults = tuple(faults)
        self.headers: dict[str, str] = {}


def invalid(operation: Operation, faults: Sequence[Fault]) -> Refused:
    """A request that breaks the document's rules."""
    declared = {one.status for one in operation.responses}
    status = 422 if "422" in declared else 400
    return Refused(status, "; ".join(str(fault) for fault in faults[:5]), faults)


def problem(api: Api, operation: Operation | None, refused: Refused) -> Answer:
    """The answer to a request that is refused."""
    response = _response(api, operation, refused.status)
    if response is None or response.node is None or not is_json(response.media_type or ""):
        code = _CODES.get(refused.status, "error")
        body: Any = {"error": {"code": code, "message": refused.message}}
        return Answer(refused.status, body, refused.headers)
    given = _Telling(api, refused).about(response.node, refused.message, None, 0)
    source = Source(f"error/{refused.status}")
    return api.shaped(refused.status, response, given, source, **refused.headers)


def _response(api: Api, operation: Operation | None, status: int) -> Response | None:
    """That of the operation for this status, for another error, or that of any other operation."""
    mine = [operation] if operation is not None else []
    for one in mine:
        found = one.response(status)
        if found is not None:
            return found
    others = [one for route in api.routes.all for one in route.operations.values()]
    for one in (*mine, *others[:200]):
        for response in one.responses:
            if response.status == str(status) and response.node is not None:
                return response
    for one in (*mine, *others[:200]):
        for response in one.responses:
            is_error = response.status[:1] in ("4", "5") or response.status == "default"
            if is_error and response.node is not None and _is_error(api, response.node):
                return response
    return None


def _is_error(api: Api, node: Node) -> bool:
    names = {plain(name) for name in api.shapes.of(node).properties}
    return bool(names & (_MESSAGE | {"error", "errors", "code", "title"}))


class _Telling(msgspec.Struct, frozen=True):
    api: Api
    refused: Refused

    def about(self, node: Node, message: str, fault: Fault | None, depth: int) -> Any:
        """A value for an error's schema, as far as names tell what belongs where."""
        shape = self.api.shapes.of(node)
        if shape.main_type == "string":
            return message
        if shape.main_type == "array":
            return self._several(shape.items, depth)
        if shape.main_type != "object" or depth > 4:
            return MISSING
        told: dict[str, Any] = {}
        if fault is not None and not {plain(name) for name in shape.properties} & _WHERE:
            fault = Fault(fault.at, str(fault), fault.word)  # there is no other place for where
        for name, inner in shape.properties.items():
            value = self._one(plain(name), inner, message, fault, depth)
            if value is not MISSING:
                told[name] = value
        return told

    def _several(self, node: Node, depth: int) -> list[Any]:
        faults: Sequence[Fault | None] = self.refused.faults or (None,)
        messages = [str(one) if one else self.refused.message for one in faults]
        told = [
            self.about(node, message, fault, depth + 1)
            for message, fault in zip(messages, faults, strict=True)
        ]
        return [one for one in told if one is not MISSING]

    def _one(self, name: str, node: Node, message: str, fault: Fault | None, depth: int) -> Any:
        kind = self.api.shapes.of(node).main_type
        if name in ("status", "statuscode", "code", "httpstatus") and kind == "integer":
            return self.refused.status
        if kind in ("object", "array"):
            if name in _WHERE and kind == "array" and fault is not None:
                return fault.at.split(".")
            return self._nested(name, node, message, fault, depth)
        if kind != "string":
            return MISSING
        if name in _MESSAGE:
            return fault.message if fault else message
        if name in _WHERE and fault is not None:
            return fault.at
        return self._word(name)

    def _nested(self, name: str, node: Node, message: str, fault: Fault | None, depth: int) -> Any:
        is_about = name in (_MESSAGE | {"error", "errors", "fault", "meta", "violations"})
        return self.about(node, message, fault, depth + 1) if is_about else MISSING

    def _word(self, name: str) -> Any:
        code = _CODES.get(self.refused.status, "error")
        words: Mapping[str, str] = {
            "code": code,
            "errorcode": code,
            "error": code,
            "status": str(self.refused.status),
            "title": HTTPStatus(self.refused.status).phrase,
        }
        return words.get(name, MISSING)
