"""Runs side by side, from real journals."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from paddock.model.errors import IntegrityError, InvalidInput, NotFound
from paddock.model.events import (
    Alert,
    Configured,
    FilesRecorded,
    PolicySource,
    RecordedSource,
    WorldEnded,
)
from paddock.policy.file import dump, load
from paddock.run.compare.compared_step import ComparedStep
from paddock.run.compare.comparison import Comparison, compare
from paddock.run.compare.pairs import StepPart
from paddock.state.trees.store import TreeStore
from paddock.world.store import STEP, Store
from unit.run.compare.journeys import (
    Deed,
    fork_of,
    model,
    request,
    tool,
    write_records,
    write_run,
)

USUAL = (
    model("what is in the queue?"),
    request("GET", "/v1/tickets/12"),
    request("POST", "/v1/refunds", arguments={"body": {"amount": 1200}}),
    tool("close", ticket=12),
)


@pytest.fixture
def home(tmp_path: Path) -> Path:
    return tmp_path / "home"


def whats(comparison: Comparison, number: int = 0) -> list[tuple[int | None, int | None, str]]:
    return [
        (number_of(one.here), number_of(one.there), one.what)
        for one in comparison.pairings[number].pairs
    ]


def number_of(step: ComparedStep | None) -> int | None:
    return None if step is None else step.step


def both(home: Path, here: Any, there: Any, **more: Any) -> Comparison:
    return compare([write_run(home, "a", here), write_run(home, "b", there, **more)])


def test_runs_that_did_the_same_are_the_same(home: Path) -> None:
    found = both(home, USUAL, USUAL)
    assert found.is_same
    assert found.pairings[0].first is None
    assert found.pairings[0].counts == {"same": 5}
    assert [[one.trail.run for one in group] for group in found.groups] == [["a", "b"]]


def test_what_is_new_with_every_run_is_no_difference(home: Path) -> None:
    def one(mark: str) -> list[Deed]:
        headers = {"x-request-id": mark, "Date": mark, "accept": "*/*"}
        asked = {"headers": headers, "http_version": mark}
        answer = {"status": 200, "headers": {"date": mark, "set-cookie": mark}, "sealed": mark}
        command = Deed("exec", "ls", {"argv": ["ls"], "pid": len(mark)},
                       result={"exit_code": 0, "duration_us": len(mark)})  # fmt: skip
        return [replace(request("GET", "/", arguments=asked), result=answer), command]

    assert both(home, one("x"), one("yy")).is_same


@pytest.mark.parametrize(
    ("change", "parts"),
    [
        ({"arguments": {"method": "POST", "host": "api.example", "path": "/v1/refunds",
                        "body": {"amount": 9}}}, (StepPart.PROPOSAL,)),
        ({"verdict": "simulate", "by": "world"}, (StepPart.DECISION,)),
        ({"by": "another-rule"}, (StepPart.DECISION,)),
        ({"fault": {"id": "slow"}}, (StepPart.DECISION,)),
        ({"outcome": "failed"}, (StepPart.OUTCOME,)),
        ({"outcome": None}, (StepPart.OUTCOME, StepPart.ANSWER)),
        ({"result": {"status": 200, "body": "no"}}, (StepPart.ANSWER,)),
        ({"error": "it broke"}, (StepPart.ANSWER,)),
    ],
)  # fmt: skip
def test_first_divergence_names_the_step_and_the_part(
    home: Path, change: dict[str, Any], parts: tuple[StepPart, ...]
) -> None:
    other = [*USUAL[:2], replace(USUAL[2], **change), USUAL[3]]
    [pairing] = both(home, USUAL, other).pairings
    assert pairing.first is not None
    assert (pairing.first.pair.here or pairing.first.pair.one).step == 4
    assert pairing.first.part is parts[0]
    assert pairing.first.pair.parts == parts
    assert [one.what for one in pairing.pairs].count("same") == 4


def test_large_values_that_differ_behind_their_preview_are_found_and_shown(home: Path) -> None:
    same = "x" * 300_000
    ends = ("HERE", "THERE")
    runs = [[replace(USUAL[1], result={"status": 200, "body": f"{same}{end}"})] for end in ends]
    [pairing] = both(home, *runs).pairings
    assert pairing.first is not None
    assert pairing.first.part is StepPart.ANSWER
    [field] = pairing.first.fields
    assert (field.at, field.here[-4:], field.there[-5:]) == ("result.body", "HERE", "THERE")


def test_blob_that_is_gone_leaves_the_preview(home: Path) -> None:
    runs = [
        [replace(USUAL[1], result={"status": 200, "body": end * 300_000})] for end in ("a", "b")
    ]
    here, there = (write_run(home, name, deeds) for name, deeds in zip("ab", runs, strict=True))
    for blob in (here / "blobs").rglob("*"):
        if blob.is_file():
            blob.unlink()
    [pairing] = compare([here, there]).pairings
    assert pairing.first is not None
    assert pairing.first.part is StepPart.ANSWER


def test_steps_that_only_one_has_are_told(home: Path) -> None:
    found = both(home, USUAL, [*USUAL[:2], tool("think"), *USUAL[2:]])
    assert whats(found)[3] == (None, 4, "only in B")
    assert whats(found)[4] == (4, 5, "same")
    first = found.pairings[0].first
    assert first is not None
    assert (first.part, first.here) == (StepPart.STEP, None)
    assert first.there is not None
    assert first.there["name"] == "think"


def test_output_of_the_agent_is_not_where_two_runs_part(home: Path) -> None:
    here = write_run(home, "a", USUAL, stdout="refunded")
    other = [*USUAL[:3], replace(USUAL[3], verdict="block", outcome="refused")]
    there = write_run(home, "b", other, stdout="refused")
    [pairing] = compare([here, there]).pairings
    assert pairing.first is not None
    assert pairing.first.pair.one.step == 5
    assert pairing.pairs[0].parts == (StepPart.ANSWER,)


def test_output_that_alone_differs_is_the_divergence(home: Path) -> None:
    runs = [write_run(home, name, USUAL, stdout=name) for name in "ab"]
    [pairing] = compare(runs).pairings
    assert pairing.first is not None
    assert [one.as_json() for one in pairing.first.fields] == [
        {"at": "result.stdout", "a": "a", "b": "b"}
    ]


def test_fork_shares_its_past_by_number(home: Path) -> None:
    """Steps that look the same are not mixed up: their numbers say which is which."""
    same = tool("next")
    here = write_run(home, "root", [same] * 6)
    there = write_run(home, "fork", [same] * 4, opened=fork_of("root", 4))
    found = compare([here, there])
    assert found.pairings[0].shared_before == 4
    assert whats(found)[:3] == [(1, 1, "same"), (2, 2, "same"), (3, 3, "same")]


@pytest.mark.parametrize(("first", "second", "shared"), [(3, 5, 3), (5, 3, 3)])
def test_fork_of_a_fork_shares_with_the_root_what_both_share(
    home: Path, first: int, second: int, shared: int
) -> None:
    root = write_run(home, "root", [tool("next")] * 6)
    write_run(home, "middle", [tool("next")] * 6, opened=fork_of("root", first))
    last = write_run(home, "last", [tool("next")] * 6, opened=fork_of("middle", second, "root"))
    assert compare([root, last]).pairings[0].shared_before == shared
    assert compare([last, root]).pairings[0].shared_before == shared


def test_siblings_share_up_to_the_earlier_fork(home: Path) -> None:
    write_run(home, "root", USUAL)
    forks = [write_run(home, f"f{at}", USUAL, opened=fork_of("root", at)) for at in (3, 5)]
    assert compare(forks).pairings[0].shared_before == 3


def test_fork_whose_origin_is_gone_and_strangers_are_aligned_by_what_they_did(home: Path) -> None:
    forks = [
        write_run(home, f"f{n}", USUAL, opened=fork_of(parent, 3))
        for n, parent in enumerate(["gone", "another", "../../etc"])
    ]
    found = compare(forks)
    assert [one.shared_before for one in found.pairings] == [0, 0]
    assert found.is_same


def test_lineage_that_goes_in_circles_comes_to_an_end(home: Path) -> None:
    runs = [write_run(home, a, USUAL, opened=fork_of(b, 3)) for a, b in (("a", "b"), ("b", "a"))]
    assert compare(runs).is_same


def test_lineage_that_lies_pairs_nothing_that_does_not_fit(home: Path) -> None:
    here = write_run(home, "a", [tool("one"), tool("two")])
    there = write_run(home, "b", [tool("two"), tool("one")], opened=fork_of("a", 100))
    for one in compare([here, there]).pairings[0].pairs:
        assert one.here is None or one.there is None or one.here.key == one.there.key


def test_replay_is_paired_with_its_record(home: Path) -> None:
    here = write_run(home, "a", USUAL)
    again = [replace(one, again=RecordedSource("a", at)) for at, one in enumerate(USUAL, 2)]
    opened = {"kind": "replay", "lineage": {"run": "a", "root": "a"}}
    found = compare([here, write_run(home, "b", again, opened=opened)])
    assert found.is_same
    assert found.pairings[0].shared_before is None
    assert found.columns[1].origin == "replay"
    assert found.columns[1].as_json()["again"] == 4


def test_what_was_different_about_a_run_is_said_in_words(home: Path) -> None:
    head = "version: 1\nagent: a\nstage: broad\ntools: {mail: {effect: write}}\n"
    base = load(head + "sandbox: {limits: {pids: 20}}\n")
    other = load(
        head + "sandbox: {limits: {pids: 30}}\n"
        "faults: [{id: slow, match: {kind: http}, fault: {delay: 1s}}]\n"
        "rules: [{id: no-mail, match: {kind: tool, name: mail}, decide: block, why: x}]\n"
    )

    def under(policy: Any, name: str) -> Configured:
        return Configured(policy=PolicySource(text=dump(policy), name=f"/p/{name}", base="/p"))

    here = write_run(home, "a", USUAL, configured=under(base, "paddock.yaml"))
    there = write_run(
        home,
        "b",
        USUAL,
        opened={
            "stage": "narrow",
            "seed": "7",
            "policy_digest": "e" * 64,
            "command": ["node", "x y"],
        },
        configured=under(other, "strict.yaml"),
    )
    words = compare([here, there]).columns[1].otherwise
    assert set(words) >= {
        "stage narrow", "seed 7", "command node 'x y'", "policy strict.yaml",
        "sandbox.limits.pids=30", "fault slow", "rule no-mail",
    }  # fmt: skip
    assert not any("eeeeeeee" in word for word in words)
    back = compare([there, here]).columns[1].otherwise
    assert set(back) >= {
        "no fault slow",
        "no rule no-mail",
        "stage draft",
        "sandbox.limits.pids=20",
    }


def test_policy_that_is_other_in_nothing_that_is_known_is_named_by_its_digest(home: Path) -> None:
    here = write_run(home, "a", USUAL)
    there = write_run(home, "b", USUAL, opened={"policy_digest": "e" * 64})
    assert compare([here, there]).columns[1].otherwise == ("policy eeeeeeee",)


@pytest.mark.parametrize("text", ["a: [", "- &x [1]\n- *x", "\x00", "7", "a: " + "[" * 5000])
def test_policy_text_that_is_none_is_no_error(home: Path, text: str) -> None:
    configured = Configured(policy=PolicySource(text=text))
    runs = [write_run(home, name, USUAL, configured=configured) for name in "ab"]
    assert compare(runs).columns[1].otherwise == ()


def test_seed_that_nobody_chose_is_no_difference(home: Path) -> None:
    runs = [write_run(home, name, USUAL, opened={"seed": name * 64}) for name in "ab"]
    assert compare(runs).columns[1].otherwise == ()


def test_many_runs_are_grouped_by_what_they_did(home: Path) -> None:
    failing = [*USUAL[:3], replace(USUAL[3], outcome="failed")]
    words = [
        replace(USUAL[0], arguments={"host": "api.model.example", "model": "m-1", "prompt": "?"})
    ]
    runs = [
        write_run(home, "a", USUAL),
        write_run(home, "b", failing),
        write_run(home, "c", [*words, *USUAL[1:]]),
        write_run(home, "d", failing),
        write_run(home, "e", USUAL, exit_code=1),
    ]
    found = compare(runs)
    names = [[one.trail.run for one in group] for group in found.groups]
    assert names == [["a", "c"], ["b", "d"], ["e"]]
    parts = [one.first and one.first.part for one in found.pairings]
    assert parts == [StepPart.OUTCOME, StepPart.PROPOSAL, StepPart.OUTCOME, StepPart.ANSWER]


def test_faults_verdicts_alerts_and_costs_are_counted(home: Path) -> None:
    struck = replace(USUAL[2], verdict="fault", by="lost", fault={"id": "lost", "status": 500},
                     outcome="faulted", result={"status": 500})  # fmt: skip
    notes = [
        Alert("loop", 3),
        WorldEnded(digest="x", broken={"shop": ["no stock is left"]}),
    ]
    found = both(home, USUAL, [*USUAL[:2], struck], notes=notes)
    told = found.columns[1].as_json()
    assert told["faults"] == {"lost": 1}
    assert told["judgements"] == {"corrupted": 1, "gave-up": 1}
    assert told["broken"] == {"shop": ["no stock is left"]}
    assert told["alerts"] == [{"alert": "loop", "times": 3}]
    assert told["spent"] == {"calls": 1, "input_tokens": 10, "output_tokens": 5, "usd_micros": 120}


def make_world(home: Path, run: str, refund: int) -> None:
    place = home / "worlds" / run
    place.mkdir(parents=True)
    entry = {"name": "pay", "host": "pay.example", "port": 443, "service": "no-such",
             "options": {}, "file": "pay.sqlite"}  # fmt: skip
    listing = {"run": run, "services": [entry], "seed": 1, "clock": 0, "ended": True}
    (place / "world.json").write_text(json.dumps(listing))
    with Store.open(place / "pay.sqlite") as store:
        store.put("charges", "c1", {"amount": 5000, "currency": "usd", "status": "succeeded"})
        store.seal()
        token = STEP.set(3)
        store.put("refunds", "r1", {"amount": refund, "currency": "usd", "status": "succeeded"})
        store.put("refunds", "r2", {"amount": 1, "currency": "usd", "status": "failed"})
        STEP.reset(token)


def world_note(digest: str) -> list[WorldEnded]:
    return [WorldEnded(digest=digest, changes={"pay": 2})]


def test_worlds_are_compared_document_by_document(home: Path) -> None:
    runs = [write_run(home, name, USUAL, notes=world_note(name)) for name in "ab"]
    make_world(home, "a", 1200)
    make_world(home, "b", 1300)
    found = compare(runs)
    [service] = found.ends[0].world
    assert service.count == 1
    assert service.documents[0].as_json() == {
        "kind": "refunds",
        "id": "r1",
        "what": "changed",
        "fields": [{"at": "amount", "a": 1200, "b": 1300}],
    }
    assert [one.money for one in found.columns] == [{"refunds usd": 1200}, {"refunds usd": 1300}]
    assert not found.is_same


def test_world_that_is_gone_or_damaged_is_said_and_is_no_error(home: Path) -> None:
    runs = [write_run(home, name, USUAL, notes=world_note(name)) for name in "abc"]
    make_world(home, "a", 1)
    make_world(home, "c", 1)
    (home / "worlds/c/pay.sqlite").write_bytes(b"no database" * 100)
    found = compare(runs)
    assert "has no world" in str(found.ends[0].world[0].why)
    assert "cannot be" in str(found.ends[1].world[0].why)
    assert found.columns[1].money == {}


def test_replay_has_no_world_to_be_compared(home: Path) -> None:
    here = write_run(home, "a", USUAL, notes=world_note("a"))
    make_world(home, "a", 1200)
    opened = {"kind": "replay", "lineage": {"run": "a", "root": "a"}}
    found = compare([here, write_run(home, "b", USUAL, opened=opened)])
    assert found.is_same
    assert found.ends[0].world == ()


def files_note(tree: str) -> list[FilesRecorded]:
    return [FilesRecorded(tree, 1, is_last=True)]


def test_files_at_the_end_are_compared_by_their_trees(home: Path, tmp_path: Path) -> None:
    store = TreeStore(home / "trees")
    trees = []
    for name in "ab":
        place = tmp_path / name
        place.mkdir()
        (place / "same.txt").write_text("same")
        (place / "changed.txt").write_text(name)
        (place / f"only-{name}.txt").write_text("x")
        trees.append(store.recorder({"/home/user": place}).record().tree)
    here = write_run(home, "a", USUAL, notes=files_note(trees[0]))
    there = write_run(home, "b", USUAL, notes=files_note(trees[1]))
    files = compare([here, there]).ends[0].files
    assert files.is_same is False
    assert {one.path.rpartition("/")[2]: one.what for one in files.files} == {
        "changed.txt": "changed", "only-a.txt": "only in A", "only-b.txt": "only in B",
    }  # fmt: skip


@pytest.mark.parametrize("tree", ["a" * 64, "../../../etc/passwd", "/dev/zero", ""])
def test_trees_that_are_gone_or_no_trees_are_known_to_differ_only(home: Path, tree: str) -> None:
    (home / "trees").mkdir(parents=True)
    here = write_run(home, "a", USUAL, notes=files_note(tree))
    there = write_run(home, "b", USUAL, notes=files_note("b" * 64))
    files = compare([here, there]).ends[0].files
    assert (files.is_same, files.count) == (False, None)


def test_run_that_was_interrupted_is_compared_as_far_as_it_came(home: Path) -> None:
    here = write_run(home, "a", USUAL)
    there = write_run(home, "b", [*USUAL[:2], replace(USUAL[2], outcome=None)], is_closed=False)
    found = compare([here, there])
    assert found.columns[1].as_json()["state"] == "interrupted"
    assert [one[2] for one in whats(found)] == [
        "same", "same", "same", "outcome changed", "only in A",
    ]  # fmt: skip


def test_what_cannot_be_compared_is_refused(home: Path, tmp_path: Path) -> None:
    here = write_run(home, "a", USUAL)
    with pytest.raises(InvalidInput):
        compare([here])
    with pytest.raises(InvalidInput):
        compare([here] * 1000)
    (tmp_path / "empty").mkdir()
    with pytest.raises((NotFound, InvalidInput, IntegrityError)):
        compare([here, tmp_path / "empty"])


def test_run_may_be_compared_with_itself(home: Path) -> None:
    here = write_run(home, "a", USUAL)
    assert compare([here, here]).is_same


def test_json_is_plain_and_whole(home: Path) -> None:
    told = json.loads(json.dumps(both(home, USUAL, USUAL[:3]).as_json()))
    assert told["format"] == 1
    assert [one["run"] for one in told["runs"]] == ["a", "b"]
    [against] = told["against_first"]
    assert len(against["steps"]) == 5
    assert against["steps"][4]["what"] == "only in A"
    assert against["steps"][4]["b"] is None
    assert against["first_divergence"]["part"] == "step"
    assert set(against) == {"a", "b", "shared_before", "counts", "first_divergence", "steps",
                            "files", "world"}  # fmt: skip


@pytest.mark.parametrize("odd", [None, [], "text", -1, 1.5, {"a": {"b": []}}, True])
def test_records_of_any_shape_are_compared(home: Path, odd: Any) -> None:
    opened = {"run": "a", "agent": "x", "lineage": odd, "command": odd}
    bodies = [
        ("opened", opened, None),
        ("configured", {"policy": odd, "mounts": odd}, None),
        ("proposed", {"kind": odd, "name": odd, "arguments": odd}, 1),
        ("decided", {"verdict": "\x1b[31m", "decided_by": odd, "why": odd}, 1),
        ("settled", {"outcome": "odd", "result": odd, "cost": odd}, 1),
        ("program_ended", {"pid": odd}, 1),
        ("noted", {"what": odd}, 1),
    ]
    usual = [
        Deed("http", "x" * 5000, {"headers": {"a": {"b": 1}}, "host": odd, "path": odd}),
        Deed("exec", "ls", {"argv": [odd, odd, 3], "pid": odd}, result={"exit_code": odd}),
        Deed("tool", "\u202e\x00", {"x": "\x00"}, result=odd),
    ]
    runs = [write_records(home, "a", bodies), write_run(home, "b", usual)]
    json.dumps(compare(runs).as_json())
    json.dumps(compare(runs[::-1]).as_json())


def test_a_request_that_is_a_step_around_its_question_is_no_difference(home: Path) -> None:
    """Runs of earlier versions have it with every fault of the file, whether it struck or not."""
    request_around = request("POST", "/v1/messages")
    around = replace(request_around, result={"model_step": 3})
    assert both(home, USUAL, [around, *USUAL]).is_same


@pytest.mark.parametrize("change", [{"verdict": "ask"}, {"fault": {"id": "lost"}}])
def test_a_request_around_a_question_that_was_not_let_pass_is_compared(
    home: Path, change: dict[str, Any]
) -> None:
    around = replace(request("POST", "/v1/messages"), result={"model_step": 3}, **change)
    assert not both(home, USUAL, [around, *USUAL]).is_same
