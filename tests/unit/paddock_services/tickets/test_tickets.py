"""What the help desk answers, remembers and refuses, in process."""

from __future__ import annotations

import base64
from pathlib import Path
from typing import Any

import pytest

from cases import for_each
from paddock.model.errors import InvalidInput
from paddock.world.kit.api import MAX_BODY
from paddock.world.seeds import load_seed
from paddock_services.tickets import Tickets
from paddock_services.tickets.desk import TICKETS
from paddock_services.tickets.service import ROUTES
from unit.paddock_services.chat.rig import JSON, Answer, as_json, ask, made


def _login(name: str) -> dict[str, str]:
    word = base64.b64encode(f"{name}/token:t".encode()).decode()
    return {"authorization": f"Basic {word}", "content-type": JSON}


class Desk:
    """A help desk and an agent who calls it."""

    def __init__(self, directory: Path, seed: Any = None) -> None:
        self.service = made(Tickets, directory, host="acme.zendesk.com")
        self.service.seed(seed or {})
        self.store = self.service.context.store
        self._app = self.service.app()

    def call(
        self, method: str, path: str, body: Any = None, name: str = "ada@example.com"
    ) -> Answer:
        data = b"" if body is None else as_json(body)
        return ask(self._app, method, f"/api/v2/{path}", data, _login(name))

    def raw(self, method: str, path: str, data: bytes, headers: dict[str, str]) -> Answer:
        return ask(self._app, method, f"/api/v2/{path}", data, headers)

    def change(self, number: int, **fields: Any) -> Answer:
        return self.call("PUT", f"tickets/{number}.json", {"ticket": fields})

    def create(self, **fields: Any) -> Answer:
        return self.call("POST", "tickets.json", {"ticket": {"comment": {"body": "x"}, **fields}})

    def found(self, query: str) -> list[int]:
        answer = self.call("GET", f"search.json?query={query}")
        return [one["id"] for one in answer.json["results"]]


@pytest.fixture
def desk(tmp_path: Path) -> Desk:
    return Desk(tmp_path)


def test_same_calls_give_the_same_bytes(tmp_path: Path) -> None:
    digests = set()
    for number in range(3):
        desk = Desk(tmp_path / str(number))
        desk.create(subject="a", requester={"name": "Zoe", "email": "zoe@a.example"})
        desk.change(1, status="solved", comment={"body": "done"})
        desk.call("DELETE", "tickets/2.json")
        digests.add(desk.store.digest())
    assert len(digests) == 1


def test_address_works_with_and_without_suffix(desk: Desk) -> None:
    assert desk.call("GET", "tickets/1").json == desk.call("GET", "tickets/1.json").json


@pytest.mark.parametrize(
    "change",
    [{"status": "open"}, {"comment": {"body": "x"}}, {"tags": ["x"]}, {"subject": "x"},
     {"additional_tags": ["x"]}, {"assignee_id": None}, {}],
)  # fmt: skip
def test_closed_ticket_is_never_changed(desk: Desk, change: dict[str, Any]) -> None:
    before = desk.store.digest()
    answer = desk.change(4, **change)
    assert (answer.status, answer.json["error"]) == (422, "RecordInvalid")
    for method in ("PUT", "DELETE"):
        assert desk.call(method, "tickets/4/tags", {"tags": ["x"]}).status == 422
    assert desk.store.digest() == before


def test_ticket_that_is_closed_in_the_run_stays_so(desk: Desk) -> None:
    assert desk.change(1, status="closed", comment={"body": "bye"}).status == 200
    assert desk.change(1, status="open").status == 422
    assert desk.service.invariants() == []
    ticket = desk.store.get(TICKETS, "1") or {}
    desk.store.put(TICKETS, "1", {**ticket, "priority": "low"})
    assert desk.service.invariants() == ["ticket 1 was changed after it had been closed"]


def test_closed_ticket_that_is_deleted_was_not_changed(desk: Desk) -> None:
    assert desk.call("DELETE", "tickets/4.json").status == 204
    assert desk.call("GET", "tickets/4.json").status == 404
    assert desk.service.invariants() == []


def test_comment_that_belongs_to_no_ticket_is_found(desk: Desk) -> None:
    comment = desk.store.find("comments")[0]
    desk.store.put("comments", "7", {**comment, "id": 7, "ticket_id": 999, "author_id": 1})
    assert len(desk.service.invariants()) == 2


def test_ticket_moves_through_its_states(desk: Desk) -> None:
    agent = desk.store.find("users", {"email": "ben@example.com"})[0]["id"]
    assert desk.change(1, assignee_id=agent).json["ticket"]["status"] == "open"
    back = desk.change(1, status="new")
    assert back.json["details"]["status"][0]["description"] == "Status: cannot be set to New again"
    solved = desk.create(status="solved").json["ticket"]
    me = desk.call("GET", "users/me.json").json["user"]["id"]
    assert solved["assignee_id"] == me
    assert desk.change(solved["id"], status="open").json["ticket"]["status"] == "open"


@for_each(
    ("fields", "field"),
    [
        ({"status": "lost"}, "status"),
        ({"status": None}, "status"),
        ({"status": ["open"]}, "status"),
        ({"status": {}}, "status"),
        ({"priority": "asap"}, "priority"),
        ({"type": 7}, "type"),
        ({"assignee_id": 12}, "assignee"),
        ({"assignee_id": "x"}, "assignee"),
        ({"assignee_email": "mia@customer.example"}, "assignee"),
        ({"requester_id": 12}, "requester"),
        ({"requester": {"email": "new@a.example"}}, "name"),
        ({"requester": {"name": "N", "email": "none"}}, "email"),
        ({"tags": [1]}, "tags"),
        ({"tags": {"a": 1}}, "tags"),
        ({"subject": ["x"]}, "subject"),
        ({"subject": "x" * 300}, "subject"),
        ({"group_id": "abc"}, "group_id"),
        ({"custom_fields": [{"value": 1}]}, "custom_fields"),
    ],
)
def test_field_that_breaks_a_rule_is_named_and_nothing_changes(
    desk: Desk, fields: dict[str, Any], field: str
) -> None:
    before = desk.store.digest()
    for answer in (desk.create(**fields), desk.change(1, **fields)):
        assert (answer.status, list(answer.json["details"])) == (422, [field])
    assert desk.store.digest() == before


def test_ticket_needs_something_to_say(desk: Desk) -> None:
    for comment in ({}, {"body": " "}, {"body": 7}, None):
        assert desk.create(comment=comment).status == 422
    assert desk.create(comment=None, description="text").status == 201
    assert desk.call("POST", "tickets.json", {"subject": "x"}).status == 400
    assert desk.change(1, comment={"body": ""}).status == 422


def test_safe_update_does_not_overwrite_what_somebody_else_did(desk: Desk) -> None:
    stamp = desk.call("GET", "tickets/1").json["ticket"]["updated_at"]
    assert desk.change(1, priority="low", safe_update=True, updated_stamp=stamp).status == 200
    late = desk.change(1, priority="high", safe_update=True, updated_stamp=stamp)
    assert (late.status, late.json["error"]) == (409, "UpdateConflict")


def test_nobody_gets_in_without_a_login_and_customers_not_at_all(desk: Desk) -> None:
    before = desk.store.digest()
    logins = [{}, {"authorization": "Basic !"}, {"authorization": "Bearer "},
              {"authorization": "Basic eA=="}]  # fmt: skip
    for method, path in (name.split(" ") for name in ROUTES):
        for headers in logins:
            assert desk.raw(method, path.replace("{id}", "1"), b"", headers).status == 401
        assert (
            desk.call(method, path.replace("{id}", "1"), {}, "mia@customer.example").status == 403
        )
    assert desk.store.digest() == before


@pytest.mark.parametrize(
    "data",
    [b"{", b"NaN", b'{"ticket":' + b"[" * 500 + b"]" * 500 + b"}",
     b'{"ticket":{"subject":"\\ud800"}}',
     b'{"ticket":{"custom_fields":[{"id":1,"value":1e999}]}}', b"[" * 100_000, b"\xff"],
)  # fmt: skip
def test_json_that_the_store_could_not_keep_is_refused(desk: Desk, data: bytes) -> None:
    before = desk.store.digest()
    assert desk.raw("POST", "tickets", data, _login("ada@example.com")).status == 400
    assert desk.store.digest() == before
    assert desk.found("order") == [2]


def test_body_that_is_too_long_is_cut_off(desk: Desk) -> None:
    assert desk.raw("POST", "tickets", b" " * (MAX_BODY + 1), _login("a@b.example")).status == 413


@for_each("id", ["0", "99", "x", "-1", "1e3", "9" * 5000, "%00", "1%2f2"])
def test_number_that_nothing_has_is_not_found(desk: Desk, id: str) -> None:
    for path in ("tickets/{}", "tickets/{}/comments", "users/{}"):
        assert desk.call("GET", path.format(id)).status == 404


@for_each(
    ("query", "ids"),
    [
        ("type:ticket", [1, 2, 3, 4]),
        ("type:ticket+status:open", [2]),
        ("type:ticket+status:open+status:pending", [2, 3]),
        ("type:ticket+status>=pending", [3, 4]),
        ("type:ticket+-status:closed", [1, 2, 3]),
        ("type:ticket+priority>normal", [1]),
        ("type:ticket+requester:mia@customer.example", [1, 3]),
        ("type:ticket+requester:%22tom+baker%22", [2, 4]),
        ("type:ticket+assignee:none", [1]),
        ("type:ticket+assignee:me", [3, 4]),
        ("type:ticket+subject:order", [2]),
        ("type:ticket+%22looking+into+it%22", [2]),
        ("type:ticket+created>2025-12-31", [1, 2, 3, 4]),
        ("type:ticket+created<1hours", []),
        ("type:ticket+tags:none+ticket_type:none", [1, 2, 3, 4]),
        ("type:ticket+nonsense:x", []),
        ("type:ticket+order_by:created_at+sort:desc", [4, 3, 2, 1]),
        ("type:ticket+created>99999999years", []),
    ],
)
def test_search_finds(desk: Desk, query: str, ids: list[int]) -> None:
    assert desk.found(query) == ids


@pytest.mark.parametrize("page", ["per_page=x", "page=-1", "page=9" + "9" * 20, "page[after]=!",
                                  "page[size]=x", "page[after]=OTk="])  # fmt: skip
def test_page_that_is_none_is_refused(desk: Desk, page: str) -> None:
    assert desk.call("GET", f"tickets.json?{page}").status == 400


def test_cursor_leads_on(desk: Desk) -> None:
    first = desk.call("GET", "tickets.json?page[size]=2").json
    assert first["meta"]["has_more"] is True
    after, link = first["meta"]["after_cursor"], first["links"]["next"]
    assert link.startswith("https://acme.zendesk.com/api/v2/tickets.json?")
    second = desk.call("GET", f"tickets.json?page[size]=2&page[after]={after}").json
    assert [one["id"] for one in second["tickets"]] == [3, 4]
    assert second["links"]["next"] is None


def test_people_come_beside_the_tickets_where_asked(desk: Desk) -> None:
    answer = desk.call("GET", "tickets.json?per_page=1&include=users").json
    assert [user["name"] for user in answer["users"]] == ["Mia Fernandez"]


def test_two_people_never_share_an_address(desk: Desk) -> None:
    twice = desk.call("POST", "users", {"user": {"name": "X", "email": "Tom@customer.example"}})
    assert twice.json["details"]["email"][0]["error"] == "DuplicateValue"


def test_audit_says_what_was_before(desk: Desk) -> None:
    desk.change(1, priority="low")
    (audit,) = desk.call("GET", "tickets/1/audits").json["audits"]
    event = audit["events"][0]
    assert (event["field_name"], event["previous_value"], event["value"]) == (
        "priority", "high", "low",
    )  # fmt: skip


def test_markup_in_a_comment_is_text(desk: Desk) -> None:
    desk.change(1, comment={"body": "<script>"})
    comment = desk.call("GET", "tickets/1/comments").json["comments"][-1]
    assert comment["html_body"] == "<p>&lt;script&gt;</p>"


@pytest.mark.parametrize("seed", [1, 2, 3])
def test_generated_tickets_fill_a_desk_however_messy(tmp_path: Path, seed: int) -> None:
    service = made(Tickets, tmp_path)
    words = {"generate": "tickets", "count": 200, "seed": seed, "mess": 0.5}
    service.seed(load_seed(words, service.context, tmp_path))
    assert service.context.store.count(TICKETS) >= 200
    assert service.invariants() == []
    answer = ask(service.app(), "GET", "/api/v2/search?query=refund", headers=_login("x@y.example"))
    assert answer.status == 200


@pytest.mark.parametrize(
    "seed",
    [{"invoices": [{}]}, {"tickets": [{"requester": "nobody@a.example"}]},
     {"users": [{"name": "A"}], "tickets": [{"status": "lost"}]}],
)  # fmt: skip
def test_seed_that_makes_no_sense_is_refused_whole(tmp_path: Path, seed: Any) -> None:
    service = made(Tickets, tmp_path)
    with pytest.raises(InvalidInput):
        service.seed(seed)
    assert service.context.store.kinds() == []
