"""The effect of a GraphQL request: a query reads, everything else writes.

A POST says in its body what it does, and only a server that really speaks GraphQL keeps to that. So
a POST reads only at an endpoint that the paddock file declares (`network.graphql`) or that is well
known, and only if it is exactly one request with exactly one operation, a query, and nothing that
servers read differently: no further keys, no batch, no stored query, nothing in the address as well
as in the body. Whatever cannot be read so is a write.

So an endpoint is recognised in two ways. A grant, that a POST may read, needs the declared path to
the letter. The restriction, that a GET may write, holds for every spelling of a path that some
server takes for the same: escaped, with parameters behind `;`, with other slashes and dots.
"""

from __future__ import annotations

import posixpath
import re
from collections.abc import Iterable, Mapping
from typing import Any
from urllib.parse import parse_qsl, unquote

import msgspec

from paddock.model.action import Effect
from paddock.model.errors import InvalidInput
from paddock.model.hosts import HostPattern

# The parser is written in Python and runs on the event loop; introspection queries have 2 KiB.
MAX_DOCUMENT = 1 << 14
MAX_TOKENS = 2000
_PARAMETERS = frozenset({"query", "operationName", "variables"})
# Older parsers end a comment at the last two, or do not know block strings.
_AMBIGUOUS = re.compile('[\x00-\x08\x0b\x0c\x0e-\x1f\x7f-\x9f\u2028\u2029\ufeff\ufffd]|"""')
_PATH = re.compile(r"/[A-Za-z0-9._~/-]*")
_PATH_PARAMETERS = re.compile(r";[^/]*")
_PATH_END = re.compile(r"[?#\0].*", re.DOTALL)
_IGNORED_END = re.compile(r"[^\w/]+\Z")  # of a path: spaces, dots


class GraphqlEndpoint(msgspec.Struct, frozen=True, order=True):
    """A place where a server speaks GraphQL and nothing else."""

    host: HostPattern
    path: str

    @classmethod
    def parse(cls, text: Any) -> GraphqlEndpoint:
        """Read `api.example.com/graphql`. Raises InvalidInput."""
        if not isinstance(text, str):
            raise InvalidInput(f"{text!r:.60} is no text", hint=_HINT)
        host, slash, path = text.partition("/")
        if not slash or not _PATH.fullmatch(slash + path):
            raise InvalidInput(f"{text[:80]!r} is no host with a path", hint=_HINT)
        return cls(HostPattern.parse(host), slash + path)

    def matches(self, host: str, path: str) -> bool:
        return path == self.path and self.host.matches(host)

    def resembles(self, host: str, path: str) -> bool:
        """Return whether some server takes the path for this endpoint's."""
        return self.host.matches(host) and _loosest(path) == _loosest(self.path)

    def __str__(self) -> str:
        return f"{self.host}{self.path}"


_HINT = "write the host and the path, such as api.example.com/graphql"
_WELL_KNOWN = tuple(
    GraphqlEndpoint.parse(text)
    for text in ("api.github.com/graphql", "gitlab.com/api/graphql", "api.linear.app/graphql")
)


def speaks_graphql(declared: Iterable[GraphqlEndpoint], host: str, path: str) -> bool:
    """Return whether the endpoint is declared in the paddock file or well known."""
    return any(endpoint.matches(host, path) for endpoint in (*_WELL_KNOWN, *declared))


def may_speak_graphql(declared: Iterable[GraphqlEndpoint], host: str, path: str) -> bool:
    """Return whether some server takes the path for that of a declared endpoint."""
    return any(endpoint.resembles(host, path) for endpoint in declared)


def effect_of(
    method: str,
    path: str,
    query: str,
    body: Any,
    *,
    is_declared: bool = False,
    is_graphql: bool = False,
) -> Effect | None:
    """Return the effect, or None where the request is not GraphQL.

    `body` is the value of a JSON body, None where there is none or where it cannot be read. A path
    that does not end like an endpoint's is one if it `is_declared`, to the letter, or `is_graphql`
    in another spelling.
    """
    if not (is_declared or is_graphql or is_endpoint(path)):
        return None
    match method:
        case "GET" | "HEAD":
            reads = body is None and _reads_by_address(query)
        case "POST":
            reads = is_declared and not query and isinstance(body, Mapping) and _is_query(body)
        case "OPTIONS":  # of a browser, before its request
            reads = body is None and not query
        case _:
            reads = False
    return Effect.READ if reads else Effect.WRITE


def is_endpoint(path: str) -> bool:
    """Return whether neither the method nor the path of a request there says what it does."""
    return _loosest(path).rpartition("/")[2] in ("graphql", "gql")


def _loosest(path: str) -> str:
    """Return the path as the most forgiving server reads it."""
    decoded = unquote(unquote(path))  # behind a proxy, a path may be decoded twice
    decoded = _PATH_END.sub("", decoded).replace("\\", "/").lower()
    plain = posixpath.normpath(_PATH_PARAMETERS.sub("", decoded))
    return "/" + _IGNORED_END.sub("", plain).strip("/")


def _reads_by_address(query: str) -> bool:
    pairs = parse_qsl(query, keep_blank_values=True)
    fields = dict(pairs)
    return len(fields) == len(pairs) and ";" not in query and _is_query(fields, is_text=True)


def _is_query(request: Mapping[str, Any], *, is_text: bool = False) -> bool:
    """Return whether a request of GraphQL over HTTP runs one query. In an address, variables are
    text."""
    if not request.keys() <= _PARAMETERS:
        return False
    text, name, variables = (request.get(key) for key in ("query", "operationName", "variables"))
    if not isinstance(text, str) or len(text) > MAX_DOCUMENT or _AMBIGUOUS.search(text):
        return False
    if name is not None and not isinstance(name, str):
        return False
    if variables is not None and not isinstance(variables, str if is_text else Mapping):
        return False
    return _is_query_document(text, name or None)


def _is_query_document(text: str, name: str | None) -> bool:
    # Loaded when the first such request comes: it takes a while.
    from graphql import (
        FragmentDefinitionNode,
        GraphQLError,
        OperationDefinitionNode,
        OperationType,
    )
    from graphql import parse as parse_document

    try:
        document = parse_document(text, no_location=True, max_tokens=MAX_TOKENS)
    except (GraphQLError, RecursionError):
        return False
    operations = [d for d in document.definitions if isinstance(d, OperationDefinitionNode)]
    fragments = [d for d in document.definitions if isinstance(d, FragmentDefinitionNode)]
    if len(operations) != 1 or len(operations) + len(fragments) != len(document.definitions):
        return False
    operation = operations[0]
    if name is not None and (operation.name is None or operation.name.value != name):
        return False
    return operation.operation is OperationType.QUERY
