"""Units as people read and write them: times and durations, which a journal has in microseconds,
counts of tokens, money, and the limits of a sandbox.
"""

from __future__ import annotations

import time
from datetime import datetime

from paddock.model.errors import InvalidInput
from paddock.model.sizes import format_size, parse_duration
from paddock.model.spec import Limits

_SIZES = ("memory", "disk", "output")  # limits that are bytes


def clock(at_us: int) -> str:
    """Return 2026-03-01 14:05:09, in the time zone of the reader."""
    try:
        return time.strftime("%Y-%m-%d %H:%M:%S", time.localtime(at_us / 1e6))
    except (ValueError, OverflowError, OSError):  # a journal from elsewhere may say anything
        return f"{at_us} us"


def took(duration_us: int | None) -> str:
    """Return 850 us, 12 ms, 3.2 s, 4m 10s, 2h 3m."""
    if duration_us is None:
        return "-"
    if duration_us < 1000:
        return f"{duration_us} us"
    if duration_us < 1_000_000:
        return f"{duration_us / 1e3:.0f} ms"
    seconds = duration_us / 1e6
    if seconds < 60:
        return f"{seconds:.1f} s"
    minutes, rest = divmod(int(seconds), 60)
    return f"{minutes}m {rest}s" if minutes < 60 else f"{minutes // 60}h {minutes % 60}m"


def offset(at_us: int | None, start_us: int) -> str:
    """Return +1.234: seconds since the run began."""
    return "-" if at_us is None else f"+{(at_us - start_us) / 1e6:.3f}"


def since(text: str, option: str = "--since") -> int:
    """Return the time that an option names: `24h` before now, or a date."""
    try:
        return int(1e6 * datetime.fromisoformat(text).timestamp())
    except (ValueError, OverflowError, OSError):
        pass
    try:
        return int(1e6 * (time.time() - parse_duration(text, option)))
    except InvalidInput:
        raise InvalidInput(
            f"{option}: {text!r} is neither a duration nor a date",
            hint="write 24h, 7d, 2026-03-01 or 2026-03-01T14:00",
        ) from None


def limit_text(name: str, limits: Limits, option: str, elsewhere: str = "") -> str:
    """Return which limit it was, and how it is raised: by an option, which ends where the limit's
    name follows, and elsewhere."""
    value = getattr(limits, name, None)
    if value is None:  # a time-out of the command is none of the sandbox
        return f"the {name} limit"
    limit, more = (
        format_size(int(number)) if name in _SIZES else f"{number:g}"
        for number in (value, 2 * value)
    )
    return f"the {name} limit of {limit}\n  hint: raise it with {option}{name}={more}{elsewhere}"


def thousands(count: int) -> str:
    """Return 340, 1.2k, 3.4M."""
    for size, letter in ((1_000_000, "M"), (1000, "k")):
        if count >= size:
            return f"{count / size:.1f}{letter}"
    return str(count)


def usd_text(micros: int) -> str:
    """Return $0.0042, $1.30."""
    if 0 < micros < 100:
        return "<$0.0001"
    dollars = micros / 1e6
    return f"${dollars:.2f}" if dollars >= 1 or not micros else f"${dollars:.4f}"
