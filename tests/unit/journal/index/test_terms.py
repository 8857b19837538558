"""What the index knows of a run's origin and of the terms that a fork may change."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from msgspec.structs import replace

from cases import for_each
from paddock.journal.index.index import RunIndex
from paddock.journal.index.terms import (
    MAX_TERMS,
    MAX_WORDS,
    changed_terms,
    configured_terms,
    opened_terms,
    run_terms,
)
from paddock.model.events import Configured, Lineage, Opened, PolicySource
from unit.journal.conftest import OPENED, Opener


def policy_terms(text: str) -> dict[str, str]:
    return configured_terms(Configured(policy=PolicySource(text, name="/a/b/paddock.yaml")))


def test_index_knows_the_origin_and_the_terms_of_a_run(opener: Opener, tmp_path: Path) -> None:
    lineage = Lineage("first", "first", at=7)
    opened = replace(OPENED, kind="fork", lineage=lineage, seed="3", command=["a", "b c"])
    journal = opener(opened=opened)
    with RunIndex(tmp_path / "index.sqlite") as index:
        index.update(journal.directory)  # before the run is configured
        journal.append(Configured(policy=PolicySource("limits: {pids: 3}")))
        index.update(journal.directory)
        journal.append(Configured(policy=PolicySource("limits: {pids: 4}")))
        index.update(journal.directory)
        row = index.run("run-1")
    assert (row.kind, row.parent, row.forked_at) == ("fork", "first", 7)
    assert row.terms["command"] == "a 'b c'"
    assert (row.terms["seed"], row.terms["stage"]) == ("3", "draft")
    assert "limits.pids" in row.terms


def test_policy_too_large_for_a_line_is_read_from_its_blob(opener: Opener, tmp_path: Path) -> None:
    journal = opener()
    text = "".join(f"a{n}: {n}\n" for n in range(5000)) + "limits: {pids: 3}\n"
    journal.append(Configured(policy=PolicySource("limits: {pids: 3}\n" + text)))
    with RunIndex(tmp_path / "index.sqlite") as index:
        index.update(journal.directory)
        assert len(index.run("run-1").terms) > MAX_TERMS // 2
        for blob in (journal.directory / "blobs").rglob("*"):
            if blob.is_file():
                blob.unlink()
        index.rebuild(tmp_path)  # what a blob had is lost, the run is not
        assert "stage" in index.run("run-1").terms


def test_journal_of_a_sandbox_without_lineage_is_a_run(opener: Opener, tmp_path: Path) -> None:
    journal = opener()
    with RunIndex(tmp_path / "index.sqlite") as index:
        index.update(journal.directory)
        row = index.run("run-1")
    assert (row.kind, row.parent, row.forked_at) == ("run", None, None)


def test_policy_is_known_by_the_paths_to_its_values() -> None:
    found = policy_terms(
        "version: 1\nagent: a\nstage: broad\nsandbox: {limits: {pids: 3, memory: 1GiB}}\n"
        "faults: [flaky, {id: slow, fault: {delay: 1}}]\nrules: [{id: one, decide: allow}]\n"
        "world: {api.example: payments}\n"
    )
    assert set(found) == {
        "policy", "sandbox.limits.pids", "sandbox.limits.memory", "fault flaky", "fault slow",
        "rule one", "world.api.example",
    }  # fmt: skip
    assert found["policy"] == "paddock.yaml"


@for_each(
    ("mine", "theirs", "words"),
    [
        ({"stage": "narrow"}, {"stage": "draft"}, ("stage narrow",)),
        ({"seed": "7"}, {}, ("seed 7",)),
        ({"limits.pids": "3"}, {"limits.pids": "4"}, ("limits.pids=3",)),
        ({"fault slow": "x"}, {}, ("fault slow",)),
        ({"rule a": "x"}, {"rule a": "y"}, ("rule a",)),
        ({}, {"fault slow": "x"}, ("no fault slow",)),
        ({"policy_digest": "abcdefghij"}, {"policy_digest": "x"}, ("policy abcdefgh",)),
        ({"policy_digest": "a", "stage": "b"}, {"policy_digest": "x"}, ("stage b",)),
        ({"policy_digest": "a", "seed": "1"}, {"policy_digest": "x"}, ("seed 1", "policy a")),
        ({"policy_digest": "a"}, {"policy_digest": "a"}, ()),
    ],
)
def test_changes_are_said_in_few_words(
    mine: dict[str, str], theirs: dict[str, str], words: tuple[str, ...]
) -> None:
    assert changed_terms(mine, theirs) == words


def test_what_a_fork_was_told_holds_over_what_its_past_had() -> None:
    words = {"stage": "narrow", "policy": "/p/fixed.yaml", "set": ["limits.pids=9"], "seed": 4,
             "faults": [{"id": "lost"}, "flaky", {"fault": 1}], "command": ["a", "b"]}  # fmt: skip
    opened = replace(OPENED, stage="broad", seed="f" * 64, lineage=Lineage("r", at=3))
    configured = Configured(policy=PolicySource("limits: {pids: 3}", name="/p/paddock.yaml"))
    before = run_terms(opened, configured)
    after = run_terms(replace(opened, lineage=Lineage("r", at=3, options=words)), configured)
    assert set(changed_terms(after, before)) == {
        "stage narrow", "policy fixed.yaml", "limits.pids=9", "seed 4", "command a b",
        "fault lost", "fault flaky", 'fault {"fault": 1}',
    }  # fmt: skip


@pytest.mark.parametrize(
    "odd",
    [{"set": 3, "faults": {"a": 1}, "command": 7}, {"set": [3, None], "policy": 3, "stage": []}],
)
def test_options_of_any_shape_are_no_error(odd: dict[str, Any]) -> None:
    opened = replace(OPENED, lineage=Lineage("r", options=odd))
    changed_terms(opened_terms(opened), {})


def test_index_has_the_words_of_a_fork(opener: Opener, tmp_path: Path) -> None:
    lineage = Lineage("first", at=7, options={"set": ["limits.pids=9"], "faults": "flaky"})
    journal = opener(opened=replace(OPENED, kind="fork", lineage=lineage))
    journal.append(Configured(policy=PolicySource("limits: {pids: 3}")))
    with RunIndex(tmp_path / "index.sqlite") as index:
        index.update(journal.directory)
        terms = index.run("run-1").terms
    assert terms["limits.pids"] == "9"
    assert "fault flaky" in terms


def test_long_values_that_differ_are_told_apart() -> None:
    one, other = (policy_terms(f"a: {'x' * 5000}{end}") for end in ("1", "2"))
    assert one["a"] != other["a"]
    assert len(one["a"]) <= MAX_WORDS


def test_policy_that_few_words_make_endless_is_not_read() -> None:
    bomb = "a: &a [x, x]\n" + "".join(
        f"{new}: &{new} [{', '.join([f'*{old}'] * 9)}]\n"
        for old, new in zip("abcdefgh", "bcdefghi", strict=True)
    )
    assert policy_terms(bomb) == {"policy": "paddock.yaml"}


@pytest.mark.parametrize(
    "text", ["", "a: [", "- 1", "\x00", "{" * 3000, "? {a: 1}\n: 2", "x" * 10**6]
)
def test_text_that_is_no_policy_has_no_terms(text: str) -> None:
    assert set(policy_terms(text)) == {"policy"}


def test_run_that_says_nothing_has_no_terms() -> None:
    assert run_terms(Opened("r", "a"), Configured()) == {}


def test_terms_are_bounded() -> None:
    found = policy_terms("".join(f"k{n}: {n}\n" for n in range(5000)))
    assert len(found) <= MAX_TERMS + 1
    assert all(len(one) <= MAX_WORDS for pair in found.items() for one in pair)
