"""`paddock world`: what it says of a run's stand-ins, and that it changes them only when told."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from cases import for_each
from paddock.cli.main import _run
from paddock.cli.render.world import DocumentDiff, FieldDiff, difference_lines
from paddock.world.changes import DocumentChange
from paddock.world.registry import service_names
from paddock.world.store import STEP, Store
from unit.cli.conftest import Said
from unit.cli.past import make_run

Say = Callable[..., Said]


@pytest.fixture
def say(home: Path, capsys: pytest.CaptureFixture[str]) -> Say:
    """The command, in this process."""

    def run(*words: str) -> Said:
        try:
            code = _run("world", list(words))
        except SystemExit as end:
            code = int(str(end.code))
        out, err = capsys.readouterr()
        return Said(code, out, err)

    return run


def at_step(step: int) -> Any:
    return STEP.set(step)


@pytest.fixture
def world(home: Path) -> Path:
    return make_world(home, "run-a")


def make_world(home: Path, run: str, *, ended: bool = True) -> Path:
    place = home / "worlds" / run
    place.mkdir(parents=True)
    services = []
    for name, host in (("shop", "shop.example"), ("crm", "crm.example")):
        services.append({"name": name, "host": host, "port": 443, "service": "no-such",
                         "options": {}, "file": f"{name}.sqlite"})  # fmt: skip
        with Store.open(place / f"{name}.sqlite") as store:
            store.put("orders", "o1", {"id": "o1", "total": 10, "items": [{"n": 1}, {"n": 2}]})
            store.put("orders", "o2", {"id": "o2", "total": 20, "by": {"name": "Ada"}})
            store.seal()
    listing = {"run": run, "services": services, "seed": 1, "clock": 0, "ended": ended}
    (place / "world.json").write_text(json.dumps(listing))
    with Store.open(place / "shop.sqlite") as store:
        at_step(3)
        store.put("orders", "o1", {"id": "o1", "total": 15, "items": [{"n": 1}], "note": "x"})
        at_step(5)
        store.put("orders", "o3", {"id": "o3", "total": True})
        store.delete("orders", "o2")
        at_step(6)
        store.put("orders", "o1", {"id": "o1", "total": 15.0, "items": [{"n": 9}], "note": "x"})
        STEP.set(None)
    return place


def test_built_in_services_are_listed_with_their_options(say: Say) -> None:
    names = set(service_names())
    said = say("list")
    assert said.code == 0
    assert {line.split()[0] for line in said.out.splitlines() if line[0] != " "} == names
    found = {one["service"]: one for one in say("list", "--json").json}
    assert set(found) == names
    assert "spec" in found["openapi"]["options"]


def test_services_of_a_run_are_listed(say: Say, world: Path) -> None:
    shop, crm = say("list", "run-a", "--json").json
    assert (shop["host"], shop["port"], shop["service"]) == ("shop.example", 443, "no-such")
    assert (shop["documents"], shop["changes"], shop["faults"]) == (2, 3, None)
    assert (crm["documents"], crm["changes"]) == (2, 0)
    lines = say("list", "run-a").out.splitlines()
    assert lines[0].split()[:3] == ["NAME", "HOST", "SERVICE"]
    assert lines[1].split()[:6] == ["shop", "shop.example:443", "no-such", "2", "3", "-"]
    assert lines[3].startswith("! shop: cannot be told")


def test_faults_are_counted_from_the_journal(say: Say, home: Path, world: Path) -> None:
    make_run(home, "run-a")
    assert say("list", "run-a", "--json").json[0]["faults"] == 0


def test_a_run_is_named_as_in_other_commands(say: Say, home: Path, world: Path) -> None:
    make_world(home, "run-b")
    make_run(home, "run-b")
    assert say("diff", "last", "shop").out == say("diff", "run-b", "shop").out
    assert "could be run-a, run-b" in say("list", "run").err
    assert say("list", "run-a").code == 0
    path = str(world)
    assert say("list", path).code == 0
    assert say("list", "nothing").code == 1
    make_run(home, "plain")
    said = say("list", "plain")
    assert said.code == 1 and "has no world" in said.err


def test_without_any_world_last_says_so(say: Say) -> None:
    said = say("show", "last")
    assert said.code == 1 and "no run has a world" in said.err


def test_diff_tells_field_by_field_what_became_of_each_document(say: Say, world: Path) -> None:
    said = say("diff", "run-a")
    assert said.code == 0
    assert said.out.splitlines() == [
        "shop",
        "  ~ orders/o1 (step 6)",
        "      total: 10 -> 15.0",
        "      items[0].n: 1 -> 9",
        '      items[1]: {"n": 2} -> (gone)',
        '      note: "x"',
        "  + orders/o3 (step 5)",
        '      id: "o3"',
        "      total: true",
        "  - orders/o2 (step 5)",
        '      id: "o2" -> (gone)',
        "      total: 20 -> (gone)",
        '      by: {"name": "Ada"} -> (gone)',
    ]


def make_model(home: Path, run: str, *turns: str) -> None:
    place = home / "worlds" / run
    place.mkdir(parents=True)
    with Store.open(place / "m.sqlite") as store:
        store.seal()
        for turn in turns:
            store.put("moments", turn, {"turn": 1, "given": [turn]})
        store.put("unmatched", "u1", {"said": run})
    one = {"name": "m", "host": "m.example", "port": 443, "service": "model", "file": "m.sqlite"}
    listing = {"run": run, "services": [one], "seed": 1, "clock": 0, "ended": True}
    (place / "world.json").write_text(json.dumps(listing))


def test_what_a_model_remembers_by_is_a_number_until_it_is_asked_for(say: Say, home: Path) -> None:
    make_model(home, "r", "t1", "t2", "t3")
    assert say("diff", "r").out.splitlines() == [
        "m", "  3 turns used (moments: --full)", "  + unmatched/u1", '      said: "r"',
    ]  # fmt: skip
    assert "  + moments/t2" in say("diff", "r", "--full").out.splitlines()
    assert len(say("diff", "r", "--json").json["m"]) == 4


def test_diff_of_some_steps_is_what_they_changed(say: Say, world: Path) -> None:
    def changed(steps: str) -> list[tuple[str, str]]:
        found = say("diff", "run-a", "shop", "--step", steps, "--json").json["shop"]
        return [(one["id"], one["what"]) for one in found]

    assert changed("3") == [("o1", "changed")]
    assert changed("5..5") == [("o3", "created"), ("o2", "deleted")]
    assert changed("..5") == [("o1", "changed"), ("o3", "created"), ("o2", "deleted")]
    assert changed("6..") == [("o1", "changed")]
    assert changed("4") == changed("7..") == changed("..2") == []
    found = say("diff", "run-a", "shop", "--step", "6", "--json").json["shop"][0]["fields"]
    assert found == [
        {"field": "total", "before": 15, "after": 15.0},
        {"field": "items[0].n", "before": 1, "after": 9},
    ]


@for_each("steps", ["", "..", "a", "5..3", "-1", "1...2", "1..2..3", "9" * 30])
def test_steps_that_are_none_are_refused(say: Say, world: Path, steps: str) -> None:
    said = say("diff", "run-a", f"--step={steps}")
    assert said.code == 2 and said.err.startswith("paddock: --step")
    assert say("show", "run-a", f"--step={steps}").code == 2


def test_where_nothing_changed_that_is_said(say: Say, world: Path) -> None:
    assert say("diff", "run-a", "crm").out == "nothing changed\n"


def test_show_has_the_state_now_and_after_any_step(say: Say, world: Path) -> None:
    def ids(*words: str) -> list[str]:
        state = say("show", "run-a", "shop", "--json", *words).json["shop"]["state"]
        assert state["orders"]["count"] == len(state["orders"]["latest"])
        return sorted(one["id"] for one in state["orders"]["latest"])

    assert ids() == ids("--step", "6") == ["o1", "o3"]
    assert ids("--step", "3") == ids("--step", "4") == ["o1", "o2"]
    before = say("show", "run-a", "shop", "--json", "--step", "1").json["shop"]["state"]
    assert {"id": "o1", "total": 10, "items": [{"n": 1}, {"n": 2}]} in before["orders"]["latest"]
    assert say("show", "run-a", "--step", "1..2").code == 2
    lines = say("show", "run-a", "shop").out.splitlines()
    assert lines[0] == "shop" and lines[1] == "  orders: 2"


def test_show_says_how_many_more_there_are(say: Say, world: Path) -> None:
    with Store.open(world / "crm.sqlite") as store:
        for number in range(50):
            store.put("notes", str(number), {"id": str(number)})
    assert "    (30 more, older)" in say("show", "run-a", "crm").out.splitlines()


def test_reset_of_one_that_lives_comes_back_to_the_beginning_exactly(say: Say, home: Path) -> None:
    world = make_world(home, "going", ended=False)
    said = say("reset", "going", "shop", "--force")
    assert said.out == "shop: back to the beginning, 3 changes undone\n"
    assert say("diff", "going").out == "nothing changed\n"
    with Store.open(world / "shop.sqlite") as shop, Store.open(world / "crm.sqlite") as crm:
        assert shop.digest() == crm.digest()
    undone = say("reset", "going", "--force", "--json").json
    assert undone == {"run": "going", "undone": {"shop": 0, "crm": 0}}


def test_reset_of_one_that_goes_on_wants_to_be_forced(say: Say, home: Path) -> None:
    make_world(home, "going", ended=False)
    said = say("reset", "going")
    assert said.code == 1 and "going on" in said.err
    assert say("diff", "going").out != "nothing changed\n"


@pytest.mark.parametrize("force", [(), ("--force",)])
@pytest.mark.parametrize("ended", [True, False])
def test_the_world_of_a_run_that_is_over_is_never_reset(
    say: Say, home: Path, ended: bool, force: tuple[str, ...]
) -> None:
    make_world(home, "over", ended=ended)
    make_run(home, "over")
    before = say("diff", "over").out
    said = say("reset", "over", *force)
    assert said.code == 1 and "part of its record" in said.err and "paddock fork over" in said.err
    assert say("diff", "over").out == before != "nothing changed\n"


def test_nothing_that_an_agent_wrote_acts_on_the_terminal(say: Say, world: Path) -> None:
    evil = "\x1b]0;x\x07\n\u202eevil\r"
    with Store.open(world / "crm.sqlite") as store:
        store.put(evil, evil, {evil: evil, "deep": {evil: [evil]}})
    for command in ("diff", "show", "list"):
        out = say(command, "run-a").out
        assert not any(sign in out for sign in "\x1b\x07\r\u202e")
    assert say("diff", "run-a", "--json").json["crm"][0]["id"] == evil


def test_colours_are_for_terminals_only(
    say: Say, world: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert "\033[" not in say("diff", "run-a").out
    monkeypatch.setattr("paddock.cli.commands.world.is_coloured", lambda: True)
    out = say("diff", "run-a").out
    assert "\033[33m  ~ orders/o1 (step 6)\033[0m" in out
    assert "\033[32m  + " in out and "\033[31m  - " in out


def test_documents_without_end_are_cut_for_people_and_whole_for_programs(
    say: Say, world: Path
) -> None:
    with Store.open(world / "crm.sqlite") as store:
        store.put("big", "b", {"text": "x" * 100_000, **{f"f{n}": n for n in range(200)}})
        for number in range(600):
            store.put("many", str(number), {})
    out = say("diff", "run-a", "crm").out
    assert len(out) < 50_000
    assert "more fields: --json" in out and "(101 more documents: --json)" in out
    assert len(say("diff", "run-a", "crm", "--json").json["crm"]) == 601


def test_a_damaged_world_ends_with_a_sentence(say: Say, world: Path) -> None:
    (world / "shop.sqlite").write_bytes(b"no database at all" * 100)
    for command in ("list", "show", "diff", "reset"):
        said = say(command, "run-a")
        assert said.code == 1 and said.err.startswith("paddock: the world of run-a is damaged")


def test_amounts_of_a_document_with_a_currency_are_money() -> None:
    after = {"amount": 2000, "amount_refunded": 500, "count": 2000, "currency": "eur"}
    change = DocumentChange("charges", "ch_1", {**after, "amount": 100}, after, 4)
    fields = [
        FieldDiff("amount", 100, 2000),
        FieldDiff("count", 1, 2000),
    ]
    lines = list(difference_lines("shop", [DocumentDiff(change, fields)], is_coloured=False))

    assert lines[-2:] == ["      amount: 1.00 EUR -> 20.00 EUR", "      count: 1 -> 2000"]
