"""Seeds from files and from the words of the paddock file: what is taken, what is refused, and
that nothing is changed on the way.
"""

from __future__ import annotations

import json
from datetime import date
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from cases import for_each
from paddock.model.errors import InvalidInput
from paddock.world.context import Context
from paddock.world.seeds import SeedData, documents, load_seed, sources
from paddock.world.seeds.sources import typed_column
from paddock.world.store import Store


@pytest.fixture
def load(tmp_path: Path) -> Any:
    with Store.open(tmp_path / "store.sqlite") as store:
        context = Context("crm", "crm.example", 443, store, seed=5)
        yield lambda words: load_seed(words, context, tmp_path)


def write(tmp_path: Path, name: str, content: str | bytes) -> str:
    path = tmp_path / name
    path.write_bytes(content if isinstance(content, bytes) else content.encode())
    return name


def test_json_file_has_documents_by_kind(load: Any, tmp_path: Path) -> None:
    content = {"customers": [{"id": "c1", "n": 1.5}, {"name": "é"}], "orders": []}
    found = load(write(tmp_path, "shop.json", json.dumps(content)))
    assert isinstance(found, SeedData)
    assert found == content
    assert found.report == []


def test_json_list_is_of_the_kind_that_is_said_or_of_the_name_of_the_file(
    load: Any, tmp_path: Path
) -> None:
    name = write(tmp_path, "contacts.json", '[{"id": 7}]')
    assert load({"file": name, "kind": "people"}) == {"people": [{"id": 7}]}
    assert load(name) == {"contacts": [{"id": 7}]}


def test_inline_documents_are_taken_as_they_are(load: Any) -> None:
    words = {"tickets": [{"id": "t1", "tags": ["a", {"b": None}], "open": True}]}
    assert load(words) == words


def test_what_yaml_reads_as_a_date_is_text(load: Any) -> None:
    assert load({"a": [{"on": date(2026, 1, 2)}]}) == {"a": [{"on": "2026-01-02"}]}


def test_a_list_joins_its_parts_in_their_order(load: Any, tmp_path: Path) -> None:
    name = write(tmp_path, "a.csv", "id\nx\n")
    assert load([{"a": [{"id": "y"}]}, name, {"b": []}]) == {
        "a": [{"id": "y"}, {"id": "x"}],
        "b": [],
    }


def test_kinds_called_generate_and_file_can_be_written_out(load: Any) -> None:
    words: dict[str, Any] = {"generate": [{"id": "1"}], "file": [{"id": "2"}]}
    assert load(words) == words


def test_relative_paths_start_from_the_project(load: Any, tmp_path: Path) -> None:
    (tmp_path / "data").mkdir()
    write(tmp_path, "data/a.json", "[]")
    assert load("data/a.json") == {"a": []}
    assert load(str(tmp_path / "data" / "a.json")) == {"a": []}


@for_each(
    "words",
    [
        None,
        7,
        "",
        [[]],
        ["missing.json"],
        "missing.csv",
        "notes.txt",
        {"a": {"id": "1"}},
        {"a": "text"},
        {"a": [1]},
        {"a": [None]},
        {"#counter": []},
        {"": []},
        {1: []},
        {"a": [{1: 2}]},
        {"a": [{"id": ""}]},
        {"a": [{"id": True}]},
        {"a": [{"id": 1.5}]},
        {"a": [{"id": ["x"]}]},
        {"a": [{"id": "x" * 201}]},
        {"a": [{"n": float("nan")}]},
        {"a": [{"n": float("inf")}]},
        {"a": [{"n": 10**400}]},
        {"a": [{"n": b"bytes"}]},
        {"a": [{"n": "\ud800"}]},
        {"a": [{"\udfff": 1}]},
        {"file": "a.json", "sheet": 1},
        {"file": "a.json", "kind": 3},
        {"file": "a.csv", "types": {"x": "colour"}},
        {"file": "a.csv", "types": ["x"]},
        ["x.json"] * 101,
    ],
)
def test_what_is_no_seed_is_refused_with_a_sentence(load: Any, words: Any) -> None:
    with pytest.raises(InvalidInput, match=r"seed|csv|json"):
        load(words)


def test_sql_is_refused_and_the_message_names_who_takes_it(load: Any, tmp_path: Path) -> None:
    with pytest.raises(InvalidInput, match="postgres"):
        load(write(tmp_path, "shop.sql", "SELECT 1"))


def test_sql_is_passed_on_to_who_takes_it(tmp_path: Path) -> None:
    with Store.open(tmp_path / "s.sqlite") as store:
        context = Context("db", "db.example", 5432, store)
        found = load_seed("data/shop.sql", context, tmp_path, takes_sql=True)
    assert found == {"sql": [{"file": str(tmp_path / "data" / "shop.sql")}]}


def test_two_documents_of_one_id_are_refused_across_parts(load: Any, tmp_path: Path) -> None:
    name = write(tmp_path, "a.json", '[{"id": 7}]')
    with pytest.raises(InvalidInput, match="twice"):
        load([name, {"a": [{"id": "7"}]}])
    assert load([name, {"b": [{"id": "7"}]}])


def test_an_id_that_is_null_is_as_good_as_none(load: Any) -> None:
    assert load({"a": [{"id": None, "n": 1}]}) == {"a": [{"n": 1}]}


@pytest.mark.parametrize(
    "content",
    [
        "",
        "{",
        "3",
        '{"a": [{"x": NaN}]}',
        '{"a": [{"x": Infinity}]}',
        '{"a": [{"x": 1e999}]}',
        '{"a": [{"x": ' + "9" * 5000 + "}]}",
        '{"a": [{"x": 1, "x": 2}]}',
        '{"a": [], "a": []}',
        '{"a": ' + "[" * 100_000 + "]" * 100_000 + "}",
        '{"a": [' + '{"b": ' * 40 + "1" + "}" * 40 + "]}",
        '{"a": [{"x": "\\ud800"}]}',
        b'{"a": [{"x": "\xff"}]}',
    ],
)
def test_json_that_is_broken_or_cannot_be_kept_is_refused(
    load: Any, tmp_path: Path, content: str | bytes
) -> None:
    with pytest.raises(InvalidInput, match=r"a\.json"):
        load(write(tmp_path, "a.json", content))


def test_a_byte_order_mark_is_not_part_of_the_data(load: Any, tmp_path: Path) -> None:
    assert load(write(tmp_path, "a.json", b"\xef\xbb\xbf[]")) == {"a": []}
    assert load(write(tmp_path, "b.csv", b"\xef\xbb\xbfid\n1\n")) == {"b": [{"id": "1"}]}


def test_reads_are_bounded(load: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sources, "MAX_FILE_BYTES", 100)
    with pytest.raises(InvalidInput, match="MiB"):
        load(write(tmp_path, "a.json", "[" + " " * 100 + "]"))
    monkeypatch.setattr(documents, "MAX_DOCUMENTS", 3)
    with pytest.raises(InvalidInput, match="at most 3"):
        load({"a": [{}, {}], "b": [{}, {}]})


def test_a_file_that_refers_to_itself_ends(load: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(documents, "MAX_VALUES", 10_000)
    bomb: Any = ["x"] * 10
    for _ in range(10):
        bomb = [bomb] * 10
    with pytest.raises(InvalidInput, match="values"):
        load({"a": [{"x": bomb}]})
    endless: Any = []
    endless.append(endless)
    with pytest.raises(InvalidInput, match="deeper"):
        load({"a": [{"x": endless}]})


def test_a_directory_or_a_device_is_no_file(load: Any, tmp_path: Path) -> None:
    (tmp_path / "d.json").mkdir()
    (tmp_path / "z.json").symlink_to("/dev/zero")
    for name in ("d.json", "z.json"):
        with pytest.raises(InvalidInput, match="not a file"):
            load(name)


def test_csv_columns_are_numbers_only_where_nothing_is_lost(load: Any, tmp_path: Path) -> None:
    content = (
        "id,code,age,price,big,ok,mixed,zip,empty\n"
        "1,007,30,1.50,9007199254740993,true,1,94107,\n"
        "2,12,,2.25,1,FALSE,x,10115,\n"
    )
    assert load(write(tmp_path, "a.csv", content)) == {
        "a": [
            {"id": "1", "code": "007", "age": 30, "price": 1.5, "big": "9007199254740993",
             "ok": True, "mixed": "1", "zip": "94107", "empty": ""},
            {"id": "2", "code": "12", "age": None, "price": 2.25, "big": "1",
             "ok": False, "mixed": "x", "zip": "10115", "empty": ""},
        ]
    }  # fmt: skip


@for_each(
    "cell",
    ["007", "+1", "1e5", " 1", "1 ", "1_000", "-0", "0x10", "1,5", ".5", "5.", "nan", "inf", "٣",
     "1.12345678", "00", "-01"],
)  # fmt: skip
def test_csv_cells_that_only_look_like_numbers_stay_text(cell: str) -> None:
    assert typed_column("n", [cell, "1"], None) == [cell, "1"]


@given(st.lists(st.integers(-(10**14), 10**14), min_size=1))
def test_whole_numbers_of_a_csv_column_come_back_exactly(numbers: list[int]) -> None:
    assert typed_column("n", [str(one) for one in numbers], None) == numbers


@given(st.lists(st.text(min_size=1), min_size=1))
def test_what_csv_makes_of_text_can_be_written_as_it_was(cells: list[str]) -> None:
    for cell, value in zip(cells, typed_column("n", cells, None), strict=True):
        if isinstance(value, bool):
            assert str(value).lower() == cell.lower()
        elif isinstance(value, float):
            assert float(cell) == value
        else:
            assert str(value) == cell


def test_types_of_columns_can_be_said(load: Any, tmp_path: Path) -> None:
    name = write(tmp_path, "a.csv", 'age,code,data,on\n3,12,"{""x"": [1]}",true\n,,,\n')
    types = {"age": "text", "code": "number", "data": "json", "on": "boolean"}
    assert load({"file": name, "kind": "k", "types": types}) == {
        "k": [
            {"age": "3", "code": 12, "data": {"x": [1]}, "on": True},
            {"age": "", "code": None, "data": None, "on": None},
        ]
    }
    for column, kind in (("on", "number"), ("age", "boolean"), ("on", "number")):
        with pytest.raises(InvalidInput, match="column"):
            load({"file": name, "types": {column: kind}})
    with pytest.raises(InvalidInput, match="no column 'x'"):
        load({"file": name, "types": {"x": "text"}})


def test_csv_rows_may_be_short_but_not_long(load: Any, tmp_path: Path) -> None:
    assert load(write(tmp_path, "a.csv", "x,y\n1\n\n2,3\n")) == {"a": [{"x": 1}, {"x": 2, "y": 3}]}
    with pytest.raises(InvalidInput, match="line 3"):
        load(write(tmp_path, "b.csv", "x,y\n1,2\n1,2,3\n"))


def test_csv_cells_keep_lines_quotes_and_odd_letters(load: Any, tmp_path: Path) -> None:
    name = write(tmp_path, "a.csv", 'note\n"two\nlines, ""quoted"""\n\u200b\U0001f44d\n')
    assert load(name) == {"a": [{"note": 'two\nlines, "quoted"'}, {"note": "\u200b\U0001f44d"}]}


@pytest.mark.parametrize("content", ["", "\n", "a,a\n1,2\n", "a,\n1,2\n", 'a\n"x\n', 'a\n"x"y\n'])
def test_csv_that_is_broken_is_refused(load: Any, tmp_path: Path, content: str) -> None:
    with pytest.raises(InvalidInput, match=r"a\.csv"):
        load(write(tmp_path, "a.csv", content))


def test_a_cell_that_is_too_long_is_refused_not_cut(load: Any, tmp_path: Path) -> None:
    with pytest.raises(InvalidInput, match="not CSV"):
        load(write(tmp_path, "a.csv", "a\n" + "x" * 200_000 + "\n"))
