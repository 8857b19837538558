"""Words that an agent may have chosen, as a terminal gets them: nothing in them acts on it."""

from __future__ import annotations

from paddock.model.plural import many

MAX_CHARACTERS = 2000  # of one value; whoever needs more of it has --json
_BLANK = frozenset("\u115f\u1160\u2800\u3164\uffa0")  # printable, says Unicode, and not to be seen


def plain(text: object, most: int = MAX_CHARACTERS) -> str:
    """Return one line of visible text; whatever a terminal would act on is escaped."""
    whole = str(text)
    shown = "".join(map(spelled, whole[:most]))
    return f"{shown} {rest(len(whole) - most)}" if len(whole) > most else shown


def spelled(character: str) -> str:
    if character.isprintable() and character not in _BLANK:
        return character
    return {"\n": "\\n", "\t": "\\t"}.get(character) or (
        f"\\x{ord(character):02x}" if ord(character) < 0x100 else f"\\u{ord(character):04x}"
    )


def rest(count: int, what: str = "character") -> str:
    return f"(... {many(count, f'more {what}')})"
