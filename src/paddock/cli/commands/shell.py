"""`paddock shell`: a terminal in a sandbox, on this terminal."""

from __future__ import annotations

import contextlib
import os
import select
import shutil
import signal
import sys
import termios
import tty
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

from paddock.cli.options import add_spec_options, only_for_new, spec_from
from paddock.cli.parser import CommandParser
from paddock.cli.trust_prompt import trusted_policy
from paddock.model.errors import CommandExitException, InvalidInput, SandboxDied

if TYPE_CHECKING:
    from paddock.doors.machine.sandbox import Sandbox


def make_parser() -> CommandParser:
    parser = CommandParser(
        prog="paddock shell",
        description="A terminal in a new sandbox, which ends with the shell; or in a running one.",
    )
    add_spec_options(parser)
    parser.add_argument("id", nargs="?", metavar="SANDBOX", help="a running sandbox")
    return parser


def main(arguments: list[str]) -> int:
    options = make_parser().parse_args(arguments)
    from paddock.doors.machine.sandbox import Sandbox

    if not sys.stdin.isatty() or not sys.stdout.isatty():
        raise InvalidInput("shell: needs a terminal; for scripts use: paddock exec -- COMMAND")
    if options.id:
        only_for_new(options)
        return _attach(Sandbox.connect(options.id))
    with Sandbox.create(trusted_policy(options.file, options), **spec_from(options)) as box:
        print(f"sandbox {box.sandbox_id}; exit or ctrl-d ends it", file=sys.stderr)
        return _attach(box)


def _attach(box: Sandbox) -> int:
    size = shutil.get_terminal_size()
    handle = box.pty.create(size.lines, size.columns, on_data=_show)
    wake_r, wake_w = os.pipe()

    def on_resize(*_: Any) -> None:
        os.write(wake_w, b"r")

    signal.signal(signal.SIGWINCH, on_resize)
    with _raw_terminal(), _wait_for_end(handle, wake_w) as ending:
        _forward(handle, wake_r)
    return int(ending.get("code", 1))


def _forward(handle: Any, wake: int) -> None:
    stdin = sys.stdin.fileno()
    with contextlib.suppress(SandboxDied):
        while True:
            ready, _, _ = select.select([stdin, wake], [], [])
            if wake in ready:
                if os.read(wake, 1) == b"e":
                    return
                size = shutil.get_terminal_size()
                handle.resize(size.lines, size.columns)
            elif data := os.read(stdin, 4096):
                handle.send_stdin(data)


@contextlib.contextmanager
def _wait_for_end(handle: Any, wake: int) -> Iterator[dict[str, Any]]:
    """Waits for the shell's end in a thread and wakes the forwarding loop."""
    import threading

    ending: dict[str, Any] = {}

    def wait() -> None:
        try:
            ending["code"] = handle.wait().exit_code
        except CommandExitException as error:
            ending["code"] = error.exit_code
        except SandboxDied as error:
            ending["code"] = 1
            os.write(2, f"\r\npaddock: {error.message}\r\n".encode())
        finally:
            os.write(wake, b"e")

    thread = threading.Thread(target=wait, daemon=True)
    thread.start()
    yield ending
    thread.join(timeout=5)


@contextlib.contextmanager
def _raw_terminal() -> Iterator[None]:
    fd = sys.stdin.fileno()
    before = termios.tcgetattr(fd)
    tty.setraw(fd)
    try:
        yield
    finally:
        termios.tcsetattr(fd, termios.TCSADRAIN, before)


def _show(content: bytes) -> None:
    os.write(sys.stdout.fileno(), content)
