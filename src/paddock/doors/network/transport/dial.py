"""Connections to real servers. The address that is dialled is the one that was checked.

A name is looked up once and each address judged; there is no second lookup that could say something
else. Addresses of private networks, of this machine and of the cloud's metadata are for those who
wrote the paddock file to open, not for whoever owns a name.
"""

from __future__ import annotations

import asyncio
import contextlib
import enum
import errno
import socket
from collections import deque
from collections.abc import Sequence

import msgspec

from paddock.doors.network.names.resolver import Busy, Lookups, Resolve, ask_host
from paddock.doors.network.transport.addresses import (
    IpAddress,
    address_from,
    end_of,
    is_metadata,
    why_not_public,
)
from paddock.model.hosts import is_address
from paddock.policy.network import Mode, NetworkTerms

DIAL_S = 10.0  # for all addresses of a name together
STAGGER_S = 2.0  # how long an address is waited for before the next is tried as well
MAX_TRIED = 6
_OPTIONS = (
    (socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1),
    (socket.IPPROTO_TCP, socket.TCP_KEEPIDLE, 60),
    (socket.IPPROTO_TCP, socket.TCP_KEEPINTVL, 15),
    (socket.IPPROTO_TCP, socket.TCP_KEEPCNT, 4),
    (socket.IPPROTO_TCP, socket.TCP_NODELAY, 1),
)
_NO_WAY = {errno.ENETUNREACH, errno.EHOSTUNREACH, errno.EADDRNOTAVAIL, errno.EAFNOSUPPORT}
_NO_SUCH_NAME = {socket.EAI_NONAME, getattr(socket, "EAI_NODATA", socket.EAI_NONAME)}


class DialFailure(enum.StrEnum):
    """Why there is no connection."""

    NOT_FOUND = "not_found"
    NOT_ALLOWED = "not_allowed"
    REFUSED = "refused"
    TIMED_OUT = "timed_out"
    UNREACHABLE = "unreachable"
    BUSY = "busy"


class DialError(Exception):
    """No connection was made. `why` is meant for the agent: it has no addresses in it, or names
    below a wildcard would be a map of the host's network."""

    is_attack = False

    def __init__(self, why: str, kind: DialFailure) -> None:
        super().__init__(why)
        self.why = why
        self.kind = kind


class DialRefused(DialError):
    """A name led only to addresses that it must not lead to. Nothing was sent to them."""

    is_attack = True

    def __init__(self, why: str, addresses: Sequence[str]) -> None:
        super().__init__(why, DialFailure.NOT_ALLOWED)
        self.addresses = tuple(addresses)


class _Target(msgspec.Struct, frozen=True):
    """Addresses that may be dialled, and what they are called in messages."""

    label: str
    addresses: tuple[IpAddress, ...]
    port: int


class Dialer:
    """Dials for one sandbox. `network` may be replaced while it works."""

    def __init__(self, network: NetworkTerms, *, resolve: Resolve = ask_host) -> None:
        self.network = network
        self._lookups = Lookups(resolve)

    async def connect(self, host: str, port: int) -> socket.socket:
        """A connected, non-blocking socket to a canonical host. Raises DialError."""
        if self.network.mode is Mode.NONE:
            raise DialError("there is no network", DialFailure.NOT_ALLOWED)
        if not 0 < port < 65536:
            raise DialError(f"{port} is not a port", DialFailure.NOT_ALLOWED)
        target = await self._find(host, port)
        try:
            async with asyncio.timeout(DIAL_S):
                return await _race(target)
        except TimeoutError:
            why = f"{target.label} did not answer within {DIAL_S:g} s"
            raise DialError(why, DialFailure.TIMED_OUT) from None
        except OSError as error:
            raise _failed(target.label, error) from None

    async def _find(self, host: str, port: int) -> _Target:
        network, label = self.network, f"{host}:{port}"
        if (place := network.hosts.get(host)) is not None:
            address, staged_port = _place(place, port)  # as the file says, so it is not judged
            return _Target(label, (address,), staged_port)
        if is_address(host):
            address = address_from(host)
            if network.covers(host, port) is not None:  # no wildcard covers an address
                return _Target(label, (address,), port)
            return _Target(label, _permitted(network, host, [host]), port)
        addresses = await self._looked_up(host)
        return _Target(label, _permitted(network, host, addresses), port)

    async def _looked_up(self, host: str) -> Sequence[str]:
        try:
            addresses = await self._lookups.addresses_of(host)
        except TimeoutError:
            why = f"{host}: looking up the name took too long"
            raise DialError(why, DialFailure.TIMED_OUT) from None
        except Busy:
            why = f"{host}: too many names are being looked up; try again"
            raise DialError(why, DialFailure.BUSY) from None
        except Exception as error:
            raise _not_found(host, error) from None
        if not addresses:
            raise DialError(f"{host}: there is no such name", DialFailure.NOT_FOUND)
        return addresses


def _permitted(network: NetworkTerms, host: str, found: Sequence[str]) -> tuple[IpAddress, ...]:
    """Return the addresses that may be dialled. Raises DialRefused when none is left."""
    good: dict[IpAddress, None] = {}
    reasons: dict[str, None] = {}
    for text in found:
        try:
            address = address_from(text)
            reason = _why_not(network, address)
        except (ValueError, OSError):
            reason = "not understood"
        if reason is None:
            good[address] = None
        else:
            reasons[reason] = None
    if not good:
        verb = "is" if is_address(host) else "leads to"
        why = f"{host} {verb} an address that is not allowed ({', '.join(reasons)})"
        raise DialRefused(why, found)
    return tuple(good)


def _why_not(network: NetworkTerms, address: IpAddress) -> str | None:
    """Return why an address may not be dialled, or None. A range in the file does not open the
    cloud's metadata that lies in it: that takes an entry of its own."""
    end = end_of(address)
    reason = why_not_public(address) or ("of this machine" if is_own(address) else None)
    if reason is None:
        return None
    for network_range in network.private:
        is_meant = network_range.num_addresses == 1 or not is_metadata(end)
        if is_meant and end in network_range:
            return None
    return reason


def is_own(address: IpAddress) -> bool:
    """Return whether this machine itself has the address. It may be a public one; services that are
    closed to the outside are open from here. The kernel says by what source it would be reached;
    nothing is sent for that. Raises OSError."""
    family = socket.AF_INET if address.version == 4 else socket.AF_INET6
    try:
        with socket.socket(family, socket.SOCK_DGRAM) as probe:
            probe.connect((str(address), 9))
            return bool(probe.getsockname()[0] == probe.getpeername()[0])
    except OSError as error:
        if error.errno not in _NO_WAY:
            raise  # not known, and that means no
        return False


def _place(text: str, port: int) -> tuple[IpAddress, int]:
    """`address`, `address:port` or `[address]:port`, as the file writes where a name is."""
    has_port = text.count(":") == 1 or "]:" in text
    address, _, last = text.rpartition(":") if has_port else (text, "", str(port))
    try:
        return address_from(address.strip("[]")), int(last)
    except ValueError:
        raise DialError("network.hosts has no address for it", DialFailure.NOT_ALLOWED) from None


async def _race(target: _Target) -> socket.socket:
    """The first that answers; the next is tried when one fails or takes long. Raises OSError."""
    waiting = deque(target.addresses[:MAX_TRIED])
    if len(waiting) == 1:
        return await _try(waiting[0], target.port)
    running: set[asyncio.Task[socket.socket]] = set()
    failure: BaseException = OSError(errno.EHOSTUNREACH, "No route to host")
    try:
        while waiting or running:
            if waiting:
                running.add(asyncio.create_task(_try(waiting.popleft(), target.port)))
            limit = STAGGER_S if waiting else DIAL_S
            done, running = await asyncio.wait(
                running, timeout=limit, return_when=asyncio.FIRST_COMPLETED
            )
            for task in done:
                error = task.exception()
                if error is None:
                    running |= done - {task}  # another may have answered at the same moment
                    return task.result()
                failure = error
        raise failure
    finally:
        for task in running:
            task.add_done_callback(_discard)
            task.cancel()


async def _try(address: IpAddress, port: int) -> socket.socket:
    family = socket.AF_INET if address.version == 4 else socket.AF_INET6
    sock = socket.socket(family, socket.SOCK_STREAM)
    try:
        sock.setblocking(False)
        for level, option, value in _OPTIONS:
            sock.setsockopt(level, option, value)
        await asyncio.get_running_loop().sock_connect(sock, (str(address), port))
    except BaseException:
        sock.close()
        raise
    return sock


def _discard(task: asyncio.Task[socket.socket]) -> None:
    if not task.cancelled() and task.exception() is None:
        with contextlib.suppress(OSError):
            task.result().close()


def _failed(label: str, error: OSError) -> DialError:
    if isinstance(error, ConnectionRefusedError):
        return DialError(f"{label} refused the connection", DialFailure.REFUSED)
    if error.errno == errno.ETIMEDOUT:
        return DialError(f"{label} did not answer", DialFailure.TIMED_OUT)
    return DialError(f"{label} cannot be reached: {error.strerror}", DialFailure.UNREACHABLE)


def _not_found(host: str, error: Exception) -> DialError:
    is_missing = isinstance(error, socket.gaierror) and error.errno in _NO_SUCH_NAME
    if is_missing or isinstance(error, UnicodeError):
        return DialError(f"{host}: there is no such name", DialFailure.NOT_FOUND)
    return DialError(f"{host}: the name could not be looked up", DialFailure.UNREACHABLE)
