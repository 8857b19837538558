"""moto's S3, called without a server. Its time and its randomness are the world's."""

from __future__ import annotations

import datetime
import importlib
import os
from collections.abc import Mapping
from typing import Any

import msgspec

from paddock.world.kit import Reply

ACCOUNT, PARTITION = "123456789012", "aws"
_URL = "https://s3.amazonaws.com"
_NOT_PASSED_ON = ("date", "server", "connection", "content-length")


class S3Request(msgspec.Struct, frozen=True):
    """A request in path style, and what it is about."""

    method: str
    path: str
    query: str = ""
    headers: list[tuple[str, str]] = []
    body: bytes = b""
    bucket: str = ""
    key: str = ""
    params: Mapping[str, str] = {}  # of the query


class Backend:
    """moto in this process. There can be one: moto keeps its state in globals."""

    def __init__(self, seed: str) -> None:
        # moto asks botocore, which would look for credentials of its own.
        os.environ.update(
            AWS_ACCESS_KEY_ID="none",
            AWS_SECRET_ACCESS_KEY="none",  # noqa: S106
            AWS_EC2_METADATA_DISABLED="true",
            AWS_DEFAULT_REGION="us-east-1",
        )
        from moto.core.botocore_stubber import BotocoreStubber

        models: Any = importlib.import_module("moto.s3.models")
        models.utcnow = self._utcnow
        models.os = _SeededOs(models.random)
        self.models = models
        self._stub = BotocoreStubber()
        self._seed = seed
        self._now = 0.0

    @property
    def state(self) -> Any:
        """Return moto's buckets and what belongs to them."""
        return self.models.s3_backends[ACCOUNT][PARTITION]

    def reset(self) -> None:
        """Forget everything."""
        self.models.s3_backends.reset()
        self.models.s3_backends.bucket_accounts.clear()

    def set_time(self, time: float) -> None:
        """Set the clock. Ids that are made now follow from the time, which no two changes share."""
        self._now = time
        self.models.random.seed(f"{self._seed}/{time}")

    def answer(self, request: S3Request) -> Reply:
        """Return moto's answer."""
        from botocore.awsrequest import AWSPreparedRequest  # type: ignore[import-untyped]
        from botocore.compat import HTTPHeaders  # type: ignore[import-untyped]

        headers = HTTPHeaders()
        for name, value in request.headers:
            headers[name] = value
        url = f"{_URL}{request.path}" + (f"?{request.query}" if request.query else "")
        prepared = AWSPreparedRequest(request.method, url, headers, request.body, False)
        answer = self._stub.process_request(prepared)
        if answer is None:
            return Reply(b"", 404)
        status, answer_headers, body = answer
        data = body.encode() if isinstance(body, str) else bytes(body or b"")
        return Reply(data, int(status), _headers(answer_headers, request.method))

    def datetime_of(self, time: float) -> datetime.datetime:
        """Return a time as moto keeps it: in UTC, without saying so."""
        return datetime.datetime.fromtimestamp(time, datetime.UTC).replace(tzinfo=None)

    def _utcnow(self) -> datetime.datetime:
        return self.datetime_of(self._now)


def _headers(headers: Mapping[str, Any], method: str) -> dict[str, str]:
    """Return the headers to pass on. The answer to HEAD has the length of the object."""
    named = {str(name).lower(): str(value) for name, value in headers.items()}
    kept = {name: value for name, value in named.items() if name not in _NOT_PASSED_ON}
    if method == "HEAD":
        kept["content-length"] = named.get("content-length", "0")
    return kept


class _SeededOs:
    """The module `os` for moto, with seeded randomness: upload ids are made of it."""

    def __init__(self, randomness: Any) -> None:
        self._randomness = randomness

    def urandom(self, size: int) -> bytes:
        return bytes(self._randomness.randbytes(size))

    def __getattr__(self, name: str) -> Any:
        return getattr(os, name)
