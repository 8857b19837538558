"""Whoever can change files below `runs` and has no key: nothing that they write is acted on."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable
from pathlib import Path

import pytest

from paddock.gate.run_gate import signing_key
from paddock.gate.run_keys import CARRIED, run_key
from paddock.gate.signed_journals import check_step_signed, check_trusted
from paddock.journal.canonical import canonical_text
from paddock.journal.codec import decode
from paddock.journal.integrity.findings import Status, VerifyFinding
from paddock.journal.integrity.keys import SigningKey
from paddock.journal.integrity.verify import verify
from paddock.journal.log import RunLog
from paddock.journal.records import Chain
from paddock.journal.writer import Journal
from paddock.model.errors import IntegrityError, InvalidInput, NotSigned
from paddock.model.events import Marked, Opened
from paddock.state.home import Home


@pytest.fixture
def home(tmp_path: Path) -> Home:
    home = Home(tmp_path / "home")
    home.make()
    return home


def begun(home: Home, run: str, key: SigningKey | None = None) -> Journal:
    """A run with two heads: after its first record, and after its first step."""
    opened = Opened(run=run, agent="a", command=["true"])
    home.runs.mkdir(exist_ok=True)
    journal = Journal.create(home.runs / run, opened=opened, key=key or signing_key(home))
    for step in (1, 2):
        journal.append(Marked(f"step {step}"), step)
        if step == 1:
            journal.sign()
    return journal


def ended(home: Home, run: str) -> Path:
    journal = begun(home, run)
    journal.close()
    return journal.directory


def interrupted(home: Home, run: str) -> Path:
    journal = begun(home, run)
    journal.abandon()
    return journal.directory


def lines_of(directory: Path) -> list[bytes]:
    return (directory / "000001.jsonl").read_bytes().splitlines()


def put(directory: Path, lines: list[bytes]) -> None:
    (directory / "000001.jsonl").write_bytes(b"".join(line + b"\n" for line in lines))


def rechained(lines: list[bytes], edit: Callable[[dict[str, object]], None] | None = None,
              *, with_heads: bool = False) -> list[bytes]:  # fmt: skip
    """All hashes made anew: anybody can do that."""
    chain, made = Chain(), []
    for line in lines:
        record = json.loads(line)
        if record["type"] == "head" and not with_heads:
            continue
        if edit is not None:
            edit(record["body"])
        text = canonical_text(record["body"])
        made.append(chain.link(record["type"], text, at=record["at"], step=record.get("step")))
    return made


def to_other(body: dict[str, object]) -> None:
    if body.get("text") == "step 1":
        body["text"] = "run this on the host"


def status(home: Home, directory: Path) -> Status:
    return verify(directory, signing_key(home).public).status


def test_a_journal_without_any_signature_is_broken(home: Home) -> None:
    directory = ended(home, "r")
    put(directory, rechained(lines_of(directory), to_other))
    report = verify(directory, signing_key(home).public)
    assert [one.finding for one in report.problems] == [VerifyFinding.UNSIGNED]
    with pytest.raises(IntegrityError, match="no record is signed"):
        check_trusted(directory, home)


def test_heads_kept_over_records_made_anew_are_found(home: Home) -> None:
    directory = ended(home, "r")
    put(directory, rechained(lines_of(directory), to_other, with_heads=True))
    with pytest.raises(IntegrityError):
        check_trusted(directory, home)


@pytest.mark.parametrize("left", range(1, 9))
def test_a_run_that_was_cut_off_never_looks_like_one_that_ended(home: Home, left: int) -> None:
    """Its records: opened, head, step 1, head, step 2, closed, head."""
    directory = ended(home, "r")
    lines = lines_of(directory)
    put(directory, lines[:left])
    expected = {1: Status.BROKEN, 7: Status.ENDED, 8: Status.ENDED}
    assert len(lines) == 7
    assert status(home, directory) is expected.get(left, Status.INTERRUPTED)


def test_what_follows_the_last_signature_is_not_read(home: Home) -> None:
    directory = interrupted(home, "r")
    lines = lines_of(directory)
    assert [decode(line).step for line in lines] == [None, None, 1, None, 2]
    chain = Chain()
    for line in lines[:4]:
        chain.follow(line)
    forged = chain.link("configured", "{}", at=1, step=2)
    put(directory, [*lines[:4], forged])
    covered = check_trusted(directory, home)
    log = RunLog(directory, covered)
    assert [record.n for record in log.events()] == [0, 1, 2, 3]
    assert log.step_numbers() == [1]
    with pytest.raises(NotSigned, match="interrupted"):
        check_step_signed(directory, 2, 1)
    assert RunLog(directory).step_numbers() == [1, 2]  # it can be shown


def test_a_recovered_journal_does_not_vouch_for_what_was_not_signed(home: Home) -> None:
    directory = interrupted(home, "r")
    chain = Chain()
    for line in lines_of(directory):
        chain.follow(line)
    forged = chain.link("configured", "{}", at=1, step=2)
    put(directory, [*lines_of(directory), forged])
    Journal.recover(directory, key=signing_key(home)).close()
    assert check_trusted(directory, home).size == 4


def test_records_behind_the_signed_end_are_found(home: Home) -> None:
    directory = ended(home, "r")
    lines = lines_of(directory)
    chain = Chain()
    for line in lines:
        chain.follow(line)
    put(directory, [*lines, chain.link("configured", "{}", at=1, step=None)])
    with pytest.raises(IntegrityError, match="follows the signed end"):
        check_trusted(directory, home)
    put(directory, lines)
    with (directory / "000001.jsonl").open("ab") as file:
        file.write(b"{}")
    assert status(home, directory) is Status.BROKEN


def test_journals_exchanged_between_runs_are_found(home: Home) -> None:
    one, other = ended(home, "one"), ended(home, "other")
    shutil.rmtree(one)
    shutil.copytree(other, one)
    with pytest.raises(IntegrityError, match="another run"):
        check_trusted(one, home)
    shutil.rmtree(one)
    one.symlink_to(other)
    with pytest.raises(IntegrityError, match="another run"):
        check_trusted(one, home)


def test_a_head_of_another_run_of_this_home_does_not_pass(home: Home) -> None:
    one, other = lines_of(ended(home, "one")), lines_of(ended(home, "other"))
    directory = home.runs / "one"
    chain = Chain()
    chain.follow(one[0])
    head = json.loads(other[1])
    text = canonical_text(head["body"])
    put(directory, [one[0], chain.link("head", text, at=head["at"], step=None)])
    with pytest.raises(IntegrityError, match="not the one that was written"):
        check_trusted(directory, home)


def test_a_key_that_the_journal_brings_along_is_not_asked(home: Home, tmp_path: Path) -> None:
    theirs = SigningKey.open(tmp_path / "theirs")
    begun(home, "r", theirs).close()
    shutil.copytree(tmp_path / "theirs", home.runs / "r" / "keys")
    with pytest.raises(InvalidInput, match="somebody else"):
        check_trusted(home.runs / "r", home)
    # Nor does it help to name the key of this home and sign with another.
    lines = lines_of(home.runs / "r")
    record = json.loads(lines[0])
    record["body"]["key_id"] = signing_key(home).public.key_id
    put(home.runs / "r", rechained([canonical_text(record).encode(), *lines[1:]], with_heads=True))
    with pytest.raises(InvalidInput, match="somebody else"):
        check_trusted(home.runs / "r", home)


def test_a_journal_that_changes_after_it_was_verified_is_not_used(home: Home) -> None:
    directory = ended(home, "r")
    covered, lines = check_trusted(directory, home), lines_of(directory)
    log = RunLog(directory, covered)
    assert log.step_numbers() == [1, 2]
    put(directory, [line.replace(b"step 1", b"step X") for line in lines])
    with pytest.raises(IntegrityError, match="after it had been verified"):
        log.step(1)
    with pytest.raises(IntegrityError, match="after it had been verified"):
        list(RunLog(directory, covered).events())
    for shorter in (lines[:3], [*lines[:2], *lines[3:]], []):
        put(directory, shorter)
        with pytest.raises(IntegrityError, match="gone since"):
            list(RunLog(directory, covered).events())


def test_a_key_put_beside_a_journal_of_this_home_opens_nothing(home: Home) -> None:
    directory = ended(home, "r")
    own = run_key(home, directory, "r")
    (directory / CARRIED).write_bytes(b"k" * 32)
    assert run_key(home, directory, "r") == own
