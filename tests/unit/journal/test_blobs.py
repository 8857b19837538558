"""Large values beside the journal: set aside, restored, checked on the way back."""

from __future__ import annotations

from hashlib import sha256
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from paddock.journal.blobs import DIRECTORY, LARGE_BYTES, PREVIEW_BYTES, Blobs, set_aside
from paddock.journal.canonical import canonical_text
from paddock.journal.log import RunLog
from paddock.model.errors import IntegrityError, InvalidInput, NotFound
from paddock.model.events import AnyEvent, Marked, MemoryChanged, Record
from unit.journal.conftest import Opener

LARGE = "ä" * LARGE_BYTES


def _written(opener: Opener, event: AnyEvent, name: str = "run") -> tuple[RunLog, Record]:
    journal = opener(name)
    n = journal.append(event)
    log = RunLog(journal.directory)
    return log, next(record for record in log.events() if record.n == n)


def test_large_text_becomes_a_blob_and_its_preview_stays(opener: Opener) -> None:
    log, record = _written(opener, Marked(LARGE, {"code": 0}))
    (ref,) = record.blobs
    data = LARGE.encode()
    assert (ref.path, ref.sha256, ref.size_bytes) == (
        "/text",
        sha256(data).hexdigest(),
        len(data),
    )
    assert record.event == Marked(LARGE[: PREVIEW_BYTES // 2], {"code": 0})
    assert log.whole(record).event == Marked(LARGE, {"code": 0})


def test_text_of_the_limit_stays_in_the_record(opener: Opener) -> None:
    _, record = _written(opener, Marked("x" * LARGE_BYTES))
    assert record.blobs == ()
    assert record.event == Marked("x" * LARGE_BYTES)


def test_equal_values_are_stored_once(opener: Opener) -> None:
    event = Marked(LARGE, {"b": [LARGE, {"c/d~e": LARGE}]})
    log, record = _written(opener, event)
    assert len(record.blobs) == 3
    assert len({ref.sha256 for ref in record.blobs}) == 1
    assert len(list((log.directory / DIRECTORY).glob("*/*"))) == 1
    assert log.whole(record).event == event


def test_many_small_values_are_set_aside_together(opener: Opener) -> None:
    event = Marked("rows", {"rows": [{"id": n, "name": f"name {n}"} for n in range(5000)]})
    log, record = _written(opener, event)
    assert [ref.form for ref in record.blobs] == ["json"]
    assert record.event == Marked("rows", {})
    assert log.whole(record).event == event


def test_large_text_within_a_value_that_is_set_aside_comes_back(opener: Opener) -> None:
    rows = [{"id": n, "name": f"name {n}"} for n in range(5000)]
    event = Marked("rows", {"rows": [*rows, LARGE]})
    log, record = _written(opener, event)
    assert sorted(ref.form for ref in record.blobs) == ["json", "text"]
    assert log.whole(record).event == event


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
    event = MemoryChanged("name", value)
    log, record = _written(opener, event, f"run-{_count}")
    assert log.whole(record).event == event


_count = 0


def test_body_that_is_too_long_even_without_its_large_values_is_refused(tmp_path: Path) -> None:
    body = {f"key {n}": "x" * 1000 for n in range(2000)}
    with pytest.raises(InvalidInput, match="more than"):
        set_aside(body, canonical_text(body), Blobs(tmp_path))


def test_blob_that_is_gone_or_changed_is_not_read(opener: Opener) -> None:
    log, record = _written(opener, Marked(LARGE))
    (path,) = (path for path in (log.directory / "blobs").rglob("*") if path.is_file())
    path.write_bytes(path.read_bytes()[:-1] + b"!")
    with pytest.raises(IntegrityError, match="changed"):
        log.whole(record)
    path.unlink()
    with pytest.raises(NotFound, match="missing"):
        log.whole(record)
    path.symlink_to("/etc/hostname")
    with pytest.raises(IntegrityError, match="unreadable"):
        log.whole(record)


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
    refs = [{"form": "text", "path": "/x", "sha256": "0" * 64, "size_bytes": 1}]
    event = Marked("blobs", {"blobs": refs})
    log, record = _written(opener, event)
    assert record.blobs == ()
    assert log.whole(record).event == event
