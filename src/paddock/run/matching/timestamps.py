"""The present moment, as agents write it into what they send: the one thing that may differ by
default. A time of the recorded run may be a time of the replay, in the same spelling.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta, timezone
from typing import Any

import msgspec

Window = tuple[float, float]  # seconds since 1970

SLACK_S = 2.0  # a run's first and last record are not exactly its first and last moment
_MAX_TEXT = 1 << 20  # characters; a longer text is compared as it is
_FIRST_UNIX = 10**9  # ten digits: in 2001
_DAY_S = 86_400.0
_MONTHS = ("jan", "feb", "mar", "apr", "may", "jun", "jul", "aug", "sep", "oct", "nov", "dec")
_ISO = (
    r"(?P<y>\d{4})-(?P<mo>\d\d)-(?P<d>\d\d)"
    r"(?:(?P<t>[T ])(?P<h>\d\d):(?P<mi>\d\d)(?::(?P<s>\d\d)(?P<f>[.,]\d{1,9})?)?"
    r"(?P<z>Z|[+-]\d\d:?\d\d)?)?"
)
_BASIC = r"(?P<by>\d{4})(?P<bmo>\d\d)(?P<bd>\d\d)T(?P<bh>\d\d)(?P<bmi>\d\d)(?P<bs>\d\d)(?P<bz>Z)?"
_MAIL = (
    r"(?P<wd>Mon|Tue|Wed|Thu|Fri|Sat|Sun), (?P<md>\d{1,2}) (?P<mm>[A-Z][a-z]{2}) (?P<my>\d{4}) "
    r"(?P<mh>\d\d):(?P<mmi>\d\d):(?P<ms>\d\d) (?P<mz>GMT|UTC|[+-]\d{4})"
)
_UNIX = r"(?P<u>\d{19}|\d{16}|\d{13}|\d{10})(?P<uf>\.\d{1,9})?"
# Ids that begin with the time at which they were made: UUIDs of versions 1, 6 and 7, and ULIDs.
_UUID = (
    r"(?P<id>[0-9a-f]{8}(?P<dash>-?)[0-9a-f]{4}(?P=dash)(?P<version>[167])[0-9a-f]{3}(?P=dash)"
    r"[89ab][0-9a-f]{3}(?P=dash)[0-9a-f]{12})"
)
_ULID = r"(?P<ulid>[0-7][0-9A-HJKMNP-TV-Z]{25})"
_TOKEN = re.compile(
    rf"(?<![0-9A-Fa-f])(?i:{_UUID})(?![0-9A-Fa-f])|(?<![0-9A-Za-z]){_ULID}(?![0-9A-Za-z])"
    rf"|(?<![\w.])(?:{_ISO}|{_BASIC}|{_MAIL}|{_UNIX})(?![\w]|\.\d)"
)
_BASE32 = "0123456789ABCDEFGHJKMNPQRSTVWXYZ"
_TICKS_BEFORE_1970 = 0x01B21DD213814000  # of 100 ns, from the beginning of UUIDs' calendar
_SCALES = {10: 1.0, 13: 1e3, 16: 1e6, 19: 1e9}


class Timestamps(msgspec.Struct, frozen=True):
    """The times that a timestamp of the record may mean, and those that it may become in the
    replay."""

    recorded: Window
    now: Window

    @classmethod
    def of_run(cls, start: float, end: float, now: Window) -> Timestamps:
        """Make the rules for a run from the times of its first and last record."""
        return cls((start - SLACK_S, end + SLACK_S), now)

    def allow(self, recorded: Any, proposed: Any) -> bool:
        """Return whether the two are equal except for timestamps, alone or within a text."""
        if isinstance(recorded, str):
            return isinstance(proposed, str) and self._allow_text(recorded, proposed)
        if _is_number(recorded) and type(recorded) is type(proposed) and recorded >= _FIRST_UNIX:
            return self._allow_text(_digits(recorded), _digits(proposed))
        return False

    def drawn_ids(self, recorded: Any, proposed: Any) -> Iterator[tuple[str, str]]:
        """Yield the pairs of ids in two texts that `allow` lets differ in more than their time.
        What is drawn can be anything, so that the two must belong together from now on."""
        if isinstance(recorded, str) and isinstance(proposed, str):
            for piece, other in zip(_pieces(recorded), _pieces(proposed), strict=True):
                if piece.drawn != other.drawn:
                    yield piece.text, other.text

    def _allow_text(self, recorded: str, proposed: str) -> bool:
        if max(len(recorded), len(proposed)) > _MAX_TEXT:
            return False
        if _TOKEN.search(recorded) is None:
            return False
        ours, theirs = _pieces(recorded), _pieces(proposed)
        for piece, other in zip(ours, theirs, strict=False):
            if piece != other and not self._allow_piece(piece, other):
                return False
        return next(ours, None) is None and next(theirs, None) is None

    def _allow_piece(self, piece: _Piece, other: _Piece) -> bool:
        if piece.span is None or other.span is None or piece.spelling != other.spelling:
            return False
        return _meet(piece.span, self.recorded) and _meet(other.span, self.now)


def is_moment(value: Any) -> bool:
    """Return whether a value is nothing but a timestamp, of whatever year."""
    text = value if isinstance(value, str) else _digits(value) if _is_number(value) else ""
    match = _TOKEN.fullmatch(text) if len(text) < 64 else None
    if match is None or match["id"] or match["ulid"]:
        return False
    return _span(match) is not None


def is_unix(value: Any) -> bool:
    """Return whether a value is a count of seconds, or fractions of them, since 1970."""
    text = value if isinstance(value, str) else _digits(value) if _is_number(value) else ""
    return re.fullmatch(_UNIX, text[:64]) is not None


class _Piece(msgspec.Struct, frozen=True):
    """A stretch of text, or a time in it: from when to when it may mean, and how it is spelled."""

    text: str
    span: Window | None = None
    spelling: str = ""
    drawn: str = ""  # of an id, what its maker may have drawn


def _pieces(text: str) -> Iterator[_Piece]:
    at = 0
    for match in _TOKEN.finditer(text):
        span = _span(match)
        if span is None:
            continue
        yield _Piece(text[at : match.start()])
        yield _Piece(match.group(), span, _spelling(match), _drawn(match))
        at = match.end()
    yield _Piece(text[at:])


def _meet(window: Window, other: Window) -> bool:
    return window[0] <= other[1] and other[0] <= window[1]


def _span(match: re.Match[str]) -> Window | None:
    """Return the interval that a text denotes; None if it only looks like a time, such as the 31st
    of February."""
    part = match.groupdict()
    try:
        if part["id"] or part["ulid"]:
            made_at, _ = _of_id(part)
            return made_at, made_at
        if part["u"]:
            return _unix_span(part["u"], part["uf"])
        if part["by"]:
            return _clock(part, "by bmo bd bh bmi bs", part["bz"], 1.0)
        if part["wd"]:
            month = str(_MONTHS.index(part["mm"].lower()) + 1)
            return _clock({**part, "mm": month}, "my mm md mh mmi ms", part["mz"], 1.0)
        size = _DAY_S if part["h"] is None else 60.0 if part["s"] is None else 1.0
        return _clock(part, "y mo d h mi s", part["z"], size)
    except (ValueError, OverflowError):
        return None


def _of_id(part: dict[str, Any]) -> tuple[float, str]:
    """Return when an id was made, and what of it must be equal: its form, and chance but for
    `_drawn`."""
    if part["ulid"]:
        text = part["ulid"]
        millis = 0
        for digit in text[:10]:
            millis = millis * 32 + _BASE32.index(digit)
        return millis / 1e3, f"ulid {text[10:]}"
    text = part["id"]
    plain = text.replace("-", "").lower()
    case = "upper" if text != text.lower() else "lower"
    if part["version"] == "7":
        return int(plain[:12], 16) / 1e3, f"uuid7 {part['dash']} {case} {plain[12:]}"
    if part["version"] == "1":
        ticks = int(plain[13:16] + plain[8:12] + plain[:8], 16)
    else:
        ticks = int(plain[:12] + plain[13:16], 16)
    return (ticks - _TICKS_BEFORE_1970) / 1e7, f"uuid{part['version']} {part['dash']} {case}"


def _drawn(match: re.Match[str]) -> str:
    """Return clock sequence and node of a UUID of version 1 or 6. Python has the same ones in every
    run; other libraries draw them, once for each process or for each id."""
    if match["version"] not in ("1", "6"):
        return ""
    return match["id"].replace("-", "").lower()[16:]


def _unix_span(whole: str, fraction: str | None) -> Window | None:
    if fraction and len(whole) != 10:
        return None
    low = int(whole) / _SCALES[len(whole)]
    return (low, low + 1.0) if len(whole) == 10 else (low, low)


def _clock(part: dict[str, Any], names: str, zone: str | None, size_s: float) -> Window:
    numbers = [int(part[name] or 0) for name in names.split()]
    at = datetime(*numbers, tzinfo=_zone(zone))  # type: ignore[arg-type, misc]
    return at.timestamp(), at.timestamp() + size_s


def _zone(text: str | None) -> timezone:
    """Parse the time zone. A time without one is taken as UTC, which is a sandbox's time zone."""
    if text is None or text[0] not in "+-":
        return UTC
    digits = text[1:].replace(":", "")
    offset = timedelta(hours=int(digits[:2]), minutes=int(digits[2:]))
    return timezone(-offset if text[0] == "-" else offset)


def _spelling(match: re.Match[str]) -> str:
    """Return what two timestamps must have in common: format and zone. Of a fraction only its
    presence counts, because some languages drop trailing zeros."""
    part = match.groupdict()
    if part["id"] or part["ulid"]:
        return _of_id(part)[1]
    if part["u"]:
        return f"unix {len(part['u'])} {part['uf'] is not None}"
    if part["by"]:
        return f"basic {part['bz']}"
    if part["wd"]:
        return f"mail {part['mz']}"
    fraction = part["f"][0] if part["f"] else None
    return f"iso {part['t']} {part['h'] is None} {part['s'] is None} {fraction} {part['z']}"


def _is_number(value: Any) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool)


def _digits(value: float) -> str:
    return repr(value)
