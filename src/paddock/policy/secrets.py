"""The section `secrets` of a paddock file: its values, and how they are written.

The value of a secret must never get here. A text that could be one is not repeated in any message.
"""

from __future__ import annotations

import enum
import re
import shlex
from collections.abc import Iterator, Mapping
from typing import Any

import msgspec

from paddock.model.errors import InvalidInput
from paddock.model.hosts import HostPattern
from paddock.policy.network import HOST_SCHEMA, NetworkTerms
from paddock.policy.section import (
    MAX_ENTRIES,
    MAX_TEXT,
    Cursor,
    Key,
    MapOf,
    Mistake,
    Section,
    Value,
    parse_section,
    raise_first,
)

_MAX_SECRETS = 200
_VARIABLE = re.compile(r"[A-Za-z_][A-Za-z0-9_]{0,254}")
_TOKEN = re.compile(r"[!#$%&'*+.^_`|~0-9A-Za-z-]{1,100}")
_HOST_NAME = re.compile(r"(?:[a-z0-9-]{1,40}\.){1,6}[a-z]{2,12}")  # which no token looks like
_QUERY_NAME = re.compile(r"[A-Za-z0-9_.~\[\]-]{1,100}")
# These frame or route a message; a secret in them would change where it ends or goes.
_NOT_FOR_SECRETS = frozenset({"host", "content-length", "transfer-encoding", "connection", "te",
                              "trailer", "upgrade", "expect", "proxy-connection"})  # fmt: skip
_SOURCES = "write env:VAR, file:PATH, command:WORDS or keyring:SERVICE/USER; never the value"
_PLACES = (
    "write header:NAME, header:NAME=SCHEME (as in header:Authorization=Bearer), basic:USER,"
    " query:NAME or body"
)
_HOSTS = "write to: [api.example.com]"
_EXAMPLE = "write NAME: {from: env:NAME, to: [api.example.com]}"


class SecretScheme(enum.StrEnum):
    """The place that the value of a secret comes from."""

    ENV = "env"
    FILE = "file"
    COMMAND = "command"
    KEYRING = "keyring"


class SecretTerms(msgspec.Struct, frozen=True):
    """A secret that the sandbox knows by a placeholder, and the hosts that get the real value."""

    name: str  # the variable of the environment that holds the placeholder
    source: str  # env:VAR, file:PATH, command:WORDS, keyring:SERVICE/USER
    to: tuple[HostPattern, ...]
    placed: str | None = None  # header:NAME[=SCHEME], basic:USER, query:NAME, body
    # The directory that paths of a Python caller start from; those of a file start where it lies.
    base: str | None = None

    @property
    def scheme(self) -> SecretScheme:
        return SecretScheme(self.source.partition(":")[0])

    @property
    def place(self) -> str:
        """Return the source without its scheme."""
        return self.source.partition(":")[2]

    @property
    def command(self) -> tuple[str, ...]:
        """Return the command line of a secret that a command prints."""
        return tuple(shlex.split(self.place))

    def is_for(self, host: str) -> bool:
        """Return whether a canonical host gets the real value."""
        return any(pattern.matches(host) for pattern in self.to)


def secrets_of(value: Mapping[str, Mapping[str, Any]]) -> dict[str, SecretTerms]:
    """Return the secrets that a Python caller describes like a paddock file does. Raises
    InvalidInput."""
    secrets: dict[str, SecretTerms] = parse_section(SECRETS, value, "secrets")
    return secrets


def plain_secret(terms: SecretTerms) -> dict[str, object]:
    """Return the secret as the file writes it, without its name."""
    plain: dict[str, object] = {"from": terms.source, "to": [str(host) for host in terms.to]}
    return plain if terms.placed is None else {**plain, "as": terms.placed}


def secret_mistakes(
    network: NetworkTerms | None, secrets: Mapping[str, SecretTerms]
) -> Iterator[Mistake]:
    """Yield a mistake for each secret that could never be sent, or only unseen."""
    for name, secret in secrets.items():
        path = ("secrets", name, "to")
        for pattern in secret.to:
            if network is None or not network.covers_pattern(pattern):
                hint = f"add it there, as in {pattern}:443"
                yield Mistake(path, f"{pattern} is not in network.allow", hint)
            elif any(other.overlaps(pattern) for other in network.passthrough):
                message = f"TLS to {pattern} is passed through, so nothing can be put in"
                hint = "remove it from network.tls.passthrough or from here"
                yield Mistake(path, message, hint)


def check_secrets(network: NetworkTerms | None, secrets: Mapping[str, SecretTerms]) -> None:
    """Raise InvalidInput for a secret that could never be sent."""
    raise_first(secret_mistakes(network, secrets))


def _build_secret(
    cursor: Cursor, source: str, to: tuple[HostPattern, ...], placed: str | None = None
) -> SecretTerms:
    return SecretTerms(str(cursor.path[-1]), source, to, placed)


def _parse_name(value: Any) -> str:
    """Read the name of a secret, which is a variable inside the sandbox."""
    if isinstance(value, str) and _VARIABLE.fullmatch(value):
        return value
    raise InvalidInput("not the name of a variable", hint="use letters, digits and _")


def _parse_patterns(value: Any) -> tuple[HostPattern, ...]:
    """Read the list of hosts that a secret goes to."""
    if not isinstance(value, list | tuple):
        is_name = isinstance(value, str) and _HOST_NAME.fullmatch(value)
        hint = f"write to: [{value}]" if is_name else _HOSTS
        raise InvalidInput("is not a list of hosts", hint=hint)
    if not 0 < len(value) <= MAX_ENTRIES:
        raise InvalidInput("needs at least one host", hint=_HOSTS)
    return tuple(sorted({_parse_pattern(host) for host in value}))


def _parse_pattern(value: Any) -> HostPattern:
    """Read a host; who writes a URL or a port is told to leave it out."""
    text = value if isinstance(value, str) else ""
    host = text.partition("://")[2] or text
    host = host.partition("/")[0].partition(":")[0]
    if host != text and _HOST_NAME.fullmatch(host):
        raise InvalidInput(f"{text[:60]!r} is more than a host", hint=f"write {host}")
    return HostPattern.parse(value)


def _parse_source(value: Any) -> str:
    """Read where a secret comes from. The text is never shown: it may be the value."""
    if isinstance(value, Mapping) and list(value) == ["command"]:
        return "command:" + shlex.join(_command_line(value["command"]))
    if isinstance(value, Mapping) and list(value) == ["env"]:
        raise InvalidInput("is a mapping", hint="write from: env:VAR, in one word")
    if not isinstance(value, str) or len(value) > MAX_TEXT or "\0" in value:
        raise InvalidInput("is not where a secret comes from", hint=_SOURCES)
    scheme, colon, place = value.partition(":")
    if not colon or scheme not in list(SecretScheme):
        raise InvalidInput("does not say where the secret comes from", hint=_SOURCES)
    if scheme == SecretScheme.COMMAND:
        return "command:" + shlex.join(_command_line(_split(place)))
    if scheme == SecretScheme.ENV and not _VARIABLE.fullmatch(place):
        raise InvalidInput("env: needs the name of a variable", hint="write env:STRIPE_KEY")
    service, _, user = place.rpartition("/")
    if scheme == SecretScheme.KEYRING and not (service and user):
        raise InvalidInput("keyring: needs a service and a user", hint="write keyring:SERVICE/USER")
    if not place:
        raise InvalidInput(f"{scheme}: needs something behind it", hint=_SOURCES)
    return value


def _parse_placed(value: Any) -> str:
    """Read where a secret stands in a request. The text is not shown, for the same reason."""
    text = value if isinstance(value, str) and len(value) <= 400 else ""
    way, _, what = text.partition(":")
    name, equals, scheme = what.partition("=")
    match way:
        case "body" if text == "body":
            return text
        case "header" if _TOKEN.fullmatch(name) and (not equals or _TOKEN.fullmatch(scheme)):
            if name.lower() in _NOT_FOR_SECRETS:
                raise InvalidInput(f"the header {name} cannot hold a secret", hint=_PLACES)
            return text
        case "query" if _QUERY_NAME.fullmatch(what):
            return text
        case "basic" if what and what.isascii() and what.isprintable() and ":" not in what:
            return text
    raise InvalidInput("is not a place in a request", hint=_PLACES)


def _split(text: str) -> list[str]:
    try:
        return shlex.split(text)
    except ValueError:
        raise InvalidInput("command: has a quote that does not end", hint=_SOURCES) from None


def _command_line(value: Any) -> list[str]:
    is_list = isinstance(value, list | tuple) and 0 < len(value) <= 100
    if not is_list or not all(isinstance(word, str) and "\0" not in word for word in value):
        raise InvalidInput("command: needs a list of words", hint="no shell reads them")
    if not value[0]:
        raise InvalidInput("command: needs a program", hint="write command:pass show stripe")
    return list(value)


_FROM_SCHEMA = {
    "anyOf": [
        {"type": "string", "pattern": "^(env|file|command|keyring):."},
        {
            "type": "object",
            "additionalProperties": False,
            "required": ["command"],
            "properties": {"command": {"type": "array", "items": {"type": "string"}}},
        },
    ]
}
_SECRET = Section(
    "A secret that the sandbox knows by a placeholder, and the hosts that get it.",
    _build_secret,
    {
        "from": Key(
            Value(_parse_source, _FROM_SCHEMA),
            missing="write from: env:VAR, file:PATH, command:WORDS or keyring:...",
            into="source",
            description="env:, file:, command: or keyring:; never the value",
        ),
        "to": Key(
            Value(_parse_patterns, {"type": "array", "items": HOST_SCHEMA, "minItems": 1}),
            missing=_HOSTS,
            description="the hosts that get the real value",
        ),
        "as": Key(
            Value(
                _parse_placed,
                {"type": "string", "pattern": "^(header:.+|basic:.+|query:.+|body)$"},
            ),
            into="placed",
            description="where it stands in a request",
        ),
    },
    hint=_EXAMPLE,
    unknown_hints={"value": "write from: env:NAME; the value itself never stands in the file"},
)
SECRETS = MapOf(_SECRET, _MAX_SECRETS, _EXAMPLE, _parse_name)
