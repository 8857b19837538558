"""The one server of a Paddock home: found, started when needed, held while it is used.

A keeper of its own runs it, so that it outlives whoever came first, and ends with the last user.
"""

from __future__ import annotations

import contextlib
import fcntl
import os
import pwd
import re
import select
import socket
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import msgspec

from paddock.model.errors import HostCannot
from paddock.state.home import Home
from paddock.world.pen.launch import Finished, Kept, Limits, run_once
from paddock.world.pen.sockets import short_name
from paddock.world.pen.walls import Walls
from paddock.world.service import StandInFailed

KEEPER = "keeper"  # the socket that users hold
_START_S = 60.0
_OTHERS = Path("/usr/lib/postgresql")


class Cluster(msgspec.Struct, frozen=True):
    """Where the server's files are, and which programs belong to it."""

    directory: Path
    programs: Path

    @classmethod
    def find(cls) -> Cluster:
        """Raises HostCannot when there is no PostgreSQL here."""
        found = [path.parent for path in _OTHERS.glob("*/bin/initdb")]
        versions = {_version(path): path for path in found if _version(path)}
        if not versions:
            hint = "apt-get install -y postgresql"
            raise HostCannot("PostgreSQL is not installed", hint=hint)
        newest = max(versions)
        return cls(Home.find().root / "postgres" / str(newest), versions[newest])

    @property
    def own(self) -> Path:
        """All that the server writes."""
        return self.directory / "own"

    @property
    def run(self) -> Path:
        """Where its socket is."""
        return self.own / "run"

    @property
    def worlds(self) -> Path:
        """Which database belongs to which directory."""
        return self.directory / "worlds"

    @contextlib.contextmanager
    def lock(self) -> Iterator[None]:
        """One at a time: whoever starts, ends, or tidies up."""
        self.directory.mkdir(parents=True, exist_ok=True, mode=0o700)
        fd = os.open(self.directory / "lock", os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
        try:
            fcntl.flock(fd, fcntl.LOCK_EX)
            yield
        finally:
            os.close(fd)

    def hold(self) -> socket.socket:
        """Starts the server unless it runs. It runs until the last of these sockets is closed."""
        try:
            return self._greet()
        except (FileNotFoundError, ConnectionError):
            self._start()
        try:
            return self._greet()
        except OSError as error:
            raise StandInFailed(f"PostgreSQL cannot be reached: {error}") from error

    def kept(self, words: tuple[str, ...], own: Path, limits: Limits | None = None) -> Kept:
        """A program of the server's, in a pen where nothing else is."""
        uid = server_uid()
        walls = Walls(own=own, is_unix_allowed=True, uid=uid)
        return Kept(
            words=(str(self.programs / words[0]), *words[1:]),
            walls=walls,
            limits=limits or Limits(),
        )

    def call(self, *words: str, given: bytes = b"", timeout_s: float = 60.0) -> Finished:
        """Runs a client of the server, as psql; it finds the server's socket in its directory."""
        kept = self.kept((*words,), self.run)
        return run_once(kept, given=given, timeout_s=timeout_s, what=words[0])

    def _greet(self) -> socket.socket:
        held = socket.socket(socket.AF_UNIX)
        try:
            held.settimeout(5.0)
            with short_name(self.directory) as short:
                held.connect(f"{short}/{KEEPER}")
            if held.recv(1) != b"+":
                raise ConnectionError("its keeper is ending")
            held.setblocking(False)
        except BaseException:
            held.close()
            raise
        return held

    def _start(self) -> None:
        reading, writing = os.pipe()
        words = [sys.executable, "-P", "-m", "paddock_services.postgres.keeper"]
        try:
            with subprocess.Popen(
                [*words, str(self.directory), str(self.programs), str(writing)],
                stdin=subprocess.DEVNULL,
                stdout=subprocess.DEVNULL,
                stderr=subprocess.DEVNULL,
                pass_fds=[writing],
                start_new_session=True,
                env=_environment(),
                cwd="/",
            ) as process:
                os.close(writing)
                writing = -1
                process.wait(_START_S)  # it goes on in the background
            ready = select.poll()  # `select` knows no descriptor beyond 1023
            ready.register(reading, select.POLLIN)
            if not ready.poll(1000 * _START_S):
                raise StandInFailed(f"PostgreSQL did not start within {_START_S:g} s")
            text = os.read(reading, 4096).decode("utf-8", "replace")
        finally:
            os.close(reading)
            if writing >= 0:
                os.close(writing)
        if text != "ready":
            raise StandInFailed(text or "PostgreSQL could not be started")


def server_uid() -> int | None:
    """Root's server runs as somebody who may nothing else."""
    if os.geteuid() != 0:
        return None
    for user in ("postgres", "nobody"):
        with contextlib.suppress(KeyError):
            return pwd.getpwnam(user).pw_uid
    raise HostCannot("there is no user postgres or nobody to run a server as")


def _environment() -> dict[str, str]:
    package = Path(__file__).resolve().parents[2]
    home = {"PADDOCK_HOME": str(Home.find().root)}
    return {"PATH": os.defpath, "LANG": "C.UTF-8", "PYTHONPATH": str(package), **home}


def _version(programs: Path) -> int:
    match = re.fullmatch(r"\d+", programs.parent.name)
    return int(match[0]) if match else 0
