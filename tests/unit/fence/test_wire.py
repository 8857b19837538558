"""The frames and their payloads: what goes in comes out, and bad bytes are refused, no more."""

from __future__ import annotations

import contextlib
import itertools
import math
import tracemalloc
from typing import Any

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from paddock.fence.guest import wire
from paddock.fence.guest.wire import FrameDecoder, WireError, pack, unpack, unpack_map

# Names and arguments are bytes on Linux; they arrive as text with escaped surrogates.
texts = st.binary(max_size=300).map(lambda raw: raw.decode("utf-8", "surrogateescape"))
scalars = (
    st.none()
    | st.booleans()
    | st.integers(min_value=-(1 << 63), max_value=(1 << 64) - 1)
    | st.floats(allow_nan=False)
    | texts
    | st.text()
    | st.binary(max_size=300)
)
values = st.recursive(
    scalars,
    lambda inner: st.lists(inner, max_size=20) | st.dictionaries(texts, inner, max_size=20),
    max_leaves=12,
)
frames = st.lists(
    st.tuples(
        st.integers(min_value=wire.OPEN, max_value=wire.CLOSE),
        st.integers(min_value=0, max_value=255),
        st.integers(min_value=0, max_value=(1 << 32) - 1),
        st.binary(max_size=200),
    ),
    max_size=8,
)
Frame = tuple[int, int, int, bytes]


def encoded(sent: list[Frame]) -> bytes:
    return b"".join(wire.header(k, number, p, port) + p for k, port, number, p in sent)


def cut(data: bytes, places: list[int]) -> list[bytes]:
    at = sorted({0, len(data), *(place % (len(data) + 1) for place in places)})
    return [data[a:b] for a, b in itertools.pairwise(at)]


# ---- payloads ------------------------------------------------------------------------------------


@given(values)
@example("x" * 31)
@example("x" * 32)
@example(list(range(15)))
@example(list(range(16)))
@example([127, 128, -1, -(1 << 63), (1 << 64) - 1])
@example("\udcff")
def test_value_that_was_packed_unpacks_to_itself(value: Any) -> None:
    assert unpack(pack(value)) == value


@pytest.mark.parametrize(
    "value",
    [
        "x" * 65535,
        "x" * 65536,
        b"x" * 65536,
        [0] * 65536,
        {str(n): n for n in range(65536)},
        ["\u00e0" * 60_000] * 4,
        bytes(1 << 20),
    ],
    ids=["text", "long text", "bytes", "list", "map", "accents", "zeros"],
)
def test_large_value_that_was_packed_unpacks_to_itself(value: Any) -> None:
    assert unpack(pack(value)) == value


@given(values)
def test_payload_may_lie_in_any_kind_of_buffer(value: Any) -> None:
    raw = pack(value)
    assert unpack(bytearray(raw)) == unpack(memoryview(raw)) == value


def test_types_that_compare_equal_are_kept_apart() -> None:
    out = unpack(pack([True, 1, 1.0, b"a", "a"]))
    assert [type(item) for item in out] == [bool, int, float, bytes, str]
    assert math.isnan(unpack(pack(math.nan)))
    assert math.copysign(1, unpack(pack(-0.0))) == -1


def test_pair_arrives_as_a_list() -> None:
    assert unpack(pack((1, 2))) == [1, 2]


@given(st.binary(max_size=400))
@example(b"")
@example(b"\x81\x90\x01")  # a list as a key
@example(b"\x81\x80\x01")  # a map as a key
@example(b"\xdd\xff\xff\xff\xff")  # four thousand million items, none of them there
@example(b"\xdf\xff\xff\xff\xff")
@example(b"\xdb\xff\xff\xff\xffabc")
@example(b"\xc6\xff\xff\xff\xffabc")
@example(b"\xc1")
@example(b"\xd9")
@example(b"\x91" * 400)
@example(b"\x81\x01" * 200)
def test_any_bytes_are_a_value_or_a_wire_error(data: bytes) -> None:
    for read in (unpack, unpack_map):
        try:
            read(data)
        except WireError as error:
            assert str(error)


@given(values, st.binary(min_size=1, max_size=10))
def test_tail_behind_a_value_is_refused(value: Any, tail: bytes) -> None:
    with pytest.raises(WireError):
        unpack(pack(value) + tail)


@given(values.filter(lambda v: not isinstance(v, dict)))
def test_request_that_is_no_map_is_refused(value: Any) -> None:
    with pytest.raises(WireError, match="not a map"):
        unpack_map(pack(value))


@given(values.filter(lambda v: len(pack(v)) > 1), st.data())
def test_value_that_is_cut_short_is_refused(value: Any, data: st.DataObject) -> None:
    raw = pack(value)
    size = data.draw(st.integers(min_value=0, max_value=len(raw) - 1))
    with pytest.raises(WireError):
        unpack(raw[:size])


@pytest.mark.parametrize("value", [1 << 64, -(1 << 63) - 1, object(), {1, 2}, 1j, bytearray(b"x")])
def test_value_that_has_no_form_on_the_wire_is_refused(value: Any) -> None:
    with pytest.raises(WireError):
        pack(value)


def test_nesting_is_bounded_in_both_directions() -> None:
    deep: Any = None
    for _ in range(wire.MAX_DEPTH):
        deep = [deep]
    assert unpack(pack(deep)) == deep
    with pytest.raises(WireError, match="deep"):
        pack([deep])
    with pytest.raises(WireError, match="deep"):
        unpack(b"\x91" * (wire.MAX_DEPTH + 1) + b"\xc0")


def test_false_count_reserves_no_memory() -> None:
    tracemalloc.start()
    try:
        for head in (b"\xdd", b"\xdf", b"\xdb", b"\xc6"):
            with pytest.raises(WireError):
                unpack(head + b"\xff\xff\xff\xff")
        assert tracemalloc.get_traced_memory()[1] < 1 << 20
    finally:
        tracemalloc.stop()


def test_largest_message_of_empty_items_does_not_take_far_more_memory_than_its_bytes() -> None:
    size = wire.MAX_PAYLOAD - 5
    raw = b"\xdd" + size.to_bytes(4, "big") + b"\x80" * size
    tracemalloc.start()
    try:
        with contextlib.suppress(WireError):
            unpack(raw)
        assert tracemalloc.get_traced_memory()[1] < 16 * size
    finally:
        tracemalloc.stop()


# ---- frames --------------------------------------------------------------------------------------


@given(frames, st.lists(st.integers(min_value=0, max_value=5000), max_size=30))
def test_frames_are_the_same_however_the_bytes_were_split(
    sent: list[Frame], places: list[int]
) -> None:
    decoder = FrameDecoder()
    got = [frame for piece in cut(encoded(sent), places) for frame in decoder.feed(piece)]
    assert got == sent


@given(frames)
def test_frames_are_the_same_when_they_come_byte_by_byte(sent: list[Frame]) -> None:
    decoder = FrameDecoder()
    got = [frame for byte in encoded(sent) for frame in decoder.feed(bytes((byte,)))]
    assert got == sent


@given(st.binary(max_size=400), st.lists(st.integers(min_value=0, max_value=400), max_size=5))
def test_any_bytes_are_frames_or_a_wire_error(data: bytes, places: list[int]) -> None:
    decoder = FrameDecoder()
    try:
        for piece in cut(data, places):
            for kind, _, _, payload in decoder.feed(piece):
                assert wire.OPEN <= kind <= wire.CLOSE
                assert len(payload) <= wire.MAX_PAYLOAD
            decoder.take_partial(1)
    except WireError as error:
        assert str(error).startswith("bad frame")


@pytest.mark.parametrize("kind", [0, wire.CLOSE + 1, 255])
def test_unknown_kind_of_frame_is_refused_on_its_header_alone(kind: int) -> None:
    with pytest.raises(WireError, match=f"kind {kind}"):
        FrameDecoder().feed(wire.HEADER.pack(0, kind, 0, 1))


@pytest.mark.parametrize("size", [wire.MAX_PAYLOAD + 1, (1 << 32) - 1])
def test_oversized_frame_is_refused_on_its_header_alone(size: int) -> None:
    with pytest.raises(WireError, match=str(size)):
        FrameDecoder().feed(wire.HEADER.pack(size, wire.DATA, 0, 1))


def test_oversized_frame_cannot_be_sent_either() -> None:
    with pytest.raises(WireError, match="over the limit"):
        wire.header(wire.DATA, 1, bytes(wire.MAX_PAYLOAD + 1))
    assert wire.header(wire.DATA, 1, bytes(wire.MAX_PAYLOAD))


def test_largest_frame_passes() -> None:
    payload = bytes(wire.MAX_PAYLOAD)
    assert FrameDecoder().feed(encoded([(wire.DATA, 0, 1, payload)])) == [
        (wire.DATA, 0, 1, payload)
    ]


def test_frames_before_a_bad_one_are_not_handed_out() -> None:
    good = encoded([(wire.EOF, 0, 1, b"")])
    with pytest.raises(WireError):
        FrameDecoder().feed(good + wire.HEADER.pack(0, 99, 0, 1))


def test_decoder_does_not_keep_the_buffer_that_it_was_fed_from() -> None:
    buffer = bytearray(encoded([(wire.DATA, 1, 1, b"abc")]))
    decoder = FrameDecoder()
    got = decoder.feed(memoryview(buffer))
    buffer[:] = bytes(len(buffer))
    assert got == [(wire.DATA, 1, 1, b"abc")]


# ---- large frames under way ----------------------------------------------------------------------


@given(
    st.binary(min_size=1, max_size=500),
    st.integers(min_value=0, max_value=499),
    st.integers(min_value=1, max_value=500),
)
def test_frame_under_way_can_be_filled_in_place(payload: bytes, given_: int, least: int) -> None:
    raw = encoded([(wire.DATA, 2, 7, payload)])
    first = raw[: wire.HEADER_BYTES + min(given_, len(payload) - 1)]
    decoder = FrameDecoder()
    assert decoder.feed(first) == []
    taken = decoder.take_partial(least)
    if len(payload) < least:
        assert taken is None
        assert decoder.feed(raw[len(first) :]) == [(wire.DATA, 2, 7, payload)]
        return
    kind, port, stream, room, filled = taken
    assert (kind, port, stream, len(room)) == (wire.DATA, 2, 7, len(payload))
    room[filled:] = raw[len(first) :]
    assert bytes(room) == payload
    # It is the taker's now: what comes next is a frame of its own.
    assert decoder.feed(encoded([(wire.EOF, 0, 7, b"")])) == [(wire.EOF, 0, 7, b"")]


def test_header_that_is_not_whole_yet_cannot_be_taken() -> None:
    decoder = FrameDecoder()
    for byte in wire.HEADER.pack(1000, wire.DATA, 0, 1)[:-1]:
        decoder.feed(bytes((byte,)))
        assert decoder.take_partial(1) is None


def test_nothing_can_be_taken_between_two_frames() -> None:
    decoder = FrameDecoder()
    decoder.feed(encoded([(wire.DATA, 0, 1, b"x" * 100)]))
    assert decoder.take_partial(1) is None
