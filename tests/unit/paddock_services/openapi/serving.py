"""Starts the stand-in for a document and asks it, in process."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from paddock.world.asgi import WorldRequest, call
from paddock.world.context import Context
from paddock.world.service import ASGIApp
from paddock.world.store import Store
from paddock_services.openapi import OpenApi

DOCUMENTS = Path(__file__).parent / "documents"
AUTH = {"authorization": "Bearer token", "api_key": "key"}


@dataclass(frozen=True, slots=True)
class Reply:
    """An answer with its body read."""

    status: int
    headers: Mapping[str, str]
    raw: bytes

    @property
    def json(self) -> Any:
        return json.loads(self.raw)


class Served:
    """One service over one document."""

    def __init__(self, spec: Path, directory: Path, base: str = "", seed: int = 1) -> None:
        self.store = Store.open(directory / "store.sqlite")
        options = {"spec": str(spec)}
        context = Context("api", "api.example", 443, self.store, seed=seed, options=options)
        self.service = OpenApi(context)
        self.service.check()
        self.base = base
        self._app: ASGIApp | None = None

    def ask(
        self,
        method: str,
        path: str,
        body: Any = None,
        headers: Mapping[str, str] | None = None,
        auth: bool = True,
    ) -> Reply:
        """Sends JSON, or bytes as they are."""
        self._app = self._app or self.service.app()
        sent = {**(AUTH if auth else {})}
        raw = body if isinstance(body, bytes) else b""
        if body is not None and not isinstance(body, bytes):
            raw = json.dumps(body).encode()
            sent["content-type"] = "application/json"
        sent |= headers or {}
        target, _, query = path.partition("?")
        pairs = [(name.encode(), value.encode()) for name, value in sent.items()]
        request = WorldRequest(method, self.base + target, query, pairs, raw, host="api.example")
        answer = asyncio.run(call(self._app, request))
        assert isinstance(answer.body, bytes)
        received = {name.decode(): value.decode() for name, value in answer.headers}
        return Reply(answer.status, received, answer.body)
