"""What pydantic finds wrong with the shape of a file, in our words and at its place in the text."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, Any

from paddock.model.errors import InvalidInput
from paddock.policy.file.document import Document, Path
from paddock.policy.problems import Problem, spell_path, suggest
from paddock.policy.schema import SHAPES
from paddock.policy.synonyms import synonym

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
_ONE_RULE = "write - {id: NAME, match: {kind: http}, decide: block}, one rule a line"
_ONE_KEY = "write NAME: {from: env:NAME, to: [api.example.com]}"
# What to write at a place where something of another type stands.
_TYPE_HINTS = {
    ("agent",): "write agent: and a name for it",
    ("rules",): _ONE_RULE,
    ("rules", "*"): _ONE_RULE,
    ("rules", "*", "match"): "write match: {kind: http}, or another kind",
    ("rules", "*", "limit"): "write limit: {count: 1, max: 20, per: 24h}",
    ("rules", "*", "fault"): "write fault: {status: 503}",
    ("rules", "*", "examples"): "write examples: {match: [{...}], not_match: [{...}]}",
    ("rules", "*", "when"): 'write an expression in quotes, as in "args.amount > 5000"',
    ("tools",): "write tools: {search: {effect: read}}",
    ("tools", "*"): "write {effect: read}, or write or admin",
    ("network",): "write network: {allow: [api.example.com:443]}, or {mode: none} for nothing",
    ("network", "allow"): "write allow: [api.example.com:443]",
    ("secrets",): _ONE_KEY,
    ("secrets", "*"): _ONE_KEY,
    ("sandbox",): "write sandbox: {limits: {memory: 1GiB}}",
    ("sandbox", "limits"): "write limits: {memory: 1GiB}",
    ("approvals",): "write approvals: {timeout: 15m, by: [terminal]}",
    ("approvals", "by"): "write by: [terminal]",
    ("record",): "write record: {budget: 4GiB}",
    ("replay",): "write replay: {vary: [body.sent_at=date]}",
    ("faults", "*", "fault"): "write fault: {status: 503}, or another word",
    ("faults", "*", "match"): "write match: {kind: http}, or another kind",
}
_BOUNDS = {
    "less_than_equal": ("le", "of at most"),
    "less_than": ("lt", "below"),
    "greater_than_equal": ("ge", "of at least"),
    "greater_than": ("gt", "above"),
}
_NOT_NAMED = "leave it out: what allow does not name cannot be reached"
# What to write for keys that people look for, and that are said in another way.
_KEY_HINTS = {
    ("network", "deny"): _NOT_NAMED,
    ("network", "block"): _NOT_NAMED,
    ("rules", "*", "match", "url"): "write host: and path:, as in {host: x.example, path: /a/*}",
    ("rules", "*", "match", "command"): "write program: rm, or argv: [rm, -rf]",
    ("rules", "*", "match", "when"): "write when: beside match:, not in it",
    ("rules", "*", "priority"): "leave it out: of all rules that match, the strictest holds",
    ("secrets", "*", "value"): "write from: env:NAME; the value itself never stands in the file",
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
        return document.problem(path, "unknown key", _hint_for_key(general, path), of_key=True)
    if kind == "value_error" and isinstance(context.get("error"), InvalidInput):
        return document.problem(path, context["error"].message, context["error"].hint)
    if kind == "literal_error":
        words = re.findall(r"'([^']*)'", context["expected"])
        message = f"{_shown(one['input'])} is not known here"
        hint = suggest(one["input"], words) if words else f"write {context['expected']}"
        return document.problem(path, message, hint)
    if kind in _TYPES:
        wanted, hint = _TYPES[kind]
        hint = _TYPE_HINTS.get(general, hint)
        # Whoever writes a secret where its source belongs must not find it in a log.
        shown = "the value" if path[:1] == ("secrets",) else _shown(one["input"])
        return document.problem(path, f"{shown} is not {wanted}", hint)
    if kind == "string_pattern_mismatch":
        message = f"{_shown(one['input'])} is not a name"
        return document.problem(path, message, "use letters, digits, '.', '_' and '-'")
    message, hint = _bound(kind, context, one)
    return document.problem(path, message, hint)


def _hint_for_key(general: tuple[str, ...], path: Path) -> str:
    """Return what to write for a key that is unknown at its place."""
    if general in _KEY_HINTS:
        return _KEY_HINTS[general]
    around, key = general[:-1], str(path[-1])
    known = SHAPES[around].model_fields if around in SHAPES else {}
    if synonym(key, known) is None:
        # In a part of this part, else in a part of the file.
        sections = _sections_with(key, around) or _sections_with(key, ())
        if sections:
            return f"it belongs under {' or '.join(sections)}"
    return suggest(key, known)


def _sections_with(key: str, around: tuple[str, ...]) -> list[str]:
    """Return the parts below `around` in which the key is known."""
    below = {path[len(around) :]: shape for path, shape in SHAPES.items()
             if len(path) > len(around) and path[: len(around)] == around}  # fmt: skip
    return [
        spell_path(path)
        for path, shape in below.items()
        if "*" not in path and key in shape.model_fields
    ]


def _bound(kind: str, context: Mapping[str, Any], one: Mapping[str, Any]) -> tuple[str, str | None]:
    """Return what is wrong with a value beyond a bound, and what to write."""
    shown = _shown(one["input"])
    if kind in _BOUNDS:
        key, words = _BOUNDS[kind]
        return f"{shown} is out of range", f"write a number {words} {context[key]:g}"
    if kind in ("float_type", "float_parsing"):
        return f"{shown} is not a number", "write it without quotes, as in 0.3"
    if kind == "too_short":
        return "an empty list", f"write at least {context.get('min_length', 1)}"
    return one["msg"].replace("Input should", "must"), None


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
