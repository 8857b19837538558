"""Events: what happened, in order. They are written where things happen, and only read here."""

from __future__ import annotations

import re

from paddock_services.payments.account import KEYS, Account, Document
from paddock_services.payments.api import Operation, PaymentRequest
from paddock_services.payments.errors import Refusal
from paddock_services.payments.lists import Test, list_documents
from paddock_services.payments.params import Params

MAX_TYPES = 20


def _retrieve(account: Account, request: PaymentRequest) -> Document:
    return _with_key(account, account.fetch("events", request.id))


def _list(account: Account, request: PaymentRequest) -> Document:
    page = list_documents(account, request, "events", {}, _of_type(request.params))
    page["data"] = [_with_key(account, event) for event in page["data"]]
    return page


def _of_type(params: Params) -> Test | None:
    type, types = params.id("type"), params.texts("types")
    if type and types:
        raise Refusal("You may only specify one of these parameters: type, types.")
    if len(types) > MAX_TYPES:
        raise Refusal(f"At most {MAX_TYPES} types can be given.", param="types")
    wanted = [type] if type else types
    if not wanted:
        return None
    # `charge.*` means all that happens to charges.
    patterns = [re.escape(name).replace(r"\*", "[a-z_.]*") for name in wanted]
    pattern = re.compile("|".join(patterns))
    return lambda event: pattern.fullmatch(event["type"]) is not None


def _with_key(account: Account, event: Document) -> Document:
    """Add the client's idempotency key. It is stored with the key alone: clients make up a new one
    for each request, and else two runs of one program would never end in the same state."""
    request_id = event["request"]["id"]
    if request_id:
        keys = account.store.find(KEYS, {"request": request_id}, limit=1)
        event["request"]["idempotency_key"] = keys[0]["id"] if keys else None
    return event


OPERATIONS = [
    Operation("GET", "events", _list),
    Operation("GET", "events/{id}", _retrieve),
]
