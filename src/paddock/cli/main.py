"""`paddock`: reads the command line and hands over to one module. No work is done here.

Exit codes: 0 done, 1 it failed, 2 the command line is wrong, 3 this host cannot, 4 somebody else
was first, and for `exec` and `shell` whatever the program inside ended with.
"""

from __future__ import annotations

import argparse
import atexit
import gc
import importlib
import os
import sys
from collections.abc import Sequence

from paddock.model.errors import HostCannot, InvalidInput, PaddockError

# Loading makes many objects that all stay: to look through them every 700 is work for nothing.
_GC_OBJECTS = 50_000
EXIT_FAILED, EXIT_USAGE, EXIT_HOST = 1, 2, 3
COMMANDS = {
    "init": "write a paddock.yaml for this project, from what is found in it",
    "run": "run an agent under a paddock file; everything is on record",
    "replay": "read a run again, or run its agent again against the record",
    "fork": "a second future for a run, from one of its steps",
    "compare": "runs side by side: where they part, and what came of it",
    "step": "walk through a run, frame by frame, in the terminal",
    "files": "the files of a run at any step",
    "changes": "what a run changed in the mounted directories",
    "apply": "write changes of a run back to where they belong",
    "test": "run scenarios: agents, worlds, faults and what is expected",
    "shell": "a terminal in a sandbox, new or running",
    "exec": "run one command in a sandbox, new or running",
    "ps": "list the sandboxes of this user",
    "kill": "end sandboxes",
    "template": "add, list and remove root file systems",
    "volume": "make, list and remove volumes",
    "snapshot": "list, verify and remove snapshots",
    "policy": "check, explain, test and learn paddock files, and run them over the past",
    "approvals": "list and answer what agents ask",
    "drafts": "list, show, discard and send writes that were not carried out",
    "secrets": "list the secrets of running sandboxes, by name, and revoke one everywhere",
    "runs": "list runs, newest first",
    "show": "what a run did, step by step",
    "net": "what a run sent through the network door, and the alerts about it",
    "world": "the stand-ins of a run: their state, what changed, and how true they are",
    "verdicts": "for each fault on purpose in a run, what the agent did after it",
    "verify": "whether a journal or a proof is sound, and where it breaks",
    "prove": "a proof of one step that verifies alone",
    "export": "a run for other programs: otel, har, jsonl or csv",
    "reindex": "build the index of runs again, from the journals",
    "doctor": "what can be enforced on this host, what not, and why",
    "bench": "measure, side by side with peers",
    "demo": "an agent at work: blocked, asked, faulted, forked, compared",
}


def main(arguments: Sequence[str] | None = None) -> int:
    """The whole program; without arguments those of the process, which it ends."""
    if arguments is not None:
        return _main(list(arguments))
    gc.set_threshold(_GC_OBJECTS)
    code = _main(sys.argv[1:])
    _leave(code)
    return code


def _main(words: list[str]) -> int:
    if words and words[0] in COMMANDS:
        return _run(words[0], words[1:])
    parser = argparse.ArgumentParser(
        prog="paddock",
        description="A sandbox for AI agents, enforced below the model.",
        epilog="\n".join(f"  {name:10} {what}" for name, what in COMMANDS.items()),
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("--version", action="store_true", help="print the version and exit")
    parser.add_argument("command", nargs="?", metavar="COMMAND", help="one of those below")
    options = parser.parse_args(words)
    if options.version:
        from paddock import __version__

        print(f"paddock {__version__}")
        return 0
    if options.command is not None:
        print(f"paddock: no command {options.command!r}; see paddock --help", file=sys.stderr)
        return EXIT_USAGE
    parser.print_help()
    return 0


def _run(command: str, words: list[str]) -> int:
    try:
        module = importlib.import_module(f"paddock.cli.{command}")
        code: int = module.main(words)
        return code
    except InvalidInput as error:
        return _fail(error, EXIT_USAGE)
    except HostCannot as error:
        return _fail(error, EXIT_HOST)
    except PaddockError as error:
        return _fail(error, EXIT_FAILED)
    except BrokenPipeError:
        sys.stderr.close()  # the reader went away: nothing more to say, and no traceback about it
        return EXIT_FAILED
    except KeyboardInterrupt:
        return 130


def _leave(code: int) -> None:
    """Ends the process when all is done and written, without taking its memory apart first: that
    would be a tenth of a short run. Returns where somebody is still at work."""
    threading = sys.modules.get("threading")  # what was never loaded has started nothing
    if threading is not None and any(
        not one.daemon for one in threading.enumerate() if one is not threading.main_thread()
    ):
        return
    atexit._run_exitfuncs()
    try:
        sys.stdout.flush()
        sys.stderr.flush()
    except (OSError, ValueError):  # nobody reads it
        return
    os._exit(code)


def _fail(error: PaddockError, code: int) -> int:
    print(f"paddock: {error}", file=sys.stderr)
    return code


if __name__ == "__main__":
    sys.exit(main())
