"""The secrets of a sandbox at work: put into requests, taken out of answers, missed by nobody."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from typing import TYPE_CHECKING

from paddock.doors.network.heavy_work import HeavyWork
from paddock.doors.network.secrets.injection import Injected, Injector
from paddock.doors.network.secrets.keeper import SecretKeeper
from paddock.doors.network.secrets.leaks import Leaks, LeakWatch
from paddock.doors.network.secrets.scrubber import Scrubber

if TYPE_CHECKING:
    from paddock.doors.network.exchange import Headers
    from paddock.doors.network.request import RequestProposal
    from paddock.doors.network.transport.conn import Conn


class PlaceholderWatch:
    """Looks at bytes on their way to one host."""

    __slots__ = ("_watch", "_work")

    def __init__(self, watch: LeakWatch, work: HeavyWork) -> None:
        self._watch = watch
        self._work = work

    @property
    def found(self) -> str | None:
        """The secret whose placeholder was on its way to where it is not for."""
        return self._watch.found

    async def is_clean(self, data: bytes) -> bool:
        """Return whether nothing was found, in these data or before."""
        return await self._work.search(self._watch.feed, data) is None


class Custody:
    """One per door. Without secrets every question is answered at once."""

    def __init__(self, keeper: SecretKeeper) -> None:
        self._keeper = keeper
        self._injector = Injector(keeper)
        self._leaks = Leaks(keeper)
        self.work = HeavyWork()  # of the sandbox
        self._carriers: dict[str, Counter[Conn]] = {name: Counter() for name in keeper.names}

    def __bool__(self) -> bool:
        return bool(self._keeper)

    @property
    def environment(self) -> dict[str, str]:
        """Return the variables that the sandbox gets, with placeholders."""
        return self._keeper.environment()

    def misplaced(self, proposal: RequestProposal, host: str) -> str | None:
        """The secret whose placeholder is in a request to a host that it is not for."""
        if not self._keeper:
            return None
        request = proposal.request
        # HTTP/2 has methods of any letters.
        named = f"{request.method} {request.authority or ''}"
        return self._leaks.leaks(request.headers, request.target, proposal.read, host, named)

    def in_name(self, host: str) -> str | None:
        """The secret whose placeholder is in the name of a host that it is not for."""
        return self._leaks.leaks([], "", None, host) if self._keeper else None

    def watch(self, host: str) -> PlaceholderWatch | None:
        """For a body or a connection that streams to a host."""
        return PlaceholderWatch(self._leaks.watch(host), self.work) if self._keeper else None

    def inject(self, headers: Headers, target: str, body: bytes | None, host: str) -> Injected:
        """The request with real values, where it is for them. Raises Revoked."""
        if not self._keeper:
            return Injected(headers, target, body)
        return self._injector.apply(headers, target, body, host)

    def scrubber(self, host: str) -> Scrubber | None:
        """Return what takes values out of the answers of a host. None without secrets."""
        return self._keeper.scrubber(host) if self._keeper else None

    def carries(self, conn: Conn, used: tuple[str, ...]) -> None:
        """A connection that a value goes over; it ends when the secret is revoked."""
        for name in used:
            self._carriers[name][conn] += 1

    def cut(self, name: str) -> None:
        """Ends all connections that the value went over."""
        for conn in list(self._carriers.get(name, ())):
            conn.abort()

    def forget(self, conn: Conn, used: tuple[str, ...]) -> None:
        """One request that these went with is over; others may go on over the same connection."""
        for name in used:
            conns = self._carriers[name]
            conns[conn] -= 1
            if conns[conn] <= 0:
                del conns[conn]

    def is_revoked(self, name: str) -> bool:
        return self._keeper.is_revoked(name)

    def is_for(self, name: str, host: str) -> bool:
        return self._keeper.secret(name).terms.is_for(host)

    async def watch_revocations(self, on_revoked: Callable[[str], None]) -> None:
        await self._keeper.watch(on_revoked)

    def close(self) -> None:
        self._keeper.close()
