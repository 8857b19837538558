"""What a GraphQL request does: a query reads, anything else writes. Read by a real parser."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any
from urllib.parse import parse_qs

from paddock.model.action import Effect

MAX_DOCUMENT = 1 << 16
MAX_TOKENS = 5000
MAX_BATCH = 50


def effect_of(path: str, query: str, body: Any) -> Effect | None:
    """None where the request is not GraphQL. What cannot be read is taken for a write."""
    documents = _documents(path, query, body)
    if documents is None:
        return None
    if not documents or len(documents) > MAX_BATCH:
        return Effect.WRITE
    return Effect.READ if all(map(_only_reads, documents)) else Effect.WRITE


def _documents(path: str, query: str, body: Any) -> list[tuple[Any, Any]] | None:
    """The documents and the names of the operations to run."""
    is_endpoint = path.rstrip("/").rpartition("/")[2].lower() in ("graphql", "gql")
    if isinstance(body, Mapping) and "query" in body and (is_endpoint or _is_document(body)):
        return [(body["query"], body.get("operationName"))]
    if not is_endpoint:
        return None
    if isinstance(body, list):
        return [(one.get("query"), one.get("operationName")) if isinstance(one, Mapping)
                else (None, None) for one in body]  # fmt: skip
    if "query=" in query:
        fields = parse_qs(query)
        names = fields.get("operationName", [None])
        return [(text, names[0]) for text in fields.get("query", [None])]
    return [(None, None)]  # a stored query, or none: nobody knows what it does


def _is_document(body: Mapping[str, Any]) -> bool:
    text = body["query"]
    if not isinstance(text, str):
        return False
    return "{" in text and not set(body) - {"query", "variables", "operationName", "extensions"}


def _only_reads(document: tuple[Any, Any]) -> bool:
    text, name = document
    if not isinstance(text, str) or len(text) > MAX_DOCUMENT:
        return False
    # Loaded when the first such request comes: it takes a while.
    from graphql import GraphQLError, OperationDefinitionNode, OperationType
    from graphql import parse as parse_document

    try:
        found = parse_document(text, no_location=True, max_tokens=MAX_TOKENS)
    except (GraphQLError, RecursionError):
        return False
    operations = [one for one in found.definitions if isinstance(one, OperationDefinitionNode)]
    if isinstance(name, str) and name:
        operations = [one for one in operations if one.name and one.name.value == name]
    return bool(operations) and all(one.operation is OperationType.QUERY for one in operations)
