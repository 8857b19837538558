"""Version managers put small programs on PATH that choose a version each time they run. Which one
they would choose is read from the files that they read; the shim itself is not for inside.
"""

from __future__ import annotations

import json
import os
import re
from collections.abc import Iterator
from typing import Any

from paddock.run.surroundings.host import Host, names_in, read_text


def is_shim(path: str) -> bool:
    """Return whether a program on PATH only stands for one of several versions."""
    return _kind(path) is not None


def behind_shim(path: str, host: Host) -> str | None:
    """Return the program that a shim would run here; None when it cannot be determined."""
    kind = _kind(path)
    name = os.path.basename(path)
    root = os.path.dirname(os.path.dirname(path))
    if kind is None:
        return None
    for directory in kind(root, host):
        program = os.path.join(directory, "bin", name)
        if os.access(program, os.X_OK):
            return program
    return None


def _kind(path: str) -> Any:
    directory, name = os.path.split(os.path.dirname(path))
    if name == "shims" and os.path.isdir(os.path.join(directory, "versions")):
        return _pyenv
    if name == "shims" and os.path.isdir(os.path.join(directory, "installs")):
        return _installs
    if name == "bin" and os.path.basename(os.path.realpath(path)) == "volta-shim":
        return _volta
    return None


def _pyenv(root: str, host: Host) -> Iterator[str]:
    versions = os.path.join(root, "versions")
    for wanted in _pyenv_wanted(root, host):
        yield os.path.join(versions, wanted)
        # `3.12` means the newest 3.12.x that is there.
        matching = [name for name in names_in(versions) if name.startswith(wanted + ".")]
        yield from (
            os.path.join(versions, name) for name in sorted(matching, key=_as_version)[::-1]
        )


def _pyenv_wanted(root: str, host: Host) -> list[str]:
    if version := host.environ.get("PYENV_VERSION"):
        return _plain(version.split(":"))
    for directory in (*host.ancestors(), host.home):
        text = read_text(os.path.join(directory, ".python-version"))
        if text is not None:
            return _plain(text.split())
    return _plain((read_text(os.path.join(root, "version")) or "").split())


def _installs(root: str, host: Host) -> Iterator[str]:
    """Yield the installations of asdf and mise."""
    for directory in (*host.ancestors(), host.home):
        for tool, version in (*_tool_versions(directory), *_mise_tools(directory)):
            for name in _plain([tool]):
                for number in _plain([version]):
                    yield os.path.join(root, "installs", name, number)


def _tool_versions(directory: str) -> Iterator[tuple[str, str]]:
    for line in (read_text(os.path.join(directory, ".tool-versions")) or "").splitlines():
        tool, *versions = line.partition("#")[0].split()[:10] or [""]
        yield from ((tool, version) for version in versions)


def _mise_tools(directory: str) -> Iterator[tuple[str, str]]:
    import tomllib  # few need it

    for file in ("mise.toml", ".mise.toml"):
        try:
            tools = tomllib.loads(read_text(os.path.join(directory, file)) or "").get("tools")
        except (tomllib.TOMLDecodeError, UnicodeEncodeError):
            continue
        for tool, value in tools.items() if isinstance(tools, dict) else ():
            value = value.get("version") if isinstance(value, dict) else value
            for version in value if isinstance(value, list) else [value]:
                yield tool, str(version)


def _volta(root: str, host: Host) -> Iterator[str]:
    node = os.path.join(root, "tools", "image", "node")
    for directory in host.ancestors():
        version = _json(os.path.join(directory, "package.json"), "volta", "node")
        yield from (os.path.join(node, name) for name in _plain([version]))
    platform = os.path.join(root, "tools", "user", "platform.json")
    yield from (os.path.join(node, name) for name in _plain([_json(platform, "node", "runtime")]))


def _json(path: str, *keys: str) -> str:
    try:
        value = json.loads(read_text(path) or "null")
    except (ValueError, RecursionError):
        return ""
    for key in keys:
        value = value.get(key) if isinstance(value, dict) else None
    return value if isinstance(value, str) else ""


def _plain(names: list[str]) -> list[str]:
    """Return the entries that are a single name: a file of the project must not lead anywhere
    else."""
    return [word for word in names if re.fullmatch(r"[A-Za-z0-9][A-Za-z0-9._+-]*", word)]


def _as_version(name: str) -> list[int]:
    return [int(part) for part in re.findall(r"\d+", name)[:6]]
