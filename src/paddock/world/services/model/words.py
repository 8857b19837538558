"""The words of a script, taken one by one. What is wrong is noted and reading goes on."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import msgspec

from paddock.policy.file.document import Document
from paddock.policy.problems import Problem, suggest

MAX_ENTRIES = 2000


class Here(msgspec.Struct, frozen=True):
    """A value and where it stands."""

    path: tuple[str | int, ...]
    value: Any

    def at(self, key: str | int) -> Here:
        return Here((*self.path, key), self.value[key])


class Words(msgspec.Struct):
    """Takes values of the expected kind; for another kind there is a problem and a default."""

    document: Document
    problems: list[Problem] = []

    def note(self, here: Here, message: str, hint: str | None = None) -> None:
        self.problems.append(self.document.problem(here.path, message, hint))

    def line(self, here: Here) -> int | None:
        return self.document.place(here.path).line if self.document.places else None

    def mapping(self, here: Here, known: Iterable[str]) -> dict[str, Here]:
        """Return the known keys of a mapping; a key without a value counts as missing."""
        known = tuple(known)
        if not isinstance(here.value, dict):
            self.note(
                here, f"{_shown(here.value)} is not a mapping", f"there are {', '.join(known)}"
            )
            return {}
        for key in here.value:
            if key not in known:
                problem = self.document.problem(
                    (*here.path, str(key)), "unknown key", suggest(key, known), of_key=True
                )
                self.problems.append(problem)
        return {key: here.at(key) for key in known if here.value.get(key) is not None}

    def text(self, here: Here | None, hint: str = "put it in quotes") -> str | None:
        if here is None:
            return None
        if isinstance(here.value, str) and here.value:
            return here.value
        self.note(here, f"{_shown(here.value)} is not a text", hint)
        return None

    def texts(self, here: Here | None) -> tuple[str, ...]:
        """Return one text, or a list of them."""
        if here is None:
            return ()
        if not isinstance(here.value, list):
            one = self.text(here, "write a text, or [one, two]")
            return () if one is None else (one,)
        found = [self.text(here.at(number)) for number in range(len(here.value))]
        if not found:
            self.note(here, "an empty list", "write at least one, or leave the key out")
        return tuple(text for text in found if text is not None)

    def whole(self, here: Here | None, least: int, most: int) -> int | None:
        """Return a whole number."""
        if here is None:
            return None
        value = here.value
        if isinstance(value, int) and not isinstance(value, bool) and least <= value <= most:
            return value
        self.note(here, f"{_shown(value)} is not a number here", f"write {least} to {most}")
        return None

    def truth(self, here: Here | None, *, default: bool) -> bool:
        if here is None:
            return default
        if isinstance(here.value, bool):
            return here.value
        self.note(here, f"{_shown(here.value)} is neither true nor false", "write true or false")
        return default


def _shown(value: Any) -> str:
    text = repr(value)
    return text if len(text) <= 60 else text[:57] + "..."
