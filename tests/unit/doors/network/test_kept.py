"""Of a body that streams by, the journal keeps its size, its digest and its beginning."""

from __future__ import annotations

import base64
import hashlib

from hypothesis import given
from hypothesis import strategies as st

from paddock.doors.network.kept import Kept


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
