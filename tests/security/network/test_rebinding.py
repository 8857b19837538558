"""An allowed name that leads to where it must not: this machine, its network, its cloud."""

from __future__ import annotations

import socket
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import pytest

from paddock import Sandbox
from paddock.doors.network.names import resolver as lookups
from security.network.conftest import Hosts
from security.network.inside import PROXY, alerts, get, say, status, steps
from security.network.origins import Origin, careless

PLACES = ["127.0.0.1", "127.8.8.8", "0.0.0.0", "::1", "::ffff:127.0.0.1", "169.254.169.254",
          "10.0.0.1", "192.168.1.1", "172.16.0.1", "100.64.0.1", "fd00::1", "fe80::1",
          "64:ff9b::7f00:1", "2002:7f00:1::", "224.0.0.1", "255.255.255.255",
          "198.18.0.1"]  # fmt: skip


@pytest.fixture
def service() -> Iterator[Origin]:
    with careless() as origin:
        yield origin


@contextmanager
def resolving(answer: Callable[[str], list[str]]) -> Iterator[None]:
    """The host's own resolver, as an attacker who owns the name would have it answer."""

    def look_up(name: str, port: object, *_: Any, **__: Any) -> list[Any]:
        return [
            (socket.AF_INET6 if ":" in one else socket.AF_INET, socket.SOCK_STREAM, 6, "", (one, 0))
            for one in answer(name)
        ]

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(lookups.socket, "getaddrinfo", look_up)
        patch.setattr(lookups, "CACHE_S", 0.0)
        yield


def test_a_name_that_leads_inside_is_refused_and_told(hosts: Hosts, service: Origin) -> None:
    port = int(service.place.rpartition(":")[2])
    network = {"allow": [f"*.rebound.example:{port}", f"*.raw.rebound.example:{port}/tcp"]}
    answers = {f"p{number}.rebound.example": place for number, place in enumerate(PLACES)}
    with (
        resolving(lambda name: [answers.get(name, "127.0.0.1")]),
        Sandbox.create(network=network) as box,
    ):
        for host in answers:
            answer = say(box, host=host, port=port, data=get("/", f"{host}:{port}"))
            assert (host, status(answer)) == (host, 403)
        by_proxy = get(f"http://p0.rebound.example:{port}/", f"p0.rebound.example:{port}")
        assert status(say(box, host=PROXY[0], port=PROXY[1], data=by_proxy)) == 403
        raw = say(box, host="a.raw.rebound.example", port=port, data=b"hello")
        assert raw in (b"", b"<cut>") or raw.startswith(b"!")
        told = {about["host"] for about in alerts(box, "egress.rebinding")}
        assert set(answers) <= told
        assert "a.raw.rebound.example" in told
        assert steps(box, "http", "connect")
    assert service.asked == []
    assert bytes(service.heard) == b""


def test_an_answer_that_changes_between_two_lookups_gains_nothing(service: Origin) -> None:
    """What was judged is what is dialled: the name is not asked for twice."""
    port = int(service.place.rpartition(":")[2])
    asked: list[str] = []

    def turning(name: str) -> list[str]:
        asked.append(name)
        return ["192.0.2.1"] if len(asked) % 2 else ["127.0.0.1"]

    with resolving(turning), Sandbox.create(network={"allow": [f"turn.example:{port}"]}) as box:
        for _ in range(4):
            answer = say(box, host="turn.example", port=port, data=get("/", f"turn.example:{port}"))
            assert status(answer) == 403
    assert len(asked) == 4
    assert service.asked == []


def test_one_bad_address_among_good_ones_is_not_dialled(service: Origin) -> None:
    port = int(service.place.rpartition(":")[2])
    mixed = ["127.0.0.1", "::1", "169.254.169.254"]
    with (
        resolving(lambda name: mixed),
        Sandbox.create(network={"allow": [f"m.example:{port}"]}) as box,
    ):
        answer = say(box, host="m.example", port=port, data=get("/", f"m.example:{port}"))
        assert status(answer) == 403
        assert b"127.0.0.1" not in answer  # the agent does not get a map of the host's network
    assert service.asked == []
