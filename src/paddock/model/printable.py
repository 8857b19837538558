"""Text that an agent may have chosen, made safe for a terminal: nothing in it acts on one."""

from __future__ import annotations

from paddock.model.plural import many

MAX_CHARACTERS = 2000  # of one value; whoever needs more of it has --json
_SHORT_ESCAPES = {"\n": "\\n", "\t": "\\t"}
_BLANK = frozenset("\u115f\u1160\u2800\u3164\uffa0")  # printable, says Unicode, and not to be seen


def printable(text: object, most: int = MAX_CHARACTERS) -> str:
    """Return one line of visible text; whatever a terminal would act on is escaped."""
    whole = str(text)
    shown = "".join(map(escaped, whole[:most]))
    return f"{shown} {omitted(len(whole) - most)}" if len(whole) > most else shown


def escaped(character: str) -> str:
    if character.isprintable() and character not in _BLANK:
        return character
    if character in _SHORT_ESCAPES:
        return _SHORT_ESCAPES[character]
    code = ord(character)
    return f"\\x{code:02x}" if code < 0x100 else f"\\u{code:04x}"


def omitted(count: int, what: str = "character") -> str:
    return f"(... {many(count, f'more {what}')})"
