"""GraphQL, of which neither the method nor the path says whether it reads."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any
from urllib.parse import parse_qs

MAX_DOCUMENT = 1 << 16
_MAX_TOKENS = 5000
_MAX_BATCH = 50


def is_endpoint(path: str) -> bool:
    return path.rstrip("/").rpartition("/")[2].lower() in ("graphql", "gql")


def only_reads(query: str, body: Any) -> bool:
    """Whether all operations that are named anywhere in the request are queries. What cannot be
    read, and what the server has stored under a name, is taken for a write."""
    try:
        texts: list[Any] = list(parse_qs(query, max_num_fields=100).get("query", []))
    except ValueError:
        return False
    if body is not None:
        batch = body if isinstance(body, list) else [body]
        texts += [one.get("query") if isinstance(one, Mapping) else None for one in batch]
    return 0 < len(texts) <= _MAX_BATCH and all(map(_is_query, texts))


def _is_query(text: Any) -> bool:
    if not isinstance(text, str) or len(text) > MAX_DOCUMENT:
        return False
    # Loaded when the first such request comes: it takes a while.
    from graphql import GraphQLError, OperationDefinitionNode, OperationType, parse

    try:
        found = parse(text, no_location=True, max_tokens=_MAX_TOKENS)
    except (GraphQLError, RecursionError):
        return False
    operations = [one for one in found.definitions if isinstance(one, OperationDefinitionNode)]
    return bool(operations) and all(one.operation is OperationType.QUERY for one in operations)
