"""A long text can be written before the record that has it: masked, under the record's digest."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from paddock.journal.blobs import LARGE_BYTES, PREVIEW_BYTES
from paddock.journal.errors import JournalBroken
from paddock.journal.integrity.keys import SigningKey
from paddock.journal.integrity.verify import verify
from paddock.journal.log import RunLog
from paddock.journal.secrets import mask
from paddock.journal.secrets.mask import Masker
from paddock.journal.writer import Journal
from paddock.model.events import Marked
from unit.journal.conftest import Opener, settled

SECRET = "sk-live-4242424242"


def settle(journal: Journal, result: dict[str, Any]) -> dict[str, Any]:
    """Return what is read back of a result. The record itself has only previews."""
    journal.append(settled(result), 1)
    log = RunLog(journal.directory)
    step = log.step(1)
    assert len(str(step.result)) < 3 * PREVIEW_BYTES
    return dict(log.whole_step(step).result)


@pytest.mark.parametrize("name", ["body", "base64"])
@pytest.mark.parametrize("character", ["x", "é", "\U0001f600", '"'])
def test_stored_text_reads_back_and_verifies(
    opener: Opener, key: SigningKey, name: str, character: str
) -> None:
    journal = opener()
    text = character * LARGE_BYTES + "end"
    result = {"status": 200, name: journal.store(text)}
    assert settle(journal, result) == {"status": 200, name: text}
    journal.close()
    report = verify(journal.directory, key.public)
    assert (report.ok, report.blobs) == (True, 1)


def test_stored_and_large_parts_of_one_result_are_both_read_back(opener: Opener) -> None:
    journal = opener()
    result = {"body": journal.store("a" * 50_000), "other": "b" * 50_000, "list": ["c" * 9] * 9000}
    assert settle(journal, result) == {
        "body": "a" * 50_000,
        "other": "b" * 50_000,
        "list": ["c" * 9] * 9000,
    }


def test_short_text_is_not_stored(opener: Opener) -> None:
    journal = opener()
    assert settle(journal, {"body": journal.store("short")}) == {"body": "short"}
    assert not (journal.directory / "blobs").exists()


@pytest.mark.parametrize("at", [0, mask._PIECE - 5, mask._PIECE, 3 * mask._PIECE - 1])
def test_secrets_are_not_in_what_is_stored(opener: Opener, at: int) -> None:
    journal = opener(masker=Masker({"KEY": SECRET}))
    text = "x" * at + SECRET + "y" * LARGE_BYTES
    read = settle(journal, {"body": journal.store(text), "note": SECRET})
    assert read["body"] == text.replace(SECRET, "{{secret:KEY}}")
    for path in journal.directory.rglob("*"):
        assert not path.is_file() or SECRET.encode() not in path.read_bytes()


@given(st.integers(0, 400), st.sampled_from([SECRET, SECRET.encode().hex(), "%73" + SECRET[1:]]))
def test_secret_is_found_wherever_the_text_is_divided(at: int, spelled: str) -> None:
    masker = Masker({"KEY": SECRET})
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(mask, "_PIECE", 64)
        assert masker.is_clean_long("x" * at)
        assert not masker.is_clean_long("x" * at + spelled + "y" * (400 - at))


def test_text_that_cannot_be_stored_breaks_the_journal(opener: Opener) -> None:
    journal = opener()
    (journal.directory / "blobs").write_text("in the way")
    with pytest.raises(JournalBroken):
        journal.store("x" * 50_000)
    with pytest.raises(JournalBroken):
        journal.append(Marked("m"))
