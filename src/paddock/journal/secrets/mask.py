"""Secrets are replaced on the way into a journal: `{{secret:NAME}}` stands where the value stood.

In which encodings a value is found, `search` says; in a stream also when it comes in pieces.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

from paddock.journal.secrets.search import Needle, Needles, replaced
from paddock.model.errors import InvalidInput

MIN_SECRET = 6  # shorter ones are found in honest text everywhere, also by who looks for them
_NAME = re.compile(r"[A-Za-z0-9_][A-Za-z0-9_.-]{0,127}")
_PIECE = 64 << 10  # characters


class Masker:
    """Knows the secrets of a run, by name, and takes them out of text and of JSON values."""

    def __init__(self, secrets: Mapping[str, str] | None = None) -> None:
        by_length = sorted((secrets or {}).items(), key=lambda item: -len(item[1]))
        self._needles = Needles([_checked(name, value) for name, value in by_length])

    def __bool__(self) -> bool:
        return bool(self._needles)

    def is_clean(self, text: str) -> bool:
        """Return whether no secret shows in the text. JSON text is clean only if all its values
        are."""
        return not self._needles or self._needles.first(_encoded(text)) is None

    def is_clean_long(self, text: str) -> bool:
        """Return the same for a long text, searched in pieces: no other thread runs during a
        search."""
        # A secret that begins in a piece ends in what is looked at.
        size = _PIECE + self._needles.max_length
        starts = range(0, max(len(text), 1), _PIECE)
        return all(self.is_clean(text[start : start + size]) for start in starts)

    def mask_text(self, text: str) -> str:
        if not self._needles:
            return text
        data = _encoded(text)
        spans = self._needles.spans(data)
        return _decoded(replaced(data, spans, _placeholder)) if spans else text

    def mask(self, value: Any) -> Any:
        """Return a JSON value with every secret replaced, in keys as well."""
        match value:
            case None | bool():
                return value
            case str():
                return self.mask_text(value)
            case int() | float():
                masked = self.mask_text(str(value))
                return value if masked == str(value) else masked
            case Mapping():
                return self._mask_object(value)
            case list() | tuple():
                return [self.mask(item) for item in value]
            case _:
                return value

    def stream(self) -> MaskedStream:
        """Return a masker for text that comes in pieces."""
        return MaskedStream(self._needles)

    def _mask_object(self, value: Mapping[str, Any]) -> dict[str, Any]:
        masked: dict[str, Any] = {}
        for key, item in value.items():
            name = self.mask_text(key) if isinstance(key, str) else key
            while name in masked:  # two secrets as keys may become one name: keep both values
                name += "'"
            masked[name] = self.mask(item)
        return masked


class MaskedStream:
    """Text in pieces in, masked text out; held back is only what may be the start of a secret."""

    def __init__(self, needles: Needles) -> None:
        self._needles = needles
        self._held = b""

    def feed(self, text: str) -> str:
        """Return what of all text so far can be let go."""
        if not self._needles:
            return text
        data = self._held + _encoded(text)
        spans = self._needles.spans(data)
        cut = self._needles.open_end(data, spans)
        self._held = data[cut:]
        done = [span for span in spans if span[1] <= cut]
        return _decoded(replaced(data[:cut], done, _placeholder))

    def finish(self) -> str:
        """Return the rest, when no more text comes."""
        rest, self._held = self._held, b""
        return _decoded(replaced(rest, self._needles.spans(rest), _placeholder))


def _checked(name: str, value: str) -> Needle:
    if not _NAME.fullmatch(name):
        raise InvalidInput(f"{name!r:.80} is not a name for a secret")
    if len(value) < MIN_SECRET:
        raise InvalidInput(
            f"the secret {name} has fewer than {MIN_SECRET} characters and cannot be masked",
            hint="use a longer one: text would be full of false matches",
        )
    try:
        return Needle(name, value)
    except UnicodeEncodeError:
        raise InvalidInput(f"the secret {name} is not text") from None


def _placeholder(name: str, _: int) -> bytes:
    return f"{{{{secret:{name}}}}}".encode()


def _encoded(text: str) -> bytes:
    return text.encode("utf-8", "surrogatepass")


def _decoded(data: bytes) -> str:
    try:
        return data.decode("utf-8", "surrogatepass")
    except UnicodeDecodeError:  # a span can begin within a character that is not the secret's
        return data.decode("utf-8", "replace")
