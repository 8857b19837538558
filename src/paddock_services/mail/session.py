"""SMTP as bytes in and bytes out: one connection, without a socket.

What the next line is depends on the state: a command, the answer to a challenge of AUTH
(`_handle_line`), or a line of a message after DATA (`_reader`). Lines end with CR LF and with
nothing else. What was sent in the clear before TLS began is forgotten, and what follows STARTTLS in
the clear ends the connection, because it would be obeyed as if it had come over TLS.
"""

from __future__ import annotations

import base64
import binascii
import re
from collections.abc import Callable

import msgspec

from paddock.world.kit import is_email_address
from paddock_services.mail.data_reader import MAX_LINE, DataReader
from paddock_services.mail.outbox import MAX_MESSAGE

MAX_COMMAND = 12_288  # octets of a line; the length that AUTH may need
MAX_RECIPIENTS = 100
MAX_ERRORS = 20
MAX_COMMANDS = 10_000
_PATH = re.compile(r"\s*(?:<(?P<path>(?:\"(?:[^\"\\]|\\.)*\"|[^<>\"])*)>|(?P<bare>[^\s<>]+))"
                   r"(?P<parameters>\s.*)?")  # fmt: skip
_SOURCE_ROUTE = re.compile(r"@[^:]*:")  # an obsolete list of hosts to go by, to be ignored
_BODY_TYPES = ("7BIT", "8BITMIME")


class Envelope(msgspec.Struct, frozen=True):
    """Sender and recipients of a message as SMTP names them, and how the message came."""

    sender: str
    recipients: list[str]
    user: str  # who logged in; nobody looks at passwords
    is_secure: bool


class ServerRules(msgspec.Struct, frozen=True):
    """The name of a server, and what it accepts."""

    host: str
    refuses: Callable[[str], bool]  # an address
    accept: Callable[[Envelope, bytes], str]  # returns the id of the message
    needs_login: bool = False


class CommandError(Exception):
    """A command that is answered with an error."""

    def __init__(self, code: int, text: str) -> None:
        super().__init__(text)
        self.code = code
        self.text = text


class Session:
    """One connection. `feed` takes what came and returns what to answer."""

    def __init__(self, rules: ServerRules, *, is_secure: bool = False) -> None:
        self.is_over = False
        self.wants_tls = False  # after the answer has been sent
        self._rules = rules
        self._is_secure = is_secure
        self._buffer = bytearray()
        self._handle_line: Callable[[bytes], bytes] = self._handle_command
        self._error_count = self._command_count = 0
        self._hello = self._user = ""
        self._reset_message()

    def _reset_message(self) -> None:
        self._sender: str | None = None
        self._is_utf8 = False
        self._recipients: list[str] = []
        self._reader: DataReader | None = None  # after DATA

    def greeting(self) -> bytes:
        return _reply(220, f"{self._rules.host} ESMTP ready")

    def feed(self, data: bytes) -> bytes:
        """Return the answers to all lines that are complete."""
        self._buffer += data
        answers, start = bytearray(), 0
        while not self.is_over and not self.wants_tls:
            end = self._buffer.find(b"\n", start)
            if end < 0:
                break
            line = bytes(self._buffer[start : end + 1])
            start = end + 1
            answers += self._read_line(line)
        del self._buffer[:start]
        if self.wants_tls and self._buffer:
            self.wants_tls = False
            return self._end(554, "5.5.1 nothing may follow STARTTLS")
        if not self.is_over:
            answers += self._check_buffer()
        return bytes(answers)

    def secured(self) -> None:
        """Go on in TLS, from the beginning."""
        self.wants_tls, self._is_secure = False, True
        self._hello = self._user = ""
        self._reset_message()

    def timed_out(self) -> bytes:
        return self._end(421, "4.4.2 timeout")

    def _read_line(self, line: bytes) -> bytes:
        if self._reader is not None:
            return self._finish(self._reader) if self._reader.feed_line(line) else b""
        if not line.endswith(b"\r\n") or b"\r" in line[:-2] or b"\0" in line:
            return self._end(500, "5.5.2 lines end with CR LF")
        self._command_count += 1
        if len(line) > MAX_COMMAND:
            return self._end(500, "5.5.2 line too long")
        if self._command_count > MAX_COMMANDS:
            return self._end(421, "4.7.0 too many commands")
        try:
            return self._handle_line(line[:-2])
        except CommandError as error:
            return self._refuse(error.code, error.text)

    def _check_buffer(self) -> bytes:
        """Keep the beginning of a line from growing without end."""
        if self._reader is None:
            is_too_long = len(self._buffer) > MAX_COMMAND
            return self._end(500, "5.5.2 line too long") if is_too_long else b""
        if len(self._buffer) > MAX_LINE:
            self._reader.skip(len(self._buffer) - 1)
            del self._buffer[:-1]  # the last may be the CR before a LF
        return self._end(421, "4.3.1 too much") if self._reader.is_endless else b""

    def _finish(self, reader: DataReader) -> bytes:
        envelope = Envelope(self._sender or "", self._recipients, self._user, self._is_secure)
        self._reset_message()
        if reader.fault:
            return self._refuse(*reader.fault)
        return _reply(250, f"2.0.0 Ok: queued as {self._rules.accept(envelope, reader.data)}")

    def _refuse(self, code: int, text: str) -> bytes:
        self._error_count += 1
        if self._error_count > MAX_ERRORS:
            return self._end(421, "4.7.0 too many errors")
        return _reply(code, text)

    def _end(self, code: int, text: str) -> bytes:
        self.is_over = True
        self._buffer.clear()
        return _reply(code, text)

    # Commands

    def _handle_command(self, line: bytes) -> bytes:
        try:
            text = line.decode()
        except UnicodeDecodeError:
            raise CommandError(500, "5.5.2 not UTF-8") from None
        verb, _, argument = text.partition(" ")
        command = _COMMANDS.get(verb.upper())
        if command is None:
            raise CommandError(500, "5.5.1 no such command")
        return command(self, argument.strip())

    def _helo(self, name: str) -> bytes:
        if not name:
            raise CommandError(501, "5.5.4 say who you are")
        self._hello = name
        self._reset_message()
        return _reply(250, self._rules.host)

    def _ehlo(self, name: str) -> bytes:
        self._helo(name)
        lines = [self._rules.host, "PIPELINING", f"SIZE {MAX_MESSAGE}", "AUTH PLAIN LOGIN",
                 "8BITMIME", "SMTPUTF8"]  # fmt: skip
        if not self._is_secure:
            lines.append("STARTTLS")
        first = b"".join(f"250-{line}\r\n".encode() for line in lines)
        return first + _reply(250, "ENHANCEDSTATUSCODES")

    def _starttls(self, argument: str) -> bytes:
        _check_no_argument(argument)
        if self._is_secure:
            raise CommandError(503, "5.5.1 TLS is on")
        self.wants_tls = True
        return _reply(220, "2.0.0 go ahead")

    def _mail(self, argument: str) -> bytes:
        self._check_hello()
        if self._rules.needs_login and not self._user:
            raise CommandError(530, "5.7.0 log in first")
        if self._sender is not None:
            raise CommandError(503, "5.5.1 a letter has been begun")
        sender, parameters = _read_path(argument, "FROM:")
        is_utf8 = _read_mail_parameters(parameters)
        _check_ascii(sender, is_utf8)
        self._sender, self._is_utf8 = sender, is_utf8
        return _reply(250, "2.1.0 ok")

    def _rcpt(self, argument: str) -> bytes:
        if self._sender is None:
            raise CommandError(503, "5.5.1 MAIL comes first")
        recipient, parameters = _read_path(argument, "TO:")
        if parameters:
            raise CommandError(555, "5.5.4 no such parameter")
        if not recipient:
            raise CommandError(501, "5.1.3 to whom?")
        _check_ascii(recipient, self._is_utf8)
        if len(self._recipients) >= MAX_RECIPIENTS:
            return _reply(452, "4.5.3 too many recipients")
        if self._rules.refuses(recipient):
            return _reply(550, "5.1.1 no such mailbox")
        self._recipients.append(recipient)
        return _reply(250, "2.1.5 ok")

    def _data(self, argument: str) -> bytes:
        _check_no_argument(argument)
        if self._sender is None or not self._recipients:
            raise CommandError(503, "5.5.1 MAIL and RCPT come first")
        self._reader = DataReader()
        return _reply(354, "end with a line that has only a dot")

    def _rset(self, argument: str) -> bytes:
        self._reset_message()
        return _reply(250, "2.0.0 ok")

    def _noop(self, argument: str) -> bytes:
        return _reply(250, "2.0.0 ok")

    def _vrfy(self, argument: str) -> bytes:
        return _reply(252, "2.1.5 try it")

    def _quit(self, argument: str) -> bytes:
        return self._end(221, "2.0.0 bye")

    def _check_hello(self) -> None:
        if not self._hello:
            raise CommandError(503, "5.5.1 EHLO comes first")

    # AUTH: any name will do, and the password is dropped where it is read.

    def _auth(self, argument: str) -> bytes:
        self._check_hello()
        if self._user or self._sender is not None:
            raise CommandError(503, "5.5.1 not now")
        mechanism, _, first = argument.partition(" ")
        match mechanism.upper():
            case "PLAIN":
                self._handle_line, challenge = self._auth_plain, ""
            case "LOGIN":
                self._handle_line, challenge = self._auth_name, "VXNlcm5hbWU6"
            case _:
                raise CommandError(504, "5.5.4 no such mechanism")
        return self._handle_line(first.encode()) if first else _reply(334, challenge)

    def _auth_plain(self, line: bytes) -> bytes:
        self._handle_line = self._handle_command
        parts = _decode_base64(line).split("\0")
        if len(parts) != 3:
            raise CommandError(501, "5.5.2 not understood")
        return self._log_in(parts[1])

    def _auth_name(self, line: bytes) -> bytes:
        self._handle_line = self._handle_command
        name = _decode_base64(line)
        self._handle_line = lambda password: self._auth_password(name, password)
        return _reply(334, "UGFzc3dvcmQ6")

    def _auth_password(self, name: str, line: bytes) -> bytes:
        self._handle_line = self._handle_command
        _decode_base64(line)
        return self._log_in(name)

    def _log_in(self, name: str) -> bytes:
        if not name:
            raise CommandError(535, "5.7.8 nobody")
        self._user = name[:320]
        return _reply(235, "2.7.0 welcome")


_COMMANDS: dict[str, Callable[[Session, str], bytes]] = {
    "HELO": Session._helo,
    "EHLO": Session._ehlo,
    "STARTTLS": Session._starttls,
    "AUTH": Session._auth,
    "MAIL": Session._mail,
    "RCPT": Session._rcpt,
    "DATA": Session._data,
    "RSET": Session._rset,
    "NOOP": Session._noop,
    "VRFY": Session._vrfy,
    "QUIT": Session._quit,
}


def _reply(code: int, text: str) -> bytes:
    return f"{code} {text}\r\n".encode()


def _read_path(text: str, keyword: str) -> tuple[str, list[str]]:
    """Return the address of MAIL or RCPT, and the parameters after it. An empty address is nobody:
    the sender of bounces."""
    if not text.upper().startswith(keyword):
        raise CommandError(501, f"5.5.4 {keyword}<address> is missing")
    match = _PATH.fullmatch(text[len(keyword) :])
    if match is None:
        raise CommandError(501, "5.5.2 not understood")
    path = match["bare"] or match["path"]
    if path.startswith("@"):
        path = _SOURCE_ROUTE.sub("", path, count=1)
    if path and path.lower() != "postmaster" and not is_email_address(path):
        raise CommandError(501, "5.1.3 not an address")
    return path, (match["parameters"] or "").split()


def _read_mail_parameters(parameters: list[str]) -> bool:
    """Check the parameters of MAIL. Return whether SMTPUTF8 is one of them."""
    is_utf8 = False
    for parameter in parameters:
        name, _, value = parameter.upper().partition("=")
        if name == "SIZE" and value.isdecimal() and len(value) <= 20:
            if int(value) > MAX_MESSAGE:
                raise CommandError(552, "5.3.4 too large")
        elif name == "SMTPUTF8" and not value:
            is_utf8 = True
        elif name != "AUTH" and not (name == "BODY" and value in _BODY_TYPES):
            raise CommandError(555, "5.5.4 no such parameter")
    return is_utf8


def _check_ascii(address: str, is_utf8: bool) -> None:
    if not address.isascii() and not is_utf8:
        raise CommandError(553, "5.6.7 needs SMTPUTF8")


def _check_no_argument(argument: str) -> None:
    if argument:
        raise CommandError(501, "5.5.4 no parameters here")


def _decode_base64(line: bytes) -> str:
    if line == b"*":
        raise CommandError(501, "5.7.0 given up")
    try:
        return base64.b64decode(line if line != b"=" else b"", validate=True).decode()
    except (binascii.Error, ValueError):
        raise CommandError(501, "5.5.2 not base64") from None
