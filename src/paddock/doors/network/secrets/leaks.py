"""Notices a placeholder on its way to where its secret is not for: in an address, a header or a
body, in whatever spelling. It is worth nothing there; that it was sent is what people must know.

What is looked for is the token in it, because header names lose their capital letters.
"""

from __future__ import annotations

from functools import lru_cache
from itertools import chain

from paddock.doors.network.exchange import Headers
from paddock.doors.network.secrets.keeper import SecretKeeper
from paddock.journal.secrets.search import Needle, Needles

_MAX_HOSTS = 1024  # a wildcard allows more names than memory holds


class Leaks:
    """Looks at all requests of one sandbox, before anything is put into them."""

    def __init__(self, keeper: SecretKeeper) -> None:
        self._keeper = keeper
        self._needles = {name: Needle(name, keeper.secret(name).token) for name in keeper.names}
        self._tokens = {name: keeper.secret(name).token.encode() for name in keeper.names}
        self._sides_of = lru_cache(maxsize=_MAX_HOSTS)(self._sides)

    def leaks(
        self, headers: Headers, target: str, body: bytes | None, host: str, authority: str = ""
    ) -> str | None:
        """The name of a secret whose placeholder must not go to this host."""
        if not self._needles:
            return None
        needles = self._wrong_at(host)
        if not needles:
            return None
        head = [target.encode(errors="replace"), host.encode(), authority.encode(errors="replace")]
        joined = b"\n".join([*head, *chain.from_iterable(headers)])
        secret = needles.first(joined) or self._without_capitals(needles, joined.lower())
        return secret if secret is not None or not body else needles.first(body)

    def watch(self, host: str) -> LeakWatch:
        """For a body, or a connection, that goes by in pieces."""
        return LeakWatch(self._wrong_at(host) if self._needles else Needles(()))

    def _without_capitals(self, needles: Needles, head: bytes) -> str | None:
        for needle in needles.all:
            if self._tokens[needle.name] in head:
                return needle.name
        return None

    def _wrong_at(self, host: str) -> Needles:
        """A revoked secret is for no host at all."""
        own, foreign = self._sides_of(host)
        lost = [self._needles[name] for name in own if self._keeper.is_revoked(name)]
        return Needles((*foreign.all, *lost)) if lost else foreign

    def _sides(self, host: str) -> tuple[tuple[str, ...], Needles]:
        own = self._keeper.names_for(host)
        return own, Needles(needle for name, needle in self._needles.items() if name not in own)


class LeakWatch:
    """One stream of bytes. Once something was found, it stays found."""

    def __init__(self, needles: Needles) -> None:
        self._needles = needles
        self._held = b""
        self.found: str | None = None

    def feed(self, data: bytes) -> str | None:
        """The name of a secret whose placeholder is complete with this piece."""
        if self.found is not None or not self._needles:
            return self.found
        data = self._held + data
        self.found = self._needles.first(data)
        self._held = data[self._needles.open_end(data, []) :]
        return self.found
