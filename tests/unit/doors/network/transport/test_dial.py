"""Dialling: only what was checked is dialled, and errors say what happened. Servers are real."""

from __future__ import annotations

import asyncio
import contextlib
import itertools
import socket
from collections.abc import Awaitable, Callable, Iterator, Sequence
from ipaddress import ip_address
from typing import Any

import pytest

from cases import for_each
from paddock.doors.network.names import resolver as lookups
from paddock.doors.network.transport import dial
from paddock.doors.network.transport.dial import Dialer, DialError, DialFailure, DialRefused, is_own
from paddock.model.hosts import HostPattern
from paddock.policy.network import Destination, NetworkTerms, network_of

LIMIT_S = 20.0
HOST = "api.example.com"
LOOPBACK = {"private": ["127.0.0.0/8"]}


def terms(**words: Any) -> NetworkTerms:
    return network_of({"allow": [f"{HOST}:1-65535"], **words})


def answers(*addresses: str) -> Callable[[str], Awaitable[Sequence[str]]]:
    async def resolve(name: str) -> Sequence[str]:
        return list(addresses)

    return resolve


def run(work: Awaitable[Any]) -> Any:
    async def bounded() -> Any:
        async with asyncio.timeout(LIMIT_S):
            return await work

    return asyncio.run(bounded())


@contextlib.contextmanager
def listening(address: str = "127.0.0.1") -> Iterator[tuple[socket.socket, int]]:
    family = socket.AF_INET6 if ":" in address else socket.AF_INET
    with socket.socket(family) as server:
        server.bind((address, 0))
        server.listen(8)
        server.setblocking(False)
        yield server, server.getsockname()[1]


def is_unreached(server: socket.socket) -> bool:
    try:
        server.accept()[0].close()
    except BlockingIOError:
        return True
    return False


def refusal(
    network: NetworkTerms, *addresses: str, host: str = HOST, port: int = 443
) -> DialRefused:
    with pytest.raises(DialRefused) as caught:
        run(Dialer(network, resolve=answers(*addresses)).connect(host, port))
    return caught.value


@for_each(
    "address",
    [
        "127.0.0.1",
        "127.8.9.10",
        "0.0.0.0",
        "10.1.2.3",
        "172.16.0.1",
        "192.168.1.1",
        "169.254.169.254",
        "100.64.0.1",
        "100.100.100.200",
        "168.63.129.16",
        "192.0.2.1",
        "198.18.0.1",
        "224.0.0.1",
        "255.255.255.255",
        "::",
        "::1",
        "::ffff:127.0.0.1",
        "::ffff:10.0.0.1",
        "::127.0.0.1",
        "64:ff9b::7f00:1",
        "64:ff9b:1::7f00:1",
        "2002:7f00:1::",
        "2001:0:7f00:1::1",
        "fe80::1",
        "fe80::1%1",
        "fd00:ec2::254",
        "fc00::1",
        "ff02::1",
        "2001:db8::1",
        "not an address",
        "127.1",
        "",
    ],
)
def test_a_name_does_not_lead_to_a_special_address(address: str) -> None:
    error = refusal(terms(), address)
    assert error.is_attack
    assert error.kind is DialFailure.NOT_ALLOWED
    assert error.addresses == (address,)
    assert not address or address not in error.why


def test_nothing_reaches_a_server_behind_a_refused_address() -> None:
    with listening() as (server, port):
        refusal(terms(), "127.0.0.1", "::ffff:127.0.0.1", "0.0.0.0", port=port)
        assert is_unreached(server)


def test_a_connection_is_ready_for_use() -> None:
    async def scene() -> None:
        with listening() as (server, port):
            dialer = Dialer(terms(**LOOPBACK), resolve=answers("127.0.0.1"))
            with await dialer.connect(HOST, port) as sock:
                assert not sock.getblocking()
                assert sock.getsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY)
                assert sock.getsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE)
                peer, _ = await asyncio.get_running_loop().sock_accept(server)
                with peer:
                    assert peer.getpeername() == sock.getsockname()

    run(scene())


def test_a_name_that_answers_differently_each_time_is_asked_once_a_connection() -> None:
    answered = itertools.chain(["1.1.1.1"], itertools.repeat("127.0.0.1"))
    asked: list[str] = []

    async def rebinding(name: str) -> list[str]:
        asked.append(name)
        return [next(answered)]

    dialled: list[str] = []

    async def noted(address: Any, port: int) -> socket.socket:
        dialled.append(str(address))
        raise ConnectionRefusedError

    async def scene() -> None:
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(dial, "_try", noted)
            dialer = Dialer(terms(), resolve=rebinding)
            for _ in range(3):
                with pytest.raises(DialError):
                    await dialer.connect(HOST, 443)
            assert asked == [HOST]
            dialer._lookups._found.clear()  # as if the time to remember it were over
            with pytest.raises(DialRefused):
                await dialer.connect(HOST, 443)

    run(scene())
    assert set(dialled) == {"1.1.1.1"}
    assert len(asked) == 2


def test_of_mixed_answers_only_the_good_ones_are_dialled() -> None:
    async def scene() -> None:
        with listening("127.0.0.1") as (bad, port), listening_at("127.0.0.2", port) as good:
            network = terms(private=["127.0.0.2/32"])
            dialer = Dialer(network, resolve=answers("127.0.0.1", "10.0.0.1", "127.0.0.2"))
            with await dialer.connect(HOST, port) as sock:
                assert sock.getpeername() == ("127.0.0.2", port)
            assert is_unreached(bad)
            assert not is_unreached(good)

    run(scene())


@contextlib.contextmanager
def listening_at(address: str, port: int) -> Iterator[socket.socket]:
    with socket.create_server((address, port)) as server:
        server.setblocking(False)
        yield server


@pytest.mark.parametrize("address", ["::ffff:127.0.0.1", "127.0.0.1"])
def test_a_range_of_the_file_opens_its_addresses_in_every_form(address: str) -> None:
    async def scene() -> None:
        with listening() as (server, port):
            dialer = Dialer(terms(**LOOPBACK), resolve=answers(address))
            (await dialer.connect(HOST, port)).close()
            assert not is_unreached(server)

    run(scene())


@pytest.mark.parametrize(
    ("range_", "address"),
    [
        ("169.254.0.0/16", "169.254.169.254"),
        ("100.64.0.0/10", "100.100.100.200"),
        ("fd00::/8", "fd00:ec2::254"),
        ("169.254.0.0/16", "64:ff9b::a9fe:a9fe"),
    ],
)
def test_a_range_does_not_open_the_metadata_that_lies_in_it(range_: str, address: str) -> None:
    error = refusal(terms(private=[range_]), address)
    assert "metadata" in error.why


def test_metadata_is_opened_by_an_entry_of_its_own() -> None:
    network = terms(private=["169.254.169.254/32"])
    assert dial._permitted(network, HOST, ["169.254.169.254"])


def test_a_range_of_the_file_opens_nothing_beside_it() -> None:
    refusal(terms(private=["10.1.0.0/16"]), "10.2.0.1")
    refusal(terms(private=["10.0.0.0/8"]), "127.0.0.1")


def test_an_address_that_the_file_names_is_dialled_and_only_at_its_port() -> None:
    async def scene() -> None:
        with listening() as (server, port), listening() as (other, other_port):
            network = NetworkTerms(allow=(Destination(HostPattern("127.0.0.1"), port, port),))
            (await Dialer(network).connect("127.0.0.1", port)).close()
            assert not is_unreached(server)
            with pytest.raises(DialRefused):
                await Dialer(network).connect("127.0.0.1", other_port)
            assert is_unreached(other)

    run(scene())


def test_a_name_does_not_lead_to_an_address_that_only_the_list_names() -> None:
    network = network_of({"allow": ["10.0.0.5:443", f"{HOST}:443"]})
    refusal(network, "10.0.0.5")


def test_an_address_that_nobody_named_is_refused() -> None:
    error = refusal(terms(), host="10.0.0.5")
    assert error.why == "10.0.0.5 is an address that is not allowed (private)"


def test_addresses_of_this_machine_are_known() -> None:
    assert is_own(ip_address("127.0.0.1"))
    assert not is_own(ip_address("1.1.1.1"))
    own = _outer_address()
    if own is not None:
        assert is_own(ip_address(own))


def test_a_public_address_of_this_machine_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(dial, "why_not_public", lambda address: None)
    error = refusal(terms(), "127.0.0.1")
    assert "of this machine" in error.why


def test_an_address_that_cannot_be_checked_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    def broken(address: Any) -> bool:
        raise OSError(24, "Too many open files")

    monkeypatch.setattr(dial, "is_own", broken)
    refusal(terms(), "1.1.1.1")


def _outer_address() -> str | None:
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as probe:
        try:
            probe.connect(("192.0.2.1", 9))
        except OSError:
            return None  # this machine has no network
        return str(probe.getsockname()[0])


@pytest.mark.parametrize("place", ["{address}:{port}", "{address}"])
@pytest.mark.parametrize("address", ["127.0.0.1", "[::1]"])
def test_a_staged_name_is_dialled_where_the_file_says(place: str, address: str) -> None:
    async def never(name: str) -> list[str]:
        raise AssertionError("a staged name is not looked up")

    async def scene() -> None:
        with _listening_or_skip(address.strip("[]")) as (server, port):
            staged = place.format(address=address, port=port)
            if not staged.endswith(f":{port}"):
                staged = staged.strip("[]")
            dialer = Dialer(terms(hosts={HOST: staged}), resolve=never)
            asked = 443 if staged.endswith(f":{port}") else port
            (await dialer.connect(HOST, asked)).close()
            assert not is_unreached(server)

    run(scene())


@contextlib.contextmanager
def _listening_or_skip(address: str) -> Iterator[tuple[socket.socket, int]]:
    try:
        server = listening(address)
        found = server.__enter__()
    except OSError as error:
        pytest.skip(f"nothing can listen at {address} here: {error}")
    with contextlib.ExitStack() as stack:
        stack.push(server)
        yield found


def test_a_staged_name_opens_no_other_name() -> None:
    network = terms(hosts={"staged.example.com": "127.0.0.1"})
    refusal(network, "127.0.0.1")


def test_without_a_network_nothing_is_dialled() -> None:
    network = network_of({"mode": "none", "hosts": {HOST: "127.0.0.1"}})
    with pytest.raises(DialError) as caught:
        run(Dialer(network).connect(HOST, 443))
    assert caught.value.kind is DialFailure.NOT_ALLOWED


def test_a_change_of_the_network_holds_for_names_that_are_remembered() -> None:
    async def scene() -> None:
        with listening() as (_, port):
            dialer = Dialer(terms(**LOOPBACK), resolve=answers("127.0.0.1"))
            (await dialer.connect(HOST, port)).close()
            dialer.network = terms()
            with pytest.raises(DialRefused):
                await dialer.connect(HOST, port)

    run(scene())


def test_the_next_address_is_tried_when_one_refuses() -> None:
    async def scene() -> None:
        with listening("127.0.0.2") as (_, port):
            dialer = Dialer(terms(**LOOPBACK), resolve=answers("127.0.0.1", "127.0.0.2"))
            with await dialer.connect(HOST, port) as sock:
                assert sock.getpeername()[0] == "127.0.0.2"

    run(scene())


def test_an_address_that_keeps_silent_does_not_hold_up_the_others(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(dial, "STAGGER_S", 0.05)

    async def scene() -> None:
        with _silent("127.0.0.1") as port, listening_at("127.0.0.2", port):
            dialer = Dialer(terms(**LOOPBACK), resolve=answers("127.0.0.1", "127.0.0.2"))
            with await dialer.connect(HOST, port) as sock:
                assert sock.getpeername()[0] == "127.0.0.2"
            await asyncio.sleep(0)  # whatever was cancelled ends here, and leaves no socket open

    run(scene())


@pytest.mark.parametrize("addresses", [["127.0.0.1"], ["127.0.0.1", "127.0.0.3"]])
def test_servers_that_keep_silent_time_out(
    monkeypatch: pytest.MonkeyPatch, addresses: list[str]
) -> None:
    monkeypatch.setattr(dial, "STAGGER_S", 0.05)
    monkeypatch.setattr(dial, "DIAL_S", 0.2)

    async def scene() -> None:
        with _silent("0.0.0.0") as port:
            dialer = Dialer(terms(**LOOPBACK), resolve=answers(*addresses))
            with pytest.raises(DialError) as caught:
                await dialer.connect(HOST, port)
            assert caught.value.kind is DialFailure.TIMED_OUT

    run(scene())


@contextlib.contextmanager
def _silent(address: str) -> Iterator[int]:
    """A port whose queue of connections is full: the kernel ignores further ones."""
    with socket.socket() as server, contextlib.ExitStack() as fillers:
        server.bind((address, 0))
        server.listen(0)
        port = server.getsockname()[1]
        for _ in range(2):
            filler = fillers.enter_context(socket.socket())
            filler.setblocking(False)
            filler.connect_ex(("127.0.0.1", port))
        yield port


def test_a_server_that_refuses_is_told_from_a_silent_one() -> None:
    with listening() as (server, port):
        server.close()
        dialer = Dialer(terms(**LOOPBACK), resolve=answers("127.0.0.1", "127.0.0.2"))
        with pytest.raises(DialError) as caught:
            run(dialer.connect(HOST, port))
    assert caught.value.kind is DialFailure.REFUSED
    assert caught.value.why == f"{HOST}:{port} refused the connection"
    assert not caught.value.is_attack


def _raises(error: BaseException) -> Callable[[str], Awaitable[Sequence[str]]]:
    async def resolve(name: str) -> Sequence[str]:
        raise error

    return resolve


@pytest.mark.parametrize(
    ("resolve", "kind"),
    [
        (answers(), DialFailure.NOT_FOUND),
        (_raises(socket.gaierror(socket.EAI_NONAME, "no")), DialFailure.NOT_FOUND),
        (_raises(UnicodeError("label too long")), DialFailure.NOT_FOUND),
        (_raises(socket.gaierror(socket.EAI_AGAIN, "later")), DialFailure.UNREACHABLE),
        (_raises(RuntimeError("a bug")), DialFailure.UNREACHABLE),
        (_raises(lookups.Busy()), DialFailure.BUSY),
    ],
)
def test_a_failed_lookup_says_what_happened(resolve: Any, kind: DialFailure) -> None:
    with pytest.raises(DialError) as caught:
        run(Dialer(terms(), resolve=resolve).connect(HOST, 443))
    assert caught.value.kind is kind


@pytest.mark.parametrize("port", [0, -1, 65536, 1 << 40])
def test_a_number_that_is_no_port_is_refused(port: int) -> None:
    with pytest.raises(DialError) as caught:
        run(Dialer(terms()).connect(HOST, port))
    assert caught.value.kind is DialFailure.NOT_ALLOWED


def test_the_hosts_own_resolver_is_checked_like_any() -> None:
    network = NetworkTerms(allow=(Destination(HostPattern("localhost"), 1, 65535),))
    with pytest.raises(DialRefused):
        run(Dialer(network).connect("localhost", 443))
