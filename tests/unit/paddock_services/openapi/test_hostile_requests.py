"""Requests that are meant to break it. Each gets an answer, and nothing is kept of them."""

from __future__ import annotations

from cases import for_each
from unit.paddock_services.openapi.serving import Served

FORM = {"content-type": "application/x-www-form-urlencoded"}


@for_each(
    "body",
    [
        b"{",
        b"\xff\xfe\x00",
        b'{"email": "a@example.com", "age": NaN}',
        b'{"email": "a@example.com", "name": "\\ud800"}',
        b'{"email": "a@example.com", "age": ' + b"9" * 5_000 + b"}",
        b'{"email": "a@example.com", "x": ' + b"[" * 100_000 + b"]" * 100_000 + b"}",
        b'{"email": "a@example.com", "x": ' + b'{"a":' * 80 + b"1" + b"}" * 80 + b"}",
        b"null",
        b"[]",
        b'"text"',
        b"[" * 900 + b"]" * 900,
    ],
)
def test_body_that_cannot_be_kept_is_refused(shop: Served, body: bytes) -> None:
    reply = shop.ask("POST", "/customers", body, {"content-type": "application/json"})
    assert reply.status in (400, 422), reply.raw
    assert shop.store.count("customers") == 0


def test_body_beyond_the_limit_is_refused(shop: Served) -> None:
    body = b'{"email": "a@example.com", "name": "' + b"x" * (9 << 20) + b'"}'
    assert shop.ask("POST", "/customers", body).status == 413


def test_our_own_marks_cannot_be_sent(shop: Served) -> None:
    body = {"email": "a@example.com", "~scope": {"orderid": "1"}, "~id": "x", "~gone": True}
    made = shop.ask("POST", "/customers", body)
    assert made.status == 201 and not any(name.startswith("~") for name in made.json)
    kept = shop.store.find("customers")[0]
    assert not any(name.startswith("~") for name in kept)


@for_each(
    "path",
    [
        "/customers/%00",
        "/customers/%2e%2e%2forders",
        "/customers/" + "a" * 60_000,
        "/customers/%ff%fe",
        "/customers//",
        "/" * 3_000,
        "/a" * 3_000,
        "/customers/a%0d%0ax-evil:%201",
        "/customers/%F0%9F%98%80",
    ],
)
def test_odd_path_is_not_found(shop: Served, path: str) -> None:
    reply = shop.ask("GET", path)
    assert reply.status in (404, 200), reply.raw
    assert "x-evil" not in reply.headers


def test_slash_in_an_id_does_not_reach_another_parents_child(shop: Served) -> None:
    id = "11111111-1111-4111-8111-111111111111"
    line = {"order_id": id, "number": 5, "sku": "ABC-1234", "quantity": 1}
    shop.service.seed({"orders": [{"id": id, "customer_id": "c", "total": 1}], "lines": [line]})
    assert shop.ask("GET", f"/orders/{id}/lines/5").status == 200
    assert shop.ask("GET", f"/customers/{id}%2F5").status == 404


@for_each(
    "query",
    [
        "&".join(f"a{n}=1" for n in range(5_000)),
        "limit=" + "9" * 10_000,
        "starting_after=%00",
        "starting_after=" + "A" * 50_000,
        "starting_after=LTU6",
        "%ff=%fe",
        "limit=5&limit=-1",
        "email[$ne]=x",
    ],
)
def test_odd_query_gets_an_answer(shop: Served, query: str) -> None:
    shop.ask("POST", "/customers", {"email": "a@example.com"})
    assert shop.ask("GET", f"/customers?{query}").status in (200, 400)


def test_cursor_of_a_negative_place_does_not_wrap_around(shop: Served) -> None:
    shop.ask("POST", "/customers", {"email": "a@example.com"})
    reply = shop.ask("GET", "/customers?starting_after=LTU6")  # "-5:"
    assert reply.status == 400


def test_form_that_mixes_shapes_gets_an_answer(shop: Served) -> None:
    for body in (
        b"address=x&address[street]=A",
        b"email[]=a&email=b",
        b"[]=x",
        b"%ff=1",
        b"\xff=1",
    ):
        assert shop.ask("POST", "/customers", body, FORM).status in (400, 422)


def test_broken_multipart_gets_an_answer(shop: Served) -> None:
    for kind in (
        "multipart/form-data",
        "multipart/form-data; boundary=",
        "multipart/form-data; \xff",
    ):
        reply = shop.ask("POST", "/customers", b"--x\r\n\r\n", {"content-type": kind})
        assert reply.status == 415


def test_method_that_nobody_knows_is_refused(shop: Served) -> None:
    assert shop.ask("BREW", "/customers").status == 405


def test_id_with_line_ends_cannot_add_a_header(pets: Served) -> None:
    reply = pets.ask("POST", "/user", {"username": "a\r\nx-evil: 1"})
    assert reply.status in (200, 201) and "x-evil" not in reply.headers
