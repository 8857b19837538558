"""A request to the help desk, as its handlers see it."""

from __future__ import annotations

from collections.abc import Callable

import msgspec

from paddock_services.tickets.desk import Desk, DeskError, Document

Answer = tuple[int, Document | None]


class Asked(msgspec.Struct, frozen=True):
    """A request after its head and body have been read."""

    desk: Desk
    author: Document  # the agent whose key it came with
    params: dict[str, str]
    path: dict[str, str]
    body: Document

    @property
    def id(self) -> str:
        return self.path["id"]

    def part(self, name: str) -> Document:
        """The object in the body that is meant."""
        found = self.body.get(name)
        if not isinstance(found, dict):
            text = f"Parameter {name} is required"
            raise DeskError(400, "RequiredParameterMissing", text)
        return found


Handler = Callable[[Asked], Answer]
