"""SMTP as bytes in, bytes out: one connection, without a socket. A line ends with CR LF and nothing
else does: a letter cannot carry a second one in itself."""

from __future__ import annotations

import base64
import binascii
from collections.abc import Callable

import msgspec

from paddock_services.mail.commands import BadCommand, Parameters, read_path
from paddock_services.mail.incoming import MAX_LINE, Incoming
from paddock_services.mail.outbox import MAX_MESSAGE

MAX_COMMAND = 12_288  # octets of a line; the length that AUTH may need
MAX_RECIPIENTS = 100
MAX_ERRORS = 20
MAX_COMMANDS = 10_000


class Envelope(msgspec.Struct, frozen=True):
    """For whom a letter is, as SMTP says it."""

    sender: str
    recipients: list[str]
    user: str  # who logged in; passwords are looked at by nobody
    is_secure: bool


class Rules(msgspec.Struct, frozen=True):
    """What a server is like."""

    host: str
    refuses: Callable[[str], bool]  # an address
    accept: Callable[[Envelope, bytes], str]  # gives the id of the letter
    needs_login: bool = False


class Session:
    """One connection. `feed` takes what came and gives what to answer."""

    def __init__(self, rules: Rules, *, is_secure: bool = False) -> None:
        self.is_over = False
        self.wants_tls = False  # after the answer has been sent
        self._rules = rules
        self._is_secure = is_secure
        self._buffer = bytearray()
        self._take: Callable[[bytes], bytes] = self._command  # what the next line is
        self._errors = self._count = 0
        self._hello = self._user = ""
        self._sender: str | None = None
        self._is_utf8 = False
        self._recipients: list[str] = []
        self._letter: Incoming | None = None  # after DATA

    def greeting(self) -> bytes:
        return _reply(220, f"{self._rules.host} ESMTP ready")

    def feed(self, data: bytes) -> bytes:
        """The answers to all whole lines so far."""
        self._buffer += data
        answers, start = bytearray(), 0
        while not self.is_over and not self.wants_tls:
            end = self._buffer.find(b"\n", start)
            if end < 0:
                break
            line = bytes(self._buffer[start : end + 1])
            start = end + 1
            answers += self._line(line)
        del self._buffer[:start]
        if (
            self.wants_tls and self._buffer
        ):  # said in the clear, meant to be heard as if it were not
            self.wants_tls = False
            answers[:] = self._end(554, "5.5.1 nothing may follow STARTTLS")
        elif not self.is_over:
            answers += self._check_room()
        return bytes(answers)

    def secured(self) -> None:
        """The connection goes on in TLS, and from its beginning."""
        self.wants_tls, self._is_secure = False, True
        self._hello = self._user = ""
        self._forget_letter()

    def too_slow(self) -> bytes:
        return self._end(421, "4.4.2 timeout")

    # Lines

    def _line(self, line: bytes) -> bytes:
        if self._letter is not None:
            return self._finish(self._letter) if self._letter.take(line) else b""
        if not line.endswith(b"\r\n") or b"\r" in line[:-2] or b"\0" in line:
            return self._end(500, "5.5.2 lines end with CR LF")
        self._count += 1
        if len(line) > MAX_COMMAND:
            return self._end(500, "5.5.2 line too long")
        if self._count > MAX_COMMANDS:
            return self._end(421, "4.7.0 too many commands")
        try:
            return self._take(line[:-2])
        except BadCommand as error:
            return self._bad(error.code, error.text)

    def _check_room(self) -> bytes:
        """That the beginning of a line does not grow without end."""
        if self._letter is None:
            is_too_long = len(self._buffer) > MAX_COMMAND
            return self._end(500, "5.5.2 line too long") if is_too_long else b""
        if len(self._buffer) > MAX_LINE:
            self._letter.skip(len(self._buffer) - 1)
            del self._buffer[:-1]  # the last may be the CR before a LF
        return self._end(421, "4.3.1 too much") if self._letter.is_endless else b""

    def _command(self, line: bytes) -> bytes:
        try:
            text = line.decode()
        except UnicodeDecodeError:
            raise BadCommand(500, "5.5.2 not UTF-8") from None
        verb, _, rest = text.partition(" ")
        method = _COMMANDS.get(verb.upper())
        if method is None:
            raise BadCommand(500, "5.5.1 no such command")
        return method(self, rest.strip())

    # Commands

    def _helo(self, name: str) -> bytes:
        if not name:
            raise BadCommand(501, "5.5.4 say who you are")
        self._hello = name
        self._forget_letter()
        return _reply(250, self._rules.host)

    def _ehlo(self, name: str) -> bytes:
        self._helo(name)
        offers = [self._rules.host, "PIPELINING", f"SIZE {MAX_MESSAGE}", "AUTH PLAIN LOGIN",
                  "8BITMIME", "SMTPUTF8", "ENHANCEDSTATUSCODES"]  # fmt: skip
        if not self._is_secure:
            offers.append("STARTTLS")
        first = b"".join(f"250-{one}\r\n".encode() for one in offers[:-1])
        return first + _reply(250, offers[-1])

    def _starttls(self, rest: str) -> bytes:
        if rest:
            raise BadCommand(501, "5.5.4 no parameters here")
        if self._is_secure:
            raise BadCommand(503, "5.5.1 TLS is on")
        self.wants_tls = True
        return _reply(220, "2.0.0 go ahead")

    def _mail(self, rest: str) -> bytes:
        self._need_hello()
        if self._rules.needs_login and not self._user:
            raise BadCommand(530, "5.7.0 log in first")
        if self._sender is not None:
            raise BadCommand(503, "5.5.1 a letter has been begun")
        path, words = read_path(rest, "FROM:")
        parameters = Parameters.read(words)
        if not path.isascii() and not parameters.is_utf8:
            raise BadCommand(553, "5.6.7 needs SMTPUTF8")
        if parameters.size > MAX_MESSAGE:
            raise BadCommand(552, "5.3.4 too large")
        self._sender, self._is_utf8 = path, parameters.is_utf8
        return _reply(250, "2.1.0 ok")

    def _rcpt(self, rest: str) -> bytes:
        if self._sender is None:
            raise BadCommand(503, "5.5.1 MAIL comes first")
        path, words = read_path(rest, "TO:")
        if words:
            raise BadCommand(555, "5.5.4 no such parameter")
        if not path:
            raise BadCommand(501, "5.1.3 to whom?")
        if not path.isascii() and not self._is_utf8:
            raise BadCommand(553, "5.6.7 needs SMTPUTF8")
        if len(self._recipients) >= MAX_RECIPIENTS:
            return _reply(452, "4.5.3 too many recipients")
        if self._rules.refuses(path):
            return _reply(550, "5.1.1 no such mailbox")
        self._recipients.append(path)
        return _reply(250, "2.1.5 ok")

    def _data(self, rest: str) -> bytes:
        if rest:
            raise BadCommand(501, "5.5.4 no parameters here")
        if self._sender is None or not self._recipients:
            raise BadCommand(503, "5.5.1 MAIL and RCPT come first")
        self._letter = Incoming()
        return _reply(354, "end with a line that has only a dot")

    def _rset(self, rest: str) -> bytes:
        self._forget_letter()
        return _reply(250, "2.0.0 ok")

    def _noop(self, rest: str) -> bytes:
        return _reply(250, "2.0.0 ok")

    def _vrfy(self, rest: str) -> bytes:
        return _reply(252, "2.1.5 try it")

    def _help(self, rest: str) -> bytes:
        return _reply(214, "2.0.0 " + " ".join(_COMMANDS))

    def _quit(self, rest: str) -> bytes:
        return self._end(221, "2.0.0 bye")

    # AUTH: any name will do, and the password is dropped where it is read.

    def _auth(self, rest: str) -> bytes:
        self._need_hello()
        if self._user or self._sender is not None:
            raise BadCommand(503, "5.5.1 not now")
        mechanism, _, first = rest.partition(" ")
        if mechanism.upper() == "PLAIN":
            self._take = self._auth_plain
            return self._auth_plain(first.encode()) if first else _reply(334, "")
        if mechanism.upper() == "LOGIN":
            self._take = self._auth_name
            return self._auth_name(first.encode()) if first else _reply(334, "VXNlcm5hbWU6")
        raise BadCommand(504, "5.5.4 no such mechanism")

    def _auth_plain(self, line: bytes) -> bytes:
        self._take = self._command
        parts = _unwrapped(line).split("\0")
        if len(parts) != 3:
            raise BadCommand(501, "5.5.2 not understood")
        return self._log_in(parts[1])

    def _auth_name(self, line: bytes) -> bytes:
        self._take = self._command
        name = _unwrapped(line)
        self._take = lambda password: self._auth_password(name, password)
        return _reply(334, "UGFzc3dvcmQ6")

    def _auth_password(self, name: str, line: bytes) -> bytes:
        self._take = self._command
        _unwrapped(line)
        return self._log_in(name)

    def _log_in(self, name: str) -> bytes:
        if not name:
            raise BadCommand(535, "5.7.8 nobody")
        self._user = name[:320]
        return _reply(235, "2.7.0 welcome")

    def _finish(self, letter: Incoming) -> bytes:
        envelope = Envelope(self._sender or "", self._recipients, self._user, self._is_secure)
        self._forget_letter()
        if letter.fault:
            return self._bad(*letter.fault)
        return _reply(250, f"2.0.0 Ok: queued as {self._rules.accept(envelope, letter.data)}")

    # What is remembered

    def _forget_letter(self) -> None:
        self._sender, self._is_utf8 = None, False
        self._recipients = []
        self._letter = None

    def _need_hello(self) -> None:
        if not self._hello:
            raise BadCommand(503, "5.5.1 EHLO comes first")

    def _bad(self, code: int, text: str) -> bytes:
        self._errors += 1
        if self._errors > MAX_ERRORS:
            return self._end(421, "4.7.0 too many errors")
        return _reply(code, text)

    def _end(self, code: int, text: str) -> bytes:
        self.is_over = True
        self._buffer.clear()
        return _reply(code, text)


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
    "HELP": Session._help,
    "QUIT": Session._quit,
}


def _reply(code: int, text: str) -> bytes:
    return f"{code} {text}\r\n".encode()


def _unwrapped(line: bytes) -> str:
    if line == b"*":
        raise BadCommand(501, "5.7.0 given up")
    try:
        return base64.b64decode(line if line != b"=" else b"", validate=True).decode()
    except (binascii.Error, ValueError):
        raise BadCommand(501, "5.5.2 not base64") from None
