"""Problems of a paddock file, each with its place and what to write instead."""

from __future__ import annotations

from collections.abc import Iterable

import msgspec

from paddock.model.errors import InvalidInput

Path = tuple[str | int, ...]  # keys and numbers of items, from the top of a file


class Problem(msgspec.Struct, frozen=True, order=True):
    """One mistake in a file. Lines and columns count from one."""

    line: int
    column: int
    path: str  # as in rules[2].match.program; empty for the whole file
    message: str
    hint: str | None = None


class PolicyError(InvalidInput):
    """A paddock file that cannot be used. `problems` has all that is wrong with it, in order."""

    def __init__(self, name: str, problems: Iterable[Problem]) -> None:
        self.name = name
        self.problems = sorted(set(problems), key=_reading_order)
        super().__init__("\n".join(describe(name, problem) for problem in self.problems))


def _reading_order(problem: Problem) -> tuple[int, int, str]:
    return problem.line, problem.column, problem.message


def describe(name: str, problem: Problem) -> str:
    """Return `paddock.yaml:3:5: rules[0]: what is wrong` and, below, what to write instead."""
    where = f"{name}:{problem.line}:{problem.column}"
    path = f"{problem.path}: " if problem.path else ""
    hint = f"\n  hint: {problem.hint}" if problem.hint else ""
    return f"{where}: {path}{problem.message}{hint}"


def spell_path(path: Iterable[str | int]) -> str:
    """Return `rules[2].match` for `("rules", 2, "match")`."""
    text = ""
    for part in path:
        if isinstance(part, int):
            text += f"[{part}]"
        else:
            text += f".{part}" if text else part
    return text


def closest(word: object, names: Iterable[str]) -> str | None:
    """Return the name that was probably meant; None if none is close."""
    import difflib  # only who has made a mistake waits for it

    from paddock.policy.synonyms import synonym

    choices = list(names)
    meant = synonym(str(word), choices)
    if meant is not None:
        return meant
    return next(iter(difflib.get_close_matches(str(word), choices, n=1, cutoff=0.6)), None)


def suggest(word: object, names: Iterable[str]) -> str:
    """Return a hint: what was probably meant, else what there is."""
    choices = list(names)
    meant = closest(word, choices)
    if meant is None and len(choices) == 1:
        return f"write {choices[0]}"
    return f"there are {', '.join(choices)}" if meant is None else f"did you mean {meant}?"
