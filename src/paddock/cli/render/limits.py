"""The message about a program that a limit has ended."""

from __future__ import annotations

from paddock.model.sizes import format_size
from paddock.model.spec import Limits

_SIZES = ("memory", "disk", "output")


def limit_text(name: str, limits: Limits, option: str, elsewhere: str = "") -> str:
    """Return which limit it was, and how it is raised: by an option, which ends where the limit's
    name follows, and elsewhere."""
    value = getattr(limits, name, None)
    if value is None:  # a time-out of the command is none of the sandbox
        return f"the {name} limit"
    shown, more = (format_size(int(one)) if name in _SIZES else f"{one:g}"
                   for one in (value, 2 * value))  # fmt: skip
    return f"the {name} limit of {shown}\n  hint: raise it with {option}{name}={more}{elsewhere}"
