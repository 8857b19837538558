"""A request that was kept as a draft, read back from its arguments. What was not kept of it, or
cannot be known, is said; nothing is guessed. Nothing is sent here.
"""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Callable, Mapping
from functools import partial
from typing import Any
from urllib.parse import quote, quote_plus, urlencode

import msgspec
from msgspec.structs import replace

from paddock.doors.network.exchange import BadMessage, BufferedBody, Headers, HttpRequest, NoBody
from paddock.doors.network.http1.messages import head_bytes, request_line
from paddock.doors.network.origin import Origin
from paddock.doors.network.request import MAX_READ_BODY
from paddock.doors.network.secrets.injection import Anywhere, InBasic, InHeader, Place, place_of
from paddock.doors.network.secrets.keeper import SecretKeeper
from paddock.model.action import Action, Kind
from paddock.model.errors import InvalidInput
from paddock.model.hosts import canonical_host
from paddock.policy.secrets import SecretTerms

Spell = Callable[[Any], bytes]
Change = Callable[[Any], Any]  # of a text or a number
_ANEW = "let the agent make the request again"
_FORM = "application/x-www-form-urlencoded"
_FRAMING = frozenset({"content-length", "transfer-encoding", "expect"})
_SURELY_WITH_BODY = frozenset({"POST", "PUT", "PATCH"})
_LOST = "\ufffd"  # stands for what was no text
_MAX_DEPTH = 200
# What is shown of a credential: its scheme at most. See `request.shown_headers`.
_HIDDEN = re.compile(r"(?:([A-Za-z]{1,19}) )?\*\*\*")
_PLACEHOLDER = re.compile(r"paddock_([A-Za-z_][A-Za-z0-9_]{0,254}?)_[0-9a-f]{24}(?![0-9A-Za-z])")


class DraftedRequest(msgspec.Struct, frozen=True):
    """All that is known of it."""

    origin: Origin
    method: str
    path: str
    query: str
    headers: Mapping[str, str]
    body: Any
    spell: Spell | None  # None: it had no body
    version: str

    def changed(self, value: Change, target: Change) -> DraftedRequest:
        """With other texts and numbers, in the address and everywhere else."""
        headers = {name: str(value(text)) for name, text in self.headers.items()}
        body = walked(self.body, value)
        path, query = str(target(self.path)), str(target(self.query))
        return replace(self, path=path, query=query, headers=headers, body=body)

    def request(self) -> HttpRequest:
        """As a client would send it. Raises InvalidInput."""
        raw = b"" if self.spell is None else _spelled(self.spell, self.body)
        if len(raw) > MAX_READ_BODY:
            raise InvalidInput("its body is too long for the rules to read")
        fields = [(name, text) for name, text in self.headers.items() if name not in _FRAMING]
        if raw:
            fields.append(("content-length", str(len(raw))))
        try:
            headers: Headers = [(n.encode("latin-1"), v.encode("latin-1")) for n, v in fields]
            request = HttpRequest(
                method=self.method,
                scheme=self.origin.scheme,
                authority=self.origin.authority,
                target=f"{self.path}?{self.query}" if self.query else self.path,
                headers=headers,
                version=self.version,
                body=BufferedBody([raw]) if raw else NoBody(),
            )
            head_bytes(request_line(request), headers)  # what cannot be sent is said now
        except (UnicodeEncodeError, BadMessage) as error:
            raise InvalidInput(f"it cannot be sent as it was kept: {error}") from None
        return request


def read_drafted(action: Action) -> DraftedRequest:
    """Raises InvalidInput for what cannot be made again."""
    if action.kind is Kind.MODEL:
        raise InvalidInput("it is a question to a model: nobody waits for the answer any more")
    if action.kind is not Kind.HTTP:
        raise InvalidInput(f"a draft of kind {action.kind} is no request")
    try:
        return _read(action.arguments)
    except (KeyError, TypeError, AttributeError):
        raise InvalidInput("the draft lacks parts of its request", hint=_ANEW) from None


def _read(words: Mapping[str, Any]) -> DraftedRequest:
    if words.get("upgrade"):
        raise InvalidInput("it began a WebSocket: what is said there cannot be kept")
    headers = {str(name).lower(): str(value) for name, value in words["headers"].items()}
    version = "2" if words.get("http_version") == "HTTP/2" else "1.1"
    scheme, port = str(words["scheme"]), words["port"]
    if scheme not in ("http", "https") or type(port) is not int or not 0 < port < 65536:
        raise InvalidInput("the draft is no request of http or https")
    if why := _why_without_body(words, headers, version):
        raise InvalidInput(why, hint=_ANEW)
    return DraftedRequest(
        origin=Origin(scheme, canonical_host(words["host"]), port),
        method=str(words["method"]),
        path=str(words["path"]),
        query=str(words.get("query") or ""),
        headers=headers,
        body=words.get("body"),
        spell=None if words.get("body") is None else _spelling(words, headers),
        version=version,
    )


def _why_without_body(
    words: Mapping[str, Any], headers: Mapping[str, str], version: str
) -> str | None:
    """Why a body that was there is not here."""
    if words.get("body") is not None:
        return None
    if words.get("body_bytes"):
        return "its body was not kept, only the digest: rules could not read it as JSON or a form"
    length = headers.get("content-length")
    if "transfer-encoding" in headers or (length is not None and length.strip() != "0"):
        return "its body was not kept: only JSON and forms of up to 1 MiB are"
    is_possible = words["method"] in _SURELY_WITH_BODY or "content-type" in headers
    if version == "2" and length is None and is_possible:
        return "whether it had a body is not known: it came by HTTP/2 without a length"
    return None


def _spelling(words: Mapping[str, Any], headers: Mapping[str, str]) -> Spell:
    """The one that gives the very bytes of the client, where it is a usual one; else one that says
    the same."""
    is_form = headers.get("content-type", "").lower().startswith(_FORM)
    usual = _FORMS if is_form else _JSONS
    for spell in usual:
        try:
            raw = spell(words["body"])
        except (ValueError, TypeError, RecursionError):
            continue
        if hashlib.sha256(raw).hexdigest() == words.get("body_sha256"):
            return spell
    if is_form and _LOST in json.dumps(words["body"], ensure_ascii=False):
        raise InvalidInput("its body was not kept as it was: it has bytes that are no text")
    return usual[0]


def _spelled(spell: Spell, body: Any) -> bytes:
    try:
        return spell(body)
    except (ValueError, TypeError, RecursionError) as error:
        raise InvalidInput(f"its body cannot be written: {error}") from None


def _json(body: Any, *, separators: tuple[str, str], is_ascii: bool) -> bytes:
    return json.dumps(body, separators=separators, ensure_ascii=is_ascii, allow_nan=False).encode()


def _form(body: Any, *, quoted: Callable[..., str]) -> bytes:
    if not isinstance(body, Mapping):
        raise TypeError("a form has names and values")
    return urlencode(body, doseq=True, quote_via=quoted).encode()


_JSONS: tuple[Spell, ...] = tuple(
    partial(_json, separators=separators, is_ascii=is_ascii)
    for separators in ((",", ":"), (", ", ": "))
    for is_ascii in (True, False)
)
_FORMS: tuple[Spell, ...] = (partial(_form, quoted=quote_plus), partial(_form, quoted=quote))


def walked(value: Any, change: Change, depth: int = _MAX_DEPTH) -> Any:
    """A JSON value with each text and number changed, names of fields too."""
    if depth == 0:
        raise InvalidInput("its body is nested too deeply")
    if isinstance(value, Mapping):
        return {str(change(k)): walked(v, change, depth - 1) for k, v in value.items()}
    if isinstance(value, list | tuple):
        return [walked(item, change, depth - 1) for item in value]
    return value if value is None or isinstance(value, bool) else change(value)


def with_secrets(
    kept: DraftedRequest, keeper: SecretKeeper, known: Mapping[str, SecretTerms]
) -> DraftedRequest:
    """With the placeholders of this keeper, in place of those that the agent had and of credentials
    that were not kept. `known` are all secrets of the file. Raises InvalidInput."""
    host = kept.origin.host

    def renewed(found: re.Match[str]) -> str:
        terms = known.get(found[1])
        if terms is None:
            what = f"it holds the placeholder of {found[1]}, a secret that the file does not have"
            raise InvalidInput(what, hint=f"add {found[1]} to the secrets of the file")
        if not terms.is_for(host):
            raise InvalidInput(f"it holds the placeholder of {found[1]}, which is not for {host}")
        return keeper.secret(found[1]).placeholder

    def change(value: Any) -> Any:
        return _PLACEHOLDER.sub(renewed, value) if isinstance(value, str) else value

    changed = kept.changed(change, change)
    return replace(changed, headers=_with_credentials(changed.headers, keeper, host))


def _with_credentials(
    headers: Mapping[str, str], keeper: SecretKeeper, host: str
) -> dict[str, str]:
    places = {name: place_of(keeper.secret(name).terms.placed) for name in keeper.names}
    made = {name: value for name, value in headers.items() if not _is_hidden(value)}
    hidden = {name: value for name, value in headers.items() if _is_hidden(value)}
    free = [name for name, place in places.items() if isinstance(place, Anywhere)]
    missing = [name for name in hidden if not any(_sets(place, name) for place in places.values())]
    if not missing:
        return made  # each is set when the values are put in
    match = _HIDDEN.fullmatch(hidden[missing[0]])
    is_plain = match is not None and (match[1] or "").lower() != "basic"
    if len(missing) > 1 or len(free) != 1 or not is_plain or missing[0] == "cookie":
        raise InvalidInput(
            f"its credential in {', '.join(missing)} was not kept",
            hint=f"name it in the file: secrets: {{NAME: {{from: env:NAME, to: [{host}],"
            f" as: {_as_word(missing[0], match)}}}}}",
        )
    placeholder = keeper.secret(free[0]).placeholder
    return {**made, missing[0]: hidden[missing[0]].replace("***", placeholder)}


def _is_hidden(value: str) -> bool:
    return all(_HIDDEN.fullmatch(part) for part in value.split(", "))


def _sets(place: Place, header: str) -> bool:
    match place:
        case InHeader(name):
            return name.lower() == header
        case InBasic():
            return header == "authorization"
    return False


def _as_word(header: str, found: re.Match[str] | None) -> str:
    scheme = (found[1] if found is not None else None) or ""
    if scheme.lower() == "basic":
        return "basic:USER"
    return f"header:{header}={scheme}" if scheme else f"header:{header}"
