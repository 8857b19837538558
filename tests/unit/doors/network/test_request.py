"""A request becomes the action that rules see: nothing in it can be read in two ways."""

from __future__ import annotations

import asyncio
import hashlib
import json
import threading
from collections.abc import AsyncIterator
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

from cases import for_each
from paddock.doors.network import request as requests
from paddock.doors.network.bodies.memory import BodyMemory
from paddock.doors.network.exchange import Body, BufferedBody, Headers, HttpRequest, NoBody
from paddock.doors.network.heavy_work import HeavyWork
from paddock.doors.network.origin import Origin
from paddock.doors.network.request import (
    MAX_READ_BODY,
    BodyTerms,
    RequestProposal,
    parse,
    propose,
    read_ahead,
    reads_body,
    shown_headers,
)
from paddock.model.action import Effect, Kind

ORIGIN = Origin("https", "api.example", 443, parent=7)
JSON: Headers = [(b"Content-Type", b"application/json; charset=utf-8")]
FORM: Headers = [(b"content-type", b"application/x-www-form-urlencoded")]


class _Chunked:
    """A body whose length nobody announced."""

    length = None

    def __init__(self, *parts: bytes) -> None:
        self._parts = list(parts)

    @property
    def trailers(self) -> Headers:
        return []

    async def read(self) -> bytes:
        return self._parts.pop(0) if self._parts else b""


def _request(
    method: str = "POST", target: str = "/v1/x", headers: Headers | None = None, body: Any = None
) -> HttpRequest:
    body = BufferedBody([body]) if isinstance(body, bytes) else body or NoBody()
    return HttpRequest(method, "https", "api.example", target, headers or [], "1.1", body)


def _propose(request: HttpRequest) -> RequestProposal:
    return asyncio.run(propose(request, ORIGIN))


def test_the_action_says_who_is_asked_for_what() -> None:
    proposal = _propose(_request("GET", "/v1/x?a=1&b=2"))
    action = proposal.action
    assert (action.kind, action.name, action.parent) == (Kind.HTTP, "GET api.example", 7)
    said = action.arguments
    assert (said["host"], said["port"], said["scheme"]) == ("api.example", 443, "https")
    assert (said["path"], said["query"]) == ("/v1/x", "a=1&b=2")
    assert "body" not in said


@pytest.mark.parametrize(
    ("method", "effect"),
    [("GET", Effect.READ), ("HEAD", Effect.READ), ("OPTIONS", Effect.READ), ("get", Effect.WRITE),
     ("POST", Effect.WRITE), ("DELETE", Effect.WRITE), ("PURGE", Effect.WRITE)],
)  # fmt: skip
def test_what_is_not_known_to_read_writes(method: str, effect: Effect) -> None:
    action = _propose(_request(method)).action
    assert action.effect is effect
    assert action.is_reversible is (effect is Effect.READ)


def test_an_upgrade_writes_because_nobody_sees_what_follows() -> None:
    request = _request("GET")
    request.upgrade = "websocket"
    assert _propose(request).action.effect is Effect.WRITE


def test_json_and_forms_are_read_before_the_decision() -> None:
    assert _propose(_request(headers=JSON, body=b'{"amount": 5}')).parsed == {"amount": 5}
    form = _propose(_request(headers=FORM, body=b"amount=5&to=a%20b"))
    assert form.action.arguments["body"] == {"amount": "5", "to": "a b"}
    assert form.read == b"amount=5&to=a%20b"


def test_a_body_of_several_parts_is_read_whole_and_passed_on_whole() -> None:
    proposal = _propose(_request(headers=JSON, body=_Chunked(b'{"a"', b": [1,", b" 2]}")))
    assert proposal.parsed == {"a": [1, 2]}
    assert proposal.read == b'{"a": [1, 2]}'


@for_each(
    "raw",
    [
        b'{"amount": 1, "amount": 9999}',
        b'{"a": {"b": 1, "b": 2}}',
        b"NaN",
        b'{"a": Infinity}',
        b"{",
        b"\xff\xfe{}",
        b"[" * 100_000,
        '{"a": 1}'.encode("utf-16"),
    ],
)
def test_json_that_two_readers_read_differently_is_not_shown_to_rules(raw: bytes) -> None:
    proposal = _propose(_request(headers=JSON, body=raw))
    assert "body" not in proposal.action.arguments
    assert proposal.read == raw


def test_a_form_field_that_stands_twice_is_a_list() -> None:
    assert parse("form", b"a=1&a=2&b=3") == {"a": ["1", "2"], "b": "3"}


@pytest.mark.parametrize("raw", [b"a=1&&b=2;c", b"novalue", b"&".join([b"a=1"] * 2000), b"\xff=1"])
def test_a_form_that_is_none_is_not_shown_to_rules(raw: bytes) -> None:
    assert parse("form", raw) is None


@pytest.mark.parametrize(
    "headers",
    [
        [(b"content-type", b"text/plain")],
        [(b"content-type", b"multipart/form-data; boundary=x")],
        [*JSON, (b"content-encoding", b"gzip")],
        [],
    ],
)
def test_other_bodies_are_decided_on_by_their_head(headers: Headers) -> None:
    proposal = _propose(_request(headers=headers, body=b'{"amount": 1}'))
    assert proposal.read is None
    assert "body" not in proposal.action.arguments


@pytest.mark.parametrize("announced", [True, False])
def test_a_body_over_the_bound_is_streamed(announced: bool) -> None:
    raw = b'"' + b"x" * MAX_READ_BODY + b'"'
    body = (
        BufferedBody([raw])
        if announced
        else _Chunked(*(raw[n : n + 65536] for n in range(0, len(raw), 65536)))
    )
    proposal = _propose(_request(headers=JSON, body=body))
    assert proposal.read is None
    assert asyncio.run(_all(proposal.body)) == raw


async def _all(body: Any) -> bytes:
    parts = []
    while part := await body.read():
        parts.append(part)
    return b"".join(parts)


def test_an_empty_body_counts_as_read() -> None:
    assert _propose(_request("GET")).read == b""
    assert not reads_body(_request("GET", headers=JSON))


def test_credentials_are_not_shown() -> None:
    shown = shown_headers([
        (b"Authorization", b"Bearer sk_live_1"), (b"Cookie", b"id=2"), (b"X-Api-Key", b"3"),
        (b"Proxy-Authorization", b"Basic NDQ="), (b"X-Other", b"kept"), (b"x-other", b"both"),
    ])  # fmt: skip
    assert shown["authorization"] == "Bearer ***"
    assert shown["x-other"] == "kept, both"
    assert not {"sk_live_1", "id=2", "3", "NDQ="} & set(str(shown).replace("'", " ").split())


@given(st.dictionaries(st.text(max_size=5), st.integers() | st.text(max_size=5), max_size=5))
def test_json_that_reads_in_one_way_is_what_was_sent(value: dict[str, Any]) -> None:
    import json

    assert parse("json", json.dumps(value).encode()) == value


@pytest.mark.parametrize(
    ("origin", "authority"),
    [
        (Origin("https", "a.example", 443), "a.example"),
        (Origin("http", "a.example", 443), "a.example:443"),
        (Origin("http", "::1", 80), "[::1]"),
        (Origin("http", "::1", 81), "[::1]:81"),
    ],
)
def test_an_origin_is_spelled_as_clients_do(origin: Origin, authority: str) -> None:
    assert origin.authority == authority


@pytest.mark.parametrize(
    "raw",
    [
        b"[" + b"1," * 20_000 + b"1]",
        b"[" + b"{}," * 20_000 + b"{}]",
        b"{" + b",".join(b'"%d":0' % number for number in range(20_001)) + b"}",
        b"[" * 20_000 + b"]" * 20_000,
        b'"' + b"\\u0041" * 20_001 + b'"',
        b'["' + b"%41" * 20_001 + b'"]',
    ],
    ids=["numbers", "objects", "keys", "lists", "escapes", "percent"],
)
def test_a_body_that_takes_long_to_look_at_is_not_looked_at(raw: bytes) -> None:
    assert parse("json", raw) is None


def test_a_long_text_is_looked_at_whatever_is_in_it() -> None:
    text = 'def f(a, b):\n    return [a, {"b": b}]  # 100%, "so" & \\ so\n' * 10_000
    assert parse("json", json.dumps({"text": text}).encode()) == {"text": text}


def test_a_long_body_that_no_rule_reads_is_hashed_in_a_thread(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Many of them can come to their end in the same turn of the loop."""
    threads: list[int] = []
    measure = requests.measure

    def noted(raw: bytes | None) -> dict[str, Any]:
        threads.append(threading.get_ident())
        return measure(raw)

    monkeypatch.setattr(requests, "measure", noted)
    headers = [(b"content-type", b"multipart/form-data; boundary=a")]
    request = _request(headers=headers, body=b"\n--a\r" * 100_000)

    async def proposed() -> RequestProposal:
        return await propose(request, ORIGIN, terms=BodyTerms(work=HeavyWork()))

    action = asyncio.run(proposed()).action
    assert action.arguments["body_bytes"] == 500_000
    assert threading.get_ident() not in threads


def test_a_body_that_is_read_ahead_is_measured_and_passed_on_whole() -> None:
    async def read() -> tuple[RequestProposal, bytes]:
        proposal = await propose(_request(body=_Chunked(b"one", b"two")), ORIGIN)
        with BodyMemory().open() as held:
            await read_ahead(proposal, held)
        return proposal, b"".join([part async for part in _parts(proposal.body)])

    proposal, passed_on = asyncio.run(read())
    digest = hashlib.sha256(b"onetwo").hexdigest()
    assert proposal.action.context["sent"] == {"bytes": 6, "sha256": digest}
    assert passed_on == b"onetwo"


def test_a_client_that_waits_for_its_answer_is_not_waited_for() -> None:
    class _Waiting(_Chunked):
        async def read(self) -> bytes:
            return await super().read() or await asyncio.Future()

    async def read() -> RequestProposal:
        grpc = [(b"content-type", b"application/grpc")]
        request = replace(_request(headers=grpc, body=_Waiting(b"one")), version="2")
        proposal = await propose(request, ORIGIN)
        with BodyMemory().open() as held:
            await read_ahead(proposal, held)
        assert await proposal.body.read() == b"one"
        return proposal

    assert "sent" not in asyncio.run(read()).action.context


async def _parts(body: Body) -> AsyncIterator[bytes]:
    while part := await body.read():
        yield part
