"""`paddock net`, over real journals: what the door records, drawn, and an agent that attacks."""

from __future__ import annotations

import json
import os
import pty
import re
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from cases import for_each
from paddock.cli.render import network
from paddock.cli.render.network import NetworkColumns, NetworkFilter, NetworkScan, row_of, size
from paddock.journal.log import RunLog
from paddock.journal.traffic import KINDS, Traffic
from paddock.journal.writer import Journal
from paddock.model.events import Alert, Decided, Record, Settled
from paddock.model.steps import Step
from unit.cli.conftest import Call
from unit.cli.crafted import write_journal
from unit.cli.past import begin_run, make_run, paddock, proposed

ALLOW = {"verdict": "allow", "decided_by": "network", "why": "It is in network.allow."}
BLOCK = {"verdict": "block", "decided_by": "network", "why": "It is not in network.allow."}
REFUSED = {"outcome": "refused", "error": "It is not in network.allow.", "result": None}
HOSTILE = "\x1b]0;owned\x07\x1b[2J\r\n  99  ok\u202eevil\x9b\u2028x"
KEYS = {
    "step", "parent", "at", "kind", "name", "method", "scheme", "host", "port", "path", "query",
    "url", "status", "verdict", "decided_by", "why", "effect", "outcome", "error", "bytes_out",
    "bytes_in", "address", "duration_us", "held_us", "arguments", "result", "cost",
}  # fmt: skip


def put(
    journal: Journal,
    step: int,
    kind: str,
    arguments: Any,
    settled: dict[str, Any] | None,
    decided: dict[str, Any] = ALLOW,
    parent: int = 1,
) -> None:
    journal.append(proposed(kind, arguments, parent), step)
    journal.append(msgspec.convert({"why": "", **decided}, Decided), step)
    if settled is not None:
        journal.append(msgspec.convert({"result": None, **settled}, Settled), step)


def http(host: str = "api.example", **more: Any) -> dict[str, Any]:
    usual = {"method": "GET", "scheme": "https", "host": host, "port": 443, "path": "/v1/things"}
    return {**usual, "headers": {}, **more}


def done(**result: Any) -> dict[str, Any]:
    return {"outcome": "done", "result": result}


def alert(journal: Journal, step: int | None, name: str, times: int = 1, **about: Any) -> None:
    journal.append(Alert(name, times, about), step)


@pytest.fixture
def run(home: Path) -> Path:
    """A run as the door records one."""
    journal = begin_run(home, "r1")
    journal.append(proposed("exec", {"argv": ["curl"]}), 1)
    put(journal, 2, "dns", {"host": "api.example", "name": "api.example", "type": "A"},
        {"outcome": "done", "result": True})  # fmt: skip
    put(journal, 3, "http", http(query="a=1"), done(status=200, bytes=2500, address="203.0.113.9"))
    posted = http(method="POST", body={"n": 1}, body_bytes=7)
    put(journal, 4, "http", posted, REFUSED, {**BLOCK, "decided_by": "no-writes"})
    put(journal, 5, "connect", {"host": "db.example", "port": 5432, "transport": "tcp"},
        done(bytes_in=11, bytes_out=4, address="203.0.113.7"))  # fmt: skip
    put(journal, 6, "connect", {"host": "evil.example", "port": 80, "transport": "tcp"}, REFUSED,
        BLOCK)  # fmt: skip
    alert(journal, 6, "egress.denied", host="evil.example", port=80, transport="tcp")
    alert(journal, 6, "egress.denied", times=41, host="evil.example", port=80, transport="tcp")
    model = {"host": "llm.example", "port": 443, "path": "/v1/messages", "method": "POST",
             "provider": "anthropic", "model": "m-1"}  # fmt: skip
    cost = {"input_tokens": 11, "output_tokens": 3, "usd_micros": 4}
    put(journal, 7, "model", model, {**done(status=200, bytes=9), "cost": cost})
    put(journal, 8, "http", http(), {"outcome": "failed", "error": "api.example: reset",
                                     "result": {"status": 502}})  # fmt: skip
    put(journal, 9, "http", http(path="/slow"), None)
    journal.close()
    return journal.directory


def lines_of(call: Call, *words: str) -> list[list[str]]:
    said = call("net", "r1", *words)
    assert said.code == 0, said.err
    return [line.split() for line in said.out.splitlines()]


def steps_of(call: Call, *words: str) -> list[int]:
    said = call("net", "r1", "--json", *words)
    assert said.code == 0, said.err
    found = [json.loads(line) for line in said.out.splitlines()]
    return [one["step"] for one in found if "step" in one]


def test_each_step_of_the_network_is_a_line_and_no_other_is(run: Path, call: Call) -> None:
    lines = lines_of(call)
    assert lines[0] == ["STEP", "FROM", "TIME", "KIND", "METHOD", "DESTINATION", "PATH", "STATUS",
                        "VERDICT", "OUT", "IN", "TOOK"]  # fmt: skip
    rows = {line[0]: line for line in lines[1:] if line and line[0].isdigit() and line[1] == "1"}
    assert list(rows)[:8] == ["2", "3", "4", "5", "6", "7", "8", "9"]
    assert rows["3"][3:] == ["http", "GET", "api.example:443", "/v1/things?a=1", "200", "allow",
                             "network", "0", "2.5k", *rows["3"][-2:]]  # fmt: skip
    assert rows["4"][7:11] == ["403", "block", "no-writes", "0"]
    assert rows["5"][3:11] == ["connect", "tcp", "db.example:5432", "-", "-", "allow", "network",
                               "4"]  # fmt: skip
    assert rows["2"][3:7] == ["dns", "A", "api.example", "-"]


def test_what_a_stand_in_got_was_sent_and_what_nobody_got_was_not(home: Path, call: Call) -> None:
    journal = begin_run(home, "r1")
    put(
        journal,
        1,
        "http",
        http(method="PUT"),
        {"outcome": "simulated", "result": {"status": 200, "sent": {"bytes": 50}, "stand_in": "s"}},
    )
    put(
        journal,
        2,
        "http",
        http(method="POST", body_bytes=9),
        {"outcome": "simulated", "result": {"status": 200, "stand_in": "s"}},
    )
    put(journal, 3, "http", http(method="POST", body_bytes=7), {"outcome": "simulated"})
    journal.close()
    found = [json.loads(line) for line in call("net", "r1", "--json").out.splitlines()]
    assert [one["bytes_out"] for one in found] == [50, 9, 0]


def test_model_call_has_its_model_and_tokens_and_the_sum_what_it_cost(
    run: Path, call: Call
) -> None:
    said = call("net", "r1").out
    assert "/v1/messages (m-1 11+3 tokens)" in said
    assert "models: 1 call, 14 tokens, <$0.0001" in said


def test_sum_counts_decisions_and_bytes(run: Path, call: Call) -> None:
    said = call("net", "r1").out
    assert "8 steps: allow 6, block 2; 4 out, 2.5k in" in said


def test_what_came_of_it_is_said_where_the_verdict_does_not(run: Path, call: Call) -> None:
    said = call("net", "r1").out
    assert "allow network, failed" in said
    assert "  . api.example: reset" in said
    assert "allow network, open" in said
    assert "allow network, done" not in said


def test_alerts_stand_at_the_end_counted_with_those_that_were_not_told(
    run: Path, call: Call
) -> None:
    lines = call("net", "r1").out.splitlines()
    at = lines.index("alerts: 42")
    assert lines[at + 2].split()[:2] == ["42", "egress.denied"]
    assert "host evil.example, port 80, transport tcp" in lines[at + 2]
    assert len(lines) == at + 3


def test_blocked_are_shown_alone_and_with_the_reasons(run: Path, call: Call) -> None:
    assert steps_of(call, "--blocked") == [4, 6]
    assert call("net", "r1", "--blocked").out.count(". It is not in network.allow.") == 2


def test_asked_action_that_was_refused_counts_as_blocked(home: Path, call: Call) -> None:
    journal = begin_run(home, "r1")
    asked = {"verdict": "ask", "decided_by": "big"}
    put(journal, 1, "http", http(), {"outcome": "refused", "error": "Ann said no."}, asked)
    put(journal, 2, "http", http(), done(status=200), asked)
    journal.close()
    assert steps_of(call, "--blocked") == [1]
    assert "ask big, refused" in call("net", "r1", "--blocked").out


@pytest.mark.parametrize(
    ("words", "steps"),
    [(("--kind", "dns"), [2]), (("--kind", "dns,connect"), [2, 5, 6]),
     (("--kind", "dns, model"), [2, 7]), (("--host", "api.example"), [2, 3, 4, 8, 9]),
     (("--host", "API.Example."), [2, 3, 4, 8, 9]), (("--host", "other.example"), []),
     (("--host", "api.example", "--kind", "http", "--blocked"), [4])],
)  # fmt: skip
def test_steps_are_chosen_by_kind_and_host(
    run: Path, call: Call, words: tuple[str, ...], steps: list[int]
) -> None:
    assert steps_of(call, *words) == steps


def test_wildcard_means_hosts_below_and_no_lookalike(home: Path, call: Call) -> None:
    journal = begin_run(home, "r1")
    hosts = ["a.corp.example", "corp.example", "evilcorp.example", "b.a.corp.example"]
    for step, host in enumerate(hosts):
        put(journal, step, "http", http(host), done(status=200))
    journal.close()
    assert steps_of(call, "--host", "*.corp.example") == [0, 3]


def test_alerts_are_those_of_the_steps_that_are_shown(run: Path, call: Call) -> None:
    assert "alerts" in call("net", "r1", "--host", "evil.example").out
    assert "alerts" not in call("net", "r1", "--host", "api.example").out


def test_alert_without_a_step_is_always_told(home: Path, call: Call) -> None:
    journal = begin_run(home, "r1")
    alert(journal, None, "egress.denied", host="evil.example")
    journal.close()
    said = call("net", "r1")
    assert "nothing of the kind went through" in said.out
    assert "alerts: 1" in said.out


def test_json_is_one_object_a_line_with_all_fields(run: Path, call: Call) -> None:
    found = [json.loads(line) for line in call("net", "r1", "--json").out.splitlines()]
    steps, alerts = found[:8], found[8:]
    assert all(set(one) == KEYS for one in steps)
    first = {one["step"]: one for one in steps}[3]
    assert first["url"] == "https://api.example/v1/things?a=1"
    assert (first["status"], first["bytes_in"], first["address"]) == (200, 2500, "203.0.113.9")
    assert first["arguments"]["host"] == "api.example"
    dns = {one["step"]: one for one in steps}[2]
    assert (dns["url"], dns["status"], dns["bytes_out"]) == (None, None, None)
    (denied,) = alerts
    assert (denied["alert"], denied["times"], denied["steps"]) == ("egress.denied", 42, [6, 6])
    assert denied["about"] == {"host": "evil.example", "port": 80, "transport": "tcp"}


@pytest.mark.parametrize(
    ("words", "said"),
    [(("--kind", "exec"), "--kind: 'exec' is not one of"), (("--kind", ""), "--kind: ''"),
     (("--kind", "http,"), "--kind: ''"), (("--host", "127.1"), "--host:"),
     (("--host", "*"), "--host:"), (("--host", ""), "--host:")],
)  # fmt: skip
def test_wrong_choice_is_a_sentence(
    run: Path, call: Call, words: tuple[str, ...], said: str
) -> None:
    found = call("net", "r1", *words)
    assert (found.code, found.out) == (2, "")
    assert said in found.err


def test_run_is_named_as_for_other_commands(run: Path, home: Path, call: Call) -> None:
    expected = call("net", "r1").out
    for word in ("r", str(run)):
        assert call("net", word).out == expected
    elsewhere = shutil.copytree(run, home.parent / "copied")
    assert call("net", str(elsewhere)).out == expected
    assert call("net", "nope").code == 1


def test_run_without_network_says_so(home: Path, call: Call) -> None:
    make_run(home, "r1")
    assert call("net", "r1").out == "nothing of the kind went through the network door\n"
    assert call("net", "r1", "--json").out == ""


def test_run_that_is_still_written_is_shown(home: Path, call: Call) -> None:
    journal = begin_run(home, "r1")
    put(journal, 1, "http", http(), None)
    assert steps_of(call) == [1]
    journal.close()


def test_no_word_of_an_agent_acts_on_a_terminal_or_fakes_a_line(home: Path, call: Call) -> None:
    journal = begin_run(home, "r1")
    hostile = {"verdict": "block", "decided_by": HOSTILE, "why": HOSTILE}
    arguments = http(HOSTILE, method=HOSTILE, path=HOSTILE, query=HOSTILE)
    put(journal, 1, "http", arguments, {"outcome": "failed", "error": HOSTILE}, hostile)
    put(journal, 2, "model", {**arguments, "model": HOSTILE}, {"outcome": "done"}, hostile)
    put(journal, 3, "dns", {"name": HOSTILE, "type": HOSTILE}, REFUSED, hostile)
    alert(journal, 1, HOSTILE, host=HOSTILE, **{HOSTILE: HOSTILE})
    journal.close()
    for words in ((), ("--blocked",)):
        said = call("net", "r1", *words).out
        assert all(character.isprintable() or character == "\n" for character in said)
        assert not any(line.lstrip().startswith("99") for line in said.splitlines())


@pytest.mark.parametrize("odd", [None, 5, [], "x", {}, {"host": 3}, {"port": "80", "path": {}}])
def test_journal_from_elsewhere_may_say_anything(home: Path, call: Call, odd: Any) -> None:
    records: list[dict[str, Any]] = [
        {"type": "opened", "body": {"run": "r1", "agent": "a"}},
        {"type": "alert", "step": 1, "body": {"times": odd, "alert": odd}},
    ]
    whole = {"name": "n", "effect": "read", "is_reversible": True, "is_contained": False}
    for step, kind in enumerate(KINDS):
        records += [
            {"type": "proposed", "step": step, "body": {**whole, "kind": kind, "arguments": odd}},
            {"type": "decided", "step": step, "body": {"verdict": odd, "fault": odd}},
            {"type": "settled", "step": step, "body": {"outcome": odd, "result": odd}},
            {"type": "settled", "step": step, "body": {"outcome": "done", "result": odd}},
        ]
    write_journal(home / "runs" / "r1", [{"at": 1, **one} for one in records], None)
    assert call("net", "r1").code == 0
    # Nothing is told of an action that cannot be read.
    assert len(steps_of(call)) == (len(KINDS) if isinstance(odd, dict) else 0)


def test_request_with_a_body_that_was_set_aside_is_shown_whole(home: Path, call: Call) -> None:
    journal = begin_run(home, "r1")
    big = {f"k{n}": "v" * 100 for n in range(2000)}
    put(journal, 1, "http", http(method="POST", body=big, body_bytes=9), done(status=201))
    journal.close()
    (found,) = [json.loads(line) for line in call("net", "r1", "--json").out.splitlines()]
    assert (found["host"], found["status"]) == ("api.example", 201)


def test_blob_that_is_gone_hides_no_other_step(home: Path, call: Call) -> None:
    journal = begin_run(home, "r1")
    big = {f"k{n}": "v" * 100 for n in range(2000)}
    put(journal, 1, "http", http(body=big), done(status=201))
    put(journal, 2, "http", http(), done(status=200))
    journal.close()
    shutil.rmtree(journal.directory / "blobs")
    assert steps_of(call) == [1, 2]


def numbers_of(journal: Journal) -> list[int]:
    return [
        traffic.step.number for traffic in NetworkScan(RunLog(journal.directory), NetworkFilter())
    ]


def test_steps_come_in_order_however_they_ended(home: Path) -> None:
    journal = begin_run(home, "r1")
    for step in (1, 2, 3):
        put(journal, step, "http", http(), None)
    for step in (3, 1, 2):
        journal.append(msgspec.convert(done(status=200), Settled), step)
    journal.close()
    assert numbers_of(journal) == [1, 2, 3]


def test_step_that_never_ends_holds_up_only_so_many(
    home: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(network, "MAX_HELD", 3)
    journal = begin_run(home, "r1")
    put(journal, 1, "http", http(), None)
    for step in range(2, 9):
        put(journal, step, "http", http(), done(status=200))
    journal.close()
    assert numbers_of(journal) == [2, 3, 4, 5, 6, 7, 1, 8]


def test_piped_output_has_no_colours_and_no_tabs(run: Path, home: Path) -> None:
    said = paddock("net", "r1", PADDOCK_HOME=str(home))
    assert said.returncode == 0
    assert "\033" not in said.stdout and "\t" not in said.stdout


def test_terminal_has_colours_and_no_row_is_wider(run: Path, home: Path) -> None:
    said = on_a_terminal(home, columns=125)
    assert "\033[31m" in said
    rows = [re.sub(r"\033\[[0-9]*m", "", line) for line in said.splitlines()][:10]
    assert max(map(len, rows)) <= 125
    assert any("/v1/mess" in row and "..." in row for row in rows)


def on_a_terminal(home: Path, columns: int) -> str:
    outer, inner = pty.openpty()
    environment = {**os.environ, "PADDOCK_HOME": str(home), "COLUMNS": str(columns)}
    environment.pop("NO_COLOR", None)
    words = [sys.executable, "-m", "paddock.cli.main", "net", "r1"]
    with subprocess.Popen(words, stdin=inner, stdout=inner, stderr=inner, env=environment) as child:
        os.close(inner)
        said = b""
        try:
            while part := os.read(outer, 65536):
                said += part
        except OSError:  # how the end of a terminal is read
            pass
        assert child.wait(timeout=60) == 0
    os.close(outer)
    return said.decode()


def requested(path: str) -> Record:
    return Record(n=1, at=0, step=1, event=proposed("http", http(path=path)))


def test_long_path_is_cut_to_the_width_and_numbers_never_are() -> None:
    first, second = (
        row_of(Traffic(Step(number, [requested(path)])), 0, with_why=False)
        for number, path in ((1, "/p"), (1_234_567, "/" + "p" * 900))
    )
    columns = NetworkColumns.for_rows([first], 100, is_coloured=False)
    (line,) = columns.lines(second)
    assert line.split()[0] == "1234567"
    wide = NetworkColumns.for_rows([second], 120, is_coloured=False)
    assert len(next(wide.lines(second))) <= 120


@for_each(
    ("number", "text"),
    [(None, "-"), (0, "0"), (999, "999"), (1000, "1.0k"), (9949, "9.9k"), (9950, "10k"),
     (400_000, "400k"), (2_500_000, "2.5M"), (10**21, "1000E")],
)  # fmt: skip
def test_bytes_are_short(number: int | None, text: str) -> None:
    assert size(number) == text


@given(st.integers(0, 10**18))
def test_short_bytes_are_near_the_real_number(number: int) -> None:
    text = size(number)
    unit = {"k": 10**3, "M": 10**6, "G": 10**9, "T": 10**12, "P": 10**15, "E": 10**18}
    value = float(text.rstrip("kMGTPE")) * unit.get(text[-1], 1)
    assert abs(value - number) <= max(number * 0.05, 0.5)
