"""Actions as doors make them, and the rows that a journal would have of them."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any
from urllib.parse import urlencode

from paddock.doors.network.bodies.digests import stable_place
from paddock.doors.network.request import parse
from paddock.journal.canonical import canonical_text
from paddock.journal.plain_values import as_json
from paddock.model.action import Effect, Kind, Outcome, Verdict
from paddock.model.events import BlobRef, Decided, Proposed, Record, RefusedAgain, Settled
from paddock.model.steps import Step
from paddock.run.matching.recorded_step import ActionView, RecordedStep
from paddock.run.matching.view import view_of

JSON = "application/json"
FORM = "application/x-www-form-urlencoded"


@dataclass(frozen=True)
class Sent:
    """What a client does, before its door makes an action of it."""

    kind: Kind
    name: str
    arguments: Mapping[str, Any] = field(default_factory=dict)  # of all but requests
    address: Mapping[str, Any] = field(default_factory=dict)  # of a request
    headers: Mapping[str, str] = field(default_factory=dict)
    body: Any = None  # JSON, or pairs of a form
    raw: bytes | None = None
    keyed: Mapping[str, str] = field(default_factory=dict)

    def said(self) -> dict[str, Any]:
        """The arguments of the action."""
        if self.kind not in (Kind.HTTP, Kind.MODEL):
            return dict(self.arguments)
        said = {key: one for key, one in self.address.items() if one is not None}
        said["headers"] = dict(self.headers)
        content = self.headers.get("content-type", "")
        raw = self._bytes(content)
        if raw:
            said |= {"body_bytes": len(raw), "body_sha256": hashlib.sha256(raw).hexdigest()}
        parsed = parse("form" if content == FORM else "json", raw) if self.raw is None else None
        if parsed is not None and raw:
            said["body"] = parsed
        if self.kind is Kind.MODEL:
            digest = hashlib.sha256(json.dumps(parsed, sort_keys=True).encode()).hexdigest()
            said |= {"provider": "vendor", "model": self.name, "prompt_digest": digest}
        return said

    def _bytes(self, content: str) -> bytes:
        if self.raw is not None:
            return self.raw
        if self.body is None:
            return b""
        if content == FORM:
            return urlencode(self.body).encode()
        return json.dumps(self.body, ensure_ascii=False).encode()


def proposed(sent: Sent) -> ActionView:
    """As a replay sees it."""
    return view_of(sent.kind, sent.name, sent.said(), sent.keyed)


def recorded(
    sent: Sent,
    step: int = 1,
    *,
    proposed_n: int | None = None,
    settled_n: int | None = -1,
    is_contained: bool = False,
    is_refused_by_door: bool = False,
    is_whole: bool = True,
    repeats: int = 0,
    body: Mapping[str, Any] | None = None,
    **more: Any,
) -> RecordedStep:
    """Return the step as it is read back from a journal. Steps follow each other, unless told
    otherwise; `settled_n` None is a step that the journal does not settle, and `body` what is known
    of a body that streamed by."""
    arguments = json.loads(canonical_text(as_json(sent.said())))
    effect, result = Effect.WRITE, None if body is None else {"sent": dict(body)}
    proposed = Proposed(
        sent.kind, sent.name, arguments, effect, True, is_contained, keyed=dict(sent.keyed)
    )
    decided = Decided(Verdict.ALLOW, "default", "It may.", effect, by_door=is_refused_by_door)
    lost = BlobRef("/arguments", "0" * 64, 1, "json", is_kept=False)
    first = 10 * step if proposed_n is None else proposed_n
    records = [
        Record(first, 0, step, proposed, () if is_whole else (lost,)),
        Record(first, 0, step, decided),
    ]
    if repeats:
        records.append(Record(first, 0, step, RefusedAgain(repeats, 0, 0)))
    if settled_n is not None:
        last = 10 * step + 5 if settled_n < 0 else settled_n
        records.append(Record(last, 0, step, Settled(Outcome.DONE, result)))
    return RecordedStep(Step(step, records), arguments, **more)


def http(
    method: str = "GET",
    path: str = "/v1/items",
    *,
    host: str = "api.shop.example",
    query: str | None = None,
    headers: Mapping[str, str] | None = None,
    body: Any = None,
    raw: bytes | None = None,
    content: str = JSON,
    keyed: Mapping[str, str] | None = None,
) -> Sent:
    address = {"method": method, "scheme": "https", "host": host, "port": 443, "path": path}
    address["query"] = query
    said = {"host": host, "accept": "*/*", "user-agent": "client/1", **(headers or {})}
    if body is not None or raw is not None:
        said["content-type"] = content
    return Sent(Kind.HTTP, f"{method} {host}", {}, address, said, body, raw, keyed or {})


def model(path: str, host: str, body: Any, headers: Mapping[str, str]) -> Sent:
    address = {"method": "POST", "scheme": "https", "host": host, "port": 443, "path": path}
    said = {"content-type": JSON, "x-stainless-lang": "python", **headers}
    keyed = {f"headers.{name}": "5e" * 16 for name in headers if "***" in headers[name]}
    return Sent(Kind.MODEL, body["model"], {}, address, said, body, None, keyed)


TOOL = {
    "name": "refund",
    "description": "Gives money back",
    "input_schema": {"type": "object", "properties": {"amount": {"type": "integer"}}},
}

SAMPLES: dict[str, Sent] = {
    "get with a query": http(query="q=red+shoes&page=1&tag=a&tag=b&empty="),
    "json": http(
        "POST",
        "/v1/orders/17/items",
        headers={
            "authorization": "Bearer ***",
            "idempotency-key": "k-1",
            "x-tenant": "blue",
            "prefer": "return=minimal",
        },
        body={
            "amount": 1,
            "rate": 0.5,
            "note": "two of them",
            "is_gift": True,
            "coupon": None,
            "lines": [{"sku": "A", "count": 2}, {"sku": "B", "count": 1}],
            "address": {"city": "Zürich", "zip": "8001"},
        },
        keyed={"headers.authorization": "ab" * 16},
    ),
    "form": http(
        "POST",
        "/v1/charges",
        content=FORM,
        body=[("amount", "100"), ("currency", "usd"), ("tag", "x"), ("tag", "y")],
    ),
    "bytes": http("PUT", "/files/a.bin", raw=b"\x00\x01binary\xff", content="image/png"),
    "chat": model(
        "/v1/chat/completions",
        "api.openai.com",
        {
            "model": "gpt-4o",
            "temperature": 1,
            "max_tokens": 50,
            "stream": False,
            "messages": [
                {"role": "system", "content": "Be brief."},
                {"role": "user", "content": [
                    {"type": "text", "text": "What is this?"},
                    {"type": "image_url", "image_url": {"url": "data:image/png;base64,iVBORw0K"}},
                ]},
            ],
            "tools": [{"type": "function", "function": {"name": "f", "parameters": {}}}],
        },
        {"authorization": "Bearer ***", "openai-organization": "org-1"},
    ),
    "responses": model(
        "/v1/responses",
        "api.openai.com",
        {
            "model": "gpt-4.1",
            "instructions": "Be kind.",
            "input": [{"role": "user", "content": "hello"}],
            "reasoning": {"effort": "low"},
            "previous_response_id": "resp_1",
        },
        {"authorization": "Bearer ***"},
    ),
    "messages": model(
        "/v1/messages",
        "api.anthropic.com",
        {
            "model": "claude-sonnet-4-5",
            "max_tokens": 1024,
            "system": "You refund.",
            "messages": [
                {"role": "user", "content": "Refund 5"},
                {"role": "assistant", "content": [
                    {"type": "tool_use", "id": "tu_1", "name": "refund", "input": {"amount": 5}},
                ]},
                {"role": "user", "content": [
                    {"type": "tool_result", "tool_use_id": "tu_1", "content": "done"},
                ]},
            ],
            "tools": [TOOL],
        },
        {"x-api-key": "***", "anthropic-version": "2023-06-01", "anthropic-beta": "b-1"},
    ),
    "signed": http(
        "PUT",
        "/reports/a.bin",
        query="X-Amz-Credential=AKIA%2F20240102%2Feu%2Fs3%2Faws4_request&X-Amz-Expires=60"
        f"&X-Amz-Date=20240102T030405Z&X-Amz-Signature={'5e' * 32}&partNumber=1",
        headers={
            "authorization": "***",
            "amz-sdk-invocation-id": "8f14e45f-ceea-467f-9575-4e4ff2c7a8d1",
            "amz-sdk-request": "attempt=1; max=5",
            "grpc-timeout": "4998m",
            "x-amz-content-sha256": "ab" * 32,
        },
        raw=b"content",
        content="application/octet-stream",
        keyed={
            "headers.authorization": "cd" * 16,
            stable_place("headers.authorization"): "ef" * 16,
        },
    ),
    "tool": Sent(Kind.TOOL, "send_mail", {"to": ["a@x.example"], "subject": "Hi", "urgent": 2}),
    "exec": Sent(
        Kind.EXEC,
        "git",
        {
            "program": "/usr/bin/git",
            "argv": ["git", "commit", "-m", "one"],
            "cwd": "/work",
            "pid": 41,
            "real_path": "/usr/libexec/git",
        },
    ),
    "dns": Sent(
        Kind.DNS, "api.x.example", {"host": "api.x.example", "name": "api.x.example", "type": "A"}
    ),
    "connect": Sent(
        Kind.CONNECT,
        "db.x.example:5432",
        {"host": "db.x.example", "port": 5432, "transport": "tcp"},
    ),
}  # fmt: skip
