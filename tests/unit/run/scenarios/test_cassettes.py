"""Records beside tests: where they lie, and when they are made, replayed or refused."""

from __future__ import annotations

from pathlib import Path

import pytest

from paddock.model.errors import InvalidInput, NotFound
from paddock.run.scenarios.cassettes import (
    JOURNAL,
    WORLD,
    Cassettes,
    LeftRecord,
    RecordMode,
    is_record,
    keep,
    place_of,
    requested_run,
)
from paddock.run.scenarios.result import RunResult
from unit.run.recorded import Crossed, agent, record

COMMAND = ("python", "agent.py")


def test_a_record_lies_beside_its_test_and_no_two_tests_share_one() -> None:
    file = Path("/tests/test_refund.py")
    assert place_of(file, "test_one") == Path("/tests/paddock_runs/test_refund/test_one")
    odd = ["test_one[a/b]", "test_one[a_b]", "test_one[..]", "TestA.test_one", "t" * 300, "t" * 301]
    places = {place_of(file, name) for name in odd}
    assert len(places) == len(odd)
    for place in places:
        assert place.parent == Path("/tests/paddock_runs/test_refund")
        assert len(place.name) < 200


def kept(tmp_path: Path) -> Path:
    result = RunResult(record(tmp_path / "home", "r", [Crossed(agent(*COMMAND))]), world={"a": {}})
    keep(result, tmp_path / "records" / "1")
    return tmp_path / "records"


def test_a_record_carries_its_journal_its_key_and_its_world(tmp_path: Path) -> None:
    place = kept(tmp_path) / "1"
    assert is_record(place)
    assert (place / WORLD).read_text() == '{\n "a": {}\n}\n'
    assert {one.name for one in (place / JOURNAL).iterdir()} == {"000001.jsonl", "run.key"}
    assert [one.name for one in place.parent.iterdir()] == ["1"]


def test_without_a_record_none_is_a_failure_that_says_what_to_do(tmp_path: Path) -> None:
    with pytest.raises(NotFound, match="--paddock-record=once"):
        Cassettes(tmp_path, RecordMode.NONE).run(requested_run(COMMAND, tmp_path, {}))


def test_a_record_of_another_command_is_not_replayed(tmp_path: Path) -> None:
    asked = requested_run(("python", "other.py"), tmp_path, {})
    with pytest.raises(LeftRecord, match=r"another command: python agent\.py"):
        Cassettes(kept(tmp_path), RecordMode.NONE).run(asked)


def test_a_record_under_other_terms_is_not_replayed(tmp_path: Path) -> None:
    with pytest.raises(LeftRecord, match="the paddock file, the world, the faults or the seed"):
        Cassettes(kept(tmp_path), RecordMode.NONE).run(requested_run(COMMAND, tmp_path, {}))


@pytest.mark.parametrize(
    ("words", "said"),
    [
        ({"wrld": {}}, "did you mean world"),
        ({"files": {"../x": "a"}}, "not a path in the project"),
        ({"world": {"a.example": "payment"}}, "did you mean payments"),
        ({"file": "nope.yaml"}, "cannot be read"),
    ],
)
def test_words_that_are_wrong_are_refused(
    tmp_path: Path, words: dict[str, object], said: str
) -> None:
    with pytest.raises(InvalidInput, match=said):
        requested_run(COMMAND, tmp_path, words)
