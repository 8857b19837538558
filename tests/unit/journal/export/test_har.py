"""HAR 1.2: what the door recorded, as tools of browsers read it."""

from __future__ import annotations

import base64
import gzip
import json
import zlib
from datetime import datetime
from ipaddress import ip_address
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import pytest
from hypothesis import given
from hypothesis import strategies as st

from paddock.journal.export._har import _entry, _timings
from paddock.journal.export._har_content import MAX_UNPACKED, content
from paddock.journal.export.formats import Format, export
from paddock.journal.traffic import Traffic
from paddock.journal.writer import Journal
from paddock.model.action import Kind, Outcome
from paddock.model.events import (
    Answered,
    AnyEvent,
    Asked,
    Decided,
    Record,
    RefusedAgain,
    Settled,
)
from paddock.model.steps import Step
from unit.journal.conftest import Opener, decided, proposed, settled

HTTP = {
    "method": "GET", "scheme": "https", "host": "api.example", "port": 443, "path": "/v1/things",
    "headers": {"accept": "*/*", "host": "api.example", "authorization": "Bearer ***"},
}  # fmt: skip
MODEL = {
    "provider": "openai", "api": "chat", "model": "m-1", "prompt": "say hi", "prompt_digest": "d",
    "method": "POST", "host": "api.example", "port": 443, "path": "/v1/chat/completions",
}  # fmt: skip
DONE = settled()
REFUSED = settled(outcome="refused", error="Nothing is deleted.")
ALLOWED = decided(decided_by="network", why="It is allowed.")


def write(
    journal: Journal,
    step: int,
    arguments: dict[str, Any],
    came: Settled | None,
    *,
    kind: Kind = Kind.HTTP,
    decision: Decided = ALLOWED,
) -> None:
    journal.append(proposed(step, kind=kind, name="n", arguments=arguments, parent=1), step)
    journal.append(decision, step)
    if came is not None:
        journal.append(came, step)


def step_of(*events: AnyEvent) -> Step:
    return Step(1, [Record(n, n, 1, event) for n, event in enumerate(events)])


def entries(directory: Path) -> list[dict[str, Any]]:
    log = json.loads("".join(export(directory, Format.HAR)))["log"]
    check_log(log)
    found: list[dict[str, Any]] = log["entries"]
    return found


def entry(opener: Opener, *words: Any, **more: Any) -> dict[str, Any]:
    journal = opener()
    write(journal, 5, *words, **more)
    (found,) = entries(journal.directory)
    return found


# What version 1.2 of the format demands of each object: its required keys and their types.
def check_log(log: dict[str, Any]) -> None:
    assert log["version"] == "1.2"
    assert all(isinstance(log["creator"][key], str) for key in ("name", "version"))
    for one in log["entries"]:
        check_entry(one)


def check_entry(one: dict[str, Any]) -> None:
    assert datetime.fromisoformat(one["startedDateTime"]).tzinfo is not None
    known = {"startedDateTime", "time", "request", "response", "cache", "timings",
             "serverIPAddress", "comment"}  # fmt: skip
    assert all(key in known or key.startswith("_") for key in one)
    assert isinstance(one["cache"], dict)
    check_timings(one)
    check_request(one["request"])
    check_response(one["response"])
    if "serverIPAddress" in one:
        ip_address(one["serverIPAddress"])


def check_timings(one: dict[str, Any]) -> None:
    timings = one["timings"]
    assert {"send", "wait", "receive"} <= set(timings) <= {"blocked", "send", "wait", "receive"}
    assert all(value >= 0 for value in timings.values())
    assert one["time"] == pytest.approx(sum(timings.values()))


def check_message(message: dict[str, Any]) -> None:
    assert isinstance(message["httpVersion"], str)
    assert message["cookies"] == []
    assert message["headersSize"] == -1
    assert type(message["bodySize"]) is int and message["bodySize"] >= -1
    check_pairs(message["headers"])


def check_request(request: dict[str, Any]) -> None:
    check_message(request)
    assert isinstance(request["method"], str) and isinstance(request["url"], str)
    check_pairs(request["queryString"])
    if "postData" in request:
        data = request["postData"]
        assert isinstance(data["mimeType"], str)
        assert ("text" in data) != ("params" in data)
        check_pairs(data.get("params", []))
        assert isinstance(data.get("text", ""), str)


def check_response(response: dict[str, Any]) -> None:
    check_message(response)
    assert type(response["status"]) is int
    assert isinstance(response["statusText"], str) and isinstance(response["redirectURL"], str)
    found = response["content"]
    assert type(found["size"]) is int and found["size"] >= 0
    assert isinstance(found["mimeType"], str) and isinstance(found["text"], str)
    assert found.get("encoding") in (None, "base64")


def check_pairs(pairs: list[dict[str, Any]]) -> None:
    for one in pairs:
        assert set(one) == {"name", "value"}
        assert isinstance(one["name"], str) and isinstance(one["value"], str)


def test_request_and_answer_are_all_there(opener: Opener) -> None:
    arguments = {**HTTP, "port": 8443, "query": "a=1&b=&a=2"}
    result = {"status": 302, "headers": {"content-type": "text/plain", "location": "/x"},
              "bytes": 5, "body": "moved", "address": "203.0.113.9",
              "http_version": "HTTP/2"}  # fmt: skip
    found = entry(opener, arguments, settled(result))
    request, response = found["request"], found["response"]
    assert (request["method"], request["bodySize"]) == ("GET", 0)
    assert request["url"] == "https://api.example:8443/v1/things?a=1&b=&a=2"
    assert [(q["name"], q["value"]) for q in request["queryString"]] == [
        ("a", "1"), ("b", ""), ("a", "2")]  # fmt: skip
    assert {"name": "authorization", "value": "Bearer ***"} in request["headers"]
    assert (response["status"], response["statusText"]) == (302, "Found")
    assert (response["redirectURL"], response["httpVersion"]) == ("/x", "HTTP/2")
    assert response["content"] == {"size": 5, "mimeType": "text/plain", "text": "moved"}
    assert response["bodySize"] == 5
    assert found["serverIPAddress"] == "203.0.113.9"
    assert (found["_step"], found["_parent"], found["_verdict"]) == (5, 1, "allow")


@pytest.mark.parametrize(
    ("scheme", "host", "port", "place"),
    [("https", "api.example", 443, "api.example"), ("http", "api.example", 80, "api.example"),
     ("http", "api.example", 443, "api.example:443"), ("https", "::1", 443, "[::1]"),
     ("https", "::1", 8443, "[::1]:8443")],
)  # fmt: skip
def test_url_has_the_port_only_where_it_is_not_the_usual_one(
    opener: Opener, scheme: str, host: str, port: int, place: str
) -> None:
    arguments = {**HTTP, "scheme": scheme, "host": host, "port": port}
    url = urlsplit(entry(opener, arguments, None)["request"]["url"])
    assert (url.scheme, url.netloc, url.path) == (scheme, place, "/v1/things")


def test_form_is_its_fields_and_json_its_text(opener: Opener) -> None:
    journal = opener()
    form = {"content-type": "application/x-www-form-urlencoded; charset=utf-8"}
    body = {"a": ["1", "2"], "b": ""}
    write(journal, 1, {**HTTP, "headers": form, "body": body, "body_bytes": 10}, DONE)
    as_json = {"content-type": "application/json"}
    write(journal, 2, {**HTTP, "headers": as_json, "body": {"n": 5}, "body_bytes": 7}, DONE)
    first, second = (one["request"] for one in entries(journal.directory))
    assert [(p["name"], p["value"]) for p in first["postData"]["params"]] == [
        ("a", "1"), ("a", "2"), ("b", "")]  # fmt: skip
    assert json.loads(second["postData"]["text"]) == {"n": 5}
    assert (first["bodySize"], second["bodySize"]) == (10, 7)


@pytest.mark.parametrize(
    ("headers", "result", "size"),
    [({}, {}, 0), ({"content-length": "12"}, {}, 12), ({"transfer-encoding": "chunked"}, {}, -1),
     ({"transfer-encoding": "chunked"}, {"sent": {"bytes": 9}}, 9),
     ({"content-length": "x"}, {}, 0)],
)  # fmt: skip
def test_size_of_a_body_that_was_streamed_is_what_is_known_of_it(
    opener: Opener, headers: dict[str, str], result: dict[str, Any], size: int
) -> None:
    found = entry(opener, {**HTTP, "headers": headers}, settled({"status": 200, **result}))
    assert found["request"]["bodySize"] == size


def test_bytes_that_are_no_text_are_base64_and_a_cut_is_said(opener: Opener) -> None:
    raw = bytes(range(256))
    result = {"status": 200, "headers": {}, "bytes": 9000, "is_cut": True,
              "base64": base64.b64encode(raw).decode()}  # fmt: skip
    found = entry(opener, HTTP, settled(result))["response"]["content"]
    assert (found["encoding"], base64.b64decode(found["text"])) == ("base64", raw)
    assert found["size"] == 9000
    assert "cut" in found["comment"]


@pytest.mark.parametrize("coding", ["gzip", "GZIP", "deflate"])
def test_compressed_answer_is_shown_as_it_was_meant(coding: str) -> None:
    pack = zlib.compress if coding == "deflate" else gzip.compress
    packed = pack(b"hello " * 100)
    headers = [{"name": "Content-Encoding", "value": coding}]
    result = {"bytes": len(packed), "base64": base64.b64encode(packed).decode()}
    found = content(result, headers)
    assert (found["text"], found["size"]) == ("hello " * 100, 600)
    assert found["compression"] == 600 - len(packed)


@pytest.mark.parametrize("coding", ["br", "zstd", "gzip, gzip", "gzip"])
def test_answer_that_cannot_be_unpacked_stays_as_it_came(coding: str) -> None:
    raw = b"\xff\xfe not gzip"
    headers = [{"name": "content-encoding", "value": coding}]
    found = content({"bytes": len(raw), "base64": base64.b64encode(raw).decode()}, headers)
    assert base64.b64decode(found["text"]) == raw
    assert found["size"] == len(raw)


def test_few_bytes_that_promise_gigabytes_are_unpacked_to_a_bound() -> None:
    packed = zlib.compress(b"\0" * (MAX_UNPACKED * 4))
    headers = [{"name": "content-encoding", "value": "deflate"}]
    result = {"bytes": len(packed), "base64": base64.b64encode(packed).decode()}
    found = content(result, headers)
    assert len(found["text"]) == MAX_UNPACKED
    assert "first" in found["comment"]


@pytest.mark.parametrize(
    ("decision", "came", "status"),
    [(decided("block", decided_by="no-deletes"), REFUSED, 403),
     (decided("block", decided_by="mismatch"), REFUSED, 421),
     (decided("ask", decided_by="big"), REFUSED, 403),
     (decided("simulate", decided_by="stage:draft"), settled(outcome="drafted"), 202),
     (decided("fault", fault={"status": 429}), settled(outcome="faulted"), 429),
     (decided("fault", fault={}), settled(outcome="faulted"), 503),
     (decided("allow"), settled({"status": 504}, "failed"), 504),
     (decided("allow"), settled(outcome="failed", error="The client went away"), 0),
     (decided("allow"), None, 0)],
)  # fmt: skip
def test_status_is_what_the_agent_got_also_from_paddock_itself(
    opener: Opener, decision: Decided, came: Settled | None, status: int
) -> None:
    found = entry(opener, HTTP, came, decision=decision)
    assert found["response"]["status"] == status
    assert found["_verdict"] == decision.verdict
    assert found["_outcome"] == (None if came is None else came.outcome)


def test_refused_request_says_why_and_names_no_server(opener: Opener) -> None:
    decision = decided("block", decided_by="no-deletes", why="Nothing is deleted.")
    found = entry(opener, {**HTTP, "host": "203.0.113.9"}, REFUSED, decision=decision)
    assert (found["comment"], found["_decidedBy"]) == ("Nothing is deleted.", "no-deletes")
    assert "serverIPAddress" not in found


def test_host_that_is_an_address_is_the_servers_address(opener: Opener) -> None:
    found = entry(opener, {**HTTP, "host": "203.0.113.9"}, settled({"status": 200}))
    assert found["serverIPAddress"] == "203.0.113.9"


def test_model_call_is_a_request_with_its_tokens(opener: Opener) -> None:
    result = {"status": 200, "headers": {"content-type": "application/json"}, "bytes": 2,
              "body": "{}", "answer": {"stop_reason": "stop"}}  # fmt: skip
    cost = {"input_tokens": 11, "output_tokens": 3}
    found = entry(opener, MODEL, settled(result, cost=cost), kind=Kind.MODEL)
    assert found["request"]["method"] == "POST"
    assert found["request"]["url"] == "https://api.example/v1/chat/completions"
    assert found["_kind"] == "model"
    assert found["_model"] == {"provider": "openai", "api": "chat", "model": "m-1",
                               "prompt_digest": "d", "stopReason": "stop", **cost}  # fmt: skip


def test_what_a_person_took_is_time_that_the_request_was_held() -> None:
    events: dict[int, AnyEvent] = {
        0: proposed(1, kind=Kind.HTTP, arguments=HTTP),
        1000: Asked("a", None),
        61_000: Answered("a"),
        64_000: settled(),
    }
    step = Step(1, [Record(n, at, 1, event) for n, (at, event) in enumerate(events.items())])
    assert (step.waited_us, step.held_us) == (64_000, 60_000)
    assert _timings(step) == {"blocked": 60, "send": 0, "wait": 4, "receive": 0}


def test_refusals_that_are_only_counted_are_in_the_entry(opener: Opener) -> None:
    journal = opener()
    write(journal, 5, HTTP, REFUSED, decision=decided("block"))
    journal.append(RefusedAgain(40, 10, 20), 5)
    journal.append(RefusedAgain(2, 30, 40), 5)
    (found,) = entries(journal.directory)
    assert found["_refusedAgain"] == {"count": 42, "first_at": 10, "last_at": 40}


def test_answer_of_a_stand_in_is_read_in_the_shape_that_it_was_recorded(opener: Opener) -> None:
    def packed(text: str) -> dict[str, str]:
        return {"base64": base64.b64encode(text.encode()).decode()}

    result = {"status": 201, "headers": [[packed("content-type"), packed("text/plain")]],
              "body": packed("stood in")}  # fmt: skip
    came = settled(result, "simulated")
    found = entry(opener, HTTP, came, decision=decided("simulate"))["response"]
    assert (found["status"], found["content"]["text"]) == (201, "stood in")
    assert found["headers"] == [{"name": "content-type", "value": "text/plain"}]


def test_websocket_has_its_counts(opener: Opener) -> None:
    frames = {"messages_in": 2, "messages_out": 1, "bytes_in": 20, "bytes_out": 10}
    found = entry(opener, HTTP, settled({"status": 101, "websocket": frames}))
    assert found["_websocket"] == frames


def test_connections_and_names_are_no_requests(opener: Opener) -> None:
    journal = opener()
    write(journal, 1, {"host": "db.example", "port": 5432, "transport": "tcp"}, DONE,
          kind=Kind.CONNECT)  # fmt: skip
    write(
        journal, 2, {"host": "db.example", "name": "db.example", "type": "A"}, DONE, kind=Kind.DNS
    )
    assert entries(journal.directory) == []


json_values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(st.characters(), max_size=20),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=8), inner,
                                                                max_size=3),
    max_leaves=8,
)  # fmt: skip
words = st.sampled_from(
    ["method", "scheme", "host", "port", "path", "query", "headers", "body", "body_bytes", "url",
     "http_version", "status", "bytes", "base64", "is_cut", "sent", "address", "websocket"]
)  # fmt: skip
objects = st.dictionaries(words, json_values, max_size=6)


@given(
    st.sampled_from([Kind.HTTP, Kind.MODEL]),
    objects,
    objects | json_values,
    objects,
    st.sampled_from(Outcome),
)
def test_whatever_a_journal_says_the_entry_is_sound(
    kind: Kind, arguments: dict[str, Any], result: Any, more: dict[str, Any], outcome: Outcome
) -> None:
    step = step_of(
        proposed(1, kind=kind, arguments=arguments),
        decided("fault", fault=more),
        settled(result, outcome, cost=more, error="e"),
    )
    request = Traffic.of(step)
    assert request is not None
    check_entry(json.loads(json.dumps(_entry(request))))
