"""The network figures: that the load counts what it asks for, and the server gives it. How fast
anything is, no test asks.
"""

from __future__ import annotations

import json
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from bench.main import MEASUREMENTS
from bench.network import rig
from bench.network.rig import Route, Server, open_server
from paddock.model.errors import HostCannot

SIZE = 1024


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    with open_server(tmp_path_factory.mktemp("origin")) as running:
        yield running


@pytest.fixture
def direct(server: Server) -> Route:
    return Route("direct", "127.0.0.1", server.ports, rig._outside)


@pytest.mark.parametrize("is_tls", [False, True])
def test_kept_connections_are_all_answered(direct: Route, is_tls: bool) -> None:
    told = direct.load("kept", is_tls=is_tls, connections=3, seconds=0.2, path="/a/@", size=SIZE)
    assert told["requests"] >= 3
    assert 0 < told["p50_s"] <= told["p99_s"]


def test_every_new_connection_is_a_handshake_and_an_answer(direct: Route) -> None:
    told = direct.load("fresh", is_tls=True, processes=2, seconds=0.3, path="/", size=SIZE)
    assert told["requests"] >= 2


@pytest.mark.parametrize("is_tls", [False, True])
def test_download_has_every_byte(direct: Route, is_tls: bool) -> None:
    size = (1 << 20) + 1
    told = direct.load("download", is_tls=is_tls, path=f"/bytes/{size}", size=size)
    assert told["bytes"] == size


def test_an_answer_of_another_size_is_an_error_and_no_figure(direct: Route) -> None:
    with pytest.raises(HostCannot, match="more came than was asked for"):
        direct.load("kept", is_tls=False, connections=1, seconds=0.2, path="/", size=10)


def test_a_proxy_that_refuses_is_an_error_and_no_figure(server: Server) -> None:
    nobody = Route("x", "127.0.0.1", server.ports, rig._outside, ("127.0.0.1", rig._free_port()))
    with pytest.raises(HostCannot, match="the load failed"):
        nobody.load("kept", is_tls=False, connections=1, seconds=0.2, path="/", size=SIZE)


def test_proxied_requests_name_the_whole_address_and_tunnels_do_not(server: Server) -> None:
    proxied = Route("x", "h", server.ports, rig._outside, ("p", 1))
    told: dict[str, Any] = json.loads(proxied.argv("kept", is_tls=False, path="/")[0])
    assert told["way"] == {"host": "h", "port": server.ports[0], "tls": False, "proxy": ["p", 1]}


def test_without_mitmdump_the_reason_is_said(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, server: Server
) -> None:
    monkeypatch.delenv(rig.MITMDUMP, raising=False)
    monkeypatch.setattr(shutil, "which", lambda _: None)
    peer, why = rig._peer(rig.contextlib.ExitStack(), tmp_path, server)  # type: ignore[attr-defined]
    assert peer is None
    assert "mitmdump is not installed" in why


def test_all_network_figures_can_be_asked_for_by_name() -> None:
    assert {"network", "network-memory", "network-start", "fuzz"} <= set(MEASUREMENTS)
