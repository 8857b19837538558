"""A real PostgreSQL on the host's loopback, started by a user that is not root: it insists."""

from __future__ import annotations

import os
import pwd
import shutil
import socket
import subprocess
import tempfile
from pathlib import Path
from typing import Any

from clients.network.certificates import ServerAuthority

NAME = "db.example"
START_S = 60
# PostgreSQL wants a user with a name. In a namespace of its own, whoever runs this can have one.
_AS_NOBODY = ["unshare", "--user", "--map-user=65534", "--map-group=65534"]
_ADDRESSES = """
hostssl all safe all scram-sha-256
hostnossl all safe all reject
host all all all scram-sha-256
"""


class Database:
    """Ends with `close`. Its users are `open` and, over TLS only, `safe`."""

    def __init__(self, authority: ServerAuthority) -> None:
        self._programs = _programs()
        self._owner: dict[str, Any] = {}
        self._before: list[str] = []
        self._directory = Path(tempfile.mkdtemp(prefix="pdk-"))
        self._data = self._directory / "data"
        if os.geteuid() == 0:
            user = pwd.getpwnam("nobody")
            self._owner = {"user": user.pw_uid, "group": user.pw_gid, "extra_groups": []}
        elif not _has_name(os.geteuid()):
            self._before = _AS_NOBODY
        self._give()
        self.port = _free_port()
        self._create(authority)
        self._control("start", "--wait", f"--timeout={START_S}", f"--log={self._directory}/log")
        self._fill()

    def close(self) -> None:
        self._control("stop", "--mode=immediate")
        shutil.rmtree(self._directory)

    def _create(self, authority: ServerAuthority) -> None:
        (self._directory / "password").write_text("dba")
        self._give()
        self._run(
            "initdb", f"--pgdata={self._data}", "--username=dba", "--auth=scram-sha-256",
            f"--pwfile={self._directory}/password", "--no-sync", "--no-locale",
            "--encoding=UTF8",
        )  # fmt: skip
        for source, name in zip(authority.files(NAME), ("server.crt", "server.key"), strict=True):
            shutil.copy(source, self._data / name)
        (self._data / "pg_hba.conf").write_text(_ADDRESSES)
        with open(self._data / "postgresql.auto.conf", "a") as settings:
            settings.write(
                f"port = {self.port}\nlisten_addresses = '127.0.0.1'\nssl = on\nfsync = off\n"
                f"unix_socket_directories = ''\nmax_connections = 10\nshared_buffers = 1MB\n"
            )
        self._give()

    def _fill(self) -> None:
        statements = (
            "create role open login password 'open-sesame'",
            "create role safe login password 'safe-sesame'",
            "create table fruit (name text)",
            "insert into fruit values ('apple'), ('pear')",
            "grant all on fruit to open, safe",
        )
        words = [word for statement in statements for word in ("-c", statement)]
        where = f"host=127.0.0.1 port={self.port} user=dba password=dba dbname=postgres"
        self._run("psql", "--quiet", "--no-psqlrc", where, *words)

    def _control(self, *words: str) -> None:
        self._run("pg_ctl", *words, f"--pgdata={self._data}")

    def _run(self, program: str, *words: str) -> None:
        """What it prints goes nowhere: a server that stays would hold a pipe open."""
        command = [*self._before, str(self._programs / program), *words]
        done = subprocess.run(
            command, cwd="/", stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, **self._owner
        )
        assert done.returncode == 0, f"{program} failed"

    def _give(self) -> None:
        """All of it to the user that the server runs as."""
        if self._owner:
            for path in (self._directory, *self._directory.rglob("*")):
                os.chown(path, self._owner["user"], self._owner["group"])


def _programs() -> Path:
    """Debian keeps those of each version apart and outside PATH."""
    found = sorted(Path("/usr/lib/postgresql").glob("*/bin/initdb"), key=_version)
    if found:
        return found[-1].parent
    elsewhere = shutil.which("initdb")
    assert elsewhere, "no PostgreSQL server here: apt-get install postgresql"
    return Path(elsewhere).resolve().parent


def _version(path: Path) -> int:
    return int(path.parts[-3])


def _has_name(uid: int) -> bool:
    try:
        return bool(pwd.getpwuid(uid))
    except KeyError:
        return False


def _free_port() -> int:
    with socket.socket() as sock:
        sock.bind(("127.0.0.1", 0))
        return int(sock.getsockname()[1])
