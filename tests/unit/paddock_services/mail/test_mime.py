"""That letters which are made to be hard to read are kept, and cost little."""

from __future__ import annotations

import pytest

from cases import for_each
from paddock_services.mail.mime import read_message

HEAD = b"From: a@a.example\r\nTo: b@b.example\r\n"
NOT_READ = {"nested", "quotes", "disposition", "no end of headers", "empty lines"}


def _nested(depth: int, lines: int) -> bytes:
    data = HEAD
    for number in range(depth):
        kind = b"Content-Type: multipart/mixed; boundary=b%d\r\n\r\n" % number
        data += (b"--b%d\r\n" % (number - 1) if number else b"") + kind
    return data + b"x\r\n" * lines


HARD = {
    "nested": _nested(300, 300_000),
    "quotes": HEAD + b'Content-Type: a/b; x="' + (b";" * 900 + b"\r\n ") * 3000 + b"\r\n\r\nx",
    "disposition": HEAD + b"MIME-Version: 1.0\r\nContent-Disposition: attachment"
    + b';\r\n a*0="x' * 40_000 + b"\r\n\r\nx",
    "words": HEAD + b"Subject: " + (b"=?a?q?" * 150 + b"\r\n ") * 250 + b"\r\n\r\nx",
    "punycode": HEAD + b"Content-Type: text/plain; charset=punycode\r\n\r\n" + b"z" * (4 << 20),
    "comments": b"From: a@a.example\r\nTo: " + b"(" * 15_000 + b"\r\n\r\nx",
    "addresses": b"From: a@a.example\r\nTo: " + b"a@b,<\"" * 2_600 + b"\r\n\r\nx",
    "headers": b"".join(b"X-%d: y\r\n" % number for number in range(20_000)) + b"\r\nx",
    "no end of headers": b"X: y\r\n" * 100_000,
    "empty lines": HEAD + b"\r\n" * 5_000_000,
}  # fmt: skip


@for_each("name", HARD)
def test_hard_letter_is_kept_whole(name: str) -> None:
    letter = read_message(HARD[name], "a@a.example", ["b@b.example"])
    assert letter.extra.get("unread") or name not in NOT_READ
    assert letter.raw == HARD[name]
    assert letter.recipients == ["b@b.example"]
    assert len(letter.headers) <= 200


@pytest.mark.parametrize(
    ("charset", "data", "text"),
    [
        ("utf-8", "é".encode(), "é"),
        ("iso-8859-15", b"\xa4", "€"),
        ("gb2312", "你".encode("gb2312"), "你"),
        ("no-such", b"plain", "plain"),
        ("zlib", b"plain", "plain"),
        ("unicode_escape", b"\\ud800", "\\ud800"),
        ("utf-8", b"\xff", "\ufffd"),
    ],
)
def test_text_is_read_in_its_character_set(charset: str, data: bytes, text: str) -> None:
    head = HEAD + f"Content-Type: text/plain; charset={charset}\r\n".encode()
    raw = head + b"Content-Transfer-Encoding: 8bit\r\n\r\n" + data
    assert read_message(raw, "a@a.example", ["b@b.example"]).text == text


@pytest.mark.parametrize(
    ("value", "subject"),
    [
        (b"=?utf-8?B?w6TDtg==?=", "äö"),
        (b"=?utf-8?q?a?=\r\n =?utf-8?q?b?=", "ab"),
        ("grün".encode(), "grün"),
        (b"=?utf-8?B?a?= x", "=?utf-8?B?a?= x"),
        (b"=?unicode_escape?q?=5Cud800?=", "\\ud800"),
    ],
)
def test_subject_is_read_whatever_it_is_encoded_in(value: bytes, subject: str) -> None:
    raw = HEAD + b"Subject: " + value + b"\r\n\r\nx"
    assert read_message(raw, "a@a.example", ["b@b.example"]).subject.strip() == subject


def test_who_is_only_in_the_envelope_got_a_blind_copy() -> None:
    letter = read_message(HEAD + b"\r\nx", "a@a.example", ["B@b.example", "c@c.example"])
    assert (letter.to, letter.bcc) == (["b@b.example"], ["c@c.example"])
