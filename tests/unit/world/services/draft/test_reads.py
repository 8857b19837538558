"""Captured writes in later reads."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

import pytest

from paddock.world.asgi import WorldRequest
from paddock.world.services.draft import DraftService

Make = Callable[..., DraftService]


def _ids(reply: Any, key: str | None = None) -> list[Any]:
    return [one["id"] for one in (reply.json if key is None else reply.json[key])]


def test_what_nobody_wrote_is_passed_on_to_the_byte(agent: Any) -> None:
    for target in ("/tickets", "/tickets/3", "/tickets/99"):
        request = WorldRequest("GET", target)
        real = agent.host.answer(request)
        assert agent.draft.read(request, *real) == real


def test_a_patched_record_reads_back_patched_over_what_is_real_now(agent: Any) -> None:
    agent.get("/tickets/3")
    said = agent.ask("PATCH", "/tickets/3", {"status": "closed", "extra": {"a": 1}}).json
    assert agent.get("/tickets/3").json == said
    agent.host.records["/tickets"][2]["subject"] = "changed by somebody else"
    read = agent.get("/tickets/3")
    assert read.json["subject"] == "changed by somebody else"
    assert read.json["status"] == "closed"
    assert read.json["updated_at"] > "2026-01-03T09:00:00Z"
    assert read.mark == "changed"
    agent.ask("PATCH", "/tickets/3", {"extra": {"b": 2}})
    assert agent.get("/tickets/3").json["extra"] == {"a": 1, "b": 2}
    assert agent.get("/tickets").json[2]["extra"] == {"a": 1, "b": 2}


def test_a_patch_of_what_was_never_read_shows_as_well(agent: Any) -> None:
    assert agent.ask("PATCH", "/tickets/3", {"status": "closed"}).json["status"] == "closed"
    read = agent.get("/tickets/3").json
    assert (read["subject"], read["status"]) == ("subject 3", "closed")


def test_a_merge_patch_removes_where_it_says_null_and_plain_json_sets_null(agent: Any) -> None:
    agent.get("/tickets/3")
    strict = "application/merge-patch+json"
    agent.ask("PATCH", "/tickets/3", {"tags": None}, content_type=strict)
    assert "tags" not in agent.get("/tickets/3").json
    agent.ask("PATCH", "/tickets/4", {"tags": None})
    assert agent.get("/tickets/4").json["tags"] is None


def test_a_json_patch_reads_back(agent: Any) -> None:
    patch = [{"op": "add", "path": "/tags/-", "value": "b"}, {"op": "remove", "path": "/status"}]
    agent.ask("PATCH", "/tickets/3", patch, content_type="application/json-patch+json")
    read = agent.get("/tickets/3").json
    assert read["tags"] == ["a", "b"]
    assert "status" not in read


def test_a_replaced_record_has_only_what_was_put_and_what_the_server_owns(agent: Any) -> None:
    agent.get("/tickets/3")
    agent.ask("PUT", "/tickets/3", {"subject": "whole"})
    read = agent.get("/tickets/3").json
    assert set(read) == {"id", "subject", "created_at", "updated_at"}
    assert (read["id"], read["subject"]) == (3, "whole")


def test_a_put_makes_what_the_host_does_not_have(agent: Any) -> None:
    agent.ask("PUT", "/tickets/77", {"subject": "mine"})
    assert agent.get("/tickets/77").json == {"id": "77", "subject": "mine"}
    agent.get("/tickets/88")
    agent.get("/tickets")
    agent.ask("PUT", "/tickets/88", {"subject": "mine"})
    assert agent.get("/tickets/88").json["subject"] == "mine"
    assert "mine" in [one["subject"] for one in agent.get("/tickets").json]


def test_a_deleted_record_is_gone_everywhere(agent: Any) -> None:
    agent.host.envelope = lambda items, _: {"tickets": items, "total": 5}
    agent.get("/tickets/99")
    assert agent.ask("DELETE", "/tickets/3").status == 204
    gone = agent.get("/tickets/3")
    assert (gone.status, gone.json) == (404, {"message": "no such thing here"})
    assert agent.ask("HEAD", "/tickets/3").status == 404
    assert agent.get("/tickets/3/comments").status == 404
    listed = agent.get("/tickets")
    assert _ids(listed, "tickets") == [1, 2, 4, 5]
    assert listed.json["total"] == 4
    assert len(agent.host.seen) == 2, "what is gone is not asked for"


def test_a_created_record_lives_its_whole_life_without_the_host(agent: Any) -> None:
    agent.get("/tickets")
    made = agent.ask("POST", "/tickets", {"subject": "new"}).json
    own = f"/tickets/{made['id']}"
    asked = len(agent.host.seen)
    assert agent.get(own).json == made
    assert agent.ask("HEAD", own).status == 200
    assert agent.ask("PATCH", own, {"status": "closed"}).json["status"] == "closed"
    assert agent.get(own).json["status"] == "closed"
    note = agent.ask("POST", f"{own}/comments", {"text": "hi"}).json
    assert _ids(agent.get(f"{own}/comments")) == [note["id"]]
    assert agent.get(f"{own}/comments/{note['id']}").json == note
    assert agent.get(f"/audits?ticket_id={made['id']}").json == []
    assert len(agent.host.seen) == asked
    assert agent.ask("DELETE", own).status == 204
    assert agent.get(own).status == 404
    assert agent.get(f"{own}/comments").status == 404
    assert _ids(agent.get("/tickets")) == [1, 2, 3, 4, 5]


def test_a_nested_record_shows_below_its_real_parent_only(agent: Any) -> None:
    agent.host.records["/tickets/1/comments"] = [{"id": 10, "ticket_id": 1, "text": "real"}]
    agent.host.records["/tickets/2/comments"] = [{"id": 20, "ticket_id": 2, "text": "other"}]
    agent.get("/tickets/1/comments")
    made = agent.ask("POST", "/tickets/2/comments", {"text": "hi"}).json
    assert made["ticket_id"] == 2
    assert _ids(agent.get("/tickets/2/comments")) == [20, made["id"]]
    assert _ids(agent.get("/tickets/1/comments")) == [10]


def test_the_same_record_below_something_else_is_patched_too(agent: Any) -> None:
    mine = [{**one, "user_id": 7} for one in agent.host.records["/tickets"][:2]]
    agent.host.records["/users/7/tickets"] = mine
    agent.get("/users/7/tickets")
    agent.get("/tickets")
    agent.ask("PATCH", "/tickets/1", {"status": "held"})
    agent.ask("DELETE", "/tickets/2")
    made = agent.ask("POST", "/tickets", {"subject": "new", "user_id": 7}).json
    agent.ask("POST", "/tickets", {"subject": "of another", "user_id": 8})
    listed = agent.get("/users/7/tickets").json
    assert [one["id"] for one in listed] == [1, made["id"]]
    assert listed[0]["status"] == "held"


@pytest.mark.parametrize(
    ("envelope", "key"),
    [
        (lambda items, _: items, None),
        (lambda items, _: {"tickets": items, "count": len(items)}, "tickets"),
        (lambda items, _: {"data": items, "has_more": False, "object": "list"}, "data"),
        (lambda items, _: {"results": items, "next": None, "meta": {"total": 5}}, "results"),
    ],
)
def test_a_created_record_is_in_the_list_whatever_the_envelope(
    agent: Any, envelope: Any, key: str | None
) -> None:
    agent.host.envelope = envelope
    agent.get("/tickets")
    made = agent.ask("POST", "/tickets", {"subject": "new"}).json
    listed = agent.get("/tickets")
    assert _ids(listed, key) == [1, 2, 3, 4, 5, made["id"]]
    if key == "tickets":
        assert listed.json["count"] == 6
    if key == "results":
        assert listed.json["meta"]["total"] == 6
    assert listed.mark == str(made["id"])


def test_the_newest_come_first_where_the_list_shows_it_so(agent: Any) -> None:
    agent.host.records["/tickets"].reverse()
    agent.get("/tickets")
    first = agent.ask("POST", "/tickets", {"subject": "a"}).json["id"]
    second = agent.ask("POST", "/tickets", {"subject": "b"}).json["id"]
    assert _ids(agent.get("/tickets")) == [second, first, 5, 4, 3, 2, 1]


def test_a_list_that_is_sorted_by_a_field_has_the_new_one_in_its_place(agent: Any) -> None:
    agent.get("/tickets")
    agent.ask("POST", "/tickets", {"subject": "subject 2b"})
    names = [one["subject"] for one in agent.get("/tickets?sort=subject").json]
    assert names == sorted(names)
    assert len(names) == 6


def test_filters_hold_for_created_and_for_changed_records(agent: Any) -> None:
    agent.get("/tickets")
    made = agent.ask("POST", "/tickets", {"subject": "n", "status": "open"}).json["id"]
    agent.ask("PATCH", "/tickets/3", {"status": "closed"})
    assert _ids(agent.get("/tickets?status=open")) == [1, 5, made]
    assert _ids(agent.get("/tickets?status=closed")) == [2, 3, 4]
    assert _ids(agent.get("/tickets?status=held")) == []


def _paged(items: list[Any], asked: dict[str, str]) -> Any:
    page, size = int(asked.get("page", 1)), int(asked.get("per_page", 2))
    here = items[(page - 1) * size : page * size]
    more = page * size < len(items)
    return {"items": here, "total": len(items), "next_page": page + 1 if more else None}


def test_a_created_record_is_on_one_page_only_and_counted_on_all(agent: Any) -> None:
    agent.host.envelope = _paged
    agent.get("/tickets?page=1")
    made = agent.ask("POST", "/tickets", {"subject": "new"}).json["id"]
    pages = [agent.get(f"/tickets?page={page}&per_page=2") for page in (1, 2, 3)]
    assert [_ids(page, "items") for page in pages] == [[1, 2], [3, 4], [5, made]]
    assert {page.json["total"] for page in pages} == {6}


def test_on_pages_with_the_newest_first_it_is_on_the_first(agent: Any) -> None:
    agent.host.envelope = _paged
    agent.host.records["/tickets"].reverse()
    agent.get("/tickets?page=1")
    made = agent.ask("POST", "/tickets", {"subject": "new"}).json["id"]
    pages = [agent.get(f"/tickets?page={page}&per_page=2") for page in (1, 2, 3)]
    assert [_ids(page, "items") for page in pages] == [[made, 5, 4], [3, 2], [1]]


def test_who_reads_until_a_page_is_empty_comes_to_an_end(agent: Any) -> None:
    agent.host.envelope = lambda items, asked: _paged(items, asked)["items"]
    agent.get("/tickets?page=1&per_page=2")
    made = agent.ask("POST", "/tickets", {"subject": "new"}).json["id"]
    found = []
    for page in range(1, 20):
        here = _ids(agent.get(f"/tickets?page={page}&per_page=2"))
        if not here:
            break
        found += here
    assert found == [1, 2, 3, 4, 5, made]


def test_link_headers_say_which_page_is_the_last(agent: Any) -> None:
    agent.get("/tickets")
    agent.ask("POST", "/tickets", {"subject": "new"})
    agent.host.headers = {"link": '</tickets?page=2>; rel="next"', "x-total-count": "9"}
    read = agent.get("/tickets")
    assert _ids(read) == [1, 2, 3, 4, 5]
    assert read.headers["x-total-count"] == "10"
    assert read.headers["link"] == '</tickets?page=2>; rel="next"'
    agent.host.headers = {"link": '</tickets?page=1>; rel="prev"'}
    assert len(_ids(agent.get("/tickets?page=2"))) == 6


def test_an_emptied_collection_is_empty(agent: Any) -> None:
    agent.get("/tickets")
    agent.ask("POST", "/tickets", {"subject": "before"})
    assert agent.ask("DELETE", "/tickets").status == 204
    assert agent.get("/tickets").json == []
    after = agent.ask("POST", "/tickets", {"subject": "after"}).json["id"]
    assert _ids(agent.get("/tickets")) == [after]


def test_a_search_below_the_collection_finds_by_words(draft: Make, agent: Any) -> None:
    agent.draft = draft(reads=["POST /tickets/search"])
    agent.host.records["/tickets/search"] = agent.host.records["/tickets"][:1]
    agent.get("/tickets")
    agent.ask("PATCH", "/tickets/1", {"status": "held"})
    made = agent.ask("POST", "/tickets", {"subject": "green elephant"}).json["id"]
    found = agent.get("/tickets/search?q=Elephant")
    assert _ids(found) == [1, made]
    assert found.json[0]["status"] == "held"
    assert _ids(agent.get("/tickets/search?q=giraffe")) == [1]
    assert _ids(agent.ask("POST", "/tickets/search", {"query": "x"})) == [1]


def test_another_record_is_not_taken_for_the_patched_one(agent: Any) -> None:
    agent.host.records["/tickets"] = [
        {"id": 7, "number": 3, "a": 1},
        {"id": 8, "number": 4, "a": 1},
    ]
    agent.ask("PATCH", "/tickets/3", {"a": 2})
    assert agent.get("/tickets/7").json["a"] == 1
    assert [one["a"] for one in agent.get("/tickets").json] == [1, 1]


def test_conditions_are_about_what_the_agent_was_shown(agent: Any) -> None:
    agent.get("/tickets/3")
    agent.ask("PATCH", "/tickets/3", {"status": "closed"})
    read = agent.get("/tickets/3", if_none_match='"real"')
    assert read.status == 200
    assert agent.host.seen[-1].headers == []
    assert "last-modified" not in read.headers
    again = agent.get("/tickets/3", if_none_match=read.headers["etag"])
    assert (again.status, again.raw) == (304, b"")
    made = agent.ask("POST", "/tickets", {"subject": "x"})
    own = f"/tickets/{made.json['id']}"
    assert agent.get(own, if_none_match=made.headers["etag"]).status == 304
    agent.ask("PATCH", own, {"subject": "y"})
    assert agent.get(own, if_none_match=made.headers["etag"]).status == 200


def test_a_304_of_the_host_is_not_passed_on_for_a_patched_record(agent: Any) -> None:
    agent.get("/tickets/3")
    agent.ask("PATCH", "/tickets/3", {"status": "closed"})
    request = WorldRequest("GET", "/tickets/3", headers=[(b"if-none-match", b'"real"')])
    status, _, body = agent.draft.read(request, 304, [(b"etag", b'"real"')], b"")
    assert (status, json.loads(body)["status"]) == (200, "closed")
    status, _, body = agent.draft.read(WorldRequest("GET", "/tickets"), 304, [], b"")
    assert status == 502


def test_head_of_a_patched_record_has_no_tag_and_length_of_the_real_one(agent: Any) -> None:
    agent.ask("PATCH", "/tickets/3", {"status": "closed"})
    real = [(b"etag", b'"real"'), (b"content-length", b"7"), (b"x-other", b"1")]
    status, headers, body = agent.draft.read(WorldRequest("HEAD", "/tickets/3"), 200, real, b"")
    assert (status, body) == (200, b"")
    assert dict(headers) == {b"x-other": b"1", b"x-paddock-shadow": b"changed"}


@pytest.mark.parametrize(
    ("kind", "body"),
    [
        ("text/html", b"<p>3</p>"),
        ("application/json", b"{broken"),
        ("application/json", b"[NaN]"),
        ("application/json", b"[" * 100_000),
        ("application/json", b'{"a":' * 950 + b"1" + b"}" * 950),
        ("application/json", b'"text"'),
        ("application/json", b'{"a": "\\ud800"}'),
    ],
)
def test_what_is_not_understood_is_passed_on_untouched(agent: Any, kind: str, body: bytes) -> None:
    headers = [(b"content-type", kind.encode())]
    agent.ask("POST", "/tickets", {"subject": "new"})
    for path in ("/tickets", "/tickets/3"):
        assert agent.draft.read(WorldRequest("GET", path), 200, headers, body)[2] == body


def test_what_is_learned_has_a_limit(agent: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("paddock.world.services.draft.memory._MAX_LEARNED", 30)
    monkeypatch.setattr("paddock.world.services.draft.memory._MAX_PAGES", 5)
    for number in range(50):
        agent.host.records["/tickets"][0]["subject"] = f"now {number}"
        agent.get(f"/tickets?page={number}")
    store = agent.draft.context.store
    assert store.count("page") == 5
    assert store.position() < 300
    agent.host.records["/tickets"] = [{"id": 1, "text": "x" * 100_000}]
    agent.get("/tickets")
    assert agent.ask("PATCH", "/tickets/1", {"a": 1}).status == 200


def test_a_rewound_store_forgets_the_writes(agent: Any) -> None:
    agent.draft.context.store.seal()
    agent.get("/tickets")
    made = agent.ask("POST", "/tickets", {"subject": "new"}).json["id"]
    agent.ask("DELETE", "/tickets/3")
    agent.draft.context.store.reset()
    assert _ids(agent.get("/tickets")) == [1, 2, 3, 4, 5]
    assert agent.draft.requests() == []
    assert agent.get(f"/tickets/{made}").status == 404
