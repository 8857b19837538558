"""moto's S3, called without a server. Its time and its chance are the world's."""

from __future__ import annotations

import datetime
import importlib
import os
from collections.abc import Mapping
from typing import Any

import msgspec

ACCOUNT, PARTITION = "123456789012", "aws"
_URL = "https://s3.amazonaws.com"


class Call(msgspec.Struct, frozen=True):
    """A request in path style, and what it is about."""

    method: str
    path: str
    query: str = ""
    headers: list[tuple[str, str]] = []
    body: bytes = b""
    bucket: str = ""
    key: str = ""
    words: Mapping[str, str] = {}  # of the query


class Answer(msgspec.Struct, frozen=True):
    """What moto says."""

    status: int
    headers: list[tuple[str, str]]
    body: bytes


class Backend:
    """One per process: moto keeps its state in globals."""

    def __init__(self, seed: str) -> None:
        _set_environment()
        from moto.core.botocore_stubber import BotocoreStubber

        models: Any = importlib.import_module("moto.s3.models")
        models.utcnow = self._utcnow
        models.os = _Os(models.random)
        self.models = models
        self._stub = BotocoreStubber()
        self._seed = seed
        self._now = 0.0

    @property
    def state(self) -> Any:
        return self.models.s3_backends[ACCOUNT][PARTITION]

    def reset(self) -> None:
        self.models.s3_backends.reset()
        self.models.s3_backends.bucket_accounts.clear()

    def set_time(self, at: float) -> None:
        """Ids that are made now follow from the time, which no two changes share."""
        self._now = at
        self.models.random.seed(f"{self._seed}/{at}")

    def answer(self, call: Call) -> Answer:
        from botocore.awsrequest import AWSPreparedRequest  # type: ignore[import-untyped]
        from botocore.compat import HTTPHeaders  # type: ignore[import-untyped]

        headers = HTTPHeaders()
        for name, value in call.headers:
            headers[name] = value
        url = f"{_URL}{call.path}" + (f"?{call.query}" if call.query else "")
        request = AWSPreparedRequest(call.method, url, headers, call.body, False)
        answered = self._stub.process_request(request)
        if answered is None:
            return Answer(404, [], b"")
        status, said, body = answered
        raw = body.encode() if isinstance(body, str) else bytes(body or b"")
        return Answer(int(status), _headers(said, raw, call.method), raw)

    def time_of(self, at: float) -> datetime.datetime:
        return datetime.datetime.fromtimestamp(at, datetime.UTC).replace(tzinfo=None)

    def _utcnow(self) -> datetime.datetime:
        return self.time_of(self._now)


def _headers(said: Mapping[str, Any], body: bytes, method: str) -> list[tuple[str, str]]:
    found = [(str(name), str(value)) for name, value in said.items()]
    found = [(n, v) for n, v in found if n.lower() not in ("date", "server", "connection")]
    has_length = any(name.lower() == "content-length" for name, _ in found)
    if method != "HEAD":
        found = [(n, v) for n, v in found if n.lower() != "content-length"]
        found.append(("content-length", str(len(body))))
    elif not has_length:
        found.append(("content-length", "0"))
    return found


def _set_environment() -> None:
    # moto asks botocore, which would look for credentials of its own.
    os.environ.update(AWS_ACCESS_KEY_ID="none", AWS_SECRET_ACCESS_KEY="none",  # noqa: S106
                      AWS_EC2_METADATA_DISABLED="true", AWS_DEFAULT_REGION="us-east-1")  # fmt: skip


class _Os:
    """`os` for moto, but with its chance: upload ids are made of it."""

    def __init__(self, chance: Any) -> None:
        self._chance = chance

    def urandom(self, size: int) -> bytes:
        return bytes(self._chance.randbytes(size))

    def __getattr__(self, name: str) -> Any:
        return getattr(os, name)
