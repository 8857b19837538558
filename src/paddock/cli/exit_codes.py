"""The exit codes of every `paddock` command; docs/exit-codes.md explains each one to users."""

from __future__ import annotations

from enum import IntEnum


class ExitCode(IntEnum):
    """The meaning of an exit status; `exec`, `shell` and `run` also return the program's own."""

    DONE = 0
    FAILED = 1
    USAGE = 2
    HOST_CANNOT = 3
    TOO_LATE = 4
    DIVERGED = 5
    NOT_TRUSTED = 6
    INTERRUPTED = 7
    OUT_OF_SPACE = 8
    TIMED_OUT = 124
    NOT_STARTED = 126
    NO_PROGRAM = 127
    INTERRUPTED_BY_USER = 130
    KILLED = 137
    READER_GONE = 141
