"""The options of the paddock file that all services in a pen have."""

from __future__ import annotations

import re
from pathlib import Path

from paddock.model.errors import InvalidInput
from paddock.model.sizes import parse_size
from paddock.world.context import Context

PEN_OPTIONS = {
    "env": "variables for the process; it has no others of the host",
    "read": "more files and directories that the process may read",
    "memory": "how much each of its processes may use, as 2GiB",
    "ready_s": "how long it may take to be ready",
}
_MEMORY = 2 << 30
_MIN_MEMORY = 64 << 20  # with less not even an interpreter starts
_READY_S, _MAX_READY_S = 10.0, 300.0


def environment(context: Context) -> dict[str, str]:
    env = context.options.get("env", {})
    if not isinstance(env, dict):
        raise InvalidInput("env: expected names with values")
    for name, value in env.items():
        if not re.fullmatch(r"[A-Za-z_]\w*", str(name)) or "\0" in str(value):
            raise InvalidInput(f"env: {name!r} cannot be a variable")
    return {str(name): str(value) for name, value in env.items()}


def reads(context: Context) -> tuple[Path, ...]:
    texts = context.options.get("read", [])
    if not isinstance(texts, list):
        raise InvalidInput("read: expected a list of paths")
    paths = tuple(context.path(str(text)) for text in texts)
    for path in paths:
        if path == Path("/") or not path.exists():
            raise InvalidInput(f"read: {path} cannot be shown to a stand-in")
    return paths


def memory(context: Context) -> int:
    text = context.options.get("memory")
    if text is None:
        return _MEMORY
    size = parse_size(text, "memory")
    if size < _MIN_MEMORY:
        raise InvalidInput(f"memory: {text!r} is no size of at least 64MiB, as 512MiB or 2GiB")
    return size


def ready_seconds(context: Context) -> float:
    value = context.options.get("ready_s", _READY_S)
    if isinstance(value, bool) or not isinstance(value, int | float):
        raise InvalidInput("ready_s: expected a number of seconds")
    if not 0 < value <= _MAX_READY_S:
        raise InvalidInput(f"ready_s: expected more than 0 and at most {_MAX_READY_S:g}")
    return float(value)
