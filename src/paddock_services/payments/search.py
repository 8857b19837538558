"""Search: `email:'a@b.example' AND metadata['order']:'7'`, over all documents of a kind."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from typing import Any

import msgspec

from paddock_services.payments.books import Books
from paddock_services.payments.errors import Refusal
from paddock_services.payments.lists import page_of
from paddock_services.payments.routes import Asked, Handler, Route, route

MAX_QUERY = 2000
MAX_CLAUSES = 10
MAX_SEARCHED = 10_000  # documents that one search looks at, the newest first: others wait for it
_AT_ONCE = 500
# A character of a quoted part can be read in one way only (with a backslash or without), so that a
# query of backslashes is refused as fast as any other.
_CLAUSE = re.compile(
    r"""\s*(?P<negated>-)?(?P<field>[a-z_]+(?:\.[a-z0-9_]+)*)
        (?:\[(?P<quote>["'])(?P<key>(?:\\.|(?!(?P=quote))[^\\])*)(?P=quote)\])?
        \s*(?P<sign>:|~|>=|<=|>|<|=)\s*
        (?:(?P<marks>["'])(?P<text>(?:\\.|(?!(?P=marks))[^\\])*)(?P=marks)|(?P<bare>[A-Za-z0-9_.@+-]+))
        (?:\s+(?P<joint>AND|OR|and|or)\s|\s*$|\s+)""",
    re.VERBOSE,
)
_FIELDS = {
    "customers": ("created", "email", "metadata", "name", "phone"),
    "charges": ("amount", "billing_details", "created", "currency", "customer", "disputed",
                "metadata", "payment_method_details", "refunded", "status"),
    "payment_intents": ("amount", "created", "currency", "customer", "metadata", "status"),
    "products": ("active", "description", "metadata", "name", "shippable", "url"),
    "prices": ("active", "currency", "lookup_key", "metadata", "product", "type"),
    "invoices": ("created", "currency", "customer", "metadata", "number", "status", "total"),
}  # fmt: skip


class Clause(msgspec.Struct, frozen=True):
    """One comparison."""

    field: tuple[str, ...]
    sign: str
    value: str | None  # None: `null`
    is_negated: bool

    def holds(self, document: Mapping[str, Any]) -> bool:
        return self._compare(_at(document, self.field)) != self.is_negated

    def _compare(self, found: Any) -> bool:
        if self.value is None:
            return found is None
        if found is None:
            return False
        if isinstance(found, bool):
            return self.value.lower() == str(found).lower()
        if isinstance(found, int):
            return _ordered(found, self.sign, _number(self.value))
        text, wanted = str(found).casefold(), self.value.casefold()
        return wanted in text if self.sign == "~" else wanted == text


def searching(kind: str) -> Handler:
    """A handler that searches a kind."""

    def handler(books: Books, asked: Asked) -> dict[str, Any]:
        asked.params.require("query")
        test = parse(asked.params.text("query", MAX_QUERY) or "", _FIELDS[kind])
        limit = page_of(asked.params).limit
        after = asked.params.filled("page")
        if after is not None and not books.store.has(kind, after):
            raise Refusal("Invalid page: it must be a `next_page` of this search.", param="page")
        found = _found(books, kind, test, after, limit + 1)
        more = len(found) > limit
        return {
            "object": "search_result", "data": found[:limit], "has_more": more,
            "next_page": found[limit - 1]["id"] if more else None, "url": asked.path,
        }  # fmt: skip

    return handler


def parse(query: str, fields: tuple[str, ...]) -> Callable[[Mapping[str, Any]], bool]:
    """A test for documents. Raises Refusal for a query that cannot be read."""
    clauses: list[Clause] = []
    joints: set[str] = set()
    at = 0
    while at < len(query):
        match = _CLAUSE.match(query, at)
        if match is None or len(clauses) == MAX_CLAUSES:
            raise _unreadable(query)
        clauses.append(_clause(match, fields))
        at = match.end()
        if at < len(query):
            joints.add((match["joint"] or "and").lower())
        elif match["joint"]:
            raise _unreadable(query)
    if not clauses or len(joints) > 1:
        raise _unreadable(query)  # AND and OR cannot be mixed
    combine = any if joints == {"or"} else all
    return lambda document: combine(clause.holds(document) for clause in clauses)


def _clause(match: re.Match[str], fields: tuple[str, ...]) -> Clause:
    path = tuple(match["field"].split("."))
    if path[0] not in fields:
        message = f"Field `{match['field'][:60]}` is an unsupported search field."
        raise Refusal(message, param="query")
    if match["key"] is not None:
        path = (*path, _unescaped(match["key"]))
    text, bare = match["text"], match["bare"]
    value = _unescaped(text) if text is not None else (None if bare.lower() == "null" else bare)
    return Clause(path, match["sign"], value, match["negated"] is not None)


def _found(
    books: Books,
    kind: str,
    test: Callable[[Mapping[str, Any]], bool],
    after: str | None,
    wanted: int,
) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = []
    looked_at = 0
    while len(found) < wanted and looked_at < MAX_SEARCHED:
        where = {"deleted": None}
        part = books.store.find(kind, where, limit=_AT_ONCE, after=after, newest_first=True)
        looked_at += len(part)
        found += [one for one in part if test(one)]
        if len(part) < _AT_ONCE:
            break
        after = part[-1]["id"]
    return found[:wanted]


def _at(document: Any, path: tuple[str, ...]) -> Any:
    for part in path:
        document = document.get(part) if isinstance(document, Mapping) else None
    return document


def _ordered(found: int, sign: str, wanted: int | None) -> bool:
    if wanted is None:
        return False
    match sign:
        case ">":
            return found > wanted
        case "<":
            return found < wanted
        case ">=":
            return found >= wanted
        case "<=":
            return found <= wanted
    return found == wanted


def _number(text: str) -> int | None:
    short = text[:19]
    return int(short) if re.fullmatch(r"-?[0-9]{1,18}", short) else None


def _unescaped(text: str) -> str:
    return re.sub(r"\\(.)", r"\1", text)


def _unreadable(query: str) -> Refusal:
    message = f"We were unable to parse your search query: {query[:200]}"
    return Refusal(message, param="query")


_KNOWN = ("query", "limit", "page")
ROUTES: list[Route] = [route("GET", f"{kind}/search", searching(kind), _KNOWN) for kind in _FIELDS]
