"""Running programs inside a sandbox: Python and JavaScript given as text, results as JSON."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

from paddock import CommandExitException, Sandbox

RUN_S = 60.0


def shell(box: Sandbox, command: str, envs: Mapping[str, str] | None = None) -> str:
    """What it printed; a failure says what the program said."""
    try:
        return str(box.commands.run(command, envs=envs, timeout=RUN_S).stdout)
    except CommandExitException as error:
        said = (error.stdout + error.stderr)[-4000:]
        raise AssertionError(f"{command}: exit {error.exit_code}: {said}") from None


def python(box: Sandbox, program: str, envs: Mapping[str, str] | None = None) -> Any:
    """A program's last line, which it prints as JSON."""
    box.files.write("program.py", program)
    return _last_line(shell(box, "python3 -W ignore program.py", envs))


def node(box: Sandbox, program: str, envs: Mapping[str, str] | None = None, flags: str = "") -> Any:
    """The same, as an ES module."""
    box.files.write("program.mjs", program)
    return _last_line(shell(box, f"node {flags} program.mjs", envs))


def _last_line(printed: str) -> Any:
    lines = printed.strip().splitlines()
    assert lines, "the program printed nothing"
    return json.loads(lines[-1])
