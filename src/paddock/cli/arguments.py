"""Types of arguments: a text from the command line becomes a number, or argparse says why not."""

from __future__ import annotations

import argparse
from collections.abc import Callable

from paddock.model.errors import InvalidInput

_DIGITS = 9


def step(text: str) -> int:
    """Return the number of a step."""
    if not text.isascii() or not text.isdigit() or len(text) > _DIGITS:
        raise argparse.ArgumentTypeError(f"{text[:40]!r} is not a number of at most nine digits")
    return int(text)


def count(text: str) -> int:
    """Return a number from one on."""
    number = step(text)
    if number == 0:
        raise argparse.ArgumentTypeError("0 is too few")
    return number


def seconds(text: str) -> float:
    """Return the seconds of a duration such as 30s."""
    from paddock.model.sizes import parse_duration

    return _parse(parse_duration, text, "a time such as 30s")


def size(text: str) -> int:
    """Return the bytes of a size such as 4GiB."""
    from paddock.model.sizes import parse_size

    return int(_parse(parse_size, text, "a size such as 4GiB"))


def _parse(parse: Callable[[str, str], float], text: str, expected: str) -> float:
    try:
        return parse(text, "it")
    except InvalidInput:
        raise argparse.ArgumentTypeError(f"{text[:40]!r} is not {expected}") from None
