"""The errors as their readers meet them: the text, the family, what each carries."""

from __future__ import annotations

import inspect
import pickle

import pytest

from cases import for_each
from paddock.model import errors
from paddock.model.errors import (
    Blocked,
    CannotEnforce,
    CommandExitException,
    CommandNotStarted,
    Conflict,
    FaultInjected,
    FileError,
    FileMissing,
    HostCannot,
    IntegrityError,
    InvalidInput,
    NotFound,
    NotSigned,
    NotTrusted,
    OutOfSpace,
    PaddockError,
    SandboxDied,
    SandboxError,
    TimeoutReached,
)
from paddock.model.results import CommandResult

EVERY = [
    value
    for _, value in inspect.getmembers(errors, inspect.isclass)
    if issubclass(value, PaddockError)
]


def result(
    stderr: str = "", *, exit_code: int = 1, killed_by: str | None = None, stdout: str = ""
) -> CommandResult:
    why = f"stopped by the {killed_by} limit" if killed_by else None
    return CommandResult(stdout, stderr, exit_code, 0.1, killed_by, error=why)


EXAMPLES: list[PaddockError] = [
    PaddockError("it failed"),
    InvalidInput("limits.cpu: 0 must be greater than zero"),
    HostCannot("no btrfs", hint="modprobe btrfs"),
    CannotEnforce("memory limit", hint="no cgroup is delegated to this user"),
    SandboxError("it broke"),
    Blocked("not today", rule="no-installs", step=3),
    FaultInjected("the disk is on fire"),
    CommandNotStarted("no such program", program="x", path="/x", code="ENOENT", exit_code=127),
    SandboxDied("abc", "time-out"),
    NotFound("no volume 'x'"),
    FileError("is a directory", path="/a", code="EISDIR"),
    FileMissing("No such file or directory", path="/b", code="ENOENT"),
    CommandNotStarted("no such program", program="x", path="x", code="ENOENT", exit_code=127),
    TimeoutReached("waited 1 s"),
    IntegrityError("blob differs"),
    NotSigned("no signature covers the journal"),
    NotTrusted("paddock.yaml asks for a command"),
    OutOfSpace("the disk is full"),
    Conflict("exists already"),
    CommandExitException(result("boom", exit_code=2, killed_by="memory")),
]


def test_every_error_has_an_example_here() -> None:
    assert {type(error) for error in EXAMPLES} == set(EVERY)


@for_each("kind", EVERY)
def test_every_error_says_what_it_means_and_belongs_to_paddock(kind: type) -> None:
    assert kind.__doc__
    assert issubclass(kind, PaddockError)


def test_hint_comes_below_the_message_and_both_can_be_had_apart() -> None:
    error = HostCannot("no btrfs here", hint="modprobe btrfs")
    assert str(error) == "no btrfs here\n  hint: modprobe btrfs"
    assert (error.message, error.hint) == ("no btrfs here", "modprobe btrfs")


def test_message_without_a_hint_stands_alone() -> None:
    error = HostCannot("no btrfs here")
    assert str(error) == error.message == "no btrfs here"
    assert error.hint is None


@pytest.mark.parametrize(
    ("kind", "builtin"),
    [(InvalidInput, ValueError), (NotFound, LookupError), (FileError, OSError),
     (FileMissing, OSError), (FileMissing, LookupError), (TimeoutReached, TimeoutError)],
)  # fmt: skip
def test_error_is_also_the_builtin_that_a_caller_would_catch(kind: type, builtin: type) -> None:
    assert issubclass(kind, builtin)


def test_whose_fault_it_is_can_be_told_by_type_alone() -> None:
    families = (InvalidInput, HostCannot, SandboxError)
    for error in EXAMPLES:
        assert sum(isinstance(error, family) for family in families) <= 1
    assert issubclass(CannotEnforce, HostCannot)
    assert not issubclass(IntegrityError, SandboxError)


def test_dead_sandbox_is_named_with_its_reason() -> None:
    error = SandboxDied("k3v9", "killed by its owner")
    assert str(error) == "sandbox k3v9 has ended: killed by its owner"
    assert (error.sandbox_id, error.reason) == ("k3v9", "killed by its owner")


@pytest.mark.parametrize("kind", [FileError, FileMissing])
def test_file_error_names_the_path_and_the_code(kind: type[FileError]) -> None:
    error = kind("is read-only", path="/usr/x", code="EROFS")
    assert str(error) == "/usr/x: is read-only"
    assert (error.path, error.code) == ("/usr/x", "EROFS")


def test_failed_command_shows_its_status_and_the_last_line_of_its_errors() -> None:
    error = CommandExitException(result("one\ntwo\n\n", exit_code=3))
    assert str(error) == "command exited with 3: two"
    assert error.exit_code == 3
    assert error.stderr == "one\ntwo\n\n"


def test_failed_command_without_errors_still_has_a_message() -> None:
    assert str(CommandExitException(result(exit_code=127))) == "command exited with 127"


@pytest.mark.parametrize("limit", ["memory", "pids", "disk", "output", "time", "timeout"])
def test_command_stopped_at_a_limit_names_the_limit(limit: str) -> None:
    error = CommandExitException(result("Killed", exit_code=137, killed_by=limit))
    assert f"stopped by the {limit} limit" in str(error)
    assert error.killed_by == limit
    assert error.error == f"stopped by the {limit} limit"


def test_endless_error_line_is_cut_in_the_message_but_whole_in_the_result() -> None:
    error = CommandExitException(result("x" * 100_000))
    assert len(str(error)) < 1000
    assert len(error.stderr) == 100_000


def test_failed_command_carries_its_whole_result() -> None:
    whole = result("err", stdout="out")
    error = CommandExitException(whole)
    assert error.result is whole
    assert error.stdout == "out"


@for_each("error", EXAMPLES, ids=lambda e: type(e).__name__)
def test_error_survives_the_way_between_two_processes(error: PaddockError) -> None:
    # A worker of multiprocessing that raises what cannot be loaded hangs its pool for ever.
    there = pickle.loads(pickle.dumps(error))
    assert type(there) is type(error)
    assert str(there) == str(error)
    assert vars(there) == vars(error)
