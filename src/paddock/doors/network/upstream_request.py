"""A request as the real server gets it: what was decided on, with the values of secrets in it."""

from __future__ import annotations

from collections.abc import Mapping
from itertools import chain
from typing import Any

import msgspec
from msgspec.structs import replace

from paddock.doors.network.bodies.capture import BodyCapture
from paddock.doors.network.bodies.stable_digests import stable_digest
from paddock.doors.network.exchange import (
    BadMessage,
    Body,
    BodyWrapper,
    BufferedBody,
    Headers,
    HttpRequest,
    NoBody,
    without,
)
from paddock.doors.network.http1.messages import end_to_end, known
from paddock.doors.network.origin import Origin
from paddock.doors.network.request import RequestProposal, edited_body
from paddock.doors.network.secrets.custody import Custody, PlaceholderWatch
from paddock.doors.network.secrets.injection import Injected
from paddock.doors.network.secrets.scrubber import ask_for_plain
from paddock.doors.network.transport.pool import ServerEndpoint
from paddock.model.action import Action, Kind

_RANGES = (b"range", b"if-range", b"x-ms-range")  # the last one is Azure's
_NOT_SENT = (b"host", b"expect", b"content-length", b"x-paddock")


class UpstreamRequest(msgspec.Struct):
    """One request, ready to be sent."""

    action: Action
    endpoint: ServerEndpoint
    request: HttpRequest
    headers: Headers
    used: tuple[str, ...]  # names of the secrets that were put in


def make_upstream_request(
    custody: Custody,
    origin: Origin,
    proposal: RequestProposal,
    action: Action,
    *,
    is_real: bool = True,
    is_plain: bool = False,
) -> UpstreamRequest:
    """Raises Revoked. An approver may have edited the arguments: what they say is what is sent. A
    stand-in gets placeholders as they are; with `is_plain` a server is asked not to compress."""
    client_request = proposal.request
    if action.arguments is not _decided(proposal, action):
        client_request, body, origin = _edited(proposal, action, origin)
    else:
        body = proposal.read
    headers = known(client_request.headers, _sendable)
    if client_request.upgrade:
        headers = without(headers, b"sec-websocket-extensions", b"upgrade", b"connection")
        headers += [(b"Connection", b"Upgrade"), (b"Upgrade", client_request.upgrade.encode())]
    injected = Injected(headers, client_request.target, body)
    if is_real:
        injected = custody.inject(headers, client_request.target, body, origin.host)
    headers = injected.headers
    if is_plain or action.kind is Kind.MODEL or custody.scrubber(origin.host) is not None:
        # By ranges a value could be had in parts, each of which is none.
        headers = without(ask_for_plain(headers), *_RANGES)
    is_h2 = client_request.version == "2"
    endpoint = ServerEndpoint(origin.scheme, origin.host, origin.port, is_h2)
    request = HttpRequest(
        method=client_request.method,
        scheme=origin.scheme,
        authority=origin.authority,
        target=injected.target,
        headers=headers,
        version=client_request.version,
        body=_body(custody, origin, proposal, injected.body),
        upgrade=client_request.upgrade,
    )
    return UpstreamRequest(action, endpoint, request, headers, injected.used)


def _sendable(headers: Headers) -> Headers:
    return without(end_to_end(headers), *_NOT_SENT)


class StreamedBody(BodyWrapper):
    """A body that was not read before the decision: counted, and watched for placeholders."""

    __slots__ = ("_kept", "_proposal", "_watch")

    def __init__(
        self, proposal: RequestProposal, kept: BodyCapture, watch: PlaceholderWatch | None
    ) -> None:
        super().__init__(proposal.body)
        self._proposal = proposal
        self._kept = kept
        self._watch = watch

    async def read(self) -> bytes:
        try:
            data = await self._body.read()
        except BadMessage as error:
            self._proposal.fault = error  # of the client's, whoever hears of it first
            raise
        self._kept.feed(data)
        self._kept.is_whole = not data
        if self._watch is not None and not await self._watch.is_clean(data or self._end()):
            raise MisplacedPlaceholder(str(self._watch.found))
        return data

    def _end(self) -> bytes:
        """The trailers, which are known now. Names lose their capital letters on the way."""
        fields = b"\n".join(chain.from_iterable(self._body.trailers))
        return b"\n%b\n%b" % (fields, fields.lower()) if fields else b""


class MisplacedPlaceholder(BadMessage):
    """A placeholder was found in a body that is on its way."""

    def __init__(self, name: str) -> None:
        super().__init__(403, f"the placeholder of {name} is not for this host")
        self.name = name


def _body(custody: Custody, origin: Origin, proposal: RequestProposal, read: bytes | None) -> Body:
    if read is not None:
        return BufferedBody([read]) if read else NoBody()
    proposal.sent = BodyCapture(stable=stable_digest(proposal.request.headers))
    return StreamedBody(proposal, proposal.sent, custody.watch(origin.host))


def _decided(proposal: RequestProposal, action: Action) -> Mapping[str, Any] | None:
    return proposal.model_arguments if action.kind is Kind.MODEL else proposal.action.arguments


def _edited(
    proposal: RequestProposal, action: Action, origin: Origin
) -> tuple[HttpRequest, bytes | None, Origin]:
    """Return the request that an approver wrote: see `request.rebuild_action`. Headers stay the
    client's."""
    arguments, client_request = action.arguments, proposal.request
    query = arguments.get("query")
    target = f"{arguments['path']}?{query}" if query else str(arguments["path"])
    changed = Origin(origin.scheme, str(arguments["host"]), int(arguments["port"]), origin.parent)
    request = replace(
        client_request,
        method=str(arguments["method"]),
        authority=None,
        target=target,
        body=NoBody(),
        expects_continue=False,
    )
    proposal.edited = edited_body(proposal, arguments)
    return request, proposal.edited, changed
