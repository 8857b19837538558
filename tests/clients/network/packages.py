"""The packages that the clients come from, installed once and mounted into the sandboxes.

They are for the Python of the sandboxes, not for the one that runs the tests, and lie beside the
environment of the latter: sandboxes of root run under other uids, which can read there.
"""

from __future__ import annotations

import fcntl
import hashlib
import os
import shutil
import subprocess
import sys
from pathlib import Path

PYTHON = "/usr/bin/python3"  # of the sandboxes, whose /usr is the host's
NODE_PACKAGES = ("undici@6",)
INSTALL_S = 600
_LIST = Path(__file__).with_name("packages.txt")


def installed() -> Path:
    """The directory with all of them: `python` and `node_modules` below it."""
    directory = Path(sys.prefix, "clients", _stamp())
    if directory.exists():
        return directory  # perhaps somebody else's, for everybody to read
    directory.parent.mkdir(mode=0o755, exist_ok=True)
    with open(directory.parent / "lock", "w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)  # several workers want them at once
        if not directory.exists():
            _install(directory)
    return directory


def _stamp() -> str:
    """Another list, or another Python, is another directory."""
    version = subprocess.run([PYTHON, "-VV"], capture_output=True, check=True).stdout
    wanted = _LIST.read_bytes() + version + " ".join(NODE_PACKAGES).encode()
    return hashlib.sha256(wanted).hexdigest()[:16]


def _install(directory: Path) -> None:
    half = directory.with_suffix(".half")
    shutil.rmtree(half, ignore_errors=True)
    old_mask = os.umask(0o022)
    try:
        half.mkdir()
        pip = [sys.executable, "-m", "pip", "--python", PYTHON, "install", "--quiet", "--no-input"]
        _run([*pip, "--target", str(half / "python"), "--requirement", str(_LIST)])
        npm = ["npm", "install", "--no-audit", "--no-fund", "--loglevel=error", "--prefix"]
        _run([*npm, str(half), *NODE_PACKAGES])
    finally:
        os.umask(old_mask)
    half.rename(directory)


def _run(command: list[str]) -> None:
    done = subprocess.run(command, capture_output=True, text=True, timeout=INSTALL_S)
    if done.returncode:
        said = (done.stdout + done.stderr)[-2000:]
        raise RuntimeError(f"the clients cannot be installed; {command[:6]} said: {said}")
