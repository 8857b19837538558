"""The program that runs the server of a Paddock home, as long as somebody uses it."""

from __future__ import annotations

import contextlib
import fcntl
import os
import select
import shutil
import socket
import subprocess
import sys
import time
from pathlib import Path

from paddock.model.errors import PaddockError
from paddock.world.pen.launch import PenLimits, run_once, spawn
from paddock.world.pen.launch import end as end_pen
from paddock.world.pen.sockets import short_name
from paddock.world.service import StandInFailed
from paddock_services.postgres.cluster import KEEPER, Cluster, server_uid
from paddock_services.postgres.session import ADMIN, Session

_IDLE_S = 3.0
_READY_S = 30.0
_MAX_USERS = 1000
_MAX_LOG = 4 << 20
# Data of a stand-in may be lost in a power failure, so nothing is synced. There is no TCP at all.
_SETTINGS = {
    "listen_addresses": "", "unix_socket_directories": "/pen/run",
    "unix_socket_permissions": "0700", "fsync": "off", "full_page_writes": "off",
    "synchronous_commit": "off",
    "wal_level": "minimal", "max_wal_senders": "0", "max_connections": "200",
    "shared_buffers": "64MB", "temp_file_limit": "1GB", "jit": "off", "timezone": "UTC",
    "log_timezone": "UTC", "logging_collector": "off", "autovacuum_naptime": "30s",
    "dynamic_shared_memory_type": "posix", "max_worker_processes": "4",
}  # fmt: skip


def main() -> None:
    cluster = Cluster(Path(sys.argv[1]), Path(sys.argv[2]))
    report = int(sys.argv[3])
    if os.fork():
        os._exit(0)  # the process that started us does not wait for the server
    try:
        keeper = Keeper(cluster)
    except (StandInFailed, PaddockError, OSError) as error:
        os.write(report, " ".join(str(error).split())[:2000].encode())
        os._exit(1)
    os.write(report, b"ready")
    os.close(report)
    keeper.serve()


class Keeper:
    """The server and its users."""

    def __init__(self, cluster: Cluster) -> None:
        self._cluster = cluster
        self._users: set[socket.socket] = set()
        self._data_lock = self._lock_data()
        self._prepare()
        ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        self._control = ours
        self._log = os.open(
            cluster.directory / "said.log", os.O_RDWR | os.O_CREAT | os.O_TRUNC, 0o600
        )
        argv = ["postgres", "-D", "/pen/data"]
        for name, value in _SETTINGS.items():
            argv += ["-c", f"{name}={value}"]
        limits = PenLimits(cpu_s=86400, file_bytes=2 << 30)
        with theirs:
            program = cluster.program(tuple(argv), cluster.own, limits)
            self._process = spawn(
                program, theirs.fileno(), self._log, {"PADDOCK_HELD": self._data_lock}
            )
        try:
            self._wait_until_ready()
            self._revoke_defaults()
            self._listener = self._listen()
        except BaseException:
            end_pen(self._process)
            raise

    def serve(self) -> None:
        """Run until nobody has used the server for a while, or it has died."""
        quiet_since = time.monotonic()
        while True:
            ready, _, _ = select.select(
                [self._control, self._listener, *self._users], [], [], _IDLE_S
            )
            if self._control in ready:
                break  # the server has ended
            if self._listener in ready:
                self._accept()
            for user in self._users & set(ready):
                self._users.discard(user)
                user.close()
            self._trim_log()
            if self._users:
                quiet_since = time.monotonic()
            elif time.monotonic() - quiet_since >= _IDLE_S and self._end():
                break
        end_pen(self._process)

    def _lock_data(self) -> int:
        """Take a lock that each process of the server inherits.

        So two servers never use the same files, even when a keeper was killed and its server is
        still ending.
        """
        self._cluster.directory.mkdir(parents=True, exist_ok=True, mode=0o700)
        fd = os.open(self._cluster.directory / "held", os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
        deadline = time.monotonic() + _READY_S
        while True:
            try:
                fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
                return fd
            except BlockingIOError:
                if time.monotonic() > deadline:
                    raise StandInFailed("an earlier PostgreSQL does not end") from None
            time.sleep(0.02)

    def _prepare(self) -> None:
        """Make the data directory if there is none."""
        own = self._cluster.own
        for path in (own, self._cluster.run):
            path.mkdir(parents=True, exist_ok=True, mode=0o700)
            _chown_to_server(path)
        if (own / "data" / "PG_VERSION").exists():
            # The server that wrote it has ended with its pid namespace, so the pid in it is stale.
            (own / "data" / "postmaster.pid").unlink(missing_ok=True)
            return
        if (own / "data").exists():
            shutil.rmtree(own / "data")
        argv = ("initdb", "-D", "/pen/data", "-U", ADMIN, "-A", "trust", "-E", "UTF8",
                "--locale=C.UTF-8", "--no-sync")  # fmt: skip
        finished = run_once(self._cluster.program(argv, own), timeout_s=_READY_S, what="initdb")
        if finished.code != 0:
            raise StandInFailed(f"initdb failed: {finished.output.strip()[-500:]}")

    def _wait_until_ready(self) -> None:
        deadline = time.monotonic() + _READY_S
        while True:
            try:
                with Session(self._cluster.run):
                    return
            except (OSError, StandInFailed) as error:
                if self._process.poll() is not None or time.monotonic() > deadline:
                    log = os.pread(self._log, 4096, 0).decode("utf-8", "replace")
                    raise StandInFailed(f"PostgreSQL did not start: {error}: {log}") from None
            time.sleep(0.03)

    def _revoke_defaults(self) -> None:
        """Let a world's role enter its own database only."""
        with Session(self._cluster.run) as admin:
            for database in ("postgres", "template1"):
                admin.run(f"REVOKE ALL ON DATABASE {database} FROM PUBLIC")

    def _listen(self) -> socket.socket:
        (self._cluster.directory / KEEPER).unlink(missing_ok=True)
        listener = socket.socket(socket.AF_UNIX)
        with short_name(self._cluster.directory) as short:
            listener.bind(f"{short}/{KEEPER}")
        (self._cluster.directory / KEEPER).chmod(0o600)
        listener.listen(64)
        listener.setblocking(False)
        return listener

    def _accept(self) -> None:
        with contextlib.suppress(OSError):
            user, _ = self._listener.accept()
            if len(self._users) >= _MAX_USERS:
                user.close()
                return
            user.setblocking(False)
            user.send(b"+")
            self._users.add(user)

    def _end(self) -> bool:
        """End the server, unless somebody is about to connect, who holds the lock."""
        fd = os.open(self._cluster.directory / "lock", os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
        try:
            fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
            if select.select([self._listener], [], [], 0)[0]:
                return False
            (self._cluster.directory / KEEPER).unlink(missing_ok=True)
            self._listener.close()
            with contextlib.suppress(OSError, subprocess.TimeoutExpired):
                self._control.send(b"end")
                self._process.wait(10.0)
            end_pen(self._process)
        except BlockingIOError:
            return False
        finally:
            os.close(fd)
        return True

    def _trim_log(self) -> None:
        if os.fstat(self._log).st_size > _MAX_LOG:
            os.ftruncate(self._log, 0)
            os.lseek(self._log, 0, os.SEEK_SET)


def _chown_to_server(path: Path) -> None:
    uid = server_uid()
    if uid is not None:
        os.chown(path, uid, uid)


if __name__ == "__main__":
    main()
