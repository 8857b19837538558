"""The packages that real clients come from, installed once, before the tests, and shared by them.

`python tests/clients/packages.py [--thorough]` installs what is missing; `scripts/test` calls it.
Tests only ask where the packages are. They lie beside the environment that runs the tests, in a
directory for each set whose name changes with the list of packages and with the Python.
"""

from __future__ import annotations

import fcntl
import hashlib
import os
import shutil
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

PYTHON = "/usr/bin/python3"  # The interpreter of the sandboxes, whose /usr is the host's.
NODE_PACKAGES = ("openai@6", "undici@6")
INSTALL_S = 900
_HERE = Path(__file__).parent
_NETWORK = _HERE / "network" / "packages.txt"
_AGENTDOJO = _HERE / "agentdojo" / "packages.txt"
_PIP = [sys.executable, "-m", "pip", "--quiet", "--no-input", "--disable-pip-version-check"]


def clients() -> Path:
    """Return the directory with `python`, for the sandboxes, and `node_modules` below it."""
    return _installed(_clients_directory())


def agentdojo() -> Path:
    """Return the directory with AgentDojo, for the Python that runs the tests."""
    return _installed(_agentdojo_directory())


def install(is_thorough: bool) -> None:
    """Install what is missing; AgentDojo, which is large, only for the thorough suite."""
    # Sandboxes of root run under other uids, which must be able to read the packages.
    os.umask(0o022)
    _install_once(_clients_directory(), _install_clients)
    if is_thorough:
        _install_once(_agentdojo_directory(), _install_agentdojo)


def _installed(directory: Path) -> Path:
    if not directory.exists():
        raise RuntimeError(
            f"{directory} is missing. Install it: {sys.executable} {__file__} --thorough"
        )
    return directory


def _clients_directory() -> Path:
    version = subprocess.run([PYTHON, "-VV"], capture_output=True, check=True).stdout
    return _directory("clients", _NETWORK.read_bytes(), version, " ".join(NODE_PACKAGES).encode())


def _agentdojo_directory() -> Path:
    return _directory("agentdojo", _AGENTDOJO.read_bytes(), sys.version.encode())


def _directory(name: str, *contents: bytes) -> Path:
    stamp = hashlib.sha256(b"\0".join(contents)).hexdigest()[:16]
    return Path(sys.prefix, "clients", f"{name}-{stamp}")


def _install_clients(directory: Path) -> None:
    pip = [*_PIP, "--python", PYTHON, "install"]
    _run([*pip, "--target", str(directory / "python"), "--requirement", str(_NETWORK)])
    npm = ["npm", "install", "--no-audit", "--no-fund", "--loglevel=error", "--prefix"]
    _run([*npm, str(directory), *NODE_PACKAGES])


def _install_agentdojo(directory: Path) -> None:
    # Into a directory, never with --prefix: that takes other versions out of our own environment.
    _run([*_PIP, "install", "--target", str(directory), "--requirement", str(_AGENTDOJO)])


def _install_once(directory: Path, fill: Callable[[Path], None]) -> None:
    if directory.exists():
        return  # Perhaps somebody else's, for everybody to read.
    directory.parent.mkdir(exist_ok=True)
    with open(directory.parent / "lock", "w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)  # Another run may want the same packages.
        if directory.exists():
            return
        print(f"setup: installing packages of clients into {directory}", file=sys.stderr)
        half = directory.with_suffix(".half")
        shutil.rmtree(half, ignore_errors=True)
        half.mkdir()
        fill(half)
        half.rename(directory)


def _run(command: list[str]) -> None:
    done = subprocess.run(command, capture_output=True, text=True, timeout=INSTALL_S)
    if done.returncode:
        output = (done.stdout + done.stderr)[-2000:]
        sys.exit(f"packages of clients cannot be installed: {' '.join(command)}\n{output}")


if __name__ == "__main__":
    install("--thorough" in sys.argv[1:])
