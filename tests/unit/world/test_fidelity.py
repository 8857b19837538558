"""A stand-in compared with recordings of what it stands in for."""

from __future__ import annotations

import asyncio
import json
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import pytest
from msgspec.structs import replace

from cases import for_each
from paddock.cli.commands.world_check import main
from paddock.model.errors import HostCannot, InvalidInput
from paddock.world.fidelity.answer_shape import AnswerShape
from paddock.world.fidelity.check import CheckedStandIn, check
from paddock.world.fidelity.compare import ComparedAnswer, compare
from paddock.world.fidelity.exchanges import Exchange, of_host, read_archive
from paddock.world.fidelity.id_map import IdMap
from paddock.world.fidelity.report import Fidelity
from paddock.world.registry import CORE
from paddock.world.service import ASGIApp, Receive, Scope, Send, Service

JSON = [(b"content-type", b"application/json")]


class Shop(Service):
    """Customers that can be made, read and listed; `flaws` are left to the options."""

    name = "shop"
    options = {"without": "a field that it forgets", "crash": "a path that it dies of"}  # noqa: RUF012

    def app(self) -> ASGIApp:
        return self._answer

    async def _answer(self, scope: Scope, receive: Receive, send: Send) -> None:
        body = bytearray()
        is_more = True
        while is_more:
            message = await receive()
            body += message["body"]
            is_more = message.get("more_body", False)
        if scope["path"] == self.context.options.get("crash"):
            raise RuntimeError("it died")
        status, value = self._said(scope["method"], scope["path"], bytes(body))
        await send({"type": "http.response.start", "status": status, "headers": JSON})
        await send({"type": "http.response.body", "body": json.dumps(value).encode()})

    def _said(self, method: str, path: str, body: bytes) -> tuple[int, Any]:
        store = self.context.store
        if method == "POST":
            id = self.context.new_id("cus_", 10)
            made = customer(id, **json.loads(body))
            made.pop(str(self.context.options.get("without", "")), None)
            store.put("customer", id, made)
            return 200, made
        if path == "/v1/customers":
            return 200, {"object": "list", "data": store.find("customer"), "has_more": False}
        found = store.get("customer", path.rpartition("/")[2])
        return (200, found) if found else (404, {"error": {"type": "missing", "message": "no"}})


def customer(id: str, **more: Any) -> dict[str, Any]:
    return {"id": id, "object": "customer", "created": 1_767_000_000, "name": None,
            "address": {"city": "Riga"}, **more}  # fmt: skip


@pytest.fixture(autouse=True)
def shop(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(CORE, "shop", f"{__name__}:Shop")


def one(method: str, path: str, sent: Any = None, status: int = 200, said: Any = None) -> Exchange:
    body = b"" if sent is None else json.dumps(sent).encode()
    answer = b"" if said is None else json.dumps(said).encode()
    return Exchange(
        method, "shop.example", path, "", JSON if body else [], body, status, JSON, answer
    )


REAL = "cus_Real0001"
LIST = {"object": "list", "has_more": False, "data": [customer(REAL, name="Ada")]}
NONE = {"error": {"type": "missing", "message": "No such customer"}}
RECORDED = [
    one("POST", "/v1/customers", {"name": "Ada"}, said=customer(REAL, name="Ada")),
    one("GET", f"/v1/customers/{REAL}", said=customer(REAL, name="Ada")),
    one("GET", "/v1/customers", said=LIST),
    one("GET", "/v1/customers/cus_none00000", status=404, said=NONE),
]


def fidelity(directory: Path, exchanges: list[Exchange], **options: Any) -> Fidelity:
    return asyncio.run(check(CheckedStandIn("shop", options), exchanges, "a recording", directory))


def differences(found: Fidelity) -> list[str]:
    return [line for line in found.lines() if '"' in line or "status" in line or "failed" in line]


def archive(path: Path, exchanges: list[Exchange], **more: Any) -> Path:
    def headers(pairs: Any) -> Any:
        return [{"name": n.decode(), "value": v.decode()} for n, v in pairs]

    entries = [
        {
            "request": {
                "method": e.method,
                "url": f"https://{e.host}{e.path}",
                "headers": headers(e.headers),
                "postData": {"mimeType": "application/json", "text": e.body.decode()},
            },
            "response": {
                "status": e.status,
                "headers": headers(e.answer_headers),
                "content": {"text": e.answer.decode()},
            },
            **more,
        }
        for e in exchanges
    ]
    path.write_text(json.dumps({"log": {"version": "1.2", "entries": entries}}))
    return path


def test_a_stand_in_that_does_the_same_has_100_although_its_ids_are_others(tmp_path: Path) -> None:
    found = fidelity(tmp_path, RECORDED)
    assert differences(found) == []
    assert found.score == 100
    assert [one.name for one in found.endpoints] == [
        "POST /v1/customers", "GET /v1/customers/{id}", "GET /v1/customers",
    ]  # fmt: skip


def test_a_field_that_is_missing_is_named_and_costs(tmp_path: Path) -> None:
    found = fidelity(tmp_path, RECORDED, without="address")
    assert 'POST /v1/customers: missing field "address"' in differences(found)
    assert 'GET /v1/customers: missing field "data[].address"' in differences(found)
    assert not any("city" in line for line in found.lines()), "what is below is not counted again"
    assert 80 < found.score < 100


def test_another_class_of_status_is_worth_nothing(tmp_path: Path) -> None:
    found = fidelity(tmp_path, [one("GET", "/v1/customers/cus_x0000001", said=customer("c"))])
    assert found.score == 0
    assert differences(found) == ["GET /v1/customers/{id}: status 404, really 200"]


def test_a_stand_in_that_dies_is_reported_and_the_rest_is_compared(tmp_path: Path) -> None:
    found = fidelity(tmp_path, RECORDED, crash="/v1/customers")
    assert any("the stand-in failed: it raised RuntimeError" in line for line in found.lines())
    assert {one.name: one.score for one in found.endpoints}["GET /v1/customers"] == 0


def _compared(real: Any, given: Any, *usual: Any) -> tuple[float, list[str]]:
    shape = AnswerShape.of([real, *usual])
    found = compare(
        ComparedAnswer(200, JSON, real), ComparedAnswer(200, JSON, given), shape, IdMap()
    )
    return found.score, [one.text for one in found.differences]


@for_each(
    ("real", "given", "text"),
    [
        ({"a": 1}, {"a": "1"}, 'field "a" is string, really number'),
        ({"a": "x"}, {"a": None}, 'field "a" is null, really never'),
        ({"a": 1}, {"a": 1, "b": 2}, 'extra field "b"'),
        ({"a": {"b": {"c": 1}}}, {"a": {"b": {}}}, 'missing field "a.b.c"'),
        ({"l": [{"a": 1}]}, {"l": [{}]}, 'missing field "l[].a"'),
        ({"kind": "list"}, {"kind": "page"}, "field \"kind\" is 'page', really 'list'"),
        ({"ok": True}, {"ok": False}, 'field "ok" is False, really True'),
        ({"a": []}, {"a": {}}, 'field "a" is object, really list'),
    ],
)
def test_each_kind_of_difference_is_a_sentence(real: Any, given: Any, text: str) -> None:
    score, lines = _compared(real, given)
    assert text in lines
    assert score < 100


@for_each(
    ("real", "given"),
    [
        ({"a": None}, {"a": {"b": 1}}),
        ({"l": []}, {"l": [{"a": 1}]}),
        ({"l": [{"a": 1}]}, {"l": []}),
        ({"id": 7, "customer_id": "x"}, {"id": 8, "customer_id": "y"}),
        ({"created": 1_767_000_000}, {"created": 1_768_000_000}),
        ({"a": 1}, {"a": 1.5} | {"a": 1}),
        ({"message": "No such thing"}, {"message": "nothing"}),
        ({"url": "https://a.example/x"}, {"url": "https://b.example/y"}),
    ],
)
def test_what_cannot_be_the_same_is_no_difference(real: Any, given: Any) -> None:
    assert _compared(real, given) == (100.0, [])


def test_what_only_some_real_answers_have_is_not_missed() -> None:
    assert _compared({"a": 1, "b": 2}, {"a": 1}, {"a": 1}) == (100.0, [])


def test_a_word_that_was_never_recorded_is_told_after_two_answers() -> None:
    real = {"status": "open"}
    _, lines = _compared(real, {"status": "weird"}, {"status": "closed"})
    assert "field \"status\" is 'weird', really one of closed, open" in lines


def test_headers_that_a_client_may_need_are_missed() -> None:
    real = [*JSON, (b"Link", b"x"), (b"X-RateLimit-Remaining", b"1"), (b"Date", b"now")]
    found = compare(
        ComparedAnswer(200, real, {}), ComparedAnswer(200, JSON, {}), AnswerShape.of([{}]), IdMap()
    )
    assert [one.text for one in found.differences] == [
        "missing header link", "missing header x-ratelimit-remaining",
    ]  # fmt: skip


def test_ids_are_learned_from_answers_and_used_in_later_requests() -> None:
    names = IdMap()
    names.learn("/v1/customers", {"id": "cus_Real0001", "n": 5}, {"id": "cus_Mine0001", "n": 6})
    sent = {"customer": "cus_Real0001", "n": 5}
    asked = one("POST", "/v1/customers/cus_Real0001/x.json", sent)
    renamed = names.translate(replace(asked, query="customer=cus_Real0001&limit=5"))
    assert renamed.path == "/v1/customers/cus_Mine0001/x.json"
    assert renamed.query == "customer=cus_Mine0001&limit=5"
    assert json.loads(renamed.body) == {"customer": "cus_Mine0001", "n": 5}


def test_numbers_that_are_ids_are_kept_apart_by_kind() -> None:
    names = IdMap()
    names.learn("/tickets", {"data": [{"id": 7, "user": {"id": 7}, "group_id": 7}]},
                {"data": [{"id": 70, "user": {"id": 71}, "group_id": 72}]})  # fmt: skip
    asked = one("POST", "/tickets/7/users/7", {"ticket_id": 7, "user_id": 7, "size": 7})
    renamed = names.translate(replace(asked, query="group_id=7&page=7"))
    assert renamed.path == "/tickets/70/users/71"
    assert renamed.query == "group_id=72&page=7"
    assert json.loads(renamed.body) == {"ticket_id": 70, "user_id": 71, "size": 7}


def test_an_archive_is_read_with_all_its_oddities(tmp_path: Path) -> None:
    path = archive(tmp_path / "a.har", RECORDED)
    log = json.loads(path.read_text())
    entries = log["log"]["entries"]
    entries[0]["request"]["headers"].append({"name": ":authority", "value": "x"})
    entries[1]["response"]["content"] = {"text": "e30=", "encoding": "base64"}
    entries[2]["request"]["postData"] = {"params": [{"name": "a", "value": "1 2"}]}
    entries[3]["_verdict"] = "block"
    entries += [None, {}, {"request": {}, "response": {"status": 0}}, {"request": 7},
                {"request": {"url": "data:x"}, "response": {"status": 200}},
                {"request": {"url": "https://[x"}, "response": {"status": 200}},
                {"request": {"url": "https://cdn.example/"}, "response": {"status": 200}},
                ]  # fmt: skip
    path.write_bytes(b"\xef\xbb\xbf" + json.dumps(log).encode())
    found = read_archive(path)
    assert [one.host for one in found] == ["shop.example"] * 3 + ["cdn.example"]
    assert all(not name.startswith(b":") for name, _ in found[0].headers)
    assert found[1].answer == b"{}"
    assert found[2].body == b"a=1+2"
    assert of_host(found, None)[0] == "shop.example"
    assert len(of_host(found, "cdn.example")[1]) == 1
    with pytest.raises(InvalidInput, match=r"cdn.example, shop.example"):
        of_host(found, "other.example")


@pytest.mark.parametrize("text", ["", "[]", "{}", '{"log": {"entries": 7}}', "[" * 100_000])
def test_a_file_that_is_no_archive_is_refused(tmp_path: Path, text: str) -> None:
    path = tmp_path / "a.har"
    path.write_text(text)
    with pytest.raises(InvalidInput):
        read_archive(path)


def test_the_command_says_the_number_and_ends_with_1_below_the_least(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = str(archive(tmp_path / "a.har", RECORDED))
    assert main(["shop", "--against", path]) == 0
    assert capsys.readouterr().out.startswith("shop against a.har (shop.example): 100 of 100 (4 ")
    flawed = ["shop", "--against", path, "--option", "without=address"]
    assert main([*flawed, "--min", "80"]) == 0
    capsys.readouterr()
    assert main([*flawed, "--min", "99", "--json"]) == 1
    said = json.loads(capsys.readouterr().out)
    assert said["score"] < 99
    assert said["endpoints"][0]["differences"][0] == {
        "what": "missing", "text": 'missing field "address"', "times": 1,
    }  # fmt: skip


class _Real(BaseHTTPRequestHandler):
    seen: list[tuple[str, str, str]]

    def do_GET(self) -> None:
        assert isinstance(self.server, ThreadingHTTPServer)
        self.seen.append((self.command, self.path, self.headers.get("authorization", "")))
        body = json.dumps({"object": "list", "data": [], "has_more": False}).encode()
        self.send_response(200)
        self.send_header("content-type", "application/json")
        self.send_header("content-length", str(len(body)))
        self.end_headers()
        self.wfile.write(body if self.command == "GET" else b"")

    do_HEAD = do_POST = do_DELETE = do_GET

    def log_message(self, *_: object) -> None:
        pass


@pytest.fixture
def real() -> Iterator[tuple[str, list[tuple[str, str, str]]]]:
    handler = type("Handler", (_Real,), {"seen": []})
    server = ThreadingHTTPServer(("127.0.0.1", 0), handler)
    thread = threading.Thread(target=server.serve_forever, args=(0.02,), daemon=True)
    thread.start()
    yield f"http://127.0.0.1:{server.server_port}", handler.seen
    server.shutdown()
    server.server_close()
    thread.join(5)


def test_a_real_host_is_only_read_and_only_it_gets_the_secret(
    tmp_path: Path, real: Any, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("KEY_OF_TEST", "hush")
    path = archive(tmp_path / "a.har", RECORDED)
    host, seen = real
    code = main(["shop", "--against", host, "--requests", str(path), "--json",
                 "--header", "Authorization: Bearer env:KEY_OF_TEST"])  # fmt: skip
    assert code == 0
    assert {method for method, _, _ in seen} == {"GET"}
    assert len(seen) == 3
    assert {secret for _, _, secret in seen} == {"Bearer hush"}
    said = capsys.readouterr()
    assert "hush" not in said.out + said.err


@pytest.mark.parametrize(
    "words",
    [
        ["--against", "http://shop.example"],
        ["--against", "ftp://shop.example"],
        ["--against", "user:pw@shop.example"],
        ["--against", "shop.example/path"],
        ["--against", "shop.example", "--header", "X-HTTP-Method-Override: DELETE"],
        ["--against", "shop.example", "--header", "nothing"],
        ["--against", "shop.example", "--header", "a: b\r\nc: d"],
        ["--against", "shop.example", "--header", "a: env:NOT_SET_ANYWHERE"],
    ],
)
def test_what_could_harm_a_real_host_is_refused(tmp_path: Path, words: list[str]) -> None:
    requests = tmp_path / "requests.txt"
    requests.write_text("# all of them\nGET /v1/customers\n/v1/customers?x=1\n")
    with pytest.raises(InvalidInput):
        main(["shop", *words, "--requests", str(requests)])


@pytest.mark.parametrize("line", ["POST /x", "DELETE /x", "GET x", "GET /x HTTP/1.1", "GET /a\tb"])
def test_a_list_of_requests_has_only_reads(tmp_path: Path, line: str, real: Any) -> None:
    requests = tmp_path / "requests.txt"
    requests.write_text(line + "\n")
    with pytest.raises(InvalidInput):
        main(["shop", "--against", real[0], "--requests", str(requests)])
    assert real[1] == []


def test_a_host_that_does_not_answer_is_a_sentence(tmp_path: Path) -> None:
    requests = tmp_path / "requests.txt"
    requests.write_text("GET /\n")
    with pytest.raises(HostCannot, match=r"GET http://127.0.0.1:9/"):
        main(["shop", "--against", "http://127.0.0.1:9", "--requests", str(requests)])


def test_a_draft_cannot_be_compared_with_what_it_reads(tmp_path: Path) -> None:
    with pytest.raises(InvalidInput):
        main(["draft", "--against", str(archive(tmp_path / "a.har", RECORDED))])
