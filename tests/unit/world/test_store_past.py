"""The past of a store: rewound, forked, sealed, compared, killed. Digests tell its states apart."""

from __future__ import annotations

import os
import signal
import sqlite3
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from paddock.model.errors import InvalidInput
from paddock.world.changes import DocumentChange
from paddock.world.store import STEP, Store

SAFE = settings(suppress_health_check=[HealthCheck.function_scoped_fixture])
MANY = 100_000
Act = Callable[[Store], object]


@pytest.fixture
def store(tmp_path: Path) -> Iterator[Store]:
    with Store.open(tmp_path / "store.sqlite") as store:
        yield store


@pytest.fixture(scope="module")
def large(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Store]:
    with Store.open(tmp_path_factory.mktemp("large") / "store.sqlite") as store:
        with store.transaction():
            for number in range(MANY):
                store.put("things", f"t{number}", {"id": f"t{number}", "n": number % 97})
        store.index("things", "n")
        store.seal()
        yield store


def put(kind: str, id: str, value: Any) -> Act:
    return lambda store: store.put(kind, id, {"value": value})


def in_step(step: int, act: Act) -> Act:
    def run(store: Store) -> None:
        token = STEP.set(step)
        try:
            act(store)
        finally:
            STEP.reset(token)

    return run


def failing(acts: list[Act]) -> Act:
    def run(store: Store) -> None:
        with pytest.raises(KeyError), store.transaction():
            for act in acts:
                act(store)
            raise KeyError

    return run


def together(acts: list[Act]) -> Act:
    def run(store: Store) -> None:
        with store.transaction():
            for act in acts:
                act(store)

    return run


kinds, ids = st.sampled_from(["a", "b"]), st.sampled_from(["1", "2", "3", "x'\"\0"])
simple: st.SearchStrategy[Act] = st.one_of(
    st.builds(put, kinds, ids, st.integers(0, 3)),
    st.builds(lambda kind, id: lambda store: store.delete(kind, id), kinds, ids),
    st.builds(lambda name: lambda store: store.next(name), st.sampled_from(["n", "m"])),
)
acts: st.SearchStrategy[Act] = st.recursive(
    simple,
    lambda inner: st.one_of(
        st.builds(together, st.lists(inner, max_size=4)),
        st.builds(failing, st.lists(inner, max_size=4)),
        st.builds(in_step, st.integers(1, 9), inner),
    ),
    max_leaves=8,
)


def fresh(path: Path) -> Store:
    for end in ("", "-wal", "-shm"):
        path.with_name(path.name + end).unlink(missing_ok=True)
    return Store.open(path)


@SAFE
@given(st.lists(acts, max_size=6), st.lists(acts, max_size=12), st.data())
def test_rewinding_to_any_position_gives_the_state_then(
    tmp_path: Path, before: list[Act], after: list[Act], data: st.DataObject
) -> None:
    with fresh(tmp_path / "s.sqlite") as store:
        for act in before:
            act(store)
        store.seal()
        past = [(store.position(), store.digest(), store.ids("a"), store._all())]
        for act in after:
            act(store)
            past.append((store.position(), store.digest(), store.ids("a"), store._all()))
        for at in sorted(data.draw(st.sets(st.integers(0, len(past) - 1))), reverse=True):
            position, digest, ids, documents = past[at]
            store.rewind(position)
            assert (store.position(), store.digest()) == (position, digest)
            assert (store.ids("a"), store._all()) == (ids, documents)
        store.reset()
        assert store.digest() == past[0][1]
        assert store.changes() == []


@SAFE
@given(st.lists(acts, max_size=4), st.lists(acts, max_size=8), st.data())
def test_changes_are_the_difference_between_two_moments(
    tmp_path: Path, before: list[Act], after: list[Act], data: st.DataObject
) -> None:
    with fresh(tmp_path / "s.sqlite") as store:
        for act in before:
            act(store)
        store.seal()
        past = [(store.position(), documents(store))]
        for act in after:
            act(store)
            past.append((store.position(), documents(store)))
        first = data.draw(st.integers(0, len(past) - 1))
        last = data.draw(st.integers(first, len(past) - 1))
        (since, was), (until, now) = past[first], past[last]
        found = {(one.kind, one.id): one for one in store.changes(since, until)}
        assert set(found) == {key for key in {**was, **now} if was.get(key) != now.get(key)}
        for key, one in found.items():
            assert (one.before, one.after) == (was.get(key), now.get(key))


def documents(store: Store) -> dict[tuple[str, str], dict[str, Any]]:
    return {
        (kind, id): store.get(kind, id) or {} for kind in store.kinds() for id in store.ids(kind)
    }


@SAFE
@given(st.lists(acts, max_size=6), st.lists(acts, max_size=6))
def test_the_same_acts_after_a_rewind_give_the_same_state(
    tmp_path: Path, first: list[Act], second: list[Act]
) -> None:
    with fresh(tmp_path / "s.sqlite") as store:
        for act in first:
            act(store)
        store.seal()
        digests = []
        for _ in range(2):
            for act in second:
                act(store)
            digests.append((store.position(), store.digest()))
            store.reset()
        assert digests[0] == digests[1]


def test_positions_that_are_not_there_are_refused(store: Store) -> None:
    store.put("a", "1", {})
    store.seal()
    store.put("a", "2", {})
    for position in (-1, store.sealed - 1, store.position() + 1):
        with pytest.raises(InvalidInput, match="no state at position"):
            store.rewind(position)
    assert store.ids("a") == ["1", "2"]


def test_a_rewind_that_fails_in_the_middle_changes_nothing(store: Store) -> None:
    store.seal()
    store.put("a", "1", {"v": 1})
    store.put("a", "1", {"v": 2})
    store._database.execute(
        "CREATE TRIGGER t BEFORE DELETE ON changes BEGIN SELECT RAISE(ABORT, 'no'); END"
    )
    before = store.digest()
    with pytest.raises(sqlite3.Error):
        store.reset()
    assert store.digest() == before
    store._database.execute("DROP TRIGGER t")
    store.reset()
    assert store.kinds() == []


def test_the_seal_is_a_new_beginning(store: Store) -> None:
    store.put("a", "1", {"v": 1})
    store.seal()
    position = store.position()
    assert (store.changes(), store.sealed) == ([], position)
    store.put("a", "1", {"v": 2})
    store.seal()
    assert store.position() > position
    store.reset()
    assert store.get("a", "1") == {"v": 2}


def test_a_store_that_was_never_sealed_begins_empty(store: Store) -> None:
    store.put("a", "1", {})
    store.next("n")
    store.reset()
    assert store.kinds() == []
    assert store.next("n") == 1


def test_what_came_and_went_is_no_change_and_what_came_back_is_none_either(store: Store) -> None:
    store.put("a", "kept", {"v": 1})
    store.seal()
    store.put("a", "new", {})
    store.delete("a", "new")
    store.put("a", "kept", {"v": 2})
    store.put("a", "kept", {"v": 1})
    assert store.changes() == []
    store.put("a", "kept", {"v": 3})
    assert store.changes() == [DocumentChange("a", "kept", {"v": 1}, {"v": 3}, None)]


def test_the_digest_tells_order_kinds_ids_and_counters_apart(tmp_path: Path) -> None:
    def digest(*some: Act) -> str:
        with fresh(tmp_path / "d.sqlite") as store:
            for act in some:
                act(store)
            return store.digest()

    one, two = put("a", "1", 1), put("a", "2", 1)
    found = [
        digest(), digest(one), digest(two), digest(one, two), digest(two, one),
        digest(put("b", "1", 1)), digest(put("a", "1", "1")), digest(put("a1", "", 1)),
        digest(one, lambda store: store.next("n")), digest(one, lambda store: store.next("m")),
    ]  # fmt: skip
    assert len(set(found)) == len(found)
    assert digest(one, two, lambda store: store.delete("a", "2")) == digest(one)


def test_diff_compares_two_stores(store: Store, tmp_path: Path) -> None:
    store.put("a", "1", {"v": 1})
    store.put("a", "2", {})
    with store.fork(tmp_path / "fork.sqlite") as fork:
        assert store.diff(fork) == []
        fork.put("a", "1", {"v": 2})
        fork.delete("a", "2")
        fork.put("b", "3", {})
        assert {(one.id, one.before is None, one.after is None) for one in store.diff(fork)} == {
            ("1", False, False), ("2", False, True), ("3", True, False),
        }  # fmt: skip


def test_forks_of_a_large_store_are_independent_in_both_directions(
    large: Store, tmp_path: Path
) -> None:
    before = large.digest()
    with large.fork(tmp_path / "fork.sqlite") as fork:
        assert fork.digest() == before
        assert fork.count("things") == MANY
        fork.put("things", "t5", {"id": "t5", "n": -1})
        fork.delete("things", "t6")
        fork.next("n")
        forked = fork.digest()
        assert large.digest() == before
        large.put("things", "t7", {"id": "t7", "n": -2})
        for id in large.ids("things"):
            large.delete("things", id)
        large.put("other", "x", {})
        assert fork.digest() == forked
        assert fork.find("things", {"n": -1}) == [{"id": "t5", "n": -1}]
        with fork.fork(tmp_path / "second.sqlite") as second:
            second.reset()
            assert second.digest() == before
        assert fork.digest() == forked
        fork.reset()
        assert fork.digest() == before
    large.reset()
    assert large.digest() == before


def test_a_fork_has_the_past_the_index_and_the_blobs(store: Store, tmp_path: Path) -> None:
    store.index("a", "n")
    store.seal()
    blob = store.put_blob(b"bytes")
    store.put("a", "1", {"n": 1})
    position = store.position()
    store.put("a", "2", {"n": 2})
    with store.fork(tmp_path / "fork.sqlite") as fork:
        assert fork.blob(blob) == b"bytes"
        assert fork.changes() == store.changes()
        fork.rewind(position)
        assert fork.ids("a") == ["1"]
        names = fork._database.execute("SELECT name FROM sqlite_master WHERE type = 'index'")
        assert any(name.startswith("by_") for (name,) in names)
    assert store.ids("a") == ["1", "2"]


def test_a_fork_does_not_write_over_a_file(store: Store, tmp_path: Path) -> None:
    (tmp_path / "there").write_text("mine")
    with pytest.raises(InvalidInput, match="already"):
        store.fork(tmp_path / "there")
    assert (tmp_path / "there").read_text() == "mine"
    store.put("a", "1", {})  # and it goes on


def test_a_fork_is_whole_while_somebody_reads(store: Store, tmp_path: Path) -> None:
    store.put("a", "1", {})
    reading = sqlite3.connect(store.path)
    reading.execute("BEGIN")
    reading.execute("SELECT * FROM documents").fetchone()
    store.put("a", "2", {})  # the reader keeps the log from being emptied
    with store.fork(tmp_path / "fork.sqlite") as fork:
        assert fork.digest() == store.digest()
        assert fork.ids("a") == ["1", "2"]
        fork.put("a", "3", {})
    reading.close()


WRITER = """
import sys
from pathlib import Path
from paddock.world.store import Store
store = Store.open(Path(sys.argv[1]))
print("ready", flush=True)
number = 0
while True:
    number += 1
    with store.transaction():
        left = store.get("sums", "left") or {"value": 0}
        store.put("sums", "left", {"value": left["value"] - 1})
        store.put("things", f"t{number}", {"id": number})
        right = store.get("sums", "right") or {"value": 0}
        store.put("sums", "right", {"value": right["value"] + 1})
    if number == 20:
        print("going", flush=True)
"""


@pytest.fixture
def writer(store: Store) -> Iterator[subprocess.Popen[str]]:
    """Another process that moves amounts from one document to another, without end."""
    process = subprocess.Popen(
        [sys.executable, "-c", WRITER, str(store.path)],
        stdout=subprocess.PIPE,
        text=True,
        env={**os.environ, "PYTHONPATH": ":".join(sys.path)},
    )
    assert process.stdout is not None
    assert process.stdout.readline() == "ready\n"
    assert process.stdout.readline() == "going\n"
    yield process
    process.kill()
    process.communicate()


def is_whole(store: Store) -> bool:
    """No half of a transaction is there."""
    left, right = store.get("sums", "left"), store.get("sums", "right")
    assert left is not None and right is not None
    return left["value"] + right["value"] == 0 and store.count("things") == right["value"]


def test_forks_while_another_process_writes_are_whole(
    store: Store, writer: subprocess.Popen[str], tmp_path: Path
) -> None:
    seen = []
    for number in range(15):
        with store.fork(tmp_path / f"fork{number}.sqlite") as fork:
            assert is_whole(fork)
            assert fork._database.execute("PRAGMA integrity_check").fetchone() == ("ok",)
            seen.append(fork.count("things"))
            fork.put("mine", "1", {})
    assert seen == sorted(seen)
    assert writer.poll() is None
    assert not store.has("mine", "1")


def test_two_processes_write_to_one_file_and_nothing_is_lost(
    store: Store, writer: subprocess.Popen[str]
) -> None:
    for number in range(200):
        store.put("mine", str(number), {"n": number})
    assert writer.poll() is None
    assert store.count("mine") == 200


@pytest.mark.parametrize("attempt", range(5))
def test_a_writer_killed_in_the_middle_leaves_whole_transactions(
    store: Store, writer: subprocess.Popen[str], attempt: int
) -> None:
    for number in range(attempt * 7):
        store.put("mine", str(number), {})
    writer.send_signal(signal.SIGKILL)
    writer.wait()
    store.close()
    with Store.open(store.path) as again:
        assert is_whole(again)
        assert again._database.execute("PRAGMA integrity_check").fetchone() == ("ok",)
        count = again.count("things")
        again.put("things", "after", {})
        assert again.count("things") == count + 1
        again.reset()
        assert again.kinds() == []


def test_a_fork_that_fails_leaves_no_half_of_a_file(
    store: Store, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    store.put("a", "1", {})

    def full(*_: object) -> int:
        raise OSError(28, "No space left on device")

    with monkeypatch.context() as patch:
        patch.setattr(os, "copy_file_range", full)
        patch.setattr(os, "sendfile", full)
        with pytest.raises(OSError):
            store.fork(tmp_path / "fork.sqlite")
    with store.fork(tmp_path / "fork.sqlite") as fork:
        assert fork.ids("a") == ["1"]


def test_a_commit_that_fails_leaves_the_store_usable(store: Store) -> None:
    store._database.execute("PRAGMA foreign_keys = ON")
    store._database.execute("CREATE TABLE parent (id PRIMARY KEY)")
    store._database.execute(
        "CREATE TABLE child (id REFERENCES parent DEFERRABLE INITIALLY DEFERRED)"
    )
    with pytest.raises(sqlite3.IntegrityError), store.transaction():
        store.put("a", "1", {})
        store._execute("INSERT INTO child VALUES (1)")  # found out when all is to be kept
    assert not store.has("a", "1")
    store.put("a", "2", {})
    assert store.ids("a") == ["2"]


def test_a_full_disk_is_reported_as_that(store: Store) -> None:
    store.put("a", "1", {})
    pages = store._database.execute("PRAGMA page_count").fetchone()[0]
    store._database.execute(f"PRAGMA max_page_count = {pages + 2}")
    with pytest.raises(sqlite3.Error, match="full"), store.transaction(), store.transaction():
        store.put("a", "2", {"x": "y" * 100_000})
    assert store.ids("a") == ["1"]
