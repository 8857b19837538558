"""What a GraphQL request does: a query reads, anything else writes. Read by a real parser."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any
from urllib.parse import parse_qs

from paddock.model.action import Effect

MAX_DOCUMENT = 1 << 16
MAX_TOKENS = 5000
MAX_BATCH = 50


def effect_of(method: str, path: str, query: str, body: Any) -> Effect | None:
    """None where the request is not GraphQL. What cannot be read is taken for a write, and so is
    what two servers might take from two places."""
    if method not in ("GET", "POST") or not is_endpoint(path):
        return None
    in_address = _in_address(query)
    in_body = [] if method == "GET" and body is None else _in_body(body)
    documents = [*in_address, *in_body]
    if not documents or len(documents) > MAX_BATCH:
        return Effect.WRITE
    names = {name for _, name in documents if name is not None}
    if in_address and in_body and len(names) > 1:
        return Effect.WRITE  # nobody knows which of the two names holds
    return Effect.READ if all(map(_only_reads, documents)) else Effect.WRITE


def is_endpoint(path: str) -> bool:
    """Whether neither the method nor the path of a request there says what it does."""
    return path.rstrip("/").rpartition("/")[2].lower() in ("graphql", "gql")


def _in_body(body: Any) -> list[tuple[Any, Any]]:
    """The documents and the names of the operations to run."""
    found = body if isinstance(body, list) else [body]
    if not found:
        return [(None, None)]
    return [(one.get("query"), one.get("operationName")) if isinstance(one, Mapping)
            else (None, None) for one in found]  # fmt: skip


def _in_address(query: str) -> list[tuple[Any, Any]]:
    fields = parse_qs(query, keep_blank_values=True)
    names = fields.get("operationName", [None])
    found: list[tuple[Any, Any]] = [(text, names[0]) for text in fields.get("query", [])]
    if len(names) > 1 or (not found and {"extensions", "operationName"} & set(fields)):
        return [(None, None)]
    return found


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
