"""A real kernel in a real process, for the tests of the code interpreter."""

from __future__ import annotations

import contextlib
import json
import os
import signal
import struct
import subprocess
import time
from pathlib import Path
from typing import Any

import pytest

import paddock
from paddock.model.code import Execution, ExecutionBuilder, MessageReader
from paddock.state.kernel_site import kernel_site
from polling import is_readable

PYTHON = "/usr/bin/python3"
KERNEL = Path(paddock.__path__[0]) / "fence" / "guest" / "kernel.py"
PATIENCE_S = 60.0


def shared_site(factory: pytest.TempPathFactory) -> Path:
    """One kernel site for all workers of a test run."""
    base = factory.getbasetemp()
    cache = (base.parent if "PYTEST_XDIST_WORKER" in os.environ else base) / "kernel-sites"
    site = kernel_site(cache, PYTHON)
    assert site is not None, "the tests need IPython; it is in the `code` extra"
    return site


class Kernel:
    """Starts kernel.py, sends requests, reads its messages with the host's own reader."""

    def __init__(self, site: Path | str, home: Path, **env: str) -> None:
        self.messages: list[dict[str, Any]] = []
        self._reader = MessageReader()
        self._last_id = 0
        self.process = subprocess.Popen(
            [PYTHON, "-I", str(KERNEL), str(site)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            cwd=home,
            env={"PATH": "/usr/bin:/bin", "HOME": str(home), "TMPDIR": str(home), **env},
            start_new_session=True,
        )

    def run(self, code: str, **fields: Any) -> Execution:
        """One cell, to its end. `messages` then has all that arrived meanwhile."""
        return self.finish(self.begin(code, **fields))

    def begin(self, code: str, **fields: Any) -> ExecutionBuilder:
        self._last_id += 1
        self.messages = []
        self.send({"id": self._last_id, "op": "execute", "code": code, **fields})
        return ExecutionBuilder(self._last_id)

    def finish(self, builder: ExecutionBuilder) -> Execution:
        while not builder.is_done:
            for message in self.read():
                builder.feed(message)
        return builder.build()

    def send(self, request: dict[str, Any]) -> None:
        body = json.dumps(request).encode()
        self.send_raw(struct.pack(">I", len(body)) + body)

    def send_raw(self, data: bytes) -> None:
        assert self.process.stdin is not None
        self.process.stdin.write(data)
        self.process.stdin.flush()

    def read(self) -> list[dict[str, Any]]:
        """The next messages; EOFError when the kernel has closed."""
        assert self.process.stdout is not None
        fd = self.process.stdout.fileno()
        assert is_readable(fd, PATIENCE_S), "the kernel said nothing"
        data = os.read(fd, 1 << 20)
        if not data:
            raise EOFError
        new = self._reader.feed(data)
        self.messages += new
        return new

    def read_to_end(self) -> None:
        with pytest.raises(EOFError):
            while True:
                self.read()

    def wait_for(self, kind: str) -> dict[str, Any]:
        while True:
            for message in self.messages:
                if message["type"] == kind:
                    return message
            self.read()

    def interrupt(self, code: str, *, group: bool = False) -> Execution:
        """Starts a cell that prints `ready`, and interrupts what it does after that."""
        builder = self.begin(code)
        while "ready\n" not in "".join(builder.build().logs.stdout):
            for message in self.read():
                builder.feed(message)
        # A signal that comes just before a system call is seen by Python only after that call.
        time.sleep(0.3)
        send = os.killpg if group else os.kill
        send(self.process.pid, signal.SIGINT)
        return self.finish(builder)

    def close(self) -> int:
        assert self.process.stdin is not None and self.process.stdout is not None
        self.process.stdin.close()
        try:
            return self.process.wait(PATIENCE_S)
        finally:
            # Its group: what a test's cells left running goes with it.
            with contextlib.suppress(ProcessLookupError):
                os.killpg(self.process.pid, signal.SIGKILL)
            self.process.stdout.close()
