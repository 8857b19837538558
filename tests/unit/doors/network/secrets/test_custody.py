"""Values are cut off with their secret, whoever else uses the connection; our words hold none."""

from __future__ import annotations

import asyncio
import threading
from pathlib import Path
from typing import Any

import pytest

from cases import for_each
from paddock.doors.network.exchange import BadMessage
from paddock.doors.network.layers.decoded import decoder_of
from paddock.doors.network.secrets.custody import Custody
from paddock.state.home import Home
from paddock.state.revocations import revoke
from unit.doors.network.keepers import make_keeper, terms_of


class _Line:
    """A connection, as far as it can be cut."""

    is_cut = False

    def abort(self) -> None:
        self.is_cut = True


def test_a_request_that_ends_takes_nothing_from_others_on_its_connection(tmp_path: Path) -> None:
    custody = Custody(make_keeper(tmp_path, terms_of("KEY"), terms_of("OTHER")))
    line: Any = _Line()
    custody.carries(line, ("KEY",))
    custody.carries(line, ("OTHER",))
    custody.forget(line, ("OTHER",))
    custody.carries(line, ())
    custody.forget(line, ())
    custody.cut("KEY")
    assert line.is_cut


def test_a_connection_is_forgotten_with_the_last_request_on_it(tmp_path: Path) -> None:
    custody = Custody(make_keeper(tmp_path, terms_of("KEY")))
    line: Any = _Line()
    for _ in range(2):
        custody.carries(line, ("KEY",))
    custody.forget(line, ("KEY",))
    custody.forget(line, ("KEY",))
    custody.cut("KEY")
    assert not line.is_cut


def test_what_is_revoked_is_known_at_once(tmp_path: Path) -> None:
    custody = Custody(make_keeper(tmp_path, terms_of("KEY")))
    assert not custody.is_revoked("KEY")
    revoke(Home(tmp_path / "home"), "KEY")
    assert custody.is_revoked("KEY")


def test_a_compression_that_is_none_is_not_repeated_to_the_agent() -> None:
    headers = [(b"content-encoding", b"sk_live_2f9c1d7ab3e4")]
    with pytest.raises(BadMessage) as caught:
        decoder_of(headers)
    assert "sk_live" not in str(caught.value)


@for_each("name", [b"grpc-encoding", b"Connect-Content-Encoding"])
def test_messages_that_are_compressed_by_themselves_are_refused(name: bytes) -> None:
    """As those of gRPC and Connect are, while the body as a whole is not."""
    for coding in (b"gzip", b"identity, gzip"):
        with pytest.raises(BadMessage):
            decoder_of([(name, coding)])
    decoder_of([(name, b"Identity")])


@pytest.mark.parametrize(
    ("data", "is_light"), [(b"x" * 10_000, True), (b"%5c" * 1000, False), (b"x" * 20_000, False)]
)
def test_a_search_leaves_the_loop_where_it_takes_long(
    tmp_path: Path, data: bytes, *, is_light: bool
) -> None:
    """Data that are long or have many escapes: many connections could each bring a piece in the
    same turn of the loop."""
    threads: list[int] = []

    def search(data: bytes) -> bytes:
        threads.append(threading.get_ident())
        return data

    work = Custody(make_keeper(tmp_path, terms_of("KEY"))).work
    assert asyncio.run(work.search(search, data)) == data
    assert (threads == [threading.get_ident()]) == is_light
