"""The law of a draft: what is read is what a host that had done the writes would answer."""

from __future__ import annotations

import tempfile
from pathlib import Path
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from paddock.world.context import Context
from paddock.world.services.draft import DraftService
from paddock.world.store import Store
from unit.world.services.draft.conftest import Agent, Host, ticket

WORDS = st.sampled_from(["open", "closed", "held"])
FIELDS = st.dictionaries(st.sampled_from(["subject", "status", "owner"]), WORDS, min_size=1)
NUMBERS = st.integers(0, 7)  # of a record in the order of its making
READS = st.tuples(st.just("read"), NUMBERS, st.just({}))
WRITES = st.tuples(
    st.sampled_from(["create", "patch", "put", "delete", "operate"]), NUMBERS, FIELDS
)


Move = tuple[str, int, dict[str, str]]


class Done:
    """A host that does what it is told, for comparison."""

    def __init__(self) -> None:
        self.records = {n: _core(ticket(n)) for n in range(1, 5)}
        self.made = list(self.records)

    def do(self, what: str, id: Any, fields: dict[str, str]) -> None:
        if what == "create":
            self.made.append(id)
            self.records[id] = fields
        elif id in self.records and what in ("patch", "operate"):
            self.records[id] = {**self.records[id], **fields}
        elif id in self.records and what == "put":
            self.records[id] = {"id": id, **fields}
        elif what == "delete":
            self.records.pop(id, None)


def _core(record: dict[str, Any]) -> dict[str, Any]:
    return {name: record[name] for name in ("id", "subject", "status", "owner") if name in record}


def _request(what: str, fields: dict[str, str]) -> tuple[str, Any]:
    if what == "operate":
        return "PATCH", [{"op": "add", "path": f"/{n}", "value": v} for n, v in fields.items()]
    return {"patch": "PATCH", "put": "PUT", "delete": "DELETE"}[what], fields


def _play(agent: Agent, done: Done, moves: list[Move]) -> None:
    for what, number, fields in moves:
        id = done.made[number % len(done.made)]
        if what == "read":
            agent.get(f"/tickets/{id}")
        elif what == "create":
            made = agent.ask("POST", "/tickets", fields).json
            done.do(what, made["id"], _core(made))
        elif id in done.records:
            method, body = _request(what, fields)
            assert agent.ask(method, f"/tickets/{id}", body).status in (200, 204)
            done.do(what, id, fields)


def _paged(items: list[Any], asked: dict[str, str]) -> Any:
    start = int(asked.get("offset", 0))
    here = items[start : start + 2]
    return {"data": here, "total": len(items), "has_more": start + 2 < len(items)}


@given(st.booleans(), st.booleans(), st.booleans(), st.lists(READS | WRITES, max_size=12))
def test_reads_are_those_of_a_host_that_had_done_the_writes(
    has_listed: bool, is_paged: bool, is_newest_first: bool, moves: list[Move]
) -> None:
    with (
        tempfile.TemporaryDirectory() as directory,
        Store.open(Path(directory) / "s.sqlite") as store,
    ):
        real = [ticket(n) for n in range(1, 5)]
        host = Host({"/tickets": real[::-1] if is_newest_first else real})
        if is_paged:
            host.envelope = _paged
        agent = Agent(DraftService(Context("draft", "tickets.example", 443, store)), host)
        done = Done()
        if has_listed:
            _list(agent)
        _play(agent, done, moves)
        _agree(agent, done, is_newest_first)


def _agree(agent: Agent, done: Done, is_newest_first: bool) -> None:
    for id in done.made:
        read = agent.get(f"/tickets/{id}")
        assert (_core(read.json) if read.status == 200 else None) == done.records.get(id)
    left = [done.records[id] for id in done.made if id in done.records]
    left = left[::-1] if is_newest_first else left
    assert _list(agent) == left
    for word in ("open", "held", "closed"):
        wanted = [one for one in left if one.get("status") == word]
        assert _list(agent, f"&status={word}") == wanted


def _list(agent: Agent, asked: str = "") -> list[dict[str, Any]]:
    """All pages of it. Each says how many records there are."""
    found: list[dict[str, Any]] = []
    totals = set()
    for offset in range(0, 40, 2):
        said = agent.get(f"/tickets?offset={offset}{asked}").json
        found += [_core(one) for one in (said if isinstance(said, list) else said["data"])]
        if isinstance(said, list) or not said["has_more"]:
            totals |= set() if isinstance(said, list) else {said["total"]}
            break
        totals.add(said["total"])
    assert totals <= {len(found)}
    return found
