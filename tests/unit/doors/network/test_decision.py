"""Requests at the gate: what counts as a write, what an approver may change, what is told."""

from __future__ import annotations

import asyncio
import hashlib
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from paddock.doors.network import model_actions
from paddock.doors.network import request as requests
from paddock.doors.network.transport.pool import ServerConnection, ServerEndpoint
from paddock.model.action import Effect
from paddock.model.events import Proposed
from unit.doors.network.doorway import (
    HOST,
    KEY,
    VALUE,
    Doorway,
    Server,
    Told,
    doorway,
    ok,
    origin,
    staged,
    written,
)

JSON = "Content-Type: application/json"
ASK = {"id": "ask", "match": {"kind": "http", "method": ["POST", "HEAD", "GET"]}, "decide": "ask"}


def _graphql(server: Server) -> dict[str, Any]:
    """A network with a declared GraphQL endpoint."""
    return {**staged(server), "graphql": [f"{HOST}/graphql"]}


def _proposed(way: Doorway) -> Proposed:
    proposed = way.steps("http")[0].proposed
    assert proposed is not None
    return proposed


@pytest.mark.parametrize(
    ("head", "body"),
    [
        ("DELETE /v1/customers/5", b'{"query":"{a}"}'),
        ("POST /v1/accounts/5/close", b'{"query":"{a}"}'),
        ("PUT /graphql", b'{"query":"{a}"}'),
        ("POST /graphql?query=mutation%7Bdrop%7D", b'{"query":"{a}"}'),
        ("POST /graphql?query=%7Ba%7D", b'{"query":"mutation{drop}"}'),
        ("POST /graphql?query=%7Ba%7D", b'{"query":"{a}","query":"mutation{drop}"}'),
        ("GET /graphql?query=%7Ba%7D", b'{"query":"mutation{drop}"}'),
        ("POST /graphql", b'{"query":"{a}","delete":true}'),
        ("POST /graphql", b'[{"query":"{a}"}]'),
        ("POST /orders/5/cancel/graphql", b'{"query":"{a}"}'),
    ],
)
def test_a_body_that_says_query_does_not_make_a_write_a_read(
    tmp_path: Path, head: str, body: bytes
) -> None:
    async def play() -> None:
        async with origin() as server, doorway(tmp_path, _graphql(server), stage="observe") as way:
            told = await way.ask(f"{head}\n{JSON}", body)
            assert (told.status, server.seen) == (403, [])
            assert _proposed(way).effect is Effect.WRITE

    asyncio.run(play())


def test_a_body_that_no_rule_can_read_does_not_make_a_read_of_the_address(tmp_path: Path) -> None:
    async def play() -> None:
        async with origin() as server, doorway(tmp_path, _graphql(server), stage="observe") as way:
            plain = "POST /graphql?query=%7Ba%7D\nContent-Type: text/plain"
            assert (await way.ask(plain, b'{"query":"mutation{drop}"}')).status == 403
            form = "POST /graphql\nContent-Type: application/x-www-form-urlencoded"
            assert (await way.ask(form, b"query=%7Ba%7D")).status == 403
            assert server.seen == []

    asyncio.run(play())


def test_a_post_to_an_endpoint_that_nobody_declared_is_a_write(tmp_path: Path) -> None:
    async def play() -> None:
        async with origin() as server, doorway(tmp_path, staged(server), stage="observe") as way:
            assert (await way.ask(f"POST /graphql\n{JSON}", b'{"query":"{a}"}')).status == 403
            assert server.seen == []

    asyncio.run(play())


@pytest.mark.parametrize(
    "head", ["GET /q", "HEAD /q", "OPTIONS /graphql", "TRACE /q", "GET /%71", "GET /graphql;a"]
)
def test_a_mutation_in_an_address_is_a_write(tmp_path: Path, head: str) -> None:
    async def play() -> None:
        async with origin() as server:
            network = {**staged(server), "graphql": [f"{HOST}/q"]}
            async with doorway(tmp_path, network, stage="observe") as way:
                told = await way.ask(f"{head}?query=mutation%7Bdrop%7D")
                assert (told.status, server.seen) == (403, [])
                assert _proposed(way).effect is Effect.WRITE

    asyncio.run(play())


def test_a_mutation_by_get_is_a_write_whatever_its_body(tmp_path: Path) -> None:
    async def play() -> None:
        async with origin() as server:
            network = {**staged(server), "graphql": [f"{HOST}/q"]}
            async with doorway(tmp_path, network, stage="observe") as way:
                get = "GET /q?query=mutation%7Bdrop%7D"
                assert (await way.ask(f"{get}\nContent-Type: text/plain", b"x")).status == 403
                assert (await way.ask(f"{get}\n{JSON}", b"{}")).status == 403
                long = b'"' + b"x" * requests.MAX_READ_BODY + b'"'
                assert (await way.ask(f"{get}\n{JSON}", long)).status == 403
                assert server.seen == []
                assert (await way.ask("GET /q?query=%7Ba%7D")).status == 200
                assert (await way.ask("OPTIONS /q")).status == 200

    asyncio.run(play())


def test_a_query_of_an_endpoint_for_queries_is_a_read(tmp_path: Path) -> None:
    async def play() -> None:
        async with origin() as server, doorway(tmp_path, _graphql(server), stage="observe") as way:
            assert (await way.ask(f"POST /graphql\n{JSON}", b'{"query":"{a}"}')).status == 200
            assert (await way.ask("GET /graphql?query=%7Ba%7D")).status == 200
            assert (await way.ask("GET /things")).status == 200
            assert way.alerts == []

    asyncio.run(play())


@pytest.mark.parametrize(
    "field",
    [
        "X-HTTP-Method-Override: DELETE",
        "x-http-method: DELETE",
        "X-Method-Override: delete",
        "X-HTTP-Method-Override: GET\nX-HTTP-Method-Override: DELETE",
        "X-HTTP-Method-Override: ",
    ],
)
def test_a_method_that_hides_behind_another_is_refused(tmp_path: Path, field: str) -> None:
    async def play() -> None:
        async with origin() as server, doorway(tmp_path, staged(server)) as way:
            told = await way.ask(f"GET /v1/customers/6\n{field}")
            assert (told.status, server.seen) == (403, [])
            assert way.deciders("http") == ["protocol"]
            assert "taken for" in told.error["message"]

    asyncio.run(play())


def test_a_method_that_is_said_twice_is_no_other_method(tmp_path: Path) -> None:
    async def play() -> None:
        async with origin() as server, doorway(tmp_path, staged(server)) as way:
            told = await way.ask("GET /v1/customers/6\nX-HTTP-Method-Override: get")
            assert (told.status, len(server.seen)) == (200, 1)

    asyncio.run(play())


Edit = Callable[[dict[str, Any]], object]


def _edited(
    tmp_path: Path, head: str, body: bytes, *edits: Edit, **words: Any
) -> tuple[Told, Server, list[Any]]:
    """What came of a request that an approver edited, one edit for each time that it is asked."""
    rules = words.pop("rules", [ASK])

    async def play() -> tuple[Told, Server, list[Any]]:
        async with origin() as server, doorway(tmp_path, staged(server), *rules, **words) as way:
            asking = asyncio.ensure_future(way.ask(head, body))
            for edit in edits:
                one = await way.asked()
                arguments = json.loads(json.dumps(dict(one.content["arguments"])))
                edit(arguments)
                way.gate.approvals.edit(one.approval_id, "ann", arguments)
            told = await asking
            return told, server, way.steps("http")

    return asyncio.run(play())


def _reason(step: Any) -> str:
    return str(step.error)


@pytest.mark.parametrize(
    ("edit", "what"),
    [
        (lambda w: w["headers"].update({"x-mode": "test"}), "headers"),
        (lambda w: w.update(scheme="https"), "scheme"),
        (lambda w: w.update(upgrade="websocket"), "upgrade"),
        (lambda w: w.update(amount=1), "amount"),
        (lambda w: w.pop("headers"), "headers"),
    ],
)
def test_what_an_edit_cannot_change_is_refused_and_named(
    tmp_path: Path, edit: Edit, what: str
) -> None:
    head = f"POST /pay\n{JSON}\nX-Mode: live"
    told, server, steps = _edited(tmp_path, head, b'{"amount":9000}', edit)
    assert (told.status, server.seen) == (403, [])
    assert told.error["message"] == f"{what} of a request cannot be edited."
    assert len(steps) == 1
    assert _reason(steps[0]) == told.error["message"]


@pytest.mark.parametrize(
    "edit",
    [
        lambda w: w.update(port="many"),
        lambda w: w.update(port=None),
        lambda w: w.update(path="nopath"),
        lambda w: w.update(path="/a HTTP/1.1\r\nX-Evil: 1\r\n\r\nGET /b"),
        lambda w: w.update(path=None),
        lambda w: w.update(query="a b\r\nX: 1"),
        lambda w: w.update(method="GET /evil"),
        lambda w: w.update(method="GET\r\nX: 1"),
        lambda w: w.pop("method"),
        lambda w: w.update(host=""),
        lambda w: w.update(host="a b"),
        lambda w: w.pop("host"),
    ],
)
def test_an_edit_that_makes_no_request_sends_nothing(tmp_path: Path, edit: Edit) -> None:
    told, server, _ = _edited(tmp_path, f"POST /pay\n{JSON}", b'{"amount":9000}', edit)
    assert told.status in (400, 403, 502)
    assert server.seen == []


def test_an_edited_body_is_what_is_sent_and_what_is_recorded(tmp_path: Path) -> None:
    head = f"POST /pay\n{JSON}"
    told, server, steps = _edited(
        tmp_path, head, b'{"amount": 9000}', lambda w: w.update(body={"amount": 300})
    )
    sent = b'{"amount":300}'
    assert (told.status, [one.body for one in server.seen]) == (200, [sent])
    said = steps[1].arguments
    assert said["body"] == {"amount": 300}
    assert said["body_bytes"] == len(sent)
    assert said["body_sha256"] == hashlib.sha256(sent).hexdigest()


def test_true_in_the_place_of_one_is_an_edit(tmp_path: Path) -> None:
    head = f"POST /pay\n{JSON}"
    _, server, _ = _edited(tmp_path, head, b'{"n":1}', lambda w: w.update(body={"n": True}))
    assert [one.body for one in server.seen] == [b'{"n":true}']


def test_a_body_that_was_taken_out_is_not_sent(tmp_path: Path) -> None:
    head = f"POST /pay\n{JSON}"
    told, server, steps = _edited(tmp_path, head, b'{"amount":9000}', lambda w: w.pop("body"))
    assert (told.status, [one.body for one in server.seen]) == (200, [b""])
    assert not {"body", "body_bytes", "body_sha256"} & set(steps[1].arguments)


def test_a_form_stays_a_form(tmp_path: Path) -> None:
    head = "POST /pay\nContent-Type: application/x-www-form-urlencoded"
    told, server, _ = _edited(
        tmp_path, head, b"amount=5&to=a", lambda w: w["body"].update(amount="3")
    )
    assert (told.status, [one.body for one in server.seen]) == (200, [b"amount=3&to=a"])


def test_a_text_in_the_place_of_a_form_is_refused(tmp_path: Path) -> None:
    head = "POST /pay\nContent-Type: application/x-www-form-urlencoded"
    told, server, _ = _edited(tmp_path, head, b"amount=5", lambda w: w.update(body="amount=3"))
    assert (told.status, server.seen) == (403, [])
    assert "form" in told.error["message"]


def test_where_a_request_goes_can_be_edited(tmp_path: Path) -> None:
    def edit(words: dict[str, Any]) -> None:
        words.update(method="PUT", path="/other", query="a=1")

    _, server, steps = _edited(tmp_path, f"POST /pay\n{JSON}", b'{"a":1}', edit)
    assert server.lines == ["PUT /other?a=1 HTTP/1.1"]
    assert steps[1].name == f"PUT {HOST}"


def test_an_edit_to_a_host_that_is_not_allowed_is_refused(tmp_path: Path) -> None:
    told, server, steps = _edited(
        tmp_path, f"POST /pay\n{JSON}", b'{"a":1}', lambda w: w.update(host="evil.example")
    )
    assert (told.status, server.seen) == (403, [])
    assert steps[1].decided_by == "network"


def test_a_read_that_is_edited_to_a_write_is_decided_on_as_a_write(tmp_path: Path) -> None:
    told, server, steps = _edited(
        tmp_path, "GET /things/1", b"", lambda w: w.update(method="DELETE"), stage="observe"
    )
    assert (told.status, server.seen) == (403, [])
    assert [s.proposed.effect for s in steps] == ["read", "write"]
    assert [s.name for s in steps] == [f"GET {HOST}", f"DELETE {HOST}"]


def test_a_second_edit_keeps_what_the_first_one_changed(tmp_path: Path) -> None:
    again = {"id": "again", "match": {"kind": "http", "path": "/small"}, "decide": "ask"}

    def first(words: dict[str, Any]) -> None:
        words.update(path="/small", body={"amount": 300})

    told, server, steps = _edited(
        tmp_path,
        f"POST /pay\n{JSON}",
        b'{"amount":9000}',
        first,
        lambda w: w.update(path="/smaller"),
        rules=[ASK, again],
    )
    assert (told.status, server.lines) == (200, ["POST /smaller HTTP/1.1"])
    assert server.seen[0].body == b'{"amount":300}'
    said = steps[-1].arguments
    assert said["body_sha256"] == hashlib.sha256(server.seen[0].body).hexdigest()


class _Broken(Exception):
    """Of ours, with a word about the host in it."""


@pytest.mark.parametrize("error", [_Broken("/root/.paddock/keys"), OSError(5, "/root/disk")])
def test_what_fails_in_here_is_not_told_to_the_agent(tmp_path: Path, error: Exception) -> None:
    async def take(place: ServerEndpoint, **_: bool) -> ServerConnection:
        raise error

    async def play() -> None:
        async with origin() as server, doorway(tmp_path, staged(server)) as way:
            way.door.context.pool.take = take  # type: ignore[method-assign]
            told = await way.ask("GET /a")
            assert told.status == 502
            assert told.error["message"] == "The request could not be carried out."
            assert b"/root" not in told.head.encode() + told.body
            (step,) = await way.settled("http")
            assert step.settled is not None
            assert "/root" in (step.error or "")

    asyncio.run(play())


def test_a_question_that_the_terms_outlived_says_so(tmp_path: Path) -> None:
    async def play() -> None:
        async with origin() as server, doorway(tmp_path, staged(server), ASK) as way:
            client = await way.dial()
            await client.send(written("GET /a"))
            one = await way.asked()
            network = staged(server)
            way.update(**{**network, "allow": [*network["allow"], "more.example:80"]})
            way.gate.approvals.approve(one.approval_id, "ann")
            told = await client.told()
            assert (told.status, server.seen) == (403, [])
            assert told.error["message"] == "The terms changed while it was asked. Try it again."
            retried = asyncio.ensure_future(way.ask("GET /a"))
            one = await way.asked()
            way.gate.approvals.approve(one.approval_id, "ann")
            assert (await retried).status == 200

    asyncio.run(play())


def test_allowed_refused_and_broken_requests_raise_no_alert(tmp_path: Path) -> None:
    rule = {"id": "no", "match": {"kind": "http", "method": "DELETE"}, "decide": "block"}

    async def play() -> None:
        async with (
            origin(lambda one: None if "/die" in one.line else ok(one)) as server,
            doorway(tmp_path, staged(server), rule, secrets=KEY) as way,
        ):
            assert (await way.ask("GET /a")).status == 200
            assert (await way.ask("POST /a", b"text")).status == 200
            assert (await way.ask("GET /die")).status == 502
            assert (await way.ask("DELETE /a")).status == 403
            assert f"Authorization: Bearer {VALUE}" in server.seen[0].head
            assert way.alerts == []

    asyncio.run(play())


CHAT = {"model": "m", "messages": [{"role": "user", "content": [{"type": ["text"], "text": "a"}]}]}


def test_a_question_to_a_model_with_odd_types_in_it_is_a_step(tmp_path: Path) -> None:
    async def play() -> None:
        async with origin() as server, doorway(tmp_path, staged(server)) as way:
            head = f"POST /v1/chat/completions\n{JSON}"
            assert (await way.ask(head, json.dumps(CHAT).encode())).status == 200
            (step,) = await way.settled("model")
            assert step.settled is not None

    asyncio.run(play())


def test_a_request_that_our_reader_fails_on_is_a_step_that_was_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(*_: Any) -> Any:
        raise TypeError("unhashable type: 'list'")

    async def play() -> None:
        async with origin() as server, doorway(tmp_path, staged(server)) as way:
            head = f"POST /v1/chat/completions\n{JSON}"
            monkeypatch.setattr(model_actions, "describe_request", fail)
            assert (await way.ask(head, json.dumps(CHAT).encode())).status == 403
            monkeypatch.setattr(requests, "parse", fail)
            assert (await way.ask(head, b"{}")).status == 403
            assert (server.seen, way.deciders("http")) == ([], ["protocol", "protocol"])

    asyncio.run(play())


QUESTION = json.dumps({"model": "gpt-4o", "messages": [{"role": "user", "content": "hi"}]}).encode()
COMPLETIONS = f"POST /v1/chat/completions\n{JSON}"


def _fault(**words: Any) -> dict[str, Any]:
    return {"id": "busy", "match": {"kind": "http"}, "fault": {"status": 429}, **words}


@pytest.mark.parametrize("words", [{}, {"faults": [_fault(step=1000)]}])
def test_a_fault_that_does_not_strike_leaves_a_question_one_step(
    tmp_path: Path, words: dict[str, Any]
) -> None:
    async def play() -> None:
        async with origin() as server, doorway(tmp_path, staged(server), **words) as way:
            assert (await way.ask(COMPLETIONS, QUESTION)).status == 200
            await way.settled("model")
            assert (len(way.steps("model")), len(way.steps("http"))) == (1, 0)

    asyncio.run(play())


def test_a_fault_on_requests_strikes_a_question_as_the_step_that_it_is(tmp_path: Path) -> None:
    async def play() -> None:
        faults = [_fault(first=1)]
        async with origin() as server, doorway(tmp_path, staged(server), faults=faults) as way:
            statuses = [(await way.ask(COMPLETIONS, QUESTION)).status for _ in range(2)]
            await way.settled("model", 2)
            assert (statuses, len(server.seen)) == ([429, 200], 1)
            assert (len(way.steps("model")), len(way.steps("http"))) == (2, 0)
            first = way.steps("model")[0]
            assert first.decided is not None
            assert first.fault["id"] == "busy"

    asyncio.run(play())


def test_an_answer_that_a_fault_on_requests_spoils_is_that_of_the_question(tmp_path: Path) -> None:
    async def play() -> None:
        faults = [_fault(fault={"after": 504})]
        async with origin() as server, doorway(tmp_path, staged(server), faults=faults) as way:
            assert (await way.ask(COMPLETIONS, QUESTION)).status == 504
            assert len(server.seen) == 1
            await way.settled("model")
            assert (len(way.steps("model")), len(way.steps("http"))) == (1, 0)

    asyncio.run(play())
