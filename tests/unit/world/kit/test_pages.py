"""Pages by number and by cursor."""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from cases import for_each
from paddock.world.kit import (
    InvalidCursor,
    cursor_page,
    decode_cursor,
    encode_cursor,
    numbered_page,
    store_page,
)
from paddock.world.store import Store

IDS = ["a", "b", "c", "d", "e"]


@for_each(
    ("number", "items", "neighbours"),
    [
        (1, ["a", "b"], {"next": 2, "last": 3}),
        (2, ["c", "d"], {"prev": 1, "next": 3, "last": 3, "first": 1}),
        (3, ["e"], {"prev": 2, "first": 1}),
        (9, [], {"prev": 3, "first": 1}),
    ],
)
def test_a_page_by_number(number: int, items: list[str], neighbours: dict[str, int]) -> None:
    page = numbered_page(IDS, number, 2)
    assert (page.items, page.neighbours, page.last, page.total) == (items, neighbours, 3, 5)


def test_one_page_leads_nowhere() -> None:
    assert numbered_page([], 1, 30).neighbours == {}


@for_each(
    ("after", "before", "items", "has_next", "has_previous"),
    [
        (None, None, ["a", "b"], True, False),
        ("b", None, ["c", "d"], True, True),
        ("d", None, ["e"], False, True),
        ("e", None, [], False, True),
        (None, "e", ["c", "d"], True, True),
        (None, "b", ["a"], True, False),
    ],
)
def test_a_page_by_cursor(
    after: str | None, before: str | None, items: list[str], has_next: bool, has_previous: bool
) -> None:
    page = cursor_page(IDS, 2, after=after, before=before)
    assert (page.items, page.has_next, page.has_previous) == (items, has_next, has_previous)


def test_an_unknown_cursor_is_refused() -> None:
    with pytest.raises(InvalidCursor):
        cursor_page(IDS, 2, after="x")


@given(st.integers(0, 12), st.integers(1, 5), st.booleans())
def test_pages_of_a_store_hold_every_document_once(
    tmp_path_factory: pytest.TempPathFactory, count: int, limit: int, is_filtered: bool
) -> None:
    with Store.open(tmp_path_factory.mktemp("s") / "s.sqlite") as store:
        for number in range(count):
            store.put("books", f"b{number}", {"id": f"b{number}", "even": number % 2 == 0})
        is_wanted = (lambda book: book["even"]) if is_filtered else None
        wanted = [f"b{n}" for n in range(count) if not is_filtered or n % 2 == 0][::-1]
        seen: list[str] = []
        page = store_page(store, "books", limit, is_wanted=is_wanted)
        while True:
            seen += [book["id"] for book in page.items]
            if not page.has_next:
                break
            page = store_page(store, "books", limit, is_wanted=is_wanted, after=seen[-1])
        assert seen == wanted
        if len(seen) > limit:
            back = store_page(store, "books", limit, is_wanted=is_wanted, before=seen[limit])
            assert [book["id"] for book in back.items] == seen[:limit]
            assert not back.has_previous


def test_a_cursor_of_a_store_must_be_there(tmp_path: Path) -> None:
    with Store.open(tmp_path / "s.sqlite") as store, pytest.raises(InvalidCursor):
        store_page(store, "books", 3, after="gone")


def test_a_listing_gives_up_after_so_many_documents(tmp_path: Path) -> None:
    with Store.open(tmp_path / "s.sqlite") as store:
        for number in range(5):
            store.put("books", f"b{number}", {"id": f"b{number}"})
        page = store_page(store, "books", 3, is_wanted=lambda book: book["id"] == "b0", max_read=4)
        assert (list(page.items), page.has_next) == ([], False)


def test_an_opaque_cursor_belongs_to_one_listing() -> None:
    cursor = encode_cursor("b7:x", "books")
    assert decode_cursor(cursor, "books") == "b7:x"
    for bad in (cursor[:-3] + "!", "", "é", encode_cursor("b7", "loans")):
        with pytest.raises(InvalidCursor):
            decode_cursor(bad, "books")
