"""The project of the demo, laid out where it can be run and changed. What lies there already is
left alone, unless the demo itself has put it there."""

from __future__ import annotations

import importlib.util
from importlib.resources import files
from pathlib import Path

from paddock.model.errors import HostCannot, InvalidInput

NAMES = ("agent.py", "model.yaml", "paddock.yaml", "payments.json", "tickets.json")
PAGE = "comparison.html"
_NEEDED = ("openai", "regex", "starlette")


def check_packages() -> None:
    """Raises HostCannot when what the agent and its world are made of is not installed."""
    missing = [name for name in _NEEDED if importlib.util.find_spec(name) is None]
    if missing:
        raise HostCannot(
            f"the demo needs {', '.join(missing)}", hint="pip install 'paddock[demo]'"
        )


def lay_out(directory: Path, *, is_ours: bool) -> None:
    """Writes the files. Into a directory that is not ours only where nothing is."""
    try:
        directory.mkdir(parents=True, exist_ok=True)
        if not is_ours and any(directory.iterdir()):
            raise InvalidInput(f"{directory} is not empty", hint="name a new directory")
        for name in NAMES:
            (directory / name).write_text(file_text(name))
    except OSError as error:
        raise InvalidInput(f"{directory} cannot be written: {error.strerror}") from None


def file_text(name: str) -> str:
    """One file of the project, as it is shipped."""
    return (files("paddock.demo") / "files" / name).read_text()
