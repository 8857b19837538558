"""Netlink messages: what is built is what the kernel reads, and what is read is bounded."""

from __future__ import annotations

import errno
import os
import socket
import struct

import pytest
from hypothesis import given
from hypothesis import strategies as st

from paddock.fence.container.network import netlink
from paddock.fence.container.network.netlink import NetlinkAnswer, NetlinkMessage

_GET_LINK, _NEW_LINK = 18, 16
_NAME = 3


def test_attribute_says_its_length_without_the_padding_that_follows() -> None:
    assert netlink.attribute(7, b"abcde") == struct.pack("=HH", 9, 7) + b"abcde\0\0\0"


def test_nested_attribute_is_marked_and_holds_the_others() -> None:
    inner = netlink.be32(1, 5)
    assert netlink.nested(2, inner) == struct.pack("=HH", 12, 0x8002) + inner


@given(st.dictionaries(st.integers(1, 0x3FFF), st.binary(max_size=40), max_size=8))
def test_attributes_are_read_as_they_were_written(wanted: dict[int, bytes]) -> None:
    data = b"".join(netlink.attribute(kind, value) for kind, value in wanted.items())
    assert netlink.attributes(data) == wanted


@given(st.binary(max_size=300))
def test_reading_attributes_never_fails_and_never_gives_more_than_there_is(data: bytes) -> None:
    assert sum(map(len, netlink.attributes(data).values())) <= len(data)


@given(st.binary(max_size=300))
def test_reading_messages_never_fails_and_never_gives_more_than_there_is(data: bytes) -> None:
    assert sum(len(answer.body) for answer in netlink.answers(data)) <= len(data)


def test_messages_are_read_as_they_were_written() -> None:
    sent = {7: NetlinkMessage("a", 16, b"abcd"), 9: NetlinkMessage("b", 17, b"xyz")}
    data = netlink.packed(sent) + b"\0"
    assert list(netlink.answers(data)) == [
        NetlinkAnswer(16, 7, b"abcd"),
        NetlinkAnswer(17, 9, b"xyz"),
    ]


@pytest.fixture
def route() -> socket.socket:
    return socket.socket(socket.AF_NETLINK, socket.SOCK_RAW, 0)


def _link(index: int) -> NetlinkMessage:
    body = struct.pack("=BxHiII", 0, 0, index, 0, 0)
    return NetlinkMessage("a look at an interface", _GET_LINK, body)


def test_kernel_answers_an_exchange(route: socket.socket) -> None:
    with route:
        [answer] = netlink.exchange(route, [_link(1)])
    assert answer.kind == _NEW_LINK
    assert netlink.attributes(answer.body[16:])[_NAME] == b"lo\0"


def test_refusal_says_which_message_and_why(route: socket.socket) -> None:
    with route, pytest.raises(netlink.NetlinkRefused, match="a look at an interface") as caught:
        netlink.exchange(route, [_link(1), _link(0x7FFFFFFF)])
    assert caught.value.errno == errno.ENODEV
    assert os.strerror(errno.ENODEV) in str(caught.value)


def test_answers_that_are_left_over_are_not_taken_for_those_of_the_next_exchange(
    route: socket.socket,
) -> None:
    with route:
        with pytest.raises(netlink.NetlinkRefused):
            netlink.exchange(route, [_link(0x7FFFFFFF), _link(1)])
        answers = netlink.exchange(route, [_link(1)])
    assert len(answers) == 1


def test_kernel_that_says_nothing_is_given_up(
    route: socket.socket, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(netlink, "_ANSWER_S", 0.05)
    ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    with route, ours, theirs, pytest.raises(TimeoutError):
        netlink.exchange(ours, [_link(1)])
