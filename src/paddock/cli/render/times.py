"""Times and durations of a journal, which are microseconds, as people read and write them."""

from __future__ import annotations

import time
from datetime import datetime

from paddock.model.errors import InvalidInput
from paddock.model.sizes import parse_duration


def clock(at_us: int) -> str:
    """2026-03-01 14:05:09, where the reader is."""
    try:
        return time.strftime("%Y-%m-%d %H:%M:%S", time.localtime(at_us / 1e6))
    except (ValueError, OverflowError, OSError):  # a journal from elsewhere may say anything
        return f"{at_us} us"


def took(duration_us: int | None) -> str:
    """850 us, 12 ms, 3.2 s, 4m 10s, 2h 3m."""
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
    """+1.234, in seconds since the run began."""
    return "-" if at_us is None else f"+{(at_us - start_us) / 1e6:.3f}"


def since(text: str, option: str = "--since") -> int:
    """From when on: `24h` before now, or a date."""
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
