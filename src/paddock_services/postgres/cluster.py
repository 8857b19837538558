"""The server of a Paddock home. It is started when needed and runs while somebody uses it.

A keeper process runs the server, so that it outlives the user who came first and ends after the
last one. A user holds a connection to the keeper's socket.
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
from paddock.world.pen.launch import Finished, PenLimits, PenProgram, run_once
from paddock.world.pen.mounts import PenMounts
from paddock.world.pen.sockets import short_name
from paddock.world.service import StandInFailed

KEEPER = "keeper"  # name of the socket that users connect to
_START_S = 60.0
_INSTALLATIONS = Path("/usr/lib/postgresql")


class Cluster(msgspec.Struct, frozen=True):
    """The directory of the server's files, and that of its programs."""

    directory: Path
    programs: Path

    @classmethod
    def find(cls) -> Cluster:
        """Find the newest PostgreSQL. Raises HostCannot when there is none."""
        installed = [path.parent for path in _INSTALLATIONS.glob("*/bin/initdb")]
        versions = {_version(path): path for path in installed if _version(path)}
        if not versions:
            hint = "apt-get install -y postgresql"
            raise HostCannot("PostgreSQL is not installed", hint=hint)
        newest = max(versions)
        return cls(Home.find().root / "postgres" / str(newest), versions[newest])

    @property
    def own(self) -> Path:
        """The directory that the server writes to."""
        return self.directory / "own"

    @property
    def run(self) -> Path:
        """The directory of its socket."""
        return self.own / "run"

    @property
    def worlds(self) -> Path:
        """The directory that records which database belongs to which world."""
        return self.directory / "worlds"

    @contextlib.contextmanager
    def lock(self) -> Iterator[None]:
        """Exclude others who start or end the server, or drop databases."""
        self.directory.mkdir(parents=True, exist_ok=True, mode=0o700)
        fd = os.open(self.directory / "lock", os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
        try:
            fcntl.flock(fd, fcntl.LOCK_EX)
            yield
        finally:
            os.close(fd)

    def hold(self) -> socket.socket:
        """Start the server unless it runs. It runs until the last of these sockets is closed."""
        try:
            return self._connect_to_keeper()
        except (FileNotFoundError, ConnectionError):
            self._start()
        try:
            return self._connect_to_keeper()
        except OSError as error:
            raise StandInFailed(f"PostgreSQL cannot be reached: {error}") from error

    def program(
        self, argv: tuple[str, ...], own: Path, limits: PenLimits | None = None
    ) -> PenProgram:
        """Return one of PostgreSQL's programs in a pen of its own."""
        return PenProgram(
            argv=(str(self.programs / argv[0]), *argv[1:]),
            mounts=PenMounts(own=own, is_unix_allowed=True, uid=server_uid()),
            limits=limits or PenLimits(),
        )

    def call(self, *argv: str, stdin: bytes = b"", timeout_s: float = 60.0) -> Finished:
        """Run a client of the server, such as psql, which finds the server's socket in /pen."""
        program = self.program(argv, self.run)
        return run_once(program, stdin=stdin, timeout_s=timeout_s, what=argv[0])

    def _connect_to_keeper(self) -> socket.socket:
        connection = socket.socket(socket.AF_UNIX)
        try:
            connection.settimeout(5.0)
            with short_name(self.directory) as short:
                connection.connect(f"{short}/{KEEPER}")
            if connection.recv(1) != b"+":
                raise ConnectionError("its keeper is ending")
            connection.setblocking(False)
        except BaseException:
            connection.close()
            raise
        return connection

    def _start(self) -> None:
        reading, writing = os.pipe()
        argv = [sys.executable, "-P", "-m", "paddock_services.postgres.keeper"]
        try:
            with subprocess.Popen(
                [*argv, str(self.directory), str(self.programs), str(writing)],
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
                process.wait(_START_S)  # the keeper continues in the background
            ready = select.poll()  # `select` cannot wait for descriptors beyond 1023
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
    """Return an unprivileged user to run the server as, if this process is root."""
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
