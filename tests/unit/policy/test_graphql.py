"""A GraphQL request reads only if every operation that it can run is a query."""

from __future__ import annotations

from typing import Any
from urllib.parse import urlencode

import pytest

from paddock.model.action import Effect
from paddock.policy.graphql import MAX_BATCH, MAX_DOCUMENT, effect_of

QUERY = "query A { user(id: 1) { name } }"
MUTATION = "mutation B { deleteUser(id: 1) { id } }"


def _posted(body: Any, path: str = "/graphql") -> Effect | None:
    return effect_of("POST", path, "", body)


@pytest.mark.parametrize("text", ["{ a }", QUERY, "query($x: Int) { a(x: $x) }", "# c\n{ a }"])
def test_a_query_reads(text: str) -> None:
    assert _posted({"query": text}) is Effect.READ


@pytest.mark.parametrize(
    "text",
    [
        MUTATION,
        "subscription { a }",
        "mutation{a}",
        "\ufeffmutation { a }",
        f"{QUERY} {MUTATION}",
        "",
        "no graphql",
        "{" * 5000,
        "{ a " + "b " * MAX_DOCUMENT + "}",
        7,
        None,
        ["{ a }"],
    ],
)
def test_anything_else_writes(text: Any) -> None:
    assert _posted({"query": text}) is Effect.WRITE


def test_the_named_operation_is_the_one_that_counts() -> None:
    both = f"{QUERY} {MUTATION}"
    assert _posted({"query": both, "operationName": "A"}) is Effect.READ
    assert _posted({"query": both, "operationName": "B"}) is Effect.WRITE
    assert _posted({"query": both, "operationName": "C"}) is Effect.WRITE


def test_a_batch_writes_if_one_of_it_does() -> None:
    assert _posted([{"query": QUERY}, {"query": QUERY}]) is Effect.READ
    assert _posted([{"query": QUERY}, {"query": MUTATION}]) is Effect.WRITE
    assert _posted([{"query": QUERY}, "odd"]) is Effect.WRITE
    assert _posted([]) is Effect.WRITE
    assert _posted([{"query": QUERY}] * (MAX_BATCH + 1)) is Effect.WRITE


def test_a_mutation_by_get_writes() -> None:
    assert effect_of("GET", "/graphql", urlencode({"query": QUERY}), None) is Effect.READ
    assert effect_of("GET", "/graphql", urlencode({"query": MUTATION}), None) is Effect.WRITE
    two = urlencode([("query", QUERY), ("query", MUTATION)])
    assert effect_of("GET", "/graphql", two, None) is Effect.WRITE


def test_what_stands_in_the_address_and_in_the_body_must_both_read() -> None:
    reads, writes = urlencode({"query": "{ a }"}), urlencode({"query": "mutation { a }"})
    assert effect_of("POST", "/graphql", reads, {"query": "{ a }"}) is Effect.READ
    assert effect_of("POST", "/graphql", writes, {"query": "{ a }"}) is Effect.WRITE
    assert effect_of("POST", "/graphql", reads, {"query": "mutation { a }"}) is Effect.WRITE
    assert effect_of("POST", "/graphql", reads, None) is Effect.WRITE
    named = urlencode({"query": f"{QUERY} {MUTATION}", "operationName": "A"})
    body = {"query": f"{QUERY} {MUTATION}", "operationName": "B"}
    assert effect_of("POST", "/graphql", named, body) is Effect.WRITE


@pytest.mark.parametrize("method", ["DELETE", "PUT", "PATCH", "HEAD"])
def test_other_methods_are_what_they_are(method: str) -> None:
    assert effect_of(method, "/graphql", "", {"query": "{ a }"}) is None


def test_a_stored_query_that_nobody_can_read_writes() -> None:
    assert _posted({"extensions": {"persistedQuery": {"sha256Hash": "00"}}}) is Effect.WRITE
    assert effect_of("GET", "/api/graphql/", "", None) is Effect.WRITE


def test_other_requests_are_not_graphql() -> None:
    assert effect_of("POST", "/v1/search", "", {"query": "shoes"}) is None
    assert effect_of("GET", "/v1/search", "query=shoes", None) is None
    assert effect_of("POST", "/v1/accounts/5/close", "", {"query": "{ a }"}) is None
