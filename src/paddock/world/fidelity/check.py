"""Recorded requests sent to a fresh stand-in, in the same order, and the answers compared."""

from __future__ import annotations

import asyncio
import contextlib
import http.client
import socket
from collections import defaultdict
from collections.abc import AsyncIterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import msgspec
from msgspec.structs import replace

from paddock.model.errors import InvalidInput
from paddock.world.asgi import TIMEOUT_S, HttpAnswer, WorldRequest, call
from paddock.world.context import Context
from paddock.world.fidelity.answer_shape import AnswerShape
from paddock.world.fidelity.compare import (
    AnswerComparison,
    AnswerDifference,
    ComparedAnswer,
    DifferenceKind,
    compare,
)
from paddock.world.fidelity.exchanges import Exchange, json_value
from paddock.world.fidelity.id_map import IdMap
from paddock.world.fidelity.report import EndpointScore, Fidelity
from paddock.world.overlay.bodies import MAX_JSON
from paddock.world.registry import load_service
from paddock.world.service import ASGIApp, LocalService, Service, StandInFailed
from paddock.world.store import Store

# Headers of the connection, and cookies, which an archive has masked.
_NOT_SENT = frozenset({b"host", b"content-length", b"transfer-encoding", b"connection", b"te",
                       b"accept-encoding", b"upgrade", b"cookie", b"expect"})  # fmt: skip
_AUTHORIZATION = (b"authorization", b"Bearer sk_test_paddock")
_UNAUTHORIZED = (401, 403)


class CheckedStandIn(msgspec.Struct, frozen=True):
    """The stand-in to check."""

    service: str
    options: Mapping[str, Any] = {}
    seed: str | None = None  # a file
    headers: tuple[tuple[bytes, bytes], ...] = ()  # replace the recorded ones


async def check(
    subject: CheckedStandIn, exchanges: Sequence[Exchange], against: str, directory: Path
) -> Fidelity:
    """Check a stand-in; the directory is for its files. Raises InvalidInput."""
    if not exchanges:
        raise InvalidInput("there is nothing to compare with")
    shapes = _usual_shapes(exchanges)
    compared: dict[str, list[AnswerComparison]] = defaultdict(list)
    async with _started(subject, exchanges[0].host, directory) as stand_in:
        ids = IdMap()
        for exchange in exchanges:
            usual = shapes[_answer_class(exchange)]
            comparison = await _compare(exchange, stand_in, ids, usual, subject)
            compared[exchange.endpoint].append(comparison)
    endpoints = tuple(EndpointScore.of(name, results) for name, results in compared.items())
    return Fidelity(subject.service, against, endpoints)


class _RunningStandIn:
    """A stand-in in this process or in a process of its own."""

    def __init__(self, service: Service) -> None:
        self._service = service
        self._app: ASGIApp | None = None
        if isinstance(service, LocalService):
            if not service.is_http:
                raise InvalidInput(f"{service.name} does not speak HTTP")
        else:
            self._app = service.app()

    async def request(self, request: WorldRequest) -> HttpAnswer:
        if self._app is not None:
            return await _with_whole_body(await call(self._app, request))
        assert isinstance(self._service, LocalService)
        connection = await self._service.connect()
        return await asyncio.to_thread(_request_over_socket, connection, request)


@contextlib.asynccontextmanager
async def _started(
    subject: CheckedStandIn, host: str, directory: Path
) -> AsyncIterator[_RunningStandIn]:
    if subject.service == "draft":
        raise InvalidInput("a draft reads from the real host: there is nothing to compare")
    service_class = load_service(subject.service)
    with Store.open(directory / "store.sqlite") as store:
        context = Context(
            subject.service, host, 443, store, options=subject.options, directory=directory
        )
        service = service_class(context)
        service.check()
        if subject.seed is not None:
            from paddock.world.seeds import load_seed

            service.seed(load_seed(subject.seed, context, context.project))
        store.seal()
        try:
            yield _RunningStandIn(service)
        finally:
            await service.close()


async def _compare(
    exchange: Exchange,
    stand_in: _RunningStandIn,
    ids: IdMap,
    usual: AnswerShape,
    subject: CheckedStandIn,
) -> AnswerComparison:
    try:
        answer = await stand_in.request(_request(ids.translate(exchange), subject))
    except (StandInFailed, OSError, http.client.HTTPException) as error:
        failed = AnswerComparison({"status": 0.0})
        failed.differences.append(
            AnswerDifference(DifferenceKind.STATUS, f"the stand-in failed: {error}")
        )
        return failed
    body = answer.body if isinstance(answer.body, bytes) else b""
    value = json_value(exchange.answer_headers, exchange.answer)
    real = ComparedAnswer(exchange.status, exchange.answer_headers, value)
    given = ComparedAnswer(answer.status, answer.headers, json_value(answer.headers, body))
    if real.status // 100 == given.status // 100:
        ids.learn(exchange.path, real.value, given.value)
    return compare(real, given, usual, ids)


def _request(exchange: Exchange, subject: CheckedStandIn) -> WorldRequest:
    left_out = _NOT_SENT | {name for name, _ in subject.headers}
    headers = [(name, value) for name, value in exchange.headers if name not in left_out]
    headers += subject.headers
    is_authorized = any(name == _AUTHORIZATION[0] for name, _ in headers)
    if exchange.status not in _UNAUTHORIZED and not is_authorized:
        headers.append(_AUTHORIZATION)
    return WorldRequest(
        exchange.method, exchange.path, exchange.query, headers, exchange.body, host=exchange.host
    )


def _usual_shapes(exchanges: Sequence[Exchange]) -> dict[tuple[str, int], AnswerShape]:
    """Return the shape of the answers of each endpoint and class of status."""
    values: dict[tuple[str, int], list[Any]] = defaultdict(list)
    for exchange in exchanges:
        of_class = values[_answer_class(exchange)]
        value = json_value(exchange.answer_headers, exchange.answer)
        if value is not None:
            of_class.append(value)
    return {key: AnswerShape.of(of_class) for key, of_class in values.items()}


def _answer_class(exchange: Exchange) -> tuple[str, int]:
    return exchange.endpoint, exchange.status // 100


async def _with_whole_body(answer: HttpAnswer) -> HttpAnswer:
    if isinstance(answer.body, bytes):
        return answer
    data = bytearray()
    async for part in answer.body:
        data += part
        if len(data) > MAX_JSON:
            break
    return replace(answer, body=bytes(data[: MAX_JSON + 1]))


def _request_over_socket(sock: socket.socket, request: WorldRequest) -> HttpAnswer:
    sock.settimeout(TIMEOUT_S)
    connection = http.client.HTTPConnection(request.host, timeout=TIMEOUT_S)
    connection.sock = sock
    with contextlib.closing(connection):
        target = request.path + (f"?{request.query}" if request.query else "")
        headers = {n.decode("latin-1"): v.decode("latin-1") for n, v in request.headers}
        body = request.body if isinstance(request.body, bytes) else b""
        connection.request(request.method, target, body=body or None, headers=headers)
        answer = connection.getresponse()
        pairs = [(n.lower().encode("latin-1"), v.encode("latin-1")) for n, v in answer.getheaders()]
        return HttpAnswer(answer.status, pairs, answer.read(MAX_JSON + 1))
