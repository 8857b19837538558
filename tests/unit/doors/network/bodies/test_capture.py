"""Of a body that streams by, the journal keeps size and digest, and all of it or its beginning."""

from __future__ import annotations

import asyncio
import base64
import gc
import hashlib
import tracemalloc
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from cases import for_each
from paddock.doors.network.bodies.capture import (
    MAX_ANSWER,
    MAX_KEPT,
    MAX_LONG,
    PIECE_BYTES,
    BodyCapture,
    Room,
)
from paddock.journal.plain_values import StoredBytes


@given(st.lists(st.binary(max_size=40), max_size=8), st.integers(min_value=0, max_value=60))
def test_however_it_is_cut_the_record_is_of_the_whole(parts: list[bytes], most: int) -> None:
    kept, whole = BodyCapture(most), b"".join(parts)
    for part in parts:
        kept.feed(part)
    record = kept.record()
    assert record["bytes"] == len(whole)
    if not whole:
        assert record == {"bytes": 0}
        return
    assert record["sha256"] == hashlib.sha256(whole).hexdigest()
    assert record.get("is_cut", False) is (len(whole) > most)
    shown = record["body"].encode() if "body" in record else base64.b64decode(record["base64"])
    assert shown == whole[:most]


def test_of_a_long_answer_the_digest_says_how_much_it_covers() -> None:
    kept = BodyCapture(4, hashed=6)
    for part in (b"abcd", b"efgh", b"ijkl"):
        kept.feed(part)
    record = kept.record()
    assert record["sha256"] == hashlib.sha256(b"abcdef").hexdigest()
    assert (record["bytes"], record["hashed_bytes"]) == (12, 6)


def test_digest_of_all_of_a_body_needs_no_remark() -> None:
    kept = BodyCapture(4, hashed=8)
    kept.feed(b"abcdefgh")
    record = kept.record()
    assert record["sha256"] == hashlib.sha256(b"abcdefgh").hexdigest()
    assert "hashed_bytes" not in record


class Store:
    """The blobs of a run, in memory."""

    def __init__(self, most: int = 1 << 40) -> None:
        self.pieces: list[bytes] = []
        self._most = most

    def __call__(self, data: bytes) -> StoredBytes:
        stored = StoredBytes("")
        self.pieces.append(data)
        stored.digest, stored.size_bytes = hashlib.sha256(data).hexdigest(), len(data)
        stored.is_kept = sum(map(len, self.pieces)) <= self._most
        return stored


def _fed(
    kept: BodyCapture, size: int, part: int = 50_000, store: Store | None = None
) -> dict[str, Any]:
    whole = (b"0123456789" * (size // 10 + 1))[:size]

    async def feed() -> dict[str, Any]:
        pieces = store or Store()
        for at in range(0, size, part):
            kept.feed(whole[at : at + part])
            if kept.is_due:
                await kept.spill(pieces)
        await kept.store(str, pieces)
        return kept.record()

    return asyncio.run(feed())


def _recorded(kept: BodyCapture) -> dict[str, Any]:
    asyncio.run(kept.store(str, Store()))
    return kept.record()


@for_each("size", [1, MAX_KEPT - 1, MAX_KEPT, MAX_KEPT + 1, MAX_ANSWER - 1, MAX_ANSWER])
@for_each("part", [MAX_KEPT, 40_000])
def test_answers_are_kept_whole_up_to_the_bound(size: int, part: int) -> None:
    record = _fed(BodyCapture(room=Room()), size, part)
    assert "is_cut" not in record
    assert len(str(record["body"])) == size


@for_each("part", [MAX_ANSWER + 1, 40_000, 3_000_000])
def test_a_longer_answer_is_stored_in_pieces_as_it_comes(part: int) -> None:
    store, size = Store(), 2 * MAX_ANSWER + 5
    record = _fed(BodyCapture(room=Room()), size, part, store)
    assert not record.keys() & {"is_cut", "body", "base64"}
    assert len(record["pieces"]) == len(store.pieces) == -(-size // PIECE_BYTES)
    assert record["sha256"] == hashlib.sha256(b"".join(store.pieces)).hexdigest()


def test_a_long_answer_takes_no_more_memory_than_is_held_of_one() -> None:
    kept, block = BodyCapture(room=Room()), b"x" * (64 << 10)

    async def feed() -> int:
        tracemalloc.start()
        for _ in range(1024):  # 64 MiB
            kept.feed(block)
            if kept.is_due:
                await kept.spill(lambda data: Store()(data))
        _, most = tracemalloc.get_traced_memory()
        tracemalloc.stop()
        return most

    assert asyncio.run(feed()) < 3 * MAX_ANSWER


def test_what_the_budget_has_no_room_for_is_cut_and_says_so() -> None:
    record = _fed(BodyCapture(room=Room()), 2 * MAX_ANSWER, store=Store(MAX_ANSWER))
    assert (record["is_cut"], record["cut_by"]) == (True, "budget")
    assert (record["bytes"], len(record["body"])) == (2 * MAX_ANSWER, MAX_KEPT)


def test_what_nobody_spills_does_not_pile_up() -> None:
    kept = BodyCapture(room=Room())
    for _ in range(40):
        kept.feed(b"x" * (1 << 20))
    assert kept.record()["is_cut"] is True


def test_answer_in_single_bytes_takes_no_more_memory_than_its_size() -> None:
    kept = BodyCapture(room=Room())
    tracemalloc.start()
    for _ in range(MAX_KEPT + 1000):
        kept.feed(b"x")
    size, _ = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert size < 2 * MAX_KEPT
    assert len(_recorded(kept)["body"]) == MAX_KEPT + 1000


def test_few_long_answers_are_held_at_once() -> None:
    room = Room()
    held = [BodyCapture(room=room) for _ in range(MAX_LONG + 1)]
    for kept in held:
        kept.feed(b"x" * (MAX_KEPT + 1))
    records = [_recorded(kept) for kept in held]
    assert ["pieces" in record for record in records] == [False] * MAX_LONG + [True]
    assert "body" in _fed(BodyCapture(room=room), MAX_KEPT + 1)


def test_answer_that_became_too_long_makes_room_for_others() -> None:
    room = Room()
    held = [BodyCapture(room=room) for _ in range(MAX_LONG)]
    for kept in held:
        kept.feed(b"x" * MAX_ANSWER)
        kept.feed(b"x")
    assert "body" in _fed(BodyCapture(room=room), MAX_KEPT + 1)


def test_long_answer_that_was_given_up_makes_room_for_another() -> None:
    room = Room()
    for _ in range(3 * MAX_LONG):
        BodyCapture(room=room).feed(b"x" * (MAX_KEPT + 1))
    gc.collect()
    assert "body" in _fed(BodyCapture(room=room), MAX_KEPT + 1)


def test_long_answer_that_was_not_stored_is_cut() -> None:
    kept = BodyCapture(room=Room())
    kept.feed(b"x" * (MAX_KEPT + 1))
    record = kept.record()
    assert (len(record["body"]), record["is_cut"]) == (MAX_KEPT, True)
