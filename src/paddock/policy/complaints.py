"""What pydantic finds wrong with the shape of a file, in our words and at its place in the text."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, Any

from paddock.model.errors import InvalidInput
from paddock.policy.document import Document, Path
from paddock.policy.problems import Problem, suggest
from paddock.policy.schema import SHAPES

if TYPE_CHECKING:
    from pydantic import ValidationError

_MISSING_HINTS = {
    ("version",): "write version: 1",
    ("agent",): "write agent: and a name for it",
    ("stage",): "write stage: observe, draft, approve, narrow or broad",
    ("rules", "*", "decide"): "write decide: allow, block, ask, simulate or fault",
    ("rules", "*", "match"): "write match: {kind: exec, ...} or another kind",
    ("rules", "*", "match", "kind"): "write kind: exec, file, code, tool, http or another",
    ("rules", "*", "id"): "write id: and a short name for the rule",
    ("rules", "*", "limit", "per"): "write per: 24h, or per: run",
    ("rules", "*", "limit", "max"): "write max: and the most that may be spent",
    ("tools", "*", "effect"): "write effect: read, write or admin",
    ("secrets", "*", "from"): "write from: env:VAR, file:PATH, command:WORDS or keyring:...",
    ("secrets", "*", "to"): "write to: and the hosts that get it",
}
_TYPES = {
    "string_type": ("text", "put it in quotes"),
    "int_type": ("a whole number", "write it without quotes, fraction or unit"),
    "bool_type": ("true or false", "write true or false without quotes"),
    "list_type": ("a list", "write [one, two], or one item a line with a dash"),
    "dict_type": ("a mapping", "write key: value"),
    "model_type": ("a mapping", "write key: value"),
}


def complaints(document: Document, error: ValidationError) -> Iterator[Problem]:
    """Every mistake, each once."""
    for one in error.errors():
        path = _path(document.value, one["loc"])
        yield _problem(document, path, one)


def _problem(document: Document, path: Path, one: Mapping[str, Any]) -> Problem:
    kind, context = one["type"], one.get("ctx") or {}
    general = _general(path)
    if kind == "missing":
        hint = _MISSING_HINTS.get(general)
        return document.problem(path, "this key is missing", hint, of_key=True)
    if kind == "extra_forbidden":
        known = SHAPES[general[:-1]].model_fields if general[:-1] in SHAPES else {}
        return document.problem(path, "unknown key", suggest(path[-1], known), of_key=True)
    if kind == "value_error" and isinstance(context.get("error"), InvalidInput):
        return document.problem(path, context["error"].message, context["error"].hint)
    if kind == "literal_error":
        words = re.findall(r"'([^']*)'", context["expected"])
        message = f"{_shown(one['input'])} is not known here"
        hint = suggest(one["input"], words) if words else f"write {context['expected']}"
        return document.problem(path, message, hint)
    if kind in _TYPES:
        wanted, hint = _TYPES[kind]
        # Whoever writes a secret where its source belongs must not find it in a log.
        shown = "the value" if path[:1] == ("secrets",) else _shown(one["input"])
        return document.problem(path, f"{shown} is not {wanted}", hint)
    if kind == "string_pattern_mismatch":
        message = f"{_shown(one['input'])} is not a name"
        return document.problem(path, message, "use letters, digits, '.', '_' and '-'")
    return document.problem(path, one["msg"].replace("Input should", "must"))


def _path(value: Any, loc: tuple[str | int, ...]) -> Path:
    """`loc` without the names that pydantic gives to alternatives, which are not in the file."""
    path: list[str | int] = []
    for number, part in enumerate(loc):
        is_last = number == len(loc) - 1
        if is_last and part == "[key]":  # the key before it is what is wrong
            break
        if isinstance(value, dict) and (part in value or is_last):
            path.append(part)
            value = value.get(str(part))
        elif isinstance(value, list) and isinstance(part, int) and part < len(value):
            path.append(part)
            value = value[part]
    return tuple(path)


def _general(path: Path) -> tuple[str, ...]:
    """The path with `*` for numbers and names, as SHAPES has it."""
    return tuple(
        "*" if isinstance(part, int) or (number == 1 and path[0] in ("tools", "secrets")) else part
        for number, part in enumerate(path)
    )


def _shown(value: Any) -> str:
    text = repr(value)
    return text if len(text) <= 60 else text[:57] + "..."
