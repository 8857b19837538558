"""A value that a server echoes is replaced, in whatever spelling, pieces and compression."""

from __future__ import annotations

import base64
import gzip
import html
import json
import os
import random
import zlib
from collections.abc import Callable
from html.entities import html5
from pathlib import Path
from urllib.parse import quote, quote_plus

import pytest
from hypothesis import given
from hypothesis import strategies as st

from cases import for_each
from paddock.doors.network.exchange import BadMessage
from paddock.doors.network.secrets.scrubber import (
    ContentDecoder,
    Scrubber,
    ask_for_plain,
    decoder_for,
)
from paddock.journal.secrets.mask import Masker
from paddock.journal.secrets.search import Needle, Needles
from repetition import is_thorough
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


def _units(text: str) -> list[str]:
    data = text.encode("utf-16-be").hex()
    return [data[at : at + 4] for at in range(0, len(data), 4)]


NAMES = {text: f"&{name}" for name, text in html5.items() if name.endswith(";")}
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
    "html": html.escape,
    "html, decimal": lambda s: "".join(f"&#{ord(c)};" for c in s),
    "html, hex without semicolons": lambda s: "".join(f"&#x{ord(c):04X}" for c in s) + ";",
    "html, names": lambda s: "".join(NAMES.get(c, c) for c in s),
    "html in html in json": lambda s: json.dumps(html.escape(html.escape(s))),
    "json in a url in html": lambda s: html.escape(quote(json.dumps(s)) + "'"),
    "html in a url in json": lambda s: json.dumps(quote("'" + html.escape(s))),
    "javascript": lambda s: "".join(f"\\x{byte:02x}" for byte in s.encode()),
    "javascript, code points": lambda s: "".join(f"\\u{{{ord(c):X}}}" for c in s),
    "perl": lambda s: "".join(f"\\x{{{ord(c):x}}}" for c in s),
    "python": lambda s: "".join(f"\\U{ord(c):08x}" for c in s),
    "url in decimal html": lambda s: "".join(f"&#37;{byte:02x}" for byte in s.encode()),
    "url in named html": lambda s: "".join(f"&percnt;{byte:02x}" for byte in s.encode()),
    "decimal html in a url": lambda s: "".join(f"%26%23{ord(c)}%3B" for c in s),
    "hash of html in a url": lambda s: "".join(f"&%23{ord(c)};" for c in s),
    "json in a url in json": lambda s: "".join(f"\\u00255Cu{unit}" for unit in _units(s)),
    "octal": lambda s: "".join(f"\\{byte:03o}" for byte in s.encode()),
    "hex": lambda s: s.encode().hex(),
    "hex, both cases": lambda s: s.encode().hex().title(),
    "HEX": lambda s: s.encode().hex().upper(),
    **{
        f"base64 after {shift}": (
            lambda s, shift=shift: base64.b64encode(b"p" * shift + s.encode() + b"q").decode()
        )
        for shift in range(3)
    },
    **{
        f"base64 of {encoding} after {shift}": (
            lambda s, shift=shift, encoding=encoding: base64.b64encode(
                b"p" * shift + s.encode(encoding) + b"q"
            ).decode()
        )
        for shift in range(3)
        for encoding in ("utf-16-le", "utf-16-be")
    },
    "hex of utf-16-le": lambda s: s.encode("utf-16-le").hex(),
    "HEX of utf-16-be": lambda s: s.encode("utf-16-be").hex().upper(),
    "base64 for urls": lambda s: base64.urlsafe_b64encode(b"u:" + s.encode()).decode().rstrip("="),
    "json in base64": lambda s: base64.b64encode(json.dumps({"k": s}).encode()).decode(),
    "html in base64": lambda s: base64.b64encode(html.escape(f"<b>{s}").encode()).decode(),
    "form in base64": lambda s: base64.b64encode(f"k={quote(s, safe='')}".encode()).decode(),
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


@for_each("spelling", SPELLINGS)
@for_each("value", VALUES, ids=lambda s: s[:8])
def test_value_is_replaced_in_this_spelling(value: str, spelling: str) -> None:
    shown = SPELLINGS[spelling](value).encode()
    out = scrubber_of(value).scrub(b"\xff\0 " + shown + b" \x80 end")
    assert out.startswith(b"\xff\0 ")
    assert out.endswith(b" \x80 end")
    assert SHOWN.encode() in out
    assert Masker({"KEY": value}).is_clean(out.replace(SHOWN.encode(), b" ").decode("latin-1"))
    assert value.encode() not in out


@for_each("encoding", ["utf-16-le", "utf-16-be", "utf-32-le", "utf-32-be"])
@for_each("value", VALUES, ids=lambda s: s[:8])
def test_value_is_replaced_in_wide_characters(value: str, encoding: str) -> None:
    data = f"see {value} end".encode(encoding)
    scrubber = scrubber_of(value)
    assert value.encode(encoding) not in scrubber.scrub(data)
    for at in (9, len(data) // 2, len(data) - 9):
        assert value.encode(encoding) not in streamed(scrubber, [data[:at], data[at:]])


@pytest.mark.repeated
@for_each("spelling", SPELLINGS)
@for_each("value", [s for s in VALUES if len(s) < 50], ids=lambda s: s[:8])
def test_value_cut_anywhere_in_a_stream_is_replaced(value: str, spelling: str) -> None:
    scrubber = scrubber_of(value)
    data = b"see " + SPELLINGS[spelling](value).encode() + b" end"
    # The default suite cuts at every fifth byte, beginning elsewhere for each value.
    stride = 1 if is_thorough() else 5
    for at in range(len(value) % stride, len(data) + 1, stride):
        assert SHOWN.encode() in streamed(scrubber, [data[:at], data[at:]]), at


@pytest.mark.thorough
@for_each("spelling", SPELLINGS)
@for_each("value", VALUES, ids=lambda s: s[:8])
def test_value_that_comes_byte_by_byte_is_replaced(value: str, spelling: str) -> None:
    scrubber = scrubber_of(value)
    data = b"see " + SPELLINGS[spelling](value).encode() + b", then more"
    out = streamed(scrubber, [bytes([byte]) for byte in data])
    assert out.startswith(b"see ")
    assert out.endswith(b", then more")
    assert SHOWN.encode() in out
    assert not Needle("KEY", value).is_in(out.replace(SHOWN.encode(), b" "))


@given(st.lists(st.text(alphabet="seckrt-%\\ \n7u0", max_size=8).map(str.encode), max_size=12))
def test_stream_loses_and_invents_nothing(pieces: list[bytes]) -> None:
    scrubber = scrubber_of("secret-key")
    assert streamed(scrubber, pieces) == scrubber.scrub(b"".join(pieces))


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


def test_every_host_is_scrubbed_of_every_secret(tmp_path: Path) -> None:
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
    assert out == f"{shown['ONE']} {shown['TWO']} {shown['FAR']}".encode()
    assert make_keeper(tmp_path).scrubber(API) is None


def test_at_a_host_that_gets_no_value_the_length_of_an_answer_holds(tmp_path: Path) -> None:
    keeper = make_keeper(tmp_path, terms_of("KEY"), values={"KEY": "one-0123456"})
    scrubber = keeper.scrubber("other.example")
    assert scrubber is not None
    said = b"a one-0123456 b " + base64.b64encode(b"one-0123456") + b" c &#111;ne-0123456"
    for size in (1, 1000):
        out = streamed(scrubber, [said[at : at + size] for at in range(0, len(said), size)])
        assert len(out) == len(said)
        assert out.startswith(b"a paddock_KEY b ")
        assert not Needle("KEY", "one-0123456").is_in(out)


@pytest.mark.parametrize("lead", ["%4", "%", "\\", "\\u00", "\\x", "&#", "&#x", "&#x0", "&", "u00"])
def test_an_escape_that_is_begun_before_a_value_does_not_hide_it(lead: str) -> None:
    value = "41b0/nlt-0123456789"
    for text in (value, value.replace("/", "\\/"), value.replace("/", "%2F")):
        out = scrubber_of(value).scrub(f"see {lead}{text} end".encode())
        assert SHOWN.encode() in out
        assert b"0123456789 end" not in out


def test_request_asks_for_an_answer_that_can_be_read() -> None:
    asked = ask_for_plain([(b"Accept-Encoding", b"gzip, br"), (b"TE", b"gzip"), (b"x", b"1")])
    assert asked == [(b"x", b"1"), (b"accept-encoding", b"identity")]


@pytest.mark.parametrize("name", [b"grpc-accept-encoding", b"Connect-Accept-Encoding"])
def test_request_asks_for_messages_that_can_be_read(name: bytes) -> None:
    assert ask_for_plain([(name, b"gzip")]) == [(b"accept-encoding", b"identity")]


# ---- compression ---------------------------------------------------------------------------------


def bare(data: bytes) -> bytes:
    packer = zlib.compressobj(wbits=-15)
    return packer.compress(data) + packer.flush()


def decoded(decoder: ContentDecoder | None, data: bytes, size: int) -> bytes:
    assert decoder is not None
    pieces = [data[at : at + size] for at in range(0, len(data), size)]
    out = b"".join(part for piece in pieces for part in decoder.feed(piece))
    decoder.finish()
    return out


@for_each("size", [1, 3, 100_000])
@for_each(
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
