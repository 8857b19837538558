"""Host names in one spelling, and patterns over them. Nothing is looked up here.

Every part that compares hosts compares what `canonical_host` gives. What could lead somewhere under
more than one reading (`127.1`, `0x7f000001`, a zone) is refused instead of guessed at.
"""

from __future__ import annotations

import re
import unicodedata
from functools import lru_cache
from ipaddress import IPv6Address, ip_address

import msgspec

from paddock.model.errors import InvalidInput

MAX_HOST = 253  # of DNS, without the root's dot
MAX_LABEL = 63
_MAX_TEXT = 1024  # before it is spelled; longer is an attack, not a name
_LABEL = re.compile(r"[a-z0-9_](?:[a-z0-9_-]*[a-z0-9_])?")
# Resolvers take a name that ends like this for an address, in octal or in hex, with parts left out.
_NUMERIC = re.compile(r"[0-9]+|0x[0-9a-f]*")
_OTHER_DOTS = str.maketrans("\u3002\uff0e\uff61", "...")
# Standards for names in other scripts disagree about these or drop them unseen, so one text would
# be two names: sharp s, final sigma, joiners, fillers, marks that choose between glyphs.
_DISPUTED = re.compile(
    "[\u00ad\u00df\u1e9e\u03c2\u034f\u115f\u1160\u17b4\u17b5\u180b-\u180f\u200b-\u200f\u2060-\u206f"
    "\u3164\ufe00-\ufe0f\ufeff\uffa0\U000e0000-\U000e0fff]"
)
_LETTERS = frozenset({"Ll", "Lo", "Lm", "Mn", "Mc", "Nd"})
# Below a country's domain these are not a company's name but a registry's.
_REGISTRIES = frozenset({"ac", "co", "com", "edu", "gov", "ltd", "mil", "net", "or", "org", "plc"})


def canonical_host(text: str) -> str:
    """Return the canonical form of a name or address: lower case, no root dot, A-labels; IPv4 as
    four numbers, IPv6 compressed and without brackets. Raises InvalidInput for anything else."""
    if not isinstance(text, str) or not text:
        what = "an empty text" if text == "" else f"a {type(text).__name__}"
        raise InvalidInput(f"{what} is not a host", hint="write a name or an address")
    if len(text) > _MAX_TEXT:
        raise InvalidInput(f"{text[:60]!r}... is too long for a host")
    return _canonical(text)


def is_address(host: str) -> bool:
    """Return whether a canonical host is an address and not a name."""
    return ":" in host or host.rpartition(".")[2].isdigit()


def bracketed(host: str) -> str:
    """Return a canonical host as it stands before a port: an IPv6 address is in brackets."""
    return f"[{host}]" if ":" in host else host


class HostPattern(msgspec.Struct, frozen=True, order=True):
    """One host, or with a wildcard all below it, at any depth. The host itself is then not meant,
    and neither is one that only ends alike (`evilexample.com`)."""

    host: str  # canonical, without the wildcard
    is_wildcard: bool = False

    @classmethod
    def parse(cls, text: str) -> HostPattern:
        """Parse `api.example.com`, `*.example.com`, `10.0.0.5` or `[::1]`. Raises InvalidInput."""
        if not isinstance(text, str) or not text.startswith("*"):
            _forbid_stars(text)
            return cls(canonical_host(text))
        if text == "*":
            raise InvalidInput("'*' would be every host", hint="name the hosts that are needed")
        rest = text.removeprefix("*.")
        _forbid_stars(rest)
        host = canonical_host(rest)
        if is_address(host):
            raise InvalidInput(f"{text[:60]!r}: an address has nothing below it")
        if _is_shared(host):
            raise InvalidInput(
                f"{text[:60]!r} would be hosts of everybody", hint="write *. and a domain you know"
            )
        return cls(host, is_wildcard=True)

    def matches(self, host: str) -> bool:
        """Return whether the pattern matches a canonical host."""
        return host.endswith("." + self.host) if self.is_wildcard else host == self.host

    def covers(self, other: HostPattern) -> bool:
        """Return whether the pattern matches every host that the other one matches."""
        if other.is_wildcard and other.host == self.host:
            return self.is_wildcard
        return self.matches(other.host) and (self.is_wildcard or not other.is_wildcard)

    def overlaps(self, other: HostPattern) -> bool:
        """Return whether some host matches both patterns."""
        return self.covers(other) or other.covers(self)

    def __str__(self) -> str:
        return f"*.{self.host}" if self.is_wildcard else self.host


@lru_cache(maxsize=4096)
def _canonical(text: str) -> str:
    host = text.lower() if text.isascii() else _ascii(text)
    if host.startswith("[") and host.endswith("]"):
        host = host[1:-1]
        if ":" not in host:
            raise InvalidInput(f"{text[:60]!r} is not an address", hint="only IPv6 has brackets")
    if ":" in host:
        return _address(host)
    host = host.removesuffix(".")
    if _NUMERIC.fullmatch(host.rpartition(".")[2]):
        return _address(host)
    _check_name(host)
    return host


def _check_name(host: str) -> None:
    if len(host) > MAX_HOST:
        raise InvalidInput(f"{host[:60]!r}... is longer than {MAX_HOST} characters")
    for label in host.split("."):
        if len(label) > MAX_LABEL:
            raise InvalidInput(f"{label[:60]!r}... is longer than {MAX_LABEL} characters")
        if not _LABEL.fullmatch(label):
            raise InvalidInput(
                f"{host[:60]!r} is not a host", hint="write the name only, as in api.example.com"
            )


def _address(host: str) -> str:
    try:
        address = ip_address(host)
    except ValueError:
        raise InvalidInput(
            f"{host[:60]!r} is neither a name nor an address",
            hint="write IPv4 as four numbers, as in 127.0.0.1",
        ) from None
    if isinstance(address, IPv6Address):
        if address.scope_id is not None:
            raise InvalidInput(f"{host[:60]!r}: an address with a zone is not supported")
        # The same machine, and rules about its IPv4 address must see it.
        return str(address.ipv4_mapped or address)
    return str(address)


def _ascii(text: str) -> str:
    """Encode an internationalised name as it goes over the wire."""
    if _DISPUTED.search(text):
        raise InvalidInput(
            f"{text[:60]!r} is read as different names by different programs",
            hint="write the name as it goes over the wire, with xn--",
        )
    dotted = text.translate(_OTHER_DOTS)
    folded = unicodedata.normalize("NFKC", dotted.casefold())
    folded = unicodedata.normalize("NFKC", folded.casefold())
    if folded.count(".") != dotted.count("."):  # one character that hides a dot
        raise InvalidInput(f"{text[:60]!r} is not a host", hint="write letters, digits and -")
    return ".".join(_a_label(label, text) for label in folded.split("."))


def _a_label(label: str, text: str) -> str:
    if label.isascii():
        return label
    is_plain = all(
        character == "-" or unicodedata.category(character) in _LETTERS for character in label
    )
    is_framed = label[0] != "-" != label[-1] and unicodedata.category(label[0])[0] != "M"
    if not is_plain or not is_framed or label[2:4] == "--":
        raise InvalidInput(f"{text[:60]!r} is not a host", hint="write letters, digits and -")
    return "xn--" + label.encode("punycode").decode("ascii")


def _forbid_stars(text: object) -> None:
    if isinstance(text, str) and "*" in text:
        raise InvalidInput(
            f"{text[:60]!r}: a wildcard stands for whole labels, at the front",
            hint="write *.example.com for all hosts below example.com",
        )


def _is_shared(host: str) -> bool:
    """Return whether anybody can register names below it: `com`, `co.uk`."""
    labels = host.split(".")
    return len(labels) == 1 or (
        len(labels) == 2 and len(labels[1]) == 2 and labels[0] in _REGISTRIES
    )
