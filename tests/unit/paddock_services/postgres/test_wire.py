"""The beginning of a session: read with care, and never the client's choice of user or database."""

from __future__ import annotations

import struct

import pytest
from hypothesis import given
from hypothesis import strategies as st

from paddock_services.postgres import wire


def session(*words: str) -> wire.Startup:
    return wire.Startup(3 << 16, b"".join(word.encode() + b"\0" for word in words) + b"\0")


def test_user_database_and_replication_are_ours() -> None:
    asked = session("user", "boss", "database", "prod", "replication", "true", "TimeZone", "UTC")
    made = wire.rewrite_startup(asked, "mine", "mine")
    assert made == wire.startup_message(
        {"user": "mine", "database": "mine"}, 3 << 16, [(b"TimeZone", b"UTC")]
    )


@pytest.mark.parametrize("name", ["USER", "Database", "rePlication"])
def test_another_spelling_is_no_way_around(name: str) -> None:
    assert b"boss" not in wire.rewrite_startup(session(name, "boss"), "mine", "mine")


@pytest.mark.parametrize("body", [b"", b"user", b"user\0boss", b"user\0\0", b"user\0boss\0"])
def test_parameters_that_do_not_end_are_refused(body: bytes) -> None:
    with pytest.raises(wire.BadMessage):
        wire.rewrite_startup(wire.Startup(3 << 16, body), "mine", "mine")


@pytest.mark.parametrize("length", [0, 4, 7, 10_005, 0xFFFFFFFF])
def test_a_length_that_no_beginning_has_is_refused(length: int) -> None:
    with pytest.raises(wire.BadMessage):
        wire.startup_length(struct.pack("!I", length))


@given(st.binary(max_size=300))
def test_whatever_comes_is_ours_or_refused(body: bytes) -> None:
    try:
        made = wire.rewrite_startup(wire.Startup(3 << 16, body), "mine", "mine")
    except wire.BadMessage:
        return
    again = wire.parse_startup(made[4:])
    words = again.body[:-1].split(b"\0")[:-1]
    pairs = list(zip(words[::2], words[1::2], strict=True))
    for name in (b"user", b"database"):
        assert [value for key, value in pairs if key.lower() == name] == [b"mine"]
