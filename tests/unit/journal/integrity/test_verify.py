"""Verification finds whatever was done to a journal, and says where."""

from __future__ import annotations

import os
import shutil
from collections.abc import Callable
from pathlib import Path
from tempfile import TemporaryDirectory

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from paddock.journal.blobs import Blobs
from paddock.journal.codec import decode
from paddock.journal.integrity.findings import JournalProblem, Status, VerifyFinding, VerifyReport
from paddock.journal.integrity.heads import sign_head
from paddock.journal.integrity.keys import SigningKey
from paddock.journal.integrity.step_counts import StepCounts
from paddock.journal.integrity.verify import verify
from paddock.journal.log import RunLog
from paddock.journal.records import Chain
from paddock.journal.run_directory import is_held
from paddock.journal.writer import Journal, Rhythm
from paddock.model.errors import IntegrityError
from paddock.model.events import Head, Marked
from unit.journal.conftest import OPENED, Opener, write_steps

PROPERTY = settings(
    suppress_health_check=[HealthCheck.function_scoped_fixture],
)
Change = Callable[[list[bytes]], list[bytes]]


@pytest.fixture(scope="module")
def written(tmp_path_factory: pytest.TempPathFactory) -> tuple[list[bytes], SigningKey, Head]:
    """The lines of a closed journal with several heads, its key and its last head."""
    key = SigningKey.open(tmp_path_factory.mktemp("keys"))
    directory = tmp_path_factory.mktemp("runs") / "run"
    journal = Journal.create(directory, opened=OPENED, key=key, rhythm=Rhythm(head_records=9))
    write_steps(journal, 6)
    head = journal.close()
    return (directory / "000001.jsonl").read_bytes().splitlines(), key, head


def _verified(lines: list[bytes], key: SigningKey, **options: object) -> VerifyReport:
    return _verified_bytes(b"".join(line + b"\n" for line in lines), key, **options)


def _verified_bytes(data: bytes, key: SigningKey, **options: object) -> VerifyReport:
    with TemporaryDirectory() as place:
        path = Path(place) / "all.jsonl"
        path.write_bytes(data)
        return verify(path, key.public, **options)  # type: ignore[arg-type]


def test_journal_as_it_was_written_is_intact(closed_run: Path, key: SigningKey) -> None:
    report = verify(closed_run, key.public, expect_closed=True)
    assert report.ok, report
    assert report.is_closed
    assert report.signed == report.records
    assert (report.run, report.blobs, report.are_blobs_checked) == ("run-1", 1, True)
    assert report.segments > 1
    assert report.heads > 3
    assert "intact" in str(report)


def test_journal_that_is_being_written_is_intact_but_not_closed(
    opener: Opener, key: SigningKey
) -> None:
    journal = opener()
    write_steps(journal, 3)
    report = verify(journal.directory, key.public)
    assert report.ok
    assert not report.is_closed
    assert report.signed < report.records
    assert (
        verify(journal.directory, key.public, expect_closed=True).problems[0].finding == "truncated"
    )


@PROPERTY
@given(st.data())
def test_any_flipped_bit_is_found(
    written: tuple[list[bytes], SigningKey, Head], data: st.DataObject
) -> None:
    lines, key, _ = written
    whole = bytearray(b"".join(line + b"\n" for line in lines))
    at = data.draw(st.integers(0, len(whole) - 1))
    whole[at] ^= 1 << data.draw(st.integers(0, 7))
    assert _verified_bytes(bytes(whole), key).status is not Status.ENDED


@PROPERTY
@given(st.data())
def test_any_dropped_record_is_found_and_named(
    written: tuple[list[bytes], SigningKey, Head], data: st.DataObject
) -> None:
    lines, key, _ = written
    first = data.draw(st.integers(0, len(lines) - 2))
    last = data.draw(st.integers(first, len(lines) - 2))
    problem = _one_problem(_verified(lines[:first] + lines[last + 1 :], key))
    assert (problem.finding, problem.n, problem.line) == (VerifyFinding.MISSING, first, first + 1)


@PROPERTY
@given(st.data())
def test_any_inserted_record_is_found(
    written: tuple[list[bytes], SigningKey, Head], data: st.DataObject
) -> None:
    lines, key, _ = written
    at = data.draw(st.integers(0, len(lines)))
    what = data.draw(st.sampled_from([*lines, b"", b"{}", b"junk", _forged(lines, min(at, 5))]))
    assert not _verified([*lines[:at], what, *lines[at:]], key).ok


@PROPERTY
@given(st.data())
def test_any_reordered_pair_is_found(
    written: tuple[list[bytes], SigningKey, Head], data: st.DataObject
) -> None:
    lines, key, _ = written
    one, other = sorted(
        data.draw(st.lists(st.integers(0, len(lines) - 1), min_size=2, max_size=2, unique=True))
    )
    swapped = list(lines)
    swapped[one], swapped[other] = swapped[other], swapped[one]
    problem = _one_problem(_verified(swapped, key))
    assert (problem.finding, problem.line) == (VerifyFinding.REORDERED, one + 1)


@PROPERTY
@given(st.data())
def test_any_truncation_is_found_when_the_run_has_ended_or_its_head_was_saved(
    written: tuple[list[bytes], SigningKey, Head], data: st.DataObject
) -> None:
    lines, key, head = written
    whole = b"".join(line + b"\n" for line in lines)
    cut = whole[: data.draw(st.integers(0, len(whole) - 1))]
    assert not _verified_bytes(cut, key, expect_closed=True).ok
    assert _verified_bytes(cut, key).status is not Status.ENDED
    if cut.count(b"\n") < head.size:
        assert not _verified_bytes(cut, key, expected_head=head).ok


def test_change_with_all_hashes_made_anew_is_found_by_the_next_head(
    written: tuple[list[bytes], SigningKey, Head],
) -> None:
    lines, key, _ = written
    heads = [n for n, line in enumerate(lines) if line.endswith(b'"type":"head"}')]
    for at in sorted(set(range(1, len(lines))) - set(heads)):
        problem = _one_problem(_verified(_rechained(lines, at), key))
        assert (problem.finding, problem.n) == (
            VerifyFinding.REWRITTEN,
            min(n for n in heads if n > at),
        )


def test_journal_that_was_replaced_whole_is_found_by_a_saved_head(
    opener: Opener, key: SigningKey
) -> None:
    journal = opener("one")
    write_steps(journal, 4)
    saved = journal.close()
    assert verify(journal.directory, key.public, expected_head=saved).ok
    other = opener("two")
    write_steps(other, 5)
    other.close()
    assert verify(other.directory, key.public).ok
    problem = _one_problem(verify(other.directory, key.public, expected_head=saved))
    assert problem.finding is VerifyFinding.REPLACED
    assert saved.root in str(problem)


def test_shorter_replacement_is_found_by_a_saved_head(opener: Opener, key: SigningKey) -> None:
    journal = opener("one")
    write_steps(journal, 4)
    saved = journal.close()
    other = opener("two")
    other.close()
    problem = _one_problem(verify(other.directory, key.public, expected_head=saved))
    assert problem.finding is VerifyFinding.TRUNCATED


def test_saved_head_of_another_run_or_key_or_with_a_bad_signature_is_found(
    opener: Opener, key: SigningKey, tmp_path: Path
) -> None:
    journal = opener()
    head = journal.close()
    bad = Head(head.run, head.size, head.root, head.at, head.key_id, "00" * 64)
    stranger = SigningKey.open(tmp_path / "other")
    root, steps = bytes.fromhex(head.root), StepCounts()
    foreign = sign_head(stranger, run=head.run, size=head.size, root=root, at=head.at, steps=steps)
    other_run = sign_head(key, run="else", size=head.size, root=root, at=1, steps=steps)
    findings = [
        _one_problem(verify(journal.directory, key.public, expected_head=saved)).finding
        for saved in (bad, foreign, other_run)
    ]
    assert findings == [VerifyFinding.BAD_HEAD, VerifyFinding.WRONG_KEY, VerifyFinding.REPLACED]


def test_wrong_key_is_said_to_be_the_wrong_key(closed_run: Path, tmp_path: Path) -> None:
    other = SigningKey.open(tmp_path / "other")
    problem = _one_problem(verify(closed_run, other.public))
    assert problem.finding is VerifyFinding.WRONG_KEY
    assert problem.expected == other.public.key_id


def test_run_signed_by_a_stranger_under_the_right_key_id_is_found(
    written: tuple[list[bytes], SigningKey, Head],
) -> None:
    lines, key, _ = written
    at = next(n for n, line in enumerate(lines) if line.endswith(b'"type":"head"}'))
    head = decode(lines[at]).event
    assert isinstance(head, Head)
    forged = lines[at].replace(head.signature.encode(), b"ab" * 64)
    problem = _one_problem(_verified([*lines[:at], forged, *lines[at + 1 :]], key))
    assert (problem.finding, problem.n) == (VerifyFinding.BAD_HEAD, at)


def test_changed_record_is_named_exactly(written: tuple[list[bytes], SigningKey, Head]) -> None:
    lines, key, _ = written
    changed = [line.replace(b"ticket 3", b"ticket 8") for line in lines]
    at = next(n for n, line in enumerate(lines) if line != changed[n])
    problem = _one_problem(_verified(changed, key))
    assert (problem.finding, problem.n) == (VerifyFinding.CHANGED, at)


def test_segment_that_is_gone_is_found(closed_run: Path, key: SigningKey) -> None:
    (closed_run / "000002.jsonl").unlink()
    problem = _one_problem(verify(closed_run, key.public))
    assert problem.finding is VerifyFinding.MISSING
    assert "segment 2" in problem.text


def test_segments_that_were_exchanged_are_found(closed_run: Path, key: SigningKey) -> None:
    one, two, spare = (closed_run / name for name in ("000001.jsonl", "000002.jsonl", "spare"))
    one.rename(spare)
    two.rename(one)
    spare.rename(two)
    assert _one_problem(verify(closed_run, key.public)).segment == "000001.jsonl"


def test_missing_and_changed_blobs_are_found_and_the_rest_is_still_checked(
    opener: Opener, key: SigningKey
) -> None:
    journal = opener()
    for letter in "abc":
        journal.append(Marked(letter * 20_000))
    journal.close()
    blobs = sorted(path for path in (journal.directory / "blobs").rglob("*") if path.is_file())
    blobs[0].unlink()
    blobs[1].write_bytes(b"changed")
    report = verify(journal.directory, key.public)
    assert sorted(problem.finding for problem in report.problems) == [
        "blob changed",
        "blob missing",
    ]
    assert report.is_closed
    assert all(problem.n is not None for problem in report.problems)


def test_agents_words_cannot_pass_for_the_journals_own(opener: Opener, key: SigningKey) -> None:
    journal = opener()
    for text in (
        ',"n":1,"type":"head"}',
        '{"after":"' + "0" * 64,
        '\n{"after":"',
        ',"blobs":[{"path":"/a"}]',
    ):
        data = {"blobs": [text], text: text, "n": 1, "type": "head"}
        journal.append(Marked(text, data), 3)
    journal.append(Marked("closed", {"type": "closed", "n": 0}), 4)
    journal.close()
    report = verify(journal.directory, key.public, expect_closed=True)
    assert report.ok, report
    assert report.blobs == 0


@pytest.mark.parametrize(
    "content",
    [b"", b"\n", b"junk", b"junk\n", b"{}\n", b"\x00" * 5000, b'{"after":"' + b"9" * 300 + b"\n"],
)
def test_file_that_is_no_journal_is_a_finding_and_not_a_crash(
    written: tuple[list[bytes], SigningKey, Head], content: bytes
) -> None:
    assert not _verified_bytes(content, written[1]).ok


def test_line_without_end_is_bounded(written: tuple[list[bytes], SigningKey, Head]) -> None:
    report = _verified_bytes(b"x" * (5 << 20), written[1])
    assert report.problems[0].finding is VerifyFinding.MALFORMED


def test_link_in_place_of_a_segment_is_not_followed(closed_run: Path, key: SigningKey) -> None:
    shutil.copy(closed_run / "000002.jsonl", closed_run / "elsewhere")
    (closed_run / "000002.jsonl").unlink()
    (closed_run / "000002.jsonl").symlink_to(closed_run / "elsewhere")
    assert not verify(closed_run, key.public).ok


def test_what_is_no_file_is_neither_waited_for_nor_a_crash(
    closed_run: Path, key: SigningKey
) -> None:
    for place in (closed_run / "000001.jsonl", closed_run / "lock"):
        place.unlink()
        os.mkfifo(place)
    assert "is not a file" in _one_problem(verify(closed_run, key.public)).text
    with pytest.raises(IntegrityError, match="is not a file"):
        _ = RunLog(closed_run).opened
    assert not is_held(closed_run)
    (closed_run / "000001.jsonl").unlink()
    (closed_run / "000001.jsonl").symlink_to("000002.jsonl")
    with pytest.raises(IntegrityError, match="is unreadable"):
        _ = RunLog(closed_run).opened


def test_blob_that_is_no_file_is_neither_waited_for_nor_a_crash(tmp_path: Path) -> None:
    blobs = Blobs(tmp_path)
    digest, _ = blobs.put(b"a value")
    blobs.flush()
    (path,) = tmp_path.rglob(digest)
    path.unlink()
    os.mkfifo(path)
    with pytest.raises(IntegrityError, match="is not a file"):
        blobs.read(digest)


def _one_problem(report: VerifyReport) -> JournalProblem:
    assert len(report.problems) == 1, report
    return report.problems[0]


def _forged(lines: list[bytes], at: int) -> bytes:
    """A record that fits the chain at that place."""
    chain = Chain()
    for line in lines[:at]:
        chain.follow(line)
    return chain.link("noted", '{"forged":true}', at=1, step=None)


def _rechained(lines: list[bytes], at: int) -> list[bytes]:
    """Everything written again after one record was changed, but for the signatures."""
    chain, out = Chain(), []
    for n, line in enumerate(lines):
        body = line[line.index(b'"body":') + 7 : line.rindex(b',"n":')].decode()
        record = decode(line)
        if n == at:
            body = '{"changed":true}'
        out.append(chain.link(record.type, body, at=record.at, step=record.step))
    return out
