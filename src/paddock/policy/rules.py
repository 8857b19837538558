"""The section `rules` of a paddock file: its values, and how they are written."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import msgspec

from paddock.model.action import Kind, Verdict
from paddock.model.errors import InvalidInput
from paddock.policy.expressions import compile_expression
from paddock.policy.fields import FIELDS, pattern_problem
from paddock.policy.problems import suggest
from paddock.policy.section import (
    Cursor,
    Key,
    ListOf,
    Section,
    Value,
    as_given,
    choice,
    duration,
    mapping,
    parse_seconds,
    short_name,
    text,
    whole_number,
)
from paddock.policy.subject import names_for

_MAX_RULES = 2000
_MAX_PATTERNS = 500  # of one field
_MAX_EXAMPLES = 50
_KINDS = [kind.value for kind in Kind]

Pattern = tuple[Any, ...]  # texts; for argv tuples of words, one for each alternative


class Match(msgspec.Struct, frozen=True):
    """The fields that must all match; of the patterns of one field, one must."""

    fields: tuple[tuple[str, Pattern], ...] = ()

    def get(self, name: str) -> Pattern | None:
        return dict(self.fields).get(name)


class Limit(msgspec.Struct, frozen=True):
    """The amount that may be spent before the rule fires. Without a window it is counted over the
    run."""

    most: int
    window_s: float | None
    sum: str | None = None  # an expression; without it every action counts `count`
    count: int = 1


class Example(msgspec.Struct, frozen=True):
    """A part of an action; what is missing is filled in from the rule."""

    content: Mapping[str, Any]
    should_match: bool


class Rule(msgspec.Struct, frozen=True):
    """One rule of the file."""

    id: str
    kinds: tuple[Kind, ...]
    decide: Verdict
    match: Match = Match()
    unless: Match | None = None
    when: str | None = None
    limit: Limit | None = None
    why: str = ""
    fault: Mapping[str, Any] | None = None
    examples: tuple[Example, ...] = ()


def plain_rule(rule: Rule) -> dict[str, Any]:
    """Return the rule as the file writes it."""
    plain: dict[str, Any] = {"id": rule.id, "match": plain_match(rule.match, rule.kinds)}
    if rule.unless is not None:
        plain["unless"] = plain_match(rule.unless)
    if rule.when is not None:
        plain["when"] = rule.when
    if rule.limit is not None:
        plain["limit"] = _plain_limit(rule.limit)
    plain["decide"] = rule.decide.value
    if rule.fault is not None:
        plain["fault"] = dict(rule.fault)
    if rule.why:
        plain["why"] = rule.why
    if rule.examples:
        plain["examples"] = _plain_examples(rule.examples)
    return plain


def plain_match(match: Match, kinds: tuple[Kind, ...] = ()) -> dict[str, Any]:
    """Return kinds and patterns as the file writes them."""
    plain: dict[str, Any] = {}
    if kinds:
        plain["kind"] = _one_or_many([kind.value for kind in kinds])
    for field, patterns in match.fields:
        plain[field] = _one_or_many(
            [list(pattern) if isinstance(pattern, tuple) else pattern for pattern in patterns]
        )
    return plain


def plain_seconds(seconds: float) -> str:
    """Return a duration as the file writes it."""
    for unit, size in (("d", 86400), ("h", 3600), ("m", 60)):
        if seconds >= size and seconds % size == 0:
            return f"{seconds / size:.0f}{unit}"
    return f"{seconds:.0f}s" if seconds == int(seconds) else f"{seconds!r}s"


def _one_or_many(values: list[Any]) -> Any:
    """Return the only item of a list, which stands for the list, or the whole list."""
    return values[0] if len(values) == 1 else values


def _plain_limit(limit: Limit) -> dict[str, Any]:
    amount = {"count": limit.count} if limit.sum is None else {"sum": limit.sum}
    per = "run" if limit.window_s is None else plain_seconds(limit.window_s)
    return {**amount, "max": limit.most, "per": per}


def _plain_examples(examples: tuple[Example, ...]) -> dict[str, Any]:
    plain: dict[str, Any] = {}
    for example in examples:
        key = "match" if example.should_match else "not_match"
        plain.setdefault(key, []).append(example.content)
    return plain


def build_match(fields: Mapping[str, Any], kinds: tuple[Kind, ...], cursor: Cursor) -> Match:
    """Return the patterns of the fields, and report those that no action of the kinds can match."""
    for field, patterns in fields.items():
        for kind in kinds:
            _check_field(kind, field, patterns, cursor.at(field))
    return Match(tuple(sorted(fields.items())))


def build_unless(
    fields: Mapping[str, Any] | None, kinds: tuple[Kind, ...], cursor: Cursor
) -> Match | None:
    """Return what a rule leaves out."""
    if fields is None:
        return None
    if not fields:
        cursor.report("leaves nothing out", "name a field, or remove the key")
    return build_match(fields, kinds, cursor)


def check_expression(source: str | None, names: frozenset[str], cursor: Cursor) -> None:
    """Report an expression that cannot be compiled."""
    if source is not None:
        cursor.parse(lambda expression: compile_expression(expression, names), source)


def _check_field(kind: Kind, field: str, patterns: Pattern, cursor: Cursor) -> None:
    if field not in FIELDS[kind]:
        hint = suggest(field, FIELDS[kind])
        cursor.report(f"an action of kind {kind} has no {field}", hint, of_key=True)
        return
    for pattern in patterns:
        problem = pattern_problem(kind, field, pattern)
        if problem is not None:
            cursor.report(*problem)


def _build_rule(
    cursor: Cursor,
    rule_id: str,
    match: Mapping[str, Any],
    decide: str,
    unless: Mapping[str, Any] | None = None,
    when: str | None = None,
    limit: Limit | None = None,
    fault: Mapping[str, Any] | None = None,
    why: str = "",
    examples: tuple[Example, ...] = (),
) -> Rule:
    kinds: tuple[Kind, ...] = match["kind"]
    fields = {field: patterns for field, patterns in match.items() if field != "kind"}
    names = names_for(kinds)
    if decide == "simulate" and Kind.EXEC in kinds:
        hint = "write allow, block, ask or fault"
        cursor.at("decide").report("a program cannot be simulated", hint)
    if decide == "allow" and limit is not None:
        message = "a rule with a limit fires when it is exceeded, so it cannot allow"
        cursor.at("limit").report(message, "write decide: ask or block")
    if fault is not None and decide != "fault":
        hint = "remove it, or write decide: fault"
        cursor.at("fault").report("only a rule with decide: fault has a fault", hint)
    check_expression(when, names, cursor.at("when"))
    if limit is not None:
        check_expression(limit.sum, names, cursor.at("limit", "sum"))
    return Rule(
        id=rule_id,
        kinds=kinds,
        decide=Verdict(decide),
        match=build_match(fields, kinds, cursor.at("match")),
        unless=build_unless(unless, kinds, cursor.at("unless")),
        when=when,
        limit=limit,
        why=why,
        fault=fault,
        examples=examples,
    )


def _build_limit(
    cursor: Cursor,
    most: int,
    window_s: float | None,
    expression: str | None = None,
    count: int | None = None,
) -> Limit:
    if (expression is None) == (count is None):
        cursor.report("needs either sum or count", "write count: 1, or sum: args.amount")
    return Limit(most, window_s, expression, count or 1)


def _build_fault(
    _: Cursor,
    error: str = "The service failed.",
    status: int | None = None,
    delay: float | None = None,
) -> dict[str, Any]:
    fault = {"error": error, "status": status, "delay": delay}
    return {key: value for key, value in fault.items() if value is not None}


def _build_examples(
    _: Cursor, match: list[Any] | None = None, not_match: list[Any] | None = None
) -> tuple[Example, ...]:
    matching = [Example(content, should_match=True) for content in match or ()]
    return (*matching, *(Example(content, should_match=False) for content in not_match or ()))


def _parse_texts(value: Any) -> tuple[str, ...]:
    """Read one text, or a list of them of which any will do."""
    if value is None:
        raise InvalidInput("has no value", hint="write a pattern, or remove the key")
    texts = value if isinstance(value, list) else [value]
    if not texts:
        raise InvalidInput("an empty list matches nothing", hint="leave the key out for anything")
    if len(texts) > _MAX_PATTERNS:
        raise InvalidInput(f"more than {_MAX_PATTERNS} patterns", hint="use a glob")
    for item in texts:
        if not isinstance(item, str):
            raise InvalidInput(f"{item!r} is not a text", hint=f'write "{item}" for the text')
    return tuple(texts)


def _parse_kinds(value: Any) -> tuple[Kind, ...]:
    names = _parse_texts(value)
    for item in names:
        if item not in _KINDS:
            raise InvalidInput(f"{item!r} is not a kind of action", hint=suggest(item, _KINDS))
    return tuple(dict.fromkeys(map(Kind, names)))


def _parse_argv(value: Any) -> tuple[tuple[str, ...], ...]:
    if isinstance(value, list) and value and all(isinstance(item, list) for item in value):
        return tuple(map(_parse_texts, value))
    return (_parse_texts(value),)


def _parse_ports(value: Any) -> tuple[str, ...]:
    ports = value if isinstance(value, list) else [value]
    texts = [str(port) if type(port) is int else port for port in ports]
    return _parse_texts(None if value is None else texts)


def _parse_status(value: Any) -> int:
    if type(value) is not int:
        raise InvalidInput(f"{value!r:.60} is not a status", hint="write 503, without quotes")
    if not 400 <= value <= 599:
        what = "is no failure" if 100 <= value < 400 else "is not a status"
        hint = "a fault has a status from 400 to 599, as in 429 or 503"
        raise InvalidInput(f"{value} {what}", hint=hint)
    return value


def _parse_window(value: Any) -> float | None:
    periods = {"second": "1s", "minute": "1m", "hour": "1h", "day": "24h", "week": "7d"}
    if isinstance(value, str) and value in periods:
        raise InvalidInput(f"{value!r} is not a duration", hint=f"write {periods[value]}")
    return None if value == "run" else parse_seconds(value)


def _one_or_many_schema(item: dict[str, Any]) -> dict[str, Any]:
    return {"anyOf": [item, {"type": "array", "items": item, "minItems": 1}]}


_WORDS = {"type": "array", "items": {"type": "string"}, "minItems": 1}
_PORT = {"anyOf": [{"type": "integer", "minimum": 1, "maximum": 65535}, {"type": "string"}]}
_TEXTS = Key(Value(_parse_texts, _one_or_many_schema({"type": "string", "minLength": 1})))
KINDS = Value(_parse_kinds, _one_or_many_schema({"enum": _KINDS}))
FAILURE_STATUS = Value(_parse_status, {"type": "integer", "minimum": 400, "maximum": 599})
WHEN = Key(
    text(hint='write an expression in quotes, as in "args.amount > 5000"'),
    may_be_empty=True,
    description="CEL over args, action and context",
)
_ARGV = Key(
    Value(
        _parse_argv,
        {"anyOf": [_WORDS, {"type": "array", "items": _WORDS, "minItems": 1}, {"type": "string"}]},
    )
)
_PORTS = Key(Value(_parse_ports, _one_or_many_schema(_PORT)))
FIELD_KEYS = {
    "program": _TEXTS,
    "argv": _ARGV,
    "cwd": _TEXTS,
    "path": _TEXTS,
    "name": _TEXTS,
    "effect": _TEXTS,
    "operation": _TEXTS,
    "language": _TEXTS,
    "host": _TEXTS,
    "method": _TEXTS,
    "query": _TEXTS,
    "port": _PORTS,
    "provider": _TEXTS,
    "model": _TEXTS,
}
UNLESS = Section(
    "Fields of an action; a value is a pattern or a list of which any will do.",
    as_given,
    FIELD_KEYS,
    hint="write unless: {host: api.example.com}, or another field",
)
_MATCH = Section(
    "Which actions a rule is about: their kind, and fields that must all match.",
    as_given,
    {
        "kind": Key(KINDS, missing="write kind: exec, file, code, tool, http or another"),
        **FIELD_KEYS,
    },
    hint="write match: {kind: http}, or another kind",
    unknown_hints={
        "url": "write host: and path:, as in {host: x.example, path: /a/*}",
        "command": "write program: rm, or argv: [rm, -rf]",
        "when": "write when: beside match:, not in it",
    },
)
_LIMIT = Section(
    "How much may be spent before the rule fires.",
    _build_limit,
    {
        "sum": Key(
            text(),
            into="expression",
            may_be_empty=True,
            description="CEL that gives the amount of an action",
        ),
        "count": Key(
            whole_number(1, 10**6), may_be_empty=True, description="the amount of any action"
        ),
        "max": Key(
            whole_number(0, 10**15),
            missing="write max: and the most that may be spent",
            into="most",
        ),
        "per": Key(
            Value(_parse_window, duration().schema),
            missing="write per: 24h, or per: run",
            into="window_s",
            description="a duration, or run",
        ),
    },
    hint="write limit: {count: 1, max: 20, per: 24h}",
)
_FAULT = Section(
    "How an action fails that a rule lets fail.",
    _build_fault,
    {
        "error": Key(text(most=1000)),
        "status": Key(FAILURE_STATUS, may_be_empty=True),
        "delay": Key(duration(), may_be_empty=True),
    },
    hint="write fault: {status: 503}",
)
_EXAMPLES = Section(
    "Actions that the rule must and must not match; checked when the file is loaded.",
    _build_examples,
    {
        "match": Key(ListOf(mapping(), _MAX_EXAMPLES)),
        "not_match": Key(ListOf(mapping(), _MAX_EXAMPLES)),
    },
    hint="write examples: {match: [{...}], not_match: [{...}]}",
)
_EXAMPLE_RULE = "write - {id: NAME, match: {kind: http}, decide: block}, one rule a line"
_RULE = Section(
    "One rule. Of all that match an action, the strictest holds.",
    _build_rule,
    {
        "id": Key(short_name(), missing="write id: and a short name for the rule", into="rule_id"),
        "match": Key(_MATCH, missing="write match: {kind: exec, ...} or another kind"),
        "unless": Key(UNLESS, may_be_empty=True, description="what the rule leaves out"),
        "when": WHEN,
        "limit": Key(_LIMIT, may_be_empty=True),
        "decide": Key(
            choice("allow", "block", "ask", "simulate", "fault"),
            missing="write decide: allow, block, ask, simulate or fault",
        ),
        "fault": Key(_FAULT, may_be_empty=True),
        "why": Key(text(most=1000), description="shown when the rule decides"),
        "examples": Key(_EXAMPLES),
    },
    hint=_EXAMPLE_RULE,
    unknown_hints={"priority": "leave it out: of all rules that match, the strictest holds"},
)
RULES = ListOf(_RULE, _MAX_RULES, hint=_EXAMPLE_RULE)
