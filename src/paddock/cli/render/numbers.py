"""Numbers: as argparse takes them from the command line, and as people read them."""

from __future__ import annotations

import argparse

from paddock.model.errors import InvalidInput

_DIGITS = 9


def count(text: str) -> int:
    """How many: from one on."""
    number = step(text)
    if number == 0:
        raise argparse.ArgumentTypeError("0 is too few")
    return number


def seconds(text: str) -> float:
    """How long."""
    from paddock.model.sizes import parse_duration

    try:
        return parse_duration(text, "it")
    except InvalidInput:
        raise argparse.ArgumentTypeError(f"{text[:40]!r} is not a time such as 30s") from None


def size(text: str) -> int:
    """Return how many bytes."""
    from paddock.model.sizes import parse_size

    try:
        return parse_size(text, "it")
    except InvalidInput:
        raise argparse.ArgumentTypeError(f"{text[:40]!r} is not a size such as 4GiB") from None


def step(text: str) -> int:
    """The number of a step."""
    if not text.isascii() or not text.isdigit() or len(text) > _DIGITS:
        raise argparse.ArgumentTypeError(f"{text[:40]!r} is not a number of at most nine digits")
    return int(text)


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
