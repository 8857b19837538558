"""What an agent can put into events, and what a made-up journal can say: no value makes a record
unreadable, unmasked, or mean one thing to one reader and another thing to the next."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from paddock.journal import blobs as blobs_module
from paddock.journal.blobs import Blobs
from paddock.journal.budget import RecordBudget
from paddock.journal.codec import decode
from paddock.journal.integrity.keys import SigningKey
from paddock.journal.integrity.verify import verify
from paddock.journal.log import RunLog
from paddock.journal.nodes import NodeReader
from paddock.journal.records import Chain
from paddock.journal.secrets.mask import Masker
from paddock.journal.segments import segment_name
from paddock.journal.traffic import Traffic
from paddock.model.action import Effect, Kind, Outcome
from paddock.model.errors import IntegrityError
from paddock.model.events import (
    Marked,
    ProgramEnded,
    ProgramStarted,
    Proposed,
    Record,
    Settled,
    Unknown,
)
from paddock.model.steps import Step, whole_number
from paddock.objects.line_file import MAX_LINE_BYTES
from unit.journal.conftest import Opener, proposed, settled

SECRET = "simple-secret-value"
LARGE = "v" * 17_000
ZEROS = "0" * 64


def nested(value: Any, levels: int) -> Any:
    for _ in range(levels):
        value = {"a": value}
    return value


# ---- what an agent writes ------------------------------------------------------------------------


@pytest.mark.parametrize(
    "arguments",
    [
        {"k" * (3 << 20): LARGE},
        {"k" * 100_000: [LARGE] * 30},
        {"\x00" * 100: {"~" * 50: [LARGE] * 3}},
        nested({"x": LARGE}, 80),
    ],
    ids=["long key", "long key of many", "escaped", "deep"],
)
def test_keys_that_an_agent_chooses_do_not_make_the_journal_unreadable(
    opener: Opener, key: SigningKey, arguments: dict[str, Any]
) -> None:
    journal = opener()
    journal.append(proposed(1, arguments=arguments), 1)
    journal.append(settled(), 1)
    journal.close()
    log = RunLog(journal.directory)
    assert max(map(len, log.lines())) < MAX_LINE_BYTES
    assert log.whole_step(log.step(1)).arguments == arguments
    assert not verify(journal.directory, key.public).problems


def test_many_values_beyond_the_budget_do_not_make_the_journal_unreadable(opener: Opener) -> None:
    """Where each of them stood takes more room than what a record keeps of it."""
    journal = opener(budget=RecordBudget(1))
    journal.append(Marked(LARGE))  # uses it up
    many = [f"{number:06d}{'v' * 1100}" for number in range(16_000)]
    journal.append(proposed(1, arguments={"list": many}, name="n" * 2_000_000), 1)
    journal.close()
    (step,) = RunLog(journal.directory).steps()
    assert step.kind is Kind.TOOL
    assert step.name.startswith("nnn")


def test_keys_of_a_message_do_not_make_all_messages_unreadable(opener: Opener) -> None:
    journal = opener()
    message = {"k" * (3 << 20): LARGE}
    names = [journal.keep({"message": message}), journal.keep({"message": "hello"})]
    nodes = NodeReader(journal.directory)
    read = [nodes.read(name, 8 << 20)[0]["message"] for name in names]
    assert read == [message, "hello"]


def test_no_part_of_a_secret_is_left_where_a_text_is_long(opener: Opener) -> None:
    """What is nested too deeply is recorded as text. If that were cut before it is masked, the
    beginning of a secret at the cut would stay."""
    journal = opener(masker=Masker({"KEY": SECRET}))
    for padding in range(1860, 2000, 5):
        journal.append(settled(nested("y" * padding + SECRET, 100)), 1)
    journal.close()
    text = (journal.directory / segment_name(1)).read_text()
    assert "{{secret:KEY}}" in text
    assert SECRET[:5] not in text


def test_keys_that_are_written_alike_do_not_hide_each_other(opener: Opener) -> None:
    """JSON from an agent may have half of a surrogate pair as a key, and its escape as another."""
    journal = opener()
    for arguments in ({"\ud800": "evil", "\\ud800": "good"}, {"\\ud800": "good", "\ud800": "evil"}):
        journal.append(proposed(1, arguments=arguments), 1)
    events = [record.event for record in RunLog(journal.directory).events(Proposed)]
    assert events == [proposed(1, arguments={"\\ud800": "good", "\\ud800'": "evil"})] * 2


def test_large_values_are_put_back_without_changing_the_record(opener: Opener) -> None:
    journal = opener()
    journal.append(proposed(1, arguments={"list": [LARGE, "x"]}), 1)
    log = RunLog(journal.directory)
    (record,) = log.events(Proposed)
    before = repr(record)
    assert log.whole(record) == log.whole(record)
    assert repr(record) == before


# ---- what a made-up journal says -----------------------------------------------------------------


def line_of(
    type_name: str, body: str, *, front: str = "", middle: str = "", back: str = ""
) -> bytes:
    return (
        f'{{"after":"{ZEROS}","at":1,{front}"body":{body}{middle},"n":0{back},"type":"{type_name}"}}'
    ).encode()


BLOB = f'"blobs":[{{"form":"text","path":"/text","sha256":"{ZEROS}","size_bytes":1}}]'


@pytest.mark.parametrize(
    "line",
    [
        line_of("marked", '{"text":"x"}', front='"step":7,'),
        line_of("marked", f'{{"text":"{"x" * 100}"}}', middle=f",{BLOB}"),
    ],
    ids=["a step", "blobs"],
)
def test_record_does_not_tell_verify_one_thing_and_readers_another(
    tmp_path: Path, line: bytes
) -> None:
    Chain().follow(line)  # `verify` accepts it: it sees neither the step nor the blob
    (tmp_path / segment_name(1)).write_bytes(line + b"\n")
    with pytest.raises(IntegrityError, match="record 0 is not written as a journal is"):
        list(RunLog(tmp_path).events())


@pytest.mark.parametrize(
    ("type_name", "body"),
    [
        ("refused_again", '{"count":9007199254740993,"first_at":1,"last_at":2}'),
        ("refused_again", '{"count":-1,"first_at":1,"last_at":2}'),
        ("refused_again", '{"count":1,"first_at":-1,"last_at":2}'),
        ("refused_again", '{"count":1,"first_at":1,"last_at":253402300800000000}'),
        ("program_ended", f'{{"duration_us":{"9" * 400}}}'),
        ("budget_used_up", f'{{"budget_bytes":{"9" * 400}}}'),
        ("world_changed", f'{{"positions":{{"a":{"9" * 400}}}}}'),
        ("terms_changed", f'{{"at":{"9" * 400},"policy":{{}}}}'),
    ],
)
def test_number_that_no_writer_writes_is_not_calculated_with(type_name: str, body: str) -> None:
    assert isinstance(decode(line_of(type_name, body)).event, Unknown)


def test_number_in_a_result_that_no_writer_writes_is_none() -> None:
    assert whole_number(1 << 53) == 1 << 53
    assert whole_number(10**400) is None
    assert whole_number(-(10**400)) is None


@pytest.mark.parametrize("claimed", [-5, 1 << 53])
def test_size_that_a_journal_claims_does_not_say_how_much_memory_is_used(
    tmp_path: Path, claimed: int
) -> None:
    path = tmp_path / "blobs" / "00" / ZEROS
    path.parent.mkdir(parents=True)
    with open(path, "wb") as file:
        file.truncate(1 << 40 if claimed < 0 else 10)  # it takes no room on the disk
    with pytest.raises(IntegrityError):
        Blobs(tmp_path).read(ZEROS, limit=claimed)


def test_blob_that_a_record_names_many_times_is_not_read_without_end(
    opener: Opener, monkeypatch: pytest.MonkeyPatch
) -> None:
    journal = opener()
    journal.append(proposed(1, arguments={"list": [LARGE] * 10}), 1)
    log = RunLog(journal.directory)
    (record,) = log.events(Proposed)
    monkeypatch.setattr(blobs_module, "_MAX_WHOLE_BYTES", 9 * len(LARGE))
    with pytest.raises(IntegrityError, match="larger than a record can be"):
        log.whole(record)


@pytest.mark.timeout(20)
def test_any_number_of_programs_of_one_step_is_joined_quickly() -> None:
    """An agent may start as many as it likes, and all of them belong to its own step."""
    count = 60_000
    started = [ProgramStarted("/bin/true", pid=pid) for pid in range(count)]
    ended = [ProgramEnded(pid=pid, exit_code=pid) for pid in reversed(range(count))]
    records = [Record(n, 1, 1, event) for n, event in enumerate(started)]
    records += [Record(n, 1, 1, event) for n, event in enumerate(ended, count)]
    programs = Step(1, records).programs
    assert all(one.ended and one.ended.exit_code == one.started.pid for one in programs)


def test_result_of_a_tool_does_not_pass_for_a_request_around_a_model_call() -> None:
    records = [Record(0, 1, 2, proposed(2)), Record(1, 1, 2, settled({"model_step": 3}))]
    step = Step(2, records)
    assert step.model_step is None


def test_a_count_of_400_digits_in_a_result_is_no_count() -> None:
    request = Proposed(Kind.HTTP, "GET a.example", {"host": "a.example"}, Effect.READ, True, False)
    answer = Settled(Outcome.DONE, {"status": 200, "bytes": 10**400, "bytes_in": -1})
    traffic = Traffic.of(Step(1, [Record(1, 1, 1, request), Record(2, 2, 1, answer)]))
    assert traffic is not None
    assert traffic.bytes_in == 0
