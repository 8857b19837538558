"""The project of the demo, laid out where it can be run and changed. What lies there already is
left alone, unless the demo itself has put it there."""

from __future__ import annotations

import importlib.util
import os
import stat
from importlib.resources import files
from pathlib import Path

from paddock.doors.trust import remember
from paddock.model.errors import HostCannot, InvalidInput
from paddock.model.version import install_command
from paddock.policy.file import load

NAMES = ("agent.py", "model.yaml", "paddock.yaml", "payments.json", "tickets.json")
PAGE = "comparison.html"
_NEEDED = ("httpx", "openai", "regex", "starlette")


def check_packages() -> None:
    """Raise HostCannot when what the agent and its world are made of is not installed."""
    missing = [name for name in _NEEDED if importlib.util.find_spec(name) is None]
    if missing:
        raise HostCannot(f"the demo needs {', '.join(missing)}", hint=install_command("demo"))


def lay_out(directory: Path, *, is_ours: bool) -> None:
    """Write the files. Into a directory that is not the demo's own only where nothing is."""
    try:
        directory.mkdir(0o755, parents=True, exist_ok=True)
        _check_owner(directory)
        if not is_ours and any(directory.iterdir()):
            raise InvalidInput(f"{directory} is not empty", hint="name a new directory")
        directory.chmod(0o755)  # whatever the umask: inside, the agent is another user
        for name in NAMES:
            (directory / name).write_text(file_text(name))
            (directory / name).chmod(0o644)
        # Of ours, as a file that `init` wrote: there is nobody to ask about it.
        file = directory.absolute() / "paddock.yaml"
        remember(load(file.read_text(), str(file), str(file.parent), str(file)))
    except OSError as error:
        message = f"{directory} cannot be written: {error.strerror}"
        raise InvalidInput(message, hint="name another directory with --keep") from None


def _check_owner(directory: Path) -> None:
    """In a place for everybody, like /tmp, somebody may have been there first, with links to files
    of ours."""
    info = directory.lstat()
    is_shared = bool(info.st_mode & stat.S_IWOTH)
    if not stat.S_ISDIR(info.st_mode) or info.st_uid != os.geteuid() or is_shared:
        raise InvalidInput(
            f"{directory} is no directory of yours, or anybody may write to it",
            hint="name another one with --keep",
        )


def file_text(name: str) -> str:
    """Return one file of the project, as it is shipped."""
    return (files("paddock.demo") / "files" / name).read_text()
