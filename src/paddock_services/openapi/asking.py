"""A request as the document sees it: parameters and body with their types, checked."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any
from urllib.parse import parse_qsl, unquote_plus

import msgspec

from paddock_services.openapi.api import Api, accepts
from paddock_services.openapi.check import Fault, Way
from paddock_services.openapi.fit import MISSING
from paddock_services.openapi.problems import Refused, invalid
from paddock_services.openapi.routes import Operation, Parameter, is_json
from paddock_services.openapi.shape import Node

MAX_BODY = 8 << 20
MAX_DEPTH = 64  # of a body
_MAX_FIELDS = 2_000


class Raw(msgspec.Struct, frozen=True):
    """A request as it came."""

    method: str
    path: str  # percent-encoded
    query: str = ""
    headers: Mapping[str, str] = {}  # names in lower case
    body: bytes = b""
    origin: str = ""  # scheme and host, for links


class Asked(msgspec.Struct, frozen=True):
    """A request that keeps the document's rules."""

    raw: Raw
    operation: Operation
    path: Mapping[str, str]
    query: Mapping[str, Any]  # only what the document names
    body: Any = None
    media_type: str = ""


def understand(api: Api, operation: Operation, values: Mapping[str, str], raw: Raw) -> Asked:
    """Raises Refused for what breaks the rules."""
    _check_security(api, operation, raw)
    faults: list[Fault] = []
    path: dict[str, str] = dict(values)
    query: dict[str, Any] = {}
    sent = _pairs(raw.query)
    for parameter in operation.parameters:
        found = _value(api, parameter, values, sent, raw)
        if found is MISSING:
            if parameter.is_required:
                faults.append(Fault(parameter.name, "is required", "required"))
            continue
        faults += _faults(api, parameter, found)
        if parameter.place == "query":
            query[parameter.name] = found
        elif parameter.place == "path" and isinstance(found, int) and found is not True:
            path[parameter.name] = str(found)  # "007" and "7" are one id
    if faults:
        raise invalid(operation, faults)
    body, media_type = _body(api, operation, raw)
    return Asked(raw, operation, path, query, body, media_type)


def _pairs(query: str) -> list[tuple[str, str]]:
    try:
        return parse_qsl(query, keep_blank_values=True, max_num_fields=_MAX_FIELDS)
    except ValueError as error:
        raise Refused(400, "the query has too many parameters") from error


def _faults(api: Api, parameter: Parameter, value: Any) -> list[Fault]:
    name = parameter.name
    return [
        Fault(f"{name}.{one.at}" if one.at else name, one.message, one.word)
        for one in api.checker.faults(parameter.node, value, Way.REQUEST)
    ]


def _value(
    api: Api,
    parameter: Parameter,
    values: Mapping[str, str],
    sent: list[tuple[str, str]],
    raw: Raw,
) -> Any:
    match parameter.place:
        case "path":
            text = values.get(parameter.name)
            return MISSING if text is None else typed(api, parameter.node, text)
        case "header":
            text = raw.headers.get(parameter.name.lower())
            if text is None or parameter.name.lower() in (
                "accept",
                "content-type",
                "authorization",
            ):
                return MISSING
            return typed(api, parameter.node, text)
        case "query":
            return _query_value(api, parameter, sent)
    return MISSING


def _query_value(api: Api, parameter: Parameter, sent: list[tuple[str, str]]) -> Any:
    name, shape = parameter.name, api.shapes.of(parameter.node)
    if shape.main_type == "object":
        return _deep_value(api, parameter, sent)
    texts = [text for key, text in sent if key in (name, f"{name}[]")]
    if not texts:
        return MISSING
    if shape.main_type != "array":
        return typed(api, parameter.node, texts[-1])
    if not parameter.is_exploded or len(texts) == 1:
        separator = {"spaceDelimited": " ", "pipeDelimited": "|"}.get(parameter.style, ",")
        texts = [part for text in texts for part in text.split(separator)]
    return [typed(api, shape.items, text) for text in texts]


def _deep_value(api: Api, parameter: Parameter, sent: list[tuple[str, str]]) -> Any:
    shape = api.shapes.of(parameter.node)
    found: dict[str, Any] = {}
    for key, text in sent:
        inner = key.removeprefix(f"{parameter.name}[").removesuffix("]")
        if inner != key and key.endswith("]"):
            found[inner] = typed(api, shape.properties.get(inner, True), text)
    return found or MISSING


def typed(api: Api, node: Node, text: str) -> Any:
    """A text of a URL or form as the type that its schema has. What is none stays text."""
    shape = api.shapes.of(node)
    kinds = set(shape.types)
    for choice in shape.choices:
        for branch in choice.nodes:
            kinds |= set(api.shapes.of(branch).types)
    if "integer" in kinds or "number" in kinds:
        try:
            return int(text) if len(text) < 40 else text
        except ValueError:
            pass
    if "number" in kinds and text.lower() not in ("nan", "inf", "-inf", "infinity", "-infinity"):
        try:
            return float(text)
        except ValueError:
            pass
    if "boolean" in kinds and text.lower() in ("true", "false"):
        return text.lower() == "true"
    return text


def _check_security(api: Api, operation: Operation, raw: Raw) -> None:
    needs = operation.security
    if not needs or any(all(_has(api, name, raw) for name in one) for one in needs):
        return
    refused = Refused(401, "the request carries no credentials")
    for name in needs[0]:
        scheme = api.document.mapping(api.schemes.get(name))
        word = str(scheme.get("scheme", "Bearer")).title()
        refused.headers["www-authenticate"] = f'{word} realm="api"'
    raise refused


def _has(api: Api, name: str, raw: Raw) -> bool:
    scheme = api.document.mapping(api.schemes.get(name))
    known = str(scheme.get("name", ""))
    match str(scheme.get("type", "")), str(scheme.get("in", "")):
        case "mutualTLS", _:
            return True  # the connection is not ours to see
        case "apiKey", "header":
            return bool(raw.headers.get(known.lower()))
        case "apiKey", "query":
            return any(key == known and text for key, text in _pairs(raw.query))
        case "apiKey", "cookie":
            cookies = raw.headers.get("cookie", "").split(";")
            return any(one.strip().startswith(f"{known}=") for one in cookies)
        case "http", _:
            return _has_authorization(raw, str(scheme.get("scheme", "bearer")))
        case (("oauth2" | "openIdConnect"), _):
            return _has_authorization(raw, "bearer")
    return False


def _has_authorization(raw: Raw, scheme: str) -> bool:
    word, _, rest = raw.headers.get("authorization", "").partition(" ")
    return word.lower() == scheme.lower() and bool(rest.strip())


def _body(api: Api, operation: Operation, raw: Raw) -> tuple[Any, str]:
    if not raw.body:
        if operation.is_body_required:
            raise invalid(operation, [Fault("body", "is required", "required")])
        return None, ""
    if not operation.body:
        return None, ""  # nobody asked for it
    sent = raw.headers.get("content-type", "application/json")
    media = accepts(operation, sent)
    if media is None:
        raise Refused(415, f"{sent.split(';')[0]} is not taken here")
    node = operation.body_node(media)
    value = parse_body(api, node, sent, raw.body)
    if isinstance(value, bytes):
        return value, media
    faults = api.checker.faults(node, value, Way.REQUEST) if node is not None else []
    if faults:
        raise invalid(operation, faults)
    return value, media


def parse_body(api: Api, node: Node | None, media_type: str, body: bytes) -> Any:
    """JSON and forms as data, anything else as bytes. Raises Refused."""
    if is_json(media_type):
        return parse_json(body)
    if media_type.lower().startswith("application/x-www-form-urlencoded"):
        return _form(api, node, body)
    if media_type.lower().startswith("multipart/form-data"):
        return _multipart(api, node, media_type, body)
    return body


def parse_json(body: bytes) -> Any:
    """Raises Refused for what is no JSON, or too deep, or no text that could be kept."""
    try:
        value = json.loads(body, parse_constant=_no_constant)
        json.dumps(value, ensure_ascii=False).encode()  # half a surrogate pair is no text
    except (ValueError, RecursionError) as error:
        raise Refused(400, "the body is no valid JSON") from error
    if _depth(value) > MAX_DEPTH:
        raise Refused(400, "the body is nested too deep")
    return value


def _no_constant(name: str) -> Any:
    raise ValueError(f"{name} is no JSON")


def _depth(value: Any) -> int:
    depth, level = 0, [value]
    while depth <= MAX_DEPTH:
        level = [one for one in level if isinstance(one, dict | list)]
        if not level:
            break
        depth += 1
        level = [
            inner for one in level for inner in (one.values() if isinstance(one, dict) else one)
        ]
    return depth


def _form(api: Api, node: Node | None, body: bytes) -> dict[str, Any]:
    shape = api.shapes.of(True if node is None else node)
    found: dict[str, Any] = {}
    try:
        text = body.decode("utf-8")
        pairs = parse_qsl(text, keep_blank_values=True, max_num_fields=_MAX_FIELDS)
    except ValueError as error:
        raise Refused(400, "the body is no valid form") from error
    for key, value in pairs:
        _set_field(api, shape.properties, found, key, value)
    return found


def _set_field(
    api: Api, properties: Mapping[str, Node], found: dict[str, Any], key: str, text: str
) -> None:
    name = key.removesuffix("[]")
    outer, _, inner = name.partition("[")
    node = properties.get(outer, True)
    shape = api.shapes.of(node)
    if inner:
        nested = found.setdefault(outer, {})
        if isinstance(nested, dict):
            inner = inner.removesuffix("]")
            nested[inner] = typed(api, shape.properties.get(inner, shape.additional), text)
    elif shape.main_type == "array":
        found.setdefault(name, []).append(typed(api, shape.items, text))
    else:
        found[name] = typed(api, node, text)


def _multipart(api: Api, node: Node | None, media_type: str, body: bytes) -> dict[str, Any]:
    from email.parser import BytesParser

    shape = api.shapes.of(True if node is None else node)
    head = b"content-type: " + media_type.encode("latin-1", "replace") + b"\r\n\r\n"
    message = BytesParser().parsebytes(head + body)
    found: dict[str, Any] = {}
    for part in message.walk():
        name = part.get_param("name", header="content-disposition")
        if not isinstance(name, str) or part.is_multipart():
            continue
        if part.get_filename():
            found[unquote_plus(name)] = str(part.get_filename())  # what is in a file is not kept
            continue
        data = part.get_payload(decode=True)
        text = data.decode("utf-8", "replace") if isinstance(data, bytes) else ""
        _set_field(api, shape.properties, found, name, text.removesuffix("\r\n"))
    return found
