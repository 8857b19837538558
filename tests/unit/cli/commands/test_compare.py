"""`paddock compare`: what it says of runs, in words, JSON and HTML."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import replace
from html.parser import HTMLParser
from pathlib import Path

import msgspec
import pytest

from paddock.cli.main import _run
from paddock.cli.render.comparison import comparison_lines
from paddock.model.events import Alert, WorldEnded
from paddock.run.compare.comparison import compare
from paddock.run.compare.ends import Ends, FileDifference, FilesEnd
from unit.cli.commands.test_world import make_model
from unit.cli.conftest import Said
from unit.run.compare.journeys import Deed, fork_of, model, request, tool, write_run

Say = Callable[..., Said]
USUAL = (
    model("what is in the queue?"),
    request("POST", "/v1/refunds", host="api.stripe.com"),
    request("POST", "/upload", host="evil.example"),
)
EVIL = "<script>alert(1)</script></style>\u202e\x1b[2J"


@pytest.fixture
def say(home: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> Say:
    """The command, in this process, before a wide screen."""
    monkeypatch.setenv("COLUMNS", "200")

    def run(*words: str) -> Said:
        try:
            code = _run("compare", list(words))
        except SystemExit as end:
            code = int(str(end.code))
        out, err = capsys.readouterr()
        return Said(code, out, err)

    return run


def blocked(deed: Deed) -> Deed:
    return replace(deed, verdict="block", by="no-leaks", outcome="refused", result=None)


def test_two_runs_stand_side_by_side_with_the_place_where_they_part(say: Say, home: Path) -> None:
    write_run(home, "base", USUAL, stdout="sent")
    fork = [*USUAL[:2], blocked(USUAL[2]), tool("escalate")]
    write_run(home, "fork", fork, opened={**fork_of("base", 4), "stage": "narrow"}, exit_code=3)
    said = say("base", "fork")
    assert said.code == 0
    lines = said.out.splitlines()
    assert lines[0].split() == ["run", "base", "fork"]
    assert any(line.split() == ["different", "stage", "narrow"] for line in lines)
    assert any(line.split() == ["ended", "exit", "0", "exit", "3"] for line in lines)
    assert any("one past up to step 3" in line for line in lines)
    assert any("decision changed" in line and "allow -> block" in line for line in lines)
    assert any("only in B" in line and "escalate" in line for line in lines)
    [parts] = [line for line in lines if line.startswith("parts")]
    assert "step 4: the decision differs (allow by default, then block by no-leaks)" in parts
    assert "POST evil.example/upload" in parts


def test_runs_that_are_the_same_are_said_to_be(say: Say, home: Path) -> None:
    write_run(home, "a", USUAL)
    write_run(home, "b", USUAL)
    assert "nowhere: every step is the same" in say("a", "b").out


def test_many_runs_are_a_table_and_groups(say: Say, home: Path) -> None:
    write_run(home, "base", USUAL)
    for number in range(20):
        deeds = USUAL if number % 2 else [*USUAL[:2], blocked(USUAL[2])]
        opened = {**fork_of("base", 4), "seed": str(number)}
        write_run(home, f"try{number:02}", deeds, opened=opened, exit_code=1 - number % 2)
    said = say("base", *(f"try{number:02}" for number in range(20)))
    lines = said.out.splitlines()
    assert lines[0].split() == ["RUN", "DIFFERENT", "ENDED", "STEPS", "COST", "VERDICTS", "BROKEN",
                                "PARTS", "AT"]  # fmt: skip
    assert [line.split()[0] for line in lines[1:22]] == ["base", *(f"try{n:02}" for n in range(20))]
    assert lines[4].split() == ["try02", "seed", "2", "exit", "1", "4", "$0.0001", "-", "-", "4",
                                "decision"]  # fmt: skip
    assert "2 ways it went" in lines
    assert any(line.split()[:3] == ["11", "exit", "0"] for line in lines)
    assert any(line.split()[:3] == ["10", "exit", "1"] for line in lines)


def test_repository_is_one_line_until_all_is_asked_for(home: Path) -> None:
    changed = [FileDifference(f".git/objects/{n}", "only in B") for n in range(3)]
    files = FilesEnd(False, count=4, files=(*changed, FileDifference("a.py", "changed")))
    runs = [write_run(home, name, USUAL) for name in "ab"]
    found = msgspec.structs.replace(compare(runs), ends=(Ends(files, ()),))

    short, full = (
        [line.split() for line in comparison_lines(found, 80, False, is_full=is_full)]
        for is_full in (False, True)
    )
    assert short[-2:] == [["changed", "a.py"], ["changed", ".git", "(3", "changes)"]]
    assert ["only", "in", "B", ".git/objects/2"] in full


def test_runs_with_other_proposals_and_the_same_end_are_said_to_end_alike(
    say: Say, home: Path
) -> None:
    for name in "abc":
        write_run(home, name, [model(f"what is in the queue of {name}?"), *USUAL[1:]])
    said = say("a", "b", "c").out
    assert "2 proposal" in said
    assert "all ended the same way" in said


def test_json_has_runs_groups_and_every_step(say: Say, home: Path) -> None:
    write_run(home, "a", USUAL)
    write_run(home, "b", USUAL[:2])
    told = say("a", "b", "--json").json
    assert (told["format"], told["is_same"]) == (1, False)
    assert [len(told[key]) for key in ("runs", "groups", "against_first")] == [2, 2, 1]


@pytest.mark.parametrize("is_full", [False, True])
@pytest.mark.parametrize("width", [0, 60, 80, 200])
def test_words_of_an_agent_cannot_act_on_the_terminal(
    home: Path, width: int, is_full: bool
) -> None:
    odd = Deed("tool", EVIL, {EVIL: EVIL}, by=EVIL, result={EVIL: EVIL}, error=EVIL)
    runs = [
        write_run(home, name, [replace(odd, name=EVIL + name)], opened={"agent": EVIL,
                  "command": [EVIL, name], "kind": EVIL, **({"lineage": {"run": EVIL, "at": 3}})},
                  notes=[Alert(EVIL, times=1), WorldEnded(name, broken={EVIL: [EVIL]})])
        for name in "abc"
    ]  # fmt: skip
    for some in (runs[:2], runs):
        found = compare(some)
        lines = list(comparison_lines(found, width, False, is_full=is_full))
        assert not any("\x1b" in line or "\u202e" in line or "\n" in line for line in lines)


def test_turns_of_a_scripted_model_are_a_number_until_they_are_asked_for(home: Path) -> None:
    runs = []
    for name, turns in (("a", ("t1",)), ("b", ("t1", "t2", "t3"))):
        make_model(home, name, *turns)
        world = WorldEnded(name, changes={"m": 1})
        runs.append(write_run(home, name, [tool("x")], notes=[world]))
    found = compare(runs)
    lines = list(comparison_lines(found, 100, False))
    said = "world     m: 1 document differs; 2 turns otherwise (moments: --full)"
    assert said in lines and not any("t3" in line for line in lines)
    assert any("moments t3" in line for line in comparison_lines(found, 100, False, is_full=True))


def test_lines_fit_the_screen_whatever_is_in_them(home: Path) -> None:
    long = "x" * 5000
    runs = [write_run(home, name, [tool(long + name, a=long)]) for name in "abc"]
    for some in (runs[:2], runs):
        for line in comparison_lines(compare(some), 80, False):
            assert len(line) <= 160


class Seen(HTMLParser):
    def __init__(self, text: str) -> None:
        super().__init__()
        self.tags: set[str] = set()
        self.feed(text)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.add(tag)


@pytest.mark.parametrize("count", [2, 4])
def test_page_is_one_file_in_which_hostile_words_are_words(
    say: Say, home: Path, tmp_path: Path, count: int
) -> None:
    names = [f"r{number}" for number in range(count)]
    for name in names:
        odd = Deed("tool", EVIL, {EVIL: EVIL + name}, by=EVIL, error=EVIL)
        write_run(home, name, [odd, *USUAL], opened={"command": [EVIL, name]},
                  notes=[Alert(EVIL, times=1)])  # fmt: skip
    page = tmp_path / "page.html"
    said = say(*names, "--html", str(page))
    assert (said.code, said.err) == (0, "")
    text = page.read_text()
    assert not {"script", "iframe", "img", "link"} & Seen(text).tags
    assert text.count("</style>") == 1
    assert "\u202e" not in text
    assert "&lt;script&gt;" in text
    assert all(name in text for name in names)


def test_page_of_very_long_runs_stays_one_that_opens(say: Say, home: Path, tmp_path: Path) -> None:
    for name in "ab":
        write_run(home, name, [tool("t" * 3000, n=n, run=name) for n in range(3000)])
    page = tmp_path / "page.html"
    assert say("a", "b", "--html", str(page)).code == 0
    assert page.stat().st_size < 4 << 20


def test_page_that_cannot_be_written_is_a_sentence(say: Say, home: Path) -> None:
    write_run(home, "a", USUAL)
    said = say("a", "a", "--html", "/nowhere/at/all.html")
    assert said.code == 2
    assert "cannot be written" in said.err


def test_run_that_is_not_there_is_a_sentence(say: Say, home: Path) -> None:
    write_run(home, "a", USUAL)
    assert say("a", "nobody").code == 1
    assert say("a").code == 2


def test_full_shows_every_step_and_whole_values(say: Say, home: Path) -> None:
    long = "y" * 30_000
    write_run(home, "a", [tool("one", text=f"{long}A"), *USUAL])
    write_run(home, "b", [tool("one", text=f"{long}B"), *USUAL])
    brief, full = say("a", "b").out, say("a", "b", "--full").out
    assert f"{long}A" not in brief
    assert f"{long}A" in full
    assert sum("same" in line for line in full.splitlines()) >= 4
    told = say("a", "b", "--full", "--json").json["against_first"][0]["first_divergence"]
    assert json.dumps(told).count(long) >= 4


def test_answers_of_models_stand_below_their_steps(say: Say, home: Path, tmp_path: Path) -> None:
    def asked(text: str) -> Deed:
        call = {"name": "refund", "arguments": {"amount": 2000, "currency": "eur"}}
        answer = {"text": text, "tool_calls": [call]}
        return replace(model("x"), result={"status": 200, "answer": answer})

    write_run(home, "r1", [asked("yes <b>")])
    write_run(home, "r2", [asked("no <b>")])
    page = tmp_path / "page.html"

    said = say("r1", "r2", "--html", str(page))
    for line in ('A: says "yes <b>"', 'B: says "no <b>"', "A: calls refund(20.00 EUR)"):
        assert line in said.out
    assert "B: says &quot;no &lt;b&gt;&quot;" in page.read_text()
    [pair] = [one for one in say("r1", "r2", "--json").json["against_first"][0]["steps"]
              if one["a"]["kind"] == "model"]  # fmt: skip
    assert pair["b"]["says"] == ['says "no <b>"', "calls refund(20.00 EUR)"]
