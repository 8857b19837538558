"""Which function answers which request. Found by two lookups, without patterns."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable
from typing import Any

import msgspec

from paddock_services.payments.books import Books
from paddock_services.payments.params import Params

# A document, or one as it is kept: to read it only to write it again takes half of a request.
Handler = Callable[[Books, "Asked"], dict[str, Any] | str]


class Asked(msgspec.Struct, frozen=True):
    """What a handler needs of a request: its parameters, and the ids in its address."""

    params: Params
    ids: tuple[str, ...] = ()
    path: str = ""

    @property
    def id(self) -> str:
        return self.ids[0]

    def kept(self, books: Books, kind: str) -> dict[str, Any] | str:
        """The document that the address names."""
        if "expand" in self.params:
            return books.at_address(kind, self.id)
        return books.text_at_address(kind, self.id)


class Route(msgspec.Struct, frozen=True):
    """`{}` in the address stands for an id. Parameters that are not known are refused."""

    method: str
    address: str
    handler: Handler
    known: frozenset[str] = frozenset()


def route(method: str, address: str, handler: Handler, known: Collection[str] = ()) -> Route:
    return Route(method, "/v1/" + address, handler, frozenset(known) | {"expand"})


class Router:
    """Addresses are `/v1/things`, `/v1/things/{}`, `/v1/things/{}/parts` or `.../parts/{}`."""

    def __init__(self, routes: Iterable[Route]) -> None:
        self._routes = {(one.method, one.address): one for one in routes}

    def find(self, method: str, path: str) -> tuple[Route, tuple[str, ...]] | None:
        path = path.rstrip("/")
        exact = self._routes.get((method, path))
        if exact is not None and "{" not in path:  # an agent can write `{}` too
            return exact, ()
        parts = path.split("/")
        if not 4 <= len(parts) <= 6:
            return None
        ids = [parts[3]]
        parts[3] = "{}"
        if len(parts) == 6:
            ids.append(parts[5])
            parts[5] = "{}"
        found = self._routes.get((method, "/".join(parts)))
        return None if found is None or not all(ids) else (found, tuple(ids))
