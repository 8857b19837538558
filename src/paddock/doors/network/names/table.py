"""Which address stands for which name in one sandbox. No packet is read or sent here.

Addresses are given out in the order in which names are asked for and mean nothing outside of the
sandbox. One that was taken from a name goes to no other for a while: a client that still has it in
its cache must not reach a different host by it.
"""

from __future__ import annotations

import time
from collections import OrderedDict, deque
from collections.abc import Callable, Iterator
from ipaddress import IPv4Address, IPv4Network

STAND_INS = IPv4Network("198.18.0.0/15")  # set aside for benchmarks: no host of the internet
PROXY_ADDRESS = "198.18.0.1"
PROXY_PORT = 3128
NAME_SERVER_ADDRESS = "198.18.0.2"
INSIDE_ADDRESS = "198.18.0.3"  # where programs report to, in a run
INSIDE_PORT = 80
MAX_NAMES = 65536  # half of the addresses, so that as many can wait for the end of their grace
GRACE_S = 300.0  # clients keep an answer for a minute; some of them longer than they are told
_RESERVED = 256  # the first /24 is the door's own


class TableFull(Exception):
    """No address is free now: every name is in use, or the grace of the freed ones is not over."""


class NameTable:
    """Names and the addresses that stand for them. Names come in canonical spelling."""

    def __init__(
        self,
        *,
        max_names: int = MAX_NAMES,
        grace_s: float = GRACE_S,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._max_names = max_names
        self._grace_s = grace_s
        self._clock = clock
        self._addresses: dict[str, str] = {}
        self._names: dict[str, str] = {}
        self._idle: OrderedDict[str, None] = OrderedDict()  # least recently used first
        self._held: dict[str, int] = {}  # how many connections each has
        self._fresh = _fresh_addresses()
        self._freed: deque[tuple[float, str]] = deque()  # oldest first

    def __len__(self) -> int:
        return len(self._addresses)

    def address_of(self, name: str) -> str:
        """The name's address, the same as long as the name is remembered. Raises TableFull."""
        address = self._addresses.get(name)
        if address is None:
            return self._give(name)
        self._use(name)
        return address

    def name_of(self, address: str) -> str | None:
        """The name that the address stands for now, if any."""
        name = self._names.get(address)
        if name is not None:
            self._use(name)
        return name

    def hold(self, name: str) -> None:
        """A connection to the name begins: it is not forgotten until as many are released."""
        if name not in self._addresses:
            raise KeyError(name)
        self._idle.pop(name, None)
        self._held[name] = self._held.get(name, 0) + 1

    def release(self, name: str) -> None:
        """A connection to the name ended."""
        count = self._held.pop(name)
        if count > 1:
            self._held[name] = count - 1
        else:
            self._idle[name] = None

    def _use(self, name: str) -> None:
        if name in self._idle:
            self._idle.move_to_end(name)

    def _give(self, name: str) -> str:
        is_full = len(self._addresses) >= self._max_names
        if is_full and not self._idle:
            raise TableFull("every name has an open connection")
        address = self._free_address()  # first: a failure must not cost another name its address
        if is_full:
            self._forget(next(iter(self._idle)))
        self._addresses[name] = address
        self._names[address] = name
        self._idle[name] = None
        return address

    def _free_address(self) -> str:
        """Return an address that waited long enough before an unused one: those are kept for when
        many names go at once."""
        if self._freed and self._clock() - self._freed[0][0] >= self._grace_s:
            return self._freed.popleft()[1]
        address = next(self._fresh, None)
        if address is None:
            raise TableFull("too many names were asked for in a short time")
        return address

    def _forget(self, name: str) -> None:
        del self._idle[name]
        address = self._addresses.pop(name)
        del self._names[address]
        self._freed.append((self._clock(), address))


def _fresh_addresses() -> Iterator[str]:
    """Not those that end in 0 or 255: some clients take them for a network or a broadcast."""
    start, count = int(STAND_INS.network_address), STAND_INS.num_addresses
    numbers = range(start + _RESERVED, start + count)
    return (str(IPv4Address(number)) for number in numbers if number & 255 not in (0, 255))
