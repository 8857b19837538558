"""The databases of worlds: created, seeded, forked, reset, dropped. Each has a pristine copy, and a
role of its own that has no rights outside of it."""

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
_END_S = 10.0


class Database(msgspec.Struct, frozen=True):
    """The database of a world. Its role has the same name."""

    name: str
    pristine_digest: str = ""

    @property
    def pristine(self) -> str:
        return f"{self.name}_0"


def read(directory: Path) -> Database | None:
    """Return the database of a service's directory, if it has one."""
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
    """Choose a new name and record its owner, so that `sweep` can drop the database in any case."""
    database = Database(f"w_{secrets.token_hex(8)}")  # random: the name is no part of the state
    cluster.worlds.mkdir(parents=True, exist_ok=True)
    (cluster.worlds / database.name).write_text(str(directory.absolute()))
    return database


def sweep(cluster: Cluster) -> None:
    """Drop the databases of worlds that do not exist any more. The caller holds the lock."""
    if not cluster.worlds.exists():
        return
    for record in sorted(cluster.worlds.iterdir()):
        database = None
        with contextlib.suppress(StandInFailed):
            database = read(Path(record.read_text()))
        if database is None or database.name != record.name:
            drop(cluster, Database(record.name))
            record.unlink(missing_ok=True)


def create(cluster: Cluster, database: Database, seeds: list[bytes]) -> None:
    """Create role and database, run the seeds, and make the pristine copy."""
    role = name(database.name)
    with Session(cluster.run) as admin:
        admin.run(
            f"CREATE ROLE {role} LOGIN NOSUPERUSER NOCREATEDB NOCREATEROLE NOREPLICATION "
            f"NOBYPASSRLS CONNECTION LIMIT {_MAX_SESSIONS}"
        )
        admin.run(f"CREATE DATABASE {role} TEMPLATE template0")
        _grant(admin, database.name, database.name)
    with Session(cluster.run, database.name) as admin:
        admin.run(f"ALTER SCHEMA public OWNER TO {role}")
    for number, sql in enumerate(seeds, 1):
        _seed(cluster, database, sql, number)
    with Session(cluster.run) as admin:
        _copy(admin, database.name, database.pristine, database.name)


def fork(cluster: Cluster, parent: Database, child: Database) -> None:
    """Copy a database for a role of its own. Sessions with the parent are ended, because a database
    in use cannot be copied."""
    role = name(child.name)
    with Session(cluster.run) as admin:
        admin.run(f"CREATE ROLE {role} LOGIN CONNECTION LIMIT {_MAX_SESSIONS}")
        for source, target in ((parent.name, child.name), (parent.pristine, child.pristine)):
            with _without_sessions(admin, source):
                _copy(admin, source, target, child.name)
    for target in (child.name, child.pristine):
        with Session(cluster.run, target) as admin:
            admin.run(f"REASSIGN OWNED BY {name(parent.name)} TO {role}")
            admin.run(f"DROP OWNED BY {name(parent.name)}")  # its privileges in the copy
    with Session(
        cluster.run
    ) as admin:  # DROP OWNED also revoked the parent's rights on its own databases
        _grant(admin, parent.name, parent.name)
        _grant(admin, parent.pristine, parent.name)


def reset(cluster: Cluster, database: Database) -> None:
    """Replace the database by its pristine copy."""
    with Session(cluster.run) as admin:
        admin.run(f"DROP DATABASE IF EXISTS {name(database.name)} WITH (FORCE)")
        _copy(admin, database.pristine, database.name, database.name)


def drop(cluster: Cluster, database: Database) -> None:
    with Session(cluster.run) as admin:
        for each in (database.name, database.pristine):
            admin.run(f"DROP DATABASE IF EXISTS {name(each)} WITH (FORCE)")
        admin.run(f"DROP ROLE IF EXISTS {name(database.name)}")


def _copy(admin: Session, source: str, target: str, role: str) -> None:
    admin.run(f"CREATE DATABASE {name(target)} TEMPLATE {name(source)}")
    _grant(admin, target, role)


def _grant(admin: Session, database: str, role: str) -> None:
    admin.run(f"REVOKE ALL ON DATABASE {name(database)} FROM PUBLIC")
    admin.run(f"GRANT ALL ON DATABASE {name(database)} TO {name(role)}")


@contextlib.contextmanager
def _without_sessions(admin: Session, database: str) -> Iterator[None]:
    """End all sessions with a database and admit no new ones meanwhile."""
    admin.run(f"ALTER DATABASE {name(database)} WITH ALLOW_CONNECTIONS false")
    try:
        _end_sessions(admin, database)
        yield
    finally:
        admin.run(f"ALTER DATABASE {name(database)} WITH ALLOW_CONNECTIONS true")


def _end_sessions(admin: Session, database: str) -> None:
    deadline = time.monotonic() + _END_S
    sql = f"FROM pg_catalog.pg_stat_activity WHERE datname = {literal(database)}"
    while admin.run(f"SELECT pid, pg_catalog.pg_terminate_backend(pid) {sql}"):
        if time.monotonic() > deadline:
            raise StandInFailed("a session with the database does not end")
        time.sleep(0.01)


def _seed(cluster: Cluster, database: Database, sql: bytes, number: int) -> None:
    """Run SQL by psql, which understands everything in a dump, as the world's role and in a pen."""
    finished = cluster.call(
        "psql", "-X", "-q", "-h", "/pen", "-U", database.name, "-d", database.name,
        "-v", "ON_ERROR_STOP=1", "-f", "-", stdin=sql, timeout_s=_SEED_S,
    )  # fmt: skip
    if finished.code != 0:
        lines = finished.output.splitlines()
        errors = [line for line in lines if "ERROR" in line or "psql" in line]
        reason = (errors or ["psql failed"])[0][:500]
        raise QueryFailed(f"seed {number}: {reason}{_advice(reason)}")


def _advice(reason: str) -> str:
    is_owner = "role" in reason and "does not exist" in reason
    return "; dump with --no-owner --no-privileges" if is_owner else ""
