"""How secrets are written, in a file or by a caller: from plain words to terms.

The value of a secret must never get here. A text that could be one is not repeated in any message.
"""

from __future__ import annotations

import re
import shlex
from collections.abc import Iterator, Mapping
from typing import Any

from paddock.model.errors import InvalidInput
from paddock.model.hosts import HostPattern
from paddock.policy.network import NetworkTerms, SecretTerms, Source
from paddock.policy.problems import spell_path
from paddock.policy.words import MAX_ENTRIES, MAX_TEXT, Complaint, known_keys, raise_first, within

MAX_SECRETS = 200
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


def secrets_of(words: Mapping[str, Mapping[str, Any]]) -> dict[str, SecretTerms]:
    """The secrets that a caller describes with the words of the file. Raises InvalidInput."""
    if not isinstance(words, Mapping):
        raise InvalidInput("secrets: not a mapping from names to where they come from and go")
    if len(words) > MAX_SECRETS:
        raise InvalidInput(f"secrets: more than {MAX_SECRETS}")
    return {name: _secret(name, one) for name, one in words.items()}


def secret_problems(
    network: NetworkTerms | None, secrets: Mapping[str, SecretTerms]
) -> Iterator[Complaint]:
    """Secrets that could never be sent, or only unseen."""
    for name, one in secrets.items():
        for pattern in one.to:
            path = ("secrets", name, "to")
            if network is None or not network.covers_pattern(pattern):
                yield (path, f"{pattern} is not in network.allow",
                       f"add it there, as in {pattern}:443")  # fmt: skip
            elif any(other.overlaps(pattern) for other in network.passthrough):
                yield (path, f"TLS to {pattern} is passed through, so nothing can be put in",
                       "remove it from network.tls.passthrough or from here")  # fmt: skip


def check_secrets(network: NetworkTerms | None, secrets: Mapping[str, SecretTerms]) -> None:
    """Raises InvalidInput for a secret that could never be sent."""
    raise_first(secret_problems(network, secrets))


def parse_name(value: Any) -> str:
    """The name of a secret, which is a variable inside the sandbox."""
    if isinstance(value, str) and _VARIABLE.fullmatch(value):
        return value
    raise InvalidInput("not the name of a variable", hint="use letters, digits and _")


def parse_patterns(value: Any) -> tuple[HostPattern, ...]:
    """The list of hosts that a secret goes to."""
    if not isinstance(value, list | tuple):
        is_name = isinstance(value, str) and _HOST_NAME.fullmatch(value)
        hint = f"write to: [{value}]" if is_name else _HOSTS
        raise InvalidInput("is not a list of hosts", hint=hint)
    if not 0 < len(value) <= MAX_ENTRIES:
        raise InvalidInput("needs at least one host", hint=_HOSTS)
    return tuple(sorted({_pattern(one) for one in value}))


def _pattern(value: Any) -> HostPattern:
    """Parse a host; who writes a URL or a port is told to leave it out."""
    text = value if isinstance(value, str) else ""
    host = text.partition("://")[2] or text
    host = host.partition("/")[0].partition(":")[0]
    if host != text and _HOST_NAME.fullmatch(host):
        raise InvalidInput(f"{text[:60]!r} is more than a host", hint=f"write {host}")
    return HostPattern.parse(value)


def parse_source(value: Any) -> str:
    """Where a secret comes from, in one spelling. The text is never shown: it may be the value."""
    if isinstance(value, Mapping) and list(value) == ["command"]:
        return "command:" + shlex.join(_words(value["command"]))
    if isinstance(value, Mapping) and list(value) == ["env"]:
        raise InvalidInput("is a mapping", hint="write from: env:VAR, in one word")
    if not isinstance(value, str) or len(value) > MAX_TEXT or "\0" in value:
        raise InvalidInput("is not where a secret comes from", hint=_SOURCES)
    scheme, colon, place = value.partition(":")
    if not colon or scheme not in list(Source):
        raise InvalidInput("does not say where the secret comes from", hint=_SOURCES)
    if scheme == Source.COMMAND:
        return "command:" + shlex.join(_words(_split(place)))
    if scheme == Source.ENV and not _VARIABLE.fullmatch(place):
        raise InvalidInput("env: needs the name of a variable", hint="write env:STRIPE_KEY")
    service, _, user = place.rpartition("/")
    if scheme == Source.KEYRING and not (service and user):
        raise InvalidInput("keyring: needs a service and a user", hint="write keyring:SERVICE/USER")
    if not place:
        raise InvalidInput(f"{scheme}: needs something behind it", hint=_SOURCES)
    return value


def parse_placed(value: Any) -> str:
    """Where a secret stands in a request. The text is not shown, for the same reason."""
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


def _secret(name: Any, words: Any) -> SecretTerms:
    path = ("secrets", str(name)[:100])
    within(path, parse_name, name)
    given = known_keys(words, ("from", "to", "as"), path)
    for key, hint in (("from", _SOURCES), ("to", _HOSTS)):
        if key not in given:
            raise InvalidInput(f"{spell_path(path)}: {key} is missing", hint=hint)
    return SecretTerms(
        name=name,
        source=within((*path, "from"), parse_source, given["from"]),
        to=within((*path, "to"), parse_patterns, given["to"]),
        placed=within((*path, "as"), parse_placed, given["as"]) if "as" in given else None,
    )


def _split(text: str) -> list[str]:
    try:
        return shlex.split(text)
    except ValueError:
        raise InvalidInput("command: has a quote that does not end", hint=_SOURCES) from None


def _words(value: Any) -> list[str]:
    is_list = isinstance(value, list | tuple) and 0 < len(value) <= 100
    if not is_list or not all(isinstance(one, str) and "\0" not in one for one in value):
        raise InvalidInput("command: needs a list of words", hint="no shell reads them")
    if not value[0]:
        raise InvalidInput("command: needs a program", hint="write command:pass show stripe")
    return list(value)
