"""Commands that only choose an environment for another command (`uv run`, `poetry run` ...). The
environment is found by ourselves, and the launcher, which would want the network and its caches,
is left out.
"""

from __future__ import annotations

import os
from collections.abc import Sequence

from paddock.model.errors import InvalidInput
from paddock.model.values import dataclass
from paddock.run.surroundings.host import Host, names_in

_LAUNCHERS = ("uv", "poetry", "pdm", "pipenv", "hatch", "rye")
# Say nothing about which environment it is.
_MEANINGLESS = frozenset({"--", "--frozen", "--locked", "--no-sync", "--offline", "--quiet", "-q",
                          "--no-progress", "--verbose", "-v"})  # fmt: skip


@dataclass(frozen=True, slots=True)
class Unwrapped:
    """The command itself, and which launcher stood before it."""

    command: tuple[str, ...]
    launcher: str = ""


def unwrapped(command: Sequence[str]) -> Unwrapped:
    """The command without its launcher. Raises InvalidInput for options that would change the
    environment, because that cannot be done inside."""
    words = list(command)
    name = os.path.basename(words[0])
    if name not in _LAUNCHERS or words[1:2] != ["run"]:
        return Unwrapped(tuple(words))
    rest = words[2:]
    while rest and rest[0] in _MEANINGLESS:
        rest.pop(0)
    if rest[:1] in (["-m"], ["--module"]) and name == "uv":
        return Unwrapped(("python", "-m", *rest[1:]), name)
    if not rest or rest[0].startswith("-"):
        raise InvalidInput(
            f"{name} run {' '.join(rest[:1])}: it would change the environment, or runs nothing",
            hint=f"prepare it first ({name} sync or install), then paddock run -- python ...",
        )
    if name == "uv" and rest[0].endswith(".py"):
        return Unwrapped(("python", *rest), name)
    return Unwrapped(tuple(rest), name)


def poetry_environment(host: Host) -> str | None:
    """Where poetry keeps the environment of a project when it is not in the project: its name
    has a digest of the project's path in it."""
    cache = host.environ.get("POETRY_CACHE_DIR") or os.path.join(host.home, ".cache", "pypoetry")
    places = host.environ.get("POETRY_VIRTUALENVS_PATH") or os.path.join(cache, "virtualenvs")
    names = names_in(places)
    if not names:
        return None
    import base64
    import hashlib

    for directory in host.ancestors():
        digest = hashlib.sha256(os.fsencode(directory)).digest()
        mark = f"-{base64.urlsafe_b64encode(digest).decode()[:8]}-py"
        for name in reversed(names):
            if mark in name:
                return os.path.join(places, name)
    return None
