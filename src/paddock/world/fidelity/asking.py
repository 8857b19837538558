"""Asks a fresh stand-in what was asked of the real host, in the same order, and compares."""

from __future__ import annotations

import asyncio
import contextlib
import http.client
from collections import defaultdict
from collections.abc import AsyncIterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import msgspec
from msgspec.structs import replace

from paddock.model.errors import InvalidInput
from paddock.world.asgi import TIMEOUT_S, HttpAnswer, WorldRequest, call
from paddock.world.context import Context
from paddock.world.fidelity.compare import Comparison, Difference, Said, What, compare
from paddock.world.fidelity.exchanges import Exchange, value_of
from paddock.world.fidelity.names import Names
from paddock.world.fidelity.report import Endpoint, Fidelity
from paddock.world.fidelity.shape import Shape
from paddock.world.overlay.bodies import MAX_JSON
from paddock.world.registry import load_service
from paddock.world.service import ASGIApp, LocalService, Service, StandInFailed
from paddock.world.store import Store

# Of the connection, and what an archive has of credentials is blotted out.
_NOT_SENT = frozenset({b"host", b"content-length", b"transfer-encoding", b"connection", b"te",
                       b"accept-encoding", b"upgrade", b"cookie", b"expect"})  # fmt: skip
_ANYBODY = (b"authorization", b"Bearer sk_test_paddock")
_WITHOUT = (401, 403)


class Subject(msgspec.Struct, frozen=True):
    """The stand-in that is looked at."""

    service: str
    options: Mapping[str, Any] = {}
    seed: str | None = None  # a file
    headers: tuple[tuple[bytes, bytes], ...] = ()  # in place of those of the record


async def check(
    subject: Subject, exchanges: Sequence[Exchange], against: str, directory: Path
) -> Fidelity:
    """The directory is for the stand-in's own files. Raises InvalidInput."""
    if not exchanges:
        raise InvalidInput("there is nothing to compare with")
    usual = _usual(exchanges)
    compared: dict[str, list[Comparison]] = defaultdict(list)
    async with _standing(subject, exchanges[0].host, directory) as ask:
        names = Names()
        for one in exchanges:
            found = await _compared(one, ask, names, usual[_kind(one)], subject)
            compared[one.endpoint].append(found)
    endpoints = tuple(Endpoint.of(name, found) for name, found in compared.items())
    return Fidelity(subject.service, against, endpoints)


class _Asked:
    """A stand-in, in process or as a process of its own."""

    def __init__(self, service: Service) -> None:
        self._service = service
        self._app: ASGIApp | None = None
        if isinstance(service, LocalService):
            if not service.is_http:
                raise InvalidInput(f"{service.name} does not speak HTTP")
        else:
            self._app = service.app()

    async def __call__(self, request: WorldRequest) -> HttpAnswer:
        if self._app is not None:
            return await _whole(await call(self._app, request))
        assert isinstance(self._service, LocalService)
        connected = await self._service.connect()
        return await asyncio.to_thread(_over_socket, connected, request)


@contextlib.asynccontextmanager
async def _standing(subject: Subject, host: str, directory: Path) -> AsyncIterator[_Asked]:
    if subject.service == "draft":
        raise InvalidInput("a draft reads from the real host: there is nothing to compare")
    kind = load_service(subject.service)
    with Store.open(directory / "store.sqlite") as store:
        context = Context(subject.service, host, 443, store, options=subject.options,
                          directory=directory)  # fmt: skip
        service = kind(context)
        service.check()
        if subject.seed is not None:
            from paddock.world.seeds import load_seed

            service.seed(load_seed(subject.seed, context, context.project))
        store.seal()
        try:
            yield _Asked(service)
        finally:
            await service.close()


async def _compared(
    one: Exchange, ask: _Asked, names: Names, usual: Shape, subject: Subject
) -> Comparison:
    try:
        given = await ask(_request(names.renamed(one), subject))
    except (StandInFailed, OSError, http.client.HTTPException) as error:
        failed = Comparison({"status": 0.0})
        failed.differences.append(Difference(What.STATUS, f"the stand-in failed: {error}"))
        return failed
    body = given.body if isinstance(given.body, bytes) else b""
    real = Said(one.status, one.answer_headers, value_of(one.answer_headers, one.answer))
    said = Said(given.status, given.headers, value_of(given.headers, body))
    if real.status // 100 == said.status // 100:
        names.learn(one.path, real.value, said.value)
    return compare(real, said, usual, names)


def _request(one: Exchange, subject: Subject) -> WorldRequest:
    named = {name for name, _ in subject.headers}
    kept = [(n, v) for n, v in one.headers if n not in _NOT_SENT and n not in named]
    kept += subject.headers
    if one.status not in _WITHOUT and not any(n == _ANYBODY[0] for n, _ in kept):
        kept.append(_ANYBODY)
    return WorldRequest(one.method, one.path, one.query, kept, one.body, host=one.host)


def _usual(exchanges: Sequence[Exchange]) -> dict[tuple[str, int], Shape]:
    """The shape of each kind of answer, from all of them."""
    values: dict[tuple[str, int], list[Any]] = defaultdict(list)
    for one in exchanges:
        found = value_of(one.answer_headers, one.answer)
        values[_kind(one)] += [] if found is None else [found]
    return {kind: Shape.of(found) for kind, found in values.items()}


def _kind(one: Exchange) -> tuple[str, int]:
    return one.endpoint, one.status // 100


async def _whole(given: HttpAnswer) -> HttpAnswer:
    if isinstance(given.body, bytes):
        return given
    data = bytearray()
    async for part in given.body:
        data += part
        if len(data) > MAX_JSON:
            break
    return replace(given, body=bytes(data[: MAX_JSON + 1]))


def _over_socket(connected: Any, request: WorldRequest) -> HttpAnswer:
    connected.settimeout(TIMEOUT_S)
    connection = http.client.HTTPConnection(request.host, timeout=TIMEOUT_S)
    connection.sock = connected
    with contextlib.closing(connection):
        target = request.path + (f"?{request.query}" if request.query else "")
        headers = {n.decode("latin-1"): v.decode("latin-1") for n, v in request.headers}
        body = request.body if isinstance(request.body, bytes) else b""
        connection.request(request.method, target, body=body or None, headers=headers)
        answer = connection.getresponse()
        pairs = [(n.lower().encode("latin-1"), v.encode("latin-1")) for n, v in answer.getheaders()]
        return HttpAnswer(answer.status, pairs, answer.read(MAX_JSON + 1))
