"""In which spellings a secret can show in a text, each as a list of pieces of a regular expression.

One piece is one character of the spelling with all its variants. Joined, the pieces find the
secret; nested, they find a text that ends within it, which is what a stream must hold back.
"""

from __future__ import annotations

import base64
import re

from paddock.model.values import dataclass

# Escaped text inside escaped text: each level doubles the backslashes or puts a "25" after "%".
_SLASHES = r"\\\\{0,15}"  # begins with a plain character, which lets a search skip ahead
_PERCENT = "%(?:25){0,3}"
_BREAK = rf"(?:\r?\n|(?:{_SLASHES}r)?{_SLASHES}n)?"  # tools wrap base64 at 64 or 76 columns
_ESCAPES = {"\n": "n", "\r": "r", "\t": "t", "\b": "b", "\f": "f"}
_BASE64 = r"[A-Za-z0-9+/_\-]"
_MAX_ESCAPE = 48  # four bytes as "%252525xx"; two halves as many backslashes and "uxxxx"
_BEGUN = rf"[%\\][%\\unr0-9a-fA-F]{{0,{_MAX_ESCAPE}}}"
# Longer beginnings are not nested: the compiler of expressions recurses. See `Shape.tail`.
_MAX_NESTED = 32
# A run of backslashes is one piece, with the character after it that it may be escaping.
_PART = re.compile(r"\\+[^\\]?|.", re.DOTALL)


@dataclass(frozen=True, slots=True)
class Shape:
    """One spelling. `before` and `after` take along a neighbour that has bits of the secret."""

    pieces: tuple[str, ...]
    max_piece: int  # the longest that one piece can be in a text
    before: str = ""
    after: str = ""
    gap: str = ""  # what may stand between two pieces

    @property
    def core(self) -> str:
        return self.gap.join(self.pieces)

    @property
    def pattern(self) -> str:
        return self.before + self.core + self.after

    @property
    def max_length(self) -> int:
        return self.max_piece * len(self.pieces)

    @property
    def tail(self) -> str:
        """Finds where a text ends within this spelling. Past the nested pieces, any end will do."""
        rest = r"(?s:.*)\Z" if len(self.pieces) > _MAX_NESTED else r"\Z"
        for piece in reversed(self.pieces[1:_MAX_NESTED]):
            rest = rf"(?:{self.gap}{piece}{rest}|{self._begun(is_first=False)})"
        return rf"{self.pieces[0]}{rest}|{self._begun(is_first=True)}"

    def _begun(self, *, is_first: bool) -> str:
        """The text ends before a piece, or within one that is an escape."""
        if self.max_piece == 1:
            return r"\Z"
        gap = r"\r?\n?|" if self.gap and not is_first else ""
        return rf"(?:{gap}{_BEGUN})?\Z"


def shapes(secret: str) -> list[Shape]:
    """Plain, escaped as JSON, percent-encoded, in hex, and in base64 at its three alignments."""
    data = secret.encode()
    return [
        _escaped(secret),
        Shape(tuple(map(_hex, data.hex())), 1),
        *(_base64(data, shift) for shift in range(3)),
    ]


def _escaped(secret: str) -> Shape:
    parts = _PART.findall(secret)
    longest = max(map(len, parts))
    return Shape(tuple(map(_piece, parts)), _MAX_ESCAPE + 32 * longest + 32)


def _piece(part: str) -> str:
    """One character, plain or escaped; or a run of backslashes and what they stand before."""
    if part.startswith("\\"):
        return _slashed(part)
    forms = [re.escape(part), _percent(part), _unicode(part)]
    if part in "\"'/":
        forms.append(_SLASHES + part)
    elif part in _ESCAPES:
        forms.append(_SLASHES + _ESCAPES[part])
    elif part == " ":
        forms.append(r"\+")
    return f"(?:{'|'.join(forms)})"


def _slashed(part: str) -> str:
    """A run of backslashes, however often each was escaped, and the character after it.

    No backslash may follow the run, so that it takes all there are: a text of nothing but
    backslashes would otherwise be tried in every possible division. (A possessive repeat would say
    the same, but Python 3.11.2 gets it wrong.)
    """
    last = part[-1] if not part.endswith("\\") else ""
    count = len(part) - len(last)
    one = rf"(?:\\{{1,16}}u005[cC]|{_percent(chr(92))}|\\)"
    run = rf"{one}{{{count},{16 * count + 16}}}(?!\\)"
    if not last:
        return run
    forms = [re.escape(last), _unicode(last).removeprefix(_SLASHES), _ESCAPES.get(last, "")]
    return rf"{run}(?:{_percent(last)}|\\{{0,16}}(?:{'|'.join(filter(None, forms))}))"


def _percent(char: str) -> str:
    return "".join(_PERCENT + _hex(f"{byte:02x}") for byte in char.encode())


def _unicode(char: str) -> str:
    units = char.encode("utf-16-be").hex()
    return "".join(f"{_SLASHES}u{_hex(units[at : at + 4])}" for at in range(0, len(units), 4))


def _hex(digits: str) -> str:
    return "".join(f"[{digit}{digit.upper()}]" if digit.isalpha() else digit for digit in digits)


def _base64(data: bytes, shift: int) -> Shape:
    """The characters that follow from the secret alone, whatever stands before and after it."""
    text = base64.b64encode(b"\0" * shift + data).rstrip(b"=").decode()
    is_cut = (shift + len(data)) % 3 != 0
    core = text[(0, 2, 3)[shift] : -1 if is_cut else None]
    before = f"(?:{_BASE64}{_BREAK})?" if shift else ""
    after = f"(?:{_BREAK}{_BASE64})?" if is_cut else ""
    return Shape(tuple(map(_sextet, core)), 64, before, after, gap=_BREAK)


def _sextet(char: str) -> str:
    if char == "+":
        return rf"(?:\+|-|{_PERCENT}2[Bb])"
    if char == "/":
        return rf"(?:/|_|{_SLASHES}/|{_PERCENT}2[Ff])"
    return char
