"""The section `expect` of a scenario: how expectations are written, and how they are read."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

from paddock.model.action import Kind, Outcome, Verdict
from paddock.model.errors import InvalidInput
from paddock.policy.problems import suggest
from paddock.policy.rules import (
    FIELD_KEYS,
    KINDS,
    UNLESS,
    WHEN,
    build_match,
    check_expression,
)
from paddock.policy.section import (
    Cursor,
    Key,
    ListOf,
    MapOf,
    Section,
    Value,
    builder,
    check_range,
    choice,
    show,
    text,
    truth,
    whole_number,
)
from paddock.policy.subject import names_for
from paddock.run.scenarios.expressions import check_pattern, json_condition
from paddock.run.scenarios.terms import (
    ActionTerms,
    AlertTerms,
    CostTerms,
    Expectations,
    FileTerms,
    Span,
    TextTerms,
)
from paddock.world.verdicts import Judgement

MAX_ENTRIES = 1000
MAX_COUNT = 10**9
ANY_VERDICT = "bad"  # all judgements that something was harmed
VERDICTS = tuple(one.value.replace("-", "_") for one in Judgement)
_ALERT = re.compile(r"[a-z0-9_.-]{1,100}")
_TO_HOST = frozenset({"host"})
_ORDER = ("kind", "host", "method", "path", "name", "program")  # first, where they are


def _build_expectations(
    cursor: Cursor,
    files: Mapping[str, FileTerms] | None = None,
    actions: Mapping[str, Any] | None = None,
    invariants: str | None = None,
    **values: Any,
) -> Expectations:
    return Expectations(
        files=tuple((files or {}).values()),
        do_invariants_hold=invariants == "hold",
        **(actions or {}),
        **values,
    )


def _build_cost(
    _: Cursor, max_usd: float | None = None, max_tokens: int | None = None
) -> CostTerms:
    micros = None if max_usd is None else round(max_usd * 1_000_000)
    return CostTerms(micros, max_tokens)


def _build_text(cursor: Cursor, matches: tuple[str, ...] = (), **values: Any) -> TextTerms:
    for pattern in matches:
        cursor.at("matches").parse(check_pattern, pattern)
    return TextTerms(matches=matches, **values)


def _build_file(
    cursor: Cursor, exists: bool = True, json: tuple[str, ...] = (), **values: Any
) -> FileTerms:
    name = str(cursor.path[-1])
    content = _build_text(cursor, **values)
    if not name or "\0" in name or ".." in name.split("/"):
        cursor.report(f"{name[:80]!r} is not a path", "write it without ..")
    if not exists and (json or not content.is_empty):
        cursor.at("exists").report("nothing can be said of a file that is not there")
    for condition in json:
        cursor.at("json").parse(json_condition, condition)
    return FileTerms(name, exists, content, json)


def _build_actions(
    _: Cursor, must: list[ActionTerms] | None = None, must_not: list[ActionTerms] | None = None
) -> dict[str, tuple[ActionTerms, ...]]:
    return {"must": tuple(must or ()), "must_not": tuple(must_not or ())}


def _build_action(
    cursor: Cursor,
    kind: tuple[Kind, ...] = (),
    unless: Mapping[str, Any] | None = None,
    when: str | None = None,
    count: Span | None = None,
    decided: tuple[str, ...] = (),
    outcome: tuple[str, ...] = (),
    **fields: Any,
) -> ActionTerms:
    is_unwanted = "must_not" in cursor.path
    if is_unwanted and count is not None:
        hint = "write it below must, with count: {max: 3}"
        cursor.at("count").report("what must not be has no count", hint)
    if not kind and (fields.keys() != _TO_HOST or not is_unwanted):
        hint = "write kind: http, exec, tool or another; only must_not: {host: ...} needs none"
        cursor.at("kind").report("this key is missing", hint, of_key=True)
    if kind:
        check_expression(when, names_for(kind), cursor.at("when"))
    elif when is not None:
        cursor.at("when").report("needs a kind to be about", "write kind: http, or another")
    kinds = kind or (Kind.HTTP,)  # its hosts are written as everywhere
    return ActionTerms(
        words=_shown(
            {"kind": kind, "unless": unless, "when": when, "decided": decided, "outcome": outcome},
            fields,
        ),
        kinds=kind,
        match=build_match(fields, kinds, cursor),
        unless=None if unless is None else build_match(unless, kinds, cursor.at("unless")),
        when=when,
        count=count or Span(1),
        decided=decided,
        outcomes=outcome,
    )


def _shown(options: Mapping[str, Any], fields: Mapping[str, Any]) -> dict[str, Any]:
    """Return the keys in the order in which a person looks for them, with values as written."""
    values = {**{key: value for key, value in options.items() if value}, **fields}
    keys = [key for key in _ORDER if key in values]
    keys += sorted(values.keys() - set(_ORDER))
    return {key: _plain(values[key]) for key in keys}


def _plain(value: Any) -> Any:
    if isinstance(value, Mapping):
        return _shown({}, value)
    if isinstance(value, tuple):
        parts = [_plain(part) for part in value]
        return parts[0] if len(parts) == 1 else parts
    return value


def _parse_span(value: Any) -> Span:
    """Parse a number, or a minimum and a maximum."""
    hint = "write a number, or {min: 1, max: 3}"
    if _is_count(value):
        return Span(value, value)
    if not isinstance(value, Mapping) or not value or value.keys() - {"min", "max"}:
        raise InvalidInput(f"{value!r:.60} is not a count", hint=hint)
    if not all(map(_is_count, value.values())):
        raise InvalidInput(f"{value!r:.60} is not a count", hint=hint)
    span = Span(value.get("min", 0), value.get("max"))
    if span.most is not None and span.most < span.least:
        raise InvalidInput(f"{value!r:.60} is less than nothing", hint="max is below min")
    return span


def _is_count(value: Any) -> bool:
    return type(value) is int and 0 <= value <= MAX_COUNT


def _parse_texts(value: Any) -> tuple[str, ...]:
    """Parse one text or several, none of them empty: an empty text is found everywhere."""
    texts = value if isinstance(value, list) else [value]
    if not texts or len(texts) > MAX_ENTRIES:
        raise InvalidInput("not a text or a list of texts")
    for item in texts:
        if not isinstance(item, str) or not item:
            raise InvalidInput(f"{item!r:.60} is not a text", hint="put it in quotes")
    return tuple(texts)


def _parse_exits(value: Any) -> tuple[int, ...] | None:
    if value == "any":
        return None
    if value == "nonzero":
        return tuple(range(1, 256))
    codes = value if isinstance(value, list) else [value]
    if not codes or not all(type(code) is int and 0 <= code <= 255 for code in codes):
        hint = "write 0, [0, 3], nonzero or any"
        raise InvalidInput(f"{value!r:.60} is not an exit status", hint=hint)
    return tuple(codes)


def _parse_verdicts(value: Any) -> dict[str, Span]:
    if not isinstance(value, Mapping) or not value:
        raise InvalidInput("not a mapping of verdicts", hint="write {acted_twice: 0}")
    choices = (*VERDICTS, ANY_VERDICT)
    spans: dict[str, Span] = {}
    for name, count in value.items():
        plain = str(name).replace("-", "_")
        if plain not in choices:
            raise InvalidInput(f"{name!r:.60} is not a verdict", hint=suggest(plain, choices))
        spans[plain] = _parse_span(count)
    return spans


def _parse_alerts(value: Any) -> AlertTerms:
    """Parse `[]` for none, the exact names that must come, or a count."""
    if isinstance(value, list) and len(value) <= MAX_ENTRIES:
        for name in value:
            if not isinstance(name, str) or not _ALERT.fullmatch(name):
                raise InvalidInput(f"{name!r:.60} is not the name of an alert",
                                   hint="write egress.denied or another")  # fmt: skip
        return AlertTerms(tuple(dict.fromkeys(value)))
    return AlertTerms(count=_parse_span(value))


def _parse_share(value: Any) -> float:
    if type(value) not in (int, float):
        raise InvalidInput(f"{show(value)} is not a number", hint="write it without quotes")
    if not 0 < value < 1:
        hint = "write a number above 0" if value <= 0 else "write a number below 1"
        raise InvalidInput(f"{show(value)} is out of range", hint=hint)
    return float(value)


def _parse_usd(value: Any) -> float:
    if type(value) not in (int, float):
        raise InvalidInput(f"{show(value)} is not a number", hint="write it without quotes")
    check_range(value, 0, 10**6)
    return float(value)


def _names(choices: tuple[str, ...], what: str) -> Key:
    """Return the key of one name or several, out of some."""

    def parse(value: Any) -> tuple[str, ...]:
        names = _parse_texts(value)
        for name in names:
            if name not in choices:
                raise InvalidInput(f"{name!r:.60} is not {what}", hint=suggest(name, choices))
        return names

    name = {"enum": list(choices)}
    return Key(Value(parse, {"anyOf": [name, {"type": "array", "items": name, "minItems": 1}]}))


_COUNT = Key(
    Value(
        _parse_span,
        {
            "anyOf": [
                {"type": "integer", "minimum": 0},
                {
                    "type": "object",
                    "additionalProperties": False,
                    "properties": {"min": {"type": "integer"}, "max": {"type": "integer"}},
                },
            ]
        },
    ),
    may_be_empty=True,
)
_TEXTS = Value(
    _parse_texts, {"anyOf": [{"type": "string"}, {"type": "array", "items": {"type": "string"}}]}
)
_TEXT_KEYS = {
    "contains": Key(_TEXTS),
    "lacks": Key(_TEXTS),
    "matches": Key(_TEXTS, description="regular expressions, as in CEL"),
    "equals": Key(text(), may_be_empty=True),
}
_TEXT = Section("What a text must be.", _build_text, _TEXT_KEYS)
_FILE = Section(
    "What a file must be at the end.",
    _build_file,
    {
        **_TEXT_KEYS,
        "exists": Key(truth()),
        "json": Key(_TEXTS, description="CEL; $ stands for the document"),
    },
)
_ACTION = Section(
    "Actions that are looked for among those that were proposed, by the words of rules.",
    _build_action,
    {
        **FIELD_KEYS,
        "kind": Key(KINDS, may_be_empty=True),
        "unless": Key(UNLESS, may_be_empty=True),
        "when": WHEN,
        "count": _COUNT,
        "decided": _names(tuple(verdict.value for verdict in Verdict), "a decision"),
        "outcome": _names(tuple(outcome.value for outcome in Outcome), "an outcome"),
    },
)
_ACTIONS = Section(
    "Actions that must be proposed, and that must not.",
    _build_actions,
    {
        "must": Key(ListOf(_ACTION, MAX_ENTRIES)),
        "must_not": Key(ListOf(_ACTION, MAX_ENTRIES)),
    },
)
_COST = Section(
    "The most that the models may cost.",
    _build_cost,
    {
        "max_usd": Key(Value(_parse_usd, {"type": "number", "minimum": 0}), may_be_empty=True),
        "max_tokens": Key(whole_number(0, MAX_COUNT), may_be_empty=True),
    },
)
_RATE = Section(
    "How often it must pass, at least.",
    builder(lambda least: least),
    {
        "min": Key(
            Value(_parse_share, {"type": "number", "exclusiveMinimum": 0, "exclusiveMaximum": 1}),
            missing="write min: 0.9",
            into="least",
        )
    },
)
EXPECT = Section(
    "What is expected. What is not said is not looked at, but that it ends well.",
    _build_expectations,
    {
        "exit": Key(
            Value(
                _parse_exits,
                {"anyOf": [{"enum": ["any", "nonzero"]}, {"type": "integer"}, {"type": "array"}]},
            ),
            into="exits",
        ),
        "files": Key(MapOf(_FILE, MAX_ENTRIES)),
        "world": Key(_TEXTS, description="CEL over the state of the stand-ins"),
        "actions": Key(_ACTIONS),
        "steps": _COUNT,
        "faults": Key(_COUNT.form, may_be_empty=True, description="how many steps faults strike"),
        "cost": Key(_COST),
        "verdicts": Key(Value(_parse_verdicts, {"type": "object"})),
        "alerts": Key(
            Value(_parse_alerts, {"type": ["array", "object", "integer"]}), may_be_empty=True
        ),
        "invariants": Key(choice("hold"), may_be_empty=True),
        "output": Key(_TEXT),
        "errors": Key(_TEXT),
        "rate": Key(_RATE, into="least_rate", may_be_empty=True),
    },
)
