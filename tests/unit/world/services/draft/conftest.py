"""A real host in memory, and an agent that reaches it through a draft as the door does it."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any
from urllib.parse import parse_qsl

import pytest

from paddock.world.asgi import Headers, HttpAnswer, WorldRequest
from paddock.world.context import Context
from paddock.world.services.draft import DraftService
from paddock.world.store import Store


def ticket(number: int, **more: Any) -> dict[str, Any]:
    return {
        "id": number,
        "subject": f"subject {number}",
        "status": "open" if number % 2 else "closed",
        "tags": ["a"],
        "created_at": f"2026-01-{number:02d}T08:00:00Z",
        "updated_at": f"2026-01-{number:02d}T09:00:00Z",
        **more,
    }


@dataclass
class Host:
    """The real one. It only knows how to be read: a write is an error of the test's subject."""

    records: dict[str, list[dict[str, Any]]] = field(default_factory=dict)  # by path of collection
    envelope: Callable[[list[Any], dict[str, str]], Any] = lambda items, _: items
    wrap: Callable[[dict[str, Any]], Any] = lambda record: record
    key: str = "id"
    headers: dict[str, str] = field(default_factory=dict)
    seen: list[WorldRequest] = field(default_factory=list)

    def answer(self, request: WorldRequest) -> tuple[int, Headers, bytes]:
        assert request.method in ("GET", "HEAD", "POST"), "a write reached the real host"
        self.seen.append(request)
        path = request.path.removesuffix(".json")
        asked = dict(parse_qsl(request.query))
        if path in self.records:
            found = self.records[path]
            for name, value in asked.items():
                if found and name in found[0]:
                    found = [one for one in found if str(one[name]) == value]
            return self._said(200, self.envelope(found, asked))
        collection, _, key = path.rpartition("/")
        for one in self.records.get(collection, []):
            if str(one[self.key]) == key:
                return self._said(200, self.wrap(one))
        return self._said(404, {"message": "no such thing here"})

    def _said(self, status: int, value: Any) -> tuple[int, Headers, bytes]:
        headers = {"content-type": "application/json", "etag": '"real"', **self.headers}
        pairs = [(name.encode(), text.encode()) for name, text in headers.items()]
        return status, pairs, json.dumps(value).encode()


@dataclass(frozen=True)
class Reply:
    status: int
    headers: dict[str, str]
    raw: bytes

    @property
    def json(self) -> Any:
        return json.loads(self.raw)

    @property
    def mark(self) -> str:
        return self.headers.get("x-paddock-shadow", "")


@dataclass
class Agent:
    draft: DraftService
    host: Host

    def ask(self, method: str, target: str, body: Any = None, **headers: str) -> Reply:
        path, _, query = target.partition("?")
        raw = (
            body if isinstance(body, bytes) else b"" if body is None else json.dumps(body).encode()
        )
        said = {"content_type": "application/json", **headers} if raw else headers
        pairs = [(n.replace("_", "-").encode(), v.encode()) for n, v in said.items()]
        request = WorldRequest(method, path, query, pairs, raw, host="tickets.example")
        return self.send(request)

    def send(self, request: WorldRequest) -> Reply:
        if self.draft.is_write(request):
            return _reply(self.draft.written(request))
        if not self.draft.needs_upstream(request):
            return _reply(self.draft.answered(request))
        sent = self.draft.upstream(request)
        return _reply(HttpAnswer(*self.draft.read(request, *self.host.answer(sent))))

    def get(self, target: str, **headers: str) -> Reply:
        return self.ask("GET", target, **headers)


def _reply(said: HttpAnswer) -> Reply:
    assert isinstance(said.body, bytes)
    headers = {name.decode(): value.decode() for name, value in said.headers}
    if "content-length" in headers and said.body:
        assert int(headers["content-length"]) == len(said.body)
    return Reply(said.status, headers, said.body)


@pytest.fixture
def draft(tmp_path: Path) -> Iterator[Callable[..., DraftService]]:
    stores = []

    def make(**options: Any) -> DraftService:
        stores.append(Store.open(tmp_path / f"{len(stores)}.sqlite"))
        context = Context("draft", "tickets.example", 443, stores[-1], 7, project=tmp_path,
                          options={"upstream": "live", **options})  # fmt: skip
        made = DraftService(context)
        made.check()
        return made

    yield make
    for store in stores:
        store.close()


@pytest.fixture
def host() -> Host:
    return Host({"/tickets": [ticket(number) for number in range(1, 6)], "/tickets/1/comments": []})


@pytest.fixture
def agent(draft: Callable[..., DraftService], host: Host) -> Agent:
    return Agent(draft(), host)
