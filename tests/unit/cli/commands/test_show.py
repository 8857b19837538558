"""`paddock show`, over real journals, with an agent that attacks the terminal."""

from __future__ import annotations

import json
import re
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from paddock.cli.render.units import took
from paddock.gate.run_gate import signing_key
from paddock.journal.log import MAX_PAGE_RECORDS
from paddock.model.action import Action, Kind
from paddock.model.events import Alert, AnyEvent, Marked, ProgramEnded, ProgramStarted
from paddock.policy.file import load
from paddock.state.home import Home
from unit.cli.conftest import Call
from unit.cli.crafted import write_journal
from unit.cli.past import OBSERVED, USUAL, begin_run, command, make_run, paddock, proposed, search
from unit.run.recorded import Crossed, agent, ask_model, post, record

HOSTILE = "\x1b]0;owned\x07\x1b[2J\r\n  99  ok\u202eevil\x9b\u2028x"
PROPOSED = (
    '{"kind": "tool", "name": "n", "arguments": {}, "effect": "read", "is_reversible": true,'
    ' "is_contained": false}'
)
STEP_KEYS = {"step", "parent", "at", "kind", "name", "arguments", "effect", "verdict", "decided_by",
             "outcome", "duration_us", "programs", "alerts", "answer"}  # fmt: skip


def test_run_is_shown_with_header_counts_and_a_line_for_each_step(home: Path, call: Call) -> None:
    directory = make_run(home, "r1")
    said = call("show", "r1")
    assert said.code == 0
    lines = said.out.splitlines()
    labels = [line.split()[0] for line in lines[: lines.index("")]]
    assert labels == ["run", "agent", "started", "policy", "host", "template", "enforced", "key",
                      "head", "decided", "outcomes"]  # fmt: skip
    assert lines[0] == "run       r1 (ended)"
    assert load_policy_digest(directory)[:16] in said.out
    assert "decided   allow 2, simulate 1, block 1" in lines
    assert "outcomes  done 2, refused 1, drafted 1" in lines
    steps = lines[lines.index("") + 2 :]
    assert [line.split()[0] for line in steps] == ["1", "2", "3", "4"]
    assert 'search(query="everything")' in steps[1]
    assert "block     no-dumps" in steps[1]
    assert "stage:draft" in steps[2]
    assert "ls -l" in steps[3]


def load_policy_digest(directory: Path) -> str:
    opened = json.loads((directory / "000001.jsonl").read_bytes().split(b"\n")[0])
    return str(opened["body"]["policy_digest"])


def test_json_has_the_documented_shape(home: Path, call: Call) -> None:
    make_run(home, "r1", observed={4: [OBSERVED, ProgramEnded(pid=7, exit_code=2)]})
    shown = call("show", "r1", "--json").json
    assert set(shown) == {"run", "steps", "next"}
    assert shown["next"] is None
    assert {"opened", "head", "state", "directory"} < set(shown["run"])
    assert shown["run"]["head"]["size"] == shown["run"]["records"] - 1
    assert len(shown["run"]["policy_digest"]) == 64
    assert all(set(step) == STEP_KEYS for step in shown["steps"])
    last = shown["steps"][3]
    assert last["arguments"] == {"argv": ["ls", "-l"], "cwd": "/home/user", "program": "ls"}
    assert last["programs"] == [
        {"pid": 7, "parent": 1, "program": "/usr/bin/ls", "argv": ["ls", "-l"],
         "cwd": "/home/user", "exit_code": 2, "duration_us": None}
    ]  # fmt: skip


def test_programs_stand_below_the_step_that_caused_them(home: Path, call: Call) -> None:
    told_otherwise = ProgramStarted("/usr/bin/busybox", ["ls", "-l"], "/home/user", pid=8)
    make_run(home, "r1", observed={4: [OBSERVED, told_otherwise]})
    *_, step, first, second = call("show", "r1").out.splitlines()
    assert step.split()[0] == "4"
    assert first == f"{'':<19}. /usr/bin/ls -l"
    assert second == f"{'':<19}. /usr/bin/busybox (as ls) -l"


def test_call_is_whole_in_a_pipe(home: Path, call: Call) -> None:
    make_run(home, "r1", [command("ls", "x" * 100)])
    assert f"  ls {'x' * 100}  " in call("show", "r1").out


def test_steps_of_the_network_are_shown_as_people_say_them(home: Path, call: Call) -> None:
    where = {"host": "api.example", "port": 443}
    asked = {"method": "GET", "scheme": "https", **where, "path": "/v1", "query": "a=1"}
    model = {"model": "m-1", "prompt": "say hi", "path": "/v1/messages", **where}
    actions = (
        Action(Kind.HTTP, "GET api.example", {**asked, "headers": {"accept": "*/*"}}),
        Action(Kind.CONNECT, "api.example:443", {**where, "transport": "tls"}),
        Action(Kind.DNS, "api.example", {"host": "api.example", "type": "AAAA"}),
        Action(Kind.MODEL, "m-1", model),
    )
    make_run(home, "r1", actions)
    said = call("show", "r1").out
    for text in ("GET api.example/v1?a=1", "tls api.example:443", "AAAA api.example",
                 "m-1 at api.example:443/v1/messages: say hi"):  # fmt: skip
        assert f"  {text}  " in said


def test_alert_stands_below_the_step_that_it_is_about(home: Path, call: Call) -> None:
    journal = begin_run(home, "r1")
    arguments = {"host": HOSTILE, "port": 80, "transport": "tcp"}
    journal.append(proposed("connect", arguments), 1)
    about = {"host": HOSTILE, "port": 80}
    journal.append(Alert("egress.denied", times=1, about=about), 1)
    journal.append(Marked("something else"), 1)
    journal.close()
    said = call("show", "r1").out
    (line,) = [line for line in said.splitlines() if line.lstrip().startswith("!")]
    assert "egress.denied: host" in line and line.isprintable()
    (step,) = json.loads(call("show", "r1", "--json").out)["steps"]
    assert step["alerts"] == [{"alert": "egress.denied", "times": 1, **about}]


def test_many_programs_of_one_step_are_bounded_and_step_has_them_all(
    home: Path, call: Call
) -> None:
    many = [
        ProgramStarted("/usr/bin/ls", ["ls", "-l"], pid=pid) for pid in range(MAX_PAGE_RECORDS + 50)
    ]
    make_run(home, "r1", observed={1: many})
    out = call("show", "r1").out
    assert out.count("/usr/bin/ls") == 12
    assert "(more programs: --step 1)" in out
    records = call("show", "r1", "--step", "1", "--json").json["records"]
    assert len(records) == 3 + len(many)


def test_program_that_executes_another_ends_first(home: Path, call: Call) -> None:
    seen: list[AnyEvent] = [
        ProgramStarted("env", pid=5),
        ProgramStarted("true", pid=5),
        ProgramEnded(pid=5),
        ProgramEnded(pid=5, exit_code=3),
        ProgramEnded(pid=6, exit_code=4),
    ]
    make_run(home, "r1", [command("env")], observed={1: seen})
    [step] = call("show", "r1", "--json").json["steps"]
    assert [(program["program"], program["exit_code"]) for program in step["programs"]] == [
        ("env", None),
        ("true", 3),
    ]


def test_end_of_a_step_that_comes_much_later_is_shown(home: Path, call: Call) -> None:
    directory = make_run(home, "r", [search(str(number)) for number in range(200)])
    lines = (directory / "000001.jsonl").read_bytes().splitlines()
    records = [json.loads(line) for line in lines if b'"type":"head"' not in line]
    end = next(one for one in records if one.get("step") == 1 and one["type"] == "settled")
    records.remove(end)
    write_journal(directory, [*records[:-1], {**end, "at": records[-1]["at"]}, records[-1]], None)
    steps = call("show", "r", "--json", "--all").json["steps"]
    assert steps[0]["outcome"] == "done"
    assert steps[0]["duration_us"] > max(step["duration_us"] for step in steps[1:])


# ---- an agent's words ----------------------------------------------------------------------------


def hostile_run(home: Path) -> None:
    rule = "{id: fine, match: {kind: exec}, decide: allow}"
    text = f"version: 1\nagent: a\nstage: observe\nrules: [{rule}]\n"
    actions = [
        Action(Kind.TOOL, HOSTILE, {HOSTILE: HOSTILE}),
        search("no such tool" + HOSTILE),
        command("sh", "-c", HOSTILE),
        Action(Kind.CODE, "python", {"language": "python", "code": HOSTILE}, is_contained=True),
        Action(Kind.FILE, "read", {"operation": "read", "path": HOSTILE}, is_contained=True),
    ]
    seen = ProgramStarted(HOSTILE, [HOSTILE])
    make_run(home, "r", actions, policy=load(text), observed={3: [seen]}, result=HOSTILE)


@pytest.mark.parametrize(
    "words",
    [["show", "r"], ["show", "r", "--all"], *(["show", "r", "--step", str(n)] for n in range(1, 6)),
     ["show", "r", "--json"], ["runs"], ["runs", "--json"], ["verify", "r"],
     ["policy", "replay", "p.yaml", "r"], ["policy", "learn", "r"]],
    ids=" ".join,
)  # fmt: skip
def test_no_word_of_an_agent_acts_on_a_terminal_or_fakes_a_line(
    words: list[str], home: Path, call: Call, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    hostile_run(home)
    monkeypatch.chdir(tmp_path)
    text = "version: 1\nagent: a\nstage: observe\n"
    text += "rules: [{id: x, match: {kind: exec}, decide: block}]\n"
    Path("p.yaml").write_text(text)
    said = call(*words)
    assert said.code == 0, said.err
    for text in (said.out, said.err):
        assert all(char == "\n" or char.isprintable() for char in text)
    assert not any(line.lstrip().startswith("99  ok") for line in said.out.splitlines())


@pytest.mark.parametrize(
    "words",
    [["runs"], ["show", "r"], ["show", "r", "--step", "1"], ["show", "r", "--step", "2"]],
)
def test_no_word_of_a_journal_from_elsewhere_does_either(
    words: list[str], home: Path, call: Call
) -> None:
    place = Home(home)
    place.make()
    opened = {"run": "r", "agent": HOSTILE, "stage": HOSTILE, "template": HOSTILE,
              "policy": HOSTILE, "host": {"name": HOSTILE},
              "enforcement": {HOSTILE: HOSTILE}}  # fmt: skip
    odd: list[tuple[str, dict[str, Any]]] = [
        ("proposed", {HOSTILE: HOSTILE, "kind": HOSTILE, "name": HOSTILE}),
        ("decided", {"verdict": HOSTILE, "decided_by": HOSTILE, "why": 7}),
        ("observed", {"what": "exec", "pid": HOSTILE, "argv": [1, None]}),
        ("observed", {"what": "exit", "pid": HOSTILE, "exit_code": HOSTILE}),
        ("program_started", {"program": HOSTILE, "argv": [1, None]}),
        ("settled", {"outcome": HOSTILE, "result": [HOSTILE]}),
    ]
    good: list[tuple[str, dict[str, Any]]] = [
        ("proposed", {**json.loads(PROPOSED), "name": HOSTILE, "arguments": {HOSTILE: HOSTILE}}),
        ("decided", {"verdict": "allow", "decided_by": HOSTILE, "why": HOSTILE}),
        ("program_started", {"program": HOSTILE, "argv": [HOSTILE, HOSTILE]}),
        ("alert", {"alert": HOSTILE, "times": 1, "about": {HOSTILE: HOSTILE}}),
        ("settled", {"outcome": "failed", "error": HOSTILE, "result": [HOSTILE]}),
    ]
    records: list[dict[str, Any]] = [{"at": 1, "type": "opened", "body": opened}]
    for step, events in enumerate((odd, good), 1):
        records += [{"at": 1, "step": step, "type": kind, "body": body} for kind, body in events]
    write_journal(place.runs / "r", records, signing_key(place))
    said = call(*words)
    assert said.code == 0, said.err
    assert all(char == "\n" or char.isprintable() for char in said.out)


def test_text_of_several_lines_stands_behind_a_bar(home: Path, call: Call) -> None:
    make_run(home, "r", [search("x")], result="first\nrecord 99  +0.000  settled\nlast")
    lines = call("show", "r", "--step", "1").out.splitlines()
    assert "    | record 99  +0.000  settled" in lines
    assert "record 99  +0.000  settled" not in lines


# ---- which steps ---------------------------------------------------------------------------------


def numbers(call: Call, *words: str) -> list[int]:
    return [step["step"] for step in call("show", "r", "--json", *words).json["steps"]]


def test_steps_are_chosen_by_kind_decision_and_outcome(home: Path, call: Call) -> None:
    make_run(home, "r")
    assert numbers(call, "--only", "blocked") == [2]
    assert numbers(call, "--only", "refused") == [2]
    assert numbers(call, "--only", "drafted") == [3]
    assert numbers(call, "--only", "done") == [1, 4]
    assert numbers(call, "--only", "asked") == []
    assert numbers(call, "--kind", "exec") == [4]
    assert numbers(call, "--kind", "tool", "--only", "done") == [1]
    assert numbers(call, "--after", "2") == [3, 4]


def test_step_that_was_never_settled_is_found(home: Path, call: Call) -> None:
    directory = make_run(home, "r", [search("a")], is_closed=False)
    path = directory / "000001.jsonl"
    lines = path.read_bytes().splitlines(keepends=True)
    path.write_bytes(b"".join(line for line in lines if b'"type":"settled"' not in line))
    assert numbers(call, "--only", "unsettled") == [1]


@pytest.mark.parametrize("limit", [1, 3, 7, 25, 26])
def test_pages_together_are_all_steps_once(limit: int, home: Path, call: Call) -> None:
    make_run(home, "r", [search(str(number)) for number in range(25)])
    seen: list[int] = []
    after: list[str] = []
    while True:
        page = call("show", "r", "--json", "--limit", str(limit), *after).json
        seen += [step["step"] for step in page["steps"]]
        if page["next"] is None:
            break
        after = ["--after", str(page["next"])]
    assert seen == list(range(1, 26))
    assert numbers(call, "--all", "--limit", "1") == seen


def test_text_says_that_there_are_more_steps_and_how_to_see_them(home: Path, call: Call) -> None:
    make_run(home, "r")
    assert call("show", "r", "--limit", "2").out.endswith("(there are more: --after 2, or --all)\n")
    assert "there are more" not in call("show", "r", "--limit", "4").out


# ---- one step ------------------------------------------------------------------------------------


def test_one_step_is_shown_with_all_its_records(home: Path, call: Call) -> None:
    make_run(home, "r")
    shown = call("show", "r", "--step", "2", "--json").json
    assert [one["type"] for one in shown["records"]] == ["proposed", "decided", "settled"]
    assert shown["records"][1]["body"]["decided_by"] == "no-dumps"
    text = call("show", "r", "--step", "2").out
    assert "why            One ticket at a time." in text


def test_large_values_are_previews_until_they_are_asked_for(home: Path, call: Call) -> None:
    make_run(home, "r", [search("x")], result="long " * 10_000)

    def settled(*words: str) -> dict[str, Any]:
        shown = call("show", "r", "--step", "1", "--json", *words).json
        return dict(shown["records"][2])

    assert len(settled()["body"]["result"]) == 1024
    assert settled()["blobs"][0]["size_bytes"] == 50_000
    assert settled("--blobs")["body"]["result"] == "long " * 10_000
    assert "(a preview stands for 50000 bytes at /result)" in call("show", "r", "--step", "1").out


def test_step_that_is_not_there_says_how_many_there_are(home: Path, call: Call) -> None:
    make_run(home, "r")
    said = call("show", "r", "--step", "77")
    assert (said.code, said.err) == (1, "paddock: run r has no step 77; it has 4 steps\n")


# ---- which run -----------------------------------------------------------------------------------


def test_run_is_named_by_its_beginning_last_or_a_path(home: Path, call: Call) -> None:
    make_run(home, "abc111")
    directory = make_run(home, "abd222")
    for word in ("abd222", "abd", "last", str(directory), f"{directory}/"):
        assert call("show", word, "--json").json["run"]["run"] == "abd222", word


@pytest.mark.parametrize(
    ("word", "said"),
    [("ab", "'ab' could be abc111, abd222; write more of it"),
     ("abx222", "did you mean abd222"),
     ("zzzzzz", "paddock runs lists them"),
     ("", "there is no run ''"),
     ("./nothing", "there is nothing at './nothing'"),
     ("../../etc/passwd", "nothing at")],
)  # fmt: skip
def test_run_that_is_not_clear_is_a_sentence_with_what_is_near(
    word: str, said: str, home: Path, call: Call, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    make_run(home, "abc111")
    make_run(home, "abd222")
    answer = call("show", word)
    assert answer.code == 1
    assert said in answer.err


def test_home_without_runs_says_so(home: Path, call: Call) -> None:
    assert "there is no run yet" in call("show", "last").err


def test_journal_that_was_copied_elsewhere_is_shown_and_leaves_no_trace(
    home: Path, call: Call, tmp_path: Path
) -> None:
    directory = make_run(home, "r")
    before = call("show", "r", "--json").json
    shutil.copytree(directory, tmp_path / "copy")
    shown = call("show", str(tmp_path / "copy"), "--json").json
    assert shown["steps"] == before["steps"]
    assert [run["directory"] for run in call("runs", "--json").json] == [str(directory)]


@pytest.mark.parametrize("content", ["file", "empty", "text"])
def test_path_that_is_no_journal_is_a_sentence(
    content: str, home: Path, call: Call, tmp_path: Path
) -> None:
    place = tmp_path / "place"
    if content == "file":
        place.write_text("x")
    else:
        place.mkdir()
    if content == "text":
        (place / "000001.jsonl").write_text("hello\n")
    said = call("show", str(place))
    assert said.code in (1, 2)
    assert said.err.startswith("paddock: ")


def test_run_that_is_still_written_is_shown(home: Path, call: Call) -> None:
    make_run(home, "r", is_closed=False)
    shown = call("show", "r", "--json").json
    assert len(shown["steps"]) == len(USUAL)


def test_reader_that_goes_away_is_no_traceback(home: Path) -> None:
    make_run(home, "r", [search(str(number)) for number in range(300)])
    process = subprocess.Popen(
        [sys.executable, "-m", "paddock.cli.main", "show", "r", "--all"],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
    )
    assert process.stdout and process.stderr
    process.stdout.read(10)
    process.stdout.close()
    said = process.stderr.read()
    process.stderr.close()
    process.wait(timeout=60)
    assert b"Traceback" not in said


def test_output_that_lacks_letters_gets_them_spelled_out(home: Path) -> None:
    make_run(home, "r", [search("☃")])
    done = paddock("show", "r", PADDOCK_HOME=str(home), PYTHONIOENCODING="ascii")
    assert done.returncode == 0
    assert "\\u2603" in done.stdout


def test_colours_are_for_terminals_only(home: Path) -> None:
    make_run(home, "r")
    assert "\033" not in paddock("show", "r", PADDOCK_HOME=str(home)).stdout


@pytest.mark.parametrize(
    ("us", "text"),
    [(None, "-"), (0, "0 us"), (999, "999 us"), (12_400, "12 ms"), (3_210_000, "3.2 s"),
     (250_000_000, "4m 10s"), (7_400_000_000, "2h 3m")],
)  # fmt: skip
def test_durations_are_short(us: int | None, text: str) -> None:
    assert took(us) == text


def test_answer_of_a_model_and_money_of_a_request_stand_below_their_steps(
    home: Path, call: Call
) -> None:
    calls = [{"name": "refund", "arguments": {"amount": 2000, "currency": "eur"}}]
    answer = {"text": "I will\x1b[2J refund it.", "tool_calls": calls}
    record(home, "r1", [
        Crossed(agent("python", "agent.py"), record={"exit_code": 0}),
        Crossed(ask_model("money back"), record={"status": 200, "answer": answer}),
        Crossed(post(amount="500", currency="jpy"), record={"status": 200, "body": "{}"}),
    ])  # fmt: skip

    for words in (["show", "r1"], ["replay", "r1"]):
        out = call(*words).out
        assert 'says "I will\\x1b[2J refund it."' in out
        assert "calls refund(20.00 EUR)" in out
        assert "500 JPY" in out
    assert call("show", "r1", "--json").json["steps"][1]["answer"] == answer


def test_child_program_took_the_time_that_it_ran(home: Path, call: Call) -> None:
    child = Action(Kind.EXEC, "sleep", {"argv": ["sleep", "9"], "pid": 7}, is_contained=True)
    seen: list[AnyEvent] = [
        ProgramStarted("/bin/sleep", ["sleep", "9"], pid=7),
        ProgramEnded(pid=7, exit_code=0, duration_us=9_000_000),
    ]
    make_run(home, "r1", [child], observed={1: seen})

    [step] = call("show", "r1", "--json").json["steps"]
    assert step["duration_us"] == 9_000_000
    for words in (["show", "r1"], ["replay", "r1"]):
        assert re.search(r"sleep 9 .* 9\.0 s\n", call(*words).out)
