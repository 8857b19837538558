"""`paddock policy replay` and `learn`: over journals, and over a sandbox that really ran."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from paddock.gate.run_gate import signing_key
from paddock.journal.writer import Journal
from paddock.model.action import Action, Effect, Kind
from paddock.model.events import Opened, ProgramStarted, Proposed
from paddock.policy.file import load
from paddock.state.home import Home
from unit.cli.conftest import Call
from unit.cli.past import FILE, command, decided, make_run, refund, search, settled

LOOSER = FILE.split("  - id: no-dumps")[0]
TIGHTER = FILE + "  - {id: no-ls, match: {kind: exec, program: ls}, decide: block, why: No.}\n"


@pytest.fixture(autouse=True)
def files(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    Path("same.yaml").write_text(FILE)
    Path("looser.yaml").write_text(LOOSER)
    Path("tighter.yaml").write_text(TIGHTER)


def test_same_file_changes_nothing(home: Path, call: Call) -> None:
    make_run(home, "r")
    said = call("policy", "replay", "same.yaml", "r", "--fail-on", "any")
    assert (said.code, said.out) == (0, "4 actions of 1 run: 4 as before\n")


def test_what_changes_is_listed_and_counted(home: Path, call: Call) -> None:
    make_run(home, "r")
    lines = call("policy", "replay", "looser.yaml", "r").out.splitlines()
    assert lines[0].split() == ["RUN", "STEP", "CHANGE", "WAS", "WOULD", "BE", "BY", "CALL"]
    assert lines[1].split()[:6] == ["r", "2", "looser", "block", "allow", "default"]
    assert lines[1].endswith('tool search(query="everything")')
    assert lines[-1] == "4 actions of 1 run: looser 1, 3 as before"
    shown = call("policy", "replay", "tighter.yaml", "r", "--json").json
    assert (shown["looser"], shown["tighter"], shown["actions"]) == (0, 1, 4)
    [change] = shown["changes"]
    assert (change["run"], change["step"], change["change"]) == ("r", 4, "tighter")
    assert change["before"]["verdict"] == "allow"
    assert change["after"]["decided_by"] == "no-ls"
    assert change["action"]["arguments"]["argv"] == ["ls", "-l"]


@pytest.mark.parametrize(
    ("file", "on", "code"),
    [("looser", "looser", 1), ("looser", "any", 1), ("tighter", "looser", 0), ("tighter", "any", 1),
     ("same", "any", 0)],
)  # fmt: skip
def test_build_can_fail_on_what_changes(
    file: str, on: str, code: int, home: Path, call: Call
) -> None:
    make_run(home, "r")
    assert call("policy", "replay", f"{file}.yaml", "--all", "--fail-on", on).code == code
    assert call("policy", "replay", f"{file}.yaml", "--all").code == 0


def test_draft_instead_of_a_question_is_told_as_looser_and_named(home: Path, call: Call) -> None:
    asks = FILE.replace("stage: draft", "stage: approve")
    make_run(home, "r", [refund(5)], policy=load(asks + "approvals: {timeout: 1s}\n"))
    out = call("policy", "replay", "same.yaml", "r").out
    assert out.splitlines()[1].split()[2:5] == ["looser", "ask", "draft"]


def test_program_that_nobody_minded_then_is_minded_now(home: Path, call: Call) -> None:
    seen = ProgramStarted("/usr/bin/curl", ["curl", "x"], "/home/user", pid=7, parent=1)
    make_run(home, "r", [command("make")], observed={1: [seen]})
    rule = "  - {id: no-curl, match: {kind: exec, program: curl}, decide: block, why: No.}\n"
    Path("c.yaml").write_text(FILE + rule)
    [change] = call("policy", "replay", "c.yaml", "r", "--json").json["changes"]
    assert (change["step"], change["after"]["decided_by"]) == (1, "no-curl")


def test_runs_are_named_or_all_of_an_agent_or_all(home: Path, call: Call) -> None:
    make_run(home, "r1")
    make_run(home, "r2")

    def runs(*words: str) -> int:
        return int(call("policy", "replay", "same.yaml", "--json", *words).json["runs"])

    assert runs("r1", "r2", "r1") == 2
    assert runs("--all") == 2
    assert runs("--agent", "support-bot") == 2
    assert runs("--all", "--since", "1h") == 2
    assert call("policy", "replay", "same.yaml", "--agent", "nobody").code == 1


@pytest.mark.parametrize(
    "words", [[], ["r", "--all"], ["--all", "--agent", "x"], ["r", "--since", "1h"]]
)
def test_choice_of_runs_that_is_none_is_a_sentence(
    words: list[str], home: Path, call: Call
) -> None:
    make_run(home, "r")
    said = call("policy", "replay", "same.yaml", *words)
    assert said.code == 2
    assert said.err.startswith("paddock: ")


def test_journal_that_cannot_be_read_is_not_left_out_in_silence(home: Path, call: Call) -> None:
    make_run(home, "good")
    path = make_run(home, "bad") / "000001.jsonl"
    path.write_bytes(b"x\n" + path.read_bytes())
    said = call("policy", "replay", "same.yaml", "--all", "--fail-on", "looser")
    assert said.code == 1
    assert "runs/bad" in said.err


def test_list_of_changes_is_bounded_and_their_number_is_not(home: Path, call: Call) -> None:
    make_run(home, "r", [search("everything")] * 5)
    said = call("policy", "replay", "looser.yaml", "r", "--limit", "2").out
    assert said.count("everything") == 2
    assert "(3 more changes: --limit, or --json)" in said
    assert "looser 5" in said


def test_runs_may_stand_behind_options(home: Path, call: Call) -> None:
    make_run(home, "r1")
    make_run(home, "r2")
    said = call("policy", "replay", "same.yaml", "r1", "--json", "r2")
    assert said.json["runs"] == 2
    said = call("policy", "replay", "same.yaml", "r1", "--jason", "r2")
    assert said.code == 2
    assert "there is no option --jason; did you mean --json?" in said.err


# ---- learning ------------------------------------------------------------------------------------


def test_learned_file_allows_what_the_run_did_and_not_more(home: Path, call: Call) -> None:
    make_run(home, "r", [search("a"), command("ls", "-l")])
    assert call("policy", "learn", "r", "-o", "learned.yaml").code == 0
    learned = load(Path("learned.yaml").read_text())
    assert learned.agent == "support-bot"
    assert learned.decide(search("b")).verdict == "allow"
    assert learned.decide(refund(1)).verdict == "block"
    assert learned.decide(command("ls")).verdict == "allow"
    assert learned.decide(command("curl")).verdict == "block"
    assert call("policy", "replay", "learned.yaml", "r", "--fail-on", "any").code == 0


def test_learned_file_goes_to_the_output_and_the_remark_does_not(home: Path, call: Call) -> None:
    make_run(home, "r", [search("a")])
    said = call("policy", "learn", "r", "--agent", "other")
    assert load(said.out).agent == "other"
    assert "learned from 1 action; review it" in said.err


def test_file_that_is_there_is_not_overwritten_by_a_learned_one(home: Path, call: Call) -> None:
    make_run(home, "r")
    said = call("policy", "learn", "r", "-o", "same.yaml")
    assert said.code == 2
    assert Path("same.yaml").read_text() == FILE
    assert call("policy", "learn", "r", "-o", "same.yaml", "--force").code == 0
    assert Path("same.yaml").read_text() != FILE


def test_several_runs_are_learned_from_together(home: Path, call: Call) -> None:
    make_run(home, "r1", [command("ls")])
    make_run(home, "r2", [command("cat")])
    learned = load(call("policy", "learn", "r1", "r2").out)
    assert [learned.decide(command(one)).verdict for one in ("ls", "cat", "rm")] == [
        "allow", "allow", "block"
    ]  # fmt: skip


def rehearsal(home: Path, run: str, **opened: Any) -> Path:
    """A run whose steps were all decided `allow`; what came of them differs."""
    place = Home(home)
    about = Opened(run, "bot", stage="approve", **opened)
    journal = Journal.create(place.runs / run, opened=about, key=signing_key(place))
    ends = [
        settled("done"),
        settled("simulated"),
        settled("done", {"stand_in": "payments"}),
        settled("done", answered_by="ann"),
        settled("drafted", draft_id="d1"),
        settled("faulted"),
        settled("refused"),
        settled("done", {"model_step": 2}),
    ]
    for step, end in enumerate(ends, 1):
        action = Action(Kind.HTTP, "POST", {"host": f"h{step}.example", "port": 443,
                        "method": "POST", "path": "/x"}, Effect.WRITE)  # fmt: skip
        journal.append(Proposed.of(action), step)
        journal.append(decided("allow", effect=Effect.WRITE), step)
        journal.append(end, step)
    journal.close()
    return journal.directory


def test_rehearsal_opens_nothing_and_does_not_raise_the_stage(home: Path, call: Call) -> None:
    rehearsal(home, "r")
    said = call("policy", "learn", "r")
    learned = load(said.out)
    assert learned.network is not None
    assert [str(one) for one in learned.network.allow] == ["h1.example:443"]
    assert learned.stage == "approve"
    assert "Left out, a stand-in answered: h2.example, h3.example, h8.example." in said.out


@pytest.mark.parametrize("kind", ["replay", "fork"])
def test_nothing_is_learned_from_a_past_that_was_lived_through_again(
    home: Path, call: Call, kind: str
) -> None:
    rehearsal(home, "r", kind=kind)
    assert load(call("policy", "learn", "r").out).network is None


def test_nothing_is_learned_from_a_journal_that_is_not_signed(home: Path, call: Call) -> None:
    segment = rehearsal(home, "r") / "000001.jsonl"
    segment.write_bytes(segment.read_bytes().replace(b"h2.example", b"evil.test."))
    said = call("policy", "learn", "r")
    assert (said.code, said.out) == (1, "")


def test_sandbox_that_really_ran_is_shown_verified_and_replayed(
    call: Call,
) -> None:
    from paddock import Sandbox

    with Sandbox.create() as box:
        box.commands.run("env true; cat /dev/null")
        run = box.sandbox_id
    shown = call("show", run, "--json").json
    assert shown["run"]["opened"]["enforcement"]
    programs = [one["argv"] for step in shown["steps"] for one in step["programs"]]
    assert ["env", "true"] in programs
    assert ["cat", "/dev/null"] in programs
    assert call("verify", run, "--closed").code == 0
    rule = "{id: no-cat, match: {kind: exec, program: cat}, decide: block, why: No.}"
    Path("c.yaml").write_text(f"version: 1\nagent: a\nstage: observe\nrules: [{rule}]\n")
    [change] = call("policy", "replay", "c.yaml", run, "--json").json["changes"]
    assert change["action"]["arguments"]["argv"] == ["cat", "/dev/null"]
