"""A request as the document describes it: parameters and body with their types, checked."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import msgspec

from paddock.world.kit.input import Form, MalformedRequest, parse_form, parse_json, parse_query
from paddock_services.openapi.api import OpenApiDescription
from paddock_services.openapi.errors import RequestRefused, invalid_request
from paddock_services.openapi.generation import MISSING
from paddock_services.openapi.routes import Operation, Parameter, is_json
from paddock_services.openapi.schemas import SchemaNode
from paddock_services.openapi.validation import Direction, Violation

MAX_BODY = 8 << 20
_FORM = "application/x-www-form-urlencoded"
_MULTIPART = "multipart/form-data"
_NOT_PARAMETERS = ("accept", "content-type", "authorization")


class RawRequest(msgspec.Struct, frozen=True):
    """A request as it arrived."""

    method: str
    path: str  # percent-encoded
    query: str = ""
    headers: Mapping[str, str] = {}  # names in lower case
    body: bytes = b""
    form: Form | None = None  # a multipart body
    origin: str = ""  # scheme and host, for links


class CheckedRequest(msgspec.Struct, frozen=True):
    """A request that satisfies the document."""

    raw: RawRequest
    operation: Operation
    path: Mapping[str, str]
    query: Mapping[str, Any]  # only declared parameters
    body: Any = None
    media_type: str = ""


def check_request(
    api: OpenApiDescription, operation: Operation, values: Mapping[str, str], raw: RawRequest
) -> CheckedRequest:
    """Parse and check a request. Raises RequestRefused."""
    _check_credentials(api, operation, raw)
    violations: list[Violation] = []
    path: dict[str, str] = dict(values)
    query: dict[str, Any] = {}
    for parameter in operation.parameters:
        value = _parameter_value(api, parameter, values, raw)
        if value is MISSING:
            if parameter.is_required:
                violations.append(Violation(parameter.name, "is required", "required"))
            continue
        for violation in api.checker.violations(parameter.node, value, Direction.REQUEST):
            inner = f".{violation.path}" if violation.path else ""
            where = parameter.name + inner
            violations.append(Violation(where, violation.message, violation.keyword))
        if parameter.location == "query":
            query[parameter.name] = value
        elif parameter.location == "path" and isinstance(value, int) and value is not True:
            path[parameter.name] = str(value)  # "007" and "7" are one id
    if violations:
        raise invalid_request(operation, violations)
    body, media_type = _checked_body(api, operation, raw)
    return CheckedRequest(raw, operation, path, query, body, media_type)


def _query_pairs(query: str) -> list[tuple[str, str]]:
    try:
        return parse_query(query)
    except MalformedRequest:
        raise RequestRefused(400, "the query has too many parameters") from None


def _parameter_value(
    api: OpenApiDescription, parameter: Parameter, values: Mapping[str, str], raw: RawRequest
) -> Any:
    text: str | None = None
    match parameter.location:
        case "query":
            return _query_value(api, parameter, _query_pairs(raw.query))
        case "path":
            text = values.get(parameter.name)
        case "header" if parameter.name.lower() not in _NOT_PARAMETERS:
            text = raw.headers.get(parameter.name.lower())
    return MISSING if text is None else _typed(api, parameter.node, text)


def _query_value(
    api: OpenApiDescription, parameter: Parameter, pairs: list[tuple[str, str]]
) -> Any:
    name, schema = parameter.name, api.schemas.of(parameter.node)
    if schema.main_type == "object":  # filter[status]=open
        fields = {}
        for key, text in pairs:
            inner = key.removeprefix(f"{name}[").removesuffix("]")
            if inner != key and key.endswith("]"):
                fields[inner] = _typed(api, schema.properties.get(inner, True), text)
        return fields or MISSING
    texts = [text for key, text in pairs if key in (name, f"{name}[]")]
    if not texts:
        return MISSING
    if schema.main_type != "array":
        return _typed(api, parameter.node, texts[-1])
    if not parameter.is_exploded or len(texts) == 1:
        separator = {"spaceDelimited": " ", "pipeDelimited": "|"}.get(parameter.style, ",")
        texts = [part for text in texts for part in text.split(separator)]
    return [_typed(api, schema.items, text) for text in texts]


def _typed(api: OpenApiDescription, node: SchemaNode, text: str) -> Any:
    """Convert a text of a URL or form to the type of its schema, if it can be."""
    schema = api.schemas.of(node)
    types = set(schema.types)
    for choice in schema.choices:
        for branch in choice.nodes:
            types |= set(api.schemas.of(branch).types)
    if types & {"integer", "number"} and len(text) < 40:
        try:
            return int(text)
        except ValueError:
            pass
    if "number" in types and text.lower().lstrip("+-") not in ("nan", "inf", "infinity"):
        try:
            return float(text)
        except ValueError:
            pass
    if "boolean" in types and text.lower() in ("true", "false"):
        return text.lower() == "true"
    return text


def _check_credentials(api: OpenApiDescription, operation: Operation, raw: RawRequest) -> None:
    """Check that there are credentials of the right kind. Any value will do."""
    requirements = operation.security
    for requirement in requirements:
        if all(_has_credentials(api, name, raw) for name in requirement):
            return
    if not requirements:
        return
    refused = RequestRefused(401, "the request carries no credentials")
    for name in requirements[0]:
        scheme = api.document.mapping(api.security_schemes.get(name))
        challenge = str(scheme.get("scheme", "Bearer")).title()
        refused.headers["www-authenticate"] = f'{challenge} realm="api"'
    raise refused


def _has_credentials(api: OpenApiDescription, name: str, raw: RawRequest) -> bool:
    scheme = api.document.mapping(api.security_schemes.get(name))
    key = str(scheme.get("name", ""))
    match str(scheme.get("type", "")), str(scheme.get("in", "")):
        case "mutualTLS", _:
            return True  # the connection cannot be seen here
        case "apiKey", "header":
            return bool(raw.headers.get(key.lower()))
        case "apiKey", "query":
            return any(name == key and value for name, value in _query_pairs(raw.query))
        case "apiKey", "cookie":
            cookies = raw.headers.get("cookie", "").split(";")
            return any(cookie.strip().startswith(f"{key}=") for cookie in cookies)
        case ("http" | "oauth2" | "openIdConnect") as kind, _:
            wanted = str(scheme.get("scheme", "bearer")) if kind == "http" else "bearer"
            sent, _, value = raw.headers.get("authorization", "").partition(" ")
            return sent.lower() == wanted.lower() and bool(value.strip())
    return False


def _checked_body(
    api: OpenApiDescription, operation: Operation, raw: RawRequest
) -> tuple[Any, str]:
    if not raw.body:
        if operation.is_body_required:
            raise invalid_request(operation, [Violation("body", "is required", "required")])
        return None, ""
    if not operation.body:
        return None, ""
    content_type = raw.headers.get("content-type", "application/json")
    media_type = _accepted_media_type(operation, content_type)
    if media_type is None:
        raise RequestRefused(415, f"{content_type.split(';')[0]} is not taken here")
    node = operation.body_node(media_type)
    value = _parse_body(api, node, content_type, raw)
    if not isinstance(value, bytes) and node is not None:
        violations = api.checker.violations(node, value, Direction.REQUEST)
        if violations:
            raise invalid_request(operation, violations)
    return value, media_type


def _accepted_media_type(operation: Operation, content_type: str) -> str | None:
    """Return the declared media type that a request's one matches."""
    name = _plain_media_type(content_type)
    for declared in operation.body:
        plain = _plain_media_type(declared)
        if plain in (name, "*/*") or (is_json(plain) and is_json(name)):
            return declared
        if plain.endswith("/*") and name.startswith(plain[:-1]):
            return declared
    return None


def _plain_media_type(text: str) -> str:
    return text.partition(";")[0].strip().lower()


def _parse_body(
    api: OpenApiDescription, node: SchemaNode | None, content_type: str, raw: RawRequest
) -> Any:
    """Return JSON and forms as data, anything else as bytes. Raises RequestRefused."""
    name = _plain_media_type(content_type)
    try:
        if is_json(content_type):
            return parse_json(raw.body)
        if name == _FORM:
            raw.body.decode()
            form = parse_form(raw.body)
        elif name == _MULTIPART:
            form = raw.form or Form()
        else:
            return raw.body
    except (MalformedRequest, UnicodeDecodeError) as error:
        raise RequestRefused(400, f"the body is not valid {name}") from error
    properties = api.schemas.of(True if node is None else node).properties
    fields: dict[str, Any] = {}
    for key, texts in form.fields.items():
        for text in texts:
            _set_field(api, properties, fields, key, text)
    for upload in form.files:
        fields[upload.field] = upload.filename  # the content of a file is not stored
    return fields


def _set_field(
    api: OpenApiDescription,
    properties: Mapping[str, SchemaNode],
    fields: dict[str, Any],
    key: str,
    text: str,
) -> None:
    """Set a field of a form: `name`, `name[]` or `name[inner]`."""
    name = key.removesuffix("[]")
    outer, _, inner = name.partition("[")
    node = properties.get(outer, True)
    schema = api.schemas.of(node)
    if inner:
        nested = fields.setdefault(outer, {})
        if isinstance(nested, dict):
            inner = inner.removesuffix("]")
            inner_node = schema.properties.get(inner, schema.additional_properties)
            nested[inner] = _typed(api, inner_node, text)
    elif schema.main_type == "array":
        fields.setdefault(name, []).append(_typed(api, schema.items, text))
    else:
        fields[name] = _typed(api, node, text)


def wants_form(headers: Mapping[str, str]) -> bool:
    """Return whether a request has a multipart body."""
    return _plain_media_type(headers.get("content-type", "")) == _MULTIPART
