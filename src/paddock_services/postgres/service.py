"""A real PostgreSQL as a stand-in. The server is shared, each world has a database of its own."""

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
from paddock.world.changes import Change
from paddock.world.context import Context
from paddock.world.reading import read_bounded
from paddock.world.service import LocalService, Seed, Service, StandInFailed
from paddock_services.postgres import compare, databases, proxy
from paddock_services.postgres.cluster import Cluster
from paddock_services.postgres.compare import State
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
        self._held: socket.socket | None = None
        self._changing = asyncio.Lock()
        self._connections: set[asyncio.Task[None]] = set()

    def check(self) -> None:
        Cluster.find()
        ignore = self.context.options.get("ignore", [])
        if not isinstance(ignore, list) or not all(isinstance(one, str) for one in ignore):
            raise InvalidInput("ignore: expected names of columns")
        self._sql()

    async def connect(self) -> socket.socket:
        async with self._changing:
            database = await offload(self._ready)
        ours, theirs = socket.socketpair()
        ours.setblocking(False)
        theirs.setblocking(False)
        run = Cluster.find().run
        task = asyncio.ensure_future(proxy.serve(theirs, run, database.name))
        self._connections.add(task)
        task.add_done_callback(self._connections.discard)
        task.add_done_callback(lambda _: theirs.close())  # also of one that never began
        return ours

    async def stuck(self) -> None:
        """One client waits for another's lock, perhaps. The server itself is well."""

    async def close(self) -> None:
        for task in list(self._connections):
            task.cancel()
        await asyncio.gather(*self._connections, return_exceptions=True)
        self._release()

    async def reset(self) -> None:
        async with self._changing:
            if databases.read(self.context.directory) is not None:
                await offload(self._put_back)

    async def copy_from(self, parent: Service) -> None:
        assert isinstance(parent, Postgres)
        async with parent._changing, self._changing:
            await offload(self._copy_from, parent)

    def read_seed(self, words: Any) -> Seed:
        from paddock.world.seeds import load_seed

        return load_seed(words, self.context, self.context.project, takes_sql=True)

    def seed(self, data: Seed) -> None:
        """Rows by table, and under `sql` files or text. The server is not started for it."""
        texts = [*self._read_seeds(), *_texts(self.context, data)]
        self.context.directory.mkdir(parents=True, exist_ok=True)
        (self.context.directory / _SEEDS).write_text(json.dumps(texts))

    def extra_digest(self) -> str:
        """As long as it is as it began, it does not matter whether it was started at all."""
        began = hashlib.sha256(b"\0".join(self._all_seeds())).hexdigest()
        if databases.read(self.context.directory) is None:
            return began
        database = self._ready()
        with self._state(database, database.name) as state:
            now = compare.digest(state)
        same = now == database.pristine_digest
        return began if same else hashlib.sha256(f"{began}/{now}".encode()).hexdigest()

    def extra_changes(self) -> list[Change]:
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
            sums = state.sums()
        return {"tables": {".".join(table): int(values[0]) for table, values in sums.items()}}

    def _ready(self) -> Database:
        """The server runs, and the database is there. For a thread that may wait."""
        cluster = Cluster.find()
        try:
            with cluster.lock():
                self._hold(cluster)
                found = databases.read(self.context.directory)
                return found if found is not None else self._make(cluster)
        except (OSError, PaddockError) as error:
            raise StandInFailed(f"PostgreSQL failed: {error}") from error

    def _hold(self, cluster: Cluster) -> None:
        if self._held is not None and _is_open(self._held):
            return
        self._release()
        self._held = cluster.hold()
        databases.sweep(cluster)

    def _make(self, cluster: Cluster) -> Database:
        directory = self.context.directory
        directory.mkdir(parents=True, exist_ok=True)
        database = databases.register(cluster, directory)
        try:
            databases.make(cluster, database, self._all_seeds())
            with self._state(database, database.name) as state:
                database = Database(database.name, compare.digest(state))
        except BaseException:
            with contextlib.suppress(StandInFailed, OSError):
                databases.drop(cluster, database)
            raise
        databases.write(directory, database)
        return database

    def _put_back(self) -> None:
        database = self._ready()
        with Cluster.find().lock():
            databases.put_back(Cluster.find(), database)

    def _copy_from(self, parent: Postgres) -> None:
        with contextlib.suppress(FileNotFoundError):
            seeds = (parent.context.directory / _SEEDS).read_text()
            self.context.directory.mkdir(parents=True, exist_ok=True)
            (self.context.directory / _SEEDS).write_text(seeds)
        if databases.read(parent.context.directory) is None:
            return
        theirs, cluster = parent._ready(), Cluster.find()
        with cluster.lock():
            self._hold(cluster)
            ours = databases.register(cluster, self.context.directory)
            databases.fork(cluster, theirs, ours)
            databases.write(self.context.directory, Database(ours.name, theirs.pristine_digest))

    def _state(self, database: Database, which: str) -> State:
        ignore = list(self.context.options.get("ignore", []))
        return State(Cluster.find(), which, database.name, ignore)

    def _all_seeds(self) -> list[bytes]:
        return [*self._sql(), *(text.encode() for text in self._read_seeds())]

    def _sql(self) -> list[bytes]:
        named = self.context.options.get("sql", [])
        files = [named] if isinstance(named, str) else named
        if not isinstance(files, list) or not all(isinstance(one, str) for one in files):
            raise InvalidInput("sql: expected a file or a list of files")
        return [read_bounded(self.context.path(one), _MAX_SEED) for one in files]

    def _read_seeds(self) -> list[str]:
        with contextlib.suppress(FileNotFoundError):
            found: list[str] = json.loads((self.context.directory / _SEEDS).read_text())
            return found
        return []

    def _release(self) -> None:
        if self._held is not None:
            self._held.close()
            self._held = None


def _texts(context: Context, data: Mapping[str, Any]) -> list[str]:
    texts = []
    for kind, documents in data.items():
        if kind != "sql":
            texts.append(inserts(kind, documents))
            continue
        for one in documents:
            if set(one) == {"file"}:
                texts.append(_read_text(context, str(one["file"])))
            elif set(one) == {"text"}:
                texts.append(str(one["text"]))
            else:
                raise InvalidInput("seed: sql: expected {file: path} or {text: SQL}")
    return texts


def _is_open(held: socket.socket) -> bool:
    """The keeper says nothing more; the end of it can be read."""
    try:
        return held.recv(1) != b""
    except BlockingIOError:
        return True
    except OSError:
        return False


def _read_text(context: Context, named: str) -> str:
    return read_bounded(context.path(named), _MAX_SEED).decode("utf-8", "replace")
