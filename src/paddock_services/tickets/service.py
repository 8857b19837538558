"""The tickets service: how a help desk begins, and what must always be true of it."""

from __future__ import annotations

from collections.abc import Mapping
from typing import ClassVar

from paddock.model.errors import InvalidInput
from paddock.world.service import ASGIApp, Seed, Service
from paddock_services.tickets.desk import (
    CLOSURES,
    COMMENTS,
    DELETED,
    FORMER_USERS,
    TICKETS,
    USERS,
    Desk,
)
from paddock_services.tickets.seeding import KINDS, USUAL, Seeding
from paddock_services.tickets.web import make_app


class Tickets(Service):
    """Zendesk's Support API over a help desk of its own."""

    name = "tickets"
    options: ClassVar[Mapping[str, str]] = {}

    def app(self) -> ASGIApp:
        return make_app(Desk(self.context))

    def seed(self, data: Seed) -> None:
        """People and tickets; the usual help desk when nothing is given."""
        unknown = sorted(set(data) - set(KINDS))
        if unknown:
            raise InvalidInput(f"tickets has no {unknown[0]}; it has {', '.join(KINDS)}")
        with self.context.store.transaction():
            Seeding(Desk(self.context)).fill(data if any(data.values()) else USUAL)

    def invariants(self) -> list[str]:
        desk, store = Desk(self.context), self.context.store
        broken = []
        for closure in store.find(CLOSURES):
            ticket = store.get(TICKETS, closure["id"]) or store.get(DELETED, closure["id"])
            if ticket is None or desk.digest(ticket) != closure["digest"]:
                broken.append(f"ticket {closure['id']} was changed after it had been closed")
        tickets = {*store.ids(TICKETS), *store.ids(DELETED)}
        people = {*store.ids(USERS), *store.ids(FORMER_USERS)}
        for comment in store.find(COMMENTS):
            if str(comment["ticket_id"]) not in tickets:
                broken.append(f"comment {comment['id']} belongs to no ticket")
            if str(comment["author_id"]) not in people:
                broken.append(f"comment {comment['id']} was written by nobody")
        return broken
