"""Puts the mail stand-in behind a real socket, with TLS where it is asked for."""

from __future__ import annotations

import asyncio
import contextlib
import datetime
import socket
import ssl
import threading
from collections.abc import Iterator
from pathlib import Path

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import NameOID

from paddock.doors.network.transport.conn import Conn
from paddock.doors.network.transport.stream import ConnLost
from paddock_services.mail import Mail


class SocketStream:
    """A Stream over a connection of the door: asyncio's own may lose what a client says right after
    it was told to begin TLS."""

    def __init__(self, conn: Conn, tls: ssl.SSLContext) -> None:
        self._conn, self._tls = conn, tls

    async def read(self, most: int = 65536) -> bytes:
        return await self._conn.read(most)

    async def write(self, data: bytes) -> None:
        await self._conn.write(data)

    async def secure(self) -> None:
        await self._conn.start_tls(self._tls, server_side=True)


@contextlib.contextmanager
def smtp_served(mail: Mail, directory: Path) -> Iterator[int]:
    """Gives the port."""
    tls = server_tls(directory)
    started = threading.Event()
    running: list[tuple[int, asyncio.AbstractEventLoop, asyncio.Event]] = []

    async def serve(sock: socket.socket) -> None:
        conn = Conn(sock)
        with contextlib.suppress(ConnLost, asyncio.CancelledError):
            await mail.speak(SocketStream(conn, tls))
        conn.close()

    async def accept(listener: socket.socket) -> None:
        loop, serving = asyncio.get_running_loop(), []
        while True:
            sock, _ = await loop.sock_accept(listener)
            serving.append(asyncio.ensure_future(serve(sock)))

    async def main() -> None:
        ended = asyncio.Event()
        with socket.create_server(("127.0.0.1", 0)) as listener:
            listener.setblocking(False)
            accepting = asyncio.ensure_future(accept(listener))
            port = listener.getsockname()[1]
            running.append((port, asyncio.get_running_loop(), ended))
            started.set()
            await ended.wait()
            accepting.cancel()

    thread = threading.Thread(target=asyncio.run, args=(main(),), daemon=True)
    thread.start()
    assert started.wait(10)
    port, loop, ended = running[0]
    try:
        yield port
    finally:
        loop.call_soon_threadsafe(ended.set)
        thread.join(10)


def server_tls(directory: Path) -> ssl.SSLContext:
    """A certificate for localhost, signed by itself."""
    key = ec.generate_private_key(ec.SECP256R1())
    name = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, "localhost")])
    now = datetime.datetime.now(datetime.UTC)
    certificate = (
        x509.CertificateBuilder()
        .subject_name(name)
        .issuer_name(name)
        .public_key(key.public_key())
        .serial_number(1)
        .not_valid_before(now - datetime.timedelta(days=1))
        .not_valid_after(now + datetime.timedelta(days=1))
        .add_extension(x509.SubjectAlternativeName([x509.DNSName("localhost")]), False)
        .sign(key, hashes.SHA256())
    )
    file = directory / "server.pem"
    file.write_bytes(
        key.private_bytes(
            serialization.Encoding.PEM,
            serialization.PrivateFormat.PKCS8,
            serialization.NoEncryption(),
        )
        + certificate.public_bytes(serialization.Encoding.PEM)
    )
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(file)
    return context
