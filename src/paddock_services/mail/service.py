"""The mail as a service: SMTP on its ports, providers' APIs on the others."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from typing import Any, ClassVar

from paddock.model.errors import InvalidInput
from paddock.world.kit import is_email_address
from paddock.world.service import ASGIApp, Seed, Stream, StreamService
from paddock_services.mail.api import MailApi
from paddock_services.mail.mime import read_message
from paddock_services.mail.outbox import MESSAGES, MailMessage, Outbox
from paddock_services.mail.session import Envelope, ServerRules, Session

IDLE_S = 300.0  # what RFC 5321 asks servers to wait for the next command
_WRITE_S = 60.0
_CHUNK = 64 << 10
_IMPLICIT_TLS = 465


class Mail(StreamService):
    """Takes mail and sends none."""

    name = "mail"
    ports = frozenset({25, 465, 587, 2525})
    options: ClassVar[Mapping[str, str]] = {
        "bounce": 'addresses that take no mail, as patterns: ["*@bad.example"]',
        "require_auth": "whether SMTP wants a login first (any name will do)",
    }

    def check(self) -> None:
        bounce = self.context.options.get("bounce", [])
        if not isinstance(bounce, list) or not all(isinstance(item, str) for item in bounce):
            raise InvalidInput("mail: bounce is a list of patterns such as '*@bad.example'")
        if not isinstance(self.context.options.get("require_auth", False), bool):
            raise InvalidInput("mail: require_auth is true or false")

    def app(self) -> ASGIApp:
        return MailApi(Outbox(self.context))

    async def speak(self, stream: Stream) -> None:
        session = Session(self._rules(), is_secure=self.context.port == _IMPLICIT_TLS)
        await _write(stream, session.greeting())
        while not session.is_over:
            try:
                data = await asyncio.wait_for(stream.read(_CHUNK), IDLE_S)
            except TimeoutError:
                await _write(stream, session.timed_out())
                return
            if not data:
                return
            await _write(stream, session.feed(data))
            if session.wants_tls:
                await asyncio.wait_for(stream.secure(), _WRITE_S)
                session.secured()

    def seed(self, data: Seed) -> None:
        """Fill the outbox with messages that were sent before the run."""
        unknown = sorted(set(data) - {MESSAGES})
        if unknown:
            raise InvalidInput(f"mail has no {unknown[0]}; it has {MESSAGES}")
        outbox = Outbox(self.context)
        with self.context.store.transaction():
            for message in data.get(MESSAGES, ()):
                outbox.put(_read_seed(message), "seed")

    def invariants(self) -> list[str]:
        store, broken = self.context.store, []
        for message in store.find(MESSAGES):
            if not (message["to"] or message["cc"] or message["bcc"]):
                broken.append(f"letter {message['id']} is for nobody")
            for file in message["attachments"]:
                if store.blob(file["blob"]) is None:
                    broken.append(f"letter {message['id']} has lost {file['filename']}")
        return broken

    def _rules(self) -> ServerRules:
        outbox = Outbox(self.context)

        def accept(envelope: Envelope, raw: bytes) -> str:
            message = read_message(raw, envelope.sender, envelope.recipients)
            message.extra.update(login=envelope.user, tls=envelope.is_secure)
            with self.context.store.transaction():
                return str(outbox.put(message, "smtp")["id"])

        needs_login = bool(self.context.options.get("require_auth"))
        return ServerRules(self.context.host, outbox.refuses, accept, needs_login)


async def _write(stream: Stream, data: bytes) -> None:
    if data:
        await asyncio.wait_for(stream.write(data), _WRITE_S)


def _read_seed(data: Mapping[str, Any]) -> MailMessage:
    to, cc, bcc = (_read_addresses(data.get(name)) for name in ("to", "cc", "bcc"))
    subject, text, html = (str(data.get(name) or "") for name in ("subject", "text", "html"))
    return MailMessage(str(data.get("from") or ""), to, cc, bcc, subject, text, html)


def _read_addresses(value: Any) -> list[str]:
    addresses = [value] if isinstance(value, str) else [str(item) for item in value or ()]
    for address in addresses:
        if not is_email_address(address):
            raise InvalidInput(f"mail: {address!r} in the seed is no address")
    return addresses
