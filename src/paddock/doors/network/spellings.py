"""Finds texts in bytes, in whatever spelling: as they are, escaped as JSON, percent-encoded, in hex
and in base64 at any alignment. What a spelling is, the journal's mask says (`mask_shapes`).

Most of what passes the door holds no secret, so plain searches for short windows of each spelling
come first; expressions run only where one is found. The filter never says no where an expression
would say yes, but for base64 in lines shorter than those that tools make, and for some hex in
letters of both sizes.
"""

from __future__ import annotations

import base64
import re
from collections.abc import Iterable
from dataclasses import replace
from functools import cached_property

from paddock.journal.mask_shapes import Shape, shapes

Span = tuple[int, int, str]
_WINDOW = 8  # longer ones are found no faster
_MIN_WINDOW = 3  # shorter ones are found everywhere
_LINE = 60  # base64 in lines has at least so many characters between two breaks
_MAX_NESTED = 6  # see _Form._tail
_CUTS = (3, 2, 1)  # where a character of UTF-8 can be cut
_PLAIN = re.compile(rb"[A-Za-z0-9._~-]+")
_DECIMAL = re.compile(rb"[0-9]+")
_LETTERS = re.compile(rb"[A-Za-z0-9]+")
# An honest encoder leaves letters and digits alone. `25` is the percent sign of an inner encoding.
_OF_PLAIN = rb"(?:2[DdEe]|3[0-9]|4[1-9A-Fa-f]|5[0-9AaFf]|6[1-9A-Fa-f]|7[0-9AaEe])"
_NEEDLESS_PERCENT = re.compile(rb"%(?:25){0,3}" + _OF_PLAIN)
_NEEDLESS_UNICODE = re.compile(rb"u00" + _OF_PLAIN)
# Whatever can stand between the first and the last byte of an escape or of a line break.
_ESCAPING = b"%\\unr+0123456789abcdefABCDEF"
_OF_BASE64 = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/-_=%\\\r\n"


class Needle:
    """One text to find, by name. Its expressions are compiled when they are first needed."""

    def __init__(self, name: str, text: str) -> None:
        self.name = name
        self._text = text
        # None: no window is plain enough, so only the expressions can tell.
        self._windows = _windows(text.encode())

    def __repr__(self) -> str:
        return f"<Needle {self.name}>"  # the text may be a secret

    def __reduce__(self) -> str:
        raise TypeError("a needle may hold a secret and is not copied")

    def may_be_in(self, data: bytes) -> bool:
        """Whether a window of a spelling is there, whole. Escapes are `is_oddly_escaped`'s."""
        if self._windows is None:
            return True
        for window in self._windows:  # noqa: SIM110 - a generator takes longer than the searches
            if window in data:
                return True
        return False

    def is_in(self, data: bytes) -> bool:
        return any(form.core.search(data) is not None for form in self._forms)

    def spans(self, data: bytes) -> list[Span]:
        return [
            (match.start(), match.end(), self.name)
            for form in self._forms
            if form.core.search(data) is not None
            for match in form.whole.finditer(data)
        ]

    def open_end(self, data: bytes, spans: list[Span]) -> int:
        return min(form.open_end(data, spans) for form in self._forms)

    @cached_property
    def _forms(self) -> tuple[_Form, ...]:
        escaped, digits, *encoded = shapes(self._text)
        return (
            _Form(escaped, self._text.encode() + _ESCAPING, self._text),
            _Form(digits, b"0123456789abcdefABCDEF"),
            *(_Form(shape, _OF_BASE64) for shape in encoded),
        )


class Needles:
    """Several texts to find at once."""

    def __init__(self, needles: Iterable[Needle]) -> None:
        self.all = tuple(needles)

    def __bool__(self) -> bool:
        return bool(self.all)

    def suspects(self, data: bytes) -> tuple[Needle, ...]:
        """Those that may be in the data; in honest data mostly none."""
        if not self.all or is_oddly_escaped(data):
            return self.all
        return tuple([needle for needle in self.all if needle.may_be_in(data)])

    def first(self, data: bytes) -> str | None:
        """The name of one that is in the data."""
        for needle in self.suspects(data):
            if needle.is_in(data):
                return needle.name
        return None

    def spans(self, data: bytes) -> list[Span]:
        """Where they stand, in order; where two overlap they are one, named after the first."""
        found = [span for needle in self.suspects(data) for span in needle.spans(data)]
        return _merged(found) if found else []

    def open_end(self, data: bytes, spans: list[Span]) -> int:
        """Where one may begin that goes on behind the end of the data, not counting `spans`; the
        end when there is none."""
        return min((one.open_end(data, spans) for one in self.all), default=len(data))


def is_oddly_escaped(data: bytes) -> bool:
    """Whether a letter or digit is escaped, which only somebody who hides something does."""
    if b"%" in data and _NEEDLESS_PERCENT.search(data) is not None:
        return True
    return b"u00" in data and _NEEDLESS_UNICODE.search(data) is not None


class _Form:
    """One spelling, compiled for bytes when it is needed: that takes milliseconds.

    As UTF-8 an expression over characters is one over bytes: no class in it has others than ASCII.
    """

    def __init__(self, shape: Shape, alphabet: bytes, characters: str = "") -> None:
        self._shape = shape
        self._alphabet = alphabet  # all bytes that can be in it
        # Of characters that are several bytes, which data may end within.
        self._begun = {one.encode()[:size] for one in characters for size in _CUTS} - {
            one.encode() for one in characters
        }

    @cached_property
    def core(self) -> re.Pattern[bytes]:
        return re.compile(self._shape.core.encode())

    @cached_property
    def whole(self) -> re.Pattern[bytes]:
        return re.compile(self._shape.pattern.encode())

    @cached_property
    def _tail(self) -> re.Pattern[bytes]:
        """Finds where data end within the spelling. Behind a few pieces any end will do: nested
        deeper, an expression takes longer to compile than a request may take."""
        shape = self._shape
        if len(shape.pieces) > _MAX_NESTED:
            shape = replace(shape, pieces=(*shape.pieces[:_MAX_NESTED], "(?s:.*)"))
        return re.compile(shape.tail.encode())

    def open_end(self, data: bytes, spans: list[Span]) -> int:
        size = len(data)
        start, end = self._start_of_end(data), self._end_of_characters(data)
        while start < size and (found := self._tail.search(data, start, end)) is not None:
            inside = next((one for one in spans if one[0] <= found.start() < one[1]), None)
            if inside is None:
                return min(found.start(), self._last_start(spans, size))
            start = inside[1]
        return self._last_start(spans, size)

    def _start_of_end(self, data: bytes) -> int:
        """Only the last bytes that are all of the alphabet can be the beginning of a spelling."""
        last = data[-self._shape.max_length :]
        return len(data) - len(last) + len(last.rstrip(self._alphabet))

    def _end_of_characters(self, data: bytes) -> int:
        size = len(data)
        if self._begun:
            for cut in _CUTS:
                if data[-cut:] in self._begun:
                    return size - cut
        return size

    def _last_start(self, spans: list[Span], size: int) -> int:
        """The last span is not whole yet when one more character may belong to it."""
        if self._shape.after and spans and spans[-1][1] == size:
            return spans[-1][0]
        return size


def _windows(data: bytes) -> tuple[bytes, ...] | None:
    plain = _best_window(data, _PLAIN)
    windows = {plain, *_hex_windows(data.hex().encode())}
    for shift in range(3):
        windows.update(_twice(_base64_core(data, shift)))
    return None if None in windows else tuple(sorted(filter(None, windows)))


def _best_window(data: bytes, of: re.Pattern[bytes]) -> bytes | None:
    """The last of the longest runs that no encoder changes: keys begin alike, and end in chance."""
    runs = sorted(of.findall(data), key=len)
    if not runs or len(runs[-1]) < _MIN_WINDOW:
        return None
    return bytes(runs[-1][-_WINDOW:])


def _hex_windows(digits: bytes) -> tuple[bytes, ...]:
    """One of decimal digits alone, where there is one, finds small and capital letters alike."""
    decimal = _best_window(digits, _DECIMAL)
    if decimal is not None and len(decimal) >= 6:
        return (decimal,)
    return digits[-_WINDOW:], digits[-_WINDOW:].upper()


def _twice(data: bytes) -> tuple[bytes | None, bytes | None]:
    """Two windows that one line break cannot both hit."""
    line = data[:_LINE]
    half = len(line) // 2
    return _best_window(line[:half], _LETTERS), _best_window(line[half:], _LETTERS)


def _base64_core(data: bytes, shift: int) -> bytes:
    """What of the base64 follows from the data alone, `shift` bytes behind a group's beginning."""
    text = base64.b64encode(b"\0" * shift + data).rstrip(b"=")
    is_cut = (shift + len(data)) % 3 != 0
    return text[(0, 2, 3)[shift] : -1 if is_cut else None]


def _merged(found: list[Span]) -> list[Span]:
    spans: list[Span] = []
    for start, end, name in sorted(found, key=lambda span: (span[0], -span[1])):
        if spans and start < spans[-1][1]:
            before = spans[-1]
            spans[-1] = (before[0], max(end, before[1]), before[2])
        else:
            spans.append((start, end, name))
    return spans
