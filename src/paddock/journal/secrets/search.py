"""Finds secrets in bytes in whatever encoding: as they are, in UTF-16 and UTF-32, escaped as in
JSON, JavaScript or C, percent-encoded, with character references of HTML, in hex, and in base64 at
any alignment, by themselves or as a part of a document in JSON, HTML or a form. What is in hex or
base64 may be in UTF-16.

All escapes are undone first, again and again while that changes anything, which gives one decoded
text with the place of each of its bytes in the original. What was done to a secret need then not be
known: the same is done to the secret, and the two are compared by plain search. Escapes nested in
escapes of the same kind are undone in one pass, and passes are few, so the time is linear in the
length of the data, whatever they are.

Most data have no secret in them, so a search for a few letters of each encoding comes first.
Encoders leave ASCII letters and digits alone; data in which one is escaped are always decoded.
"""

from __future__ import annotations

import base64
import html
import json
import re
from bisect import bisect_left, bisect_right
from collections.abc import Callable, Iterable, Iterator
from functools import cached_property
from html.entities import html5
from itertools import accumulate
from urllib.parse import quote

import msgspec

Span = tuple[int, int, str]  # where it starts and ends, and its name

_PASSES = 5  # of escapes of one kind within escapes of another
_MAX_ESCAPE = 48  # bytes that one byte of a secret takes, at most, when it is cut in a stream
_MAX_ESCAPE_OF_LONG = 8  # the same for a long secret, beyond the first bytes
_MAX_TAIL = 8 << 10
_MAX_PARTIAL = 128  # bytes of an escape that is not whole yet
_WINDOW = 8  # longer ones are found no faster
_MIN_WINDOW = 3  # shorter ones are found everywhere
_MIN_DECODED = 4  # a secret of little but escapes is looked for as it is only
_SKIPPED = 8  # bytes of a secret that an escape right before it can swallow
_WIDE = ("utf-16-le", "utf-16-be", "utf-32-le", "utf-32-be")
_LINE = 60  # tools make base64 in lines no shorter than this
_SPACE = b" \t\r\n"
_SPACES = re.compile(rb"[ \t\r\n]+")
_BASE64 = frozenset(b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/")
_URL_SAFE = bytes.maketrans(b"-_", b"+/")
_FORM = bytes.maketrans(b"+", b" ")
_RUN = re.compile(rb"[A-Za-z0-9]+")

_HEX = rb"[0-9A-Fa-f]"
_LEGACY_NAMES = rb"(?:amp|AMP|lt|LT|gt|GT|quot|QUOT)"  # these need no semicolon
# A run of backslashes is one escape, and so is a run of "25" after "%" and of "amp;" after "&":
# that is what each level of nesting adds. What follows a run can be empty or a part of the run
# itself, so no run is looked at more than twice.
_ESCAPE = re.compile(
    rb"\\{1,64}(?:"
    rb"u(?P<high>[dD][89abAB]" + _HEX + rb"{2})\\{1,64}u(?P<low>[dD][c-fC-F]" + _HEX + rb"{2})"
    rb"|u(?P<unit>" + _HEX + rb"{4})|[ux]\{0{0,8}(?P<point>" + _HEX + rb"{1,6})\}"
    rb"|U00(?P<long>" + _HEX + rb"{6})"
    rb"|x(?P<byte>" + _HEX + rb"{2})|(?P<octal>[0-3][0-7]{2})|(?P<letter>[\"'/nrtbf])?)"
    rb"|%(?:25)*(?:u(?P<percent_unit>" + _HEX + rb"{4})|(?P<percent>" + _HEX + rb"{2}))"
    rb"|&(?:amp;)*(?:#0{0,16}(?P<decimal>[1-9][0-9]{0,6});?"
    rb"|#[xX]0{0,16}(?P<hexadecimal>[1-9A-Fa-f]" + _HEX + rb"{0,5});?"
    rb"|(?P<name>[A-Za-z][A-Za-z0-9]{1,31};|" + _LEGACY_NAMES + rb"))"
)  # fmt: skip
_BEGUN = re.compile(
    rb"(?:\\{1,64}u[dD][89abAB]" + _HEX + rb"{2})?"
    rb"(?:\\{1,64}(?:[uU]\{?" + _HEX + rb"{0,14}|x(?:\{" + _HEX + rb"{0,14}|" + _HEX + rb"?)"
    rb"|[0-7]{1,2})?"
    rb"|%(?:25)*u?" + _HEX + rb"{0,3}|&(?:amp;)*#?[0-9A-Za-z]{0,40})\Z"
    rb"|\\{1,64}u[dD][89abAB]" + _HEX + rb"{2}\Z"
)  # fmt: skip
# Letters and digits, which no honest encoder escapes.
_NEEDLESS_HEX = rb"(?:3[0-9]|[46][1-9A-Fa-f]|[57][0-9Aa])"
_NEEDLESS_DECIMAL = rb"(?:4[89]|5[0-7]|6[5-9]|[78][0-9]|9[0789]|1[01][0-9]|12[0-2])(?![0-9])"
_NEEDLESS = re.compile(
    rb"\\(?:u00|U0{6}|[ux]\{0*|x)" + _NEEDLESS_HEX + rb"|\\(?:06[0-7]|07[01]|1[0-7][0-7])"
    rb"|%(?:25)*(?:u00)?" + _NEEDLESS_HEX
    + rb"|&(?:amp;)*#(?:0*" + _NEEDLESS_DECIMAL
    + rb"|[xX]0*" + _NEEDLESS_HEX + rb"(?!" + _HEX + rb"))"
)  # fmt: skip
# "%", "&", "\\" and what else escapes are made of: escaped, they may make one in the next pass.
_MARK_HEX = rb"(?:2[356]|5[cC]|7[bBdD])"
_ESCAPED_MARK = re.compile(
    rb"\\(?:u00|U0{6}|[ux]\{0*|x)" + _MARK_HEX + rb"|\\(?:04[356]|134|17[35])"
    rb"|%(?:25)*(?:u00)?" + _MARK_HEX
    + rb"|&(?:amp;)*(?:#0*(?:3[578]|92|12[35])(?![0-9])|#[xX]0*" + _MARK_HEX + rb"(?!" + _HEX
    + rb")|(?:num|percnt|bsol|lbrace|lcub|rbrace|rcub);)"
)  # fmt: skip
ESCAPE_MARKS = (b"\\", b"%", b"&")
_LETTERS = {
    b"n": b"\n", b"r": b"\r", b"t": b"\t", b"b": b"\b", b"f": b"\f",
    b'"': b'"', b"'": b"'", b"/": b"/",
}  # fmt: skip


_BYTES = {
    (first + second).encode(): bytes((int(first + second, 16),))
    for first in "0123456789abcdefABCDEF"
    for second in "0123456789abcdefABCDEF"
}


class Needle:
    """One text to find, by name, with what it looks like in each encoding."""

    def __init__(self, name: str, text: str) -> None:
        self.name = name
        self._data = text.encode()

    def __repr__(self) -> str:
        return f"<Needle {self.name}>"

    def __reduce__(self) -> str:
        raise TypeError("the value of a secret is not copied")

    @property
    def max_length(self) -> int:
        """Bytes of the longest encoding that is found across the pieces of a stream."""
        size = len(self._data)
        return min(_MAX_ESCAPE * size + _MAX_PARTIAL, _MAX_ESCAPE_OF_LONG * size + _MAX_TAIL)

    def may_be_in(self, data: _Data) -> bool:
        """Return whether some letters of an encoding are there. Escaped letters are
        `is_oddly_escaped`."""
        plain, wide, digits, encoded = self._windows
        if plain is None or plain in data.raw:
            return True
        if any(window in data.text.lowered for window in digits):
            return True
        if b"\0" in data.raw and any(window in data.raw for window in wide):
            return True
        return any(window is None or window in data.text.squeezed for window in encoded)

    def is_in(self, raw: bytes) -> bool:
        return self.shows_in(_Data(raw))

    def shows_in(self, data: _Data) -> bool:
        """Return whether it is there, be it without its beginning."""
        patterns = self._patterns if self._rest is None else (*self._patterns, self._rest)
        return any(one.is_in(text) for text in data.texts for one in patterns)

    def spans(self, data: _Data) -> Iterator[tuple[int, int]]:
        """Yield where it stands, in no order."""
        if not self.shows_in(data):
            return  # the places need not be known
        whole = [span for view in data.views for one in self._patterns for span in one.spans(view)]
        yield from whole
        if self._rest is not None:
            rests = (span for view in data.views for span in self._rest.spans(view))
            yield from _apart(rests, whole)

    def begins_at(self, views: Iterable[_View]) -> Iterator[int]:
        """Places where it may begin that goes on behind the end of the data."""
        for view in views:
            for pattern in self._patterns:
                yield from pattern.begins_at(view)

    @cached_property
    def _windows(
        self,
    ) -> tuple[bytes | None, tuple[bytes, ...], tuple[bytes, ...], tuple[bytes | None, ...]]:
        encoded: list[bytes | None] = []
        for form in (*self._forms, *self._wide):
            for shift in range(3):
                line = _base64_core(form, shift)[:_LINE]
                half = len(line) // 2  # a line break that is escaped cannot be in both halves
                encoded += (_window(line[:half]), _window(line[half:]))
        plain = _window(self._data)
        # What little and big endian have in common.
        letters = [bytes((byte,)) for byte in plain or b""]
        wide = tuple((b"\0" * size).join(letters) for size in (1, 3))
        digits = [self._data.hex()[-_WINDOW:], *(form.hex()[-2 * _WINDOW :] for form in self._wide)]
        return plain, wide, tuple(window.encode() for window in digits), tuple(encoded)

    @cached_property
    def _forms(self) -> tuple[bytes, ...]:
        """The secret as it stands in a document that is in base64 as a whole."""
        text = self._data.decode()
        forms = (
            text,
            json.dumps(text)[1:-1],
            json.dumps(text, ensure_ascii=False)[1:-1],
            html.escape(text),
            quote(text, safe=""),
        )
        return tuple(dict.fromkeys(form.encode() for form in forms))

    @cached_property
    def _wide(self) -> tuple[bytes, ...]:
        """The secret in UTF-16, without the zero at its end or beginning: then both byte orders of
        a text in Latin-1 are one."""
        text = self._data.decode()
        little, big = text.encode("utf-16-le"), text.encode("utf-16-be")
        return tuple(dict.fromkeys((little.rstrip(b"\0"), big.lstrip(b"\0"))))

    @cached_property
    def _rest(self) -> _Pattern | None:
        """All but the beginning: "%4" right before a secret takes the first digit of it along."""
        decoded = decode(self._data).translate(_FORM)
        if len(decoded) < 2 * _SKIPPED:
            return None
        return _Pattern("decoded", decoded[_SKIPPED:], skipped=_SKIPPED)

    @cached_property
    def _patterns(self) -> tuple[_Pattern, ...]:
        decoded = decode(self._data)
        patterns = [_Pattern("raw", self._data)]
        if len(decoded) >= _MIN_DECODED:
            patterns.append(_Pattern("decoded", decoded.translate(_FORM)))
        hexes = (form.hex().encode() for form in (self._data, *self._wide))
        patterns += [_Pattern("hex", digits) for digits in hexes]
        text = self._data.decode()
        patterns += [_Pattern("raw", text.encode(encoding)) for encoding in _WIDE]
        for form in (*self._forms, *self._wide):
            for shift in range(3):
                core = _base64_core(form, shift)
                is_cut = (shift + len(form)) % 3 != 0
                patterns.append(_Pattern("base64", core, before=bool(shift), after=is_cut))
        return tuple(patterns)


class Needles:
    """Several texts to find at once."""

    def __init__(self, needles: Iterable[Needle]) -> None:
        self.all = tuple(needles)
        self.max_length = max((one.max_length for one in self.all), default=0)

    def __bool__(self) -> bool:
        return bool(self.all)

    def suspects(self, raw: bytes) -> tuple[Needle, ...]:
        """Return those that may be in the data, mostly none."""
        return self._suspects(_Data(raw)) if self.all else ()

    def first(self, raw: bytes) -> str | None:
        """Return the name of one that is in the data."""
        data = _Data(raw)
        for needle in self._suspects(data):
            if needle.shows_in(data):
                return needle.name
        return None

    def spans(self, raw: bytes) -> list[Span]:
        """Return where they stand, in order. Two that overlap are one, named after the first."""
        data = _Data(raw)
        found = [
            (start, end, needle.name)
            for needle in self._suspects(data)
            for start, end in needle.spans(data)
        ]
        return _merged(found) if found else []

    def open_end(self, raw: bytes, spans: list[Span]) -> int:
        """Return where one may begin that goes on behind the end of the data, not counting `spans`;
        the end where there is none."""
        offset = max(0, len(raw) - self.max_length)
        views, size = _whole_escapes(raw[offset:])
        cut = offset + size
        for needle in self.all:
            for place in needle.begins_at(views):
                start = offset + place
                if start < cut and not any(one[0] <= start < one[1] for one in spans):
                    cut = start
        # A span at the very end may take one more character along.
        return spans[-1][0] if spans and spans[-1][0] < cut <= spans[-1][1] else cut

    def _suspects(self, data: _Data) -> tuple[Needle, ...]:
        if is_oddly_escaped(data.raw):
            return self.all
        return tuple([needle for needle in self.all if needle.may_be_in(data)])


def is_oddly_escaped(data: bytes) -> bool:
    """Return whether a letter or digit is escaped, which only somebody who hides something does."""
    for _ in range(_PASSES):
        if not any(mark in data for mark in ESCAPE_MARKS):
            return False
        if _NEEDLESS.search(data) is not None:
            return True
        if _ESCAPED_MARK.search(data) is None:
            return False
        data = _ESCAPE.sub(_unescaped_or_same, data)
    return True  # whatever is hidden so deep


def decode(data: bytes) -> bytes:
    """Undo all escapes."""
    for _ in range(_PASSES):
        if not any(mark in data for mark in ESCAPE_MARKS):
            break
        before, data = data, _ESCAPE.sub(_unescaped_or_same, data)
        if data == before:
            break
    return data


def replaced(data: bytes, spans: list[Span], shown: Callable[[str, int], bytes]) -> bytes:
    """Return the data with what `shown` makes of the name and the length in place of each span."""
    if not spans:
        return data
    parts: list[bytes] = []
    at = 0
    for start, end, name in spans:
        parts += (data[at:start], shown(name, end - start))
        at = end
    return b"".join((*parts, data[at:]))


class _Data:
    """Data and what they are decoded to, each made when it is first needed."""

    def __init__(self, raw: bytes) -> None:
        self.raw = raw
        self.text = _Text(raw)

    @cached_property
    def texts(self) -> tuple[_Text, ...]:
        """The data as they are and, where that is something else, with all escapes undone."""
        decoded = decode(self.raw)
        return (self.text,) if decoded == self.raw else (self.text, _Text(decoded))

    @cached_property
    def views(self) -> tuple[_View, ...]:
        """The same, with the places, which takes longer."""
        raw = view = _View(self.raw)
        for _ in range(_PASSES):
            further = view.decoded()
            if further is None:
                break
            view = further
        return (raw,) if view is raw else (raw, view)


class _Changes(msgspec.Struct, frozen=True):
    """The parts of a text that were replaced by others, as lists of the same length."""

    starts: list[int]  # in the new text
    ends: list[int]
    old_starts: list[int]
    old_ends: list[int]

    def start(self, at: int) -> int:
        """Return where the byte at a place of the new text began in the old one."""
        number = bisect_right(self.starts, at) - 1
        if number < 0:
            return at
        if at < self.ends[number]:
            return self.old_starts[number]
        return self.old_ends[number] + at - self.ends[number]

    def end(self, at: int) -> int:
        """Return where the byte before a place of the new text ended in the old one."""
        number = bisect_right(self.starts, at - 1) - 1
        if number >= 0 and at - 1 < self.ends[number]:
            return self.old_ends[number]
        return self.start(at - 1) + 1


class _Text:
    """A decoded text, in the forms in which it is searched."""

    def __init__(self, data: bytes) -> None:
        self.data = data

    @cached_property
    def form(self) -> bytes:
        """With a space for "+", as in forms."""
        return self.data.translate(_FORM)

    @cached_property
    def lowered(self) -> bytes:
        return self.data.lower()

    @cached_property
    def squeezed(self) -> bytes:
        """Without line breaks, and in the alphabet of base64 that is not for addresses."""
        return self.data.translate(_URL_SAFE, _SPACE)


class _View(_Text):
    """A decoded text that knows where its bytes come from."""

    def __init__(
        self, data: bytes, of: _View | None = None, changes: _Changes | None = None
    ) -> None:
        super().__init__(data)
        self._of = of
        self._changes = changes

    def start(self, at: int) -> int:
        """Return where the byte at a place begins in the data as they are."""
        if self._of is None or self._changes is None:
            return at
        return self._of.start(self._changes.start(at))

    def end(self, at: int) -> int:
        """Return where the byte before a place ends in the data as they are."""
        if at == 0:
            return 0
        if self._of is None or self._changes is None:
            return at
        return self._of.end(self._changes.end(at))

    def decoded(self) -> _View | None:
        """Undo one level of escapes; None if there is none."""
        if not any(mark in self.data for mark in ESCAPE_MARKS):
            return None
        return self._changed(_ESCAPE, _unescaped)

    def without_begun_escape(self) -> _View:
        """Leave out an escape at the end that may go on, and one before it that goes on with it."""
        size = len(self.data)
        for _ in range(_PASSES):
            begun = _BEGUN.search(self.data, max(0, size - _MAX_PARTIAL), size)
            if begun is None:
                break
            size = begun.start()
        return self if size == len(self.data) else _View(self.data[:size], self._of, self._changes)

    @cached_property
    def squeezed_view(self) -> _View:
        """Return what `squeezed` is, with the places."""
        view = self._changed(_SPACES, lambda _: b"")
        found = self if view is None else view
        return _View(found.data.translate(_URL_SAFE), found._of, found._changes)

    def _changed(
        self, expression: re.Pattern[bytes], change: Callable[[re.Match[bytes]], bytes | None]
    ) -> _View | None:
        parts: list[bytes] = []
        changes = _Changes([], [], [], [])
        at = size = 0
        for match in expression.finditer(self.data):
            part = change(match)
            if part is None:
                continue
            start, end = match.span()
            size += start - at
            parts += (self.data[at:start], part)
            changes.starts.append(size)
            size += len(part)
            changes.ends.append(size)
            changes.old_starts.append(start)
            changes.old_ends.append(end)
            at = end
        if not parts:
            return None
        return _View(b"".join((*parts, self.data[at:])), self, changes)


class _Pattern:
    """The bytes of a secret in one encoding."""

    def __init__(
        self,
        encoding: str,
        data: bytes,
        skipped: int = 0,
        *,
        before: bool = False,
        after: bool = False,
    ) -> None:
        self._encoding = encoding
        self._data = data
        self._skipped = skipped  # bytes of the secret before these
        # Whether the neighbours have bits of the secret.
        self._before = before
        self._after = after

    def is_in(self, text: _Text) -> bool:
        return self._data in self._searched(text)

    def spans(self, view: _View) -> Iterator[tuple[int, int]]:
        text, places = self._searched(view), self._places(view)
        at = text.find(self._data)
        while at >= 0:
            found = places()
            start, end = max(0, at - self._skipped), at + len(self._data)
            if self._before and start and text[start - 1] in _BASE64:
                start -= 1
            if self._after and end < len(text) and text[end] in _BASE64:
                end += 1
            yield found.start(start), found.end(end)
            at = text.find(self._data, at + len(self._data))

    def begins_at(self, view: _View) -> Iterator[int]:
        text, places = self._searched(view), self._places(view)
        for size in self._sizes.get(text[-1:], ()):
            if text.endswith(self._data[:size]):
                start = len(text) - size
                if self._before and start and text[start - 1] in _BASE64:
                    start -= 1
                yield places().start(start)

    @cached_property
    def _sizes(self) -> dict[bytes, tuple[int, ...]]:
        """Return the lengths of beginnings that end with a byte, longest first."""
        sizes: dict[bytes, list[int]] = {}
        for size in range(len(self._data) - 1, 0, -1):
            sizes.setdefault(self._data[size - 1 : size], []).append(size)
        return {byte: tuple(found) for byte, found in sizes.items()}

    def _searched(self, text: _Text) -> bytes:
        match self._encoding:
            case "raw":
                return text.data
            case "decoded":
                return text.form
            case "hex":
                return text.lowered
            case _:
                return text.squeezed

    def _places(self, view: _View) -> Callable[[], _View]:
        """Return who knows the places of what is searched."""
        return (lambda: view.squeezed_view) if self._encoding == "base64" else (lambda: view)


def _whole_escapes(data: bytes) -> tuple[tuple[_View, _View], int]:
    """Return data that end somewhere as they are and decoded, both without an escape at the end
    that may not be whole yet, and where that begins. "%5Cu00" is the beginning of one, too."""
    view = raw = _View(data).without_begun_escape()
    for _ in range(_PASSES):
        further = view.decoded()
        if further is None:
            break
        view = further.without_begun_escape()
    # What decodes to nothing, so far, may belong to what comes next.
    return (raw, view), view.end(len(view.data))


def _unescaped(match: re.Match[bytes]) -> bytes | None:
    """Return what an escape stands for; None where it stands for itself."""
    kind = match.lastgroup
    # Without a kind, these are backslashes and nothing that they escape.
    return b"" if kind is None else _UNESCAPE[kind](match)


def _unescaped_or_same(match: re.Match[bytes]) -> bytes:
    text = _unescaped(match)
    return match.group() if text is None else text


def _of_pair(match: re.Match[bytes]) -> bytes | None:
    high, low = int(match["high"], 16), int(match["low"], 16)
    return _character(0x10000 + ((high - 0xD800) << 10) + (low - 0xDC00))


def _of_name(match: re.Match[bytes]) -> bytes | None:
    found = html5.get(match["name"].decode())
    return None if found is None else found.encode()


def _of_point(group: str, base: int) -> Callable[[re.Match[bytes]], bytes | None]:
    return lambda match: _character(int(match[group], base))


_UNESCAPE: dict[str, Callable[[re.Match[bytes]], bytes | None]] = {
    "low": _of_pair,
    "unit": _of_point("unit", 16),
    "point": _of_point("point", 16),
    "long": _of_point("long", 16),
    "byte": lambda match: _BYTES[match["byte"]],
    "octal": lambda match: bytes((int(match["octal"], 8),)),
    "letter": lambda match: _LETTERS[match["letter"]],
    "percent_unit": _of_point("percent_unit", 16),
    "percent": lambda match: _BYTES[match["percent"]],
    "decimal": _of_point("decimal", 10),
    "hexadecimal": _of_point("hexadecimal", 16),
    "name": _of_name,
}


def _character(point: int) -> bytes | None:
    return chr(point).encode("utf-8", "surrogatepass") if point <= 0x10FFFF else None


def _window(data: bytes) -> bytes | None:
    """The last of the longest runs that no encoder changes: keys begin alike and end at random."""
    runs = sorted(_RUN.findall(data), key=len)
    if not runs or len(runs[-1]) < _MIN_WINDOW:
        return None
    return bytes(runs[-1][-_WINDOW:])


def _base64_core(data: bytes, shift: int) -> bytes:
    """Return what of the base64 follows from the data alone, `shift` bytes behind a group's
    beginning."""
    text = base64.b64encode(b"\0" * shift + data).rstrip(b"=")
    is_cut = (shift + len(data)) % 3 != 0
    return text[(0, 2, 3)[shift] : -1 if is_cut else None]


def _apart(
    spans: Iterable[tuple[int, int]], others: list[tuple[int, int]]
) -> Iterator[tuple[int, int]]:
    """The spans that touch none of the others."""
    ordered = sorted(others)
    starts = [start for start, _ in ordered]
    ends = list(accumulate((end for _, end in ordered), max))
    for start, end in spans:
        before = bisect_left(starts, end)  # so many of the others start before this one ends
        if not before or ends[before - 1] <= start:
            yield start, end


def _merged(found: list[Span]) -> list[Span]:
    spans: list[Span] = []
    for start, end, name in sorted(found, key=lambda span: (span[0], -span[1])):
        if spans and start < spans[-1][1]:
            before = spans[-1]
            spans[-1] = (before[0], max(end, before[1]), before[2])
        else:
            spans.append((start, end, name))
    return spans
