"""A run frame by frame: the screen as values, and the command in a real terminal."""

from __future__ import annotations

import contextlib
import os
import pty
import re
import signal
import struct
import subprocess
import sys
import termios
import time
from collections.abc import Iterator
from fcntl import ioctl
from pathlib import Path

import pytest

from paddock.cli.commands.step import main, open_view
from paddock.cli.render.cells import cells
from paddock.cli.render.step_gist import text_of_events
from paddock.cli.render.step_panes import messages_pane, step_pane
from paddock.cli.render.step_terminal import keys_of
from paddock.cli.render.step_view import StepView
from paddock.model.errors import IntegrityError, InvalidInput, NotFound
from paddock.model.events import FilesRecorded
from polling import is_readable
from unit.run.recorded import Crossed, agent, ask_model, post, record, refund, search

EVIL = "\x1b[2J\x1b]52;c;aGk=\x07\u202e\nline"
EVENTS = (
    'event: content_block_delta\ndata: {"delta":{"type":"text_delta","text":"Hel"}}\n\n'
    'data: {"delta":{"type":"text_delta","text":"lo"}}\n\ndata: [DONE]\n\n'
)
USUAL = (
    Crossed(agent("python", "agent.py"), record={"exit_code": 0, "stdout": "one\ntwo"}),
    Crossed(
        post(charge="ch_1"),
        record={"status": 200, "headers": {"content-type": "application/json"},
                "body": '{"id":"re_1","amount":100}'},
    ),
    Crossed(ask_model("what now?"), record={"status": 200, "body": EVENTS}),
    Crossed(refund(700)),
    Crossed(search(EVIL)),
)  # fmt: skip


@pytest.fixture
def view(home: Path) -> StepView:
    return open_view(record(home, "r1", USUAL))


def text_of(view: StepView, width: int = 120, height: int = 40) -> str:
    return "\n".join(re.sub(r"\x1b\[[0-9;]*m", "", one) for one in view.screen(width, height))


def press(view: StepView, *keys: str) -> None:
    for key in keys:
        view.press(key, 20)


def test_keys_go_through_the_steps_and_stop_at_the_ends(view: StepView) -> None:
    press(view, "k")
    assert view.step == 1
    press(view, "j", "right", "down")
    assert view.step == 4
    press(view, "G", "j")
    assert view.step == 5
    press(view, "g")
    assert view.step == 1


def test_n_goes_to_the_next_step_that_was_not_allowed_and_around(view: StepView) -> None:
    press(view, "n")
    assert view.step == 3 or view.step == 4
    press(view, "G", "n")
    assert view.recorded(view.step).step.verdict != "allow"


def test_search_finds_a_word_in_arguments_and_results(view: StepView) -> None:
    press(view, "/", *"re_1", "\r")
    assert view.step == 2
    press(view, "/", *"not there", "\r")
    assert view.step == 2
    assert "no further step has" in text_of(view)


def test_search_that_is_given_up_changes_nothing(view: StepView) -> None:
    press(view, "/", *"refund", "\x1b")
    assert (view.step, view.typed) == (1, None)


def test_step_shows_what_was_proposed_decided_and_done(view: StepView) -> None:
    press(view, "j")
    shown = text_of(view)

    assert "POST api.stripe.com" in shown
    assert '"charge": "ch_1"' in shown
    assert "allow by" in shown
    assert '"amount": 100' in shown  # the body of the answer, laid out
    assert "content-type: application/json" in shown


def test_refusal_shows_its_rule_and_why(view: StepView) -> None:
    press(view, "j", "j", "j")

    assert "block by no-large-refunds: Refunds over a dollar are for people." in text_of(view)


def test_stream_of_events_is_put_together(view: StepView) -> None:
    press(view, "j", "j")

    assert "Hello" in text_of(view)
    assert "content_block_delta" not in text_of(view)


def test_messages_of_a_model_step_are_shown_and_others_have_none(view: StepView) -> None:
    assert "what now?" in "\n".join(messages_pane(view.history, view.recorded(3).step))
    assert messages_pane(view.history, view.recorded(2).step) == ["This step asked no model."]


def test_nothing_of_the_agent_acts_on_the_terminal(view: StepView) -> None:
    view.is_coloured = False
    press(view, "G")
    for key in "sfwm":
        press(view, key)
        screen = "".join(view.screen(120, 40))
        assert not re.search("[\x00-\x1f\x7f-\x9f\u202e]", screen)


@pytest.mark.parametrize(("width", "height"), [(20, 5), (69, 10), (70, 24), (200, 60), (1, 1)])
def test_screen_is_exactly_as_large_as_the_terminal(
    view: StepView, width: int, height: int
) -> None:
    view.is_coloured = False
    for key in ("s", "j", "f", "w", "m", "pagedown", "G", "pageup", "/", "x"):
        press(view, key)
        lines = view.screen(width, height)
        assert len(lines) == max(height, 3)
        assert max(map(cells, lines)) <= max(width, 2)


def test_scrolling_stops_at_the_end(view: StepView) -> None:
    press(view, *["pagedown"] * 50)
    view.screen(120, 10)
    end = view.scroll
    press(view, "pagedown")
    view.screen(120, 10)

    assert view.scroll == end > 0


def test_files_and_world_that_were_not_kept_are_said_to_be_missing(view: StepView) -> None:
    press(view, "f")
    assert "No files were recorded here." in text_of(view)
    press(view, "w")
    assert "has no world" in text_of(view)


def test_files_that_changed_until_the_next_step_are_compared(home: Path, tmp_path: Path) -> None:
    from paddock.run.files import store_of
    from paddock.state.home import Home

    place = tmp_path / "files"
    place.mkdir()
    (place / "a.txt").write_text("one\ntwo\n")
    Home(home).make()
    recorder = store_of(Home(home)).recorder({"/home/user": place})
    first = recorder.record().tree
    (place / "a.txt").write_text("one\nthree\n")
    second = recorder.record().tree
    files = [FilesRecorded(tree, changed=1) for tree in (first, second)]
    crossed = [Crossed(agent("x"), before=files[:1]), Crossed(search("b"), before=files[1:])]
    view = open_view(record(home, "r1", crossed))
    press(view, "f")
    shown = text_of(view)

    assert "modified /home/user/a.txt" in shown
    assert "-two" in shown
    assert "+three" in shown
    press(view, "j")
    assert "No file changed" in text_of(view)


def test_run_begins_at_the_step_that_was_asked_for(home: Path) -> None:
    place = record(home, "r1", USUAL)

    assert open_view(place, 4).step == 4
    with pytest.raises(NotFound, match="no step 9"):
        open_view(place, 9)


def test_run_that_is_not_sound_is_not_shown(home: Path) -> None:
    place = record(home, "r1", USUAL)
    path = place / "000001.jsonl"
    path.write_bytes(path.read_bytes().replace(b'"amount":700', b'"amount":100'))

    with pytest.raises(IntegrityError):
        open_view(place)


def test_without_a_terminal_it_says_what_to_use(home: Path) -> None:
    record(home, "r1", USUAL)

    with pytest.raises(InvalidInput, match="no terminal") as raised:
        main(["r1"])
    assert "paddock show" in str(raised.value.hint)


def test_keys_are_told_apart_and_unknown_sequences_are_left_out() -> None:
    assert keys_of("j\x1b[Ck\x1b[5~\x1b[1;5Cq\x1bOA") == ["j", "right", "k", "pageup", "q", "up"]
    assert keys_of("\x1b") == ["\x1b"]


def test_step_pane_bounds_what_it_shows(home: Path) -> None:
    crossed = [Crossed(search("x"), result=["line"] * 50_000)]
    view = open_view(record(home, "r1", crossed))

    assert len(step_pane(view.recorded(1))) < 2100


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("plain text", None),
        ('{"data": 1}', None),
        ('data: {"choices":[{"delta":{"content":"a"}}]}\n\ndata: [DONE]\n', "a"),
        ("data: tick\n\ndata: tock\n", "tick\ntock"),
        ('data: {"type":"response.output_text.delta","delta":"b"}\n', "b"),
        ('data: {"choices": 3, "delta": [1]}\n', '{"choices": 3, "delta": [1]}'),
    ],
)
def test_streams_say_what_their_pieces_say(text: str, said: str | None) -> None:
    assert text_of_events(text) == said


class Console:
    """The command in a terminal of its own."""

    def __init__(self, run: str, home: Path) -> None:
        code = f"import sys; from paddock.cli.commands.step import main; sys.exit(main(['{run}']))"
        self.fd, inner = pty.openpty()
        self.size(100, 30)
        self.before = termios.tcgetattr(self.fd)
        self.process = subprocess.Popen(
            [sys.executable, "-c", code],
            stdin=inner, stdout=inner, stderr=inner, start_new_session=True,
            env={**os.environ, "PADDOCK_HOME": str(home), "TERM": "xterm"},
        )  # fmt: skip
        os.close(inner)
        self.data = b""

    def size(self, columns: int, lines: int) -> None:
        ioctl(self.fd, termios.TIOCSWINSZ, struct.pack("HHHH", lines, columns, 0, 0))

    def until(self, text: str) -> str:
        """Reads until the text has come, and gives the last screen."""
        end = time.monotonic() + 30
        while text.encode() not in self.data and time.monotonic() < end:
            if is_readable(self.fd, 0.2):
                try:
                    self.data += os.read(self.fd, 65536)
                except OSError:
                    break
        found = self.data.decode(errors="replace")
        assert text in found, found[-2000:]
        self.data = b""
        return found

    def press(self, keys: bytes) -> None:
        os.write(self.fd, keys)


@pytest.fixture
def console(home: Path) -> Iterator[Console]:
    record(home, "r1", USUAL)
    made = Console("r1", home)
    yield made
    with contextlib.suppress(ProcessLookupError):
        made.process.kill()
    made.process.wait(10)
    os.close(made.fd)


def test_in_a_terminal_keys_move_and_all_is_as_before_at_the_end(console: Console) -> None:
    console.until("step 1 (1 of 5)")
    console.press(b"\x1b[C")
    assert "POST api.stripe.com" in console.until("step 2 (2 of 5)")
    console.press(b"q")
    assert console.until("\x1b[?1049l")
    assert console.process.wait(20) == 0
    assert termios.tcgetattr(console.fd) == console.before


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGHUP])
def test_terminal_is_put_back_when_the_process_is_told_to_end(
    console: Console, number: signal.Signals
) -> None:
    console.until("step 1 (1 of 5)")
    console.process.send_signal(number)
    console.until("\x1b[?25h\x1b[?1049l")

    assert console.process.wait(20) == 128 + number
    assert termios.tcgetattr(console.fd) == console.before


def test_window_of_another_size_is_drawn_anew(console: Console) -> None:
    console.until("\x1b[J")
    console.size(60, 12)
    drawn = console.until("\x1b[J").replace("\r\r", "\r")

    assert "step 1 (1 of 5)" in drawn
    last = re.sub(r"\x1b\[[0-9;?]*[A-Za-z]", "", drawn[drawn.rindex("\x1b[H") :]).split("\r\n")
    assert len(last) == 12
    assert max(map(cells, last)) <= 60
