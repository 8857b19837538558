"""The service `postgres`. The server starts at the first connection of a client."""

from __future__ import annotations

import asyncio
import contextlib
import hashlib
import json
import socket
from collections.abc import Mapping
from typing import Any, ClassVar

from paddock.fence.offload import offload
from paddock.model.errors import InvalidInput, PaddockError
from paddock.world.bounded_file import read_bounded
from paddock.world.changes import DocumentChange
from paddock.world.context import Context
from paddock.world.service import LocalService, Seed, Service, StandInFailed
from paddock_services.postgres import compare, databases, proxy
from paddock_services.postgres.cluster import Cluster
from paddock_services.postgres.compare import DatabaseState
from paddock_services.postgres.databases import Database
from paddock_services.postgres.rows import inserts

_MAX_SEED = 256 << 20
_SEEDS = "seeds.json"


class Postgres(LocalService):
    """`db.example:5432: {service: postgres, seed: data/shop.sql}`"""

    name = "postgres"
    is_http = False
    is_rewindable = False
    options: ClassVar = {
        "sql": "a file of SQL, or a list of them, that the database begins with",
        "ignore": "names of columns that do not count as state, as created_at",
    }

    def __init__(self, context: Context) -> None:
        super().__init__(context)
        self._server: socket.socket | None = None  # keeps the server running while it is open
        self._lock = asyncio.Lock()
        self._connections: set[asyncio.Task[None]] = set()

    def check(self) -> None:
        Cluster.find()
        ignore = self.context.options.get("ignore", [])
        if not isinstance(ignore, list) or not all(isinstance(name, str) for name in ignore):
            raise InvalidInput("ignore: expected names of columns")
        self._sql()

    async def connect(self) -> socket.socket:
        async with self._lock:
            database = await offload(self._ready)
        ours, theirs = socket.socketpair()
        ours.setblocking(False)
        theirs.setblocking(False)
        run = Cluster.find().run
        task = asyncio.ensure_future(proxy.serve(theirs, run, database.name))
        self._connections.add(task)
        task.add_done_callback(self._connections.discard)
        task.add_done_callback(lambda _: theirs.close())  # also if the task never started
        return ours

    async def stuck(self) -> None:
        """Do nothing: one client may wait for another's lock, and the server itself is well."""

    async def close(self) -> None:
        for task in list(self._connections):
            task.cancel()
        await asyncio.gather(*self._connections, return_exceptions=True)
        self._release()

    async def reset(self) -> None:
        async with self._lock:
            if databases.read(self.context.directory) is not None:
                await offload(self._reset)

    async def copy_from(self, parent: Service) -> None:
        assert isinstance(parent, Postgres)
        async with parent._lock, self._lock:
            await offload(self._copy_from, parent)

    def read_seed(self, words: Any) -> Seed:
        from paddock.world.seeds import load_seed

        return load_seed(words, self.context, self.context.project, takes_sql=True)

    def seed(self, data: Seed) -> None:
        """Store rows by table, and under `sql` files or text. The server is not started for it."""
        texts = [*self._read_seeds(), *_sql_texts(self.context, data)]
        self.context.directory.mkdir(parents=True, exist_ok=True)
        (self.context.directory / _SEEDS).write_text(json.dumps(texts))

    def extra_digest(self) -> str:
        """Return a digest that stays the same until the database changes, whether or not the server
        was started."""
        initial = hashlib.sha256(b"\0".join(self._all_seeds())).hexdigest()
        if databases.read(self.context.directory) is None:
            return initial
        database = self._ready()
        with self._state(database, database.name) as state:
            now = compare.digest(state)
        if now == database.pristine_digest:
            return initial
        return hashlib.sha256(f"{initial}/{now}".encode()).hexdigest()

    def extra_changes(self) -> list[DocumentChange]:
        if databases.read(self.context.directory) is None:
            return []
        database = self._ready()
        with (
            self._state(database, database.pristine) as before,
            self._state(database, database.name) as after,
        ):
            return compare.changes(before, after)

    def show(self) -> dict[str, Any]:
        if databases.read(self.context.directory) is None:
            return {"tables": {}}
        database = self._ready()
        with self._state(database, database.name) as state:
            checksums = state.checksums()
        return {"tables": {".".join(table): int(sums[0]) for table, sums in checksums.items()}}

    def _ready(self) -> Database:
        """Start the server and create the database if needed. The thread waits."""
        cluster = Cluster.find()
        try:
            with cluster.lock():
                self._keep_server(cluster)
                database = databases.read(self.context.directory)
                return self._create(cluster) if database is None else database
        except (OSError, PaddockError) as error:
            raise StandInFailed(f"PostgreSQL failed: {error}") from error

    def _keep_server(self, cluster: Cluster) -> None:
        if self._server is not None and _is_open(self._server):
            return
        self._release()
        self._server = cluster.hold()
        databases.sweep(cluster)

    def _create(self, cluster: Cluster) -> Database:
        directory = self.context.directory
        directory.mkdir(parents=True, exist_ok=True)
        database = databases.register(cluster, directory)
        try:
            databases.create(cluster, database, self._all_seeds())
            with self._state(database, database.name) as state:
                database = Database(database.name, compare.digest(state))
        except BaseException:
            with contextlib.suppress(StandInFailed, OSError):
                databases.drop(cluster, database)
            raise
        databases.write(directory, database)
        return database

    def _reset(self) -> None:
        database = self._ready()
        with Cluster.find().lock():
            databases.reset(Cluster.find(), database)

    def _copy_from(self, parent: Postgres) -> None:
        with contextlib.suppress(FileNotFoundError):
            seeds = (parent.context.directory / _SEEDS).read_text()
            self.context.directory.mkdir(parents=True, exist_ok=True)
            (self.context.directory / _SEEDS).write_text(seeds)
        if databases.read(parent.context.directory) is None:
            return
        theirs, cluster = parent._ready(), Cluster.find()
        with cluster.lock():
            self._keep_server(cluster)
            ours = databases.register(cluster, self.context.directory)
            databases.fork(cluster, theirs, ours)
            databases.write(self.context.directory, Database(ours.name, theirs.pristine_digest))

    def _state(self, database: Database, which: str) -> DatabaseState:
        ignore = list(self.context.options.get("ignore", []))
        return DatabaseState(Cluster.find(), which, database.name, ignore)

    def _all_seeds(self) -> list[bytes]:
        return [*self._sql(), *(text.encode() for text in self._read_seeds())]

    def _sql(self) -> list[bytes]:
        files = self.context.options.get("sql", [])
        if isinstance(files, str):
            files = [files]
        if not isinstance(files, list) or not all(isinstance(file, str) for file in files):
            raise InvalidInput("sql: expected a file or a list of files")
        return [read_bounded(self.context.path(file), _MAX_SEED) for file in files]

    def _read_seeds(self) -> list[str]:
        with contextlib.suppress(FileNotFoundError):
            texts: list[str] = json.loads((self.context.directory / _SEEDS).read_text())
            return texts
        return []

    def _release(self) -> None:
        if self._server is not None:
            self._server.close()
            self._server = None


def _sql_texts(context: Context, data: Mapping[str, Any]) -> list[str]:
    texts = []
    for kind, documents in data.items():
        if kind != "sql":
            texts.append(inserts(kind, documents))
            continue
        for document in documents:
            if set(document) == {"file"}:
                sql = read_bounded(context.path(str(document["file"])), _MAX_SEED)
                texts.append(sql.decode("utf-8", "replace"))
            elif set(document) == {"text"}:
                texts.append(str(document["text"]))
            else:
                raise InvalidInput("seed: sql: expected {file: path} or {text: SQL}")
    return texts


def _is_open(connection: socket.socket) -> bool:
    """Return whether the keeper still runs. It sends nothing, but its end can be read."""
    try:
        return connection.recv(1) != b""
    except BlockingIOError:
        return True
    except OSError:
        return False
