"""The help desk as a service: its seed, its invariants and its application."""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial
from typing import ClassVar

from paddock.model.errors import InvalidInput
from paddock.world.kit import Api, Call, MalformedRequest, Reply, RequestError, Route, UnknownPath
from paddock.world.service import ASGIApp, Seed, Service
from paddock_services.tickets import search, tickets, users
from paddock_services.tickets.call import Handler, ZendeskCall
from paddock_services.tickets.desk import (
    CLOSURES,
    COMMENTS,
    DELETED,
    TICKETS,
    USERS,
    Desk,
    ZendeskError,
)
from paddock_services.tickets.seed import DEFAULT_SEED, KINDS, Seeder

# `users/search` and `users/me` come before `users/{id}`.
ROUTES = {**search.ROUTES, **tickets.ROUTES, **users.ROUTES}


class Tickets(Service):
    """Zendesk's Support API over a help desk of its own."""

    name = "tickets"
    options: ClassVar[Mapping[str, str]] = {}

    def app(self) -> ASGIApp:
        return ZendeskApi(Desk(self.context))

    def seed(self, data: Seed) -> None:
        """Fill the desk: with the default one when nothing is given."""
        unknown = sorted(set(data) - set(KINDS))
        if unknown:
            raise InvalidInput(f"tickets has no {unknown[0]}; it has {', '.join(KINDS)}")
        with self.context.store.transaction():
            Seeder(Desk(self.context)).fill(data if any(data.values()) else DEFAULT_SEED)

    def invariants(self) -> list[str]:
        desk, store = Desk(self.context), self.context.store
        broken = []
        for closure in store.find(CLOSURES):
            ticket = store.get(TICKETS, closure["id"]) or store.get(DELETED, closure["id"])
            if ticket is None or desk.digest(ticket) != closure["digest"]:
                broken.append(f"ticket {closure['id']} was changed after it had been closed")
        ticket_ids, user_ids = {*store.ids(TICKETS), *store.ids(DELETED)}, set(store.ids(USERS))
        for comment in store.find(COMMENTS):
            if str(comment["ticket_id"]) not in ticket_ids:
                broken.append(f"comment {comment['id']} belongs to no ticket")
            if str(comment["author_id"]) not in user_ids:
                broken.append(f"comment {comment['id']} was written by nobody")
        return broken


class ZendeskApi(Api):
    """Credentials and errors as Zendesk has them."""

    def __init__(self, desk: Desk) -> None:
        self._desk = desk
        routes = []
        for name, handler in ROUTES.items():
            method, path = name.split(" ")
            routes.append(Route(method, f"/api/v2/{path}", partial(_handle, desk, handler)))
        super().__init__(desk.store, routes)

    def route_path(self, path: str) -> str:
        return path.removesuffix(".json")  # every address exists with and without it

    def authenticate(self, call: Call) -> str:
        """Return the id of the agent: a basic login has an address, a bearer token has none."""
        name, password = call.basic_credentials or ("", call.bearer_token)
        if not password:
            raise ZendeskError(401, "Couldn't authenticate you")
        return str(self._desk.agent(name.removesuffix("/token"))["id"])

    def refuse(self, call: Call, error: RequestError) -> Reply:
        match error:
            case UnknownPath():
                text = "There is no resource at this address"
                return ZendeskError(404, "InvalidEndpoint", text).reply
            case MalformedRequest():
                return ZendeskError(400, "InvalidJson", "The body is not JSON").reply
        return Reply.text("Request Entity Too Large", error.status)


def _handle(desk: Desk, handler: Handler, call: Call) -> Reply:
    return handler(ZendeskCall(desk, call))
