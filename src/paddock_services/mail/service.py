"""The mail service: SMTP on its ports, providers' APIs on the others, one outbox behind both."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from typing import Any, ClassVar

from paddock.model.errors import InvalidInput
from paddock.world.service import ASGIApp, Seed, Stream, StreamService
from paddock.world.services.untrusted import is_address
from paddock_services.mail.mime import read_letter
from paddock_services.mail.outbox import OUTBOX, Letter, Outbox
from paddock_services.mail.session import Envelope, Rules, Session

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
        if not isinstance(bounce, list) or not all(isinstance(one, str) for one in bounce):
            raise InvalidInput("mail: bounce is a list of patterns such as '*@bad.example'")
        if not isinstance(self.context.options.get("require_auth", False), bool):
            raise InvalidInput("mail: require_auth is true or false")

    def app(self) -> ASGIApp:
        from paddock_services.mail.web import make_app

        return make_app(Outbox(self.context))

    async def speak(self, stream: Stream) -> None:
        session = Session(self._rules(), is_secure=self.context.port == _IMPLICIT_TLS)
        await _write(stream, session.greeting())
        while not session.is_over:
            try:
                data = await asyncio.wait_for(stream.read(_CHUNK), IDLE_S)
            except TimeoutError:
                await _write(stream, session.too_slow())
                return
            if not data:
                return
            await _write(stream, session.feed(data))
            if session.wants_tls:
                await asyncio.wait_for(stream.secure(), _WRITE_S)
                session.secured()

    def seed(self, data: Seed) -> None:
        """Letters that have been sent before the run."""
        unknown = sorted(set(data) - {OUTBOX})
        if unknown:
            raise InvalidInput(f"mail has no {unknown[0]}; it has {OUTBOX}")
        outbox = Outbox(self.context)
        with self.context.store.transaction():
            for letter in data.get(OUTBOX, ()):
                outbox.keep(_seeded(letter), "seed")

    def invariants(self) -> list[str]:
        store = self.context.store
        broken = []
        for letter in store.find(OUTBOX):
            if not (letter["to"] or letter["cc"] or letter["bcc"]):
                broken.append(f"letter {letter['id']} is for nobody")
            for file in letter["attachments"]:
                if store.blob(file["blob"]) is None:
                    broken.append(f"letter {letter['id']} has lost {file['filename']}")
        return broken

    def _rules(self) -> Rules:
        outbox = Outbox(self.context)

        def accept(envelope: Envelope, raw: bytes) -> str:
            letter = read_letter(raw, envelope.sender, envelope.recipients)
            letter.more.update(login=envelope.user, tls=envelope.is_secure)
            with self.context.store.transaction():
                return str(outbox.keep(letter, "smtp")["id"])

        needs_login = bool(self.context.options.get("require_auth"))
        return Rules(self.context.host, outbox.bounces, accept, needs_login)


async def _write(stream: Stream, data: bytes) -> None:
    if data:
        await asyncio.wait_for(stream.write(data), _WRITE_S)


def _seeded(given: Mapping[str, Any]) -> Letter:
    people = {}
    for name in ("to", "cc", "bcc"):
        value = given.get(name) or []
        people[name] = [value] if isinstance(value, str) else [str(one) for one in value]
        wrong = [one for one in people[name] if not is_address(one)]
        if wrong:
            raise InvalidInput(f"mail: {wrong[0]!r} in the seed is no address")
    texts = {name: str(given.get(name) or "") for name in ("subject", "text", "html")}
    return Letter(str(given.get("from") or ""), **people, **texts)  # type: ignore[arg-type]
