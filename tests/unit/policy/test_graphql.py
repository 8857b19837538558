"""A GraphQL request reads only if it is exactly one query, at an endpoint known to be GraphQL."""

from __future__ import annotations

from typing import Any
from urllib.parse import urlencode

import pytest

from cases import for_each
from paddock.model.action import Effect
from paddock.model.errors import InvalidInput
from paddock.policy.graphql import (
    MAX_DOCUMENT,
    GraphqlEndpoint,
    effect_of,
    may_speak_graphql,
    speaks_graphql,
)
from paddock.policy.network import network_of, plain_network

QUERY = "query A { user(id: 1) { name } }"
MUTATION = "mutation B { deleteUser(id: 1) { id } }"


def _posted(body: Any, query: str = "") -> Effect | None:
    return effect_of("POST", "/graphql", query, body, is_declared=True)


def _asked(*pairs: tuple[str, str]) -> Effect | None:
    return effect_of("GET", "/graphql", urlencode(pairs), None)


@pytest.mark.parametrize(
    "body",
    [
        {"query": "{ a }"},
        {"query": QUERY},
        {"query": "query($x: Int) { a(x: $x) }", "variables": {"x": 1}},
        {"query": "# c\n{ a ...f } fragment f on T { b }"},
        {"query": QUERY, "operationName": "A", "variables": None},
        {"query": QUERY, "operationName": None},
    ],
)
def test_a_query_at_a_declared_endpoint_reads(body: Any) -> None:
    assert _posted(body) is Effect.READ


@for_each(
    "text",
    [
        MUTATION,
        "subscription { a }",
        "\ufeffmutation { a }",
        f"{QUERY} {MUTATION}",
        f"{QUERY} query B {{ b }}",
        "type A { b: C }",
        "{ a } type A { b: C }",
        "",
        "no graphql",
        "{" * 5000,
        "{ a " + "b " * MAX_DOCUMENT + "}",
        "# comment\u2028mutation { a }\n{ a }",
        "# comment\x0bmutation { a }\n{ a }",
        '{ a(b: """ " ) } mutation { c } """) }',
        7,
        None,
        ["{ a }"],
    ],
)
def test_a_document_that_is_not_one_plain_query_writes(text: Any) -> None:
    assert _posted({"query": text}) is Effect.WRITE


@pytest.mark.parametrize(
    "body",
    [
        {"query": "{ a }", "delete": True},
        {"query": "{ a }", "Query": "mutation { a }"},
        {"query": "{ a }", "extensions": {"persistedQuery": {"sha256Hash": "00"}}},
        {"extensions": {"persistedQuery": {"sha256Hash": "00"}}},
        {"query": "{ a }", "operationName": 5},
        {"query": QUERY, "operationName": "B"},
        {"query": "{ a }", "operationName": "A"},
        {"query": "{ a }", "variables": "{}"},
        {"query": f"{QUERY} {MUTATION}", "operationName": "A"},
        [{"query": "{ a }"}],
        [],
        "{ a }",
        None,
    ],
)
def test_a_body_that_is_not_exactly_one_request_writes(body: Any) -> None:
    assert _posted(body) is Effect.WRITE


def test_a_post_with_anything_in_its_address_writes() -> None:
    assert _posted({"query": "{ a }"}, "query=%7Ba%7D") is Effect.WRITE
    assert _posted({"query": "{ a }"}, "action=delete") is Effect.WRITE


def test_a_post_to_an_endpoint_that_is_not_declared_writes() -> None:
    for path in ("/graphql", "/api/GraphQL/", "/v1/accounts/5/close/gql"):
        assert effect_of("POST", path, "", {"query": "{ a }"}) is Effect.WRITE


def test_a_get_reads_if_its_address_has_one_query() -> None:
    assert _asked(("query", QUERY)) is Effect.READ
    assert _asked(("query", QUERY), ("operationName", "A"), ("variables", "{}")) is Effect.READ
    assert _asked(("query", MUTATION)) is Effect.WRITE
    assert _asked(("query", QUERY), ("query", QUERY)) is Effect.WRITE
    assert _asked(("query", QUERY), ("extensions", "{}")) is Effect.WRITE
    assert _asked() is Effect.WRITE
    assert effect_of("GET", "/graphql", "query=%7Ba%7D;query=mutation%7Ba%7D", None) is Effect.WRITE
    assert effect_of("GET", "/graphql", "query=%7Ba%7D", {"query": "{a}"}) is Effect.WRITE


def test_a_head_reads_if_a_get_does() -> None:
    reads, writes = urlencode({"query": QUERY}), urlencode({"query": MUTATION})
    assert effect_of("HEAD", "/graphql", reads, None) is Effect.READ
    assert effect_of("HEAD", "/graphql", writes, None) is Effect.WRITE
    assert effect_of("HEAD", "/graphql", "", {"query": "{ a }"}, is_declared=True) is Effect.WRITE


def test_a_browser_may_ask_for_the_options_of_an_endpoint() -> None:
    assert effect_of("OPTIONS", "/graphql", "", None) is Effect.READ
    assert effect_of("OPTIONS", "/graphql", "query=mutation%7Ba%7D", None) is Effect.WRITE
    assert effect_of("OPTIONS", "/graphql", "", {"query": "{ a }"}) is Effect.WRITE


@pytest.mark.parametrize("method", ["DELETE", "PUT", "PATCH", "TRACE", "QUERY", "get"])
def test_every_other_method_writes(method: str) -> None:
    for query in ("", "query=%7Ba%7D"):
        assert effect_of(method, "/graphql", query, None, is_declared=True) is Effect.WRITE


@pytest.mark.parametrize(
    "path",
    [
        "/%67raphql",
        "/%2567raphql",
        "/graphql;a",
        "/graphql;a=b/",
        "/graphql/;a",
        "/a/..;/GraphQL",
        "/graphql/.",
        "/graphql/x/%2e%2e",
        "//graphql//",
        "/a/%2e%2e%2fgraphql",
        "/a\\..\\graphql",
        "/graphql%20",
        "/graphql.",
        "/graphql%00.html",
        "/graphql%3fa=b",
    ],
)
def test_an_endpoint_is_one_in_every_spelling_of_its_path(path: str) -> None:
    assert effect_of("GET", path, urlencode({"query": MUTATION}), None) is Effect.WRITE
    assert effect_of("POST", path, "", {"query": "{ a }"}) is Effect.WRITE
    declared = (GraphqlEndpoint.parse("gq.example/graphql"),)
    assert may_speak_graphql(declared, "gq.example", path)
    assert not speaks_graphql(declared, "gq.example", path)


def test_a_name_that_only_begins_like_an_endpoint_is_none() -> None:
    for path in ("/docs/graphql.html", "/graphql-js", "/graphql/reference", "/egql", "/", ""):
        assert effect_of("GET", path, "", None) is None
    declared = (GraphqlEndpoint.parse("gq.example/q"),)
    assert not may_speak_graphql(declared, "gq.example", "/a/q")
    assert not may_speak_graphql(declared, "other.example", "/q")


def test_other_requests_are_not_graphql() -> None:
    assert effect_of("POST", "/v1/search", "", {"query": "shoes"}) is None
    assert effect_of("GET", "/v1/search", "query=shoes", None) is None
    assert effect_of("POST", "/v1/accounts/5/close", "", {"query": "{ a }"}) is None


def test_an_endpoint_is_a_host_and_a_whole_path() -> None:
    network = network_of({"graphql": ["api.example.com/v1/query", "*.example.org/graphql"]})
    assert plain_network(network)["graphql"] == [
        "api.example.com/v1/query",
        "*.example.org/graphql",
    ]
    assert speaks_graphql(network.graphql, "api.example.com", "/v1/query")
    assert speaks_graphql(network.graphql, "eu.example.org", "/graphql")
    assert speaks_graphql((), "api.github.com", "/graphql")
    assert not speaks_graphql(network.graphql, "api.example.com", "/v1/query/")
    assert not speaks_graphql(network.graphql, "example.com", "/v1/query")
    assert not speaks_graphql((), "api.github.com", "/repos/a/b/graphql")
    assert effect_of("POST", "/v1/query", "", {"query": "{a}"}, is_declared=True) is Effect.READ


@pytest.mark.parametrize(
    "text", ["api.example.com", "/graphql", "a.example/graph ql", "*/graphql", 5]
)
def test_what_is_no_endpoint_is_refused(text: Any) -> None:
    with pytest.raises(InvalidInput):
        GraphqlEndpoint.parse(text)
