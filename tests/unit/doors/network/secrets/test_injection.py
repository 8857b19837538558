"""A value is put where the file says, towards its hosts only, and cannot begin another header."""

from __future__ import annotations

import base64
import json
from pathlib import Path
from urllib.parse import parse_qs, parse_qsl, unquote, urlsplit

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from cases import for_each
from paddock.doors.network.exchange import BadMessage, Headers
from paddock.doors.network.secrets.injection import Injected, Injector, place_of
from paddock.doors.network.secrets.keeper import Revoked
from paddock.model.errors import InvalidInput
from paddock.state.home import Home
from paddock.state.revocations import revoke
from unit.doors.network.keepers import API, ELSEWHERE, VALUE, make_keeper, terms_of

RAW = VALUE.encode()


class Bench:
    """One secret, KEY, in one place."""

    def __init__(self, tmp_path: Path, placed: str | None, to: str = API) -> None:
        self.keeper = make_keeper(tmp_path, terms_of("KEY", to, placed))
        self.injector = Injector(self.keeper)
        self.placeholder = self.keeper.environment()["KEY"]
        self.mark = self.placeholder.encode()

    def send(
        self,
        headers: Headers | None = None,
        target: str = "/v1",
        body: bytes | None = None,
        host: str = API,
    ) -> Injected:
        return self.injector.apply(headers or [], target, body, host)


def test_header_is_set_with_its_scheme(tmp_path: Path) -> None:
    sent = Bench(tmp_path, "header:Authorization=Bearer").send([(b"accept", b"*/*")])
    assert sent.headers == [(b"accept", b"*/*"), (b"Authorization", b"Bearer " + RAW)]
    assert sent.used == ("KEY",)


def test_header_without_scheme_is_the_value_alone(tmp_path: Path) -> None:
    assert Bench(tmp_path, "header:X-Api-Key").send().headers == [(b"X-Api-Key", RAW)]


def test_key_of_the_agents_own_is_replaced_in_every_spelling_of_the_header(tmp_path: Path) -> None:
    own = [(b"AUTHORIZATION", b"Bearer mine"), (b"x", b"1"), (b"authorization", b"Basic bWluZQ==")]
    sent = Bench(tmp_path, "header:Authorization=Bearer").send(own)
    assert sent.headers == [(b"x", b"1"), (b"Authorization", b"Bearer " + RAW)]


def test_basic_has_user_and_value(tmp_path: Path) -> None:
    sent = Bench(tmp_path, "basic:deploy").send([(b"authorization", b"Bearer mine")])
    ((name, value),) = sent.headers
    assert name == b"Authorization"
    assert base64.b64decode(value.removeprefix(b"Basic ")) == b"deploy:" + RAW


def test_query_is_set_and_the_rest_of_it_kept_as_it_was(tmp_path: Path) -> None:
    sent = Bench(tmp_path, "query:key").send(target="/a%2Fb?q=%7e+x&key=mine&k%65y=mine&z")
    assert sent.target.startswith("/a%2Fb?q=%7e+x&z&key=")
    assert parse_qs(urlsplit(sent.target).query)["key"] == [VALUE]


@pytest.mark.parametrize("target", ["/a?x=1;key=mine", "/a?key", "/a?&&key=mine", "/a#?key=mine"])
def test_no_spelling_of_the_agents_own_key_stays_in_the_query(tmp_path: Path, target: str) -> None:
    sent = Bench(tmp_path, "query:key").send(target=target).target
    assert "mine" not in sent
    assert [value for name, value in parse_qsl(urlsplit(sent).query) if name == "key"] == [VALUE]


def test_body_of_json_is_filled_and_stays_json(tmp_path: Path) -> None:
    bench = Bench(tmp_path, "body")
    body = json.dumps({"a": f"x {bench.placeholder} y", "b": [bench.placeholder]}).encode()
    headers = [(b"content-type", b"application/json; charset=utf-8"), (b"Content-Length", b"1")]
    sent = bench.send(headers, body=body)
    assert sent.body is not None
    assert json.loads(sent.body) == {"a": f"x {VALUE} y", "b": [VALUE]}
    assert (b"content-length", str(len(sent.body)).encode()) in sent.headers
    assert bench.injector.needs_body(API)
    assert not bench.injector.needs_body(ELSEWHERE)


@pytest.mark.parametrize("is_body", [False, True])
def test_a_long_value_does_not_make_a_request_huge(tmp_path: Path, *, is_body: bool) -> None:
    """A megabyte of placeholders for a value of eight kilobytes would be sent as 240 of them."""
    terms = terms_of("KEY", API, "body" if is_body else None)
    keeper = make_keeper(tmp_path, terms, values={"KEY": "x" * 8192})
    many = keeper.environment()["KEY"].encode() * 1000
    kind = (b"content-type", b"application/json")
    injector = Injector(keeper)
    with pytest.raises(BadMessage):
        if is_body:
            injector.apply([kind], "/", b'["%b"]' % many, API)
        else:
            injector.apply([kind, (b"x", many)], "/", None, API)


def test_body_of_a_form_is_filled_and_stays_a_form(tmp_path: Path) -> None:
    bench = Bench(tmp_path, "body")
    sent = bench.send(
        [(b"content-type", b"application/x-www-form-urlencoded")],
        body=f"a=1&secret={bench.placeholder}&b=2".encode(),
    )
    assert sent.body is not None
    assert parse_qs(sent.body.decode()) == {"a": ["1"], "secret": [VALUE], "b": ["2"]}


@pytest.mark.parametrize(
    "headers",
    [
        [],
        [(b"content-type", b"text/plain")],
        [(b"content-type", b"application/json"), (b"content-encoding", b"gzip")],
    ],
)
def test_body_whose_format_is_not_known_keeps_the_placeholder(
    tmp_path: Path, headers: Headers
) -> None:
    bench = Bench(tmp_path, "body")
    sent = bench.send(headers, body=bench.mark)
    assert sent.body == bench.mark
    assert sent.used == ()


def test_placeholder_is_replaced_in_headers_path_and_query(tmp_path: Path) -> None:
    bench = Bench(tmp_path, None)
    headers = [(b"authorization", b"token " + bench.mark), (b"accept", b"*/*")]
    sent = bench.send(headers, f"/bot{bench.placeholder}/send?k={bench.placeholder}&x=1")
    assert sent.headers == [(b"authorization", b"token " + RAW), (b"accept", b"*/*")]
    split = urlsplit(sent.target)
    assert unquote(split.path) == f"/bot{VALUE}/send"
    assert parse_qs(split.query) == {"k": [VALUE], "x": ["1"]}
    assert sent.used == ("KEY",)


@pytest.mark.parametrize("scheme", [b"Basic ", b"basic ", b"BASIC "])
def test_placeholder_inside_basic_credentials_is_replaced(tmp_path: Path, scheme: bytes) -> None:
    bench = Bench(tmp_path, None)
    value = scheme + base64.b64encode(b"git:" + bench.mark)
    ((_, sent),) = bench.send([(b"authorization", value)]).headers
    assert base64.b64decode(sent[6:]) == b"git:" + RAW


def test_basic_credentials_without_a_placeholder_are_left_alone(tmp_path: Path) -> None:
    headers = [(b"authorization", b"Basic !!!"), (b"x", b"Basic "), (b"y", b"Basic YTpi")]
    sent = Bench(tmp_path, None).send(headers)
    assert sent.headers == headers
    assert sent.used == ()


def test_body_is_not_touched_where_the_file_does_not_say_so(tmp_path: Path) -> None:
    bench = Bench(tmp_path, None)
    headers = [(b"content-type", b"application/json")]
    assert bench.send(headers, body=b'"' + bench.mark + b'"').body == b'"' + bench.mark + b'"'


@pytest.mark.parametrize(
    "placed", [None, "header:Authorization=Bearer", "basic:u", "query:key", "body"]
)
@pytest.mark.parametrize("host", [ELSEWHERE, "x.api.example.com", "example.com", "evilapi.example"])
def test_other_host_gets_the_request_as_it_is(
    tmp_path: Path, placed: str | None, host: str
) -> None:
    bench = Bench(tmp_path, placed)
    headers = [(b"authorization", bench.mark), (b"content-type", b"application/json")]
    sent = bench.send(headers, f"/?k={bench.placeholder}", bench.mark, host)
    assert sent == Injected(headers, f"/?k={bench.placeholder}", bench.mark, ())


def test_request_of_the_agent_is_not_changed_in_place(tmp_path: Path) -> None:
    headers = [(b"authorization", b"mine")]
    Bench(tmp_path, "header:Authorization=Bearer").send(headers)
    assert headers == [(b"authorization", b"mine")]


@pytest.mark.parametrize("placed", ["header:Authorization=Bearer", "basic:u", "query:key"])
def test_revoked_secret_with_a_place_stops_the_request(tmp_path: Path, placed: str) -> None:
    bench = Bench(tmp_path, placed)
    bench.send()
    revoke(Home(tmp_path / "home"), "KEY")
    with pytest.raises(Revoked):
        bench.send([(b"authorization", b"Bearer mine")])


def test_revoked_secret_without_a_place_stops_requests_that_name_it(tmp_path: Path) -> None:
    bench = Bench(tmp_path, None)
    revoke(Home(tmp_path / "home"), "KEY")
    assert bench.send([(b"accept", b"*/*")]).used == ()
    with pytest.raises(Revoked):
        bench.send([(b"authorization", bench.mark)])


def test_of_two_secrets_for_one_header_the_agent_chooses_by_placeholder(tmp_path: Path) -> None:
    keeper = make_keeper(
        tmp_path,
        terms_of("LIVE", placed="header:Authorization=Bearer"),
        terms_of("TEST", placed="header:authorization=Bearer"),
        values={"LIVE": "live-123456", "TEST": "test-123456"},
    )
    injector = Injector(keeper)
    chosen = injector.apply(
        [(b"authorization", b"Bearer " + keeper.environment()["TEST"].encode())], "/", None, API
    )
    assert chosen.headers == [(b"authorization", b"Bearer test-123456")]
    assert chosen.used == ("TEST",)
    usual = injector.apply([(b"authorization", b"Bearer mine")], "/", None, API)
    assert usual.headers == [(b"Authorization", b"Bearer live-123456")]


def test_what_is_sent_shows_no_value_when_it_is_printed(tmp_path: Path) -> None:
    assert "sk-live" not in repr(Bench(tmp_path, "header:Authorization=Bearer").send())


def test_cache_of_hosts_is_bounded(tmp_path: Path) -> None:
    bench = Bench(tmp_path, "header:X", "*.example.com")
    for number in range(3000):
        bench.send(host=f"h{number}.example.com")
    assert bench.injector._slots_of.cache_info().currsize <= 1024


@for_each(
    "placed",
    [
        "header:",
        "header:A B",
        "header:X\r\nY",
        "header:Host",
        "header:content-length",
        "header:Transfer-Encoding=x",
        "header:X=a b",
        "header:X=a\r\n",
        "basic:",
        "basic:a:b",
        "basic:a\n",
        "query:",
        "body:x",
        "cookie:x",
        "Bearer",
    ],
)
def test_place_that_is_none_is_refused(placed: str) -> None:
    with pytest.raises(InvalidInput):
        place_of(placed)


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(
    headers=st.lists(st.tuples(st.just(b"x"), st.binary(max_size=30)), max_size=4),
    placed=st.sampled_from([None, "header:Authorization=Bearer", "basic:u", "query:key", "body"]),
    before=st.binary(max_size=10),
    target=st.text(max_size=30),
)
def test_no_request_gets_a_line_break_that_it_did_not_have(
    tmp_path: Path, headers: Headers, placed: str | None, before: bytes, target: str
) -> None:
    bench = Bench(tmp_path, placed)
    given_headers = [*headers, (b"authorization", before + bench.mark)]
    try:
        sent = bench.send(given_headers, "/" + target)
    except InvalidInput:
        return
    known = {value for _, value in given_headers}
    for _, value in sent.headers:
        assert value in known or not set(value) & set(b"\r\n\0")
    assert sent.target.count("\n") <= target.count("\n")
