"""A forge for tests, asked in process or served on loopback."""

from __future__ import annotations

import asyncio
import contextlib
import json
import socket
import threading
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from paddock.world.asgi import WorldRequest, call
from paddock.world.context import Context
from paddock.world.store import Store
from paddock_services.forge import Forge

SEED: dict[str, Any] = {
    "repos": [
        {
            "full_name": "acme/site",
            "description": "The site",
            "files": {
                "README.md": "# Site\n",
                "src/app.py": "print(1)\n",
                "src/lib/a.py": "A = 1\n",
            },
            "issues": [
                {"title": "It is broken", "labels": ["bug"], "user": "ada", "comments": ["really"]},
                {"title": "Old one", "state": "closed"},
            ],
        },
        {"full_name": "acme/secret", "private": True, "files": {"key.txt": "hidden\n"}},
    ]
}


@dataclass(frozen=True, slots=True)
class Got:
    """An answer with its body read."""

    status: int
    headers: Mapping[str, str]
    raw: bytes

    @property
    def json(self) -> Any:
        return json.loads(self.raw)


class Asking:
    """One forge, and somebody who is logged in to it."""

    def __init__(self, directory: Path, seed: Mapping[str, Any] = SEED, **options: Any) -> None:
        self.store = Store.open(directory / "forge.sqlite")
        context = Context("forge", "api.github.com", 443, self.store, seed=1, options=options)
        self.forge = Forge(context)
        self.forge.check()
        self.forge.seed(dict(seed))
        self.store.seal()
        self.app = self.forge.app()

    def ask(
        self,
        method: str,
        path: str,
        body: Any = None,
        headers: Mapping[str, str] | None = None,
        auth: str | None = "token secret",
    ) -> Got:
        raw = (
            body if isinstance(body, bytes) else b"" if body is None else json.dumps(body).encode()
        )
        sent = {"host": "api.github.com", **(headers or {})}
        if auth is not None:
            sent["authorization"] = auth
        target, _, query = path.partition("?")
        pairs = [(name.encode(), value.encode()) for name, value in sent.items()]
        answer = asyncio.run(call(self.app, WorldRequest(method, target, query, pairs, raw)))
        assert isinstance(answer.body, bytes)
        received = {name.decode(): value.decode() for name, value in answer.headers}
        return Got(answer.status, received, answer.body)


@contextlib.contextmanager
def served(app: Any) -> Iterator[str]:
    """The application on a port of loopback."""
    import uvicorn

    listener = socket.create_server(("127.0.0.1", 0))
    config = uvicorn.Config(app, log_level="error", lifespan="off", ws="none", http="h11")
    server = uvicorn.Server(config)
    thread = threading.Thread(target=lambda: asyncio.run(server.serve([listener])), daemon=True)
    thread.start()
    try:
        yield f"http://127.0.0.1:{listener.getsockname()[1]}"
    finally:
        server.should_exit = True
        thread.join(10)
        listener.close()
