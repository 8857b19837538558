"""Drafts of requests as the network door keeps them, and a real server to send them to. No test
lives here.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import threading
from collections.abc import Callable
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

from paddock.doors.network.context import DoorContext
from paddock.doors.network.decision import answer_request
from paddock.doors.network.drafts.delivery import CollectedAnswer
from paddock.doors.network.exchange import BufferedBody, HttpRequest, NoBody
from paddock.doors.network.origin import Origin
from paddock.doors.network.secrets.custody import Custody
from paddock.doors.network.secrets.keeper import SecretKeeper
from paddock.doors.network.transport.dial import Dialer
from paddock.doors.network.transport.pool import ConnectionPool
from paddock.gate.drafts import Draft, Drafts
from paddock.gate.run_gate import gate_store, open_gate
from paddock.policy.file import load
from paddock.state.home import Home
from paddock.world.world import World

HOST = "tickets.example"
JSON = {"content-type": "application/json"}
FORM = {"content-type": "application/x-www-form-urlencoded"}
Answer = tuple[int, bytes] | None  # None ends the connection


@dataclass(frozen=True)
class Seen:
    """A request as it arrived."""

    method: str
    path: str
    headers: dict[str, str]
    body: bytes


@dataclass
class Tickets:
    """A server that makes tickets: 41, 42, ..."""

    seen: list[Seen] = field(default_factory=list)
    answer: Callable[[Seen], Answer] | None = None
    _server: ThreadingHTTPServer = field(init=False)

    def __post_init__(self) -> None:
        tickets = self

        class Handler(BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"

            def log_message(self, *_: Any) -> None: ...

            def _do(self) -> None:
                size = int(self.headers.get("content-length") or 0)
                headers = {name.lower(): value for name, value in self.headers.items()}
                asked = Seen(self.command, self.path, headers, self.rfile.read(size))
                tickets.seen.append(asked)
                said = (tickets.answer or tickets.usual)(asked)
                if said is None:
                    self.close_connection = True
                    return
                self.send_response(said[0])
                self.send_header("content-type", "application/json")
                self.send_header("content-length", str(len(said[1])))
                self.end_headers()
                with contextlib.suppress(OSError):  # a client that was killed takes no answer
                    self.wfile.write(bytes(said[1]))
                self.close_connection = len(said[1]) != len(bytes(said[1]))

            do_GET = do_POST = do_PUT = do_PATCH = do_DELETE = _do

        self._server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self._server.daemon_threads = True
        threading.Thread(target=self._server.serve_forever, args=(0.02,), daemon=True).start()

    @property
    def place(self) -> str:
        return f"127.0.0.1:{self._server.server_address[1]}"

    def secure(self, context: Any) -> None:
        self._server.socket = context.wrap_socket(self._server.socket, server_side=True)

    def usual(self, asked: Seen) -> Answer:
        if asked.method == "GET":
            return 200, b"[]" if asked.path.count("/") % 2 else b"{}"
        made = sum(one.method == "POST" for one in self.seen)
        return 201, json.dumps({"id": 40 + made, "said": asked.body.decode()}).encode()

    @property
    def lines(self) -> list[str]:
        return [f"{one.method} {one.path}" for one in self.seen]

    def close(self) -> None:
        self._server.shutdown()
        self._server.server_close()


def paddock_file(tickets: Tickets, **words: Any) -> str:
    """A file whose network leads to the server; `words` replace and add."""
    network = {"allow": [f"{HOST}:80", f"{HOST}:443"], "hosts": {HOST: tickets.place}}
    file = {"version": 1, "agent": "clerk", "stage": "broad", "network": network}
    return json.dumps({**file, "approvals": {"timeout": "30s", "by": ["store"]}, **words})


@dataclass
class Keeping:
    """A run that keeps its writes as drafts."""

    home: Home
    text: str
    run: str = "kept"
    environment: dict[str, str] = field(default_factory=dict)
    keeper: SecretKeeper | None = None

    def keep(self, *asked: tuple[Any, ...], scheme: str = "http") -> list[Draft]:
        """Lets an agent ask for all of these: method, target, headers, body. A body may be a
        function of the answers that came before it; so may a target."""
        asyncio.run(self._ask(asked, scheme))
        return sorted(Drafts(gate_store(self.home)).all(run=self.run), key=lambda one: one.step)

    async def _ask(self, asked: tuple[tuple[Any, ...], ...], scheme: str) -> None:
        policy = load(self.text)
        keeper = SecretKeeper.load(self.home, policy.secrets, self.environment)
        self.keeper = keeper
        assert policy.network is not None
        pool = ConnectionPool(Dialer(policy.network))
        directory = Path(self.home.root) / f"world-{self.run}"
        world = None
        if policy.world is not None:
            world = World.open(directory, self.run, policy.world, Path(self.home.root))
        values = keeper.masker_values()
        with open_gate(self.home, self.run, policy, secrets=values) as gate:
            context = DoorContext(lambda: gate, pool, Custody(keeper), lambda: policy, world)
            said: list[Any] = []
            for one in asked:
                exchange = CollectedAnswer(_request(scheme, said, keeper.environment(), *one))
                port = 443 if scheme == "https" else 80
                await answer_request(context, exchange, Origin(scheme, HOST, port))
                said.append(_parsed(exchange.answer()["body"]))
        pool.close()
        if world is not None:
            await world.close()


def _request(
    scheme: str,
    said: list[Any],
    placeholders: dict[str, str],
    method: str,
    target: Any,
    headers: dict[str, str] | None = None,
    body: Any = b"",
) -> HttpRequest:
    target = target(said) if callable(target) else target
    body = body(said) if callable(body) else body
    fields = {name: value.format(**placeholders) for name, value in (headers or {}).items()}
    fields = {"host": HOST, "accept-encoding": "gzip", **fields}
    if body:
        fields["content-length"] = str(len(body))
    return HttpRequest(
        method=method,
        scheme=scheme,
        authority=HOST,
        target=target,
        headers=[(name.encode(), value.encode()) for name, value in fields.items()],
        version="1.1",
        body=BufferedBody([body]) if body else NoBody(),
        upgrade="websocket" if "upgrade" in fields else None,
    )


def _parsed(body: str) -> Any:
    try:
        return json.loads(body)
    except ValueError:
        return body
