"""Variables that are set where a run is started, that its agent reads, and that it does not get.

An environment is not passed on into a sandbox, so an agent that works outside may miss a key or a
setting inside. What it reads is told by its scripts (`os.environ["X"]`, `process.env.X`, `$X`) and
by its packages (the table in `services`). Values are looked at to tell secrets apart, and are
never shown.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

from paddock.cli.project.dotenv import is_secret_name, is_secret_value
from paddock.cli.project.scripts import script_texts, variables_read
from paddock.cli.project.services import SERVICES
from paddock.run.surroundings.host import read_text

if TYPE_CHECKING:
    from paddock.run.order import Order

MAX_SHOWN = 8
# With these a client signs, so that a placeholder is no use to it.
_SIGNING = frozenset(key for service in SERVICES if service.signs for key in service.keys)
# A sandbox has these of its own, or needs none.
_OF_SYSTEM = re.compile(
    r"PATH|HOME|LANG|LANGUAGE|LC_\w+|TERM|TERM_\w+|COLORTERM|USER|LOGNAME|SHELL|SHLVL|PWD|OLDPWD|TZ"
    r"|TMP|TEMP|TMPDIR|HOSTNAME|UID|EUID|PPID|IFS|MAIL|EDITOR|VISUAL|PAGER|DISPLAY|WAYLAND_DISPLAY"
    r"|COLUMNS|LINES|NO_COLOR|FORCE_COLOR|(?:XDG|SSH|DBUS|BASH|CONDA|PYENV|NVM|LD|PADDOCK|GPG)_\w+"
    r"|PYTHON\w*|NODE_PATH|NODE_OPTIONS|VIRTUAL_ENV|\w+_PROXY|_"
    , re.IGNORECASE,
)  # fmt: skip


def unpassed_variables(order: Order) -> tuple[str, ...]:
    """Return the names, in order."""
    terms = order.policy.terms
    passed = {*order.envs, *terms.secrets, *(order.policy.sandbox.options.get("envs") or {})}
    names = {name for name in os.environ if name not in passed and not _OF_SYSTEM.fullmatch(name)}
    unpassed = names.intersection(_read_by_scripts(order))
    others = {name for service in SERVICES for name in service.variables} & (names - unpassed)
    if others:
        unpassed |= others.intersection(_read_by_packages(order.cwd))
    return tuple(sorted(unpassed))


def describe(names: tuple[str, ...]) -> str:
    """Return a sentence about them, with what to do."""
    more = f" and {len(names) - MAX_SHOWN} more" if len(names) > MAX_SHOWN else ""
    secrets = [name for name in names if name not in _SIGNING and _is_secret(name)]
    others = [name for name in names if name not in secrets][:MAX_SHOWN]
    lines = [
        f"set here and read by the agent, but not passed on: {', '.join(names[:MAX_SHOWN])}{more}"
    ]
    if secrets:
        lines.append(f"  hint: write {secrets[0]} under secrets: in the paddock file")
    if others:
        lines.append(f"  hint: say {' '.join(f'-e {name}' for name in others)}")
    return "\n".join(lines)


def _is_secret(name: str) -> bool:
    return is_secret_name(name) or is_secret_value(os.environ.get(name, ""))


def _read_by_scripts(order: Order) -> Iterator[str]:
    for file, text in (*script_texts(order.cwd), *_of_command(order)):
        yield from variables_read(file, text)


def _of_command(order: Order) -> Iterator[tuple[str, str]]:
    """Yield the scripts that the command names, and the code that is written in it."""
    program = os.path.basename(order.command[0])
    for word in order.command[1:]:
        path = os.path.join(order.cwd, word)
        if "\n" not in word and os.path.isfile(path):
            yield path, read_text(path) or ""
        elif program.startswith("python"):
            yield "-c.py", word
        elif program in ("node", "bun", "deno"):
            yield "-e.js", word
        elif program.endswith("sh"):
            yield "-c.sh", word


def _read_by_packages(directory: Path) -> Iterator[str]:
    from paddock.cli.project.inspection import used_services
    from paddock.cli.project.scripts import scripts_in

    for used in used_services(directory, scripts_in(directory)):
        yield from used.service.variables
