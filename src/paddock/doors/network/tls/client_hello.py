"""The ClientHello of a TLS client, read without answering it: which server it asks for.

OpenSSL does the reading, as it would for a server. Nothing is taken apart by hand here.
"""

from __future__ import annotations

import ssl
from functools import cache

import msgspec

MAX_HELLO_BYTES = (16 << 10) + 4096  # a long one, and the headers of many small records
_HANDSHAKE = b"\x16\x03"  # a handshake record, of any version since SSL 3


class NotTls(Exception):
    """The first bytes begin no TLS handshake."""


class BadHello(Exception):
    """It began like TLS and cannot be understood. It is not to be passed on as something else."""


class Hello(msgspec.Struct, frozen=True):
    """A client's first message. The name is as it was sent: not canonical, not to be trusted.

    The protocols that it offers (ALPN) are not here: OpenSSL tells only what it picked, and picks
    none for older clients before it has a certificate.
    """

    sni: str | None


def is_tls(data: bytes) -> bool | None:
    """Return whether a connection that begins so is TLS; None as long as more bytes are needed."""
    if len(data) >= len(_HANDSHAKE):
        return data.startswith(_HANDSHAKE)
    return None if _HANDSHAKE.startswith(data) else False


class HelloReader:
    """Reads a hello that comes in pieces. Each piece is looked at once, however small it is."""

    def __init__(self) -> None:
        self._incoming = ssl.MemoryBIO()
        # A server without a certificate: it understands the hello and gets no further.
        tls = _context().wrap_bio(self._incoming, ssl.MemoryBIO(), server_side=True)
        assert isinstance(tls, _Listener)
        self._tls = tls
        self._start = b""
        self._taken = 0

    def feed(self, data: bytes) -> Hello | None:
        """Takes what has come since the last call. Raises NotTls, BadHello."""
        self._start += data[: len(_HANDSHAKE) - len(self._start)]
        if is_tls(self._start) is False:
            raise NotTls("the first bytes begin no TLS handshake")
        # What follows the hello may be longer; it is not looked at.
        self._incoming.write(data[: max(0, MAX_HELLO_BYTES - self._taken)])
        self._taken += len(data)
        self._listen()
        if self._tls.is_heard:
            return Hello(self._tls.sni)
        if self._taken >= MAX_HELLO_BYTES:
            raise BadHello(f"a TLS hello of more than {MAX_HELLO_BYTES} bytes")
        return None

    def _listen(self) -> None:
        try:
            self._tls.do_handshake()
        except ssl.SSLWantReadError:
            return
        except ssl.SSLError as error:
            if not self._tls.is_heard:
                raise BadHello(f"not a TLS hello: {error.reason or 'unreadable'}") from None


class _Listener(ssl.SSLObject):
    """Keeps what the callback is told."""

    sni: str | None = None
    is_heard: bool = False


@cache
def _context() -> ssl.SSLContext:
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    # Old clients are to be understood too. Whether to talk to them is the server's business.
    context.minimum_version = ssl.TLSVersion.MINIMUM_SUPPORTED
    context.sslobject_class = _Listener
    context.sni_callback = _hear
    return context


def _hear(tls: ssl.SSLObject, sni: str | None, _context: ssl.SSLContext) -> int:
    """Called when the hello has been read, with or without a name in it."""
    assert isinstance(tls, _Listener)
    tls.sni, tls.is_heard = sni, True
    return ssl.ALERT_DESCRIPTION_HANDSHAKE_FAILURE  # goes nowhere; all that matters is known
