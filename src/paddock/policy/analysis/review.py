"""Mistakes and doubts about well-formed terms. Places in a text are not known here."""

from __future__ import annotations

import enum
from collections.abc import Iterator

import msgspec

from paddock.model.action import Effect, Kind, Verdict
from paddock.policy.analysis.coverage import unreachable
from paddock.policy.analysis.examples import failures
from paddock.policy.decide import CONTAINED_KINDS
from paddock.policy.globs import any_of, is_literal
from paddock.policy.problems import Path
from paddock.policy.reach import NETWORK_KINDS, could_reach
from paddock.policy.rules import Rule
from paddock.policy.terms import Terms
from paddock.policy.tools import undeclared
from paddock.policy.world import reach


class Level(enum.StrEnum):
    """An error makes the file unusable; the others are for its writer."""

    ERROR = "error"
    WARNING = "warning"
    NOTE = "note"


class Remark(msgspec.Struct, frozen=True):
    """One thing to say about a part of the file."""

    level: Level
    code: str
    path: Path
    message: str
    hint: str | None = None
    rule_id: str | None = None


CODES = {
    "invalid": "The file does not have the shape of a paddock file.",
    "duplicate-id": "Two rules have the same id.",
    "unreachable": "A rule can never matter, because a stricter one covers it.",
    "undeclared-tool": "A rule names a tool that the file does not declare.",
    "example-fails": "An example of a rule does not hold.",
    "no-why": "A rule does not say why, so whoever meets it cannot know.",
    "no-examples": "A rule has no examples that show what it is for.",
    "allow-admin": "A rule lets an agent administer something without asking.",
    "program-by-name": "A rule knows a program by its name, which a changed copy need not have.",
    "program-with-arguments": "A rule names a program with a blank in its name.",
    "allow-contained": "A rule allows some of what is allowed inside the fence anyway.",
    "needs-allow": "A rule is about something that is blocked anyway.",
    "unreached-host": "Something is said about a host that network.allow does not reach.",
    "secret-to-wildcard": "A secret goes to hosts that nobody has listed.",
    "effect-falls-to-read": "Arguments that nobody thought of count as a read.",
}


def errors(terms: Terms) -> Iterator[Remark]:
    """Yield what makes the terms unusable."""
    yield from _duplicates(terms)
    yield from _undeclared(terms)
    yield from _unreachable(terms)
    yield from _failing_examples(terms)


def doubts(terms: Terms) -> Iterator[Remark]:
    """Yield what the writer of the file may want to change."""
    for number, rule in enumerate(terms.rules):
        path: Path = ("rules", number)
        yield from _silence(rule, path)
        yield from _loose_grants(terms, rule, path)
        yield from _names_of_programs(rule, path)
        yield from _arguments_in_names(rule, path)
        yield from _blocked_anyway(terms, rule, path)
        yield from _rules_out_of_reach(terms, rule, path)
    yield from _settings_out_of_reach(terms)
    yield from _wide_secrets(terms)
    yield from _effects_that_fall(terms)


def _duplicates(terms: Terms) -> Iterator[Remark]:
    first: dict[str, int] = {}
    for number, rule in enumerate(terms.rules):
        if first.setdefault(rule.id, number) != number:
            yield Remark(Level.ERROR, "duplicate-id", ("rules", number, "id"),
                         f"the id {rule.id} is used twice, first by rules[{first[rule.id]}]",
                         "give each rule its own", rule.id)  # fmt: skip


def _undeclared(terms: Terms) -> Iterator[Remark]:
    for number, rule in enumerate(terms.rules):
        if Kind.TOOL not in rule.kinds:
            continue
        for message, hint in undeclared(rule.match.get("name") or (), terms.tools):
            path = ("rules", number, "match", "name")
            yield Remark(Level.ERROR, "undeclared-tool", path, message, hint, rule.id)


def _unreachable(terms: Terms) -> Iterator[Remark]:
    for number, other in unreachable(terms.rules):
        rule, wide = terms.rules[number], terms.rules[other]
        yield Remark(Level.ERROR, "unreachable", ("rules", number),
                     f"never decides: {wide.id} ({wide.decide}) covers all of it",
                     f"remove it, make it stricter than {wide.decide}, or narrow {wide.id}",
                     rule.id)  # fmt: skip


def _failing_examples(terms: Terms) -> Iterator[Remark]:
    for number, rule in enumerate(terms.rules):
        for key, place, why in failures(rule):
            yield Remark(Level.ERROR, "example-fails", ("rules", number, "examples", key, place),
                         f"{why} ({rule.id})", "correct the rule or the example",
                         rule.id)  # fmt: skip


def _silence(rule: Rule, path: Path) -> Iterator[Remark]:
    if not rule.why and rule.decide is not Verdict.ALLOW:
        yield Remark(Level.WARNING, "no-why", path, f"{rule.id} does not say why",
                     "add why: with a sentence for whoever meets the rule", rule.id)  # fmt: skip
    if not rule.examples and (rule.match.fields or rule.when):
        yield Remark(Level.NOTE, "no-examples", path, f"{rule.id} has no examples",
                     "add examples: {match: [...], not_match: [...]}", rule.id)  # fmt: skip


def _loose_grants(terms: Terms, rule: Rule, path: Path) -> Iterator[Remark]:
    if rule.decide is not Verdict.ALLOW:
        return
    if set(rule.kinds) <= CONTAINED_KINDS and (rule.match.fields or rule.unless or rule.when):
        yield Remark(Level.WARNING, "allow-contained", path,
                     f"{rule.id} allows what is allowed anyway, and blocks nothing else",
                     "to allow only this: decide: block, with unless: instead of match:",
                     rule.id)  # fmt: skip
    if Kind.TOOL not in rule.kinds:
        return
    matches = any_of(rule.match.get("name") or ("*",), "")
    admins = [name for name, tool in terms.tools.items() if matches(name) and _can_administer(tool)]
    if admins and "admin" in (rule.match.get("effect") or ("admin",)):
        yield Remark(Level.WARNING, "allow-admin", path,
                     f"{rule.id} allows admin actions of {', '.join(admins[:5])} without asking",
                     "write decide: ask, or match the effect write only", rule.id)  # fmt: skip


def _can_administer(tool: object) -> bool:
    effect = getattr(tool, "effect", None)
    return effect is Effect.ADMIN or (
        isinstance(effect, tuple) and any(part is Effect.ADMIN for part, _ in effect)
    )


def _names_of_programs(rule: Rule, path: Path) -> Iterator[Remark]:
    names = [
        pattern
        for pattern in rule.match.get("program") or ()
        if "/" not in pattern and is_literal(pattern)
    ]
    if Kind.EXEC in rule.kinds and names and rule.decide is not Verdict.ALLOW:
        yield Remark(Level.NOTE, "program-by-name", (*path, "match", "program"),
                     f"a changed copy of {names[0]} under another name is not {names[0]}",
                     "rules see the file that is really executed; also block programs in places "
                     "that the agent can write, e.g. path: [/home/**, /tmp/**]",
                     rule.id)  # fmt: skip


def _arguments_in_names(rule: Rule, path: Path) -> Iterator[Remark]:
    for key, match in (("match", rule.match), ("unless", rule.unless)):
        if Kind.EXEC not in rule.kinds or match is None:
            continue
        names = [*(match.get("program") or ()), *(argv[0] for argv in match.get("argv") or ())]
        for name in names:
            if " " in name and "/" not in name:
                yield Remark(Level.WARNING, "program-with-arguments", (*path, key),
                             f"{rule.id} is about a program whose name is {name!r}",
                             f"for its arguments write argv: [{', '.join(name.split())}]",
                             rule.id)  # fmt: skip


def _blocked_anyway(terms: Terms, rule: Rule, path: Path) -> Iterator[Remark]:
    if rule.decide in (Verdict.ALLOW, Verdict.BLOCK):
        return
    network = reach(terms.network, terms.world)
    granted = NETWORK_KINDS if network is not None else frozenset()
    for kind in set(rule.kinds) - CONTAINED_KINDS - {Kind.TOOL} - granted:
        if not any(other.decide is Verdict.ALLOW and kind in other.kinds for other in terms.rules):
            yield Remark(Level.WARNING, "needs-allow", path,
                         f"{kind} is blocked unless a rule allows it, and none does",
                         "add a rule with decide: allow for the same match", rule.id)  # fmt: skip


def _rules_out_of_reach(terms: Terms, rule: Rule, path: Path) -> Iterator[Remark]:
    network = reach(terms.network, terms.world)
    if network is None or NETWORK_KINDS.isdisjoint(rule.kinds):
        return
    for name in ("host", "name"):
        if name == "name" and Kind.DNS not in rule.kinds:
            continue  # of a tool
        for pattern in rule.match.get(name) or ():
            if not could_reach(network, pattern.casefold()):
                yield _out_of_reach(pattern, (*path, "match", name), rule.id)


def _settings_out_of_reach(terms: Terms) -> Iterator[Remark]:
    network = reach(terms.network, terms.world)
    if network is None:
        return
    for pattern in network.passthrough:
        if not any(entry.host.overlaps(pattern) for entry in network.allow):
            yield _out_of_reach(str(pattern), ("network", "tls", "passthrough"))
    for host in network.hosts:
        if not network.covers_name(host):
            yield _out_of_reach(host, ("network", "hosts", host))


def _out_of_reach(host: str, path: Path, rule_id: str | None = None) -> Remark:
    return Remark(Level.WARNING, "unreached-host", path, f"{host} is not in network.allow",
                  "add it there, or remove this", rule_id)  # fmt: skip


def _wide_secrets(terms: Terms) -> Iterator[Remark]:
    for name, secret in terms.secrets.items():
        for pattern in (host for host in secret.to if host.is_wildcard):
            yield Remark(Level.WARNING, "secret-to-wildcard", ("secrets", name, "to"),
                         f"{name} goes to whatever host there is below {pattern.host}",
                         "name the hosts that need it")  # fmt: skip


def _effects_that_fall(terms: Terms) -> Iterator[Remark]:
    for name, tool in terms.tools.items():
        if not isinstance(tool.effect, Effect) and tool.effect[-1] == (Effect.READ, True):
            yield Remark(Level.NOTE, "effect-falls-to-read", ("tools", name, "effect"),
                         f"whatever {name} is called with, unless it is foreseen, is a read",
                         "say when it is a read, and write: true for the rest")  # fmt: skip
