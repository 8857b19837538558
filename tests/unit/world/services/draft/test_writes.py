"""What a draft keeps, and what it answers to a write."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from paddock.model.errors import InvalidInput
from paddock.world.asgi import WorldRequest, call
from paddock.world.services.draft import DraftService
from paddock.world.store import STEP

Make = Callable[..., DraftService]


def test_a_new_record_is_answered_in_the_shape_of_its_siblings(agent: Any) -> None:
    agent.get("/tickets")
    said = agent.ask("POST", "/tickets", {"subject": "new"})
    assert said.status == 201
    made = said.json
    assert list(made) == ["id", "subject", "status", "tags", "created_at", "updated_at"]
    assert made["subject"] == "new"
    assert made["status"] == "open"
    assert made["tags"] == []
    assert made["created_at"] > "2026-01-05T08:00:00Z"
    assert said.headers["location"] == f"/tickets/{made['id']}"


@pytest.mark.parametrize(
    ("ids", "looks"),
    [
        ([1, 2], lambda id: isinstance(id, int) and 9_000_000_000_000_000 < id < 2**53),
        (["1", "2"], lambda id: isinstance(id, str) and int(id) > 9_000_000_000_000_000),
        (["cus_1a2B3c4D", "cus_9z8Y7x6W"], lambda id: id.startswith("cus_shadow_")),
        (["alpha", "beta"], lambda id: id.startswith("shadow_")),
        (
            ["3f2b8c1e-9a4d-4e6f-8b7a-1c2d3e4f5a6b", "aaaaaaaa-9a4d-4e6f-8b7a-1c2d3e4f5a6b"],
            lambda id: id.startswith("5ad00000-0000-8000-8000-"),
        ),
    ],
)
def test_the_id_of_a_new_record_has_the_style_of_the_others_and_a_mark(
    agent: Any, ids: list[Any], looks: Callable[[Any], bool]
) -> None:
    agent.host.records = {"/things": [{"id": id, "name": "n"} for id in ids]}
    agent.get("/things")
    made = agent.ask("POST", "/things", {"name": "x"})
    assert looks(made.json["id"])
    assert made.mark == str(made.json["id"])
    assert agent.get(f"/things/{made.json['id']}").json == made.json


def test_a_record_of_an_unknown_kind_is_echoed_with_a_shadow_id(agent: Any) -> None:
    made = agent.ask("POST", "/notes", {"text": "hello"}).json
    assert made.pop("id").startswith("shadow_")
    assert made == {"text": "hello"}


def test_no_write_reaches_the_real_host(agent: Any) -> None:
    for method in ("POST", "PUT", "PATCH", "DELETE", "PURGE", "get"):
        agent.ask(method, "/tickets/1", {"status": "closed"})
    assert agent.host.seen == []


def test_requests_are_kept_in_order_without_credentials(agent: Any) -> None:
    token = STEP.set(4)
    try:
        agent.ask("POST", "/tickets?api_key=hush&x=1", {"subject": "new"}, cookie="a=hush",
                  authorization="hush", x_api_key="hush", x_team="7",
                  idempotency_key="k1")  # fmt: skip
    finally:
        STEP.reset(token)
    agent.ask("DELETE", "/tickets/3", authorization="hush")
    first, second = agent.draft.requests()
    assert (first["order"], first["step"], first["method"]) == (1, 4, "POST")
    assert first["url"] == "https://tickets.example/tickets?api_key=...&x=1"
    assert first["body"] == {"subject": "new"}
    assert first["headers"] == {
        "content-type": "application/json", "x-team": "7", "idempotency-key": "k1",
    }  # fmt: skip
    assert (second["method"], second["url"]) == ("DELETE", "https://tickets.example/tickets/3")
    assert "hush" not in json.dumps(agent.draft.show()) + json.dumps(agent.draft.requests())


def test_bytes_and_forms_are_kept_as_they_were_sent(agent: Any) -> None:
    form = "application/x-www-form-urlencoded"
    agent.ask("POST", "/v1/customers", b"name=A+B&metadata[k]=1", content_type=form)
    agent.ask("POST", "/files", b"\xff\xfe\x00", content_type="application/octet-stream")
    first, second = agent.draft.requests()
    assert first["body"] == "name=A+B&metadata[k]=1"
    assert second["body"] == {"base64": "//4A"}


def test_a_form_is_answered_in_the_types_of_the_records(agent: Any) -> None:
    agent.host.records = {"/v1/charges": [{"id": "ch_1a2b3c4d", "amount": 5, "livemode": False}]}
    agent.get("/v1/charges")
    form = "application/x-www-form-urlencoded"
    said = agent.ask("POST", "/v1/charges", b"amount=250&metadata[order]=7", content_type=form).json
    assert said["amount"] == 250
    assert said["metadata"] == {"order": "7"}
    assert said["livemode"] is False


def test_the_same_idempotency_key_is_one_write(agent: Any) -> None:
    first = agent.ask("POST", "/tickets", {"subject": "a"}, idempotency_key="k")
    again = agent.ask("POST", "/tickets", {"subject": "a"}, idempotency_key="k")
    other = agent.ask("POST", "/tickets", {"subject": "b"}, idempotency_key="k")
    assert first.json == again.json
    assert other.status == 409
    assert len(agent.draft.requests()) == 1


def test_a_key_that_is_not_the_id_names_the_new_record_too(agent: Any) -> None:
    agent.host.key = "number"
    agent.host.records = {
        "/repos/o/r/issues": [{"id": 900 + n, "number": n, "title": "t"} for n in (1, 2)]
    }
    agent.get("/repos/o/r/issues/2")
    agent.get("/repos/o/r/issues")
    made = agent.ask("POST", "/repos/o/r/issues", {"title": "new"})
    assert made.json["id"] != made.json["number"]
    assert agent.get(f"/repos/o/r/issues/{made.json['number']}").json["title"] == "new"
    agent.ask("PATCH", "/repos/o/r/issues/1", {"title": "other"})
    assert [one["title"] for one in agent.get("/repos/o/r/issues").json] == ["other", "t", "new"]


def test_wrapped_records_are_unwrapped_and_answered_wrapped(agent: Any) -> None:
    agent.host.wrap = lambda record: {"ticket": record}
    agent.host.envelope = lambda items, _: {"tickets": items, "count": len(items)}
    agent.get("/tickets/3.json")
    agent.get("/tickets.json")
    assert agent.ask("PATCH", "/tickets/3.json", {"ticket": {"status": "solved"}}).json[
        "ticket"
    ]["status"] == "solved"  # fmt: skip
    assert agent.get("/tickets/3.json").json["ticket"]["status"] == "solved"
    made = agent.ask("POST", "/tickets.json", {"ticket": {"subject": "x"}}).json["ticket"]
    assert made["subject"] == "x" and "ticket" not in made
    listed = agent.get("/tickets.json").json
    assert listed["count"] == 6
    assert listed["tickets"][-1] == made


def test_several_records_in_one_request_are_several_records(agent: Any) -> None:
    agent.get("/tickets")
    made = agent.ask("POST", "/tickets", [{"subject": "a"}, {"subject": "b"}]).json
    assert [one["subject"] for one in made] == ["a", "b"]
    assert [one["id"] for one in agent.get("/tickets").json[-2:]] == [one["id"] for one in made]


def test_an_action_answers_with_the_record_that_was_read(agent: Any) -> None:
    agent.get("/tickets/3")
    agent.get("/tickets")
    said = agent.ask("POST", "/tickets/3/close")
    assert (said.status, said.json["id"], said.json["status"]) == (200, 3, "closed")
    assert agent.get("/tickets/3").json["status"] == "closed"


def test_an_action_changes_nothing_that_the_records_have_not_shown(agent: Any) -> None:
    agent.get("/tickets/3")
    said = agent.ask("POST", "/tickets/3/escalate", {"to": "boss"})
    assert said.json == agent.host.records["/tickets"][2]
    assert len(agent.draft.requests()) == 1
    assert agent.get("/tickets/3").mark == ""


def test_writes_to_what_is_not_there_are_refused_in_the_words_of_the_host(agent: Any) -> None:
    agent.get("/tickets/99")
    agent.ask("DELETE", "/tickets/3")
    for target in ("/tickets/99", "/tickets/3", "/tickets/3/comments", "/tickets/shadow_no"):
        said = agent.ask("POST" if "comm" in target else "PATCH", target, {"a": 1})
        assert (said.status, said.json) == (404, {"message": "no such thing here"}), target
    assert len(agent.draft.requests()) == 1


def test_a_json_patch_whose_test_fails_is_a_conflict_and_not_kept(agent: Any) -> None:
    agent.get("/tickets/3")
    patch = [{"op": "test", "path": "/status", "value": "closed"},
             {"op": "replace", "path": "/status", "value": "open"}]  # fmt: skip
    said = agent.ask("PATCH", "/tickets/3", patch, content_type="application/json-patch+json")
    assert said.status == 409
    assert agent.draft.requests() == []
    assert agent.get("/tickets/3").mark == ""


def test_if_match_is_judged_by_the_tag_that_the_agent_was_shown(agent: Any) -> None:
    shown = agent.get("/tickets/3").headers["etag"]
    assert agent.ask("PATCH", "/tickets/3", {"a": 1}, if_match='"other"').status == 412
    first = agent.ask("PATCH", "/tickets/3", {"a": 1}, if_match=shown)
    assert first.status == 200
    assert agent.ask("PATCH", "/tickets/3", {"a": 2}, if_match=shown).status == 412
    now = agent.get("/tickets/3").headers["etag"]
    assert now == first.headers["etag"] != shown
    assert agent.ask("PUT", "/tickets/3", {"a": 3}, if_match=now).status == 200
    assert agent.ask("PUT", "/tickets/3", {"a": 3}, if_none_match="*").status == 412


def test_an_openapi_document_answers_writes(draft: Make, agent: Any, tmp_path: Path) -> None:
    answer = {
        "type": "object",
        "required": ["id", "text", "state"],
        "properties": {
            "id": {"type": "integer"},
            "text": {"type": "string"},
            "state": {"type": "string", "enum": ["unread", "read"]},
        },
    }
    body = {"application/json": {"schema": {**answer, "required": ["text"]}}}
    said = {"description": "ok", "content": {"application/json": {"schema": answer}}}
    document = {
        "openapi": "3.0.3",
        "info": {"title": "notes", "version": "1"},
        "paths": {
            "/notes": {
                "post": {"requestBody": {"content": body}, "responses": {"201": said}},
            },
            "/notes/{id}": {
                "parameters": [
                    {"name": "id", "in": "path", "required": True, "schema": {"type": "integer"}}
                ],
                "get": {"responses": {"200": said}},
                "delete": {"responses": {"202": {"description": "later"}}},
            },
        },
    }
    (tmp_path / "api.json").write_text(json.dumps(document))
    agent.draft = draft(spec="api.json")
    made = agent.ask("POST", "/notes", {"text": "hi"})
    assert made.status == 201
    assert made.json["state"] in ("unread", "read")
    assert made.json["id"] > 9_000_000_000_000_000
    assert agent.get(f"/notes/{made.json['id']}").json == made.json
    assert 400 <= agent.ask("POST", "/notes", {"text": 7}).status < 500
    assert agent.ask("DELETE", "/notes/12").status == 202
    assert len(agent.draft.requests()) == 2


@pytest.mark.parametrize(
    "options",
    [
        {"upstream": "https://else.example"},
        {"writes": ["tickets"]},
        {"reads": "POST /search"},
        {"spec": "not-there.json"},
    ],
)
def test_options_that_make_no_sense_are_refused(draft: Make, options: dict[str, Any]) -> None:
    with pytest.raises(InvalidInput):
        draft(**options)


def test_the_same_requests_leave_the_same_state(draft: Make, agent: Any) -> None:
    digests = set()
    for _ in range(3):
        agent.draft = draft()
        agent.get("/tickets")
        made = agent.ask("POST", "/tickets", {"subject": "new"}).json
        agent.ask("POST", f"/tickets/{made['id']}/comments", {"text": "hi"})
        agent.ask("PATCH", "/tickets/3", {"status": "closed"})
        agent.get("/tickets?status=closed")
        digests.add(agent.draft.context.store.digest())
    assert len(digests) == 1


def test_a_refused_or_failing_write_leaves_nothing_behind(agent: Any) -> None:
    before = agent.draft.context.store.digest()
    deep = b'{"a":' * 900 + b"1" + b"}" * 900
    said = agent.ask("PATCH", "/tickets/3", deep)
    assert said.status == 400
    assert agent.draft.context.store.digest() == before
    assert agent.ask("POST", "/tickets", b'{"a":"\\ud800"}').status == 201


async def _post(draft: DraftService) -> int:
    request = WorldRequest("POST", "/tickets", body=b'{"subject":"x"}',
                           headers=[(b"content-type", b"application/json")])  # fmt: skip
    app = draft.app()
    made = await call(app, request)
    id = json.loads(made.body if isinstance(made.body, bytes) else b"")["id"]
    assert (await call(app, WorldRequest("GET", f"/tickets/{id}"))).status == 200
    return (await call(app, WorldRequest("GET", "/tickets"))).status


def test_as_an_application_it_answers_all_but_real_reads(draft: Make) -> None:
    import asyncio

    assert asyncio.run(_post(draft())) == 502
