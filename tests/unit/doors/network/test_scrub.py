"""A value that a server echoes is replaced, in whatever spelling, pieces and compression."""

from __future__ import annotations

import base64
import gzip
import json
import os
import random
import zlib
from collections.abc import Callable
from pathlib import Path
from urllib.parse import quote, quote_plus

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from paddock.doors.network.exchange import BadMessage
from paddock.doors.network.scrub import Decoder, Scrubber, ask_for_plain, decoder_for
from paddock.doors.network.spellings import Needle, Needles
from paddock.journal.mask import Masker
from unit.doors.network.keepers import API, ELSEWHERE, VALUE, make_keeper, terms_of

NOISE = random.Random(3).randbytes(1000)
SHOWN = "paddock_KEY_0123456789abcdef01234567"
VALUES = [
    "sk-live-9aZ/+x0Qe",
    'with "quotes" & \\back\\slashes\\\\',
    "pässwörd 🔑 geheim",
    "a b+c%d%20",
    "aaaaaa",
    "日本語のパスワード",
    "x" * 300,
    "".join(random.Random(7).choices("abcdefABCDEF0123456789_-", k=120)),
    "ghp_R4nd0mT0k3nOfTh1rtyS1xCh4r4ct3rs00",
]
SPELLINGS: dict[str, Callable[[str], str]] = {
    "plain": lambda s: s,
    "json": lambda s: json.dumps(s, ensure_ascii=False),
    "json in ascii": json.dumps,
    "json in json": lambda s: json.dumps(json.dumps({"a": s})),
    "escaped slashes": lambda s: json.dumps(s).replace("/", "\\/"),
    "url": quote,
    "url, nothing safe": lambda s: quote(s, safe=""),
    "url, form": quote_plus,
    "url, every byte": lambda s: "".join(f"%{byte:02x}" for byte in s.encode()),
    "url, last letter": lambda s: s[:-1] + "".join(f"%{byte:02X}" for byte in s[-1].encode()),
    "url in url": lambda s: quote(quote(s, safe=""), safe=""),
    "hex": lambda s: s.encode().hex(),
    "HEX": lambda s: s.encode().hex().upper(),
    **{
        f"base64 after {shift}": (
            lambda s, shift=shift: base64.b64encode(b"p" * shift + s.encode() + b"q").decode()
        )
        for shift in range(3)
    },
    "base64 for urls": lambda s: base64.urlsafe_b64encode(b"u:" + s.encode()).decode().rstrip("="),
    "base64 in lines": lambda s: base64.encodebytes(b"Authorization " * 3 + s.encode()).decode(),
    "base64 in lines in json": lambda s: json.dumps(
        base64.encodebytes(b"Au" * 40 + s.encode()).decode()
    ),
}


def scrubber_of(value: str) -> Scrubber:
    return Scrubber([Needle("KEY", value)], {"KEY": SHOWN})


def streamed(scrubber: Scrubber, pieces: list[bytes]) -> bytes:
    stream = scrubber.stream()
    return b"".join(map(stream.feed, pieces)) + stream.finish()


@pytest.mark.parametrize("spelling", SPELLINGS)
@pytest.mark.parametrize("value", VALUES, ids=lambda s: s[:8])
def test_value_is_replaced_in_this_spelling(value: str, spelling: str) -> None:
    shown = SPELLINGS[spelling](value).encode()
    out = scrubber_of(value).scrub(b"\xff\0 " + shown + b" \x80 end")
    assert out.startswith(b"\xff\0 ")
    assert out.endswith(b" \x80 end")
    assert SHOWN.encode() in out
    assert Masker({"KEY": value}).is_clean(out.replace(SHOWN.encode(), b" ").decode("latin-1"))
    assert value.encode() not in out


@pytest.mark.parametrize("spelling", SPELLINGS)
@pytest.mark.parametrize("value", [s for s in VALUES if len(s) < 50], ids=lambda s: s[:8])
def test_value_cut_anywhere_in_a_stream_is_replaced(value: str, spelling: str) -> None:
    scrubber = scrubber_of(value)
    data = b"see " + SPELLINGS[spelling](value).encode() + b" end"
    for at in range(len(data) + 1):
        assert SHOWN.encode() in streamed(scrubber, [data[:at], data[at:]]), at


@pytest.mark.parametrize("spelling", SPELLINGS)
@pytest.mark.parametrize("value", VALUES, ids=lambda s: s[:8])
def test_value_that_comes_byte_by_byte_is_replaced(value: str, spelling: str) -> None:
    scrubber = scrubber_of(value)
    data = b"see " + SPELLINGS[spelling](value).encode() + b", then more"
    out = streamed(scrubber, [bytes([byte]) for byte in data])
    assert out.startswith(b"see ")
    assert out.endswith(b", then more")
    assert SHOWN.encode() in out
    assert not Needle("KEY", value).is_in(out.replace(SHOWN.encode(), b" "))


@settings(deadline=None, max_examples=200)
@given(st.lists(st.text(alphabet="seckrt-%\\ \n7u0", max_size=8).map(str.encode), max_size=12))
def test_stream_loses_and_invents_nothing(pieces: list[bytes]) -> None:
    scrubber = scrubber_of("secret-key")
    assert streamed(scrubber, pieces) == scrubber.scrub(b"".join(pieces))


@settings(deadline=None, max_examples=200)
@given(
    value=st.text(st.characters(min_codepoint=33, max_codepoint=255), min_size=6, max_size=40),
    spelling=st.sampled_from(sorted(SPELLINGS)),
    noise=st.binary(max_size=40),
)
def test_filter_misses_nothing_that_the_expressions_find(
    value: str, spelling: str, noise: bytes
) -> None:
    if not value.isprintable():
        return
    needle = Needle("KEY", value)
    data = noise + SPELLINGS[spelling](value).encode() + noise
    assert not needle.is_in(data) or Needles([needle]).first(data) == "KEY"


@pytest.mark.parametrize("size", [1, 7, 1000, 65536])
def test_binary_data_pass_unchanged(size: int) -> None:
    data = os.urandom(200_000) if size > 7 else os.urandom(5_000)
    pieces = [data[at : at + size] for at in range(0, len(data), size)]
    assert streamed(scrubber_of(VALUE), pieces) == data


def test_stream_lets_go_of_what_cannot_be_a_value() -> None:
    stream = scrubber_of("sk-live-0123456789").stream()
    event = b'data: {"delta": "hello\\n"}\n\n'
    assert stream.feed(event) == event
    assert stream.feed(b"a sk-l") == b"a "
    assert stream.feed(b"izard ") == b"sk-lizard "
    assert stream.finish() == b""


def test_stream_holds_a_bounded_part_whatever_comes() -> None:
    value = "sk-live-0123456789"
    stream = scrubber_of(value).stream()
    for piece in (b"\\" * 50_000, b"%25" * 20_000, value[:-1].encode() * 900, b"A" * 50_000):
        stream.feed(piece)
        assert len(stream._held) <= 112 * len(value)


def test_headers_and_trailers_are_scrubbed_names_too() -> None:
    scrubber = scrubber_of("sk-live-0123456789")
    headers = [
        (b"location", b"https://evil.example/?k=sk-live-0123456789"),
        (b"x-sk-live-0123456789", b"1"),
        (b"set-cookie", b"s=" + base64.b64encode(b"u:sk-live-0123456789")),
        (b"content-type", b"text/plain"),
    ]
    scrubbed = scrubber.scrub_headers(headers)
    assert scrubbed[0] == (b"location", b"https://evil.example/?k=" + SHOWN.encode())
    assert scrubbed[1] == (b"x-" + SHOWN.encode(), b"1")
    assert SHOWN.encode() in scrubbed[2][1]
    assert b"c2stbGl2ZS0wMTIz" not in scrubbed[2][1]
    assert b"azLWxpdmUtMDEyMzQ1" not in scrubbed[2][1]
    assert scrubbed[3] == headers[3]


def test_host_that_gets_values_is_scrubbed_of_all_it_gets_and_others_of_none(
    tmp_path: Path,
) -> None:
    keeper = make_keeper(
        tmp_path,
        terms_of("ONE"),
        terms_of("TWO"),
        terms_of("FAR", ELSEWHERE),
        values={"ONE": "one-0123456", "TWO": "two-0123456", "FAR": "far-0123456"},
    )
    scrubber = keeper.scrubber(API)
    assert scrubber is not None
    shown = keeper.environment()
    out = scrubber.scrub(b"one-0123456 two-0123456 far-0123456")
    assert out == f"{shown['ONE']} {shown['TWO']} far-0123456".encode()
    assert keeper.scrubber("other.example") is None


def test_request_asks_for_an_answer_that_can_be_read() -> None:
    asked = ask_for_plain([(b"Accept-Encoding", b"gzip, br"), (b"TE", b"gzip"), (b"x", b"1")])
    assert asked == [(b"x", b"1"), (b"accept-encoding", b"identity")]


# ---- compression ---------------------------------------------------------------------------------


def bare(data: bytes) -> bytes:
    packer = zlib.compressobj(wbits=-15)
    return packer.compress(data) + packer.flush()


def decoded(decoder: Decoder | None, data: bytes, size: int) -> bytes:
    assert decoder is not None
    pieces = [data[at : at + size] for at in range(0, len(data), size)]
    out = b"".join(part for piece in pieces for part in decoder.feed(piece))
    decoder.finish()
    return out


@pytest.mark.parametrize("size", [1, 3, 100_000])
@pytest.mark.parametrize(
    ("coding", "pack"),
    [
        (b"gzip", gzip.compress),
        (b" GZIP ", gzip.compress),
        (b"x-gzip", gzip.compress),
        (b"deflate", zlib.compress),
        (b"deflate", bare),
        (b"identity", bytes),
        (None, bytes),
    ],
)
def test_coding_is_undone(coding: bytes | None, pack: Callable[[bytes], bytes], size: int) -> None:
    data = b"hello " * 2000 + os.urandom(500)
    assert decoded(decoder_for(coding), pack(data), size) == data


def test_echo_in_gzip_is_scrubbed() -> None:
    decoder, stream = decoder_for(b"gzip"), scrubber_of(VALUE).stream()
    assert decoder is not None
    packed = gzip.compress(b"you sent " + VALUE.encode())
    parts = [stream.feed(part) for byte in packed for part in decoder.feed(bytes([byte]))]
    assert b"".join(parts) + stream.finish() == b"you sent " + SHOWN.encode()


def test_gzip_of_several_members_is_undone() -> None:
    packed = gzip.compress(b"one ") + gzip.compress(b"") + gzip.compress(b"two")
    for size in (1, 1000):
        assert decoded(decoder_for(b"gzip"), packed, size) == b"one two"


@pytest.mark.parametrize("coding", [b"br", b"zstd", b"compress", b"gzip, gzip", b"gzip, br", b"x"])
def test_coding_that_cannot_be_undone_has_no_decoder(coding: bytes) -> None:
    assert decoder_for(coding) is None


def test_bomb_comes_in_bounded_pieces() -> None:
    decoder = decoder_for(b"gzip")
    assert decoder is not None
    total = 0
    for piece in decoder.feed(gzip.compress(bytes(50_000_000))):
        assert len(piece) <= 65536
        total += len(piece)
    assert total == 50_000_000


@pytest.mark.parametrize(
    ("coding", "data"),
    [
        pytest.param(b"gzip", b"not gzip at all", id="not gzip"),
        pytest.param(b"gzip", gzip.compress(b"x" * 1000) + b"garbage", id="gzip and garbage"),
        pytest.param(b"gzip", gzip.compress(NOISE)[:-9], id="gzip, cut"),
        pytest.param(b"gzip", gzip.compress(NOISE)[:-8] + b"\0" * 8, id="gzip, wrong sum"),
        pytest.param(b"deflate", zlib.compress(b"x") + b"more", id="deflate and more"),
        pytest.param(b"deflate", zlib.compress(NOISE)[:50], id="deflate, cut"),
    ],
)
def test_damaged_body_is_an_error_of_the_server(coding: bytes, data: bytes) -> None:
    with pytest.raises(BadMessage) as caught:
        decoded(decoder_for(coding), data, 100)
    assert caught.value.status == 502


def test_empty_body_is_whole_in_every_coding() -> None:
    for coding in (b"gzip", b"deflate", None):
        assert decoded(decoder_for(coding), b"", 1) == b""
