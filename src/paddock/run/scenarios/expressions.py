"""Conditions in CEL over what a run left behind: the state of stand-ins, and documents in files.

The evaluator takes time by the square of a list that is filtered, so how much it is given is
bounded by what the expression does. A test's author is trusted, what an agent left behind is not.
"""

from __future__ import annotations

import difflib
import re
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import msgspec
from msgspec.structs import replace

from paddock.model.errors import InvalidInput
from paddock.policy.cel_module import cel
from paddock.policy.expressions import (
    LOOSEST,
    Expression,
    ExpressionError,
    Scope,
    compile_expression,
)
from paddock.policy.json_bounds import Bounds

DOCUMENT = "document__"  # what `$` becomes
WORLD = "world"
_STRINGS = re.compile(r"('(?:\\.|[^'\\])*'|\"(?:\\.|[^\"\\])*\")")
_NEAR = 0.75

State = Mapping[str, Any]  # of one stand-in: documents by kind


class WorldCondition(msgspec.Struct, frozen=True):
    """A condition on the state of stand-ins. `roots` says what each of its names stands for."""

    source: str
    expression: Expression
    roots: Mapping[str, tuple[str, str | None]]  # name: place, and the kind of document

    def holds(self, states: Mapping[str, State]) -> bool:
        """Evaluate the condition. Raises ExpressionError when it cannot be decided."""

        def value(name: str) -> Any:
            if name == WORLD:
                return {place: dict(state) for place, state in states.items()}
            place, kind = self.roots[name]
            state = states.get(place)
            if state is None:
                raise ExpressionError(f"the world of the run has no {place}")
            return dict(state) if kind is None else _documents(state, kind, place)

        try:
            return self.expression.holds(Scope(value))
        except ExpressionError as error:
            raise ExpressionError(self._named(str(error))) from None

    def _named(self, text: str) -> str:
        for name, (place, kind) in self.roots.items():
            text = text.replace(name, f"{place}.{kind}" if kind else place)
        return text.replace("the arguments are", "what it looks at is")


def world_condition(source: str, places: Sequence[str]) -> WorldCondition:
    """Parse a condition such as `api.stripe.com.refunds.exists(r, ...)`, in which a stand-in's host
    and a kind of its documents are one name. Raises InvalidInput."""
    roots: dict[str, tuple[str, str | None]] = {}
    names = {(place, None): f"w{n}__" for n, place in enumerate(places)}

    def named(match: re.Match[str]) -> str:
        place, kind = match["place"], match["kind"]
        name = f"{names[place, None]}{kind or ''}"
        roots[name] = (place, kind)
        return name

    plain = source
    if places:
        longest = sorted(places, key=len, reverse=True)
        any_place = "|".join(map(re.escape, longest))
        pattern = re.compile(
            rf"(?<![\w.:-])(?P<place>{any_place})(?![\w:-])"
            r"(?:\.(?P<kind>[A-Za-z_]\w*)(?![\w]|\s*\())?"
        )
        plain = _outside_strings(source, lambda text: pattern.sub(named, text))
    try:
        expression = compile_expression(plain, frozenset({WORLD, *roots}))
    except InvalidInput as error:
        if error.message.startswith("there is no name"):
            listed = ", ".join(places) or "none: the paddock file has no world"
            hint = f"the stand-ins are {listed}"
            raise InvalidInput(f"{source[:80]!r} is about no stand-in", hint=hint) from None
        raise InvalidInput(f"{source[:80]!r}: {error.message}", hint=error.hint) from None
    return WorldCondition(source, _loosened(expression), roots)


def json_condition(source: str) -> Callable[[Any], bool]:
    """Parse a condition on a JSON document, such as `$.total == 3`. Raises InvalidInput; the
    returned function raises ExpressionError."""
    plain = _outside_strings(source, lambda text: text.replace("$", DOCUMENT))
    try:
        compiled = compile_expression(plain, frozenset({DOCUMENT}))
    except InvalidInput as error:
        hint = error.hint
        if error.message.startswith("there is no name"):
            hint = "write $ for the document, as in $.total == 3"
        message = error.message.replace(DOCUMENT, "$")
        raise InvalidInput(f"{source[:80]!r}: {message}", hint=hint) from None
    if not compiled.roots:
        raise InvalidInput(f"{source[:80]!r} is not about the document", hint="write $.total == 3")
    expression = _loosened(compiled)

    def holds(document: Any) -> bool:
        try:
            return expression.holds(Scope(lambda _: document))
        except ExpressionError as error:
            raise ExpressionError(str(error).replace(DOCUMENT, "$")) from None

    return holds


def check_pattern(pattern: str) -> None:
    """Raise InvalidInput for an invalid regular expression."""
    try:
        does_match(pattern, "")
    except Exception as error:
        lines = str(error).splitlines()
        why = next((line for line in lines if line.startswith("error:")), lines[0])
        raise InvalidInput(
            f"{pattern[:80]!r} is no regular expression: {why.removeprefix('error: ')[:200]}",
            hint="as in RE2: without look-around and references",
        ) from None


def does_match(pattern: str, text: str) -> bool:
    """Return whether a part of the text matches, in linear time whatever the text is."""
    context = cel().Context()
    context.add_variable("text", text)
    context.add_variable("pattern", pattern)
    return cel().compile("text.matches(pattern)").execute(context) is True


def _documents(state: State, kind: str, place: str) -> Any:
    """Return the documents of a kind: none for a kind that was never created, unless the name is
    likely a typing error."""
    if kind in state:
        return state[kind]
    near = difflib.get_close_matches(kind, state, n=1, cutoff=_NEAR)
    if near:
        raise ExpressionError(f"{place} has no {kind}; did you mean {near[0]}?")
    return []


def _outside_strings(source: str, change: Callable[[str], str]) -> str:
    parts = _STRINGS.split(source)
    return "".join(part if number % 2 else change(part) for number, part in enumerate(parts))


def _loosened(expression: Expression) -> Expression:
    """Raise the limits of an expression: it is evaluated once, for the person who wrote it."""
    if expression.bounds == LOOSEST:
        return expression
    is_deep = expression.bounds.nodes <= 100
    has_filter = ".filter(" in expression.source.replace(" ", "")
    nodes = 2_000 if is_deep else 5_000 if has_filter else LOOSEST.nodes
    return replace(expression, bounds=Bounds(nodes=nodes))
