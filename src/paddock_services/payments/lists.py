"""Operations that most collections have: retrieve by id, and list, newest first, with filters."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import msgspec

from paddock.world.kit import InvalidCursor, compare, store_page
from paddock_services.payments.account import NOUNS, Account, Document, list_object
from paddock_services.payments.api import Function, PaymentRequest
from paddock_services.payments.errors import Refusal, missing
from paddock_services.payments.params import Params

MAX_LIMIT = 100
_DEFAULT_LIMIT = 10
_BOUNDS = {"gt": ">", "gte": ">=", "lt": "<", "lte": "<="}
# Filters that name something: one that does not exist is an error, not an empty list.
_REFERENCES = {"customer": "customers", "payment_intent": "payment_intents", "charge": "charges"}
Test = Callable[[Mapping[str, Any]], bool]


def retrieve(kind: str) -> Function:
    """Return an operation that shows the document of a kind that the path names."""

    def operation(account: Account, request: PaymentRequest) -> msgspec.Raw:
        return account.fetch_json(kind, request.id)

    return operation


def listing(
    kind: str, *fields: str, test: Callable[[Params], Test | None] | None = None
) -> Function:
    """Return an operation that lists a kind. `fields` are parameters that filter by the field of
    that name; `test` makes a filter of other parameters."""

    def operation(account: Account, request: PaymentRequest) -> Document:
        params = request.params
        where = {name: params.id(name) for name in fields if name in params}
        for name, value in where.items():
            if name in _REFERENCES and value is not None:
                account.reference(_REFERENCES[name], value, name)
        return list_documents(account, request, kind, where, test(params) if test else None)

    return operation


def list_documents(
    account: Account,
    request: PaymentRequest,
    kind: str,
    where: Mapping[str, Any],
    test: Test | None = None,
) -> Document:
    """Return one page of a kind as a list object."""
    params = request.params
    after, before = params.id("starting_after"), params.id("ending_before")
    if after and before:
        message = "starting_after and ending_before cannot be given together."
        raise Refusal(message, param="ending_before")
    tests = [check for check in (test, _created(params)) if check is not None]
    try:
        page = store_page(
            account.store,
            kind,
            read_limit(params),
            where={**where, "deleted": None},
            is_wanted=(lambda document: all(check(document) for check in tests)) if tests else None,
            after=after,
            before=before,
        )
    except InvalidCursor as error:
        param = "starting_after" if after else "ending_before"
        raise missing(NOUNS[kind], str(error), param) from None
    has_more = page.has_previous if before else page.has_next
    return list_object(request.path, list(page.items), has_more)


def read_limit(params: Params) -> int:
    """Return how many documents a page has."""
    limit = params.integer("limit")
    if limit is None:
        return _DEFAULT_LIMIT
    if not 1 <= limit <= MAX_LIMIT:
        message = f"This value must be between 1 and {MAX_LIMIT}."
        raise Refusal(message, code="parameter_invalid_integer", param="limit")
    return limit


def _created(params: Params) -> Test | None:
    """Return a test for `created=123` or `created[gte]=123`."""
    value = params.values.get("created")
    if not value:
        return None
    if isinstance(value, dict):
        table = params.table("created")
        table.refuse_unknown(_BOUNDS)
        bounds = [(_BOUNDS[name], table.integer(name)) for name in table.values]
    else:
        bounds = [("=", params.integer("created"))]

    def test(document: Mapping[str, Any]) -> bool:
        created = document.get("created") or 0
        return all(limit is None or compare(created, sign, limit) for sign, limit in bounds)

    return test
