"""The databases of worlds: made, seeded, copied, put back, dropped. Each has a role of its own that
may nothing outside of it, and a pristine copy."""

from __future__ import annotations

import contextlib
import json
import os
import secrets
import time
from collections.abc import Iterator
from pathlib import Path

import msgspec
from msgspec.structs import asdict

from paddock.world.service import StandInFailed
from paddock_services.postgres.cluster import Cluster
from paddock_services.postgres.session import QueryFailed, Session, literal, name

RECORD = "database.json"
_MAX_SESSIONS = 50
_SEED_S = 300.0
_ENDING_S = 10.0


class Database(msgspec.Struct, frozen=True):
    """A world's database; its role has the same name."""

    name: str
    pristine_digest: str = ""

    @property
    def pristine(self) -> str:
        return f"{self.name}_0"


def read(directory: Path) -> Database | None:
    """The database of a world's service, if it has one."""
    try:
        return Database(**json.loads((directory / RECORD).read_text()))
    except FileNotFoundError:
        return None
    except (OSError, ValueError, TypeError) as error:
        raise StandInFailed(f"{directory / RECORD} cannot be read: {error}") from error


def write(directory: Path, database: Database) -> None:
    directory.mkdir(parents=True, exist_ok=True)
    new = directory / f"{RECORD}.new"
    new.write_text(json.dumps(asdict(database)))
    os.replace(new, directory / RECORD)


def register(cluster: Cluster, directory: Path) -> Database:
    """A new name, with a note of whose it is: whatever happens, somebody will tidy up."""
    database = Database(f"w_{secrets.token_hex(8)}")  # no part of the state
    cluster.worlds.mkdir(parents=True, exist_ok=True)
    (cluster.worlds / database.name).write_text(str(directory.absolute()))
    return database


def sweep(cluster: Cluster) -> None:
    """Drops the databases of worlds that are gone. The lock is held."""
    if not cluster.worlds.exists():
        return
    for note in sorted(cluster.worlds.iterdir()):
        directory = Path(note.read_text())
        owned = None
        with contextlib.suppress(StandInFailed):
            owned = read(directory)
        if owned is None or owned.name != note.name:
            drop(cluster, Database(note.name))
            note.unlink(missing_ok=True)


def make(cluster: Cluster, database: Database, seeds: list[bytes]) -> None:
    """From nothing, and what is to be in it."""
    role = name(database.name)
    with Session(cluster.run) as admin:
        admin.run(
            f"CREATE ROLE {role} LOGIN NOSUPERUSER NOCREATEDB NOCREATEROLE NOREPLICATION "
            f"NOBYPASSRLS CONNECTION LIMIT {_MAX_SESSIONS}"
        )
        admin.run(f"CREATE DATABASE {role} TEMPLATE template0")
        _admit(admin, database.name, database.name)
    with Session(cluster.run, database.name) as admin:
        admin.run(f"ALTER SCHEMA public OWNER TO {role}")
    for number, sql in enumerate(seeds, 1):
        _seed(cluster, database, sql, number)
    with Session(cluster.run) as admin:
        _copy(admin, database.name, database.pristine, database.name)


def fork(cluster: Cluster, parent: Database, child: Database) -> None:
    """A copy with a role of its own. Sessions with the parent end: a database that is in use cannot
    be copied."""
    role = name(child.name)
    with Session(cluster.run) as admin:
        admin.run(f"CREATE ROLE {role} LOGIN CONNECTION LIMIT {_MAX_SESSIONS}")
        for source, target in ((parent.name, child.name), (parent.pristine, child.pristine)):
            with _closed(admin, source):
                _copy(admin, source, target, child.name)
    for target in (child.name, child.pristine):
        with Session(cluster.run, target) as admin:
            admin.run(f"REASSIGN OWNED BY {name(parent.name)} TO {role}")
            admin.run(f"DROP OWNED BY {name(parent.name)}")  # privileges in the copy
    with Session(cluster.run) as admin:  # those on its own databases went with them
        _admit(admin, parent.name, parent.name)
        _admit(admin, parent.pristine, parent.name)


def put_back(cluster: Cluster, database: Database) -> None:
    """To the pristine state, exactly."""
    with Session(cluster.run) as admin:
        admin.run(f"DROP DATABASE IF EXISTS {name(database.name)} WITH (FORCE)")
        _copy(admin, database.pristine, database.name, database.name)


def drop(cluster: Cluster, database: Database) -> None:
    with Session(cluster.run) as admin:
        for one in (database.name, database.pristine):
            admin.run(f"DROP DATABASE IF EXISTS {name(one)} WITH (FORCE)")
        admin.run(f"DROP ROLE IF EXISTS {name(database.name)}")


def _copy(admin: Session, source: str, target: str, role: str) -> None:
    admin.run(f"CREATE DATABASE {name(target)} TEMPLATE {name(source)}")
    _admit(admin, target, role)


def _admit(admin: Session, database: str, role: str) -> None:
    admin.run(f"REVOKE ALL ON DATABASE {name(database)} FROM PUBLIC")
    admin.run(f"GRANT ALL ON DATABASE {name(database)} TO {name(role)}")


@contextlib.contextmanager
def _closed(admin: Session, database: str) -> Iterator[None]:
    """Nobody is in it, and nobody comes in."""
    admin.run(f"ALTER DATABASE {name(database)} WITH ALLOW_CONNECTIONS false")
    try:
        _end_sessions(admin, database)
        yield
    finally:
        admin.run(f"ALTER DATABASE {name(database)} WITH ALLOW_CONNECTIONS true")


def _end_sessions(admin: Session, database: str) -> None:
    deadline = time.monotonic() + _ENDING_S
    sql = f"FROM pg_catalog.pg_stat_activity WHERE datname = {literal(database)}"
    while admin.run(f"SELECT pid, pg_catalog.pg_terminate_backend(pid) {sql}"):
        if time.monotonic() > deadline:
            raise StandInFailed("a session with the database does not end")
        time.sleep(0.01)


def _seed(cluster: Cluster, database: Database, sql: bytes, number: int) -> None:
    """By psql, which knows all that a dump may hold; as the world's role, in a pen of its own."""
    done = cluster.call(
        "psql", "-X", "-q", "-h", "/pen", "-U", database.name, "-d", database.name,
        "-v", "ON_ERROR_STOP=1", "-f", "-", given=sql, timeout_s=_SEED_S,
    )  # fmt: skip
    if done.code != 0:
        said = [line for line in done.said.splitlines() if "ERROR" in line or "psql" in line]
        why = (said or ["psql failed"])[0][:500]
        raise QueryFailed(f"seed {number}: {why}{_advice(why)}")


def _advice(why: str) -> str:
    is_owner = "role" in why and "does not exist" in why
    return "; dump with --no-owner --no-privileges" if is_owner else ""
