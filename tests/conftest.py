"""One PADDOCK_HOME for a whole test run, apart from the state of whoever runs it.

What one kind of test needs beyond that lives in the conftest of its own directory.
"""

from __future__ import annotations

import os
import shutil
import sys
import tempfile

import pytest

_made: list[str] = []


def pytest_configure(config: pytest.Config) -> None:
    """The controller makes it; xdist's workers inherit it, so that several processes share it."""
    if hasattr(config, "workerinput"):
        return
    # Short, because paths of Unix sockets have 107 bytes.
    _made.append(tempfile.mkdtemp(prefix="pdk-"))
    os.environ["PADDOCK_HOME"] = os.path.join(_made[0], "h")


def pytest_unconfigure(config: pytest.Config) -> None:
    if not _made:
        return
    if "paddock.doors.machine.engine" in sys.modules:
        from paddock.doors.machine.engine import close_all

        close_all()
    shutil.rmtree(_made.pop(), ignore_errors=True)
