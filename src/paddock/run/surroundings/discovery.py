"""From a command, a directory and an environment to what a sandbox needs to run it as the user
would: the one function that callers use.
"""

from __future__ import annotations

import base64
import hashlib
import os
import re
from collections.abc import Mapping, Sequence
from pathlib import Path

from paddock.model.errors import InvalidInput
from paddock.run.surroundings import node, python
from paddock.run.surroundings.host import Host, is_of_system, names_in
from paddock.run.surroundings.mount_plan import MountPlan, check_project
from paddock.run.surroundings.needed_mounts import Surroundings
from paddock.run.surroundings.programs import Programs

# Of the user's environment these say how to show things, and nothing about the user.
_PASSED = ("LANG", "LANGUAGE", "TERM", "COLORTERM", "NO_COLOR", "FORCE_COLOR", "TZ")
_MAX_PASSED = 200  # characters of a value
_SYSTEM_PATH = ("/usr/local/bin", "/usr/bin", "/bin", "/usr/local/sbin", "/usr/sbin", "/sbin")
_INTERPRETERS = re.compile(r"(python|pypy|node|bun|deno|ruby|perl|bash|sh|dash|zsh|tsx)[\d.]*")
_NO_SCRIPT = ("-c", "-m", "-e", "--eval", "-p", "--print")
# Commands that only choose an environment for another command. The environment is found here, and
# the launcher, which would want the network and its caches, is left out.
_LAUNCHERS = ("uv", "poetry", "pdm", "pipenv", "hatch", "rye")
# Options that say nothing about which environment it is.
_MEANINGLESS = frozenset({"--", "--frozen", "--locked", "--no-sync", "--offline", "--quiet", "-q",
                          "--no-progress", "--verbose", "-v"})  # fmt: skip


def find(command: Sequence[str], cwd: Path, environ: Mapping[str, str]) -> Surroundings:
    """Return what the command needs, with the project as an overlay at its own path. Nothing is
    started. Raises InvalidInput for a command that is not there and a project that is too much."""
    if not command or not command[0]:
        raise InvalidInput("there is no command", hint="paddock run -- python my_agent.py")
    host = Host.of(cwd, environ)
    check_project(host)
    try:
        return _found(_without_launcher(command), host)
    except OSError as error:
        where = f"{error.filename}: " if error.filename else ""
        raise InvalidInput(f"the host cannot be looked at: {where}{error.strerror}") from None


def _without_launcher(command: Sequence[str]) -> list[str]:
    """Return the command without its launcher. Raises InvalidInput for options that would change
    the environment, because that cannot be done inside."""
    argv = list(command)
    name = os.path.basename(argv[0])
    if name not in _LAUNCHERS or argv[1:2] != ["run"]:
        return argv
    rest = argv[2:]
    while rest and rest[0] in _MEANINGLESS:
        rest.pop(0)
    if name == "uv" and rest[:1] in (["-m"], ["--module"]):
        return ["python", "-m", *rest[1:]]
    if not rest or rest[0].startswith("-"):
        raise InvalidInput(
            f"{name} run {' '.join(rest[:1])}: it would change the environment, or runs nothing",
            hint=f"prepare it first ({name} sync or install), then paddock run -- python ...",
        )
    if name == "uv" and rest[0].endswith(".py"):
        return ["python", *rest]
    return rest


def _found(command: list[str], host: Host) -> Surroundings:
    places = MountPlan(host)
    environment = python.active_environment(host) or _poetry_environment(host)
    search = _search(host, environment)
    programs = Programs(host, places, search)
    if environment is not None:
        programs.add_environment(environment)
    word, *rest = command
    program = programs.add(programs.locate(word))
    _add_script(rest, program, host, places)
    if node.is_project(host):
        node.add_packages(host, places)
        node_program = programs.find("node")
        if node_program is not None and not is_of_system(node_program):
            programs.add(node_program)
    envs = _envs(host, places, environment, program)
    mounts = places.settle()
    path = [d for d in (*programs.bins, *search) if places.is_visible(d) and os.path.isdir(d)]
    envs["PATH"] = ":".join(dict.fromkeys((*path, *_SYSTEM_PATH)))
    argv = (_first_word(word, program, host, envs["PATH"]), *rest)
    return Surroundings(argv, host.cwd, mounts, envs, tuple(places.omitted))


def _poetry_environment(host: Host) -> str | None:
    """Return where poetry keeps the environment of a project when it is not in the project: its
    name has a digest of the project's path in it."""
    cache = host.environ.get("POETRY_CACHE_DIR") or os.path.join(host.home, ".cache", "pypoetry")
    parent = host.environ.get("POETRY_VIRTUALENVS_PATH") or os.path.join(cache, "virtualenvs")
    names = names_in(parent)
    for directory in host.ancestors() if names else ():
        digest = hashlib.sha256(os.fsencode(directory)).digest()
        mark = f"-{base64.urlsafe_b64encode(digest).decode()[:8]}-py"
        for name in reversed(names):
            if mark in name:
                return os.path.join(parent, name)
    return None


def _search(host: Host, environment: str | None) -> list[str]:
    """Return where a program is looked for: the environment, then as the user's shell would."""
    directories = host.environ.get("PATH", "").split(":")
    own = [os.path.join(environment, "bin")] if environment else []
    on_path = [os.path.normpath(word) for word in directories if os.path.isabs(word)]
    return list(dict.fromkeys((*own, *on_path, *node.bins(host))))


def told_again(environ: Mapping[str, str], recorded: Mapping[str, str]) -> dict[str, str]:
    """Return the variables of this host, with the language, terminal and time zone of the host
    where the run was recorded."""
    here = {name: value for name, value in environ.items() if not _is_passed(name)}
    return here | {name: str(value) for name, value in recorded.items() if _is_passed(name)}


def _is_passed(name: str) -> bool:
    return name in _PASSED or name.startswith("LC_")


def _add_script(rest: list[str], program: str, host: Host, places: MountPlan) -> None:
    """Add the file that an interpreter is told to run, if it lies outside the project."""
    if _INTERPRETERS.fullmatch(os.path.basename(program)) is None:
        return
    script = next((w for w in rest if not w.startswith("-") or w in _NO_SCRIPT), "-")
    path = os.path.normpath(os.path.join(host.cwd, script))
    if not script.startswith("-") and os.path.isfile(path):
        places.need(path, "the script")


def _envs(host: Host, places: MountPlan, environment: str | None, program: str) -> dict[str, str]:
    envs = {
        name: value
        for name, value in host.environ.items()
        if _is_passed(name) and len(value) <= _MAX_PASSED
    }
    if environment is not None and places.is_visible(environment):
        is_conda = os.path.isdir(os.path.join(environment, "conda-meta"))
        envs["CONDA_PREFIX" if is_conda else "VIRTUAL_ENV"] = environment
    site = python.user_site(host, program) if is_of_system(program) else None
    if site is not None and environment is None and places.need(site, "packages of the user"):
        base = site.removesuffix(f"/lib/{os.path.basename(os.path.dirname(site))}/site-packages")
        python.add_packages(base, places)
        envs["PYTHONUSERBASE"] = base
    return envs


def _first_word(word: str, program: str, host: Host, path: str) -> str:
    """Return the user's own word for the program where it means the same program inside."""
    if "/" in word:
        return word if os.path.normpath(os.path.join(host.cwd, word)) == program else program
    for directory in path.split(":"):
        candidate = os.path.join(directory, word)
        if os.path.lexists(candidate):
            return word if candidate == program else program
    return program
