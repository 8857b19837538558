"""Makes stand-ins for tests, calls them in process, and puts them behind a real socket."""

from __future__ import annotations

import asyncio
import contextlib
import json
import socket
import threading
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeVar
from urllib.parse import urlencode

import uvicorn

from paddock.world.asgi import WorldRequest, call
from paddock.world.context import Context
from paddock.world.service import ASGIApp, Service
from paddock.world.store import Store

Made = TypeVar("Made", bound=Service)
JSON = "application/json; charset=utf-8"
FORM = "application/x-www-form-urlencoded"
_OPEN: list[Store] = []


def made(cls: type[Made], directory: Path, host: str = "a.example", **options: Any) -> Made:
    """A stand-in with an empty store."""
    directory.mkdir(parents=True, exist_ok=True)
    store = Store.open(directory / "store.db")
    _OPEN.append(store)
    service = cls(Context(cls.name, host, 443, store, options=options))
    service.check()
    return service


def close_all() -> None:
    while _OPEN:
        _OPEN.pop().close()


@dataclass(frozen=True)
class Answer:
    status: int
    headers: dict[str, str]
    body: bytes

    @property
    def json(self) -> Any:
        return json.loads(self.body)


def ask(
    app: ASGIApp,
    method: str,
    target: str,
    body: bytes = b"",
    headers: Mapping[str, str] | None = None,
) -> Answer:
    """One request, in process."""
    path, _, query = target.partition("?")
    raw = [(name.encode(), value.encode()) for name, value in (headers or {}).items()]

    async def asked() -> Answer:
        answer = await call(app, WorldRequest(method, path, query, raw, body), timeout_s=20)
        whole = answer.body
        assert isinstance(whole, bytes)
        said = {name.decode().lower(): value.decode() for name, value in answer.headers}
        return Answer(answer.status, said, whole)

    return asyncio.run(asked())


def as_json(value: Any) -> bytes:
    return json.dumps(value).encode()


def as_form(value: Mapping[str, Any]) -> bytes:
    return urlencode(value, doseq=True).encode()


@contextlib.contextmanager
def served(app: ASGIApp) -> Iterator[str]:
    """The application behind a socket on loopback; gives its address."""
    listener = socket.create_server(("127.0.0.1", 0))
    config = uvicorn.Config(app, log_level="error", lifespan="off", ws="none")
    server = uvicorn.Server(config)
    thread = threading.Thread(target=server.run, args=([listener],), daemon=True)
    thread.start()
    try:
        yield f"http://127.0.0.1:{listener.getsockname()[1]}"
    finally:
        server.should_exit = True
        thread.join(20)
        listener.close()
