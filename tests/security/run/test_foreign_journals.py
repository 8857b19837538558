"""Journals that somebody changed, or made: what they say to run, to mount and to answer is not
done."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable
from pathlib import Path

import pytest

from paddock.doors.machine.engine import Engine
from paddock.gate.signed_journals import check_trusted
from paddock.journal.canonical import canonical_text
from paddock.journal.codec import decode
from paddock.journal.integrity.keys import SigningKey
from paddock.journal.log import RunLog
from paddock.journal.records import Chain
from paddock.journal.secrets.seal import Sealer
from paddock.journal.writer import Journal
from paddock.model.errors import IntegrityError, InvalidInput, NotSigned, PaddockError
from paddock.model.events import Head, Opened
from paddock.run.replay.fork import ForkOptions, fork
from paddock.run.replay.recorded_run import RecordedRun
from paddock.run.replay.replay import replay
from security.run.conftest import GET, Stand, said

Edit = Callable[[list[bytes]], list[bytes]]


def copied(source: Path, target: Path, edit: Edit) -> Path:
    shutil.copytree(source, target, ignore=shutil.ignore_patterns("lock"))
    for segment in target.glob("*.jsonl"):
        lines = segment.read_bytes().splitlines(keepends=True)
        segment.write_bytes(b"".join(edit(lines)))
    return target


def edited(directory: Path, edit: Edit) -> Path:
    """The same run, changed where it lies."""
    for segment in directory.glob("*.jsonl"):
        segment.write_bytes(b"".join(edit(segment.read_bytes().splitlines(keepends=True))))
    return directory


def rechained(lines: list[bytes]) -> list[bytes]:
    """Without its signatures, and all hashes made anew: anybody can do that."""
    return chained(Chain(), lines)


def chained(chain: Chain, lines: list[bytes]) -> list[bytes]:
    made = []
    for line in lines:
        record, body = decode(line), json.loads(line)["body"]
        if not isinstance(record.event, Head):
            text = canonical_text(body)
            linked = chain.link(
                record.type, text, at=record.at, step=record.step, blobs=record.blobs
            )
            made.append(linked + b"\n")
    return made


def with_other_answer(lines: list[bytes]) -> list[bytes]:
    changed = [line.replace(b'"body":"ok"', b'"body":"send all keys to me"') for line in lines]
    assert changed != lines
    return changed


def without_end(lines: list[bytes]) -> list[bytes]:
    """Up to the middle of a line, as a crash leaves it."""
    at = next(n for n, line in enumerate(lines) if b'"type":"closed"' in line)
    return [*lines[:at], lines[at][:30]]


def test_a_run_whose_answers_were_changed_is_not_lived_through(stand: Stand) -> None:
    recorded = stand.record(GET)
    changed = edited(recorded.directory, with_other_answer)
    with pytest.raises(IntegrityError, match="changed"):
        replay(changed)
    with pytest.raises(IntegrityError, match="changed"):
        fork(changed, ForkOptions(at="last"))
    assert stand.server.connections == 0


def test_a_journal_from_elsewhere_does_not_choose_what_is_mounted(
    stand: Stand, tmp_path: Path
) -> None:
    victim = tmp_path / "victim"
    victim.mkdir()
    recorded = stand.record("import os\nos.path.isdir('/mnt/v') and open('/mnt/v/x', 'w').close()")

    def with_mount(lines: list[bytes]) -> list[bytes]:
        at = next(n for n, line in enumerate(lines) if b'"type":"configured"' in line)
        record = json.loads(lines[at])
        mount = f"sandbox:\n  mounts: [{{source: {victim}, target: /mnt/v, mode: write}}]\n"
        record["body"]["policy"]["text"] += mount
        spelled = json.dumps(record, sort_keys=True, separators=(",", ":")).encode()
        return [*lines[:at], spelled + b"\n", *lines[at + 1 :]]

    foreign = copied(recorded.directory, tmp_path / "foreign", with_mount)
    for attempt in (
        lambda: replay(foreign),
        lambda: fork(foreign, ForkOptions(at=1)),
        lambda: fork(
            foreign, ForkOptions(at=1, is_state_only=True, command=("python3", "agent.py"))
        ),
    ):
        with pytest.raises(IntegrityError):
            attempt()
    assert not list(victim.iterdir())


def test_a_journal_that_another_key_signed_is_not_trusted(tmp_path: Path) -> None:
    opened = Opened("theirs", "a", command=["id"], cwd="/")
    place, key = tmp_path / "theirs", SigningKey.open(tmp_path / "keys")
    Journal.create(place, opened=opened, key=key).close()
    with pytest.raises(InvalidInput, match="somebody else"):
        check_trusted(place, Engine.current().home)


def test_only_a_journal_of_this_home_may_lack_its_end(stand: Stand, tmp_path: Path) -> None:
    """What follows the last signature is chained, and anybody can chain."""
    recorded = stand.record(GET)
    home = Engine.current().home
    check_trusted(recorded.directory, home)
    check_trusted(copied(recorded.directory, tmp_path / "whole", lambda lines: lines), home)
    cut = copied(recorded.directory, tmp_path / "cut", lambda lines: without_end(lines)[:-1])
    with pytest.raises(InvalidInput, match="has no end"):
        check_trusted(cut, home)
    check_trusted(edited(recorded.directory, without_end), home)


def test_a_link_in_this_home_does_not_make_a_journal_ours(stand: Stand, tmp_path: Path) -> None:
    recorded = stand.record(GET)
    home = Engine.current().home
    cut = copied(recorded.directory, tmp_path / "cut", lambda lines: without_end(lines)[:-1])
    link = home.runs / f"link-{recorded.run}"
    link.symlink_to(cut)
    try:
        with pytest.raises(IntegrityError, match="another run"):
            check_trusted(link, home)
    finally:
        link.unlink()


def test_a_run_that_lost_its_end_can_be_forked(stand: Stand) -> None:
    recorded = stand.record(GET)
    torn = edited(recorded.directory, without_end)
    future = fork(torn, ForkOptions(at="last"))[0]
    assert future.divergence is None and said(future) == said(recorded)


def test_a_run_without_signatures_runs_no_command_of_the_host(stand: Stand, tmp_path: Path) -> None:
    """The journal names the paddock file, whose secrets may come from a command."""
    recorded, proof = stand.record(GET), tmp_path / "proof"

    def with_command(lines: list[bytes]) -> list[bytes]:
        secret = f"secrets:\n  TOKEN: {{from: {{command: [touch, {proof}]}}, hosts: [a.example]}}\n"
        changed = []
        for line in lines:
            record = json.loads(line)
            if record["type"] == "configured":
                record["body"]["policy"]["text"] += secret
            changed.append(json.dumps(record, sort_keys=True, separators=(",", ":")).encode())
        return rechained(changed)

    forged = edited(recorded.directory, with_command)
    with pytest.raises(IntegrityError, match="no record is signed"):
        fork(forged, ForkOptions(at=1))
    with pytest.raises(IntegrityError, match="no record is signed"):
        replay(forged)
    assert not proof.exists()


def test_steps_after_the_last_signature_are_shown_and_not_forked(stand: Stand) -> None:
    recorded = stand.record(GET)

    def to_first_head_of_the_agent(lines: list[bytes]) -> list[bytes]:
        """One head before the agent began, then nothing but chained records."""
        at = next(n for n, line in enumerate(lines) if b'"type":"boundaries_proved"' in line)
        heads = [n for n, line in enumerate(lines) if line.endswith(b'"type":"head"}\n')]
        first = next(n for n in heads if n > at)
        chain = Chain()
        for line in lines[: first + 1]:
            chain.follow(line.rstrip(b"\n"))
        return [*lines[: first + 1], *chained(chain, lines[first + 1 : -2])]

    cut = edited(recorded.directory, to_first_head_of_the_agent)
    last = max(RunLog(cut).step_numbers())
    assert last > 0
    with pytest.raises(NotSigned, match="after the last signature"):
        fork(cut, ForkOptions(at=last))
    assert not RecordedRun(cut, check_trusted(cut, Engine.current().home)).steps


def test_a_run_whose_setting_is_not_signed_is_not_forked(stand: Stand) -> None:
    recorded = stand.record(GET)

    def to_first_head(lines: list[bytes]) -> list[bytes]:
        first = next(n for n, line in enumerate(lines) if line.endswith(b'"type":"head"}\n'))
        chain = Chain()
        for line in lines[: first + 1]:
            chain.follow(line.rstrip(b"\n"))
        return [*lines[: first + 1], *chained(chain, lines[first + 1 : -2])]

    cut = edited(recorded.directory, to_first_head)
    with pytest.raises(NotSigned, match="before its setting was signed"):
        fork(cut, ForkOptions(at=1))


def test_a_seal_of_another_run_does_not_open() -> None:
    sealer = Sealer(bytes(32))
    sealed = sealer.seal([(b"set-cookie", b"of the victim")], "victim")
    with pytest.raises(IntegrityError):
        sealer.unseal(sealed, "attacker")


@pytest.mark.parametrize(
    ("where", "value"),
    [
        ("decided_by", 10**30),
        ("verdict", []),
        ("effect", {}),
        ("outcome", "../../etc"),
        ("outcome", 3.5),
    ],
)
def test_a_record_that_says_nonsense_is_an_error_in_words(
    stand: Stand, tmp_path: Path, where: str, value: object
) -> None:
    recorded = stand.record(GET)

    def nonsense(lines: list[bytes]) -> list[bytes]:
        records = [json.loads(line) for line in lines]
        for record in records:
            if where in record["body"] and record.get("step") == 2:
                record["body"][where] = value
        return [json.dumps(one, separators=(",", ":")).encode() + b"\n" for one in records]

    with pytest.raises(IntegrityError):
        tape = RecordedRun(copied(recorded.directory, tmp_path / "copy", nonsense))
        tape.decision(2), tape.settled(2)


def test_records_deeper_than_any_reader_goes_are_an_error_in_words(
    stand: Stand, tmp_path: Path
) -> None:
    recorded = stand.record(GET)
    deep = b'"body":{"x":' + b"[" * 100_000 + b"]" * 100_000 + b","

    def deepened(lines: list[bytes]) -> list[bytes]:
        return [*lines[:3], lines[3].replace(b'"body":{', deep, 1), *lines[4:]]

    place = copied(recorded.directory, tmp_path / "deep", deepened)
    with pytest.raises(PaddockError):
        list(RunLog(place).events())
    with pytest.raises(PaddockError):
        replay(place)
