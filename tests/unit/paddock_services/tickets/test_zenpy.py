"""That a client that many use works unchanged, over a socket."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import requests
from requests.adapters import HTTPAdapter
from zenpy import Zenpy
from zenpy.lib.api_objects import Comment, Ticket, User
from zenpy.lib.exception import APIException, RecordNotFoundException

from paddock_services.tickets import Tickets
from unit.paddock_services.chat.rig import made, served


class _Nearby(HTTPAdapter):
    """Dials the test's own server for every host."""

    def __init__(self, address: str) -> None:
        super().__init__()
        self._address = address

    def send(self, request: requests.PreparedRequest, *args: Any, **kwargs: Any) -> Any:
        asked = request.copy()
        asked.url = (request.url or "").replace("https://acme.zendesk.com", self._address)
        answer = super().send(asked, *args, **kwargs)
        answer.request = request
        return answer


@pytest.fixture
def client(tmp_path: Path) -> Iterator[Zenpy]:
    service = made(Tickets, tmp_path, host="acme.zendesk.com")
    service.seed({})
    with served(service.app()) as address, requests.Session() as session:
        session.mount("https://", _Nearby(address))
        login = {"email": "ada@example.com", "token": "t"}
        yield Zenpy(subdomain="acme", session=session, disable_cache=True, **login)


def test_client_lists_and_shows_tickets(client: Zenpy) -> None:
    assert [ticket.subject for ticket in client.tickets()] == [
        "Charged twice", "Where is my order?", "Wrong size", "Invoice for May",
    ]  # fmt: skip
    ticket = client.tickets(id=2)
    assert (ticket.status, ticket.requester.email) == ("open", "tom@customer.example")
    with pytest.raises(RecordNotFoundException):
        client.tickets(id=99)


def test_client_walks_all_pages(client: Zenpy) -> None:
    for number in range(8):
        client.tickets.create(Ticket(subject=f"n{number}", description="x"))
    assert len(list(client.tickets(page_size=5))) == 12
    assert len(list(client.tickets(cursor_pagination=5))) == 12
    assert len(list(client.users(page_size=1))) == 4


def test_client_creates_changes_and_comments(client: Zenpy) -> None:
    audit = client.tickets.create(
        Ticket(subject="New", comment=Comment(body="It broke"), requester=User(
            name="Zoe", email="zoe@customer.example"), tags=["a b"], priority="urgent")
    )  # fmt: skip
    ticket = client.tickets(id=audit.ticket.id)
    assert (ticket.status, ticket.tags, ticket.requester.name) == ("new", ["a_b"], "Zoe")
    ticket.status = "pending"
    ticket.comment = Comment(body="Which version?", public=False)
    changed = client.tickets.update(ticket)
    assert {event["type"] for event in changed.audit.events} == {"Comment", "Change"}
    comments = list(client.tickets.comments(ticket=ticket.id))
    assert [(one.body, one.public) for one in comments] == [
        ("It broke", True), ("Which version?", False),
    ]  # fmt: skip
    assert comments[1].author.email == "ada@example.com"


def test_client_searches(client: Zenpy) -> None:
    assert [t.id for t in client.search(type="ticket", status_less_than="solved")] == [1, 2, 3]
    assert [t.id for t in client.search("refund", type="ticket")] == [1]
    assert [u.name for u in client.search("mia", type="user")] == ["Mia Fernandez"]
    assert [u.name for u in client.users.search(query="tom@customer.example")] == ["Tom Baker"]
    assert client.users.me().email == "ada@example.com"


def test_client_is_told_that_a_closed_ticket_stays_as_it_is(client: Zenpy) -> None:
    ticket = client.tickets(id=4)
    ticket.comment = Comment(body="One more thing")
    with pytest.raises(APIException, match="closed prevents ticket update"):
        client.tickets.update(ticket)


def test_client_deletes_and_makes_users(client: Zenpy) -> None:
    client.tickets.delete(client.tickets(id=1))
    assert [ticket.id for ticket in client.tickets()] == [2, 3, 4]
    user = client.users.create(User(name="Uma", email="uma@example.com", role="agent"))
    assert client.users(id=user.id).role == "agent"
