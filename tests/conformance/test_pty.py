"""Terminals: size, resizing, keys, ends."""

from __future__ import annotations

import signal

import pytest

from conformance.waiting import eventually, result_of
from paddock import CommandExitException, CommandNotStarted, InvalidInput, Sandbox
from paddock.doors.machine.sandbox import CommandHandle


class Screen:
    """Collects what a terminal shows."""

    def __init__(self, box: Sandbox, **options: object) -> None:
        self.data = b""
        self.handle: CommandHandle = box.pty.create(on_data=self._take, **options)  # type: ignore[arg-type]

    def _take(self, data: bytes) -> None:
        self.data += data

    def type(self, text: str) -> None:
        self.handle.send_stdin(text)

    def shows(self, text: str) -> None:
        eventually(lambda: text.encode() in self.data, what=f"{text!r} in {self.data!r}")


def test_terminal_has_the_size_that_was_asked_for(shared_box: Sandbox) -> None:
    screen = Screen(shared_box, rows=30, cols=100, cmd=["stty", "size"])
    screen.handle.wait()
    assert screen.data == b"30 100\r\n"


def test_resize_reaches_the_program(shared_box: Sandbox) -> None:
    program = (
        "import os, signal, time\n"
        "def tell(*_): os.write(1, b'%d x %d\\n' % os.get_terminal_size())\n"
        "signal.signal(signal.SIGWINCH, tell); tell()\n"
        "while True: time.sleep(1)\n"
    )
    screen = Screen(shared_box, cmd=["python3", "-c", program])
    screen.shows("80 x 24")
    screen.handle.resize(rows=50, cols=132)
    screen.shows("132 x 50")
    screen.handle.kill()


def test_shell_on_a_terminal_is_interactive(shared_box: Sandbox) -> None:
    screen = Screen(shared_box, envs={"PS1": "ready> "})
    screen.type("tty; echo $TERM; pwd\n")
    screen.shows("/dev/pts/")
    screen.shows("xterm-256color")
    screen.shows("/home/user")
    screen.type("exit 3\n")
    with pytest.raises(CommandExitException) as caught:
        result_of(screen.handle.wait)
    assert caught.value.exit_code == 3


def test_ctrl_c_interrupts_the_program_and_not_the_shell(shared_box: Sandbox) -> None:
    screen = Screen(shared_box)
    screen.type("echo be''gun; sleep 1000\n")
    screen.shows("begun")
    screen.type("\x03")
    screen.type("echo af''ter\n")
    screen.shows("after")
    screen.type("exit 0\n")
    with_interrupt = result_of(screen.handle.wait)
    assert with_interrupt.exit_code == 0


def test_close_stdin_is_the_end_of_file_key(shared_box: Sandbox) -> None:
    screen = Screen(shared_box, cmd=["cat"])
    screen.type("line\n")
    screen.shows("line\r\nline\r\n")
    screen.handle.close_stdin()
    assert result_of(screen.handle.wait).exit_code == 0


def test_kill_ends_a_terminal(shared_box: Sandbox) -> None:
    screen = Screen(shared_box, cmd=["sleep", "1001"])
    shown = {p.pid: p for p in shared_box.commands.list()}[screen.handle.pid]
    assert shown.is_pty
    screen.handle.kill()
    with pytest.raises(CommandExitException) as caught:
        result_of(screen.handle.wait)
    assert caught.value.exit_code == 128 + signal.SIGKILL


def test_terminal_is_the_controlling_one_and_the_program_leads_its_session(
    shared_box: Sandbox,
) -> None:
    program = (
        "import os\n"
        "leads = os.getsid(0) == os.getpid() == os.tcgetpgrp(0)\n"
        "print(leads, open('/dev/tty').isatty())"
    )
    screen = Screen(shared_box, cmd=["python3", "-c", program])
    screen.handle.wait()
    assert screen.data == b"True True\r\n"


def test_binary_output_of_a_terminal_arrives_as_bytes(shared_box: Sandbox) -> None:
    screen = Screen(shared_box, cmd=["printf", r"\377\033[1m\001"])
    screen.handle.wait()
    assert screen.data == b"\xff\x1b[1m\x01"


def test_terminal_starts_in_its_cwd(shared_box: Sandbox) -> None:
    screen = Screen(shared_box, cmd=["pwd"], cwd="/usr")
    screen.handle.wait()
    assert screen.data == b"/usr\r\n"


def test_connect_to_a_terminal_hears_bytes(shared_box: Sandbox) -> None:
    screen = Screen(shared_box, cmd=["sh", "-c", "read x; echo got $x; read x"])
    second = shared_box.commands.connect(screen.handle.pid)
    second.send_stdin("word\n")
    screen.shows("got word")
    second.send_stdin("\n")
    screen.handle.wait()


@pytest.mark.parametrize("size", [(0, 80), (24, -1), ("24", 80), (24, 100_000)])
def test_size_that_is_none_is_invalid(shared_box: Sandbox, size: tuple[int, int]) -> None:
    with pytest.raises(InvalidInput, match="terminal size"):
        shared_box.pty.create(rows=size[0], cols=size[1])


def test_program_that_cannot_be_started_on_a_terminal_raises_at_once(shared_box: Sandbox) -> None:
    with pytest.raises(CommandNotStarted, match="no-such-shell") as caught:
        shared_box.pty.create(cmd=["no-such-shell"])
    assert caught.value.exit_code == 127
