"""Of a body that streams by, the journal keeps size and digest, and all of it or its beginning."""

from __future__ import annotations

import asyncio
import base64
import gc
import hashlib
import tracemalloc
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from paddock.doors.network.kept import MAX_ANSWER, MAX_KEPT, MAX_LONG, Kept, Room


@given(st.lists(st.binary(max_size=40), max_size=8), st.integers(min_value=0, max_value=60))
def test_however_it_is_cut_the_record_is_of_the_whole(parts: list[bytes], most: int) -> None:
    kept, whole = Kept(most), b"".join(parts)
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
    kept = Kept(4, hashed=6)
    for part in (b"abcd", b"efgh", b"ijkl"):
        kept.feed(part)
    record = kept.record()
    assert record["sha256"] == hashlib.sha256(b"abcdef").hexdigest()
    assert (record["bytes"], record["hashed_bytes"]) == (12, 6)


def test_digest_of_all_of_a_body_needs_no_remark() -> None:
    kept = Kept(4, hashed=8)
    kept.feed(b"abcdefgh")
    record = kept.record()
    assert record["sha256"] == hashlib.sha256(b"abcdefgh").hexdigest()
    assert "hashed_bytes" not in record


def _fed(kept: Kept, size: int, part: int = 50_000) -> dict[str, Any]:
    whole = (b"0123456789" * (size // 10 + 1))[:size]
    for at in range(0, size, part):
        kept.feed(whole[at : at + part])
    return _recorded(kept)


def _recorded(kept: Kept) -> dict[str, Any]:
    asyncio.run(kept.store(str))
    return kept.record()


@pytest.mark.parametrize(
    "size", [1, MAX_KEPT - 1, MAX_KEPT, MAX_KEPT + 1, MAX_ANSWER - 1, MAX_ANSWER]
)
@pytest.mark.parametrize("part", [MAX_KEPT, 40_000])
def test_answers_are_kept_whole_up_to_the_bound(size: int, part: int) -> None:
    record = _fed(Kept(room=Room()), size, part)
    assert "is_cut" not in record
    assert len(str(record["body"])) == size


@pytest.mark.parametrize("part", [MAX_ANSWER + 1, MAX_KEPT, 40_000, 1_000])
def test_of_a_longer_answer_only_the_beginning_is_kept(part: int) -> None:
    record = _fed(Kept(room=Room()), MAX_ANSWER + 1, part)
    assert record["is_cut"] is True
    assert len(str(record["body"])) == MAX_KEPT


def test_answer_in_single_bytes_takes_no_more_memory_than_its_size() -> None:
    kept = Kept(room=Room())
    tracemalloc.start()
    for _ in range(MAX_KEPT + 1000):
        kept.feed(b"x")
    size, _ = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert size < 2 * MAX_KEPT
    assert len(_recorded(kept)["body"]) == MAX_KEPT + 1000


def test_when_a_run_has_no_more_room_the_digest_must_do() -> None:
    room = Room(100)
    first, second, third = (_fed(Kept(room=room), size) for size in (60, 60, 40))
    assert "is_cut" not in first
    assert (second["body"], second["is_cut"], second["bytes"]) == ("", True, 60)
    assert second["sha256"] == first["sha256"]
    assert "is_cut" not in third


def test_few_long_answers_are_held_at_once() -> None:
    room = Room()
    held = [Kept(room=room) for _ in range(MAX_LONG + 1)]
    for kept in held:
        kept.feed(b"x" * (MAX_KEPT + 1))
    records = [_recorded(kept) for kept in held]
    assert [record.get("is_cut", False) for record in records] == [False] * MAX_LONG + [True]
    assert "is_cut" not in _fed(Kept(room=room), MAX_KEPT + 1)


def test_answer_that_became_too_long_makes_room_for_others() -> None:
    room = Room()
    held = [Kept(room=room) for _ in range(MAX_LONG)]
    for kept in held:
        kept.feed(b"x" * MAX_ANSWER)
        kept.feed(b"x")
    assert "is_cut" not in _fed(Kept(room=room), MAX_KEPT + 1)


def test_long_answer_that_was_given_up_makes_room_for_another() -> None:
    room = Room()
    for _ in range(3 * MAX_LONG):
        Kept(room=room).feed(b"x" * (MAX_KEPT + 1))
    gc.collect()
    assert "is_cut" not in _fed(Kept(room=room), MAX_KEPT + 1)


def test_long_answer_that_was_not_stored_is_cut() -> None:
    kept = Kept(room=Room())
    kept.feed(b"x" * (MAX_KEPT + 1))
    record = kept.record()
    assert (len(record["body"]), record["is_cut"]) == (MAX_KEPT, True)
