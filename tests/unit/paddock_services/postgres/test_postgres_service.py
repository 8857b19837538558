"""A real PostgreSQL as psycopg and psql meet it: one database a world, and no way out of it."""

from __future__ import annotations

import asyncio
import os
import signal
import subprocess
import sys
import time
from collections.abc import Awaitable, Callable, Iterator
from pathlib import Path
from typing import Any

import psycopg
import pytest

from paddock.model.errors import HostCannot, InvalidInput
from paddock.world.registry import load_service
from paddock.world.service import StandInFailed
from paddock_services.postgres import Postgres, cluster
from paddock_services.postgres.cluster import Cluster
from paddock_services.postgres.session import Session
from unit.world.services.app.doorway import context, door

SHOP = """
CREATE TABLE item (id serial PRIMARY KEY, name text NOT NULL, price numeric);
INSERT INTO item (name, price) VALUES ('a', 1), ('b', 2);
COPY item (name, price) FROM stdin;
c\t3
\\.
CREATE VIEW cheap AS SELECT * FROM item WHERE price < 3;
"""


@pytest.fixture
def place(tmp_path: Path) -> Path:
    (tmp_path / "project").mkdir()
    (tmp_path / "project" / "shop.sql").write_text(SHOP)
    return tmp_path


def postgres(place: Path, name: str = "db", **words: Any) -> Postgres:
    made = Postgres(context(place, {"sql": "shop.sql", **words}, name=name, port=5432))
    made.check()
    return made


def connect(port: int, **words: Any) -> psycopg.Connection[Any]:
    """As any client does that believes in its own names."""
    return psycopg.connect(
        host="127.0.0.1", port=port, user="shop", password="x", dbname="prod",
        connect_timeout=30, autocommit=True, **words,
    )  # fmt: skip


def query(port: int, *statements: str) -> list[tuple[Any, ...]]:
    found: list[tuple[Any, ...]] = []
    with connect(port) as connection:
        for statement in statements:
            cursor = connection.execute(statement)
            found = cursor.fetchall() if cursor.description else []
    return found


Ask = Callable[..., Awaitable[list[tuple[Any, ...]]]]


async def ask(port: int, *statements: str) -> list[tuple[Any, ...]]:
    return await asyncio.to_thread(query, port, *statements)


def use(service: Postgres, work: Callable[[int], Awaitable[Any]]) -> Any:
    async def main() -> Any:
        try:
            async with door(service) as port:
                return await work(port)
        finally:
            await service.close()

    return asyncio.run(main())


def test_the_name_in_a_file_leads_to_it() -> None:
    assert load_service("postgres") is Postgres


def test_any_name_and_password_leads_to_the_seeded_database(place: Path) -> None:
    async def work(port: int) -> None:
        assert await ask(port, "SELECT name FROM item ORDER BY id") == [("a",), ("b",), ("c",)]
        assert await ask(port, "SELECT count(*) FROM cheap") == [(2,)]

    use(postgres(place), work)


def test_psql_works_with_its_default_settings(place: Path) -> None:
    async def work(port: int) -> str:
        words = ["psql", f"postgresql://me:secret@127.0.0.1:{port}/anything", "-Atc", "TABLE cheap"]
        env = {"PATH": os.environ["PATH"]}
        done = await asyncio.to_thread(
            subprocess.run, words, capture_output=True, text=True, env=env, timeout=60
        )
        assert done.stderr == ""
        return str(done.stdout)

    assert use(postgres(place), work) == "1|a|1\n2|b|2\n"


def test_a_query_can_be_cancelled(place: Path) -> None:
    def work_hard(port: int) -> None:
        import threading

        with connect(port) as connection:
            timer = threading.Timer(0.5, connection.cancel_safe)
            timer.start()
            with pytest.raises(psycopg.errors.QueryCanceled):
                connection.execute("SELECT pg_sleep(60)")
            timer.join()

    use(postgres(place), lambda port: asyncio.to_thread(work_hard, port))


def test_noise_instead_of_a_beginning_is_answered_and_ended(place: Path) -> None:
    async def main() -> None:
        service = postgres(place)
        loop = asyncio.get_running_loop()
        try:
            for noise in (b"GET / HTTP/1.1\r\n\r\n", b"\0\0\0\x08\0\x02\0\0", b"\xff" * 64):
                with await service.connect() as caller:
                    async with asyncio.timeout(20):
                        await loop.sock_sendall(caller, noise)
                        assert (await loop.sock_recv(caller, 1000)).startswith(b"E")
        finally:
            await service.close()

    asyncio.run(main())


@pytest.mark.parametrize(
    "statement",
    [
        "COPY item TO PROGRAM 'id'",
        "COPY item FROM '/etc/passwd'",
        "SELECT pg_read_file('/etc/passwd')",
        "SELECT pg_ls_dir('.')",
        "SELECT lo_import('/etc/passwd')",
        "CREATE EXTENSION dblink",
        "CREATE EXTENSION postgres_fdw",
        "CREATE EXTENSION file_fdw",
        "CREATE DATABASE other",
        "CREATE ROLE other",
        "ALTER SYSTEM SET fsync = on",
        "SET ROLE paddock",
        "SET SESSION AUTHORIZATION paddock",
        "LOAD '/usr/lib/x.so'",
        "CREATE SUBSCRIPTION s CONNECTION 'host=192.0.2.1' PUBLICATION p",
        "ALTER ROLE CURRENT_USER SUPERUSER",
    ],
)
def test_the_role_of_a_world_may_nothing_outside_of_its_database(
    server: Ask, statement: str
) -> None:
    with pytest.raises(psycopg.errors.InsufficientPrivilege):
        asyncio.run(server(statement))  # type: ignore[arg-type]


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Ask]:
    """One service for many statements."""
    place = tmp_path_factory.mktemp("shared")
    (place / "project").mkdir()
    (place / "project" / "shop.sql").write_text(SHOP)
    service = postgres(place)

    async def once(*statements: str) -> list[tuple[Any, ...]]:
        async with door(service) as port:
            return await ask(port, *statements)

    yield once
    asyncio.run(service.close())


def test_another_database_is_not_entered_even_by_its_own_name(place: Path) -> None:
    async def main() -> None:
        one, two = postgres(place, "one"), postgres(place, "two")
        try:
            async with door(one) as first, door(two) as second:
                ((name,),) = await ask(second, "SELECT current_database()")

                def enter() -> Any:
                    words = f"host=127.0.0.1 port={first} dbname={name} user={name}"
                    with psycopg.connect(words) as connection:
                        return connection.execute("SELECT current_database()").fetchone()

                assert await asyncio.to_thread(enter) != (name,)
                with pytest.raises(psycopg.errors.InsufficientPrivilege):
                    await ask(first, f"SELECT has_database_privilege('{name}', 'connect')",
                              f"GRANT CONNECT ON DATABASE {name} TO CURRENT_USER")  # fmt: skip
        finally:
            await one.close()
            await two.close()

    asyncio.run(main())


def test_reset_is_exact_and_changes_are_rows_by_key(place: Path) -> None:
    service = postgres(place)
    before = service.extra_digest()

    async def work(port: int) -> None:
        assert await ask(port, "SELECT 1") == [(1,)]
        assert service.extra_digest() == before
        await ask(
            port,
            "INSERT INTO item (name, price) VALUES ('new', 9)",
            "UPDATE item SET price = 10 WHERE id = 1",
            "DELETE FROM item WHERE id = 2",
        )
        changed = service.extra_changes()
        assert [(c.kind, c.id) for c in changed] == [("public.item", id) for id in ("1", "2", "4")]
        assert changed[0].before == {"id": 1, "name": "a", "price": 1}
        assert changed[0].after == {"id": 1, "name": "a", "price": 10}
        assert changed[1].after is None
        assert changed[2].before is None
        assert service.extra_digest() != before
        await service.reset()
        assert service.extra_changes() == []
        assert service.extra_digest() == before
        inserted = "INSERT INTO item (name) VALUES ('x') RETURNING id"
        assert await ask(port, inserted) == [(4,)]

    use(service, work)


def test_a_new_table_is_a_change_of_definitions(place: Path) -> None:
    service = postgres(place)

    async def work(port: int) -> None:
        await ask(port, "CREATE TABLE other (x int)", "INSERT INTO other VALUES (1), (1)")
        changed = service.extra_changes()
        assert [c.kind for c in changed] == ["schema", "public.other", "public.other"]
        assert changed[0].after is not None
        assert "CREATE TABLE public.other (" in changed[0].after["lines"]

    use(service, work)


def test_the_order_in_which_rows_lie_is_no_part_of_the_state(place: Path) -> None:
    digests = []
    for name, order in (("one", "12"), ("two", "21")):
        service = postgres(place, name)

        async def work(port: int, order: str = order, service: Postgres = service) -> str:
            for id in order:
                await ask(port, f"UPDATE item SET price = 5 WHERE id = {id}")
            return service.extra_digest()

        digests.append(use(service, work))
    assert digests[0] == digests[1]


def test_columns_that_are_ignored_do_not_count(place: Path) -> None:
    service = postgres(place, ignore=["price"])
    before = service.extra_digest()

    async def work(port: int) -> None:
        await ask(port, "UPDATE item SET price = price + 1")
        assert service.extra_digest() == before
        assert service.extra_changes() == []

    use(service, work)


def test_a_fork_is_independent_in_both_directions(place: Path) -> None:
    async def main() -> None:
        parent, child = postgres(place, "parent"), postgres(place, "child")
        try:
            async with door(parent) as first, door(child) as second:
                await ask(first, "UPDATE item SET name = 'both' WHERE id = 1")
                await child.copy_from(parent)
                assert child.extra_digest() == parent.extra_digest()
                await ask(first, "DELETE FROM item WHERE id = 2")
                await ask(second, "DROP TABLE item CASCADE", "CREATE TABLE mine (id int)")
                assert await ask(first, "SELECT count(*) FROM cheap") == [(1,)]
                await child.reset()
                assert await ask(second, "SELECT name FROM item WHERE id = 1") == [("a",)]
                await ask(second, "ALTER TABLE item ADD COLUMN more text")
                await parent.reset()
                assert await ask(first, "SELECT count(*) FROM item") == [(3,)]
        finally:
            await parent.close()
            await child.close()

    asyncio.run(main())


def test_sessions_with_the_parent_end_at_a_fork(place: Path) -> None:
    async def main() -> None:
        parent, child = postgres(place, "parent"), postgres(place, "child")
        try:
            async with door(parent) as port:
                connection = await asyncio.to_thread(connect, port)
                await child.copy_from(parent)
                with pytest.raises(psycopg.OperationalError):
                    await asyncio.to_thread(connection.execute, "SELECT 1")
                connection.close()
                assert await ask(port, "SELECT 1") == [(1,)]
        finally:
            await parent.close()
            await child.close()

    asyncio.run(main())


def test_a_fork_of_a_database_that_nobody_used_starts_nothing(place: Path) -> None:
    async def main() -> None:
        parent, child = postgres(place, "parent"), postgres(place, "child")
        await child.copy_from(parent)
        assert child.extra_digest() == parent.extra_digest()
        assert not (place / "child" / "database.json").exists()

    asyncio.run(main())


def test_a_world_that_is_opened_again_has_its_database(place: Path) -> None:
    use(postgres(place), lambda port: ask(port, "INSERT INTO item (name) VALUES ('kept')"))
    again = postgres(place)
    counted = use(again, lambda port: ask(port, "SELECT count(*) FROM item WHERE name = 'kept'"))
    assert counted == [(1,)]


def test_documents_become_rows(place: Path) -> None:
    service = Postgres(context(place, {}, port=5432))
    rows = [{"id": 1, "name": "it's", "tags": ["a"]}, {"id": 2, "name": None, "ok": True}]
    service.seed({"person": rows, "sql": [{"text": "CREATE INDEX ON person (name)"}]})

    async def work(port: int) -> None:
        found = await ask(port, "SELECT id, name, tags, ok FROM person ORDER BY id")
        assert found == [(1, "it's", ["a"], None), (2, None, None, True)]

    use(service, work)


def test_a_seed_that_fails_is_quoted_and_leaves_nothing(place: Path) -> None:
    (place / "project" / "bad.sql").write_text("CREATE TABLE a (x int);\nSELEKT 1;")
    service = postgres(place, sql="bad.sql")

    async def main() -> None:
        try:
            with pytest.raises(StandInFailed, match="syntax error at or near"):
                await service.connect()
        finally:
            await service.close()

    asyncio.run(main())
    assert not (place / "db" / "database.json").exists()


def test_a_shell_in_a_seed_runs_in_a_pen(place: Path) -> None:
    (place / "project" / "sh.sql").write_text(f"\\! touch {place}/escaped /usr/escaped\n{SHOP}")
    service = postgres(place, sql="sh.sql")
    use(service, lambda port: ask(port, "SELECT 1"))
    assert not (place / "escaped").exists()


def test_the_database_of_a_world_that_is_gone_is_dropped(place: Path) -> None:
    async def main() -> None:
        gone, other = postgres(place, "gone"), postgres(place, "other")
        async with door(gone) as port:
            ((name,),) = await ask(port, "SELECT current_database()")
        await gone.close()
        (place / "gone" / "database.json").unlink()
        try:
            (await other.connect()).close()
            with Session(Cluster.find().run) as admin:
                found = admin.run(f"SELECT datname FROM pg_database WHERE datname LIKE '{name}%'")
                assert found == []
        finally:
            await other.close()

    asyncio.run(main())


def test_the_server_ends_when_its_last_user_was_killed(place: Path, tmp_path: Path) -> None:
    home = tmp_path / "h"
    code = f"""
import asyncio, pathlib, sys
from paddock.world.context import Context
from paddock_services.postgres import Postgres
from paddock.world.store import Store
async def main():
    place = pathlib.Path({str(place)!r})
    store = Store.open(place / "k.sqlite")
    service = Postgres(Context("k", "db.example", 5432, store, directory=place / "k"))
    caller = await service.connect()
    print("ready", flush=True)
    await asyncio.sleep(1000)
asyncio.run(main())
"""
    paths = {"PYTHONPATH": os.pathsep.join(sys.path), "PADDOCK_HOME": str(home)}
    env = {**os.environ, **paths}
    with subprocess.Popen([sys.executable, "-c", code], stdout=subprocess.PIPE, env=env) as process:
        assert process.stdout is not None
        try:
            assert process.stdout.readline() == b"ready\n"
            assert _running(home)
        finally:
            process.send_signal(signal.SIGKILL)
    deadline = time.monotonic() + 60
    while _running(home) and time.monotonic() < deadline:
        time.sleep(0.1)
    assert not _running(home)


def test_a_machine_without_postgresql_says_how_to_get_it(
    place: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(cluster, "_INSTALLATIONS", tmp_path / "nowhere")
    with pytest.raises(HostCannot, match="apt-get install -y postgresql"):
        postgres(place)


@pytest.mark.parametrize("words", [{"sql": 5}, {"sql": "missing.sql"}, {"ignore": "price"}])
def test_words_that_make_no_sense_are_refused(place: Path, words: dict[str, Any]) -> None:
    with pytest.raises(InvalidInput):
        postgres(place, **words)


def _running(home: Path) -> list[str]:
    """Processes whose command line names this home."""
    found = []
    for path in Path("/proc").glob("[0-9]*/cmdline"):
        try:
            line = path.read_bytes().replace(b"\0", b" ").decode("utf-8", "replace")
        except OSError:
            continue
        if str(home / "postgres") in line:
            found.append(line[:200])
    return found
