"""Which rules can never matter, because another one that is at least as strict matches more."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator
from typing import Any

from paddock.model.action import Kind, Verdict
from paddock.policy.compile import matches_words
from paddock.policy.fields import FIELDS, INDEXED
from paddock.policy.globs import covers, is_literal
from paddock.policy.rules import Match, Rule


def unreachable(rules: tuple[Rule, ...]) -> Iterator[tuple[int, int]]:
    """Yield pairs of a rule's number and the number of the rule that always decides before it. Of
    two rules that cover each other, the later one is told."""
    by_name: dict[tuple[Kind, str | None], list[int]] = defaultdict(list)
    for number, rule in enumerate(rules):
        if _is_plain(rule):
            for kind in rule.kinds:
                for key in _keys(rule, kind):
                    by_name[kind, key].append(number)
    for number, rule in enumerate(rules):
        hiding = next(
            (other for other in _near(by_name, rule) if _hides(rules, other, number)), None
        )
        if hiding is not None:
            yield number, hiding


def _hides(rules: tuple[Rule, ...], wide: int, narrow: int) -> bool:
    if wide == narrow or not rule_covers(rules[wide], rules[narrow]):
        return False
    return wide < narrow or not rule_covers(rules[narrow], rules[wide])


def rule_covers(wide: Rule, narrow: Rule) -> bool:
    """Return whether `wide` certainly matches whatever `narrow` does, and is at least as strict."""
    if wide.decide.strictness < narrow.decide.strictness or not _is_plain(wide):
        return False
    if narrow.decide is Verdict.ALLOW and wide.decide not in (Verdict.ALLOW, Verdict.BLOCK):
        return False  # what is asked about or simulated may still need the grant
    return set(narrow.kinds) <= set(wide.kinds) and all(
        _match_covers(wide.match, narrow.match, kind) for kind in narrow.kinds
    )


def _is_plain(rule: Rule) -> bool:
    return rule.when is None and rule.limit is None and rule.unless is None


def _match_covers(wide: Match, narrow: Match, kind: Kind) -> bool:
    narrow_fields = dict(narrow.fields)
    for name, patterns in wide.fields:
        if name not in narrow_fields:
            return False
        for pattern in narrow_fields[name]:
            if not any(_pattern_covers(kind, name, other, pattern) for other in patterns):
                return False
    return True


def _pattern_covers(kind: Kind, name: str, wide: Any, narrow: Any) -> bool:
    if name == "argv":
        return bool(_words_cover(wide, narrow))
    if name == "port":
        return bool(wide == narrow)
    separator = FIELDS[kind][name].separator
    if kind is Kind.EXEC and name == "program":
        if "/" not in wide and "/" in narrow:
            # A name says nothing of where the file lies.
            narrow = narrow.rpartition("/")[2]
        elif ("/" in wide) != ("/" in narrow):
            return False
        separator = "/" if "/" in wide else ""
    if FIELDS[kind][name].folds_case:
        wide, narrow = wide.casefold(), narrow.casefold()
    return covers(wide, narrow, separator)


def _words_cover(wide: tuple[str, ...], narrow: tuple[str, ...]) -> bool:
    if all(is_literal(word) for word in narrow):
        return matches_words(wide, narrow)
    return wide == narrow[: len(wide)]


def _keys(rule: Rule, kind: Kind) -> set[str | None]:
    patterns = rule.match.get(INDEXED[kind])
    if patterns is None or not all(is_literal(str(pattern)) for pattern in patterns):
        return {None}
    return {_key(pattern) for pattern in patterns}


def _key(pattern: str) -> str:
    return pattern.rpartition("/")[2].casefold()


def _near(by_name: dict[tuple[Kind, str | None], list[int]], rule: Rule) -> Iterator[int]:
    """Yield the rules that can cover this one: found by name, so that a long file stays quick to
    read."""
    kind = rule.kinds[0]  # it must be about all of them, so one is enough to find it
    yield from by_name.get((kind, None), ())
    patterns = rule.match.get(INDEXED[kind])
    if patterns is not None:
        yield from by_name.get((kind, _key(str(patterns[0]))), ())
