"""Search: `email:'a@b.example' AND metadata['order']:'7'`, over all documents of a kind."""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Mapping
from typing import Any

from paddock.world.kit import InvalidCursor, Term, compare, parse_terms, store_page
from paddock_services.payments.account import Account, Document, list_object
from paddock_services.payments.api import Function, PaymentRequest
from paddock_services.payments.errors import Refusal
from paddock_services.payments.lists import Test, read_limit

MAX_QUERY = 2000
MAX_CLAUSES = 10
MAX_SEARCHED = 10_000  # documents that one search looks at, the newest first: others wait for it
FIELDS = {
    "customers": ("created", "email", "metadata", "name", "phone"),
    "charges": ("amount", "billing_details", "created", "currency", "customer", "disputed",
                "metadata", "payment_method_details", "refunded", "status"),
    "payment_intents": ("amount", "created", "currency", "customer", "metadata", "status"),
    "products": ("active", "description", "metadata", "name", "shippable", "url"),
    "prices": ("active", "currency", "lookup_key", "metadata", "product", "type"),
    "invoices": ("created", "currency", "customer", "metadata", "number", "status", "total"),
}  # fmt: skip


def searching(kind: str) -> Function:
    """Return an operation that searches a kind."""

    def operation(account: Account, request: PaymentRequest) -> Document:
        params = request.params
        params.required("query")
        test = parse_query(params.text("query", MAX_QUERY) or "", FIELDS[kind])
        try:
            page = store_page(
                account.store,
                kind,
                read_limit(params),
                where={"deleted": None},
                is_wanted=test,
                after=params.id("page"),
                max_read=MAX_SEARCHED,
            )
        except InvalidCursor:
            message = "Invalid page: it must be a `next_page` of this search."
            raise Refusal(message, param="page") from None
        result = list_object(request.path, list(page.items), page.has_next)
        next_page = page.items[-1]["id"] if page.has_next else None
        return {**result, "object": "search_result", "next_page": next_page}

    return operation


def parse_query(query: str, fields: Collection[str]) -> Test:
    """Return a test for documents. Raises Refusal for a query that cannot be read."""
    clauses: list[Term] = []
    joints: set[str] = set()
    is_joined = True  # the next term may be a clause
    for term in parse_terms(query):
        if term.value.lower() in ("and", "or") and not term.field:
            if is_joined:
                raise _unreadable(query)
            joints.add(term.value.lower())
            is_joined = True
            continue
        if not term.field or (not term.is_quoted and ("'" in term.value or '"' in term.value)):
            raise _unreadable(query)
        if term.field.split(".")[0] not in fields:
            message = f"Field `{term.field[:60]}` is an unsupported search field."
            raise Refusal(message, param="query")
        if not is_joined:
            joints.add("and")
        clauses.append(term)
        is_joined = False
    # AND and OR cannot be mixed.
    if is_joined or len(clauses) > MAX_CLAUSES or len(joints) > 1:
        raise _unreadable(query)
    combine: Callable[[Any], bool] = any if joints == {"or"} else all
    return lambda document: combine(_holds(clause, document) for clause in clauses)


def _holds(clause: Term, document: Mapping[str, Any]) -> bool:
    value: Any = document
    keys = clause.field.split(".") if clause.key is None else [clause.field, clause.key]
    for key in keys:
        value = value.get(key) if isinstance(value, Mapping) else None
    return _matches(clause, value) != clause.is_negated


def _matches(clause: Term, value: Any) -> bool:
    wanted = clause.value
    if wanted.lower() == "null" and not clause.is_quoted:
        return value is None
    if value is None:
        return False
    if isinstance(value, int) and not isinstance(value, bool):
        is_number = re.fullmatch(r"-?[0-9]{1,18}", wanted) is not None
        return is_number and compare(value, clause.relation, int(wanted))
    text = str(value).casefold()
    return wanted.casefold() in text if clause.relation == "~" else wanted.casefold() == text


def _unreadable(query: str) -> Refusal:
    message = f"We were unable to parse your search query: {query[:200]}"
    return Refusal(message, param="query")
