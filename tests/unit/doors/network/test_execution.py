"""What becomes of an answer, or of a failure, whoever gives it. The upstream is a scripted one."""

from __future__ import annotations

import asyncio
import gzip
from pathlib import Path
from typing import Any

from cases import for_each
from paddock.doors.network.client_disconnect import ClientDisconnected
from paddock.doors.network.drafts.delivery import CollectedAnswer
from paddock.doors.network.exchange import BadMessage, Headers, HttpRequest
from paddock.doors.network.execution import RequestExecution
from paddock.doors.network.origin import Origin
from paddock.doors.network.request import propose
from paddock.doors.network.secrets.keeper import Revoked
from paddock.doors.network.transport.dial import DialError, DialFailure
from paddock.doors.network.transport.pool import UpstreamUnreachable
from paddock.doors.network.transport.stream import ConnIdle, ConnLost
from paddock.doors.network.upstream.live import SecretInClearText
from paddock.doors.network.upstream.scripted import ScriptedUpstream, scripted
from paddock.doors.network.upstream_request import MisplacedPlaceholder
from paddock.gate.executors import Done
from paddock.model.action import Outcome
from paddock.world.service import StandInFailed
from unit.doors.network.doorway import HOST, KEY, VALUE, doorway

NETWORK = {"allow": [f"{HOST}:80"]}


class Told(CollectedAnswer):
    """A client that notes what it is told."""

    def __init__(self, request: HttpRequest) -> None:
        super().__init__(request)
        self.status = 0
        self.headers: Headers = []
        self.body = b""
        self.trailers: Headers = []
        self.is_broken_off = False

    async def begin(self, status: int, headers: Headers, reason: bytes = b"") -> None:
        self.status, self.headers = status, headers

    async def send(self, data: bytes) -> None:
        self.body += data

    async def finish(self, trailers: Headers | None = None) -> None:
        self.trailers = trailers or []

    async def break_off(self) -> None:
        self.is_broken_off = True


def carried_out(
    directory: Path, upstream: ScriptedUpstream, method: str = "GET", **words: Any
) -> tuple[Told, Done]:
    async def play() -> tuple[Told, Done]:
        async with doorway(directory, NETWORK, **words) as way:
            request = HttpRequest(method, "http", HOST, "/a", [], "1.1")
            origin = Origin("http", HOST, 80)
            proposal = await propose(request, origin)
            client = Told(request)
            execution = RequestExecution(way.door.context, client, origin, proposal, upstream)
            done = await execution(proposal.action)
            assert execution.is_answered
            assert upstream.actions == [proposal.action]
            return client, done

    return asyncio.run(play())


@for_each(
    ("error", "status"),
    [
        (MisplacedPlaceholder("KEY"), 403),
        (SecretInClearText("KEY", HOST), 403),
        (Revoked("KEY"), 403),
        (UpstreamUnreachable("TLS failed", 502), 502),
        (DialError("it is busy", DialFailure.BUSY), 503),
        (DialError("it did not answer", DialFailure.TIMED_OUT), 504),
        (StandInFailed("it broke"), 500),
        (ConnIdle("nothing came"), 504),
        (ConnLost("it was reset"), 502),
        (BadMessage(400, "bad chunks"), 502),
    ],
)
def test_a_failure_is_an_answer_and_a_record(tmp_path: Path, error: Exception, status: int) -> None:
    directory = tmp_path / type(error).__name__ / str(status)
    client, done = carried_out(directory, ScriptedUpstream(error))
    assert (client.status, done.outcome, done.record["status"]) == (status, Outcome.FAILED, status)
    assert done.error


def test_a_client_that_has_left_is_told_nothing(tmp_path: Path) -> None:
    client, done = carried_out(tmp_path, ScriptedUpstream(ClientDisconnected("it closed")))
    assert (client.status, done.outcome, done.record["left"]) == (0, Outcome.FAILED, True)


def test_an_answer_that_has_begun_is_broken_off(tmp_path: Path) -> None:
    class Breaking:
        length = None
        trailers: Headers = []  # noqa: RUF012

        def __init__(self) -> None:
            self.parts = [b"first"]

        async def read(self) -> bytes:
            if self.parts:
                return self.parts.pop()
            raise ConnLost("it was reset")

    answer = scripted(200)
    answer.body = Breaking()
    client, done = carried_out(tmp_path, ScriptedUpstream(answer))
    assert (client.status, client.body, client.is_broken_off) == (200, b"first", True)
    assert (done.outcome, done.record["body"]) == (Outcome.FAILED, "first")


def test_secrets_are_taken_out_of_what_is_compressed(tmp_path: Path) -> None:
    packed = gzip.compress(f"the value is {VALUE}.".encode())
    headers = [
        (b"Content-Encoding", b"gzip"),
        (b"Content-Length", b"%d" % len(packed)),
        (b"X-Key", VALUE.encode()),
        (b"Connection", b"x-hop"),
        (b"X-Hop", b"1"),
    ]
    upstream = ScriptedUpstream(scripted(200, packed[:9], packed[9:], headers=headers))
    client, done = carried_out(tmp_path, upstream, secrets=KEY)
    assert client.body.startswith(b"the value is paddock_KEY_")
    assert VALUE not in f"{client.headers} {done.record}"
    assert [name for name, _ in client.headers] == [b"X-Key"]
    assert done.record["body"].encode() == client.body


@for_each(("method", "status"), [("HEAD", 200), ("GET", 204), ("GET", 304)])
def test_an_answer_without_a_body_keeps_its_headers(
    tmp_path: Path, method: str, status: int
) -> None:
    headers = [(b"Content-Encoding", b"gzip"), (b"Content-Length", b"20")]
    upstream = ScriptedUpstream(scripted(status, headers=headers))
    directory = tmp_path / f"{method}{status}"
    client, done = carried_out(directory, upstream, method, secrets=KEY)
    assert (client.headers, client.body, done.outcome) == (headers, b"", Outcome.DONE)
