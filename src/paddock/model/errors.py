"""Every error that Paddock raises on purpose, by whose fault it is. No logic lives here.

Three families, so that a caller can tell them apart without reading text:
`InvalidInput` (the caller's words are wrong), `HostCannot` (this machine cannot do it) and
`SandboxError` (something happened to a sandbox or inside it).
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from paddock.model.results import CommandResult


class PaddockError(Exception):
    """The root of all errors that Paddock raises."""

    def __init__(self, message: str, *, hint: str | None = None) -> None:
        super().__init__(f"{message}\n  hint: {hint}" if hint else message)
        self.message = message
        self.hint = hint

    def __reduce__(self) -> tuple[Any, ...]:
        # Constructors differ; a pool of processes must get the error and not hang on its copy.
        return _revived, (type(self), str(self), dict(self.__dict__))


def _revived(kind: type[PaddockError], text: str, fields: dict[str, Any]) -> PaddockError:
    error = kind.__new__(kind)
    error.args = (text,)
    error.__dict__.update(fields)
    return error


class InvalidInput(PaddockError, ValueError):
    """The caller asked for something malformed: an unknown key, a bad unit, a missing source."""


class HostCannot(PaddockError):
    """This machine lacks something that the request needs."""


class CannotEnforce(HostCannot):
    """A part of the spec that this host cannot enforce; the sandbox is refused, not weakened."""


class OutOfSpace(HostCannot):
    """The disk that holds PADDOCK_HOME is full, or too full to start or to continue a run."""


class NotTrusted(PaddockError):
    """A paddock file asks for something on the host that its user has not agreed to."""


class SandboxError(PaddockError):
    """Something went wrong with a sandbox or inside it."""


class Blocked(SandboxError, PermissionError):
    """An action did not happen: a rule, the stage or a person said no, or nobody answered."""

    def __init__(self, why: str, *, rule: str | None = None, step: int | None = None) -> None:
        super().__init__(f"blocked by {rule}: {why}" if rule else f"blocked: {why}")
        self.why = why
        self.rule = rule
        self.step = step


class FaultInjected(SandboxError):
    """A rule of the paddock file made this action fail on purpose."""


class SandboxDied(SandboxError):
    """The sandbox ended while a call was waiting on it, or before the call was made."""

    def __init__(self, sandbox_id: str, reason: str) -> None:
        super().__init__(f"sandbox {sandbox_id} has ended: {reason}")
        self.sandbox_id = sandbox_id
        self.reason = reason


class NotFound(SandboxError, LookupError):
    """No sandbox, process, context, volume, snapshot or file of that name."""


class FileError(SandboxError, OSError):
    """A file operation inside the sandbox was refused by the kernel or by its own rules."""

    def __init__(self, message: str, *, path: str, code: str) -> None:
        SandboxError.__init__(self, f"{path}: {message}")
        self.path = path
        self.code = code


class FileMissing(FileError, NotFound):
    """The path does not exist inside the sandbox."""


class CommandNotStarted(SandboxError):
    """A program could not be started. `exit_code` is what a shell would give: 127 if there is no
    such program, else 126. `program`, `path` (what the kernel refused) and `code` (such as ENOENT)
    say more."""

    def __init__(
        self,
        why: str,
        *,
        program: str,
        path: str,
        code: str,
        exit_code: int = 126,
        hint: str | None = None,
    ) -> None:
        super().__init__(f"cannot start {program}: {why}", hint=hint)
        self.program = program
        self.path = path
        self.code = code
        self.exit_code = exit_code


class TimeoutReached(SandboxError, TimeoutError):
    """A call took longer than the time it was given; what it started has been stopped."""


class IntegrityError(PaddockError):
    """Stored state does not match its digest: it was changed or damaged, and is not used."""


class NotSigned(IntegrityError):
    """The requested records lie after the last signature of an interrupted run, and are not
    used."""


class Conflict(PaddockError):
    """The thing exists already, is in use, or changed since it was looked at."""


class CommandExitException(SandboxError):
    """A foreground command ended with a non-zero status. The result is in the fields."""

    def __init__(self, result: CommandResult) -> None:
        lines = result.stderr.strip().splitlines()
        tail = f": {lines[-1][:300]}" if lines else ""
        why = f", stopped by the {result.killed_by} limit" if result.killed_by else ""
        super().__init__(f"command exited with {result.exit_code}{why}{tail}")
        self.result = result
        self.stdout = result.stdout
        self.stderr = result.stderr
        self.exit_code = result.exit_code
        self.killed_by = result.killed_by
        self.error = result.error
