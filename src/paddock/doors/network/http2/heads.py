"""Heads of HTTP/2 messages: checked, read and written. What is refused here ends one stream; the
others of its connection go on.
"""

from __future__ import annotations

import re

from paddock.doors.network.exchange import BadMessage, Headers, HttpRequest

MAX_HEADERS = 200
_MAX_LENGTH_DIGITS = 15
_NAME = re.compile(rb"[!#$%&'*+\-.^_`|~0-9a-z]+").fullmatch
_VALUE = re.compile(rb"(?:[\x21-\x7e\x80-\xff](?:[\t\x20-\x7e\x80-\xff]*[\x21-\x7e\x80-\xff])?)?")
_is_value = _VALUE.fullmatch
_METHOD = re.compile(rb"[!#$%&'*+\-.^_`|~0-9A-Za-z]{1,64}").fullmatch
_AUTHORITY = re.compile(rb"[0-9A-Za-z\-._~%:\[\]]+").fullmatch
_TARGET = re.compile(rb"/[\x21\x22\x24-\x7e]*").fullmatch
_STATUS = re.compile(rb"[1-9][0-9]{2}").fullmatch

# They belong to one connection of HTTP/1; HTTP/2 has its own ways.
CONNECTION_HEADERS = frozenset(
    (b"connection", b"proxy-connection", b"keep-alive", b"transfer-encoding", b"upgrade")
)
_REQUEST_PARTS = frozenset((b":method", b":scheme", b":authority", b":path"))


def read_request(headers: Headers, scheme: str) -> HttpRequest:
    """The request that a block of headers announces. Raises BadMessage."""
    parts, fields = _split(headers)
    if parts.get(b":method") == b"CONNECT":
        raise BadMessage(501, "CONNECT over HTTP/2")
    if parts.keys() != _REQUEST_PARTS:
        raise BadMessage(400, "a request needs method, scheme, authority and path, and no more")
    method, authority, path = parts[b":method"], parts[b":authority"], parts[b":path"]
    if not _METHOD(method):
        raise BadMessage(400, "a method that is none")
    if parts[b":scheme"] != scheme.encode():
        raise BadMessage(400, f"a scheme other than {scheme}")
    if not _AUTHORITY(authority):
        raise BadMessage(400, "an authority that is not a host and a port")
    if not _TARGET(path) and not (path == b"*" and method == b"OPTIONS"):
        raise BadMessage(400, "a path that is none")
    hosts = [value for name, value in fields if name == b"host"]
    if any(host != authority for host in hosts) or len(hosts) > 1:
        raise BadMessage(400, "a host header that is not the authority")
    return HttpRequest(
        method=method.decode(),
        scheme=scheme,
        authority=authority.decode(),
        target=path.decode(),
        headers=[pair for pair in fields if pair[0] != b"host"],
        version="2",
        expects_continue=any(n == b"expect" and v.lower() == b"100-continue" for n, v in fields),
    )


def read_response(headers: Headers) -> tuple[int, Headers]:
    """Status and headers of an answer. Raises BadMessage."""
    parts, fields = _split(headers)
    status = parts.get(b":status", b"")
    if len(parts) != 1 or not _STATUS(status):
        raise BadMessage(502, "an answer without a status")
    return int(status), fields


def read_trailers(headers: Headers) -> Headers:
    parts, fields = _split(headers)
    if parts:
        raise BadMessage(400, "a pseudo header among trailers")
    return fields


def length_of(headers: Headers) -> int | None:
    """The announced length. Raises BadMessage."""
    lengths = [value for name, value in headers if name == b"content-length"]
    if not lengths:
        return None
    if len(lengths) > 1 or not lengths[0].isdigit() or len(lengths[0]) > _MAX_LENGTH_DIGITS:
        raise BadMessage(400, "a content-length that is none")
    return int(lengths[0])


def write_request(request: HttpRequest, headers: Headers) -> Headers:
    if request.authority is None:
        raise BadMessage(400, "a request without an authority")
    return [
        (b":method", request.method.encode()),
        (b":scheme", request.scheme.encode()),
        (b":authority", request.authority.encode()),
        (b":path", request.target.encode()),
        *(pair for pair in write_fields(headers) if pair[0] != b"host"),
    ]


def write_response(status: int, headers: Headers) -> Headers:
    return [(b":status", b"%d" % status), *write_fields(headers)]


def write_fields(headers: Headers) -> Headers:
    """As HTTP/2 wants them. Raises BadMessage for what would not arrive as it was meant."""
    fields = []
    for name, value in headers:
        name, value = name.lower(), value.strip(b" \t")
        if name in CONNECTION_HEADERS or (name == b"te" and value.lower() != b"trailers"):
            continue
        if not _NAME(name) or not _is_value(value):
            raise BadMessage(502, "a header with a character that no header has")
        fields.append((name, value))
    return fields


def _split(headers: Headers) -> tuple[dict[bytes, bytes], Headers]:
    """The pseudo headers, which come first and once, and the others."""
    if len(headers) > MAX_HEADERS:
        raise BadMessage(431, f"more than {MAX_HEADERS} headers")
    parts: dict[bytes, bytes] = {}
    fields: Headers = []
    for name, value in headers:
        if not _is_value(value):
            raise BadMessage(400, "a header's value with a character that no value has")
        if name.startswith(b":"):
            if fields or name in parts:
                raise BadMessage(400, "a pseudo header out of its place, or twice")
            parts[name] = value
        elif not _NAME(name):
            raise BadMessage(400, "a header's name with a character that no name has")
        elif name in CONNECTION_HEADERS or (name == b"te" and value.lower() != b"trailers"):
            raise BadMessage(400, "a header that belongs to a connection of HTTP/1")
        else:
            fields.append((name, value))
    return parts, fields
