"""The output of commands: lines for people, JSON for programs, files for `-o`. An agent may have
chosen any of the words, and a terminal may lack any of the letters.
"""

from __future__ import annotations

import contextlib
import io
import json
import os
import sys
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, TypeVar

from paddock.cli.exit_codes import ExitCode
from paddock.model.errors import (
    Conflict,
    HostCannot,
    IntegrityError,
    InvalidInput,
    OutOfSpace,
    PaddockError,
)
from paddock.model.printable import printable
from paddock.model.space import is_out_of_space

_MAX_NAME = 40
T = TypeVar("T")


@contextlib.contextmanager
def sentences() -> Iterator[None]:
    """Turn what the host refuses into a PaddockError, which becomes a sentence and an exit code."""
    try:
        yield
    except (PaddockError, BrokenPipeError):
        raise
    except OSError as error:
        where = f"{error.filename}: " if error.filename else ""
        kind = OutOfSpace if is_out_of_space(error) else HostCannot
        raise kind(f"{where}{error.strerror or error}") from None
    except UnicodeDecodeError:
        raise IntegrityError("a record is damaged: it is not text; verify the journal") from None
    except Exception as error:
        if not _is_of_sqlite(error):
            raise
        if is_out_of_space(error):
            raise OutOfSpace("the disk of PADDOCK_HOME is full", hint="make room there") from None
        hint = "the index is no loss: remove index.sqlite and run paddock reindex"
        raise HostCannot(f"the index of runs cannot be used: {error}", hint=hint) from None


def _is_of_sqlite(error: Exception) -> bool:
    """Return whether sqlite3 raised it. The module is slow to load, so it is not imported here."""
    sqlite = sys.modules.get("sqlite3")
    return sqlite is not None and isinstance(error, sqlite.Error)


def first_or_late(command: Callable[[], int]) -> int:
    """Return the exit code of a command, or 4 when somebody else was first."""
    try:
        return command()
    except Conflict as error:
        warn(str(error))
        return ExitCode.TOO_LATE


def say(text: str) -> None:
    """Write one or more lines for people; letters that the terminal lacks are escaped."""
    if isinstance(sys.stdout, io.TextIOWrapper):
        sys.stdout.reconfigure(errors="backslashreplace")
    print(text)


def say_json(value: Any) -> None:
    print(json.dumps(value))


def warn(text: str) -> None:
    print(f"paddock: {text}", file=sys.stderr)


def say_none(text: str) -> None:
    """Tell a person that there is nothing; a program sees that the output is empty."""
    if sys.stderr.isatty():
        print(text, file=sys.stderr)


def say_list(
    values: Sequence[T],
    as_json: Callable[[T], Any],
    as_text: Callable[[Sequence[T]], str],
    *,
    is_json: bool,
    nothing: str,
) -> None:
    """Write a list: one JSON array for programs, else a table, or that there is nothing in it."""
    if is_json:
        say_json([as_json(value) for value in values])
    elif values:
        say(as_text(values))
    else:
        say_none(nothing)


def confirm(question: str, *, is_on_stderr: bool = False) -> bool:
    """Ask the person at the terminal; only `y` and `yes` are a yes."""
    if is_on_stderr:  # the output belongs to somebody else
        print(question, end="", file=sys.stderr, flush=True)
        answer = sys.stdin.readline()
    else:
        try:
            answer = input(question)
        except EOFError:
            return False
    return answer.strip().lower() in ("y", "yes")


def check_person(*, is_json: bool) -> None:
    """Raise InvalidInput where nobody can be asked: for programs, or without a terminal."""
    if is_json or not sys.stdin.isatty():
        raise InvalidInput("nobody can be asked here", hint="say --yes")


class ReaderGone(KeyboardInterrupt):
    """The reader of our output went away while an agent was at work, which ends the agent as
    Ctrl-C does."""


def discard(stream: Any) -> None:
    """Drop what is still written to a stream whose reader has gone."""
    with contextlib.suppress(Exception):
        null = os.open(os.devnull, os.O_WRONLY)
        os.dup2(null, stream.fileno())
        os.close(null)


@contextlib.contextmanager
def interrupted_without_reader() -> Iterator[Callable[[], None]]:
    """Give a function by which any thread says that the reader of our output has gone: it raises
    ReaderGone in the main thread, wherever that waits.

    The signal is one that nobody else sends. SIGPIPE itself would also come for every connection
    that a server or a client of the agent closes."""
    import signal
    import threading

    main = threading.main_thread()
    if threading.current_thread() is not main or main.ident is None:
        yield lambda: None
        return
    ident = main.ident

    def handle(number: int, frame: object) -> None:
        raise ReaderGone

    previous = signal.signal(signal.SIGUSR1, handle)
    try:
        yield lambda: signal.pthread_kill(ident, signal.SIGUSR1)
    finally:
        signal.signal(signal.SIGUSR1, previous)


def is_coloured() -> bool:
    return sys.stdout.isatty() and "NO_COLOR" not in os.environ


def write_pieces(pieces: Iterable[str], path: Path | None) -> None:
    """Write all pieces to a file, which appears only when it is whole, or to the output."""
    if path is None:
        _to_output(pieces)
        return
    path = Path(os.path.realpath(path))
    try:
        if path.exists() and not path.is_file():
            with open(path, "w", encoding="utf-8") as file:  # a pipe or a device stays what it is
                file.writelines(pieces)
            return
        _to_new_file(pieces, path)
    except PaddockError:
        raise
    except OSError as error:
        raise InvalidInput(f"-o: {path} cannot be written: {error.strerror}") from None


def pick(value: object, *names: str) -> dict[str, Any]:
    """Return attributes of a value by their names, for JSON."""
    return {name: getattr(value, name) for name in names}


def counts(numbers: Mapping[str, int], order: Iterable[str] = ()) -> str:
    """Return `done 12, refused 3`: those that there are, in this order, then the others. A journal
    may name them as it likes."""
    shown = {printable(name, _MAX_NAME): number for name, number in numbers.items()}
    names = [*order, *sorted(set(shown) - set(order))]
    return ", ".join(f"{name} {shown[name]}" for name in names if shown.get(name))


def _to_output(pieces: Iterable[str]) -> None:
    sys.stdout.flush()
    for piece in pieces:
        sys.stdout.buffer.write(piece.encode())
    sys.stdout.buffer.flush()


def _to_new_file(pieces: Iterable[str], path: Path) -> None:
    temporary = path.with_name(f".{path.name[:200]}-{os.urandom(4).hex()}")
    try:
        with open(temporary, "x", encoding="utf-8") as file:
            file.writelines(pieces)
        os.replace(temporary, path)
    except BaseException:
        with contextlib.suppress(OSError):
            os.unlink(temporary)
        raise
