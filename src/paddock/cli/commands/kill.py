"""`paddock kill`: ends sandboxes, politely through their owner, or by force when it is silent."""

from __future__ import annotations

import os
import signal
from typing import TYPE_CHECKING

from paddock.cli.output import warn
from paddock.cli.parser import CommandParser
from paddock.model.errors import InvalidInput, NotFound, SandboxError

if TYPE_CHECKING:
    from paddock.state.home import SandboxRecord


def make_parser() -> CommandParser:
    parser = CommandParser(prog="paddock kill", description=__doc__)
    parser.add_argument("ids", nargs="*", metavar="SANDBOX", help="ids, or beginnings of ids")
    parser.add_flag("--all", "every sandbox of this user")
    return parser


def main(arguments: list[str]) -> int:
    options = make_parser().parse_args(arguments)
    from paddock.doors.machine.remote import find, living
    from paddock.state.home import Home

    if bool(options.ids) == options.all:
        raise InvalidInput("kill: give ids, or --all")
    home = Home.find()
    records = living(home) if options.all else [find(home, word) for word in options.ids]
    failed = 0
    for record in records:
        try:
            _end(record)
            print(record.sandbox_id)
        except SandboxError as error:
            failed += 1
            warn(f"{record.sandbox_id}: {error}")
    return 1 if failed else 0


def _end(record: SandboxRecord) -> None:
    from paddock.doors.machine.sandbox import Sandbox

    try:
        Sandbox.connect(record.sandbox_id).kill()
    except NotFound:
        return  # it ended by itself meanwhile, or it waits in a pool
    except SandboxError:
        # The owner hangs: pid 1 of the sandbox dies at once, and the keeper cleans up.
        with_pidfd = os.pidfd_open(record.init_pid)
        try:
            signal.pidfd_send_signal(with_pidfd, signal.SIGKILL)
        finally:
            os.close(with_pidfd)
