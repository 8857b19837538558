"""A request that a person describes, as the actions that the network door would make of it. The
door's own parser and reader do that, so that what is said about the sample holds for the real one.
Nothing is sent.
"""

from __future__ import annotations

import asyncio
import json
from urllib.parse import urlsplit

import msgspec

from paddock.doors.network.decision import refusal_by_door
from paddock.doors.network.exchange import BadMessage, BufferedBody, Headers, NoBody
from paddock.doors.network.http1.messages import LastHead, head_bytes
from paddock.doors.network.http1.server import Forms, parse_head
from paddock.doors.network.model_actions import as_model_action
from paddock.doors.network.origin import Origin
from paddock.doors.network.request import BodyTerms, Endpoints, head_action, propose
from paddock.model.action import Action
from paddock.model.errors import InvalidInput
from paddock.model.hosts import canonical_host

_FRAMING = frozenset({"content-length", "transfer-encoding", "expect"})


class SampleRequest(msgspec.Struct, frozen=True):
    """A method, an absolute URL, headers and a body, as one would tell them to curl."""

    method: str
    url: str
    headers: tuple[tuple[str, str], ...] = ()
    body: bytes = b""


class SampleActions(msgspec.Struct, frozen=True):
    """The actions that the door proposes for a sample: the request, and a model call if it is one.
    `refusal` says who refuses it before any rule is asked, and why."""

    request: Action
    model: Action | None = None
    refusal: tuple[str, str] | None = None


def actions_of(sample: SampleRequest, graphql: Endpoints = ()) -> SampleActions:
    """Return the actions of a sample. Raises InvalidInput for what is no request."""
    origin = _origin(sample.url)
    try:
        return asyncio.run(_proposed(sample, origin, graphql))
    except BadMessage as error:
        raise InvalidInput(f"the network door would not read that request: {error}") from None


async def _proposed(sample: SampleRequest, origin: Origin, graphql: Endpoints) -> SampleActions:
    head = parse_head(_head(sample, origin), Forms(origin.scheme), LastHead())
    request = head.request
    request.body = BufferedBody([sample.body]) if sample.body else NoBody()
    refusal = refusal_by_door(request, origin)
    if refusal is not None:
        return SampleActions(head_action(request, origin), refusal=refusal)
    proposal = await propose(request, origin, terms=BodyTerms(graphql=graphql))
    model = as_model_action(proposal, origin)
    return SampleActions(proposal.action, model)


def _origin(url: str) -> Origin:
    try:
        parts = urlsplit(url)
        host, port = parts.hostname, parts.port
    except ValueError as error:
        raise InvalidInput(f"{url[:200]!r} is not a URL: {error}") from None
    if not host or parts.scheme not in ("http", "https"):
        raise InvalidInput(f"{url[:200]!r} is not a URL such as https://example.com/path")
    if parts.username is not None:
        raise InvalidInput("the URL has a name or a password", hint="give it as a header")
    default_port = 80 if parts.scheme == "http" else 443
    return Origin(parts.scheme, canonical_host(host), default_port if port is None else port)


def _head(sample: SampleRequest, origin: Origin) -> bytes:
    """The head as a client would send it. Raises InvalidInput or BadMessage."""
    parts = urlsplit(sample.url)
    path = parts.path or "/"
    target = f"{path}?{parts.query}" if parts.query else path
    names = {name.lower() for name, _ in sample.headers}
    if framing := sorted(names & _FRAMING):
        raise InvalidInput(f"the header {framing[0]} follows from the body; leave it out")
    headers = [] if "host" in names else [("host", origin.authority)]
    headers += sample.headers
    if sample.body:
        if "content-type" not in names:
            headers.append(("content-type", _content_type(sample.body)))
        headers.append(("content-length", str(len(sample.body))))
    try:
        encoded: Headers = [(n.encode("latin-1"), v.encode("latin-1")) for n, v in headers]
        line = f"{sample.method} {target} HTTP/1.1".encode("ascii")
    except UnicodeEncodeError:
        hint = "write other characters of a URL as %XX"
        raise InvalidInput("a request has plain ASCII in its URL and headers", hint=hint) from None
    return head_bytes(line, encoded)


def _content_type(body: bytes) -> str:
    """JSON is sent as JSON, all else as a form."""
    try:
        json.loads(body)
    except (ValueError, RecursionError):
        return "application/x-www-form-urlencoded"
    return "application/json"
