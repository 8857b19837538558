"""Large values beside the journal: set aside, restored, checked on the way back."""

from __future__ import annotations

from hashlib import sha256
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from paddock.journal.blobs import LARGE_BYTES, PREVIEW_BYTES, Blobs
from paddock.journal.reader import Reader
from paddock.journal.records import Record, Type
from paddock.model.errors import IntegrityError, InvalidInput, NotFound
from unit.journal.conftest import Opener

LARGE = "ä" * LARGE_BYTES


def _written(opener: Opener, body: dict[str, Any], name: str = "run") -> tuple[Reader, Record]:
    journal = opener(name)
    n = journal.append(Type.NOTED, body)
    reader = Reader(journal.directory)
    return reader, next(record for record in reader.records() if record.n == n)


def test_large_text_becomes_a_blob_and_its_preview_stays(opener: Opener) -> None:
    reader, record = _written(opener, {"output": LARGE, "code": 0})
    (ref,) = record.blobs
    data = LARGE.encode()
    assert (ref.path, ref.sha256, ref.size_bytes) == (
        "/output",
        sha256(data).hexdigest(),
        len(data),
    )
    assert record.body == {"output": LARGE[: PREVIEW_BYTES // 2], "code": 0}
    assert reader.body(record) == {"output": LARGE, "code": 0}


def test_text_of_the_limit_stays_in_the_record(opener: Opener) -> None:
    _, record = _written(opener, {"output": "x" * LARGE_BYTES})
    assert record.blobs == ()
    assert record.body == {"output": "x" * LARGE_BYTES}


def test_equal_values_are_stored_once(opener: Opener) -> None:
    reader, record = _written(opener, {"a": LARGE, "b": [LARGE, {"c/d~e": LARGE}]})
    assert len(record.blobs) == 3
    assert len({ref.sha256 for ref in record.blobs}) == 1
    assert len(list(Blobs(reader.directory).digests())) == 1
    assert reader.body(record) == {"a": LARGE, "b": [LARGE, {"c/d~e": LARGE}]}


def test_many_small_values_are_set_aside_together(opener: Opener) -> None:
    body = {"rows": [{"id": n, "name": f"name {n}"} for n in range(5000)], "kind": "tool"}
    reader, record = _written(opener, body)
    assert [ref.form for ref in record.blobs] == ["json"]
    assert record.body["kind"] == "tool"
    assert reader.body(record) == body


def test_large_text_within_a_value_that_is_set_aside_comes_back(opener: Opener) -> None:
    body = {"rows": [{"id": n, "name": f"name {n}"} for n in range(5000)] + [LARGE]}
    reader, record = _written(opener, body)
    assert sorted(ref.form for ref in record.blobs) == ["json", "text"]
    assert reader.body(record) == body


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(
    st.recursive(
        st.text(max_size=5) | st.just(LARGE) | st.integers(0, 9),
        lambda inner: (
            st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=3), inner, max_size=3)
        ),
        max_leaves=6,
    )
)
def test_whatever_is_set_aside_comes_back(opener: Opener, value: Any) -> None:
    global _count
    _count += 1
    reader, record = _written(opener, {"value": value}, f"run-{_count}")
    assert reader.body(record) == {"value": value}


_count = 0


def test_body_that_is_too_long_even_without_its_large_values_is_refused(opener: Opener) -> None:
    journal = opener()
    with pytest.raises(InvalidInput, match="more than"):
        journal.append(Type.NOTED, {f"key {n}": "x" * 1000 for n in range(2000)})
    assert not journal.is_broken


def test_blob_that_is_gone_or_changed_is_not_read(opener: Opener) -> None:
    reader, record = _written(opener, {"output": LARGE})
    (path,) = (path for path in (reader.directory / "blobs").rglob("*") if path.is_file())
    path.write_bytes(path.read_bytes()[:-1] + b"!")
    with pytest.raises(IntegrityError, match="changed"):
        reader.body(record)
    path.unlink()
    with pytest.raises(NotFound, match="missing"):
        reader.body(record)
    path.symlink_to("/etc/hostname")
    with pytest.raises(IntegrityError, match="unreadable"):
        reader.body(record)


@pytest.mark.parametrize("digest", ["", "../../etc/passwd", "a" * 63, "/" * 64, "." * 64])
def test_name_that_is_no_digest_reaches_no_file(tmp_path: Path, digest: str) -> None:
    with pytest.raises(IntegrityError, match="not the digest"):
        Blobs(tmp_path).read(digest)


def test_reading_is_bounded(tmp_path: Path) -> None:
    blobs = Blobs(tmp_path)
    digest, _ = blobs.put(b"x" * 1000)
    blobs.flush()
    assert blobs.read(digest, limit=1000) == b"x" * 1000
    with pytest.raises(IntegrityError, match="larger than"):
        blobs.read(digest, limit=999)


def test_agents_own_words_about_blobs_are_only_words(opener: Opener) -> None:
    body = {"blobs": [{"form": "text", "path": "/x", "sha256": "0" * 64, "size_bytes": 1}]}
    reader, record = _written(opener, body)
    assert record.blobs == ()
    assert reader.body(record) == body
