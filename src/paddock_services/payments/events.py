"""Events: what happened, in order. They are written where things happen, and only read here."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

from paddock_services.payments.books import Books
from paddock_services.payments.errors import Refusal
from paddock_services.payments.idempotency import KIND
from paddock_services.payments.lists import PAGING, Keeps, answer
from paddock_services.payments.params import Params
from paddock_services.payments.routes import Asked, Route, route

MAX_TYPES = 20


def retrieve(books: Books, asked: Asked) -> dict[str, Any]:
    return _with_key(books, books.at_address("events", asked.id))


def listed(books: Books, asked: Asked) -> dict[str, Any]:
    found = answer(books, asked, "events", {}, _of_type(asked.params))
    found["data"] = [_with_key(books, one) for one in found["data"]]
    return found


def _of_type(params: Params) -> Keeps | None:
    type, types = params.filled("type"), params.texts("types")
    if type and types:
        raise Refusal("You may only specify one of these parameters: type, types.")
    if len(types) > MAX_TYPES:
        raise Refusal(f"At most {MAX_TYPES} types can be given.", param="types")
    wanted = types or ([type] if type else [])
    if not wanted:
        return None
    # `charge.*` means all that happens to charges.
    texts = "|".join(re.escape(one).replace(r"\*", "[a-z_.]*") for one in wanted)
    pattern = re.compile(texts)

    def keeps(event: Mapping[str, Any]) -> bool:
        return pattern.fullmatch(event["type"]) is not None

    return keeps


def _with_key(books: Books, event: dict[str, Any]) -> dict[str, Any]:
    """The client's key is kept with the key alone: clients make up a new one for each request,
    and else two runs of one program would never end in the same state."""
    request = event.get("request") or {}
    if request.get("id"):
        kept = books.store.find(KIND, {"request": request["id"]}, limit=1)
        event["request"] = {**request, "idempotency_key": kept[0]["id"] if kept else None}
    return event


_LIST = {"created", "delivery_success", "type", "types"} | PAGING
ROUTES: list[Route] = [
    route("GET", "events", listed, _LIST),
    route("GET", "events/{}", retrieve),
]
