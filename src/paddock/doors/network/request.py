"""A request as an action: the fields that rules see, that the journal keeps, and its effect.

The body is read before the decision only where rules can read it: JSON and forms within a bound.
Anything else is decided on by its head, with its size and digest if it is short, and streamed
afterwards.
"""

from __future__ import annotations

import asyncio
import json
import re
import time
import weakref
from collections.abc import Callable, Mapping
from functools import lru_cache
from typing import Any
from urllib.parse import parse_qsl, urlencode

import msgspec
from msgspec.structs import replace

from paddock.doors.network.bodies import memory as held_bodies
from paddock.doors.network.bodies.capture import BodyCapture, Claim
from paddock.doors.network.bodies.digests import measure, spelling_hash, stable_place
from paddock.doors.network.bodies.memory import BodyRefused, BodyReservation
from paddock.doors.network.bodies.stable_digests import STABLE, stable_digest
from paddock.doors.network.exchange import (
    BadMessage,
    Body,
    BufferedBody,
    Headers,
    HttpRequest,
    NoBody,
    values_of,
)
from paddock.doors.network.heavy_work import LIGHT_BYTES, HeavyWork
from paddock.doors.network.http1.messages import known
from paddock.doors.network.origin import Origin
from paddock.doors.network.secrets.signatures import stable_credential
from paddock.journal.secrets.search import is_oddly_escaped
from paddock.journal.secrets.value_hmac import ValueHmac
from paddock.llm.formats import Wire, is_model_path
from paddock.llm.json_text import Unreadable, load
from paddock.model.action import Action, Effect, Kind
from paddock.model.errors import InvalidInput
from paddock.model.hosts import canonical_host
from paddock.policy.graphql import (
    GraphqlEndpoint,
    effect_of,
    may_speak_graphql,
    speaks_graphql,
)
from paddock.policy.json_bounds import has_few_values

MAX_READ_BODY = 1 << 20  # a longer one is streamed, and a rule that asks for it blocks
MAX_FIELDS = 1000
# Values in a body of JSON. They are counted before they are parsed: rules, the journal and its mask
# look at each, which takes microseconds, and a megabyte has room for half a million.
MAX_VALUES = 20_000
MAX_ESCAPES = 20_000  # in a body with escaped letters, which must be decoded to find secrets in it
# A conversation is sent whole with every turn, and images are in it. To keep each message once it
# must be read.
MAX_MODEL_BODY = 8 << 20
MAX_LONG = 16  # bodies beyond MAX_READ_BODY that are in memory at once; others are streamed
MAX_LONG_OF_ONE = 4  # of one sandbox
# For more of a body whose client may wait for an answer to what it has sent.
QUIET_S = 0.25
SENT = "sent"  # in the context of an action, and in the record of an answer: of an upload
_OVERRIDES = (b"x-http-method-override", b"x-http-method", b"x-method-override")
_OF_BODY = frozenset({"body_bytes", "body_sha256"})
_EDITABLE = _OF_BODY | {"method", "host", "port", "path", "query", "body"}
_READS = frozenset({"GET", "HEAD", "OPTIONS", "TRACE"})
Endpoints = tuple[GraphqlEndpoint, ...]
# Whatever their names, these carry credentials: the journal keeps that they were there.
_CREDENTIALS = frozenset(
    {"authorization", "proxy-authorization", "cookie", "set-cookie", "x-api-key", "api-key",
     "x-auth-token", "x-goog-api-key", "x-amz-security-token"}
)  # fmt: skip

_TYPE = re.compile(rb"[a-z0-9!#$&^_.+-]+/[a-z0-9!#$&^_.+-]+")
# In any other the bytes may be another text to the server than to the rules.
_CHARSETS = (b"charset=utf-8", b'charset="utf-8"', b"charset=utf8", b"charset=us-ascii")


class RequestProposal(msgspec.Struct):
    """A request that waits for its decision."""

    action: Action
    request: HttpRequest
    body: Body  # all of it, what was read before the decision included
    parsed: Any = None  # of JSON and forms
    read: bytes | None = None  # the whole body, where it was read
    sent: BodyCapture | None = None  # of a body that is streamed
    wire: Wire | None = None  # of a request to a model
    model_arguments: Mapping[str, Any] | None = None
    edited: bytes | None = None  # the body that is sent in its place, as an approver has it
    fault: BadMessage | None = None  # of the client's, in a body that is streamed
    claim: Claim | None = None  # of a body that is long
    graphql: Endpoints = ()  # that the paddock file declares
    made_at: float = msgspec.field(default_factory=time.monotonic)


_claims: weakref.WeakSet[Claim] = weakref.WeakSet()  # of all sandboxes: they share the memory


class BodyTerms(msgspec.Struct, frozen=True):
    """The options for reading bodies of a sandbox before the decision."""

    held: BodyReservation | None = None  # counts what is in memory
    work: HeavyWork | None = None  # without it, all is done at once
    graphql: Endpoints = ()  # that the paddock file declares


async def propose(
    request: HttpRequest,
    origin: Origin,
    keyed: ValueHmac | None = None,
    terms: BodyTerms | None = None,
) -> RequestProposal:
    """Read what rules may ask for, and return the proposal. Raises BadMessage, ConnLost or
    BodyRefused."""
    terms = terms or BodyTerms()
    graphql = terms.graphql
    # An HTTP/2 stream may announce no bytes and send some all the same, in a later frame.
    if request.body.length == 0 and await request.body.read():
        raise BadMessage(400, "a body came where none was announced")
    arguments, context = _arguments(request, origin), _keyed(request.headers, keyed)
    kind = known(request.headers, _content_kind)
    claim = None if kind is None else _claimed(request, terms.held)
    if kind is None and _is_measured(request):
        return await _measured_only(request, origin, arguments, context, terms)
    if kind is None or not _is_worth_reading(request, claim):
        action = _action(request, origin, arguments, None, context, graphql)
        read = b"" if request.body.length == 0 else None
        return RequestProposal(action, request, request.body, read=read, graphql=graphql)
    parts, is_whole = await _read(request.body, _most(claim), terms.held)
    if not is_whole:
        action = _action(request, origin, arguments, None, context, graphql)
        body = BufferedBody(parts, request.body)
        return RequestProposal(action, request, body, claim=claim, graphql=graphql)
    raw = b"".join(parts)
    if terms.work is None or len(raw) <= LIGHT_BYTES:
        parsed, spelling = _looked_at(kind, raw, keyed, arguments)
    else:
        parsed, spelling = await terms.work.run(_looked_at, kind, raw, keyed, arguments)
    if parsed is not None:
        arguments["body"] = parsed
    if spelling:
        context["keyed"] = {**context.get("keyed", {}), **spelling}
    action = _action(request, origin, arguments, parsed, context, graphql)
    body = BufferedBody([raw] if raw else [])
    return RequestProposal(action, request, body, parsed, raw, claim=claim, graphql=graphql)


def _looked_at(
    kind: str, raw: bytes, keyed: ValueHmac | None, arguments: dict[str, Any]
) -> tuple[Any, dict[str, str]]:
    """Return the value of a body, and the hashes that tell it from others: all that takes time."""
    arguments |= measure(raw)
    parsed = parse(kind, raw)
    is_json = kind == "json" and parsed is not None
    return parsed, spelling_hash(raw, parsed, keyed) if is_json else {}


def _is_measured(request: HttpRequest) -> bool:
    """Return whether a body that no rule reads is measure before the decision, so that a replay
    can tell it from another whatever is decided. A client that asks first whether to send it is not
    made to."""
    length = request.body.length
    return length is not None and 0 < length <= MAX_READ_BODY and not request.expects_continue


async def _measured_only(
    request: HttpRequest,
    origin: Origin,
    arguments: dict[str, Any],
    context: Mapping[str, Any],
    terms: BodyTerms,
) -> RequestProposal:
    parts, _ = await _read(request.body, MAX_READ_BODY, terms.held)
    raw = b"".join(parts)
    if terms.work is None or len(raw) <= LIGHT_BYTES:
        arguments |= _digests(request.headers, raw)
    else:
        arguments |= await terms.work.run(_digests, request.headers, raw)
    action = _action(request, origin, arguments, None, context, terms.graphql)
    return RequestProposal(
        action, request, BufferedBody(parts, request.body), graphql=terms.graphql
    )


def is_unread(proposal: RequestProposal) -> bool:
    """Return whether nothing is known of the request's body: it is decided on by its head alone."""
    return proposal.read is None and "body_sha256" not in proposal.action.arguments


async def read_ahead(proposal: RequestProposal, held: BodyReservation) -> None:
    """Read a body that is decided on by its head. If it comes to its end by itself, the action's
    context has its size and digest afterwards. Raises BadMessage, ConnLost or BodyRefused."""
    request, body = proposal.request, proposal.body
    if request.expects_continue:
        return
    quiet_s = QUIET_S if speaks_in_turns(request) else None
    parts, is_whole = await _read(body, MAX_READ_BODY, held, quiet_s)
    proposal.body = BufferedBody(parts, body)
    if is_whole:
        sent = _of_upload(_digests(request.headers, b"".join(parts)))
        proposal.action = replace(proposal.action, context={**proposal.action.context, SENT: sent})


def speaks_in_turns(request: HttpRequest) -> bool:
    """Return whether the client may wait for parts of the answer before it sends the rest of its
    body, as in a conversation by gRPC."""
    kinds = values_of(request.headers, b"content-type")
    return request.version == "2" and any(kind.startswith(b"application/grpc") for kind in kinds)


def _of_upload(digests: Mapping[str, Any]) -> dict[str, Any]:
    """Return the digests of a body under the names that they have in the record of an upload."""
    return {name.removeprefix("body_"): value for name, value in digests.items()}


def _digests(headers: Headers, raw: bytes) -> dict[str, Any]:
    """Return the size and the digests of a body that no rule reads."""
    digests = dict(measure(raw))
    stable = stable_digest(headers)
    if stable is not None:
        stable.feed(raw)
        if (record := stable.record()) is not None:
            digests[STABLE] = record
    return digests


def _keyed(headers: Headers, keyed: ValueHmac | None) -> dict[str, Any]:
    """Return hashes of credentials, which are not shown: by them two requests can still be
    compared."""
    if keyed is None or not (hashes := known(headers, _hashes(keyed))):
        return {}
    return {"keyed": hashes}


@lru_cache(maxsize=64)
def _hashes(keyed: ValueHmac) -> Callable[[Headers], dict[str, str]]:
    """Return one function for each key: by it, the hashes of headers that repeat are made once."""

    def found(headers: Headers) -> dict[str, str]:
        values: dict[bytes, list[bytes]] = {}
        for name, value in hidden_headers(headers):
            values.setdefault(name, []).append(value)
        # HTTP/2 sends the same cookies one by one.
        joined = ((name.decode("latin-1"), b"; ".join(values[name])) for name in values)
        hashes: dict[str, str] = {}
        for field, credential in joined:
            hashes[f"headers.{field}"] = keyed.of(credential)
            stable = stable_credential(credential.decode("latin-1"))
            if stable is not None:
                hashes[stable_place(f"headers.{field}")] = keyed.of(stable)
        return hashes

    return found


def method_override(request: HttpRequest) -> str | None:
    """Return the method that the request asks the server to take it for, if it is another one:
    rules and the stage would be about the wrong one."""
    for value in known(request.headers, _overrides):
        if value.strip().upper() != request.method.encode():
            return value.decode("latin-1")[:40]
    return None


def _overrides(headers: Headers) -> list[bytes]:
    # A server behind CGI reads both kinds of dash as one.
    return [v for name, v in headers if name.lower().replace(b"_", b"-") in _OVERRIDES]


def rebuild_action(proposal: RequestProposal, action: Action, words: Mapping[str, Any]) -> Action:
    """Return the action that an approver's arguments make. Raises InvalidInput."""
    old = action.arguments
    if action.kind is not Kind.HTTP:
        raise InvalidInput("A request to a model cannot be edited.")
    changed = {key for key in {*old, *words} if _spelled(old, key) != _spelled(words, key)}
    if odd := sorted(changed - _EDITABLE):
        raise InvalidInput(f"{', '.join(odd)} of a request cannot be edited.")
    arguments = {key: value for key, value in words.items() if key not in _OF_BODY}
    arguments |= measure(edited_body(proposal, words))
    if not isinstance(words.get("method"), str):
        raise InvalidInput("A request has a method.")
    host, method = canonical_host(str(words.get("host"))), str(words.get("method"))
    arguments |= {"host": host, "method": method}
    effect = _effect(method, arguments, words.get("body"), proposal.request, proposal.graphql)
    return replace(action, name=f"{method} {host}", arguments=arguments, effect=effect,
                   is_reversible=effect is Effect.READ)  # fmt: skip


def edited_body(proposal: RequestProposal, words: Mapping[str, Any]) -> bytes | None:
    """Return the body of a request with an approver's arguments; the client's where they leave it
    as it was. Raises InvalidInput."""
    if _spelled(proposal.action.arguments, "body") == _spelled(words, "body"):
        return proposal.read
    return written(words.get("body"), proposal.request.headers)


def recorded_proposal(action: Action, graphql: Endpoints = ()) -> RequestProposal:
    """Return the proposal of a request of which only the record is at hand: enough to see what an
    edit makes of it."""
    arguments = action.arguments
    headers = [(name.encode("latin-1", "replace"), str(value).encode("latin-1", "replace"))
               for name, value in (arguments.get("headers") or {}).items()]  # fmt: skip
    body: Body = BufferedBody([b" "]) if arguments.get("body_bytes") else NoBody()
    request = HttpRequest(str(arguments.get("method")), str(arguments.get("scheme")), None,
                      str(arguments.get("path")), headers, "1.1", body,
                      upgrade=arguments.get("upgrade"))  # fmt: skip
    return RequestProposal(action, request, body, arguments.get("body"), graphql=graphql)


def written(body: Any, headers: Headers) -> bytes:
    """Return a body as bytes, in the format that the headers announce. Raises InvalidInput."""
    if body is None:
        return b""
    if _content_kind(headers) != "form":
        return json.dumps(body, separators=(",", ":")).encode()
    if not isinstance(body, Mapping):
        raise InvalidInput("The body of a form is a mapping of names to texts.")
    return urlencode(body, doseq=True).encode()


def _spelled(words: Mapping[str, Any], key: str) -> str:
    """Return a value as JSON text: 1 and true are equal in Python, and two things in JSON."""
    return json.dumps(words.get(key), sort_keys=True, default=repr)


def head_action(request: HttpRequest, origin: Origin) -> Action:
    """Return the action of a request whose body is not read."""
    return _action(request, origin, _arguments(request, origin), None)


def reads_body(request: HttpRequest) -> bool:
    """Return whether the body is read before the decision."""
    if _content_kind(request.headers) is None:
        return False
    return _is_worth_reading(request, _claimed(request))


def parse(kind: str, raw: bytes) -> Any:
    """Return the body as rules see it; None where two readers might see two things in it, or where
    it has so many parts that to look at them would hold up everybody."""
    if kind == "json" and not has_few_values(raw, MAX_VALUES):
        return None
    if sum(map(raw.count, (b"%", b"&", b"\\"))) > MAX_ESCAPES and is_oddly_escaped(raw):
        return None
    try:
        return _form(raw.decode()) if kind == "form" else load(raw)
    except (ValueError, Unreadable):
        return None


def shown_headers(headers: Headers) -> dict[str, str]:
    """Return headers for rules and the journal: names in lower case, credentials left out."""
    shown: dict[str, str] = {}
    for raw_name, raw_value in headers:
        name, is_credential = _shown_name(raw_name)
        value = raw_value.decode("latin-1")
        if is_credential:
            value = _without_credential(value)
        shown[name] = f"{shown[name]}, {value}" if name in shown else value
    return shown


def hidden_headers(headers: Headers) -> Headers:
    """Return the headers whose values `shown_headers` leaves out, as they are; names in lower
    case."""
    return [(name.lower(), value) for name, value in headers if _shown_name(name)[1]]


@lru_cache(maxsize=1024)
def _shown_name(raw: bytes) -> tuple[str, bool]:
    """Return a name as it is shown, and whether credentials come with it."""
    name = raw.decode("latin-1").lower()
    return name, name in _CREDENTIALS


def split_target(target: str) -> tuple[str, str]:
    path, _, query = target.partition("?")
    return path, query


def _arguments(request: HttpRequest, origin: Origin) -> dict[str, Any]:
    path, query = split_target(request.target)
    arguments: dict[str, Any] = {
        "method": request.method,
        "scheme": origin.scheme,
        "host": origin.host,
        "port": origin.port,
        "path": path,
        "headers": dict(known(request.headers, shown_headers)),
    }
    if query:
        arguments["query"] = query
    if request.version != "1.1":
        arguments["http_version"] = f"HTTP/{request.version}"
    if request.upgrade:
        arguments["upgrade"] = request.upgrade
    return arguments


def _action(
    request: HttpRequest,
    origin: Origin,
    arguments: Mapping[str, Any],
    parsed: Any,
    context: Mapping[str, Any] | None = None,
    graphql: Endpoints = (),
) -> Action:
    effect = _effect(request.method, arguments, parsed, request, graphql)
    return Action(
        Kind.HTTP,
        f"{request.method} {origin.host}",
        arguments,
        effect,
        is_reversible=effect is Effect.READ,
        parent=origin.parent,
        context=context or {},
    )


def _effect(
    method: str,
    arguments: Mapping[str, Any],
    parsed: Any,
    request: HttpRequest,
    graphql: Endpoints,
) -> Effect:
    if request.upgrade:
        return Effect.WRITE  # what is said afterwards, no rule will see
    path, query = arguments["path"], arguments.get("query", "")
    is_declared = speaks_graphql(graphql, arguments["host"], path)
    is_graphql = may_speak_graphql(graphql, arguments["host"], path)
    # A query by POST may read; a mutation by GET writes.
    effect = effect_of(method, path, query, parsed, is_declared=is_declared, is_graphql=is_graphql)
    if effect is None:
        return Effect.READ if method in _READS else Effect.WRITE
    is_json = parsed is not None and known(request.headers, _content_kind) == "json"
    return effect if is_json or request.body.length == 0 else Effect.WRITE


def _content_kind(headers: Headers) -> str | None:
    """Return `json`, `form` or None. It is None where one server might read a body in another way
    than the next: of two types, one takes the first and one the last."""
    types = values_of(headers, b"content-type")
    if len(types) != 1 or values_of(headers, b"content-encoding") not in ([], [b"identity"]):
        return None
    return _kind_of(types[0])


@lru_cache(maxsize=256)
def _kind_of(content_type: bytes) -> str | None:
    kind, _, parameters = content_type.lower().partition(b";")
    kind = kind.strip()
    charsets = [
        parameter.strip() for parameter in parameters.split(b";") if b"charset" in parameter
    ]
    if not _TYPE.fullmatch(kind) or not all(charset in _CHARSETS for charset in charsets):
        return None
    if kind == b"application/x-www-form-urlencoded":
        return "form"
    return "json" if kind == b"application/json" or kind.endswith(b"+json") else None


def _claimed(request: HttpRequest, held: BodyReservation | None = None) -> Claim | None:
    """Return a claim for a body that may be long, where a model may be called."""
    length = request.body.length
    if length is not None and not MAX_READ_BODY < length <= MAX_MODEL_BODY:
        return None
    own = _claims if held is None else held.long_bodies
    is_full = len(_claims) >= MAX_LONG or (held is not None and len(own) >= MAX_LONG_OF_ONE)
    if is_full or not is_model_path(request.method, request.target):
        return None
    claim = Claim()
    _claims.add(claim)
    own.add(claim)
    return claim


def _most(claim: Claim | None) -> int:
    return MAX_READ_BODY if claim is None else MAX_MODEL_BODY


def _is_worth_reading(request: HttpRequest, claim: Claim | None) -> bool:
    length = request.body.length
    return length is None or 0 < length <= _most(claim)


async def _read(
    body: Body, most: int, held: BodyReservation | None, quiet_s: float | None = None
) -> tuple[list[bytes], bool]:
    """Return the parts of a body, and whether that is all of it: not if it is longer than `most`,
    or if nothing came for `quiet_s`."""
    parts: list[bytes] = []
    size = 0
    try:
        async with asyncio.timeout(held_bodies.BODY_S):
            while size <= most:
                try:
                    async with asyncio.timeout(quiet_s):
                        part = await body.read()
                except TimeoutError:
                    return parts, False
                if not part:
                    return parts, True
                if held is not None:
                    held.add(len(part))
                parts.append(part)
                size += len(part)
    except TimeoutError:
        why = f"The body did not come to its end within {held_bodies.BODY_S:g} s."
        raise BodyRefused(408, why) from None
    return parts, False


def _form(text: str) -> dict[str, Any]:
    pairs = parse_qsl(text, keep_blank_values=True, strict_parsing=bool(text),
                      max_num_fields=MAX_FIELDS)  # fmt: skip
    form: dict[str, Any] = {}
    for name, value in pairs:
        if name in form:
            before = form[name]
            form[name] = [*before, value] if isinstance(before, list) else [before, value]
        else:
            form[name] = value
    return form


def _without_credential(value: str) -> str:
    scheme, space, _ = value.partition(" ")
    return f"{scheme} ***" if space and scheme.isalpha() and len(scheme) < 20 else "***"
