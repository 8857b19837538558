"""Runs in the pen: S3 requests answered by moto, with each change written to the store.

moto keeps its state in memory. The store is the truth: moto is rebuilt from it at the start, when
somebody else changed the store (a reset, a rewind), and when a change could not be written.
"""

from __future__ import annotations

import re
from urllib.parse import unquote

from paddock.world.context import Context
from paddock.world.kit import Api, ApiError, Call, Reply, RequestError, Route, TooLarge, parse_query
from paddock.world.service import ASGIApp
from paddock_services.storage.backend import Backend, S3Request
from paddock_services.storage.persistence import Persistence

_READS = ("GET", "OPTIONS")
_WRITES = ("PUT", "POST", "DELETE")
_AWS_HOST = re.compile(
    r"(?:(?P<bucket>.+)\.)?s3[.-](?:dualstack\.)?(?:[a-z0-9-]+\.)?amazonaws\.com(?:\.cn)?"
)
_ERROR = (
    '<?xml version="1.0" encoding="UTF-8"?>\n<Error><Code>{}</Code><Message>{}</Message></Error>'
)


def build(context: Context) -> ASGIApp:
    """Return the application that the pen serves."""
    return _StorageApi(context)


class _StorageApi(Api):
    max_body = 64 << 20

    def __init__(self, context: Context) -> None:
        routes = [Route(method, "/{path:path}", self._read) for method in _READS]
        routes += [Route(method, "/{path:path}", self._write) for method in _WRITES]
        super().__init__(context.store, routes)
        self._context = context
        self._backend = Backend(f"{context.seed}/{context.name}")
        self._persistence = Persistence(context, self._backend)
        self._persistence.restore()
        self._position = context.store.position()

    def refuse(self, call: Call, error: RequestError) -> Reply:
        """Return an error as S3 words it."""
        text = _ERROR.format("MethodNotAllowed", "The method is not allowed against this resource")
        if isinstance(error, TooLarge):
            text = _ERROR.format("EntityTooLarge", "Your upload exceeds the maximum allowed size")
        return Reply(text.encode(), 400, {"content-type": "application/xml"})

    def _read(self, call: Call) -> Reply:
        self._follow_store()
        self._backend.set_time(self._context.now())
        return self._backend.answer(_s3_request(call, self._context.host))

    def _write(self, call: Call) -> Reply:
        self._follow_store()
        request = _s3_request(call, self._context.host)
        time = self._context.tick()
        self._backend.set_time(time)
        reply = self._backend.answer(request)
        if reply.status >= 300:  # nothing changed, so no time passes either
            raise ApiError(reply.status, reply.body, reply.headers)
        try:
            self._persistence.write(request, time)
        except BaseException:
            self._position = -1  # what could not be written did not happen
            raise
        self._position = self._context.store.position()
        return reply

    def _follow_store(self) -> None:
        """Rebuild moto when the store is not as this process left it."""
        position = self._context.store.position()
        if position != self._position:
            self._persistence.restore()
            self._position = position


def _s3_request(call: Call, own_host: str) -> S3Request:
    """Return the request in path style, whichever way the bucket was named."""
    host = call.headers.get("host", "").split(":")[0].lower()
    bucket = _bucket_in(host, own_host.lower().removeprefix("*."))
    path = f"/{bucket}{call.path}" if bucket else call.path
    name, _, key = path.lstrip("/").partition("/")
    return S3Request(
        method=call.method,
        path=path,
        query=call.query_string,
        headers=[pair for pair in call.headers.items() if pair[0] not in ("host", "expect")],
        body=call.body,
        bucket=unquote(name),
        key=unquote(key),
        # What is asked for, without signatures.
        params={n: v for n, v in parse_query(call.query_string) if not n.lower().startswith("x-")},
    )


def _bucket_in(host: str, own_host: str) -> str:
    aws = _AWS_HOST.fullmatch(host)
    if aws is not None:
        return aws["bucket"] or ""
    return host.removesuffix(f".{own_host}") if host.endswith(f".{own_host}") else ""
