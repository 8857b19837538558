"""A scripted model with a store of its own, and requests to it in the three formats."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from paddock.world.asgi import HttpAnswer, WorldRequest, call
from paddock.world.context import Context
from paddock.world.service import ASGIApp
from paddock.world.services.model import Model
from paddock.world.store import Store

Say = Callable[..., "Talk"]
USER = "Please refund order A-1."
CALL = {"name": "find", "arguments": {"id": 1}}


@dataclass
class Got:
    """An answer, read."""

    status: int
    headers: dict[str, str]
    body: bytes

    @property
    def json(self) -> Any:
        return json.loads(self.body)

    @property
    def error(self) -> Any:
        return self.json["error"]

    @property
    def text(self) -> str:
        """What the model said, whole or in a stream of chat completions."""
        assert self.status == 200, self.body
        return str(self.json["choices"][0]["message"]["content"])

    @property
    def calls(self) -> list[Any]:
        found = self.json["choices"][0]["message"].get("tool_calls", [])
        return [
            (one["function"]["name"], json.loads(one["function"]["arguments"])) for one in found
        ]

    def events(self) -> list[tuple[str | None, Any]]:
        """Names and data of a stream."""
        found = []
        for block in self.body.decode().removesuffix("\n\n").split("\n\n"):
            lines = dict(line.split(": ", 1) for line in block.split("\n"))
            data = lines["data"]
            found.append((lines.get("event"), data if data == "[DONE]" else json.loads(data)))
        return found


@dataclass
class Talk:
    """A model and its store."""

    model: Model
    app: ASGIApp
    history: list[Any] = field(default_factory=list)

    @property
    def store(self) -> Store:
        return self.model.context.store

    def post(self, path: str, body: Any, **headers: str) -> Got:
        if "/messages" in path:  # as Anthropic's clients do
            headers.setdefault("anthropic_version", "2023-06-01")
        data = body if isinstance(body, bytes) else json.dumps(body).encode()
        return self.send("POST", path, data, **headers)

    def send(self, method: str, path: str, data: bytes = b"", **headers: str) -> Got:
        named = [(n.replace("_", "-").encode(), v.encode()) for n, v in headers.items()]
        request = WorldRequest(method, path, headers=named, body=data)
        return asyncio.run(_sent(self.app, request))

    def chat(self, messages: Any, **more: Any) -> Got:
        said = [{"role": "user", "content": messages}] if isinstance(messages, str) else messages
        return self.post("/v1/chat/completions", {"model": "gpt-x", "messages": said, **more})

    def messages(self, messages: Any, **more: Any) -> Got:
        said = [{"role": "user", "content": messages}] if isinstance(messages, str) else messages
        body = {"model": "claude-x", "max_tokens": 9, "messages": said, **more}
        return self.post("/v1/messages", body)

    def responses(self, input: Any, **more: Any) -> Got:
        return self.post("/v1/responses", {"model": "gpt-x", "input": input, **more})


async def _sent(app: ASGIApp, request: WorldRequest) -> Got:
    answer: HttpAnswer = await call(app, request)
    body = answer.body
    if not isinstance(body, bytes):
        body = b"".join([part async for part in body])
    return Got(answer.status, {n.decode(): v.decode() for n, v in answer.headers}, body)


def talk(directory: Path, script: Mapping[str, Any] | str, name: str = "model.db") -> Talk:
    """A model of its own in a directory. A text is the script's file."""
    given: Any = script
    if isinstance(script, str):
        (directory / "script.yaml").write_text(script)
        given = "script.yaml"
    store = Store.open(directory / name)
    context = Context("model", "api.openai.com", 443, store, 7,
                      options={"script": given}, project=directory)  # fmt: skip
    model = Model(context)
    model.check()
    return Talk(model, model.app())


def user(text: str) -> dict[str, Any]:
    return {"role": "user", "content": text}


def said(got: Got) -> dict[str, Any]:
    """The answer as the next request repeats it, in chat completions."""
    message: dict[str, Any] = got.json["choices"][0]["message"]
    return message


def results(got: Got, *texts: str) -> list[dict[str, Any]]:
    """A result for each call of an answer."""
    ids = [one["id"] for one in said(got)["tool_calls"]]
    return [
        {"role": "tool", "tool_call_id": id, "content": text}
        for id, text in zip(ids, texts, strict=True)
    ]
