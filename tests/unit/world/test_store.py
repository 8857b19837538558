"""The memory of a stand-in: what is put in comes out, by id, by field and in order."""

from __future__ import annotations

import json
import sqlite3
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from paddock.model.errors import InvalidInput
from paddock.world.queries import MAX_DOCUMENT
from paddock.world.store import STEP, Store

ODD_TEXTS = [
    "plain",
    "it's",
    'say "x"',
    "back\\slash",
    "a.b[0].$",
    "né\u0301",
    "\U0001f469\u200d\U0001f680",
    "\u202egnp",
    "line\nbreak\ttab",
    "; DROP TABLE documents --",
    "%_*?",
    "x" * 5000,
]
SAFE = settings(suppress_health_check=[HealthCheck.function_scoped_fixture])


@pytest.fixture
def store(tmp_path: Path) -> Iterator[Store]:
    with Store.open(tmp_path / "store.sqlite") as store:
        yield store


def test_what_is_put_is_what_is_got(store: Store) -> None:
    document = {"id": "1", "n": [1, 2.5, None, True, {"é": "\U0001f44d"}], "big": 2**80, "": ""}
    store.put("things", "1", document)
    assert store.get("things", "1") == document
    assert store.has("things", "1")
    assert store.get("things", "2") is None
    assert store.get("other", "1") is None
    assert not store.has("other", "1")


@SAFE
@given(
    st.recursive(
        st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False)
        | st.text(st.characters(exclude_categories=["Cs"])),
        lambda inner: st.lists(inner) | st.dictionaries(
            st.text(st.characters(exclude_categories=["Cs"])), inner),
        max_leaves=20,
    )
)  # fmt: skip
def test_any_json_comes_back_as_it_was(store: Store, value: Any) -> None:
    store.put("any", "x", {"value": value})
    found = store.get("any", "x")
    assert found is not None and json.dumps(found["value"]) == json.dumps(value)


@pytest.mark.parametrize("text", ODD_TEXTS)
def test_odd_ids_kinds_and_values_are_as_good_as_others(store: Store, text: str) -> None:
    store.put("things", text, {"id": text})
    store.put(text, "1", {"value": text})
    assert store.get("things", text) == {"id": text}
    assert store.ids("things") == [text]
    assert store.find("things", {"id": text}) == [{"id": text}]
    assert store.find("things", after=text) == []
    assert store.kinds() == sorted(["things", text])
    assert store.count(text, {"value": text}) == 1
    assert store.delete("things", text)
    assert not store.delete("things", text)


@pytest.mark.parametrize("text", [one for one in ODD_TEXTS if not set('"\\\n') & set(one)])
def test_odd_fields_are_found_and_indexed(store: Store, text: str) -> None:
    check_field(store, text)


@pytest.mark.parametrize("text", ["back\\slash", "line\nbreak\ttab", "\x01", "a\0b"])
def test_fields_that_json_writes_otherwise_are_found_and_indexed(store: Store, text: str) -> None:
    check_field(store, text)


def check_field(store: Store, text: str) -> None:
    store.put("things", "1", {text: "here", "other": 1})
    store.put("things", "2", {"other": 1})
    assert store.find("things", {text: "here"}) == [{text: "here", "other": 1}]
    assert store.count("things", {text: None}) == 1
    store.index("things", text)
    assert store.find("things", {text: "here"}) == [{text: "here", "other": 1}]


def test_a_field_with_a_quote_in_its_name_is_refused_where_it_cannot_be_looked_for(
    store: Store,
) -> None:
    store.put("things", "1", {'a"b': 1})
    assert store.get("things", "1") == {'a"b': 1}
    with pytest.raises(InvalidInput):
        store.find("things", {'a"b': 1})
    with pytest.raises(InvalidInput):
        store.index("things", 'a"b')


def test_a_zero_byte_in_an_id_or_a_value_is_a_letter_like_others(store: Store) -> None:
    store.put("things", "a\0b", {"id": "a\0b", "value": "x\0y"})
    store.put("things", "a", {"id": "a", "value": "x"})
    assert store.ids("things") == ["a\0b", "a"]
    assert store.get("things", "a\0b") == {"id": "a\0b", "value": "x\0y"}
    digest = store.digest()
    store.put("things", "a\0c", {})
    assert store.digest() != digest


def test_kinds_that_are_none_are_refused(store: Store) -> None:
    for kind in ("", "#counter", "#x"):
        with pytest.raises(InvalidInput):
            store.put(kind, "1", {})
        with pytest.raises(InvalidInput):
            store.index(kind, "x")
    assert store.kinds() == []


def test_a_document_that_is_too_large_is_refused_and_one_that_is_just_not_is_kept(
    store: Store,
) -> None:
    room = MAX_DOCUMENT - len('{"x":""}')
    store.put("big", "1", {"x": "é" * room})
    assert store.get("big", "1") == {"x": "é" * room}
    with pytest.raises(InvalidInput, match="at most"):
        store.put("big", "2", {"x": "é" * (room + 1)})
    assert not store.has("big", "2")


def test_find_gives_the_order_of_creation_and_a_replaced_one_keeps_its_place(
    store: Store,
) -> None:
    for id in ("b", "a", "c"):
        store.put("things", id, {"id": id})
    store.put("things", "b", {"id": "b", "new": True})
    assert [one["id"] for one in store.find("things")] == ["b", "a", "c"] == store.ids("things")
    assert [one["id"] for one in store.find("things", newest_first=True)] == ["c", "a", "b"]
    store.delete("things", "b")
    store.put("things", "b", {"id": "b"})
    assert store.ids("things") == ["a", "c", "b"]


def test_pages_are_all_documents_once_in_both_directions(store: Store) -> None:
    for number in range(25):
        store.put("things", f"t{number}", {"id": f"t{number}", "odd": number % 2 == 1})
    for newest_first in (False, True):
        seen: list[str] = []
        after = None
        while page := store.find("things", limit=7, after=after, newest_first=newest_first):
            seen += [one["id"] for one in page]
            after = seen[-1]
        wanted = [f"t{number}" for number in range(25)]
        assert seen == (wanted[::-1] if newest_first else wanted)
    odd = store.find("things", {"odd": True}, limit=3, after="t4")
    assert [one["id"] for one in odd] == ["t5", "t7", "t9"]


def test_limits_of_nothing_and_less_give_nothing(store: Store) -> None:
    store.put("things", "1", {})
    assert store.find("things", limit=0) == store.find("things", limit=-5) == []


def test_where_tells_types_apart_and_takes_null_for_missing(store: Store) -> None:
    values: dict[str, Any] = {
        "int": 1, "text": "1", "float": 1.5, "null": None, "true": True, "zero": 0, "empty": "",
    }  # fmt: skip
    for id, value in values.items():
        store.put("things", id, {"id": id, "x": value})
    store.put("things", "missing", {"id": "missing"})

    def found(value: Any) -> list[str]:
        return [one["id"] for one in store.find("things", {"x": value})]

    assert found("1") == ["text"]
    assert found(1.5) == ["float"]
    assert found(0) == ["zero"]
    assert found("") == ["empty"]
    assert found(None) == ["null", "missing"]
    assert "int" in found(1) and "text" not in found(1)
    assert "true" in found(True) and "text" not in found(True)
    assert found("True") == found(2) == []
    assert store.count("things", {"x": None, "id": "null"}) == 1


@SAFE
@given(st.lists(st.tuples(st.sampled_from("abc"), st.integers(0, 3)), max_size=30),
       st.integers(0, 3), st.booleans())  # fmt: skip
def test_find_with_an_index_is_find_without(
    tmp_path: Path, puts: list[tuple[str, int]], wanted: int, newest_first: bool
) -> None:
    (tmp_path / "plain.sqlite").unlink(missing_ok=True)
    (tmp_path / "quick.sqlite").unlink(missing_ok=True)
    plain, quick = Store.open(tmp_path / "plain.sqlite"), Store.open(tmp_path / "quick.sqlite")
    with plain, quick:
        quick.index("things", "n")
        for id, number in puts:
            for one in (plain, quick):
                one.put("things", id, {"id": id, "n": number})
        where = {"n": wanted}
        assert plain.find("things", where, newest_first=newest_first) == quick.find(
            "things", where, newest_first=newest_first
        )
        assert plain.count("things", where) == quick.count("things", where)
        assert plain.digest() == quick.digest()


def test_an_index_is_used(store: Store) -> None:
    store.index("it's", "f")
    statements: list[str] = []
    store._database.set_trace_callback(statements.append)
    store.find("it's", {"f": "x"}, limit=1)
    store._database.set_trace_callback(None)
    plan = store._database.execute(f"EXPLAIN QUERY PLAN {statements[0]}").fetchall()
    assert any("USING INDEX by_" in str(row) for row in plan), plan


def test_counters_count_and_are_no_documents(store: Store) -> None:
    assert store.get_counter("n") == 0
    assert [store.next("n") for _ in range(3)] == [1, 2, 3]
    assert store.next("other") == 1
    assert store.get_counter("n") == 3
    assert store.kinds() == []
    assert store.changes() == []
    assert store.next("n") == 4


def test_a_transaction_that_fails_leaves_nothing(store: Store) -> None:
    store.put("things", "1", {"v": 1})
    before, position = store.digest(), store.position()
    with pytest.raises(RuntimeError), store.transaction():
        store.put("things", "1", {"v": 2})
        store.put("things", "2", {})
        store.next("n")
        store.delete("things", "1")
        raise RuntimeError
    assert store.digest() == before
    assert store.changes(position) == []
    assert store.position() == position
    store.put("things", "3", {})  # and it goes on


def test_an_inner_transaction_that_fails_leaves_the_outer_one(store: Store) -> None:
    with store.transaction():
        store.put("things", "outer", {})
        for _ in range(3):
            with pytest.raises(KeyError), store.transaction():
                store.put("things", "inner", {})
                with store.transaction():
                    store.put("things", "innermost", {})
                raise KeyError
        with store.transaction():
            store.put("things", "kept", {})
    assert store.ids("things") == ["outer", "kept"]


def test_an_outer_transaction_that_fails_takes_the_inner_one_along(store: Store) -> None:
    with pytest.raises(KeyError), store.transaction():
        with store.transaction():
            store.put("things", "inner", {})
        raise KeyError
    assert store.ids("things") == []


def test_what_is_refused_inside_a_transaction_leaves_it_whole(store: Store) -> None:
    with store.transaction():
        store.put("things", "1", {})
        for bad in ({"x": float("nan")}, {"x": object()}, {"x": "\ud800"}):
            with pytest.raises((ValueError, TypeError)):
                store.put("things", "2", bad)
        store.put("things", "3", {})
    assert store.ids("things") == ["1", "3"]


def test_a_full_disk_leaves_what_was_there_and_the_store_goes_on(store: Store) -> None:
    store.put("things", "1", {"v": 1})
    before = store.digest()
    pages = store._database.execute("PRAGMA page_count").fetchone()[0]
    store._database.execute(f"PRAGMA max_page_count = {pages + 2}")
    with pytest.raises(sqlite3.Error), store.transaction():
        store.put("things", "1", {"v": 2})
        store.put("things", "2", {"x": "y" * 100_000})
    assert store.digest() == before
    store._database.execute("PRAGMA max_page_count = 1000000")
    store.put("things", "2", {"x": "y" * 100_000})
    assert store.count("things") == 2


def test_blobs_are_named_by_their_digest(store: Store) -> None:
    first = store.put_blob(b"data")
    assert store.put_blob(b"data") == first
    assert store.blob(first) == b"data"
    assert store.blob(store.put_blob(b"")) == b""
    assert store.blob("nothing") is None


def test_steps_belong_to_the_changes_that_were_made_in_them(store: Store) -> None:
    store.seal()
    for step in (3, 9):
        token = STEP.set(step)
        store.put("things", str(step), {})
        store.put("things", "both", {"at": step})
        STEP.reset(token)
    store.put("things", "none", {})
    assert {one.id: one.step for one in store.changes()} == {
        "3": 3, "9": 9, "both": 9, "none": None,
    }  # fmt: skip


def test_a_store_that_is_only_read_writes_nothing(store: Store) -> None:
    store.put("things", "1", {"v": 1})
    with Store.open(store.path, read_only=True) as reading:
        assert reading.get("things", "1") == {"v": 1}
        assert reading.digest() == store.digest()
        with pytest.raises(sqlite3.OperationalError, match="readonly"):
            reading.put("things", "2", {})
        store.put("things", "2", {})
        assert reading.count("things") == 2


def test_a_path_may_have_any_letters(tmp_path: Path) -> None:
    path = tmp_path / "a ? & # % 'x' é.sqlite"
    with Store.open(path) as store:
        store.put("things", "1", {})
        with store.fork(tmp_path / "b ? mode=ro #.sqlite") as other:
            assert other.ids("things") == ["1"]
    assert path.exists()


def test_text_with_a_zero_byte_does_not_equal_what_stands_before_it(store: Store) -> None:
    store.put("things", "1", {"value": "x\0y"})
    assert store.find("things", {"value": "x"}) == []
    assert store.find("things", {"value": "x\0y"}) == [{"value": "x\0y"}]


def test_a_kind_with_a_zero_byte_or_half_a_character_is_refused(store: Store) -> None:
    for act in (
        lambda: store.find("a\0b"),
        lambda: store.index("a\0b", "x"),
        lambda: store.put("a\0b", "1", {}),
        lambda: store.put("\ud800", "1", {}),
    ):
        with pytest.raises(InvalidInput):
            act()


@pytest.mark.parametrize(
    "bad", [{"x": float("nan")}, {"x": "\ud800"}, {"\udfff": 1}, {"x": {1, 2}}, {"x": float("inf")}]
)
def test_a_document_that_is_no_json_is_the_callers_mistake(store: Store, bad: Any) -> None:
    with pytest.raises(InvalidInput):
        store.put("things", "1", bad)


@pytest.mark.parametrize("value", [2**63, -(2**70), [1], {"a": 1}, "\ud800"])
def test_looking_for_what_cannot_be_there_finds_nothing(store: Store, value: Any) -> None:
    store.put("things", "1", {"x": 1})
    assert store.find("things", {"x": value}) == []
    assert store.count("things", {"x": value}) == 0


def test_an_id_with_half_a_character_is_not_there(store: Store) -> None:
    assert store.get("things", "\ud800") is None
    assert not store.has("things", "\ud800")
    assert not store.delete("things", "\ud800")
    assert store.find("things", after="\ud800") == []
    with pytest.raises(InvalidInput):
        store.put("things", "\ud800", {})


def test_text_does_not_equal_an_object_or_a_list(store: Store) -> None:
    store.put("things", "1", {"x": {"a": 1}})
    store.put("things", "2", {"x": [1]})
    assert store.find("things", {"x": '{"a":1}'}) == store.find("things", {"x": "[1]"}) == []
