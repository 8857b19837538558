"""What a model was asked is kept once, reads back equal, and cannot be changed unseen."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from paddock.journal import conversations as module
from paddock.journal.conversations import Conversations, conversation_of, request_of
from paddock.journal.errors import JournalBroken
from paddock.journal.integrity.findings import VerifyFinding
from paddock.journal.integrity.keys import SigningKey
from paddock.journal.integrity.verify import verify
from paddock.journal.log import RunLog
from paddock.journal.nodes import FILE_NAME, NodeReader
from paddock.journal.secrets.mask import Masker
from paddock.journal.secrets.value_hmac import ValueHmac
from paddock.journal.writer import Journal
from paddock.model.action import Kind
from paddock.model.errors import IntegrityError, NotFound
from paddock.model.events import Marked, Opened
from unit.journal.conftest import Opener, proposed

SECRET = "sk-live-4242424242"


def ask(journal: Journal, body: dict[str, Any], step: int, of: str = "messages") -> dict[str, Any]:
    """Proposes a request to a model as a door does."""
    arguments = journal.conversations.request(body, of)
    journal.append(proposed(step, kind=Kind.MODEL, arguments=arguments), step)
    return arguments


def turn(number: int) -> dict[str, Any]:
    return {"role": "user", "content": f"turn {number} " + "x" * 1000}


def size_of(directory: Path) -> int:
    return sum(path.stat().st_size for path in directory.rglob("*") if path.is_file())


def test_conversation_grows_the_journal_by_what_is_new_and_reads_back_equal(
    opener: Opener, key: SigningKey
) -> None:
    journal = opener()
    messages: list[dict[str, Any]] = []
    half = 0
    tools = [{"name": "search", "description": "d" * 3000}]
    for number in range(200):
        messages.append(turn(number))
        body = {"model": "m", "system": "s" * 5000, "tools": tools, "messages": messages}
        ask(journal, body, number)
        half = size_of(journal.directory) if number == 99 else half
    whole = size_of(journal.directory)
    assert whole <= 2.2 * half
    assert whole < 600_000  # all turns together were 20 MB
    log = RunLog(journal.directory)
    for number in range(200):
        arguments = log.whole_step(log.step(number)).arguments
        assert conversation_of(log, arguments) == messages[: number + 1]
    assert request_of(log, arguments) == body
    journal.close()
    assert verify(journal.directory, key.public).ok


def test_answered_messages_share_nodes_and_other_endings_do_not(opener: Opener) -> None:
    journal = opener()
    first = journal.conversations.add([turn(1), turn(2)])
    again = journal.conversations.add([turn(1), turn(2)])
    other = journal.conversations.add([turn(2), turn(1)])
    assert first == again
    assert other["last"] != first["last"]
    assert len((journal.directory / FILE_NAME).read_bytes().splitlines()) == 4


def test_one_and_true_and_one_point_zero_are_three_messages(opener: Opener) -> None:
    journal = opener()
    ends = [journal.conversations.add([{"n": value}])["last"] for value in (1, True, "1", 1.5)]
    assert len(set(ends)) == 4


def test_images_are_kept_once_and_read_back(opener: Opener, key: SigningKey) -> None:
    journal = opener()
    image = {"type": "image", "source": {"type": "base64", "data": "QUJD" * 50_000}}
    one = {"role": "user", "content": [image, {"type": "text", "text": "what is it?"}]}
    two = {"role": "user", "content": [{"type": "text", "text": "again"}, image]}
    ask(journal, {"model": "m", "messages": [one]}, 1)
    arguments = ask(journal, {"model": "m", "messages": [one, two]}, 2)
    journal.close()
    assert size_of(journal.directory) < 1.5 * len(image["source"]["data"])
    assert conversation_of(RunLog(journal.directory), arguments) == [one, two]
    assert verify(journal.directory, key.public).ok


def test_what_looks_like_a_reference_is_a_text_like_any_other(opener: Opener) -> None:
    journal = opener()
    ref = {"form": "text", "path": "/message", "sha256": "0" * 64, "size_bytes": 1}
    sly = {"role": "user", "blobs": [ref], "before": "0" * 64, "message": {"blobs": [ref]}}
    arguments = journal.conversations.request({"messages": [sly], "refs": {"a": "b"}}, "messages")
    assert request_of(RunLog(journal.directory), arguments) == {
        "messages": [sly],
        "refs": {"a": "b"},
    }


@pytest.mark.parametrize("given", ["one text", "", [], [{"role": "user", "content": "a"}]])
def test_input_of_any_shape_comes_back_as_it_was(opener: Opener, given: Any) -> None:
    journal = opener()
    body = {"model": "m", "input": given, "instructions": "be short", "long": ["v" * 3000]}
    arguments = journal.conversations.request(body, "input")
    assert request_of(RunLog(journal.directory), arguments) == body
    assert set(arguments["refs"]) == {"instructions", "long"}


def test_messages_that_are_no_list_stay_in_the_request(opener: Opener) -> None:
    arguments = opener().conversations.request({"messages": {"a": 1}}, "messages")
    assert arguments == {"request": {"messages": {"a": 1}}}


def test_secrets_reach_no_file_and_are_compared_by_their_hash(opener: Opener) -> None:
    journal = opener(masker=Masker({"KEY": SECRET, "OTHER": "another-secret"}))
    keyed = ValueHmac(b"k" * 32)

    def last(text: str) -> str:
        body = {"messages": [{"role": "user", "content": f"my key is {text}"}], "system": text}
        arguments = journal.conversations.request(body, "messages", keyed)
        return str(arguments["conversation"]["last"])

    assert last(SECRET) == last(SECRET)
    long = last(SECRET + "l" * 40_000)
    assert long != last(SECRET)
    for path in journal.directory.rglob("*"):
        assert not path.is_file() or SECRET.encode() not in path.read_bytes()
    node, _ = NodeReader(journal.directory).read(last(SECRET), 1 << 20)
    assert node["message"]["content"] == "my key is {{secret:KEY}}"
    assert node["keyed"] == {"/message/content": keyed.of(f"my key is {SECRET}")}


def test_two_secrets_under_one_mask_are_two_messages_when_they_are_keyed(opener: Opener) -> None:
    journal = opener(masker=Masker({"KEY": SECRET}))
    spelled = ["%73" + SECRET[1:], SECRET]  # the same secret in two spellings
    keyed = ValueHmac(b"k" * 32)
    ends = {journal.conversations.add([text], keyed)["last"] for text in spelled}
    assert len(ends) == 2


def test_too_many_messages_are_counted_and_not_kept(
    opener: Opener, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "MAX_MESSAGES", 3)
    journal = opener()
    assert journal.conversations.add([1, 2, 3])["last"] is not None
    assert journal.conversations.add([1, 2, 3, 4]) == {"count": 4, "is_cut": True}


def test_what_was_forgotten_is_written_again_under_the_same_name(
    opener: Opener, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "_MAX_KNOWN", 2)
    journal = opener()
    messages = [turn(number) for number in range(5)]
    first, again = journal.conversations.add(messages), journal.conversations.add(messages)
    assert first == again
    assert conversation_of(RunLog(journal.directory), {"conversation": first}) == messages


VALUES = st.recursive(
    st.none()
    | st.booleans()
    | st.integers(-(2**53), 2**53)
    | st.text(st.characters(codec="utf-8")),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner),
    max_leaves=12,
)


@given(st.dictionaries(st.text(max_size=8), VALUES, max_size=5), st.lists(VALUES, max_size=6))
def test_any_request_comes_back_as_it_was(
    tmp_path_factory: pytest.TempPathFactory, body: dict[str, Any], messages: list[Any]
) -> None:
    directory = tmp_path_factory.mktemp("run")
    key = SigningKey.open(directory / "keys")
    journal = Journal.create(directory / "r", opened=Opened("r", "a"), key=key, is_quick=True)
    whole = {**body, "messages": messages}
    arguments = json.loads(json.dumps(journal.conversations.request(whole, "messages")))
    assert request_of(RunLog(journal.directory), arguments) == whole
    journal.abandon()
    shutil.rmtree(directory)


def test_numbers_and_texts_that_json_cannot_say_are_kept_as_texts(opener: Opener) -> None:
    journal = opener()
    odd = [{"big": 2**60, "half": "\ud800", "far": float("inf")}]
    arguments = journal.conversations.request({"messages": odd}, "messages")
    (kept,) = conversation_of(RunLog(journal.directory), arguments)
    assert kept == {"big": str(2**60), "half": "\\ud800", "far": "inf"}


# ---- attacks on what was written -----------------------------------------------------------------


@pytest.fixture
def asked(opener: Opener) -> tuple[Path, dict[str, Any]]:
    journal = opener()
    body = {"model": "m", "messages": [turn(1), {"content": "y" * 40_000}, turn(3)], "tools": [1]}
    arguments = ask(journal, body, 1)
    journal.close()
    return journal.directory, arguments


def _changed_word(lines: list[bytes]) -> list[bytes]:
    return [line.replace(b"turn 1", b"turn 7") for line in lines]


def _without_first(lines: list[bytes]) -> list[bytes]:
    return lines[1:]


def _cut(lines: list[bytes]) -> list[bytes]:
    return [line[:-1] for line in lines]


@pytest.mark.parametrize("attack", [_changed_word, _without_first, _cut])
def test_message_that_was_changed_or_taken_out_is_found(
    asked: tuple[Path, dict[str, Any]],
    key: SigningKey,
    attack: Callable[[list[bytes]], list[bytes]],
) -> None:
    directory, arguments = asked
    assert verify(directory, key.public).blobs == 4  # three messages, and the tools
    path = directory / FILE_NAME
    path.write_bytes(b"\n".join(attack(path.read_bytes().splitlines())) + b"\n")
    report = verify(directory, key.public)
    assert [one.finding for one in report.problems] == [VerifyFinding.BLOB_MISSING]
    assert report.problems[0].n is not None
    with pytest.raises(NotFound):
        conversation_of(RunLog(directory), arguments)


def test_long_part_of_a_message_that_was_changed_is_found(
    asked: tuple[Path, dict[str, Any]], key: SigningKey
) -> None:
    directory, arguments = asked
    (blob,) = (path for path in (directory / "blobs").rglob("*") if path.is_file())
    blob.write_bytes(b"z" * 40_000)
    report = verify(directory, key.public)
    assert [one.finding for one in report.problems] == [VerifyFinding.BLOB_CHANGED]
    with pytest.raises(IntegrityError):
        conversation_of(RunLog(directory), arguments)


def test_link_in_place_of_the_messages_is_not_followed(
    asked: tuple[Path, dict[str, Any]], key: SigningKey
) -> None:
    directory, arguments = asked
    (directory / FILE_NAME).rename(directory / "elsewhere")
    (directory / FILE_NAME).symlink_to(directory / "elsewhere")
    with pytest.raises(IntegrityError, match="unreadable"):
        conversation_of(RunLog(directory), arguments)
    assert not verify(directory, key.public).ok


def test_nodes_that_nobody_names_are_nobodys_problem(
    asked: tuple[Path, dict[str, Any]], key: SigningKey
) -> None:
    directory, arguments = asked
    with open(directory / FILE_NAME, "ab") as file:
        file.write(b'{"no":"node"}\nnot json\n{"torn":')
    assert verify(directory, key.public).ok
    assert len(conversation_of(RunLog(directory), arguments)) == 3


@pytest.mark.parametrize(
    "forged",
    [
        {"conversation": {"last": "../../etc/passwd", "count": 1}},
        {"conversation": {"last": "é" * 64, "count": 1}},
        {"conversation": {"last": "g" * 64, "count": 1}},
        {"conversation": {"last": 7, "count": 1}},
        {"conversation": [1]},
        {"refs": {"system": 7}},
        {"refs": ["x"]},
        {"refs": {"system": "zz"}},
    ],
)
def test_names_that_are_no_digests_are_refused(
    asked: tuple[Path, dict[str, Any]], forged: dict[str, Any]
) -> None:
    read = request_of if "refs" in forged else conversation_of
    with pytest.raises(IntegrityError):
        read(RunLog(asked[0]), forged)


def test_chain_of_another_length_than_was_recorded_is_refused(
    asked: tuple[Path, dict[str, Any]],
) -> None:
    directory, arguments = asked
    last = arguments["conversation"]["last"]
    for count in (2, 4, None):
        with pytest.raises(IntegrityError):
            conversation_of(RunLog(directory), {"conversation": {"last": last, "count": count}})


def test_record_that_names_a_shorter_chain_than_it_says_does_not_verify(
    opener: Opener, key: SigningKey
) -> None:
    journal = opener()
    about = journal.conversations.add([turn(1), turn(2)]) | {"count": 3}
    arguments = {"conversation": about, "request": {}}
    journal.append(proposed(1, kind=Kind.MODEL, arguments=arguments), 1)
    journal.close()
    report = verify(journal.directory, key.public)
    assert [one.finding for one in report.problems] == [VerifyFinding.BLOB_CHANGED]


def test_requests_of_agents_that_only_look_like_ours_are_not_followed(
    opener: Opener, key: SigningKey
) -> None:
    journal = opener()
    sly = {"kind": "model", "conversation": {"last": "0" * 64, "count": 1}, "refs": {"a": "b"}}
    journal.append(proposed(1, kind=Kind.HTTP, arguments={"body": sly}), 1)
    journal.close()
    assert verify(journal.directory, key.public).ok


def test_reading_ends_at_a_bound(
    asked: tuple[Path, dict[str, Any]], monkeypatch: pytest.MonkeyPatch
) -> None:
    directory, arguments = asked
    monkeypatch.setattr(module, "MAX_READ_BYTES", 20_000)
    with pytest.raises(IntegrityError, match="larger"):
        conversation_of(RunLog(directory), arguments)
    monkeypatch.setattr(module, "MAX_READ_BYTES", 1 << 20)
    monkeypatch.setattr(module, "MAX_MESSAGES", 2)
    with pytest.raises(IntegrityError, match="more than 2"):
        conversation_of(RunLog(directory), arguments)


def test_interrupted_writer_leaves_what_it_had_written_and_the_next_goes_on(
    opener: Opener, key: SigningKey
) -> None:
    journal = opener()
    before = ask(journal, {"messages": [turn(1)]}, 1)
    journal.abandon()
    with open(journal.directory / FILE_NAME, "ab") as file:
        file.write(b'{"before":null,"mess')
    again = Journal.recover(journal.directory, key=key)
    after = ask(again, {"messages": [turn(1), turn(2)]}, 2)
    again.close()
    log = RunLog(journal.directory)
    assert conversation_of(log, before) == [turn(1)]
    assert conversation_of(log, after) == [turn(1), turn(2)]
    assert verify(journal.directory, key.public).ok


def test_reader_follows_a_conversation_that_is_still_written(opener: Opener) -> None:
    journal = opener()
    log = RunLog(journal.directory)
    for number in range(3):
        messages = [turn(one) for one in range(number + 1)]
        arguments = ask(journal, {"messages": messages}, number)
        assert conversation_of(log, arguments) == messages


def test_what_cannot_be_kept_breaks_the_journal(opener: Opener) -> None:
    journal = opener()
    (journal.directory / FILE_NAME).symlink_to("/dev/full")
    with pytest.raises(JournalBroken):
        journal.conversations.add([turn(1)])
    with pytest.raises(JournalBroken):
        journal.append(Marked("m"))


def test_closed_journal_keeps_nothing_more(opener: Opener) -> None:
    journal = opener()
    journal.close()
    with pytest.raises(JournalBroken):
        journal.conversations.add([turn(1)])


def test_failed_write_is_not_taken_for_kept(opener: Opener) -> None:
    failing = iter([JournalBroken("full")])

    def keep(value: Any, keyed: Any) -> str:
        for error in failing:
            raise error
        return "0" * 64

    kept = Conversations(keep)
    with pytest.raises(JournalBroken):
        kept.add(["a"])
    assert kept.add(["a"])["last"] == "0" * 64
