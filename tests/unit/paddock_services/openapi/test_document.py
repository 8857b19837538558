"""Documents that are refused, and references that stay inside."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from cases import for_each
from paddock.model.errors import InvalidInput
from paddock_services.openapi.api import OpenApiDescription
from paddock_services.openapi.document import Document, load, parse
from paddock_services.openapi.plausible import plausible


def document(**more: Any) -> dict[str, Any]:
    return {"openapi": "3.1.0", "info": {"title": "t", "version": "1"}, "paths": {}, **more}


@pytest.mark.parametrize(
    "target",
    ["https://evil.example/schema.json", "other.yaml#/a", "//evil.example/a", "file:///etc/passwd"],
)
def test_reference_outside_of_the_document_is_refused(target: str) -> None:
    with pytest.raises(InvalidInput, match="outside of itself"):
        Document(document(components={"schemas": {"A": {"$ref": target}}}))


def test_reference_to_nothing_is_refused() -> None:
    with pytest.raises(InvalidInput, match="not there"):
        Document(document(components={"schemas": {"A": {"$ref": "#/components/schemas/B"}}}))


def test_reference_inside_an_example_is_data() -> None:
    Document(document(components={"schemas": {"A": {"example": {"$ref": "https://a.example"}}}}))


def test_property_that_is_called_example_is_still_looked_into() -> None:
    schema = {"properties": {"example": {"$ref": "https://evil.example"}}}
    with pytest.raises(InvalidInput, match="outside"):
        Document(document(components={"schemas": {"A": schema}}))


def test_escaped_names_are_found() -> None:
    made = Document(document(components={"schemas": {"a/b~c d": {"type": "string"}}}))
    assert made.at("#/components/schemas/a~1b~0c%20d") == {"type": "string"}


@pytest.mark.parametrize(
    "raw",
    [
        b"",
        b"[]",
        b"openapi: [",
        b"\xff\xfe",
        b'{"openapi": "3.0.0",',
        b"{" * 100_000,
        b"a: " + b"[" * 5_000,
        b"swagger: '2.0'\npaths: {}",
        b"openapi: 4.0.0\npaths: {}",
        b"openapi: 3.0.0\npaths: []",
        b"openapi: 3.0.0\npaths: !!python/object/apply:os.system ['true']",
        b"openapi: 3.0.0\npaths: &a {x: *a}",
    ],
)
def test_what_is_no_document_is_refused(raw: bytes, tmp_path: Path) -> None:
    path = tmp_path / "spec.yaml"
    path.write_bytes(raw)
    with pytest.raises(InvalidInput):
        load(path)


def test_aliases_that_multiply_are_refused() -> None:
    lines = ["a0: &a0 [x, x, x, x, x, x, x, x, x, x]"]
    for level in range(1, 12):
        lines.append(f"a{level}: &a{level} [{', '.join([f'*a{level - 1}'] * 10)}]")
    with pytest.raises(InvalidInput, match="too large"):
        parse("\n".join(lines).encode())


def test_dates_and_numbers_of_yaml_keys_become_text() -> None:
    parsed = parse(b"openapi: 3.0.0\nat: 2026-01-01\npaths: {/a: {get: {responses: {200: {}}}}}")
    assert parsed["at"] == "2026-01-01"
    assert "200" in parsed["paths"]["/a"]["get"]["responses"]


def test_undefined_security_scheme_is_refused_and_not_ignored() -> None:
    paths = {"/a": {"get": {"security": [{"nokey": []}], "responses": {}}}}
    with pytest.raises(InvalidInput, match="nokey"):
        OpenApiDescription(document(paths=paths))


@for_each(
    "schemas",
    [
        {"A": {"$ref": "#/components/schemas/A"}},
        {"A": {"$ref": "#/components/schemas/B"}, "B": {"$ref": "#/components/schemas/A"}},
        {"A": {"allOf": [{"$ref": "#/components/schemas/A"}]}},
        {"A": {"anyOf": [{"$ref": "#/components/schemas/A"}]}},
        {"A": {"oneOf": [{"$ref": "#/components/schemas/A"}, {"$ref": "#/components/schemas/A"}]}},
        {"A": {"not": {"$ref": "#/components/schemas/A"}}},
        {
            "A": {
                "type": "object",
                "required": ["a"],
                "properties": {"a": {"$ref": "#/components/schemas/A"}},
            }
        },
        {"A": {"type": "array", "minItems": 9, "items": {"$ref": "#/components/schemas/A"}}},
        {"A": {"additionalProperties": {"$ref": "#/components/schemas/A"}, "required": ["x", "y"]}},
    ],
)
def test_schema_that_needs_itself_still_gets_an_answer(schemas: dict[str, Any]) -> None:
    content = {"application/json": {"schema": {"$ref": "#/components/schemas/A"}}}
    operation = {
        "requestBody": {"content": content},
        "responses": {"200": {"description": "", "content": content}},
    }
    made = document(
        paths={"/a": {"post": operation, "get": operation}, "/a/{id}": {"put": operation}},
        components={"schemas": schemas},
    )
    nested: Any = {"a": 1}
    for _ in range(40):
        nested = {"a": nested, "x": [nested] if not isinstance(nested, int) else 1}
        if len(json.dumps(nested)) > 20_000:
            break
    for body in (None, {}, [], "text", nested):
        for method, path in (("POST", "/a"), ("GET", "/a"), ("PUT", "/a/1")):
            answer = plausible(made, method, path, body)
            assert answer is not None and answer[0] in (200, 400)


def test_document_of_nonsense_does_not_break_the_reader() -> None:
    nonsense: list[Any] = [None, 1, "x", [], {}, True, [None], {"a": None}]
    for one in nonsense:
        operation = {"parameters": [one], "requestBody": one, "responses": {"200": one}}
        paths = {
            "/a": {"get": operation, "post": one, "parameters": None},
            "/b/{id}": one,
            "x": one,
        }
        try:
            api = OpenApiDescription(
                document(paths=paths, servers=one, security=one, components={"schemas": one})
            )
        except InvalidInput:
            continue
        for method in ("GET", "POST"):
            plausible(api, method, "/a", one)
            plausible(api, method, "/b/1", one)
