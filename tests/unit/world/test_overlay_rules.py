"""Which requests write: what is not surely a read is kept back."""

from __future__ import annotations

from typing import Any

import pytest

from cases import for_each
from paddock.model.errors import InvalidInput
from paddock.world.overlay.rules import RequestPattern, effective_method, is_write, parse_patterns

WRITES = parse_patterns(["GET /tickets/*/close"], "writes")
READS = parse_patterns(["POST /tickets/search", "POST /graphql"], "reads")


@pytest.mark.parametrize("method", ["GET", "HEAD", "OPTIONS"])
def test_safe_methods_read(method: str) -> None:
    assert not is_write(method, "/tickets", "", [])


@for_each("method", ["POST", "PUT", "PATCH", "DELETE", "PURGE", "TRACE", "get", ""])
def test_any_other_method_writes(method: str) -> None:
    assert is_write(method, "/tickets", "", [])


@for_each(
    "path",
    [
        "/tickets/7/close",
        "/tickets/7/close/",
        "//tickets/7//close",
        "/tickets/7/./close",
        "/x/../tickets/7/close",
        "/tickets/7/%63lose",
        "/tickets/7/%2563lose",
        "/tickets/7%2Fclose",
        "/tickets/7/CLOSE",
        "/tickets/7/close;a=1",
        "/tickets;v=1/7/close",
        "/tickets/7/close.json",
        "/tickets/7/close.xml",
        "/tickets\\7\\close",
    ],
)
@for_each("method", ["GET", "HEAD"])
def test_a_get_that_writes_is_found_however_it_is_spelled(method: str, path: str) -> None:
    assert is_write(method, path, "", [], WRITES)


def test_a_rule_holds_for_its_paths_only() -> None:
    for path in ("/tickets/7", "/tickets/7/close/really", "/tickets/7/8/close", "/tickets/close"):
        assert not is_write("GET", path, "", [], WRITES), path
    deep = (RequestPattern.parse("GET /admin/**"),)
    assert is_write("GET", "/admin/a/b/c", "", [], deep)
    assert not is_write("GET", "/administrator", "", [], deep)


@pytest.mark.parametrize(
    ("query", "headers"),
    [
        ("", [(b"X-HTTP-Method-Override", b"DELETE")]),
        ("", [(b"x-http-method", b"put")]),
        ("", [(b"x-method-override", b"GET"), (b"X-Method-Override", b" patch ")]),
        ("_method=delete", []),
        ("a=1&_METHOD=PUT", []),
        ("&".join(["a=1"] * 2000), []),
        ("", [(b"Upgrade", b"websocket")]),
    ],
)
def test_a_get_that_becomes_something_else_on_the_way_is_a_write(
    query: str, headers: list[tuple[bytes, bytes]]
) -> None:
    assert is_write("GET", "/tickets/7", query, headers)


def test_an_override_never_makes_a_write_a_read() -> None:
    headers = [(b"x-http-method-override", b"GET")]
    assert is_write("POST", "/tickets", "", headers)
    assert effective_method("DELETE", "", headers) == "DELETE"
    assert effective_method("POST", "", [(b"x-http-method-override", b"patch")]) == "PATCH"


def test_a_post_that_reads_by_a_rule_is_a_read() -> None:
    assert not is_write("POST", "/tickets/search", "", [], (), READS, {"q": "x"})


@for_each(
    ("path", "headers", "body"),
    [
        ("/tickets/search/", [], None),
        ("/tickets/./search", [], None),
        ("/tickets/%73earch", [], None),
        ("/tickets/search;x", [], None),
        ("/tickets/7", [], None),
        ("/tickets/search", [(b"x-http-method-override", b"DELETE")], None),
        ("/tickets/search", [], {"_method": "delete"}),
        ("/tickets/search", [(b"content-type", b"application/x-www-form-urlencoded")], None),
        ("/tickets/search", [(b"content-type", b"multipart/form-data; boundary=x")], "text"),
    ],
)
def test_a_rule_for_reads_is_taken_to_the_letter(
    path: str, headers: list[tuple[bytes, bytes]], body: Any
) -> None:
    assert is_write("POST", path, "", headers, (), READS, body)


@for_each(
    ("method", "query", "body", "writes"),
    [
        ("POST", "", {"query": "{ me { id } }"}, False),
        ("POST", "", {"query": "query A { a } query B { b }", "operationName": "A"}, True),
        ("POST", "", {"query": "{ a }", "delete": 1}, True),
        ("POST", "", [{"query": "{ a }"}, {"query": "{ b }"}], True),
        ("GET", "query=%7Ba%7D", None, False),
        ("POST", "", {"query": "mutation { close(id: 1) { id } }"}, True),
        ("POST", "", {"query": "query A { a } mutation B { b }", "operationName": "A"}, True),
        ("POST", "", [{"query": "{ a }"}, {"query": "mutation { b }"}], True),
        ("POST", "", {"extensions": {"persistedQuery": {"sha256Hash": "ab"}}}, True),
        ("POST", "", {"query": "not graphql {"}, True),
        ("POST", "", {"query": "subscription { a }"}, True),
        ("POST", "query=mutation%7Ba%7D", {"query": "{ a }"}, True),
        ("GET", "query=mutation%7Ba%7D", None, True),
        ("GET", "", None, True),
        ("POST", "", None, True),
        ("PUT", "", {"query": "{ a }"}, True),
    ],
)
def test_graphql_is_judged_by_what_it_says(
    method: str, query: str, body: Any, writes: bool
) -> None:
    json = [(b"content-type", b"application/json")]
    assert is_write(method, "/graphql", query, json, (), READS, body) is writes
    for path in ("/api/GraphQL/", "/graphql/", "/other/graphql"):  # of which `reads` says nothing
        assert is_write(method, path, query, json, (), READS, body) is (writes or method == "POST")


@pytest.mark.parametrize(
    "text", ["", "/tickets", "GET", "GET tickets", "get /a", "GET /" + "a" * 501]
)
def test_a_route_that_is_none_is_refused(text: str) -> None:
    with pytest.raises(InvalidInput):
        RequestPattern.parse(text)
