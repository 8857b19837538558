"""What a stand-in is handed: time, ids and chance that are the same in every run."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from paddock.world.context import START, Context, token
from paddock.world.store import Store


@pytest.fixture
def store(tmp_path: Path) -> Iterator[Store]:
    with Store.open(tmp_path / "store.sqlite") as store:
        yield store


def context(store: Store, name: str = "shop", seed: int = 1) -> Context:
    return Context(name, "shop.example", 443, store, seed=seed)


def test_time_stands_still_until_something_is_written(store: Store) -> None:
    one = context(store)
    assert one.now() == one.now() == START
    assert one.tick() == START + 1
    assert one.now() == START + 1
    assert [one.tick() for _ in range(3)] == [START + 2, START + 3, START + 4]


def test_time_begins_where_the_file_says(store: Store) -> None:
    one = Context("shop", "shop.example", 443, store, start=1_000.0)
    assert (one.now(), one.tick()) == (1_000.0, 1_001.0)


def test_time_and_ids_go_back_with_the_store(store: Store) -> None:
    one = context(store)
    one.tick()
    one.new_id("x_")
    store.seal()
    first = (one.tick(), one.new_id("x_"), one.new_id("y_"), store.digest())
    store.reset()
    assert (one.tick(), one.new_id("x_"), one.new_id("y_"), store.digest()) == first


def test_what_is_rolled_back_used_up_no_id_and_no_time(store: Store) -> None:
    one = context(store)
    seen = []
    for _ in range(2):
        with pytest.raises(KeyError), store.transaction():
            seen.append((one.tick(), one.new_id("x_")))
            raise KeyError
    assert seen[0] == seen[1]


def test_a_fork_goes_on_with_the_same_ids(store: Store, tmp_path: Path) -> None:
    one = context(store)
    one.new_id("x_")
    with store.fork(tmp_path / "fork.sqlite") as forked:
        assert context(forked).new_id("x_") == one.new_id("x_")


def test_ids_look_like_chance_and_never_come_twice(store: Store) -> None:
    one = context(store)
    with store.transaction():
        ids = [one.new_id("ch_") for _ in range(2000)]
    assert len(set(ids)) == 2000
    assert all(re.fullmatch(r"ch_[A-Za-z0-9]{24}", id) for id in ids)
    assert re.fullmatch(r"[A-Za-z0-9]{6}", one.new_id("", 6))


def test_ids_differ_by_seed_service_and_prefix(tmp_path: Path) -> None:
    found = []
    for number, (name, seed, prefix) in enumerate(
        [("a", 1, "x"), ("a", 2, "x"), ("b", 1, "x"), ("a", 1, "y"), ("a", 1, "x")]
    ):
        with Store.open(tmp_path / f"{number}.sqlite") as store:
            found.append(context(store, name, seed).new_id(prefix)[1:])
    assert len(set(found)) == 4
    assert found[0] == found[-1]


def test_chance_is_of_its_own_for_each_thing_and_always_the_same(store: Store) -> None:
    one = context(store)
    assert one.random("a").random() == one.random("a").random()
    assert one.random("a").random() != one.random("b").random()
    assert one.random("a").random() != context(store, seed=2).random("a").random()
    assert one.random("a").random() == context(store).random("a").random()


def test_tokens_stay_as_they_are() -> None:
    assert token("a", 8) == token("a", 8)
    assert token("", 0) == ""
    # Worlds that were recorded have ids like these in them.
    assert token("1/shop/ch_/1", 24) == "M89008EvNbm0e7O9brxGK6za"


@given(st.text(st.characters(exclude_categories=["Cs"])), st.integers(0, 200))
def test_a_token_is_as_long_as_it_should_be(text: str, length: int) -> None:
    assert re.fullmatch(rf"[A-Za-z0-9]{{{length}}}", token(text, length))


def test_relative_paths_start_from_the_project(store: Store, tmp_path: Path) -> None:
    one = Context("shop", "shop.example", 443, store, project=tmp_path)
    assert one.path("data/a.json") == tmp_path / "data" / "a.json"
    assert one.path("/etc/hosts") == Path("/etc/hosts")
    assert one.path("~/x") == Path.home() / "x"
