"""Actions and rows as views: what is compared, in one spelling, and nothing else.

A value is brought to what the journal would read back: canonical JSON has one spelling for 1 and
1.0, so that those two are told apart by the size of the body they stand in.
"""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Mapping
from typing import Any

from paddock.doors.network.bodies.stable_digests import STABLE
from paddock.journal.plain_values import as_json
from paddock.model.action import Kind
from paddock.run.matching.recorded_step import ActionView, RecordedStep
from paddock.run.matching.volatile import dropped, has_ids

MAX_PAIRS = 2000  # of a query; a longer one is compared as one text
_MAX_WHOLE = 1e21  # from here on canonical JSON writes whole doubles with an exponent
_BY_KIND = {
    # The versions of HTTP say the same thing.
    Kind.HTTP: frozenset({"http_version"}),
    Kind.MODEL: frozenset({"http_version"}),
    # Numbers and real files of one machine: the same program has others the next time.
    Kind.EXEC: frozenset({"pid", "real_path", "same_as", "is_writable"}),
}
# Made from the conversation; where all of that is there, it is compared itself.
_OF_CONVERSATION = frozenset(
    {"conversation", "images", "prompt", "prompt_digest", "refs", "system_ref", "tools_ref"}
)
_OF_REQUEST = frozenset({"parameters", "request", "stream"})
_SENT = ("messages", "model", "system", "tools")
_TOLD_BY_BODY = _OF_CONVERSATION | _OF_REQUEST | {*_SENT}
# What is said of a body. Equal digests of the sent bytes say that all of it is equal.
OF_BODY = _TOLD_BY_BODY | {"body", "body_bytes", "body_sha256", STABLE}
# A client makes a boundary up for each body, and no server acts upon which one it is.
_BOUNDARY = re.compile(r'(;\s*boundary=)("[^"]*"|[^;,\s]+)', re.IGNORECASE)
_ODD = frozenset('.[]"*= ')  # in a key: it is quoted
_NAMED = frozenset({Kind.TOOL, Kind.FILE, Kind.CODE})
_ADDRESSED = frozenset({Kind.HTTP, Kind.MODEL})
_PLACED = {
    Kind.HTTP: ("host", "method", "path"),
    Kind.MODEL: ("host", "method", "path"),
    Kind.EXEC: ("program",),
    Kind.DNS: ("host",),
    Kind.CONNECT: ("host", "port"),
}


def view_of(
    kind: Kind,
    name: str,
    arguments: Mapping[str, Any],
    keyed: Mapping[str, str] | None = None,
) -> ActionView:
    """Return the view of a proposed action. The arguments are masked as the journal would mask
    them, and `keyed` has the keyed hashes of what they do not show."""
    return _view(kind, name, as_json(arguments), keyed or {})


def row_view(row: RecordedStep) -> ActionView:
    """Return the view of a recorded step."""
    return _view(row.kind, row.name, row.arguments, row.keyed)


def _view(
    kind: Kind, name: str, arguments: Mapping[str, Any], keyed: Mapping[str, str]
) -> ActionView:
    left = _BY_KIND.get(kind, frozenset())
    compared = {key: value for key, value in arguments.items() if key not in left}
    if kind in _ADDRESSED:
        parts = _request(_whole(compared) if kind is Kind.MODEL else compared)
    elif kind in _NAMED:
        parts = {"name": name, "arguments": _plain(compared)}
    else:
        parts = _plain(compared)
    inner = "arguments" if kind in _NAMED else ""
    places = {_place(pointer, inner): value for pointer, value in keyed.items()}
    common = (kind, *(parts.get(key) for key in _PLACED.get(kind, ("name",))))
    digest = _digest(kind, parts, places)
    headers = compared.get("headers") if kind in _ADDRESSED else None
    if not isinstance(headers, Mapping):
        return ActionView(kind, name, parts, places, common, digest)
    return ActionView(
        kind,
        name,
        parts,
        places,
        common,
        digest,
        left_out={name: value for name, value in headers.items() if dropped(name) is not None},
        has_ids=has_ids(parts["headers"]),
    )


def _whole(arguments: dict[str, Any]) -> dict[str, Any]:
    """Return a model request that is there in full, as the body that was sent: it is `body`, or it
    is made of its messages and of `request`, which holds the rest."""
    if isinstance(arguments.get("body"), dict):
        return {key: value for key, value in arguments.items() if key not in _TOLD_BY_BODY}
    if not isinstance(arguments.get("messages"), list):
        return arguments
    request = arguments.get("request")
    body = dict(request) if isinstance(request, dict) else {}
    body |= {key: arguments[key] for key in _SENT if arguments.get(key) is not None}
    left = _TOLD_BY_BODY if isinstance(request, dict) else _TOLD_BY_BODY - _OF_REQUEST
    return {**{key: value for key, value in arguments.items() if key not in left}, "body": body}


def _request(arguments: Mapping[str, Any]) -> dict[str, Any]:
    parts = {key: _plain(value) for key, value in arguments.items()}
    if isinstance(parts.get("headers"), dict):
        parts["headers"] = _compared_headers(parts["headers"])
    if isinstance(parts.get("query"), str):
        parts["query"] = _pairs(parts["query"])
    return parts


def _compared_headers(headers: Mapping[str, str]) -> dict[str, str]:
    """Return the headers as they are compared, without those that the transport or a library makes
    up and no server acts upon."""
    compared = {name: value for name, value in headers.items() if dropped(name) is None}
    kind = compared.get("content-type", "")
    if kind.lower().startswith("multipart/"):
        compared["content-type"] = _BOUNDARY.sub(r"\1*", kind)
    return compared


def _pairs(query: str) -> list[list[str]] | str:
    """Return the query's pairs in order and as they were encoded: to a server the second of two
    equal names may count."""
    pairs = query.split("&")
    if len(pairs) > MAX_PAIRS:
        return query
    return [list(word.partition("="))[::2] if "=" in word else [word] for word in pairs]


def _plain(value: Any) -> Any:
    """Return the value as the journal reads it back."""
    kind = type(value)
    if kind is float:
        return int(value) if value.is_integer() and abs(value) < _MAX_WHOLE else value
    if kind is dict:
        return {key: _plain(item) for key, item in value.items()}
    if kind is list:
        return [_plain(item) for item in value]
    return value


def _place(pointer: str, inner: str = "") -> str:
    """Convert a JSON pointer to a location: `/body/keys/0` to `body.keys[0]`. Anything else is a
    location already."""
    if not pointer.startswith("/"):
        return pointer
    words = [word.replace("~1", "/").replace("~0", "~") for word in pointer[1:].split("/")]
    steps = (step_in(int(word) if word.isdecimal() else word) for word in words)
    return (inner + "".join(steps)).lstrip(".")


def step_in(key: str | int) -> str:
    """Return one more segment of a location."""
    if isinstance(key, int):
        return f"[{key}]"
    return f'["{key}"]' if set(key) & _ODD or not key else f".{key}"


def _digest(kind: Kind, parts: Mapping[str, Any], keyed: Mapping[str, str]) -> bytes:
    # The digest of the sent bytes says all that the structure says, and more.
    sent = parts.get("body_sha256")
    told = parts if sent is None else {k: v for k, v in parts.items() if k not in OF_BODY}
    spelled = json.dumps([kind, told, sent, keyed], sort_keys=True, separators=(",", ":"))
    return hashlib.blake2b(spelled.encode(), digest_size=16).digest()
