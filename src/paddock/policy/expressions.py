"""Expressions in CEL, compiled once and bounded so that no argument can make one run away.

The evaluator has no limit of its own: deeply nested arguments overflow its stack, a macro over a
long list takes time by the square of its length, and a regular expression that comes from an
argument can take seconds. So an expression may not do the last, and is only given arguments that
are small enough for the macros it uses. What an expression is about is not known here.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any

import msgspec

from paddock.model.errors import InvalidInput
from paddock.policy.cel_module import cel
from paddock.policy.json_bounds import Bounds, bound

if TYPE_CHECKING:
    from cel import Context, Program

MAX_SOURCE = 2048  # more does not fit a reader's head, and its syntax tree still fits any stack
MAX_MACROS = 6
MAX_REPEATS = 1000
# By how deep macros are nested: the more loops, the fewer values to loop over.
LOOSEST = Bounds(nodes=20_000)
_BOUNDS = (LOOSEST, Bounds(nodes=1_000), Bounds(nodes=100))
_TYPES = frozenset({"int", "uint", "double", "bool", "string", "bytes", "list", "map"})
_MACROS = frozenset({"all", "exists", "exists_one", "map", "filter"})
_FUNCTIONS = frozenset({
    "size", "contains", "startsWith", "endsWith", "matches", "int", "uint", "double", "string",
    "bytes", "timestamp", "duration", "type", "getFullYear", "getMonth", "getDayOfYear",
    "getDayOfMonth", "getDate", "getDayOfWeek", "getHours", "getMinutes", "getSeconds",
    "getMilliseconds",
})  # fmt: skip
_TOKEN = re.compile(
    r"(?P<string>[rRbB]{0,2}(?:'''(?:.|\n)*?'''|\"\"\"(?:.|\n)*?\"\"\""
    r"|'(?:\\.|[^'\\\n])*'|\"(?:\\.|[^\"\\\n])*\"))"
    r"|(?P<comment>//[^\n]*)|(?P<word>[A-Za-z_][A-Za-z0-9_]*)|(?P<number>[0-9][0-9A-Za-z_.]*)"
    r"|(?P<sign>[^\sA-Za-z0-9_])"
)
# Operators of other languages, and ours. Looked at only where an expression is none.
_OPERATOR_HINTS = [
    (re.compile(pattern), hint)
    for pattern, hint in (
        (r"\bnot\s+in\b", "write !(a in b) for not in"),
        (r"(?i)\band\b", "write && for and"),
        (r"(?i)\bor\b", "write || for or"),
        (r"(?i)\bnot\b", "write ! for not"),
        (r"\bis\b", "write == for is"),
        (r"\bif\b", "write condition ? a : b"),
        (r"=~|!~|\blike\b", 'write path.matches("^/v1/") for a pattern'),
        (r"===", "write == for ==="),
        (r"<>", "write != for <>"),
        (r"\{\{|\$\{", "write the expression without braces"),
        (r"(?<![=!<>])=(?!=)", "write == for ="),
        (r"(?<!&)&(?!&)", "write && for &"),
        (r"(?<!\|)\|(?!\|)", "write || for |"),
    )
]
_FUNCTION_HINTS = {
    "not": "write ! for not",
    "and": "write && for and",
    "or": "write || for or",
    "len": "write size(x)",
    "length": "write size(x)",
    "count": "write size(x)",
    "startswith": "write startsWith",
    "endswith": "write endsWith",
    "includes": "write contains",
    "match": "write matches",
    "search": "write matches",
    "str": "write string(x)",
    "float": "write double(x)",
    "lower": 'write x.matches("(?i)^text$") to ignore case',
    "tolowercase": 'write x.matches("(?i)^text$") to ignore case',
    "upper": 'write x.matches("(?i)^text$") to ignore case',
}
_LITERALS = {"true": "true", "false": "false", "none": "null", "nil": "null", "undefined": "null"}
_MISPLACED = re.compile(r"(?:mismatched input|extraneous input|token recognition error at:) (.*)")
_REPEAT = re.compile(r"\{(\d+)(?:,(\d*))?\}")
_PLACE = re.compile(r"<input>:(\d+):(\d+): ([^\n]*)")


class ExpressionError(Exception):
    """An expression could not be evaluated for an action."""


class Expression(msgspec.Struct, frozen=True):
    """One compiled expression, and what it needs to be given."""

    source: str
    program: Program
    roots: tuple[str, ...]  # the names that it reads
    keys: frozenset[str] | None  # of args, where it reads only some; None for all of them
    bounds: Bounds

    def evaluate(self, scope: Scope) -> Any:
        """Return the value for one action. Raises ExpressionError; a value of any type may come."""
        scope.provide(self)
        try:
            return self.program.execute(scope.context)
        except Exception as error:
            raise ExpressionError(_runtime_reason(error)) from None

    def holds(self, scope: Scope) -> bool:
        """Return the value, which must be a truth value."""
        value = self.evaluate(scope)
        if value is True or value is False:
            return value is True
        raise ExpressionError(f"it gives {type(value).__name__} and not true or false")


class Scope:
    """The values that expressions of one action read, handed over when the first one needs them:
    handing over costs ten times what evaluating does."""

    __slots__ = ("_given", "_shared", "_value", "context")

    def __init__(self, value: Callable[[str], Any], shared: frozenset[str] | None = None) -> None:
        """`value` gives what a name stands for, or raises KeyError. `shared`: the keys of args that
        all expressions together may read; None for all."""
        self._value = value
        self._shared = shared
        self._given: list[str] = []
        self.context: Context = cel().Context()

    def provide(self, expression: Expression) -> None:
        """Hand over what the expression reads. Raises ExpressionError where it is too much."""
        for root in expression.roots:
            if root not in self._given:
                self._give(root)
            if expression.bounds is not LOOSEST:
                # With loops it takes less; only what it reads itself counts.
                bound(self._part(root, expression.keys), expression.bounds, ExpressionError)

    def _give(self, root: str) -> None:
        value = self._part(root, self._shared)
        bound(value, LOOSEST, ExpressionError)
        try:
            self.context.add_variable(root, value)
        except Exception as error:
            raise ExpressionError(_runtime_reason(error)) from None
        self._given.append(root)

    def _part(self, root: str, keys: frozenset[str] | None) -> Any:
        try:
            value = self._value(root)
        except KeyError:
            raise ExpressionError(f"the action has no {root}") from None
        if root == "args" and keys is not None:
            return {key: value[key] for key in keys if key in value}
        return dict(value) if isinstance(value, Mapping) else value


def compile_expression(source: str, allowed: frozenset[str]) -> Expression:
    """Compile an expression. Raises InvalidInput for what is no CEL, reads a name that is not
    there, or could run away."""
    if len(source) > MAX_SOURCE:
        raise InvalidInput(f"longer than {MAX_SOURCE} characters", hint="split it into two rules")
    tokens = _tokens(source)
    depth, bound_names = _macros(tokens)
    _check_regexes(tokens)
    try:
        program: Program = cel().compile(source)
    except ValueError as error:
        hint = _operator_hint(source, _place(source, error))
        raise InvalidInput(_compile_reason(error), hint=hint) from None
    _check_functions(program)
    names = [name for name in program.variables() if name not in bound_names]
    roots = tuple(name for name in names if name not in _TYPES)
    _check_roots(roots, bound_names, allowed)
    return Expression(source, program, roots, _argument_keys(tokens), _BOUNDS[depth])


def is_panic(error: BaseException) -> bool:
    """Return whether the evaluator itself broke; its own exception is outside the usual family."""
    return type(error).__name__ == "PanicException"


def _tokens(source: str) -> list[tuple[str, str]]:
    tokens = [(match.lastgroup or "", match[0]) for match in _TOKEN.finditer(source)]
    return [token for token in tokens if token[0] != "comment"]


def _macros(tokens: list[tuple[str, str]]) -> tuple[int, set[str]]:
    """Return how deep macros are nested, and the names that they bind."""
    names: set[str] = set()
    open_brackets: list[bool] = []  # for each: does a macro's body end with it
    depth = count = 0
    for number, (_, text) in enumerate(tokens):
        if text in ("(", "[", "{"):
            is_macro = text == "(" and number > 1 and tokens[number - 1][1] in _MACROS
            is_macro = is_macro and tokens[number - 2][1] == "."
            open_brackets.append(is_macro)
            if is_macro and number + 1 < len(tokens):
                names.add(tokens[number + 1][1])
            count += is_macro
            depth = max(depth, sum(open_brackets))
        elif text in (")", "]", "}") and open_brackets:
            open_brackets.pop()
    if depth >= len(_BOUNDS) or count > MAX_MACROS:
        raise InvalidInput(
            f"more than {len(_BOUNDS) - 1} macros inside each other, or {MAX_MACROS} in all",
            hint="loops over loops of an agent's arguments run away; split the rule",
        )
    return depth, names


def _check_regexes(tokens: list[tuple[str, str]]) -> None:
    for number, (kind, text) in enumerate(tokens):
        if (
            kind != "word"
            or text != "matches"
            or tokens[number + 1 : number + 2] != [("sign", "(")]
        ):
            continue
        around = tokens[number - 1 : number] + tokens[number + 1 : number + 4]
        is_plain = len(around) == 4 and [around[0][1], around[1][1]] == [".", "("]
        if not is_plain or around[2][0] != "string" or around[3][1] != ")":
            raise InvalidInput(
                "the pattern of matches must be a text in the rule",
                hint='write args.name.matches("^[a-z]+$")',
            )
        _check_pattern(around[2][1])


def _check_pattern(literal: str) -> None:
    repeats = 1
    for least, most in _REPEAT.findall(literal):
        repeats *= max(1, int((most or least)[:9]))
    if repeats > MAX_REPEATS:
        raise InvalidInput(f"the pattern {literal[:60]} repeats too often", hint="use + or *")
    try:
        cel().evaluate(f"''.matches({literal})")
    except Exception as error:
        reason = " ".join(str(error).split())[:200]
        raise InvalidInput(f"the pattern {literal[:60]} is not valid: {reason}") from None


def _check_functions(program: Program) -> None:
    for name in program.functions():
        if name in _FUNCTIONS or name in _MACROS or name == "has" or not name.isidentifier():
            continue
        names = ", ".join(sorted(_FUNCTIONS))
        hint = _FUNCTION_HINTS.get(name.lower(), f"there are {names}")
        raise InvalidInput(f"there is no function {name}", hint=hint)


def _check_roots(roots: tuple[str, ...], bound_names: set[str], names: frozenset[str]) -> None:
    for name in bound_names & names:
        raise InvalidInput(f"a macro names its variable {name}", hint="use another name, e.g. x")
    for name in roots:
        if name not in names:
            raise InvalidInput(f"there is no name {name} here", hint=_name_hint(name, names))


def _name_hint(name: str, names: frozenset[str]) -> str:
    if name.lower() in _LITERALS:
        return f"write {_LITERALS[name.lower()]}"
    choices = ", ".join(sorted(names))
    if "args" not in names:
        return f"there are {choices}"
    return f"there are {choices}; an argument is args.{name}"


def _operator_hint(source: str, place: int) -> str:
    """Return what to write for the operator of another language, outside of texts, that stands
    nearest before the place of an error; for the first one if all stand behind it."""
    code = _TOKEN.sub(
        lambda token: " " * len(token[0]) if token.lastgroup == "string" else token[0], source
    )
    hints = [(match.start(), hint) for pattern, hint in _OPERATOR_HINTS
             for match in pattern.finditer(code)]  # fmt: skip
    before = [located for located in hints if located[0] <= place]
    if before:
        return max(before, key=lambda located: located[0])[1]
    if hints:
        return min(hints, key=lambda located: located[0])[1]
    return 'it is CEL, as in args.amount > 5000 && action.name == "refund"'


def _place(source: str, error: Exception) -> int:
    """Return at which character of the source a compiler found its first error."""
    places = _PLACE.findall(str(error))
    if not places:
        return 0
    line, column = int(places[0][0]), int(places[0][1])
    return sum(map(len, source.splitlines(keepends=True)[: line - 1])) + column


def _argument_keys(tokens: list[tuple[str, str]]) -> frozenset[str] | None:
    """Return the keys of `args.key`, if it is used in no other way."""
    keys: set[str] = set()
    for number, (kind, text) in enumerate(tokens):
        if kind != "word" or text != "args" or (number and tokens[number - 1][1] == "."):
            continue
        after = tokens[number + 1 : number + 4]
        if len(after) < 2 or after[0][1] != "." or after[1][0] != "word":
            return None
        if len(after) == 3 and after[2][1] == "(":
            return None  # a method of args itself
        keys.add(after[1][1])
    return frozenset(keys)


def _compile_reason(error: Exception) -> str:
    places = _PLACE.findall(str(error))
    if not places:
        return f"not an expression: {str(error)[:200]}"
    line, column, message = map(str, places[0])
    where = f"at {line}:{column} of it: " if line != "1" else f"at character {column}: "
    message = message.removeprefix("Syntax error: ").partition(" expecting ")[0]
    message = _MISPLACED.sub(r"\1 does not belong here", message)
    if "<EOF>" in message:
        message = "it ends too early"
    return where + message[:200]


def _runtime_reason(error: Exception) -> str:
    if isinstance(error, KeyError):
        return f"there is no {error.args[0]}" if error.args else "a key is missing"
    return str(error).split(". ")[0].split("\n")[0][:200] or type(error).__name__
