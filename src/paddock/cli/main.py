"""`paddock`: reads the command line and hands over to one module. No work is done here.

Exit codes are in `exit_codes.py`.
"""

from __future__ import annotations

import atexit
import gc
import importlib
import os
import sys
from collections.abc import Sequence

from paddock.cli.command_list import COMMANDS, overview
from paddock.cli.exit_codes import ExitCode
from paddock.model.errors import (
    CommandNotStarted,
    HostCannot,
    InvalidInput,
    NotSigned,
    NotTrusted,
    OutOfSpace,
    PaddockError,
    SandboxDied,
)
from paddock.model.space import is_out_of_space

# Loading makes many objects that all stay: to look through them every 700 is work for nothing.
_GC_OBJECTS = 50_000


def main(arguments: Sequence[str] | None = None) -> int:
    """Run a command and return its exit code. Without arguments it takes those of the process, and
    ends the process."""
    if arguments is not None:
        return _main(list(arguments))
    gc.set_threshold(_GC_OBJECTS)
    try:
        code = _main(sys.argv[1:])
    except SystemExit as end:  # argparse: help was asked for, or the arguments were wrong
        code = int(end.code or 0)
    _leave(code)
    return code


def _main(arguments: list[str]) -> int:
    first = arguments[0] if arguments else "--help"
    if first in COMMANDS:
        return _run(first, arguments[1:])
    if first in ("-h", "--help"):
        return _print(overview())
    if first == "--version":
        from paddock import __version__

        return _print(f"paddock {__version__}")
    return _refuse(arguments)


def _refuse(arguments: list[str]) -> int:
    """Tell that there is no such command or option, and which one is near."""
    import shlex
    import shutil

    from paddock.cli.parser import suggestion

    first = arguments[0]
    if first.startswith("-"):
        nearest = suggestion(first, ["--help", "--version"])
        message = f"there is no option {first!r} before a command{nearest}"
    else:
        is_program = shutil.which(first) is not None
        nearest = suggestion(first, COMMANDS)
        as_agent = f"; to run it as an agent: paddock run -- {shlex.join(arguments)}"
        message = f"there is no command {first!r}{as_agent if is_program else nearest}"
    return _fail(InvalidInput(message, hint="paddock --help lists all commands"), ExitCode.USAGE)


def _print(text: str) -> int:
    try:
        print(text)
    except BrokenPipeError:
        return _without_reader()
    return ExitCode.DONE


def _run(command: str, arguments: list[str]) -> int:
    try:
        module = importlib.import_module(f"paddock.cli.commands.{command}")
        code: int = module.main(arguments)
        return code
    except CommandNotStarted as error:
        return _fail(error, error.exit_code)
    except InvalidInput as error:
        return _fail(error, ExitCode.USAGE)
    except OutOfSpace as error:
        return _fail(error, ExitCode.OUT_OF_SPACE)
    except HostCannot as error:
        return _fail(error, ExitCode.HOST_CANNOT)
    except NotTrusted as error:
        return _fail(error, ExitCode.NOT_TRUSTED)
    except NotSigned as error:
        return _fail(error, ExitCode.INTERRUPTED)
    except SandboxDied as error:
        return _fail(error, ExitCode.TIMED_OUT if error.reason == "timeout" else ExitCode.FAILED)
    except PaddockError as error:
        return _fail(error, ExitCode.FAILED)
    except BrokenPipeError:
        return _without_reader()
    except KeyboardInterrupt as interrupt:
        from paddock.cli.output import ReaderGone

        is_reader_gone = isinstance(interrupt, ReaderGone)
        return _without_reader() if is_reader_gone else ExitCode.INTERRUPTED_BY_USER
    except Exception as error:
        if not is_out_of_space(error):
            raise
        what = getattr(error, "filename", None) or os.environ.get("PADDOCK_HOME") or "PADDOCK_HOME"
        full = OutOfSpace(f"the disk of {what} is full", hint="make room, then try again")
        return _fail(full, ExitCode.OUT_OF_SPACE)


def _leave(code: int) -> None:
    """End the process when all is done and written, without taking its memory apart first: that
    would be a tenth of a short run. Return where a thread is still at work."""
    threading = sys.modules.get("threading")  # what was never loaded has started nothing
    if threading is not None and any(
        not thread.daemon
        for thread in threading.enumerate()
        if thread is not threading.main_thread()
    ):
        return
    atexit._run_exitfuncs()
    try:
        sys.stdout.flush()
        sys.stderr.flush()
    except BrokenPipeError:
        code = _without_reader()
    except (OSError, ValueError):  # it cannot be written
        return
    os._exit(code)


def _without_reader() -> int:
    """Return the exit code of a program whose reader has gone. What is still to be written is
    dropped: there would only be a traceback about it."""
    from paddock.cli.output import discard

    discard(sys.stdout)
    discard(sys.stderr)
    return ExitCode.READER_GONE


def _fail(error: PaddockError, code: int) -> int:
    print(f"paddock: {error}", file=sys.stderr)
    return code


if __name__ == "__main__":
    sys.exit(main())
