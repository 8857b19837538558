"""The application around handlers: what reaches them, and what becomes of their answers."""

from __future__ import annotations

import asyncio
import base64
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import msgspec
import pytest

from cases import for_each
from paddock.world.asgi import HttpAnswer, WorldRequest, call
from paddock.world.kit import Api, ApiError, Call, Reply, RequestError, Route
from paddock.world.store import Store

MULTIPART = (
    b'--b\r\nContent-Disposition: form-data; name="title"\r\n\r\nEmma\r\n'
    b'--b\r\nContent-Disposition: form-data; name="cover"; filename="a.png"\r\n'
    b"Content-Type: image/png\r\n\r\nPNG\r\n--b--\r\n"
)


class Library(Api):
    """One handler for each thing that is tested."""

    max_body = 1000

    def __init__(self, store: Store) -> None:
        self.store = store
        super().__init__(store, [
            Route("GET", "/books", lambda call: Reply({"books": store.find("books")})),
            Route("POST", "/books", self.create),
            Route("GET", "/books/{id}", self.show),
            Route("GET", "/books/{id}/pages/{page}", lambda call: Reply(dict(call.params))),
            Route("GET", "/files/{name:path}", lambda call: Reply(dict(call.params))),
            Route("POST", "/form", self.form),
            Route("GET", "/bytes", lambda call: Reply.text("plain", 418)),
            Route("GET", "/raw", lambda call: Reply(msgspec.Raw(b'{"a": 1}'))),
            Route("DELETE", "/books", lambda call: Reply(None, 204)),
            Route("GET", "/echo", self.echo),
        ])  # fmt: skip

    def authenticate(self, call: Call) -> str | None:
        if call.bearer_token == "wrong":
            raise ApiError(401, {"error": "who are you?"})
        return call.bearer_token or None

    def finish(self, call: Call, reply: Reply) -> Reply:
        return Reply(reply.body, reply.status, {**reply.headers, "x-user": call.user or "nobody"})

    def create(self, call: Call) -> Reply:
        book = call.json_object()
        self.store.put("books", "b1", book)
        if "bad" in book:
            raise ApiError(409, {"error": "bad"}, {"retry-after": "1"})
        return Reply(book, 201)

    def show(self, call: Call) -> Reply:
        return Reply({"id": call.params["id"], "query": call.query})

    def form(self, call: Call) -> Reply:
        form = call.form
        files = [[one.field, one.filename, one.content_type, len(one.data)] for one in form.files]
        return Reply({"fields": form.fields, "files": files})

    def echo(self, call: Call) -> Reply:
        return Reply({"basic": call.basic_credentials, "url": call.url(page=2)},
                     headers={"x-echo": call.query.get("text", "")})  # fmt: skip


@pytest.fixture
def library(tmp_path: Path) -> Iterator[Library]:
    with Store.open(tmp_path / "library.sqlite") as store:
        yield Library(store)


def ask(
    api: Api, method: str, target: str, body: bytes = b"", is_prompt: bool = True, **headers: str
) -> HttpAnswer:
    path, _, query = target.partition("?")
    pairs = [(n.replace("_", "-").encode(), v.encode("latin-1")) for n, v in headers.items()]
    request = WorldRequest(method, path, query, pairs, body, host="library.example")
    return asyncio.run(call(api, request, is_prompt=is_prompt))


def value(answer: HttpAnswer) -> Any:
    assert isinstance(answer.body, bytes)
    return json.loads(answer.body)


def header(answer: HttpAnswer, name: str) -> str | None:
    return {n.decode(): v.decode("latin-1") for n, v in answer.headers}.get(name)


def test_an_answer_is_json_with_its_length(library: Library) -> None:
    answer = ask(library, "GET", "/books")
    assert (answer.status, answer.body) == (200, b'{"books":[]}')
    assert header(answer, "content-type") == "application/json"
    assert header(answer, "content-length") == "12"


@for_each(
    ("target", "params"),
    [
        ("/books/b1/pages/7", {"id": "b1", "page": "7"}),
        ("/books/a%2Fb/pages/%C3%A9", {"id": "a/b", "page": "é"}),
        ("/files/a/b%20c", {"name": "a/b c"}),
        ("/books/b1/pages/7/", {"id": "b1", "page": "7"}),
    ],
)
def test_parameters_of_a_path_are_decoded_after_it_was_matched(
    library: Library, target: str, params: dict[str, str]
) -> None:
    assert value(ask(library, "GET", target)) == params


def test_what_no_route_has_is_refused(library: Library) -> None:
    for method, target in [("GET", "/nothing"), ("PUT", "/books"), ("GET", "/books//pages/1")]:
        answer = ask(library, method, target)
        assert (answer.status, list(value(answer))) == (404, ["error"])


def test_an_error_undoes_what_its_handler_wrote(library: Library) -> None:
    answer = ask(library, "POST", "/books", b'{"bad": 1}')
    assert (answer.status, value(answer)) == (409, {"error": "bad"})
    assert header(answer, "retry-after") == "1"
    assert library.store.count("books") == 0
    assert ask(library, "POST", "/books", b'{"good": 1}').status == 201
    assert library.store.count("books") == 1


@for_each(
    ("body", "status"),
    [
        (b"{", 400),
        (b"[1]", 400),
        (b'{"a": NaN}', 400),
        (b'{"a": "\\ud800"}', 400),
        (b'{"a":' + b"[" * 100 + b"]" * 100 + b"}", 400),
        (b'{"a": "' + b"x" * 1000 + b'"}', 413),
        (b"", 201),
    ],
)
def test_a_body_is_bounded_and_strict(library: Library, body: bytes, status: int) -> None:
    assert ask(library, "POST", "/books", body).status == status


@for_each(
    ("content_type", "body", "fields", "files"),
    [
        ("application/x-www-form-urlencoded", b"a=1&a=2&b=", {"a": ["1", "2"], "b": [""]}, []),
        ("multipart/form-data; boundary=b", MULTIPART, {"title": ["Emma"]},
         [["cover", "a.png", "image/png", 3]]),
    ],
)  # fmt: skip
def test_a_form_of_either_kind_is_read(
    library: Library, content_type: str, body: bytes, fields: Any, files: Any
) -> None:
    answer = ask(library, "POST", "/form", body, content_type=content_type)
    assert value(answer) == {"fields": fields, "files": files}


def test_a_form_that_cannot_be_read_is_refused(library: Library) -> None:
    broken = ask(library, "POST", "/form", b"--x", content_type="multipart/form-data; boundary=b")
    assert broken.status == 400
    many = b"&".join(b"a%d=" % number for number in range(120))
    assert ask(library, "POST", "/form", many).status == 200


def test_the_caller_is_known_to_hooks(library: Library) -> None:
    assert header(ask(library, "GET", "/books", authorization="Bearer ada"), "x-user") == "ada"
    answer = ask(library, "GET", "/nothing", authorization="Bearer wrong")
    assert (answer.status, value(answer)) == (401, {"error": "who are you?"})


def test_credentials_and_urls(library: Library) -> None:
    basic = "Basic " + base64.b64encode(b"ada:se:cret").decode()
    found = value(ask(library, "GET", "/echo?page=1&a=b", authorization=basic))
    assert found == {"basic": ["ada", "se:cret"],
                     "url": "https://library.example/echo?page=2&a=b"}  # fmt: skip
    assert value(ask(library, "GET", "/echo", authorization="Basic !"))["basic"] is None


def test_a_header_cannot_be_ended_by_its_value(library: Library) -> None:
    answer = ask(library, "GET", "/echo?text=a%0D%0Ax-b:%20c%E2%82%AC")
    assert header(answer, "x-echo") == "ax-b: c?"


def test_bodies_that_are_not_json_values(library: Library) -> None:
    plain = ask(library, "GET", "/bytes")
    assert (plain.status, plain.body) == (418, b"plain")
    assert header(plain, "content-type") == "text/plain; charset=utf-8"
    assert ask(library, "GET", "/raw").body == b'{"a": 1}'
    empty = ask(library, "DELETE", "/books")
    assert (empty.status, empty.body, header(empty, "content-length")) == (204, b"", None)


def test_head_is_get_without_a_body(library: Library) -> None:
    answer = ask(library, "HEAD", "/books")
    assert (answer.status, answer.body, header(answer, "content-length")) == (200, b"", "12")


def test_an_api_answers_without_waiting(library: Library) -> None:
    """A prompt service is answered in the caller's task: nothing of the kit may need its own."""

    async def begin() -> int:
        request = WorldRequest("POST", "/books", body=b"{}", host="library.example")
        try:
            call(library, request, is_prompt=True).send(None)
        except StopIteration as done:
            return int(done.value.status)
        raise AssertionError("it waited for something")

    assert asyncio.run(begin()) == 201


def test_a_service_words_its_own_refusals(tmp_path: Path) -> None:
    class Terse(Api):
        def refuse(self, call: Call, error: RequestError) -> Reply:
            return Reply({"code": error.status})

    with Store.open(tmp_path / "s.sqlite") as store:
        assert value(ask(Terse(store, []), "GET", "/")) == {"code": 404}
