"""`paddock drafts send` of requests: for real, under the file, and once."""

from __future__ import annotations

import base64
import json
import os
import signal
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from paddock.cli.main import _run
from paddock.doors.network.tls.authority import Authority
from paddock.gate.approvals.questions import Approval, Approvals
from paddock.gate.drafts import Draft, Drafts
from paddock.gate.run_gate import gate_store, signing_key
from paddock.journal.integrity.verify import verify
from paddock.journal.log import RunLog
from paddock.model.action import Action, Effect, Kind
from paddock.model.steps import Step
from paddock.state.home import Home
from unit.doors.network.draft_sends import (
    FORM,
    HOST,
    JSON,
    Answer,
    Keeping,
    Seen,
    Tickets,
    paddock_file,
)

Said = pytest.CaptureFixture[str]
VALUE = "sk_live_2f9c1d7ab3e4"
POST = ("POST", "/tickets?notify=1", JSON, b'{"title": "printer", "cost": 1.5}')
WORLD = {f"{HOST}:80": {"service": "draft", "upstream": "live", "writes": ["GET /close/*"]}}
WAIT_S = 20.0


@pytest.fixture
def tickets() -> Iterator[Tickets]:
    server = Tickets()
    yield server
    server.close()


@pytest.fixture
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Home]:
    monkeypatch.setenv("PADDOCK_HOME", str(tmp_path / "home"))
    monkeypatch.chdir(tmp_path)
    found = Home.find()
    yield found
    gate_store(found).close()


@pytest.fixture
def drafts(home: Home) -> Drafts:
    return Drafts(gate_store(home))


def paddock(*words: str) -> int:
    return _run("drafts", list(words))


def file(tickets: Tickets, **words: Any) -> None:
    """The file under which drafts are sent."""
    Path("paddock.yaml").write_text(paddock_file(tickets, **words))


def kept(home: Home, tickets: Tickets, *asked: tuple[Any, ...], **words: Any) -> list[Draft]:
    """Drafts of the stage draft; the file then says broad."""
    text = paddock_file(tickets, **{"stage": "draft", **words})
    found = Keeping(home, text, environment={"KEY": VALUE}).keep(*(asked or (POST,)))
    tickets.seen.clear()
    file(tickets, **words)
    return found


def step_of(home: Home, run: str) -> Step:
    (step,) = RunLog(home.runs / run).steps()
    assert step.settled is not None
    return step


def test_request_arrives_once_as_it_was_and_is_recorded(
    home: Home, tickets: Tickets, drafts: Drafts, capsys: Said
) -> None:
    (draft,) = kept(home, tickets)
    assert paddock("send", draft.draft_id, "--json", "--by", "ann") == 0
    (seen,) = tickets.seen
    assert (seen.method, seen.path, seen.body) == POST[:2] + POST[3:]
    assert (seen.headers["host"], seen.headers["content-type"]) == (HOST, "application/json")
    said = json.loads(capsys.readouterr().out)
    assert (said["state"], said["outcome"], said["changed_by"]) == ("sent", "done", "ann")
    assert said["result"]["status"] == 201
    assert json.loads(said["result"]["body"])["id"] == 41
    run = said["sent_run"]
    assert verify(home.runs / run, signing_key(home).public, expect_closed=True).ok
    opened = RunLog(home.runs / run).opened
    assert (opened.kind, opened.draft) == ("send", draft.draft_id)
    assert step_of(home, run).status == 201
    assert step_of(home, run).context == {"draft": draft.draft_id, "sent_by": "ann"}
    assert paddock("send", draft.draft_id) == 4
    assert "sent by ann" in capsys.readouterr().err
    assert len(tickets.seen) == 1


@pytest.mark.parametrize(
    ("headers", "body"),
    [
        (JSON, '{"a":1,"b":"é"}'.encode()),
        (JSON, b'{"a": 1, "b": "\\u00e9"}'),
        (JSON, b"[1, 2.50]"),
        ({"content-type": "application/vnd.api+json; charset=utf-8"}, b'{"a":1}'),
        (FORM, b"a=1&b=x+y&b=2&c="),
        (FORM, b"a=x%20y"),
    ],
)
def test_body_says_what_it_said(
    home: Home, tickets: Tickets, headers: dict[str, str], body: bytes
) -> None:
    (draft,) = kept(home, tickets, ("PUT", "/tickets/7", headers, body))
    assert paddock("send", draft.draft_id) == 0
    (seen,) = tickets.seen
    assert seen.headers["content-type"] == headers["content-type"]
    assert seen.body == (b"[1,2.5]" if b"2.50" in body else body)


def test_request_without_a_body_is_sent_without_one(home: Home, tickets: Tickets) -> None:
    (draft,) = kept(home, tickets, ("DELETE", "/tickets/7"))
    assert paddock("send", draft.draft_id) == 0
    assert (tickets.lines, tickets.seen[0].body) == (["DELETE /tickets/7"], b"")


@pytest.mark.parametrize(
    ("placed", "sent", "expected"),
    [
        ("header:Authorization=Bearer", {"authorization": "Bearer {KEY}"}, f"Bearer {VALUE}"),
        (None, {"authorization": "token {KEY}"}, f"token {VALUE}"),
        (None, {"x-key": "{KEY}"}, VALUE),
        ("header:authorization=Bearer", {}, f"Bearer {VALUE}"),
        ("basic:clerk", {"authorization": "Basic {KEY}"},
         "Basic " + base64.b64encode(f"clerk:{VALUE}".encode()).decode()),
    ],
)  # fmt: skip
def test_secret_of_the_file_arrives_and_is_nowhere_else(
    home: Home, tickets: Tickets, capsys: Said, monkeypatch: pytest.MonkeyPatch,
    placed: str | None, sent: dict[str, str], expected: str,
) -> None:  # fmt: skip
    monkeypatch.setenv("KEY", VALUE)
    key: dict[str, Any] = {"from": "env:KEY", "to": [HOST]}
    if placed is not None:
        key["as"] = placed
    asked = ("POST", "/tickets", {**JSON, **sent}, b'{"a":1}')
    (draft,) = kept(home, tickets, asked, secrets={"KEY": key})

    def answer(asked: Seen) -> Answer:
        return 200, json.dumps(asked.headers).encode()  # it shows what it got

    tickets.answer = answer
    assert paddock("send", draft.draft_id, "--json") == 0
    (seen,) = tickets.seen
    assert seen.headers.get("x-key", seen.headers.get("authorization")) == expected
    said = capsys.readouterr()
    everything = b"".join(p.read_bytes() for p in home.root.rglob("*") if p.is_file())
    for spelling in (VALUE, expected, base64.b64encode(VALUE.encode()).decode()):
        assert spelling not in said.out + said.err
        assert spelling.encode() not in everything


def test_secret_in_a_body_and_an_address_gets_its_new_placeholder(
    home: Home, tickets: Tickets, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("KEY", VALUE)
    secrets = {"KEY": {"from": "env:KEY", "to": [HOST], "as": "body"},
               "URL": {"from": "env:KEY", "to": [HOST]}}  # fmt: skip
    text = paddock_file(tickets, stage="draft", secrets=secrets)
    keeping = Keeping(home, text, environment={"KEY": VALUE})
    keeping.keep()  # its placeholders are made by chance
    file(tickets, secrets=secrets)
    name = "paddock_{}_0123456789abcdef01234567"
    asked = ("POST", f"/hook/{name.format('URL')}", JSON,
             json.dumps({"key": name.format("KEY")}).encode())  # fmt: skip
    text = paddock_file(tickets, stage="draft")
    (draft,) = Keeping(home, text, run="other").keep(asked)
    assert paddock("send", draft.draft_id) == 0
    assert tickets.lines == [f"POST /hook/{VALUE}"]
    assert json.loads(tickets.seen[0].body) == {"key": VALUE}


def test_rules_decide_again(home: Home, tickets: Tickets, drafts: Drafts, capsys: Said) -> None:
    (draft,) = kept(home, tickets)
    rule = {"id": "cheap", "match": {"kind": "http", "method": ["POST"]},
            "when": "args.body.cost > 1.0", "decide": "block", "why": "Too dear."}  # fmt: skip
    file(tickets, rules=[rule])
    assert paddock("send", draft.draft_id) == 1
    assert "a draft again: refused: Too dear." in capsys.readouterr().err
    assert (tickets.seen, drafts.get(draft.draft_id).state) == ([], "draft")


def _answering(home: Home, answer: Callable[[Approvals, Approval], object]) -> threading.Thread:
    """Somebody else, who answers the first question."""

    def wait() -> None:
        approvals = Approvals(gate_store(home))
        until = time.monotonic() + WAIT_S
        while time.monotonic() < until:
            for one in approvals.all(state="pending"):
                answer(approvals, one)
                return
            time.sleep(0.02)

    thread = threading.Thread(target=wait)
    thread.start()
    return thread


def test_approver_says_yes(home: Home, tickets: Tickets, drafts: Drafts) -> None:
    (draft,) = kept(home, tickets)
    bob = _answering(home, lambda approvals, one: approvals.approve(one.approval_id, "bob"))
    assert paddock("send", draft.draft_id, "--stage", "approve") == 0
    bob.join()
    assert (tickets.lines, drafts.get(draft.draft_id).state) == (["POST /tickets?notify=1"], "sent")


def test_approver_says_no(home: Home, tickets: Tickets, drafts: Drafts) -> None:
    (draft,) = kept(home, tickets)
    bob = _answering(home, lambda approvals, one: approvals.deny(one.approval_id, "bob"))
    assert paddock("send", draft.draft_id, "--stage", "approve") == 1
    bob.join()
    assert (tickets.lines, drafts.get(draft.draft_id).state) == ([], "draft")


def test_approver_may_edit_the_body_and_not_the_host(
    home: Home, tickets: Tickets, drafts: Drafts, capsys: Said
) -> None:
    (draft,) = kept(home, tickets)

    def edited(**words: Any) -> Callable[[Approvals, Approval], object]:
        def answer(approvals: Approvals, one: Approval) -> object:
            arguments = {**one.content["arguments"], **words}
            return approvals.edit(one.approval_id, "bob", arguments)

        return answer

    bob = _answering(home, edited(host="evil.example"))
    assert paddock("send", draft.draft_id, "--stage", "approve") == 1
    bob.join()
    assert "cannot be edited" in capsys.readouterr().err
    assert (tickets.lines, drafts.get(draft.draft_id).state) == ([], "draft")
    bob = _answering(home, edited(body={"title": "none"}))
    assert paddock("send", draft.draft_id, "--stage", "approve") == 0
    bob.join()
    assert [json.loads(one.body) for one in tickets.seen] == [{"title": "none"}]


@pytest.mark.parametrize(
    ("answer", "state", "says"),
    [
        (None, "sending", "it may have been done"),
        ((500, b"oops"), "sending", "answered 500: oops"),
        ((502, b""), "sending", "it may have been done"),
        ((422, b'{"error": "no title"}'), "draft", "no title"),
        ((401, b""), "draft", "answered 401"),
        ((308, b""), "draft", "answered 308"),
        ((303, b""), "sent", ""),
    ],
)
def test_what_the_server_says_decides_what_the_draft_is(
    home: Home, tickets: Tickets, drafts: Drafts, capsys: Said,
    answer: Answer, state: str, says: str,
) -> None:  # fmt: skip
    (draft,) = kept(home, tickets)
    tickets.answer = lambda _: answer
    code = paddock("send", draft.draft_id)
    assert code == (0 if state == "sent" else 1)
    assert says in capsys.readouterr().err
    assert (len(tickets.seen), drafts.get(draft.draft_id).state) == (1, state)
    if state != "draft":
        assert paddock("send", draft.draft_id) == 4
        assert len(tickets.seen) == 1


def test_answer_that_breaks_off_leaves_it_sending(
    home: Home, tickets: Tickets, drafts: Drafts
) -> None:
    (draft,) = kept(home, tickets)

    class Long(bytes):
        def __len__(self) -> int:
            return 100

    tickets.answer = lambda _: (200, Long(b"only this"))
    assert paddock("send", draft.draft_id) == 1
    assert drafts.get(draft.draft_id).state == "sending"


def test_server_that_is_not_there_leaves_a_draft(
    home: Home, tickets: Tickets, drafts: Drafts, capsys: Said
) -> None:
    (draft,) = kept(home, tickets)
    network = {"allow": [f"{HOST}:80"], "hosts": {HOST: "127.0.0.1:1"}}
    file(tickets, network=network)
    assert paddock("send", draft.draft_id) == 1
    assert "it is a draft again" in capsys.readouterr().err
    assert drafts.get(draft.draft_id).state == "draft"
    file(tickets)
    assert paddock("send", draft.draft_id) == 0


def test_name_that_leads_into_this_machine_is_not_dialled(
    home: Home,
    tickets: Tickets,
    drafts: Drafts,
    capsys: Said,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    (draft,) = kept(home, tickets)
    found = [(socket.AF_INET, socket.SOCK_STREAM, 6, "", ("127.0.0.1", 0))]
    monkeypatch.setattr(socket, "getaddrinfo", lambda *_, **__: found)
    file(tickets, network={"allow": [f"{HOST}:80"]})
    assert paddock("send", draft.draft_id) == 1
    assert "an address that is not allowed" in capsys.readouterr().err
    assert (tickets.seen, drafts.get(draft.draft_id).state) == ([], "draft")


@pytest.mark.parametrize("has_network", [True, False])
def test_host_that_the_file_does_not_reach_is_said_with_the_line_to_add(
    home: Home, tickets: Tickets, capsys: Said, has_network: bool
) -> None:
    (draft,) = kept(home, tickets)
    runs = len(list(home.runs.glob("*")))
    words = {"network": {"allow": ["other.example:80"]}} if has_network else {"network": None}
    text = json.loads(paddock_file(tickets, world=WORLD, **words))
    Path("paddock.yaml").write_text(json.dumps({k: v for k, v in text.items() if v is not None}))
    assert paddock("send", draft.draft_id) == 2
    said = capsys.readouterr().err
    assert "network" in said
    assert f"{HOST}:80" in said
    assert (tickets.seen, len(list(home.runs.glob("*")))) == ([], runs)


def test_stage_draft_needs_another_one(home: Home, tickets: Tickets, capsys: Said) -> None:
    (draft,) = kept(home, tickets)
    assert paddock("send", draft.draft_id, "--stage", "draft") == 2
    assert "--stage approve" in capsys.readouterr().err
    assert tickets.seen == []


_TOKEN = "paddock_OTHER_0123456789abcdef01234567"


@pytest.mark.parametrize(
    ("asked", "says"),
    [
        (("POST", "/a", {"content-type": "text/plain"}, b"hello"), "its body was not kept"),
        (("POST", "/a", JSON, b'{"a":1,"a":2}'), "only the digest"),
        (("POST", "/a", JSON, b'{"a":"' + b"x" * (1 << 20) + b'"}'), "its body was not kept"),
        (("POST", "/a", {**JSON, "content-encoding": "gzip"}, b"{}"), "its body was not kept"),
        (("POST", "/a", FORM, b"a=%ff"), "no text"),
        (("POST", "/a", {"cookie": "session=1"}), "cookie was not kept"),
        (("POST", "/a", {"authorization": "Bearer mine"}), "as: header:authorization=Bearer"),
        (("POST", "/a", {"authorization": "Basic bWluZQ=="}), "as: basic:USER"),
        (("POST", f"/a?key={_TOKEN}"), "OTHER"),
        (("POST", "/a", JSON, json.dumps({"key": [_TOKEN]}).encode()), "does not have"),
        (("GET", "/a", {"upgrade": "websocket", "connection": "upgrade"}), "WebSocket"),
        (("POST", "/v1/chat/completions", JSON,
          b'{"model":"gpt-4o","messages":[{"role":"user","content":"hi"}]}'), "a model"),
    ],
)  # fmt: skip
def test_what_cannot_be_sent_says_why_before_anything_happens(
    home: Home, tickets: Tickets, drafts: Drafts, capsys: Said, asked: tuple[Any, ...], says: str
) -> None:
    (draft,) = kept(home, tickets, asked)
    runs = len(list(home.runs.glob("*")))
    assert paddock("send", draft.draft_id) == 2
    assert says in capsys.readouterr().err
    assert (tickets.seen, drafts.get(draft.draft_id).state) == ([], "draft")
    assert len(list(home.runs.glob("*"))) == runs


def test_masked_secret_is_not_sent(home: Home, tickets: Tickets, capsys: Said) -> None:
    secrets = {"KEY": {"from": "env:KEY", "to": ["other.example"]}}
    network = {"allow": [f"{HOST}:80", "other.example:443"], "hosts": {HOST: tickets.place}}
    asked = ("POST", "/a", JSON, json.dumps({"key": VALUE}).encode())
    (draft,) = kept(home, tickets, asked, secrets=secrets, network=network)
    assert VALUE not in repr(draft)
    assert paddock("send", draft.draft_id) == 2
    assert "masked" in capsys.readouterr().err
    assert tickets.seen == []


def test_damaged_arguments_are_refused(home: Home, tickets: Tickets, drafts: Drafts) -> None:
    file(tickets)
    usual = {"method": "POST", "scheme": "http", "host": HOST, "port": 80, "path": "/",
             "headers": {}}  # fmt: skip
    wrong: list[dict[str, Any]] = [
        {"headers": None}, {"port": "80"}, {"port": 0}, {"scheme": "file"}, {"host": 7},
        {"path": "http://evil.example/"}, {"path": "/a b"}, {"path": "/\r\nx: y"},
        {"method": "POST /x"}, {"headers": {"x": "a\r\nb: c"}}, {"headers": {"x": "\u20ac"}},
        {"headers": {"x y": "1"}}, {"body": {"a": 1}, "headers": {"content-type": "text/plain"}},
        {"headers": {"x-http-method-override": "DELETE"}}, {"port": 443},
        {"http_version": "HTTP/2"},
    ]  # fmt: skip
    network = {"allow": [f"{HOST}:80", f"{HOST}:443"], "hosts": {HOST: tickets.place}}
    file(tickets, network=network)
    for number, words in enumerate(wrong):
        action = Action(Kind.HTTP, "POST", {**usual, **words}, Effect.WRITE)
        draft_id = drafts.add("run-1", "clerk", number, action, None)
        assert paddock("send", draft_id) == 2, words
    assert tickets.seen == []


def test_stand_in_of_the_file_does_not_swallow_what_is_sent(
    home: Home, tickets: Tickets, drafts: Drafts
) -> None:
    (draft,) = kept(home, tickets, POST, stage="broad", world=WORLD)
    assert paddock("send", draft.draft_id) == 0
    assert tickets.lines == ["POST /tickets?notify=1"]


def test_fault_on_purpose_does_not_strike_what_is_sent(home: Home, tickets: Tickets) -> None:
    (draft,) = kept(home, tickets)
    file(
        tickets,
        faults=[{"id": "down", "match": {"kind": "http", "host": HOST}, "fault": {"status": 503}}],
    )
    assert paddock("send", draft.draft_id) == 0
    assert len(tickets.seen) == 1


def test_read_that_writes_is_sent_as_a_write(
    home: Home, tickets: Tickets, drafts: Drafts, capsys: Said
) -> None:
    (draft,) = kept(home, tickets, ("GET", "/close/7"), world=WORLD)
    assert paddock("send", draft.draft_id, "--stage", "draft") == 2
    assert paddock("send", draft.draft_id, "--stage", "observe") == 1
    assert tickets.seen == []
    assert paddock("send", draft.draft_id, "--stage", "broad") == 0
    assert tickets.lines == ["GET /close/7"]


def _ticket(said: list[Any]) -> str:
    return f"/tickets/{said[0]['id']}"


def _comment(said: list[Any]) -> bytes:
    shadow = said[0]["id"]
    words = {"ticket": shadow, "text": f"see #{shadow}, thanks", "other": 7, shadow: True}
    return json.dumps(words).encode()


FAMILY = (
    ("POST", "/tickets", JSON, b'{"title":"printer"}'),
    ("PATCH", _ticket, JSON, b'{"title":"both printers"}'),
    ("POST", lambda said: f"{_ticket(said)}/comments?of={said[0]['id']}", JSON, _comment),
)


def test_ids_of_a_stand_in_become_those_that_the_real_server_gave(
    home: Home, tickets: Tickets, drafts: Drafts, capsys: Said
) -> None:
    family = kept(home, tickets, *FAMILY, world=WORLD)
    assert len(family) == 3
    assert paddock("send", "--all", "kept", "--json") == 0
    said = json.loads(capsys.readouterr().out)
    assert [one["state"] for one in said] == ["sent"] * 3
    assert len({one["sent_run"] for one in said}) == 3
    expected = ["POST /tickets", "PATCH /tickets/41", "POST /tickets/41/comments?of=41"]
    assert tickets.lines == expected
    words = json.loads(tickets.seen[2].body)
    assert words.pop("text") == "see #41, thanks"
    assert words in (
        {"ticket": "41", "other": 7, "41": True},
        {"ticket": 41, "other": 7, "41": True},
    )


def test_draft_that_builds_on_another_says_which_to_send_first(
    home: Home, tickets: Tickets, drafts: Drafts, capsys: Said
) -> None:
    first, second, _ = kept(home, tickets, *FAMILY, world=WORLD)
    assert paddock("send", second.draft_id) == 2
    assert f"paddock drafts send {first.draft_id}" in capsys.readouterr().err
    drafts.change(first.draft_id, "discarded", "ann")
    assert paddock("send", second.draft_id) == 2
    assert "discarded" in capsys.readouterr().err
    assert tickets.seen == []


_NAMELESS = ("{}", "[]", "no", '{"id": null}', '{"id": ".."}', '{"id": {"a": 1}}',
             '{"id": true}', '{"id": "a b"}')  # fmt: skip


@pytest.mark.parametrize("answer", _NAMELESS)
def test_answer_that_does_not_name_the_record_stops_what_builds_on_it(
    home: Home, tickets: Tickets, drafts: Drafts, capsys: Said, answer: str
) -> None:
    first, second, _ = kept(home, tickets, *FAMILY, world=WORLD)
    tickets.answer = lambda _: (201, answer.encode())
    assert paddock("send", first.draft_id) == 0
    assert paddock("send", second.draft_id) == 2
    assert "what it is called" in capsys.readouterr().err
    assert len(tickets.seen) == 1


def test_real_id_cannot_lead_elsewhere(home: Home, tickets: Tickets, drafts: Drafts) -> None:
    first, second, _ = kept(home, tickets, *FAMILY, world=WORLD)
    tickets.answer = lambda _: (201, b'{"id": "../admin?x=1"}')
    assert paddock("send", first.draft_id) == 0
    assert paddock("send", second.draft_id) == 0
    assert tickets.lines[1] == "PATCH /tickets/..%2Fadmin%3Fx%3D1"


def test_id_that_no_draft_of_the_run_made_is_not_sent(
    home: Home, tickets: Tickets, capsys: Said
) -> None:
    asked = ("POST", "/notes", JSON, b'{"on": 9000000000000001}')
    (draft,) = kept(home, tickets, asked, world=WORLD)
    assert paddock("send", draft.draft_id) == 2
    assert "9000000000000001" in capsys.readouterr().err


def test_number_like_a_shadows_is_a_number_where_nothing_stood_in(
    home: Home, tickets: Tickets
) -> None:
    asked = ("POST", "/notes", JSON, b'{"on":9000000000000001}')
    (draft,) = kept(home, tickets, asked)
    assert paddock("send", draft.draft_id) == 0
    assert tickets.seen[0].body == asked[3]


def test_all_of_a_run_stop_at_the_first_that_fails(
    home: Home, tickets: Tickets, drafts: Drafts, capsys: Said
) -> None:
    asked = [("POST", f"/{name}", JSON, b'{"a":1}') for name in "abc"]
    made = kept(home, tickets, *asked)
    tickets.answer = lambda seen: (422, b"") if seen.path == "/b" else (200, b"{}")
    assert paddock("send", "--all", "kept") == 1
    assert tickets.lines == ["POST /a", "POST /b"]
    assert [drafts.get(one.draft_id).state for one in made] == ["sent", "draft", "draft"]
    tickets.answer = lambda seen: None if seen.path == "/b" else (200, b"{}")
    assert paddock("send", "--all", "kept") == 1
    assert [drafts.get(one.draft_id).state for one in made] == ["sent", "sending", "draft"]
    assert paddock("send", "--all", "kept", "--json") == 4  # nobody knows about the second
    assert tickets.lines == ["POST /a", "POST /b", "POST /b"]
    assert paddock("send", "--all", "nothing") == 1
    with pytest.raises(SystemExit):
        paddock("send")
    with pytest.raises(SystemExit):
        paddock("send", made[2].draft_id, "--all", "kept")


def test_call_of_a_tool_needs_its_functions(
    home: Home, tickets: Tickets, drafts: Drafts, capsys: Said
) -> None:
    file(tickets, tools={"refund": {"effect": "write"}})
    action = Action(Kind.TOOL, "refund", {}, Effect.WRITE)
    assert paddock("send", drafts.add("run-1", "clerk", 1, action, None)) == 2
    assert "--tools" in capsys.readouterr().err


def test_tls_is_verified_by_the_authorities_of_the_file(
    home: Home, tickets: Tickets, drafts: Drafts, tmp_path: Path
) -> None:
    authority = Authority()
    context = authority.context_for(HOST)
    context.sni_callback = None
    tickets.secure(context)
    text = paddock_file(tickets, stage="draft")
    (draft,) = Keeping(home, text).keep(POST, scheme="https")
    file(tickets)
    assert paddock("send", draft.draft_id) == 1  # nobody knows the server
    assert (tickets.seen, drafts.get(draft.draft_id).state) == ([], "draft")
    (tmp_path / "ca.pem").write_bytes(authority.ca_pem)
    network = {"allow": [f"{HOST}:443"], "hosts": {HOST: tickets.place}, "tls": {"ca": "ca.pem"}}
    file(tickets, network=network)
    assert paddock("send", draft.draft_id) == 0
    assert tickets.lines == ["POST /tickets?notify=1"]


@pytest.mark.parametrize("how", [signal.SIGINT, signal.SIGKILL])
def test_second_sender_is_late_and_an_interrupted_send_stays_sending(
    home: Home, tickets: Tickets, drafts: Drafts, capsys: Said, how: signal.Signals
) -> None:
    (draft,) = kept(home, tickets)
    arrived, may_answer = threading.Event(), threading.Event()

    def answer(asked: Seen) -> Answer:
        arrived.set()
        may_answer.wait(WAIT_S)
        return 200, b"{}"

    tickets.answer = answer
    words = [sys.executable, "-m", "paddock.cli.main", "drafts", "send", draft.draft_id]
    # Whoever runs the tests in the background has had interrupts ignored, and children inherit it.
    with_interrupts = ["env", "--default-signal=INT", *words]
    first = subprocess.Popen(with_interrupts, env=dict(os.environ), stderr=subprocess.DEVNULL)
    try:
        assert arrived.wait(WAIT_S)
        assert paddock("send", draft.draft_id) == 4
        assert "is sending" in capsys.readouterr().err
        first.send_signal(how)
        assert first.wait(WAIT_S) != 0
    finally:
        may_answer.set()
        first.kill()
        first.wait()
    assert (len(tickets.seen), drafts.get(draft.draft_id).state) == (1, "sending")
    assert paddock("send", draft.draft_id) == 4
    assert len(tickets.seen) == 1
    assert paddock("discard", draft.draft_id, "--stuck") == 0
