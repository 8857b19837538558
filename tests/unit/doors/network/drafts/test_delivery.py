"""A kept request on its way out: bounded, in time, and with no secret where it does not belong."""

from __future__ import annotations

import asyncio
import json
import socket
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import h2.config
import h2.connection
import h2.events
import pytest
from h2.errors import ErrorCodes

from paddock.doors.network.drafts import delivery as module
from paddock.doors.network.drafts.delivery import (
    MAX_ANSWER,
    for_real,
    load_secrets,
    open_delivery,
    read_request,
    remake,
)
from paddock.gate.drafts import Draft, Drafts, Uncertain, send
from paddock.gate.run_gate import gate_store, open_gate
from paddock.model.action import Action, Effect, Kind, Outcome, Receipt
from paddock.model.errors import InvalidInput
from paddock.policy.file import load
from paddock.state import revocations
from paddock.state.home import Home
from unit.doors.network.draft_sends import HOST, JSON, Answer, Keeping, Seen, Tickets, paddock_file

VALUE = "sk_live_2f9c1d7ab3e4"
KEY = {"KEY": {"from": "env:KEY", "to": [HOST], "as": "header:Authorization=Bearer"}}
POST = ("POST", "/tickets", JSON, b'{"title":"printer"}')
WORLD = {f"{HOST}:80": {"service": "draft", "upstream": "live"}}


@pytest.fixture
def tickets() -> Iterator[Tickets]:
    server = Tickets()
    yield server
    server.close()


@pytest.fixture
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Home]:
    monkeypatch.setenv("KEY", VALUE)
    found = Home(tmp_path / "home")
    found.make()
    yield found
    gate_store(found).close()


def kept(home: Home, tickets: Tickets, *asked: tuple[Any, ...], **words: Any) -> Draft:
    text = paddock_file(tickets, stage="draft", **words)
    (draft,) = Keeping(home, text, environment={"KEY": VALUE}).keep(*(asked or (POST,)))
    tickets.seen.clear()
    return draft


def sent(home: Home, draft: Draft, text: str, *, meanwhile: Any = None) -> Receipt:
    """Sends it under a file, as the command does; `meanwhile` happens before it is dialled."""
    policy, drafts = for_real(load(text)), Drafts(gate_store(home))
    request = read_request(draft, drafts, home, policy)
    keeper = load_secrets(home, policy, request.origin.host)

    async def play() -> Receipt:
        remade = await remake(request, draft, keeper, policy)
        with (
            open_gate(home, f"sent-{draft.step}", policy, secrets=keeper.masker_values()) as gate,
            open_delivery(remade, gate, keeper) as live,
        ):
            if meanwhile is not None:
                meanwhile()
            return await send(drafts, draft.draft_id, gate, live, "ann",
                              action=remade.action, rebuild=remade.rebuild)  # fmt: skip

    return asyncio.run(play())


def state(home: Home, draft: Draft) -> str:
    return Drafts(gate_store(home)).get(draft.draft_id).state


def test_policy_for_real_keeps_all_but_the_world_and_the_faults(tickets: Tickets) -> None:
    faults = [{"id": "down", "match": {"kind": "http", "host": HOST}, "fault": {"status": 503}}]
    rules = [{"id": "no", "match": {"kind": "http", "path": "/no"}, "decide": "block"}]
    policy = load(paddock_file(tickets, world=WORLD, faults=faults, rules=rules, secrets=KEY))
    real = for_real(policy)
    assert (real.world, real.faults) == (None, ())
    assert (real.rules, real.secrets, real.stage) == (policy.rules, policy.secrets, policy.stage)
    assert real.network == load(paddock_file(tickets)).network


def test_sources_of_other_hosts_are_not_asked(
    home: Home, tickets: Tickets, monkeypatch: pytest.MonkeyPatch
) -> None:
    network = {"allow": [f"{HOST}:80", "other.example:443"], "hosts": {HOST: tickets.place}}
    secrets = {**KEY, "OTHER": {"from": "env:NOT_THERE", "to": ["other.example"]}}
    draft = kept(home, tickets)
    receipt = sent(home, draft, paddock_file(tickets, network=network, secrets=secrets))
    assert receipt.is_done
    assert tickets.seen[0].headers["authorization"] == f"Bearer {VALUE}"
    monkeypatch.delenv("KEY")
    with pytest.raises(InvalidInput, match="KEY"):
        sent(home, draft, paddock_file(tickets, secrets=KEY))


def test_secret_that_is_revoked_while_it_waits_is_not_sent(home: Home, tickets: Tickets) -> None:
    draft = kept(home, tickets)
    text = paddock_file(tickets, secrets=KEY)
    receipt = sent(home, draft, text, meanwhile=lambda: revocations.revoke(home, "KEY"))
    assert (receipt.outcome, tickets.seen) == (Outcome.FAILED, [])
    assert "revoked" in str(receipt.error)
    assert state(home, draft) == "draft"


def test_secret_is_not_sent_in_the_clear_to_where_a_name_leads(
    home: Home, tickets: Tickets
) -> None:
    draft = kept(home, tickets)
    network = {"allow": [f"{HOST}:80"], "private": ["127.0.0.0/8"]}
    receipt = sent(home, draft, paddock_file(tickets, network=network, secrets=KEY))
    assert "https only" in str(receipt.error)
    assert state(home, draft) == "draft"


def test_placeholder_for_another_host_is_not_sent(home: Home, tickets: Tickets) -> None:
    token = "paddock_KEY_0123456789abcdef01234567"
    asked = ("POST", "/a", JSON, json.dumps({"deep": [{token: 1}]}).encode())
    draft = kept(home, tickets, asked)
    network = {"allow": [f"{HOST}:80", "other.example:443"], "hosts": {HOST: tickets.place}}
    secrets = {"KEY": {"from": "env:KEY", "to": ["other.example"]}}
    with pytest.raises(InvalidInput, match="not for"):
        sent(home, draft, paddock_file(tickets, network=network, secrets=secrets))
    assert tickets.seen == []


def test_long_answer_is_read_to_its_end_and_shown_in_part(home: Home, tickets: Tickets) -> None:
    tickets.answer = lambda _: (200, b"x" * (3 * MAX_ANSWER))
    receipt = sent(home, kept(home, tickets), paddock_file(tickets))
    assert receipt.is_done
    assert len(receipt.result["body"]) == MAX_ANSWER


def test_server_that_never_answers_leaves_it_sending(
    home: Home, tickets: Tickets, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "SEND_S", 0.5)
    over = threading.Event()

    def answer(asked: Seen) -> Answer:
        over.wait(20)
        return 200, b""

    tickets.answer = answer
    draft = kept(home, tickets)
    receipt = sent(home, draft, paddock_file(tickets))
    over.set()
    assert isinstance(receipt.exception, Uncertain)
    assert (len(tickets.seen), state(home, draft)) == (1, "sending")


def test_what_is_asked_for_is_not_compressed(home: Home, tickets: Tickets) -> None:
    assert sent(home, kept(home, tickets), paddock_file(tickets)).is_done
    assert tickets.seen[0].headers["accept-encoding"] == "identity"


@pytest.mark.parametrize("journal", ["broken", "gone"])
def test_journal_that_cannot_be_read_means_that_an_id_may_be_a_shadows(
    home: Home, tickets: Tickets, journal: str
) -> None:
    draft = kept(home, tickets, ("POST", "/a", JSON, b'{"on":"cus_shadow_0123456789abcdef"}'))
    for path in (home.runs / draft.run).glob("*.jsonl"):
        path.unlink() if journal == "gone" else path.write_bytes(b"\x00\n\x00\n" * 9)
    with pytest.raises(InvalidInput, match="cus_shadow_0123456789abcdef"):
        sent(home, draft, paddock_file(tickets))
    assert tickets.seen == []


def test_edited_read_stays_a_write(home: Home, tickets: Tickets) -> None:
    world = {f"{HOST}:80": {"service": "draft", "upstream": "live", "writes": ["GET /close/*"]}}
    draft = kept(home, tickets, ("GET", "/close/7"), world=world)
    policy = for_real(load(paddock_file(tickets)))
    request = read_request(draft, Drafts(gate_store(home)), home, policy)
    keeper = load_secrets(home, policy, HOST)
    remade = asyncio.run(remake(request, draft, keeper, policy))
    assert (remade.action.effect, remade.action.is_reversible) == (Effect.WRITE, False)
    edited = remade.rebuild(remade.action, {**remade.action.arguments, "path": "/close/8"})
    assert (edited.effect, edited.is_reversible) == (Effect.WRITE, False)


def _refuse_by_h2(listener: socket.socket, code: ErrorCodes) -> None:
    """A server of HTTP/2 that ends the first stream with a code."""
    conn, _ = listener.accept()
    server = h2.connection.H2Connection(h2.config.H2Configuration(client_side=False))
    server.initiate_connection()
    conn.sendall(server.data_to_send())
    while data := conn.recv(65536):
        for event in server.receive_data(data):
            if isinstance(event, h2.events.RequestReceived):
                server.reset_stream(event.stream_id, code)
        conn.sendall(server.data_to_send())
    conn.close()


@pytest.mark.parametrize(
    ("code", "then"), [(ErrorCodes.REFUSED_STREAM, "draft"), (ErrorCodes.INTERNAL_ERROR, "sending")]
)
def test_stream_that_the_server_never_looked_at_leaves_a_draft(
    home: Home, tickets: Tickets, code: ErrorCodes, then: str
) -> None:
    words = {"method": "DELETE", "scheme": "http", "host": HOST, "port": 80, "path": "/tickets/7",
             "headers": {}, "http_version": "HTTP/2"}  # fmt: skip
    action = Action(Kind.HTTP, f"DELETE {HOST}", words, Effect.WRITE)
    drafts = Drafts(gate_store(home))
    draft = drafts.get(drafts.add("run-1", "clerk", 1, action, None))
    with socket.create_server(("127.0.0.1", 0)) as listener:
        thread = threading.Thread(target=_refuse_by_h2, args=(listener, code), daemon=True)
        thread.start()
        place = f"127.0.0.1:{listener.getsockname()[1]}"
        network = {"allow": [f"{HOST}:80"], "hosts": {HOST: place}}
        receipt = sent(home, draft, paddock_file(tickets, network=network))
        thread.join(20)
    assert receipt.outcome is Outcome.FAILED
    assert state(home, draft) == then
