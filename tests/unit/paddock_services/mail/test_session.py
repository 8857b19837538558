"""SMTP without a socket: what is answered to which bytes, and what nobody gets past it."""

from __future__ import annotations

import base64

import pytest
from hypothesis import given
from hypothesis import strategies as st

from cases import for_each
from paddock_services.mail.data_reader import MAX_LINE
from paddock_services.mail.outbox import MAX_MESSAGE
from paddock_services.mail.session import (
    MAX_COMMAND,
    MAX_ERRORS,
    MAX_RECIPIENTS,
    Envelope,
    ServerRules,
    Session,
)

BEGUN = b"EHLO me\r\nMAIL FROM:<a@a.example>\r\nRCPT TO:<b@b.example>\r\nDATA\r\n"


class Server:
    """A session and the letters that it took."""

    def __init__(self, *, needs_login: bool = False) -> None:
        self.taken: list[tuple[Envelope, bytes]] = []
        rules = ServerRules(
            "mx.example", lambda one: one == "no@b.example", self._accept, needs_login
        )
        self.session = Session(rules)

    def _accept(self, envelope: Envelope, letter: bytes) -> str:
        self.taken.append((envelope, letter))
        return str(len(self.taken))

    def feed(self, data: bytes) -> list[int]:
        """The codes of the answers, of several lines the last."""
        lines = self.session.feed(data).decode().splitlines()
        return [int(line[:3]) for line in lines if line[3] == " "]


def test_pipelined_commands_are_answered_in_order() -> None:
    server = Server()
    assert server.feed(BEGUN) == [250, 250, 250, 354]
    assert server.feed(b"Subject: x\r\n\r\nhi\r\n.\r\nQUIT\r\n") == [250, 221]
    assert server.session.is_over
    envelope, letter = server.taken[0]
    assert (envelope.sender, envelope.recipients) == ("a@a.example", ["b@b.example"])
    assert letter == b"Subject: x\r\n\r\nhi\r\n"


@given(st.lists(st.integers(1, 30)))
def test_where_the_bytes_are_cut_makes_no_difference(cuts: list[int]) -> None:
    data = BEGUN + b"..x\r\n.y\r\n\r\n.\r\nRSET\r\nVRFY x\r\nNOOP\r\nQUIT\r\n"
    server, codes, at = Server(), [], 0
    for cut in [*cuts, len(data)]:
        codes += server.feed(data[at : at + cut])
        at += cut
    assert codes == [250, 250, 250, 354, 250, 250, 252, 250, 221]
    assert server.taken[0][1] == b".x\r\ny\r\n\r\n"


@pytest.mark.parametrize(
    "end", [b"\n.\n", b"\n.\r\n", b"\r\n.\n", b"\r.\r", b"\r\n.\r", b"\r.\r\n"]
)
def test_nothing_but_crlf_dot_crlf_ends_a_letter(end: bytes) -> None:
    server = Server()
    server.feed(BEGUN)
    smuggled = b"MAIL FROM:<x@evil.example>\r\nRCPT TO:<y@b.example>\r\nDATA\r\nboo\r\n"
    assert server.feed(b"one" + end + smuggled) == []
    assert server.feed(b"\r\n.\r\n") == [550]
    assert server.taken == []


def test_line_that_is_cut_by_its_length_cannot_end_a_letter() -> None:
    server = Server()
    server.feed(BEGUN)
    assert server.feed(b"x" * (MAX_LINE + 1)) == []
    assert server.feed(b".\r\nmore\r\n") == []
    assert server.feed(b"y" * MAX_LINE + b"\r") == []
    assert server.feed(b"\n.\r\n") == [500]
    assert server.feed(BEGUN + b"ok\r\n.\r\n") == [250, 250, 250, 354, 250]
    assert len(server.taken) == 1


def test_what_follows_starttls_in_the_clear_is_never_obeyed() -> None:
    server = Server()
    assert server.feed(b"EHLO me\r\nSTARTTLS\r\nMAIL FROM:<a@a.example>\r\n") == [554]
    assert server.session.is_over
    assert not server.session.wants_tls


def test_tls_forgets_what_was_said_before() -> None:
    server = Server()
    login = b"AUTH PLAIN " + base64.b64encode(b"\0ada\0pw") + b"\r\n"
    server.feed(b"EHLO me\r\n" + login + b"MAIL FROM:<a@a.example>\r\n")
    assert server.feed(b"STARTTLS\r\n") == [220]
    assert server.session.wants_tls
    server.session.secured()
    assert server.feed(b"RCPT TO:<b@b.example>\r\n") == [503]
    assert server.feed(b"MAIL FROM:<a@a.example>\r\n") == [503]
    assert b"STARTTLS" not in server.session.feed(b"EHLO me\r\n")
    assert server.feed(b"STARTTLS\r\n") == [503]
    assert server.feed(login) == [235]


def test_server_that_wants_a_login_takes_no_letter_without() -> None:
    server = Server(needs_login=True)
    assert server.feed(b"EHLO me\r\nMAIL FROM:<a@a.example>\r\n") == [250, 530]
    user, password = base64.b64encode(b"ada"), base64.b64encode(b"pw")
    assert server.feed(b"AUTH LOGIN\r\n" + user + b"\r\n" + password + b"\r\n") == [334, 334, 235]
    assert server.feed(b"MAIL FROM:<a@a.example>\r\n") == [250]


@for_each(
    "said",
    [b"AUTH PLAIN !\r\n", b"AUTH PLAIN\r\n*\r\n", b"AUTH PLAIN YQ==\r\n", b"AUTH LOGIN\r\n!\r\n",
     b"AUTH LOGIN\r\nYQ==\r\n*\r\n", b"AUTH CRAM-MD5\r\n", b"AUTH PLAIN AGEA/w==\r\n",
     b"AUTH\r\n", b"AUTH PLAIN AABw\r\n"],
)  # fmt: skip
def test_login_that_is_none_leaves_the_session_as_it_was(said: bytes) -> None:
    server = Server(needs_login=True)
    server.feed(b"EHLO me\r\n")
    assert server.feed(said)[-1] in (501, 504, 535)
    assert server.feed(b"MAIL FROM:<a@a.example>\r\n") == [530]


@for_each(
    ("command", "code"),
    [
        (b"MAIL FROM:<>", 250),
        (b"MAIL FROM: <a@a.example> SIZE=10 BODY=8BITMIME", 250),
        (b"mail from:a@a.example", 250),
        (b"MAIL FROM:<@x,@y:a@a.example>", 250),
        (b'MAIL FROM:<"a b"@a.example>', 250),
        (b"MAIL FROM:<a>", 501),
        (b"MAIL FROM:<a@a.example", 501),
        (b"MAIL FROM:<a@b@c>", 501),
        (b"MAIL FROM:<a b@a.example>", 501),
        (b"MAIL a@a.example", 501),
        (b"MAIL FROM:<a@a.example> SIZE=99999999999", 552),
        (b"MAIL FROM:<a@a.example> RET=FULL", 555),
        ("MAIL FROM:<ä@a.example>".encode(), 553),
        ("MAIL FROM:<ä@a.example> SMTPUTF8".encode(), 250),
        (b"MAIL FROM:<\xff@a.example>", 500),
        (b"MAIL FROM:<" + b"a" * 400 + b"@a.example>", 501),
        (b"DATA", 503),
        (b"RCPT TO:<b@b.example>", 503),
        (b"BDAT 3", 500),
        (b"EXPN all", 500),
        (b"", 500),
    ],
)
def test_answer_to_a_command(command: bytes, code: int) -> None:
    server = Server()
    server.feed(b"EHLO me\r\n")
    assert server.feed(command + b"\r\n") == [code]


@pytest.mark.parametrize(
    "said", [b"NOOP\n", b"NO\rOP\r\n", b"NOOP\0\r\n", b"x" * (MAX_COMMAND + 1)]
)
def test_line_that_is_none_ends_the_connection(said: bytes) -> None:
    server = Server()
    assert server.feed(said) == [500]
    assert server.session.is_over


def test_recipients_errors_and_length_have_an_end() -> None:
    server = Server()
    server.feed(b"EHLO me\r\nMAIL FROM:<a@a.example>\r\n")
    codes = [server.feed(f"RCPT TO:<b{n}@b.example>\r\n".encode())[0] for n in range(102)]
    assert codes == [250] * MAX_RECIPIENTS + [452, 452]
    assert server.feed(b"RSET\r\n") == [250]
    server.feed(BEGUN)
    line = b"z" * 998 + b"\r\n"
    for _ in range(MAX_MESSAGE // len(line) + 2):
        server.feed(line)
    assert server.feed(b".\r\n") == [552]
    codes = [code for _ in range(MAX_ERRORS + 1) for code in server.feed(b"WHAT\r\n")]
    assert codes[-1] == 421
    assert server.session.is_over


def test_letter_without_end_ends_the_connection() -> None:
    server = Server()
    server.feed(BEGUN)
    chunk = b"z" * (1 << 20)
    for _ in range(80):
        server.feed(chunk)
        if server.session.is_over:
            break
    assert server.session.is_over
    assert server.taken == []


@given(st.binary(max_size=300), st.booleans())
def test_no_bytes_make_it_raise_or_remember_without_end(data: bytes, in_letter: bool) -> None:
    server = Server()
    server.feed(BEGUN if in_letter else b"EHLO me\r\n")
    server.session.feed(data)
    assert len(server.session._buffer) <= MAX_LINE
