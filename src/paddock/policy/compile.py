"""Rules made ready: every field a test, every expression compiled, all found by kind and name."""

from __future__ import annotations

import posixpath
from collections.abc import Callable, Iterable, Mapping
from typing import Any

import msgspec
from msgspec.structs import replace

from paddock.model.action import Action, Kind, RuleHit, Verdict
from paddock.policy.expressions import Expression, compile_expression
from paddock.policy.fields import (
    FIELDS,
    INDEXED,
    Field,
    is_writable_program,
    program_paths,
    programs,
)
from paddock.policy.globs import Test, any_of, is_literal
from paddock.policy.rules import Match, Rule
from paddock.policy.subject import Subject, names_for

Check = Callable[[Subject], bool]


class CompiledRule(msgspec.Struct, frozen=True):
    """A rule that can be asked about an action."""

    rule: Rule
    checks: tuple[tuple[str, Check], ...]
    unless: tuple[tuple[str, Check], ...]
    when: Expression | None
    amount: Expression | None
    hit: RuleHit  # what it says whenever it matches

    def applies(self, subject: Subject) -> bool:
        """Return whether `match` and `when` hold and `unless` does not. Raises Unmatchable or
        ExpressionError."""
        for _, check in self.checks:
            if not check(subject):
                return False
        if self.unless and all(check(subject) for _, check in self.unless):
            return False
        return self.when is None or self.when.holds(subject.scope)


class Bucket(msgspec.Struct, frozen=True):
    """The rules that can concern an action, and the arguments that their expressions read."""

    rules: tuple[CompiledRule, ...]
    keys: frozenset[str] | None

    @classmethod
    def of(cls, rules: Iterable[CompiledRule]) -> Bucket:
        chosen = tuple(rules)
        keys: frozenset[str] = frozenset()
        for expression in (
            source for rule in chosen for source in (rule.when, rule.amount) if source
        ):
            if expression.keys is None:
                return cls(chosen, None)
            keys |= expression.keys
        return cls(chosen, keys)


class Index(msgspec.Struct, frozen=True):
    """Rules of one kind by the literal value of their indexed field; `others` could be any."""

    named: Mapping[str, Bucket]
    others: Bucket

    def candidates(self, names: tuple[str, ...]) -> Bucket:
        if len(names) == 1:
            return self.named.get(names[0], self.others)
        rules = {id(rule): rule for name in names for rule in
                 self.named.get(name, self.others).rules}  # fmt: skip
        return Bucket.of(rules.values())


def compile_rule(rule: Rule, kind: Kind) -> CompiledRule:
    """Return the rule for one of its kinds. Raises InvalidInput for an expression that is not
    one."""
    is_grant = rule.decide is Verdict.ALLOW
    names = names_for(rule.kinds)
    limit = rule.limit
    return CompiledRule(
        rule,
        _checks(rule.match, kind, needs_all=is_grant),
        _checks(rule.unless, kind, needs_all=not is_grant) if rule.unless else (),
        None if rule.when is None else compile_expression(rule.when, names),
        None if limit is None or limit.sum is None else compile_expression(limit.sum, names),
        RuleHit(rule.id, rule.decide, rule.why or f"The rule {rule.id} says so."),
    )


def build_index(rules: Iterable[CompiledRule], kind: Kind) -> Index:
    """Return an index over rules that were compiled for `kind`."""
    named: dict[str, list[CompiledRule]] = {}
    others: list[CompiledRule] = []
    for rule in rules:
        keys = _index_keys(rule.rule.match, kind)
        if keys is None:
            others.append(rule)
            continue
        compiled = rule if kind is Kind.EXEC else _without_check(rule, INDEXED[kind])
        for key in keys:
            named.setdefault(key, []).append(compiled)
    buckets = {key: Bucket.of([*of_key, *others]) for key, of_key in named.items()}
    return Index(buckets, Bucket.of(others))


def _without_check(rule: CompiledRule, name: str) -> CompiledRule:
    """Return the rule without the check of a field that it is found by: whoever finds it knows that
    it matches."""
    return replace(rule, checks=tuple(check for check in rule.checks if check[0] != name))


def index_names(action: Action) -> tuple[str, ...]:
    """Return the values of the action's indexed field. Raises Unmatchable."""
    kind = action.kind
    if kind is Kind.TOOL:
        return (action.name,)
    values = FIELDS[kind][INDEXED[kind]].values(Subject(action, action.effect))
    if kind is Kind.EXEC:
        return tuple(dict.fromkeys(posixpath.basename(value) for value in values))
    return values


def matches_words(pattern: tuple[str, ...], argv: tuple[str, ...]) -> bool:
    """Return whether the words begin as the pattern says; `**` in it stands for any words."""
    return _Words(pattern)(argv)


def _index_keys(match: Match, kind: Kind) -> set[str] | None:
    """Return the keys under which the rule is found, or None when it can concern any value."""
    field = FIELDS[kind][INDEXED[kind]]
    patterns = match.get(INDEXED[kind])
    if patterns is None:
        return None
    names = [posixpath.basename(pattern) if kind is Kind.EXEC else pattern for pattern in patterns]
    if not all(is_literal(name) for name in names):
        return None
    return {name.casefold() if field.folds_case else name for name in names}


def _checks(match: Match | None, kind: Kind, *, needs_all: bool) -> tuple[tuple[str, Check], ...]:
    if match is None:
        return ()
    return tuple(
        (name, _check(kind, name, FIELDS[kind][name], patterns, needs_all=needs_all))
        for name, patterns in match.fields
    )


def _check(
    kind: Kind, name: str, field: Field, patterns: tuple[Any, ...], *, needs_all: bool
) -> Check:
    if kind is Kind.EXEC and name == "program":
        return _program_check(patterns, needs_all=needs_all)
    test = _test(name, field, patterns)
    values = field.values

    def one_matches(subject: Subject) -> bool:
        field_values = subject.memo.get(name)
        if field_values is None:
            field_values = subject.memo[name] = values(subject)
        return test(field_values[0]) if len(field_values) == 1 else any(map(test, field_values))

    def all_match(subject: Subject) -> bool:
        if name == "argv" and is_writable_program(subject):
            return False  # its first word is the program's name, which the agent chose
        field_values = subject.memo.get(name)
        if field_values is None:
            field_values = subject.memo[name] = values(subject)
        return bool(field_values) and all(map(test, field_values))

    return all_match if needs_all else one_matches


def _test(name: str, field: Field, patterns: tuple[Any, ...]) -> Callable[[Any], bool]:
    if name == "argv":
        patterns_of_words = [_Words(pattern) for pattern in patterns]
        return lambda argv: any(matches(argv) for matches in patterns_of_words)
    if name == "port":
        ranges = [_port_range(pattern) for pattern in patterns]
        return lambda port: any(port in ports for ports in ranges)
    texts = [pattern.casefold() if field.folds_case else pattern for pattern in patterns]
    return any_of(texts, field.separator)


def _program_check(patterns: tuple[str, ...], *, needs_all: bool) -> Check:
    """Return a check of the program. A pattern without a slash means the name of the file, wherever
    it lies."""
    names = any_of([pattern for pattern in patterns if "/" not in pattern], "")
    with_slash = [pattern for pattern in patterns if "/" in pattern]
    paths = any_of(with_slash, "/")

    def one_matches(subject: Subject) -> bool:
        if any(names(posixpath.basename(program)) for program in programs(subject)):
            return True
        return bool(with_slash) and any(map(paths, program_paths(subject)))

    def all_match(subject: Subject) -> bool:
        """Return whether a grant holds. A grant by name is for files that the agent cannot write;
        one by path is for whatever lies there."""
        if is_writable_program(subject):
            return bool(with_slash) and all(map(paths, program_paths(subject)))
        return all(
            names(posixpath.basename(program)) or paths(program) for program in programs(subject)
        )

    return all_match if needs_all else one_matches


def _port_range(text: str) -> range:
    first, _, last = str(text).partition("-")
    return range(int(first), int(last or first) + 1)


class _Words:
    """A pattern over words: prefix of the words, each a glob, `**` any number of words.

    Between two `**` the first place that fits is as good as a later one, so nothing is tried twice.
    """

    def __init__(self, pattern: tuple[str, ...]) -> None:
        self._runs: list[list[Test]] = [[]]
        for word in pattern:
            if word == "**":
                self._runs.append([])
            else:
                self._runs[-1].append(any_of([word], ""))

    def __call__(self, argv: tuple[str, ...]) -> bool:
        first, *rest = self._runs
        if not _fits(first, argv, 0):
            return False
        at = len(first)
        for run in rest:
            places = range(at, len(argv) - len(run) + 1)
            match = next((place for place in places if _fits(run, argv, place)), None)
            if match is None:
                return False
            at = match + len(run)
        return True


def _fits(run: list[Test], argv: tuple[str, ...], at: int) -> bool:
    return at + len(run) <= len(argv) and all(
        test(argv[at + number]) for number, test in enumerate(run)
    )
