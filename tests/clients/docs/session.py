"""A person who follows a page: one scratch project, one PADDOCK_HOME, one terminal of 100 columns.
No test lives here."""

from __future__ import annotations

import fcntl
import os
import pty
import re
import shutil
import struct
import subprocess
import sys
import termios
import time
from pathlib import Path
from typing import Any

import yaml

from clients.docs import given
from clients.docs.blocks import (
    ROOT,
    Block,
    Command,
    Given,
    Part,
    Project,
    commands,
    fits,
    with_real_ids,
)
from clients.packages import clients
from paddock.policy.analysis.lint import check
from paddock.policy.analysis.review import Level
from paddock.run.scenarios.parser import read_scenario
from paddock.world.services.model.loading import load_file
from polling import is_readable

PATIENCE_S = 90
ROWS, COLUMNS = 40, 100
_ERASED = re.compile(r"[^\n]*\r\x1b\[2K")  # a status line that was written over
_STYLE = re.compile(r"\x1b\[[0-9;?]*[A-Za-z]")
_TYPED = re.compile(r"^.*> (\S.*)$")
_PADDOCK_FILE = {"version": 1, "agent": "docs", "stage": "broad"}


class Session:
    """Carries out the blocks of one page, one after the other."""

    def __init__(self, place: Path) -> None:
        self.place = place
        self.project = place / "my-project"
        self.project.mkdir()
        self._names: dict[str, Any] = {"__name__": "docs"}
        self._ids: dict[str, str] = {}
        self._status = 0
        kept = {name: os.environ[name] for name in ("HOME", "LANG", "USER") if name in os.environ}
        self.environment = {
            **kept,
            "PATH": f"{Path(sys.executable).parent}:/usr/local/bin:/usr/bin:/bin",
            "PADDOCK_HOME": str(place / "home"),
            "PYTHONDONTWRITEBYTECODE": "1",
            "PYTEST_ADDOPTS": "-p no:cacheprovider",
            "NO_COLOR": "1",
            "PIP_DISABLE_PIP_VERSION_CHECK": "1",
            "TERM": "xterm",
        }

    def _use(self, directory: Path) -> None:
        """Go on in a copy of this project, with the packages that it needs."""
        self.project = self.place / directory.name
        if self.project.exists():
            return
        shutil.copytree(directory, self.project)
        if (self.project / "package.json").exists():
            library = Path("node_modules", "openai")
            shutil.copytree(clients() / library, self.project / library)

    def follow(self, part: Part) -> None:
        """Do what a part of the page says. Raises AssertionError where the page is not true."""
        match part:
            case Project(directory):
                self._use(directory)
            case Given(name):
                given.make(name, self.project)
            case Block() if not part.skipped:
                self._follow_block(part)

    def _follow_block(self, block: Block) -> None:
        if block.file:
            path = self.project / block.file
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(block.text)
        match block.language:
            case "console":
                for command in commands(block):
                    self._type(block, command)
            case "sh":
                self._run_script(block)
            case "python" if not block.file:
                self._run_python(block)
            case "yaml" if not block.file.startswith("."):  # a file of another tool
                problem = yaml_problem(block.text, self.project)
                assert not problem, f"{block.place}: {problem}"

    def _type(self, block: Block, command: Command) -> None:
        answers = [m[1] for m in map(_TYPED.match, command.output.splitlines()) if m]
        printed = self._in_terminal(with_real_ids(command.text, self._ids), answers)
        if not fits(command.output, printed, self._ids):
            where = f"{block.page.relative_to(ROOT)}:{command.line}"
            raise AssertionError(
                f"{where}: {command.text}\n--- shown\n{command.output}\n--- printed\n{printed}"
            )
        if not command.output:
            assert self._status == 0, f"{block.place}: {command.text} ended with {self._status}"

    def _in_terminal(self, command: str, answers: list[str]) -> str:
        """Return what a command shows in a terminal. Answers are typed where it asks."""
        script = f"(exit {self._status})\n{command}"
        master, slave = pty.openpty()
        fcntl.ioctl(slave, termios.TIOCSWINSZ, struct.pack("HHHH", ROWS, COLUMNS, 0, 0))
        process = subprocess.Popen(
            ["/bin/bash", "-c", script], stdin=slave, stdout=slave, stderr=slave, cwd=self.project,
            env=self.environment, start_new_session=True, preexec_fn=_take_terminal,
        )  # fmt: skip
        os.close(slave)
        printed, end = "", time.monotonic() + PATIENCE_S
        data = b""
        while time.monotonic() < end:
            if not is_readable(master, 1):
                continue
            try:
                part = os.read(master, 65536)
            except OSError:  # EIO: nobody holds the other end any more
                break
            data += part
            if answers and data.endswith(b"> "):
                os.write(master, answers.pop(0).encode() + b"\n")
        else:
            process.kill()
            data += b"\n(it did not end)"
        os.close(master)
        self._status = process.wait()
        printed = data.decode("utf-8", "replace").replace("\r\n", "\n")
        return _STYLE.sub("", _ERASED.sub("", printed))

    def _run_script(self, block: Block) -> None:
        done = subprocess.run(
            ["/bin/bash", "-e", "-u", "-o", "pipefail", "-c", block.text], cwd=self.project,
            env=self.environment, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT, text=True, timeout=PATIENCE_S,
        )  # fmt: skip
        assert done.returncode == 0, f"{block.place}: exit {done.returncode}\n{done.stdout}"

    def _run_python(self, block: Block) -> None:
        code = "\n" * block.line + block.text
        exec(compile(code, str(block.page), "exec"), self._names)  # the page is ours


def yaml_problem(text: str, project: Path) -> str:
    """Return what is wrong with a block of YAML, or nothing."""
    content = yaml.safe_load(text)
    if not isinstance(content, dict):
        content = {"rules": content}
        text = yaml.safe_dump(content)
    if "turns" in content:
        path = project / "checked.yaml"
        path.write_text(text)
        load_file(path)
        path.unlink()
        return ""
    if content.keys() & {"expect", "matrix", "repeat"}:
        usual = {"version": 1, "name": "docs", "agent": ["true"]}
        read_scenario(yaml.safe_dump({**usual, **content}), project / "checked.scenario.yaml")
        return ""
    if "agent" not in content:
        content = {**_needed(content), **content}
        text = yaml.safe_dump({**_PADDOCK_FILE, **content}, sort_keys=False)
    errors = [one for one in check(text) if one.level is Level.ERROR]
    return "; ".join(one.message for one in errors)


def _needed(content: dict[str, Any]) -> dict[str, Any]:
    """Return what a part of a paddock file needs besides itself to be a whole one."""
    if "secrets" in content:
        hosts = [host for one in content["secrets"].values() for host in one["to"]]
        return {"network": {"allow": [f"{host}:443" for host in hosts]}}
    if content.keys() & {"tools", "rules", "network", "world"}:
        return {}
    return {"tools": {"search": {"effect": "read"}}}


def _take_terminal() -> None:
    fcntl.ioctl(0, termios.TIOCSCTTY, 0)
