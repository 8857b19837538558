"""The arguments of MAIL and RCPT."""

from __future__ import annotations

import re
from typing import Self

import msgspec

from paddock.world.services.untrusted import is_address

_PATH = re.compile(r"\s*(?:<(?P<path>(?:\"(?:[^\"\\]|\\.)*\"|[^<>\"])*)>|(?P<bare>[^\s<>]+))"
                   r"(?P<rest>\s.*)?")  # fmt: skip
_ROUTE = re.compile(r"@[^:]*:")  # an obsolete list of hosts to go by, to be ignored


class BadCommand(Exception):
    """A command that is answered with an error."""

    def __init__(self, code: int, text: str) -> None:
        super().__init__(text)
        self.code = code
        self.text = text


class Parameters(msgspec.Struct, frozen=True):
    """What may follow the sender."""

    size: int = 0
    is_utf8: bool = False

    @classmethod
    def read(cls, words: list[str]) -> Self:
        size, is_utf8 = 0, False
        for word in words:
            name, _, value = word.upper().partition("=")
            if name == "SIZE" and value.isdecimal() and len(value) <= 20:
                size = int(value)
            elif name == "SMTPUTF8" and not value:
                is_utf8 = True
            elif not (name == "AUTH" or (name == "BODY" and value in ("7BIT", "8BITMIME"))):
                raise BadCommand(555, "5.5.4 no such parameter")
        return cls(size, is_utf8)


def read_path(text: str, word: str) -> tuple[str, list[str]]:
    """The address and what follows it. An empty one is nobody: the sender of bounces."""
    if not text.upper().startswith(word):
        raise BadCommand(501, f"5.5.4 {word}<address> is missing")
    found = _PATH.fullmatch(text[len(word) :])
    if found is None:
        raise BadCommand(501, "5.5.2 not understood")
    path = found["path"] if found["path"] is not None else found["bare"]
    path = _ROUTE.sub("", path, count=1) if path.startswith("@") else path
    if path and path.lower() != "postmaster" and not is_address(path):
        raise BadCommand(501, "5.1.3 not an address")
    return path, (found["rest"] or "").split()
