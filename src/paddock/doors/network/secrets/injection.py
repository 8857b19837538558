"""Puts the real values of secrets into a request that goes to a host they are for.

A secret with a place (`as:` in the paddock file) is set there, whatever the agent sent: a key of
its own is no way to speak in another name. One without a place is put where its placeholder stands,
in header values and in the address. Whether the request may go at all was decided before.
"""

from __future__ import annotations

import base64
import binascii
import json
import re
from collections.abc import Callable
from functools import lru_cache
from typing import assert_never
from urllib.parse import quote, quote_plus, unquote_plus

import msgspec

from paddock.doors.network.exchange import BadMessage, Headers, header, without
from paddock.doors.network.secrets.keeper import SecretKeeper
from paddock.model.errors import InvalidInput

_MAX_GROWTH = 1 << 20  # bytes that a value may add to a request, in all places of its placeholder
_MAX_HOSTS = 1024  # a wildcard allows more names than memory holds
_TOKEN = re.compile(r"[A-Za-z0-9!#$%&'*+.^_`|~-]{1,128}")
_CONTROL = re.compile(rb"[\x00-\x08\x0a-\x1f\x7f]")
# These say where a message ends and whom it is for. No secret belongs there.
_FRAMING = frozenset(
    {"host", "connection", "content-length", "transfer-encoding", "te", "trailer", "upgrade"}
)
_PATH_SAFE = ":@!$&'()*+,;=~"


class Injected(msgspec.Struct, frozen=True):
    """A request with real values in it, for the server's eyes alone."""

    headers: Headers
    target: str
    body: bytes | None
    used: tuple[str, ...] = ()

    def __repr__(self) -> str:
        return f"Injected(used={self.used!r})"  # and no real value


class InHeader(msgspec.Struct, frozen=True):
    """`header:NAME=SCHEME`: the header is the scheme, a space and the value."""

    name: str
    scheme: str = ""


class InBasic(msgspec.Struct, frozen=True):
    """`basic:USER`: the value is the password."""

    user: str


class InQuery(msgspec.Struct, frozen=True):
    """`query:NAME`."""

    name: str


class InBody(msgspec.Struct, frozen=True):
    """`body`: for the placeholder in a body of JSON or of a form."""


class Anywhere(msgspec.Struct, frozen=True):
    """For the placeholder, in header values and in the address."""


Place = InHeader | InBasic | InQuery | InBody | Anywhere


def place_of(placed: str | None) -> Place:
    """Parse where the file wants a secret to be put. Raises InvalidInput."""
    kind, _, rest = (placed or "").partition(":")
    match kind:
        case "":
            return Anywhere()
        case "header":
            return _header_place(*rest.partition("=")[::2])
        case "basic" if rest and ":" not in rest and rest.isprintable():
            return InBasic(rest)
        case "query" if rest:
            return InQuery(rest)
        case "body" if not rest:
            return InBody()
    raise InvalidInput(
        f"{placed!r:.80} is not a place for a secret",
        hint="write header:NAME, header:NAME=SCHEME, basic:USER, query:NAME or body",
    )


def _header_place(name: str, scheme: str) -> InHeader:
    if not _TOKEN.fullmatch(name) or name.lower() in _FRAMING:
        raise InvalidInput(f"{name!r:.80} is not a header that a secret can be put into")
    if scheme and not _TOKEN.fullmatch(scheme):
        raise InvalidInput(f"{scheme!r:.80} is not a scheme, as in header:Authorization=Bearer")
    return InHeader(name, scheme)


class Injector:
    """Knows the places of all secrets of one sandbox."""

    def __init__(self, keeper: SecretKeeper) -> None:
        self._keeper = keeper
        self._places = {n: place_of(keeper.secret(n).terms.placed) for n in keeper.names}
        self._slots_of = lru_cache(maxsize=_MAX_HOSTS)(self._slots)

    def needs_body(self, host: str) -> bool:
        """Return whether the body must be whole before anything can be put into it."""
        names = (name for slot in self._slots_of(host) for name in slot)
        return any(isinstance(self._places[name], InBody) for name in names)

    def apply(self, headers: Headers, target: str, body: bytes | None, host: str) -> Injected:
        """The request as the host gets it. Raises Revoked when a secret that it needs is gone."""
        slots = self._slots_of(host)
        if not slots:
            return Injected(headers, target, body)
        draft = _Draft(list(headers), target, body)
        for slot in slots:
            name = slot[0] if len(slot) == 1 else self._chosen(slot, draft)
            self._put(name, draft)
        return Injected(draft.headers, draft.target, draft.body, tuple(draft.used))

    def _put(self, name: str, draft: _Draft) -> None:
        placeholder = self._keeper.secret(name).placeholder
        match self._places[name]:
            case InHeader(field_name, scheme):
                value = self._keeper.value(name)
                draft.set_header(field_name, f"{scheme} {value}" if scheme else value)
            case InBasic(user):
                pair = f"{user}:{self._keeper.value(name)}".encode()
                draft.set_header("Authorization", f"Basic {base64.b64encode(pair).decode()}")
            case InQuery(key):
                draft.set_query(key, self._keeper.value(name))
            case InBody():
                if not draft.can_fill_body(placeholder):
                    return
                draft.fill_body(placeholder, self._keeper.value(name))
            case Anywhere():
                if not draft.has_in_head(placeholder):
                    return
                draft.fill_head(placeholder, self._keeper.value(name))
            case _ as never:
                assert_never(never)
        draft.used.append(name)

    def _chosen(self, slot: tuple[str, ...], draft: _Draft) -> str:
        """Return, of the secrets for one place, the one that the agent names there, else the file's
        first."""
        for name in slot:
            if draft.has_in_head(self._keeper.secret(name).placeholder):
                return name
        return slot[0]

    def _slots(self, host: str) -> tuple[tuple[str, ...], ...]:
        """The secrets of a host, those together that are for one place."""
        slots: dict[object, list[str]] = {}
        for name in self._keeper.names_for(host):
            slots.setdefault(_slot_key(name, self._places[name]), []).append(name)
        return tuple(map(tuple, slots.values()))


def _slot_key(name: str, place: Place) -> object:
    match place:
        case InHeader(field_name):
            return "header", field_name.lower()
        case InBasic():
            return "header", "authorization"
        case InQuery():
            return place
        case InBody() | Anywhere():
            return name
        case _ as never:
            assert_never(never)


class _Draft:
    """A request on its way to be sent."""

    __slots__ = ("body", "headers", "target", "used")

    def __init__(self, headers: Headers, target: str, body: bytes | None) -> None:
        self.headers = headers
        self.target = target
        self.body = body
        self.used: list[str] = []

    def set_header(self, name: str, value: str) -> None:
        """In place of all that the agent sent under the name, in any spelling."""
        key = name.lower().encode()
        self.headers = [*without(self.headers, key), (name.encode(), _field(value.encode()))]

    def set_query(self, name: str, value: str) -> None:
        path, _, query = self.target.partition("#")[0].partition("?")
        # Some servers split at semicolons too: nothing of the name may be left in either reading.
        kept = [part for part in query.split("&") if part and not _names(part, name)]
        kept.append(f"{quote(name, safe='')}={quote(value, safe='')}")
        self.target = f"{path}?{'&'.join(kept)}"

    def has_in_head(self, placeholder: str) -> bool:
        text = placeholder.encode()
        if placeholder in self.target:
            return True
        return any(text in value or text in _basic(value) for _, value in self.headers)

    def fill_head(self, placeholder: str, value: str) -> None:
        old, new = placeholder.encode(), value.encode()
        values = [text for _, value in self.headers for text in (value, _basic(value))]
        times = self.target.count(placeholder) + sum(value.count(old) for value in values)
        _check_growth(times, 3 * len(new) - len(old))  # escaped, a byte takes three
        self.headers = [(name, _filled(value, old, new)) for name, value in self.headers]
        path, mark, query = self.target.partition("?")
        path = path.replace(placeholder, quote(value, safe=_PATH_SAFE))
        self.target = path + mark + query.replace(placeholder, quote(value, safe=""))

    def can_fill_body(self, placeholder: str) -> bool:
        """In other formats than JSON and forms the placeholder stays what it is."""
        is_there = self.body is not None and placeholder.encode() in self.body
        return is_there and _format(self.headers) is not None

    def fill_body(self, placeholder: str, value: str) -> None:
        """Escaped as the body's own format has it."""
        spell = _format(self.headers)
        assert self.body is not None
        assert spell is not None
        old, new = placeholder.encode(), spell(value)
        _check_growth(self.body.count(old), len(new) - len(old))
        self.body = self.body.replace(old, new)
        if header(self.headers, b"content-length") is not None:
            length = str(len(self.body)).encode()
            rest = without(self.headers, b"content-length")
            self.headers = [*rest, (b"content-length", length)]


def _check_growth(times: int, size: int) -> None:
    """Raise BadMessage for a request that would become much longer than what the agent sent: that
    is what the memory of a sandbox's requests is counted by."""
    if times * size > _MAX_GROWTH:
        raise BadMessage(413, f"a placeholder stands in the request {times} times")


def _filled(value: bytes, old: bytes, new: bytes) -> bytes:
    if old in value:
        return _field(value.replace(old, new))
    pair = _basic(value)
    if old in pair:
        return b"Basic " + base64.b64encode(pair.replace(old, new))
    return value


def _basic(value: bytes) -> bytes:
    """Return the text that is encoded in `Basic ...`; nothing for other values."""
    if value[:6].lower() != b"basic ":
        return b""
    text = value[6:].strip()
    try:
        return base64.b64decode(text + b"=" * (-len(text) % 4), validate=True)
    except (binascii.Error, ValueError):
        return b""


def _names(part: str, name: str) -> bool:
    return any(unquote_plus(pair.partition("=")[0]) == name for pair in part.split(";"))


def _format(headers: Headers) -> Callable[[str], bytes] | None:
    """Return the format in which a text stands in the body; None when that is not known."""
    if (header(headers, b"content-encoding") or b"identity").strip().lower() != b"identity":
        return None
    kind = (header(headers, b"content-type") or b"").partition(b";")[0].strip().lower()
    if kind == b"application/json" or kind.endswith(b"+json"):
        return lambda value: json.dumps(value)[1:-1].encode()
    if kind == b"application/x-www-form-urlencoded":
        return lambda value: quote_plus(value).encode()
    return None


def _field(value: bytes) -> bytes:
    """A value ends where its header ends: nothing in it may begin another one."""
    if _CONTROL.search(value):
        raise InvalidInput("a header with a control character is not sent")
    return value
