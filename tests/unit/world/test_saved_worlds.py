"""Worlds of earlier runs: opened as they were left, and refused where they are damaged."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from paddock.model.errors import IntegrityError, InvalidInput, NotFound
from paddock.world.saved_worlds import open_saved_world, runs_with_worlds
from paddock.world.store import STEP, Store

LISTING: dict[str, Any] = {
    "run": "r1",
    "seed": 7,
    "clock": 1_800_000_000.0,
    "ended": True,
    "services": [
        {"name": "crm", "host": "crm.example", "port": 443, "service": "app",
         "options": {"app": "x:y"}, "file": "crm.sqlite"},
    ],
}  # fmt: skip


@pytest.fixture
def home(tmp_path: Path) -> Path:
    place = tmp_path / "worlds" / "r1"
    place.mkdir(parents=True)
    (place / "world.json").write_text(json.dumps(LISTING))
    with Store.open(place / "crm.sqlite") as store:
        store.put("people", "p1", {"id": "p1", "name": "Ada"})
        store.seal()
        for step, name in ((2, "Bob"), (4, "Cy"), (7, "Di")):
            token = STEP.set(step)
            store.put("people", f"p{step}", {"id": f"p{step}", "name": name})
            STEP.reset(token)
    return tmp_path


def change_listing(home: Path, **words: Any) -> None:
    listing = json.loads(json.dumps({**LISTING, **words}))
    (home / "worlds" / "r1" / "world.json").write_text(json.dumps(listing))


def change_service(home: Path, **words: Any) -> None:
    change_listing(home, services=[{**LISTING["services"][0], **words}])


def test_a_world_is_opened_as_it_was_left(home: Path) -> None:
    with open_saved_world(home, "r1") as world:
        one = world.services[0]
        assert (world.run, world.is_ended) == ("r1", True)
        assert (one.name, one.host, one.port, one.service) == ("crm", "crm.example", 443, "app")
        assert one.documents == 4
        assert [change.id for change in one.store.changes()] == ["p2", "p4", "p7"]
        assert one.context.seed == 7 and one.context.start == 1_800_000_000
        assert one.context.options == {"app": "x:y"}


def test_looking_at_a_world_cannot_change_it(home: Path) -> None:
    with open_saved_world(home, "r1") as world:
        with pytest.raises(Exception, match="readonly"):
            world.services[0].store.put("people", "p9", {})
        with pytest.raises(Exception, match="readonly"):
            world.services[0].store.reset()


def test_spans_of_steps_are_positions_of_the_store(home: Path) -> None:
    with open_saved_world(home, "r1") as world:
        one = world.services[0]
        start, end = one.store.sealed, one.store.position()
        assert one.span(None, None) == (start, end)
        assert one.span(4, 4) == (start + 1, start + 2)
        assert one.span(3, 6) == (start + 1, start + 2)
        assert one.span(5, 6) == (start + 2, start + 2)
        assert one.span(None, 1) == (start, start)
        assert one.span(8, None) == (end, end)
        assert one.span(0, 99) == (start, end)


def test_what_a_service_cannot_tell_of_itself_is_said(home: Path) -> None:
    change_service(home, service="no-such")
    with open_saved_world(home, "r1") as world:
        one = world.services[0]
        assert len(one.invariants) == 1 and one.invariants[0].startswith("cannot be told")
        assert one.show()["people"]["count"] == 4


def test_a_service_is_found_by_name_host_and_place(home: Path) -> None:
    again = {**LISTING["services"][0], "name": "crm-2", "port": 8443}
    change_listing(home, services=[LISTING["services"][0], again])
    with open_saved_world(home, "r1") as world:
        assert world.service("crm-2").port == 8443
        assert world.service("crm.example:443").name == "crm"
        with pytest.raises(NotFound, match="several"):
            world.service("crm.example")
        with pytest.raises(NotFound, match="no service"):
            world.service("mail")


def test_runs_with_a_world_are_listed_newest_first(home: Path) -> None:
    import os

    other = home / "worlds" / "r0"
    other.mkdir()
    (home / "worlds" / "no-world").mkdir()
    (other / "world.json").write_text("{}")
    os.utime(other / "world.json", (1, 1))
    assert runs_with_worlds(home) == ["r1", "r0"]
    assert runs_with_worlds(home / "nowhere") == []


@pytest.mark.parametrize("run", ["", ".", "..", "../r1", "a/b", "r1\0"])
def test_a_run_is_a_name_and_not_a_path(home: Path, run: str) -> None:
    with pytest.raises(InvalidInput):
        open_saved_world(home, run)


def test_a_run_without_a_world_is_not_found(home: Path) -> None:
    with pytest.raises(NotFound, match="no world"):
        open_saved_world(home, "r2")


@pytest.mark.parametrize(
    "words",
    [
        {"file": "../crm.sqlite"},
        {"file": "/etc/passwd"},
        {"file": ".."},
        {"file": "gone.sqlite"},
        {"file": "world.json"},
        {"file": "link.sqlite"},
        {"file": 3},
        {"name": ""},
        {"host": None},
        {"port": "443"},
        {"port": -1},
        {"port": True},
        {"service": []},
    ],
)
def test_a_listing_that_leads_elsewhere_or_nowhere_is_damaged(home: Path, words: Any) -> None:
    (home / "worlds" / "r1" / "link.sqlite").symlink_to(home / "worlds" / "r1" / "crm.sqlite")
    change_service(home, **words)
    with pytest.raises(IntegrityError, match="damaged"):
        open_saved_world(home, "r1")


@pytest.mark.parametrize(
    "content", ["", "[]", "{}", '{"services": {}}', '{"services": [1]}', "[" * 100_000, "\xff"]
)
def test_a_listing_that_is_no_listing_is_damaged(home: Path, content: str) -> None:
    (home / "worlds" / "r1" / "world.json").write_bytes(content.encode("latin-1"))
    with pytest.raises(IntegrityError, match="damaged"):
        open_saved_world(home, "r1")


@pytest.mark.parametrize("clock", [None, "now", True, [], float("1e308"), "2026-13-01"])
def test_a_clock_that_says_nothing_does_not_hide_the_world(home: Path, clock: Any) -> None:
    change_listing(home, clock=clock)
    with open_saved_world(home, "r1") as world:
        assert world.services[0].context.start > 0


def test_the_clock_may_be_a_date(home: Path) -> None:
    change_listing(home, clock="2027-01-01T00:00:00+00:00")
    with open_saved_world(home, "r1") as world:
        assert world.services[0].context.start == 1_798_761_600
