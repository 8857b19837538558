"""The live display of a run: what a person sees, what a pipe gets, and what an agent cannot do."""

from __future__ import annotations

import io
import json
import os
import re
import threading
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from paddock.cli.render.live_run import MAX_WAITING_BYTES, LiveText
from paddock.cli.render.live_steps import MAX_LINES_A_SECOND
from paddock.cli.render.run_lines import plain_step
from paddock.cli.render.screen import Screen, TerminalFilter
from paddock.journal.codec import event_from
from paddock.journal.log import RunLog
from paddock.model.events import (
    Alert,
    Answered,
    AnyEvent,
    Asked,
    Configured,
    EncodedEvent,
    MountRecorded,
    Record,
)
from paddock.model.steps import Step
from unit.cli.crafted import TYPES
from unit.cli.past import decided, proposed, settled
from unit.run.recorded import Crossed, agent, ask_model, post, record, refund, search

PROPOSED = '{"name": "n", "effect": "read", "is_reversible": true, "is_contained": false}'
COST = {"input_tokens": 1200, "output_tokens": 340, "usd_micros": 8700}
USUAL = (
    Crossed(agent("python", "agent.py"), record={"exit_code": 0}),
    Crossed(post(charge="ch_1"), result=200),
    Crossed(ask_model("what now?"), cost=COST),
    Crossed(refund(700)),
)


class Output(io.TextIOWrapper):
    """An output of a process; `is_tty` says whether a person looks at it."""

    def __init__(self, *, is_tty: bool, encoding: str = "utf-8") -> None:
        super().__init__(io.BytesIO(), encoding=encoding, newline="")
        self._is_tty = is_tty

    def isatty(self) -> bool:
        return self._is_tty

    @property
    def data(self) -> bytes:
        assert isinstance(self.buffer, io.BytesIO)
        return self.buffer.getvalue()

    @property
    def text(self) -> str:
        return self.data.decode()


class Terminal(Output):
    """What a person has on the screen: as much of a terminal as is needed for it."""

    def __init__(self) -> None:
        super().__init__(is_tty=True)

    @property
    def lines(self) -> list[str]:
        lines, column = [""], 0
        for part in re.findall(r"\x1b\[[0-9;]*[A-Za-z]|\r|\n|[^\x1b\r\n]+", self.text):
            if part == "\n":
                lines.append("")
                column = 0
            elif part == "\r":
                column = 0
            elif part == "\x1b[2K":
                lines[-1] = ""
            elif not part.startswith("\x1b"):
                lines[-1] = (
                    lines[-1][:column].ljust(column) + part + lines[-1][column + len(part) :]
                )
                column += len(part)
        return lines


def told(step: int | None, event: AnyEvent, at: int = 1000) -> Record:
    return Record(n=0, at=at, step=step, event=event)


def whole_step(number: int, verdict: str = "allow") -> Iterator[Record]:
    yield told(number, proposed("tool", {"query": number}))
    yield told(number, decided(verdict, why="So."))
    yield told(number, settled(), 3000)


def watch(records: Sequence[Record], screen: Screen, **words: Any) -> None:
    live = LiveText(screen, **words)
    for one in records:
        live.told(one)
    live.finish()


def recorded(home: Path, crossed: Sequence[Crossed] = USUAL) -> list[Record]:
    return list(RunLog(record(home, "r1", crossed)).events())


def test_each_step_is_a_line_with_its_decision_and_rule(tmp_path: Path) -> None:
    tty = Terminal()
    watch(recorded(tmp_path), Screen(tty, tty, width=120))

    lines = [one.rstrip() for one in tty.lines]
    assert re.fullmatch(r" +1 \$ python agent.py +allow +default +-", lines[0])
    assert re.match(r" +2 → POST api.stripe.com/v1/refunds +allow ", lines[1])
    assert re.match(r" +3 ✦ claude-x 1.2k→340 tok +allow ", lines[2])
    assert re.match(r" +4 ƒ refund\(amount=700\) +block +no-large-refunds ", lines[3])
    assert lines[4].strip().startswith("Refunds over a dollar are for people; refused")
    assert lines[5:] == [""]


def test_output_of_the_agent_reaches_a_pipe_byte_for_byte(tmp_path: Path) -> None:
    out, err = Output(is_tty=False), Terminal()
    live = LiveText(Screen(out, err, width=100))
    data = bytes(range(256)) + b"\x1b[2J half a line"
    for one in recorded(tmp_path):
        live.said("stdout", data)
        live.told(one)
    live.finish()

    assert out.data == data * len(recorded(tmp_path / "again"))


def test_without_a_terminal_lines_are_plain_and_on_the_error_output(tmp_path: Path) -> None:
    out, err = Output(is_tty=False), Output(is_tty=False)
    live = LiveText(Screen(out, err), is_coloured=False)
    for one in recorded(tmp_path):
        live.told(one)
    live.said("stdout", b"42\n")
    live.finish()

    assert out.data == b"42\n"
    assert "\x1b" not in err.text
    assert "\r" not in err.text
    assert "paddock: step 4 tool refund(amount=700): block by no-large-refunds" in err.text


def test_without_a_terminal_each_line_of_ours_begins_as_all_do() -> None:
    err = Output(is_tty=False)
    live = LiveText(Screen(Output(is_tty=False), err), is_coloured=False)
    mounts = [MountRecorded("/src", target, "read") for target in ("/a", "/b")]
    live.began("r1", Configured(mounts=mounts))
    live.told(told(4, Alert("egress.denied", times=1, about={"host": "evil"})))
    request = {"method": "POST", "host": "api.stripe.com", "port": 443, "path": "/v1/refunds",
               "body": {"amount": 2000, "currency": "eur"}}  # fmt: skip
    live.told(told(2, proposed("http", request)))
    live.told(told(2, Asked("apr_1", None)))
    live.told(told(2, settled("refused")))
    live.finish()

    assert len(err.text.splitlines()) == 5
    for line in err.text.splitlines():
        assert line.startswith("paddock: "), line
    assert "paddock: ! ALERT egress.denied: host evil (step 4)" in err.text
    call = "POST api.stripe.com/v1/refunds 20.00 EUR"
    assert f"paddock: ? step 2 ({call}) waits for a person: paddock approvals show" in err.text


def test_host_that_is_not_allowed_is_told_in_one_sentence_with_the_way_to_allow_it() -> None:
    why = "x.example:443 is not in network.allow."
    records = [
        told(2, proposed("connect", {})),
        told(2, decided("block", why=why)),
        told(2, settled("refused", error=why)),
    ]
    step = Step(2, records)

    assert plain_step(step).endswith(
        ": x.example:443 is not in network.allow; refused; add it to network.allow in the paddock"
        " file to let it out"
    )


def test_escape_sequences_in_steps_never_reach_the_terminal(tmp_path: Path) -> None:
    evil = "\x1b]52;c;aGk=\x07\x1b[2J\x9b2J\u202e\r\nstep 9 allow"
    alert = Alert(evil, times=1, about={"host": evil})
    crossed = [Crossed(search(evil)), Crossed(post("/" + evil)), Crossed(agent("sh", evil))]
    crossed.append(Crossed(refund(700), after=[alert]))
    tty = Terminal()
    watch(recorded(tmp_path, crossed), Screen(tty, tty, width=300))

    kept = re.sub(r"\r\x1b\[2K", "", tty.text)
    assert not re.search("[\x1b\x07\x9b\u202e\r]", kept)
    assert not any(line.startswith("step 9") for line in tty.lines)


def test_no_line_is_wider_than_the_terminal(tmp_path: Path) -> None:
    crossed = [Crossed(search("漢字" * 300)), Crossed(refund(700)), Crossed(agent("sh", "x" * 999))]
    tty = Terminal()
    watch(recorded(tmp_path, crossed), Screen(tty, tty, width=90))

    from paddock.cli.render.cells import cells

    assert max(map(cells, tty.lines)) < 100


def test_step_does_not_continue_a_half_line_of_the_agent() -> None:
    tty = Terminal()
    live = LiveText(Screen(tty, tty, width=100))
    live.said("stdout", b"thinking")
    for one in whole_step(2):
        live.told(one)
    live.said("stdout", b" done\n")
    live.finish()

    assert tty.lines[0] == "thinking"
    assert tty.lines[1].startswith("    2 ")
    assert tty.lines[2] == " done"


def test_last_line_is_taken_away_before_the_agent_writes_and_at_the_end() -> None:
    tty = Terminal()
    live = LiveText(Screen(tty, tty, width=100))
    for _ in range(1000):
        if "starting" in tty.text:
            break
        threading.Event().wait(0.01)
    assert "starting" in tty.text
    live.said("stdout", b"result\n")
    live.finish()

    assert tty.lines == ["result", ""]


def test_cursor_movements_of_the_agent_are_spelled_out_on_a_terminal() -> None:
    tty = Terminal()
    live = LiveText(Screen(tty, tty, width=100))
    live.said("stdout", b"\x1b[31mred\x1b[0m \x1b[1A\x1b[2K\x1b]0;t\x07 over")
    live.finish()

    assert tty.lines[0].startswith(r"red \x1b[1A\x1b[2K\x1b]0;t\x07 over")


@given(st.binary(max_size=200), st.lists(st.integers(1, 9), max_size=40))
def test_nothing_but_colours_and_line_ends_acts_on_a_terminal(
    data: bytes, sizes: list[int]
) -> None:
    harmless, shown, rest = TerminalFilter(), "", data
    for size in sizes:
        shown, rest = shown + harmless.feed(rest[:size]), rest[size:]
    shown += harmless.feed(rest) + harmless.end()

    left = re.sub(r"\x1b\[[0-9;:]*m|[\n\r\t]", "", shown)
    assert left.isprintable() or not left
    assert shown == (lambda one: one.feed(data) + one.end())(TerminalFilter())


@given(st.text(st.characters(categories=["L", "N", "P", "Zs"], exclude_characters="\u3164\xa0")))
def test_ordinary_text_passes_as_it_is(text: str) -> None:
    printable = "".join(
        one for one in text if one.isprintable() and one not in "\u115f\u1160\uffa0"
    )
    harmless = TerminalFilter()
    assert harmless.feed(printable.encode()) + harmless.end() == printable


def test_flood_of_steps_is_counted_and_none_is_unaccounted_for() -> None:
    tty = Terminal()
    count = 5000
    records = [
        one for n in range(1, count + 1) for one in whole_step(n, "block" if n % 5 else "allow")
    ]
    watch(records, Screen(tty, tty, width=100))

    lines = sum(bool(re.match(r" +\d+ ƒ", one)) for one in tty.lines)
    more = sum(map(int, re.findall(r"\.\.\. (\d+) more steps", tty.text)))
    # The first step is the agent itself: it has one line as well.
    assert lines + more == count
    assert lines >= MAX_LINES_A_SECOND
    assert more > 0


def test_nothing_is_written_over_a_question_and_all_of_it_comes_after() -> None:
    tty = Terminal()
    live = LiveText(Screen(tty, tty, width=100), is_asked_here=True)
    for one in list(whole_step(2))[:2]:
        live.told(one)
    live.said("stdout", b"before\n")
    live.told(told(2, Asked("apr_1", None)))
    at_question = tty.data
    assert at_question.endswith(b"before\n") or at_question.endswith(b"\x1b[2K")
    live.said("stdout", b"\x1b[31mmeanwhile\n")
    for one in whole_step(3):
        live.told(one)
    threading.Event().wait(0.3)  # several times as long as a redraw takes
    assert tty.data == at_question
    live.told(told(2, Answered("apr_1", "approved", by="ann")))
    live.told(told(2, settled()))
    live.finish()

    shown = tty.lines
    assert shown[0] == "before"
    assert shown[1] == "meanwhile"
    assert [one[:6] for one in shown[2:4]] == ["    3 ", "    2 "]


def test_agent_that_writes_much_during_a_question_does_not_stop_its_answer() -> None:
    tty = Terminal()
    live = LiveText(Screen(tty, tty, width=100), is_asked_here=True)
    live.told(told(2, Asked("apr_1", None)))
    for _ in range(8):
        live.said("stdout", b"x" * (MAX_WAITING_BYTES // 4))
    live.told(told(2, Answered("apr_1", "denied")))
    live.finish()

    assert "bytes of the agent's output only in the journal" in tty.text


def test_question_that_is_asked_elsewhere_is_named_and_holds_nothing_back() -> None:
    tty = Terminal()
    live = LiveText(Screen(tty, tty, width=100))
    live.told(told(2, Asked("apr_1", None)))
    live.said("stdout", b"meanwhile\n")
    live.finish()

    assert "paddock approvals show apr_1" in tty.lines[0]
    assert tty.lines[1] == "meanwhile"


def test_terminal_that_takes_nothing_does_not_stop_what_is_told() -> None:
    gate = threading.Event()

    class Stuck(Terminal):
        def flush(self) -> None:
            gate.wait()

    tty = Stuck()
    live = LiveText(Screen(tty, tty, width=100))
    for number in range(1, 2000):
        for one in whole_step(number):
            live.told(one)
    gate.set()
    live.finish()

    assert "1999" in tty.text or "more steps" in tty.text


@pytest.mark.parametrize("odd", [None, [], {}, 1.5, "x", [None], {"host": 3, "argv": [1, []]}])
def test_record_of_any_shape_does_not_end_the_display(odd: object) -> None:
    tty = Terminal()
    live = LiveText(Screen(tty, tty, width=100))
    fields = ("name", "arguments", "verdict", "cost", "outcome", "what", "by", "result", "approval")
    odd_body = dict.fromkeys(fields, odd)
    for kind in ("exec", "http", "model", "file", "code", "dns", "tool", odd):
        for number, name in enumerate((*TYPES, "settled"), 2):
            body = {**json.loads(PROPOSED), "kind": kind, "arguments": odd}
            live.told(told(number, event_from(EncodedEvent("proposed", body))))
            live.told(told(number, event_from(EncodedEvent(name, odd_body))))
            live.told(told(number, settled("done", odd)))
    for one in whole_step(99):
        live.told(one)
    live.said("stdout", b"still here\n")
    live.finish()

    assert "still here" in tty.text


def test_alert_stands_out() -> None:
    tty = Terminal()
    alert = Alert("egress.denied", times=1, about={"host": "evil.example"})
    watch([told(4, alert)], Screen(tty, tty, width=100), is_coloured=True)

    assert "\x1b[1;31m    ! ALERT egress.denied: host evil.example (step 4)\x1b[0m" in tty.text


def test_quiet_says_nothing_and_passes_the_output_on(tmp_path: Path) -> None:
    out, err = Output(is_tty=False), Terminal()
    live = LiveText(Screen(out, err, width=100), is_quiet=True)
    live.said("stdout", b"42\n")
    for one in recorded(tmp_path):
        live.told(one)
    live.finish()

    assert (out.data, err.data) == (b"42\n", b"")


def test_terminal_without_unicode_gets_signs_that_it_has(tmp_path: Path) -> None:
    err = Output(is_tty=True, encoding="ascii")
    watch(recorded(tmp_path), Screen(err, err, width=120))

    assert b" 2 > POST api.stripe.com" in err.data
    assert err.data.isascii()


def test_step_without_an_end_is_said_to_have_none() -> None:
    tty = Terminal()
    watch(list(whole_step(2))[:2], Screen(tty, tty, width=100))

    assert "no end was recorded" in tty.text


def test_reader_that_went_away_does_not_end_the_run() -> None:
    reading, writing = os.pipe()
    os.close(reading)
    err = Terminal()
    with open(writing, "w") as out:
        live = LiveText(Screen(out, err, width=100))
        live.said("stdout", b"x\n")
        live.said("stdout", b"y\n")
        for one in whole_step(2):
            live.told(one)
        live.finish()

    assert "n(query=2)" in err.text


def test_no_color_of_the_environment_is_respected(monkeypatch: pytest.MonkeyPatch) -> None:
    tty = Terminal()
    monkeypatch.setattr("sys.stderr", tty)
    monkeypatch.setattr("sys.stdout", tty)
    monkeypatch.setenv("NO_COLOR", "1")
    live = LiveText.here()
    for one in whole_step(2, "block"):
        live.told(one)
    live.finish()

    assert not re.search(r"\x1b\[[0-9;]*m", tty.text)
