"""The pattern of a rule for calls like an approved one: a few fields that people read at a glance,
with conditions on the body of a request. Where that is more than was approved, it is said.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any, NamedTuple

import msgspec
from msgspec.structs import replace

from paddock.model.action import Action, Kind
from paddock.model.errors import InvalidInput
from paddock.model.money import amount_text
from paddock.policy.analysis.path_patterns import request_patterns
from paddock.policy.globs import is_literal

_PLAIN_PATH = re.compile(r"(?:/[A-Za-z0-9_.~:@-]*)+")
_ID = re.compile(r"[0-9]")  # a value with a digit in it names one thing, and the next is another
_MAX_TEXT = 40  # of a text in a body that stays what it is
_MAX_CONDITIONS = 4
_MAX_NAMED = 10  # fields that a note names


class Condition(NamedTuple):
    """A condition on an argument: `int(args.body.amount) <= 2000`."""

    left: str
    operator: str
    right: str

    def __str__(self) -> str:
        return f"{self.left} {self.operator} {self.right}"

    @property
    def negated(self) -> str:
        """Return the condition that holds where this one does not."""
        return f"{self.left} {_OPPOSITE[self.operator]} {self.right}"


_OPPOSITE = {"==": "!=", "<=": ">"}


class CallPattern(msgspec.Struct, frozen=True):
    """Calls like one that was approved. `fields` are those of `match`; `conditions` are about
    `args`; `notes` say what else such a call may be."""

    fields: Mapping[str, str]
    conditions: tuple[Condition, ...] = ()
    notes: tuple[str, ...] = ()

    def by_parts(self) -> CallPattern:
        """Return the pattern for a rule about requests alone, which can call their parts by
        name."""
        named = tuple(
            condition._replace(left=condition.left.replace("args.", ""))
            for condition in self.conditions
        )
        return replace(self, conditions=named)

    @property
    def condition(self) -> str:
        """Return all conditions as one expression."""
        return " && ".join(map(str, self.conditions))

    @property
    def whole(self) -> str:
        """Return the whole pattern as one expression, for calls of the same kind."""
        fields = (_field_condition(name, value) for name, value in self.fields.items())
        return " && ".join([*fields, *map(str, self.conditions)])


def pattern_of(action: Action) -> CallPattern:
    """Return the pattern for an approved call. Raises InvalidInput for what cannot be written."""
    if action.kind is Kind.HTTP:
        return _request(action)
    if action.kind is Kind.MODEL:
        fields = {name: str(action.arguments.get(name)) for name in ("provider", "model")}
        return CallPattern(fields, notes=("It holds for any question to that model.",))
    arguments = action.arguments
    if action.kind is Kind.EXEC:
        same = [_equal(f"args.{key}", arguments[key]) for key in ("argv",) if key in arguments]
        if "real_path" in arguments:  # of a program that is not found there is none
            path = "has(args.real_path) ? args.real_path : ''"
            same.append(_equal(f"({path})", arguments["real_path"]))
        return CallPattern({}, tuple(same), ("It holds in any directory.",))
    if holds_secret(arguments):
        raise InvalidInput("the arguments hold a secret, which must not be written into a rule")
    fields = {"name": action.name} if action.kind is Kind.TOOL and is_literal(action.name) else {}
    conditions = [] if fields else [_equal("action.name", action.name)]
    return CallPattern(fields, (*conditions, _equal("args", arguments)))


def _request(action: Action) -> CallPattern:
    arguments = action.arguments
    method, host, path = (str(arguments.get(name)) for name in ("method", "host", "path"))
    fields = {"host": host, "method": method}
    conditions: list[Condition] = []
    notes: list[str] = []
    if _PLAIN_PATH.fullmatch(path):
        fields["path"] = request_patterns([path])[0]
        if fields["path"] != path:
            notes.append(f"The path was {path}; each * stands for any other id.")
    else:
        conditions.append(_equal("args.path", path))
    body = _object(arguments.get("body"))
    free = []
    for name in sorted(body, key=lambda name: name != "amount"):  # it must not fall behind others
        condition = _body_condition(name, body[name])
        if condition is None or len(conditions) >= _MAX_CONDITIONS:
            free.append(name)
            continue
        conditions.append(condition)
        if name == "amount":
            amount = amount_text(arguments).removeprefix("amount ") or str(body[name])
            notes.append(f"Amounts up to {amount} are not asked about any more.")
    if free:
        named = ", ".join(free[:_MAX_NAMED]) + (", ..." if len(free) > _MAX_NAMED else "")
        notes.append(f"These fields of the body may have any value: {named}.")
    notes.append("Port, query, headers and further fields of the body may be any.")
    return CallPattern(fields, tuple(conditions), tuple(notes))


def _object(body: Any) -> Mapping[str, Any]:
    return body if isinstance(body, Mapping) else {}


def _body_condition(name: str, value: Any) -> Condition | None:
    """Return what a field of a body has to be; None where it may be anything: ids, long texts,
    objects."""
    if not name.isidentifier() or not name.isascii():
        return None
    field = f"args.body.{name}"
    if name == "amount":
        if type(value) is int or (isinstance(value, str) and value.isascii() and value.isdigit()):
            is_short = len(str(value)) <= 15
            return Condition(f"int({field})", "<=", str(int(value))) if is_short else None
        return Condition(f"double({field})", "<=", literal(value)) if type(value) is float else None
    is_word = isinstance(value, str) and len(value) <= _MAX_TEXT and not _ID.search(value)
    is_kept = (is_word and not holds_secret(value)) or isinstance(value, bool)
    return _equal(field, value) if is_kept else None


def _equal(left: str, value: Any) -> Condition:
    return Condition(left, "==", literal(value))


def _field_condition(name: str, value: str) -> str:
    if name == "name":
        return f"action.name == {literal(value)}"
    if "*" not in value:
        return f"args.{name} == {literal(value)}"
    pattern = "[^/]+".join(map(re.escape, value.split("*")))
    return f"args.{name}.matches({literal(f'^{pattern}$')})"


_MAX_DEPTH = 16
_PLACEHOLDER = "{{secret:"


def holds_secret(value: Any) -> bool:
    """Return whether a placeholder stands somewhere for a value that was masked."""
    if isinstance(value, str):
        return _PLACEHOLDER in value
    if isinstance(value, Mapping):
        return any(holds_secret(key) or holds_secret(inner) for key, inner in value.items())
    return isinstance(value, list | tuple) and any(map(holds_secret, value))


def literal(value: Any) -> str:
    """Return a value of JSON as CEL writes it. Raises InvalidInput for what cannot be written."""
    return _literal(value, _MAX_DEPTH)


def _literal(value: Any, depth: int) -> str:
    if depth == 0:
        raise InvalidInput("the arguments are nested too deeply to be written into a rule")
    match value:
        case None | bool():
            return {None: "null", True: "true", False: "false"}[value]
        case str():
            quote = '"' if "'" in value else "'"  # YAML shows single quotes as they are
            return quote + "".join(map(_escaped, value)) + quote
        case int():
            return str(value)
        case float():
            return _double(value)
        case Mapping():
            pairs = (f"{_literal(str(k), 1)}: {_literal(v, depth - 1)}" for k, v in value.items())
            return "{" + ", ".join(pairs) + "}"
        case list() | tuple():
            return "[" + ", ".join(_literal(item, depth - 1) for item in value) + "]"
    raise InvalidInput(f"an argument is no JSON: {type(value).__name__}")


def _double(value: float) -> str:
    text = repr(value)
    return text if set(text) & set(".e") else f"{text}.0"


def _escaped(character: str) -> str:
    code = ord(character)
    if 0xD800 <= code < 0xE000:
        raise InvalidInput("an argument is not text and cannot be written into a rule")
    if character in '"\\':
        return "\\" + character
    if 0x20 <= code < 0x7F:
        return character
    return f"\\u{code:04x}" if code < 0x10000 else f"\\U{code:08x}"
