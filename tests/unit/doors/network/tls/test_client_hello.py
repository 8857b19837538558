"""Reading a client's first message: whole, in pieces, wrong, and made to deceive."""

from __future__ import annotations

import ssl

import pytest
from hypothesis import given
from hypothesis import strategies as st

from cases import for_each
from paddock.doors.network.tls.client_hello import (
    MAX_HELLO_BYTES,
    BadHello,
    Hello,
    HelloReader,
    NotTls,
    is_tls,
)

NAME = "api.example.com"
# A name that is not ASCII is refused by the callback's caller, which says so on its own.
LOUD = pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning")


def read_hello(data: bytes) -> Hello | None:
    return HelloReader().feed(data)


def hello(name: str | None, *, alpn: tuple[str, ...] = (), ciphers: str = "DEFAULT") -> bytes:
    """What Python's own client sends."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.check_hostname = False
    context.set_ciphers(ciphers)
    if alpn:
        context.set_alpn_protocols(list(alpn))
    sent = ssl.MemoryBIO()
    with pytest.raises(ssl.SSLWantReadError):
        context.wrap_bio(ssl.MemoryBIO(), sent, server_hostname=name).do_handshake()
    return sent.read()


def vector(data: bytes, width: int = 2) -> bytes:
    return len(data).to_bytes(width, "big") + data


def crafted(*extensions: tuple[int, bytes], version: bytes = b"\x03\x03") -> bytes:
    """A hello of TLS 1.2 with whatever extensions."""
    said = b"".join(kind.to_bytes(2, "big") + vector(body) for kind, body in extensions)
    body = version + bytes(32) + vector(b"", 1) + vector(b"\xc0\x2f\xc0\x2b") + vector(b"\0", 1)
    return records(b"\x01" + vector(body + vector(said), 3))


def records(message: bytes, size: int = 16384) -> bytes:
    parts = [message[at : at + size] for at in range(0, len(message), size)]
    return b"".join(b"\x16\x03\x01" + vector(part) for part in parts)


def server_names(*names: bytes) -> tuple[int, bytes]:
    return 0, vector(b"".join(b"\0" + vector(name) for name in names))


@pytest.mark.parametrize("name", [NAME, "API.Example.com", "a" * 63 + ".example", None])
def test_name_is_read_as_it_was_sent(name: str | None) -> None:
    assert read_hello(hello(name)) == Hello(name)


def test_hello_of_an_old_client_is_read() -> None:
    assert read_hello(crafted(server_names(b"old.example"), version=b"\x03\x01")) == Hello(
        "old.example"
    )


def test_hello_without_extensions_has_no_name() -> None:
    assert read_hello(crafted()) == Hello(None)


def test_every_beginning_of_a_hello_needs_more() -> None:
    whole = hello(NAME)
    assert all(read_hello(whole[:end]) is None for end in range(len(whole)))


def test_hello_that_drips_in_is_read_with_its_last_byte() -> None:
    whole, reader = hello(NAME), HelloReader()
    answers = [reader.feed(whole[at : at + 1]) for at in range(len(whole))]
    assert answers == [None] * (len(whole) - 1) + [Hello(NAME)]


@pytest.mark.parametrize("size", [1, 7, 100])
def test_hello_in_many_records_is_read(size: int) -> None:
    assert read_hello(records(hello(NAME)[5:], size)) == Hello(NAME)


def test_what_follows_the_hello_does_not_matter() -> None:
    assert read_hello(hello(NAME) + b"\x17\x03\x03" + bytes(MAX_HELLO_BYTES)) == Hello(NAME)


@pytest.mark.parametrize(
    "data", [b"GET / HTTP/1.1\r\n", b"\x15\x03\x01", b"\x16\x04", b"\x80\x2e\x01", b"SSH-2.0-x"]
)
def test_other_protocols_are_not_tls(data: bytes) -> None:
    assert is_tls(data) is False
    with pytest.raises(NotTls):
        read_hello(data)
    with pytest.raises(NotTls):
        reader = HelloReader()
        for byte in data:
            reader.feed(bytes([byte]))


@pytest.mark.parametrize(("data", "verdict"), [(b"", None), (b"\x16", None), (b"\x16\x03", True)])
def test_tls_is_known_by_two_bytes(data: bytes, verdict: bool | None) -> None:
    assert is_tls(data) is verdict


@for_each(
    "data",
    [
        b"\x16\x03\x01\x00\x05aaaaa",
        b"\x16\x03\x01\xff\xff" + bytes(64),
        b"\x16\x03\x01\x00\x04\x02\x00\x00\x00",
        crafted(server_names(b"a.example", b"b.example")),
        crafted(server_names(b"a.example"), server_names(b"b.example")),
        crafted(server_names(b"a.example\0.b.example")),
        crafted(server_names(b"a" * 300)),
        crafted((0, vector(b"\0" + vector(b"a.example") + b"more"))),
    ],
    ids=["noise", "record", "server", "two names", "two lists", "nul", "long", "trailing"],
)
def test_hello_that_can_be_read_in_two_ways_is_refused(data: bytes) -> None:
    with pytest.raises(BadHello):
        read_hello(data)


@LOUD
def test_name_that_is_not_ascii_is_refused() -> None:
    with pytest.raises(BadHello):
        read_hello(crafted(server_names(b"\xff\xfe.example")))


def test_hello_that_does_not_end_is_given_up() -> None:
    endless = records(b"\x01" + (1 << 17).to_bytes(3, "big") + bytes(1 << 17), 64)
    reader = HelloReader()
    with pytest.raises(BadHello, match="more than"):
        for at in range(0, len(endless), 1000):
            assert reader.feed(endless[at : at + 1000]) is None


def test_long_hello_within_the_limit_is_read() -> None:
    protocols = tuple(f"{number:03}" + "x" * 200 for number in range(60))
    whole = hello(NAME, alpn=protocols)
    assert len(whole) > 12_000
    assert read_hello(whole) == Hello(NAME)


@LOUD
@given(st.binary(max_size=600))
def test_any_bytes_end_in_a_value_or_a_known_error(data: bytes) -> None:
    for start in (b"", b"\x16\x03\x01", b"\x16\x03\x01" + vector(data)):
        _survives(start + data)


@LOUD
@given(st.data())
def test_damaged_hello_ends_in_a_value_or_a_known_error(data: st.DataObject) -> None:
    whole = bytearray(crafted(server_names(NAME.encode()), (16, vector(vector(b"h2", 1)))))
    for _ in range(data.draw(st.integers(1, 4))):
        whole[data.draw(st.integers(0, len(whole) - 1))] = data.draw(st.integers(0, 255))
    _survives(bytes(whole))


def _survives(data: bytes) -> None:
    try:
        answer = read_hello(data)
    except (NotTls, BadHello):
        return
    assert answer is None or isinstance(answer, Hello)
