"""psql against a real PostgreSQL: not HTTP, so its bytes are passed on as they come."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from clients.network.certificates import ServerAuthority
from clients.network.conftest import MakeBox
from clients.network.crossings import crossings
from clients.network.database import Database
from clients.network.inside import shell
from paddock import CommandExitException, Sandbox

QUERY = "psql --no-psqlrc --tuples-only --no-align --command"
TABLE = f'{QUERY} "select name from fruit order by name"'
IS_SAFE = f'{QUERY} "select ssl, version from pg_stat_ssl where pid = pg_backend_pid()"'


@pytest.fixture(scope="module")
def database(authority: ServerAuthority) -> Iterator[Database]:
    running = Database(authority)
    yield running
    running.close()


@pytest.fixture
def box(make_box: MakeBox, database: Database, authority: ServerAuthority) -> Sandbox:
    box = _box(make_box, database, "/tcp")
    box.files.write("authority.pem", authority.text)
    return box


def _box(make_box: MakeBox, database: Database, transport: str) -> Sandbox:
    sites = {f"db.example:5432{transport}": f"127.0.0.1:{database.port}"}
    return make_box(sites, envs={"PGHOST": "db.example", "PGDATABASE": "postgres"})


def _login(user: str, mode: str) -> dict[str, str]:
    return {"PGUSER": user, "PGPASSWORD": f"{user}-sesame", "PGSSLMODE": mode}


def test_queries_are_answered_and_counted(box: Sandbox) -> None:
    assert shell(box, TABLE, _login("open", "disable")) == "apple\npear\n"
    (passed,) = crossings(box, "connect")
    assert (passed.host, passed.arguments["port"]) == ("db.example", 5432)
    assert (passed.verdict, passed.outcome) == ("allow", "done")
    assert passed.arguments["transport"] == "tcp"
    assert passed.result["bytes_out"] > 50 and passed.result["bytes_in"] > 100
    assert passed.is_of_a_command


@pytest.mark.parametrize("mode", ["prefer", "require", "verify-full"])
def test_tls_of_the_database_is_end_to_end(box: Sandbox, mode: str) -> None:
    envs = {**_login("safe", mode), "PGSSLROOTCERT": "authority.pem"}
    assert shell(box, IS_SAFE, envs).startswith("t|TLSv1.")
    (passed,) = crossings(box, "connect")
    assert (passed.verdict, passed.outcome, passed.error) == ("allow", "done", None)


def test_bulk_data_is_copied_both_ways(box: Sandbox) -> None:
    rows = 50_000
    fill = f"seq 1 {rows} | psql --no-psqlrc -q -c 'create temp table n (v int)'"
    command = f"{fill} -c '\\copy n from pstdin' -c '\\copy n to out'"
    shell(box, command, _login("open", "disable"))
    assert shell(box, "wc -l < out").strip() == str(rows)
    (passed,) = crossings(box, "connect")
    assert passed.result["bytes_out"] > 250_000 and passed.result["bytes_in"] > 250_000


def test_wrong_password_is_refused_by_the_database_itself(box: Sandbox) -> None:
    envs = {**_login("open", "disable"), "PGPASSWORD": "wrong"}
    with pytest.raises(CommandExitException) as failed:
        box.commands.run(TABLE, envs=envs, timeout=30)
    assert "password authentication failed" in failed.value.stderr


def test_without_tcp_in_the_file_the_protocol_is_refused(
    make_box: MakeBox, database: Database
) -> None:
    box = _box(make_box, database, "")
    with pytest.raises(CommandExitException) as failed:
        box.commands.run(TABLE, envs=_login("open", "disable"), timeout=30)
    assert "closed the connection" in failed.value.stderr or "reset" in failed.value.stderr
    (refused,) = crossings(box, "connect")
    assert (refused.verdict, refused.outcome, refused.rule) == ("block", "refused", "protocol")
    assert "/tcp" in (refused.error or "")
