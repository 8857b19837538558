"""Installs AgentDojo once, beside the environment of the tests, whose packages it shares."""

from __future__ import annotations

import fcntl
import hashlib
import shutil
import subprocess
import sys
import sysconfig
from pathlib import Path

INSTALL_S = 600
_LIST = Path(__file__).with_name("packages.txt")


def installed() -> Path:
    """The directory to be put on the path."""
    directory = Path(sys.prefix, "clients", f"agentdojo-{_stamp()}")
    directory.parent.mkdir(mode=0o755, exist_ok=True)
    with open(directory.parent / "agentdojo.lock", "w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)  # several workers want it at once
        if not directory.exists():
            _install(directory)
    return _site(directory)


def _site(directory: Path) -> Path:
    return Path(sysconfig.get_path("purelib", vars={"base": str(directory)}))


def _stamp() -> str:
    """Another list, or another Python, is another directory."""
    wanted = _LIST.read_text() + sys.version
    return hashlib.sha256(wanted.encode()).hexdigest()[:16]


def _install(directory: Path) -> None:
    half = directory.with_suffix(".half")
    shutil.rmtree(half, ignore_errors=True)
    # Into a directory, never with --prefix: that takes other versions out of our own environment.
    pip = [sys.executable, "-m", "pip", "install", "--quiet", "--no-input", "--target"]
    pip.append(str(_site(half)))
    done = subprocess.run(
        [*pip, "--requirement", str(_LIST)], capture_output=True, text=True, timeout=INSTALL_S
    )
    if done.returncode:
        raise RuntimeError(f"AgentDojo cannot be installed: {(done.stdout + done.stderr)[-2000:]}")
    half.rename(directory)
