"""Proposes the smallest paddock file that a permissive run needed. A person reviews it."""

from __future__ import annotations

import posixpath
import re
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator
from typing import Any, assert_never

import msgspec

from paddock.model.action import Action, Effect, Kind, Stage, Verdict
from paddock.model.errors import InvalidInput
from paddock.model.hosts import bracketed
from paddock.policy.analysis.candidate import RecordedAction
from paddock.policy.analysis.path_patterns import file_patterns, request_patterns
from paddock.policy.decide import is_contained
from paddock.policy.effects import strictest
from paddock.policy.fields import FIELDS, Unmatchable, host_of, pattern_problem, port_of
from paddock.policy.file import load
from paddock.policy.file.writer import emit
from paddock.policy.network import Destination, Transport, parse_destination
from paddock.policy.problems import PolicyError
from paddock.policy.reach import NETWORK_KINDS
from paddock.policy.section import MAX_ENTRIES
from paddock.policy.subject import Subject

CHANGING = ("write", "make_dir", "rename", "remove")
_SYSTEM = ("/usr/", "/bin/", "/sbin/", "/lib/", "/lib64/")
MAX_PATTERNS = 500
# Why an action is no evidence that the agent may do it for real.
STOOD_IN = "a stand-in answered"
ASKED = "a person was asked"
DRAFTED = "it became a draft"
FAULTED = "a fault struck it"
REPLAYED = "the answer came from a record"
UNKNOWN = "nobody knows what came of it"
_TOP = "Learned from one run. Review each line: what the run did is not always what it should."


def learn(recorded: Iterable[RecordedAction], agent: str = "agent", *, ceiling: Stage) -> str:
    """Return the text of a file that allows every recorded action that was allowed and really done,
    no other tool, and inside the fence only the programs, languages and changed files that were
    seen.

    Nothing is learned from what a stand-in answered, a person was asked about, became a draft, was
    struck by a fault or was answered from a record: that the agent tried it is no reason to let it.
    The stage is never above `ceiling`, the strictest one that the runs were under.
    """
    lesson = _Lesson()
    steps = _without_rehearsed(
        [action for action in recorded if action.decision.verdict is not Verdict.BLOCK], lesson
    )
    actions = [step.action for step in steps]
    tools = _tools(steps, lesson)
    stage = min(_stage(steps), ceiling, key=list(Stage).index)
    lesson.plain = {"version": 1, "agent": agent, "stage": stage.value}
    lesson.comments[("stage",)] = "The strictest stage that the run needed; never above its own."
    allow = _reached(actions)
    if allow:
        lesson.plain["network"] = {"allow": allow}
        lesson.comments[("network",)] = "Where the run went; nothing else can be reached."
        # What only reads needs no more than that.
        actions = [
            action
            for action in actions
            if action.kind not in NETWORK_KINDS or action.effect.is_write
        ]
    if tools:
        lesson.plain["tools"] = tools
        lesson.comments[("tools",)] = "Every tool that was called; no other can be."
    lesson.plain["rules"] = []
    for teach in (_grants, _programs, _languages, _files, _hosts, _connections, _names, _models):
        for rule, comment in teach(actions, tools):
            lesson.add(rule, comment)
    if not lesson.plain["rules"] and not tools and not allow:
        lesson.plain["rules"].append({"id": "contained", "decide": "allow",
                                      "match": {"kind": ["exec", "file", "code"]}})  # fmt: skip
    return lesson.text(steps)


class _Lesson(msgspec.Struct):
    """A file in the making."""

    plain: dict[str, Any] = {}
    comments: dict[tuple[str | int, ...], str] = {}
    left_out: list[str] = []

    def add(self, rule: dict[str, Any], comment: str) -> None:
        rules = self.plain["rules"]
        taken = {other["id"] for other in rules}
        base, number = rule["id"], 1
        while rule["id"] in taken:
            number += 1
            rule["id"] = f"{base}-{number}"
        self.comments[("rules", len(rules))] = comment
        rules.append(rule)

    def text(self, steps: list[RecordedAction]) -> str:
        """Return the text of the file, with a remark on top when it does not allow all that it
        should."""
        notes = [_TOP, *self.left_out]
        self.comments[("version",)] = "\n".join(notes)
        text = emit(self.plain, self.comments)
        refused = _refused(text, steps)
        if refused:
            shown = ", ".join(map(str, refused[:10])) + (", ..." if len(refused) > 10 else "")
            notes.append(f"Not allowed by this file, and to be decided by hand: steps {shown}.")
            self.comments[("version",)] = "\n".join(notes)
        return emit(self.plain, self.comments)


def _refused(text: str, steps: list[RecordedAction]) -> list[int]:
    try:
        policy = load(text)
    except PolicyError as error:
        raise AssertionError(f"a learned file must load: {error}") from error
    return [
        recorded.number
        for recorded in steps
        if policy.decide(recorded.action).verdict is not Verdict.ALLOW
    ]


def _without_rehearsed(steps: list[RecordedAction], lesson: _Lesson) -> list[RecordedAction]:
    """Leave out what is no evidence, and say so on top of the file. The lookup of a name belongs to
    the requests to it: it stays where one of those does."""
    reasons = {(recorded.run, recorded.number): _why_rehearsed(recorded) for recorded in steps}
    real = [recorded for recorded in steps if not reasons[recorded.run, recorded.number]]
    left_out = [recorded for recorded in steps if reasons[recorded.run, recorded.number]]
    reached = {_host(recorded.action) for recorded in real if recorded.action.kind is not Kind.DNS}
    unreached = {_host(recorded.action) for recorded in left_out} - reached
    names: dict[str, set[str]] = defaultdict(set)
    for recorded in left_out:
        host = _host(recorded.action)
        names[reasons[recorded.run, recorded.number]].add(
            recorded.action.name if host is None else host
        )
    for reason, tried in sorted(names.items()):
        shown = ", ".join(repr(name[:100]).strip("'") for name in sorted(tried)[:10])
        lesson.left_out.append(f"Left out, {reason}: {shown}.")
    if STOOD_IN in names:
        lesson.left_out.append("Copy `world:` for what a stand-in answered.")
    return [
        recorded
        for recorded in real
        if recorded.action.kind is not Kind.DNS or _host(recorded.action) not in unreached
    ]


def _why_rehearsed(recorded: RecordedAction) -> str:
    """Return why the action is no evidence. The decision tells what was to happen; what the journal
    knows besides is in `rehearsed`."""
    match recorded.decision.verdict:
        case Verdict.SIMULATE:
            return DRAFTED if recorded.decision.is_draft else STOOD_IN
        case Verdict.ASK:
            return ASKED
        case Verdict.FAULT:
            return FAULTED
        case Verdict.ALLOW | Verdict.BLOCK:
            return recorded.rehearsed
    assert_never(recorded.decision.verdict)


def _host(action: Action) -> str | None:
    if action.kind not in NETWORK_KINDS:
        return None
    host = action.arguments.get("host", action.arguments.get("name"))
    return host if isinstance(host, str) else None


Lessons = Iterator[tuple[dict[str, Any], str]]


def _tools(steps: list[RecordedAction], lesson: _Lesson) -> dict[str, dict[str, Any]]:
    tools: dict[str, dict[str, Any]] = {}
    for recorded in steps:
        action = recorded.action
        if action.kind is not Kind.TOOL:
            continue
        if not action.name or len(action.name) > 200 or not action.name.isprintable() or (
            "*" in action.name
        ):  # fmt: skip
            lesson.left_out.append(f"Left out, not a name: the tool {action.name[:60]!r}.")
            continue
        effect = strictest(action.effect, recorded.decision.effect)
        tool = tools.setdefault(action.name, {"effect": effect.value, "reversible": True})
        tool["effect"] = strictest(effect, Effect(tool["effect"])).value
        tool["reversible"] = tool["reversible"] and action.is_reversible
    for tool in tools.values():
        if tool["effect"] == "read" or not tool["reversible"]:
            del tool["reversible"]
    return dict(sorted(tools.items()))


def _stage(steps: list[RecordedAction]) -> Stage:
    changes = [
        (strictest(recorded.action.effect, recorded.decision.effect), recorded.action.is_reversible)
        for recorded in steps
        if not is_contained(recorded.action)
    ]
    writes = [(effect, undoable) for effect, undoable in changes if effect.is_write]
    if not writes:
        return Stage.OBSERVE
    is_narrow = all(effect is Effect.WRITE and undoable for effect, undoable in writes)
    return Stage.NARROW if is_narrow else Stage.BROAD


def _reached(actions: list[Action]) -> list[str]:
    """Return hosts and ports as `network.allow` has them; none when some action has no such thing.
    Bare TCP only where nothing else was seen."""
    destinations: dict[str, Destination] = {}
    for action in actions:
        if action.kind not in NETWORK_KINDS or action.kind is Kind.DNS:
            continue
        try:
            host, port = host_of(action), port_of(action)
            where = f"{bracketed(host)}:{port}"
            is_bare = action.kind is Kind.CONNECT
            seen = parse_destination(f"{where}/tcp" if is_bare else where)
        except (Unmatchable, InvalidInput):
            return []  # rules can say more of it than a list of hosts
        if where not in destinations or seen.transport is Transport.ANY:
            destinations[where] = seen
    return [str(destination) for destination in sorted(destinations.values())][:MAX_ENTRIES]


def _grants(_: list[Action], tools: dict[str, dict[str, Any]]) -> Lessons:
    for effect in ("write", "admin"):
        names = [name for name, tool in tools.items() if tool["effect"] == effect]
        if names:
            rule = _rule(f"seen-{effect}-tools", "tool", "allow", name=names)
            yield rule, f"What the run changed outside, with tools of the effect {effect}."


def _programs(actions: list[Action], _: object) -> Lessons:
    of_kind = [action for action in actions if action.kind is Kind.EXEC]
    programs = _values(of_kind, "program")
    names = {posixpath.basename(name) for name in programs}
    # A name in a list of allowed programs does not hold for a file that the agent could write.
    names |= {path for path in programs if path.startswith("/") and not path.startswith(_SYSTEM)}
    yield from _only(of_kind, "programs", "exec", "program", _safe(names), {},
                     "Programs that were really executed, by every name they went by.")  # fmt: skip


def _languages(actions: list[Action], _: object) -> Lessons:
    of_kind = [action for action in actions if action.kind is Kind.CODE]
    names = _safe(_values(of_kind, "language"))
    yield from _only(of_kind, "languages", "code", "language", names, {}, "Code that was run.")


def _files(actions: list[Action], _: object) -> Lessons:
    of_kind = [action for action in actions if action.kind is Kind.FILE]
    changing = [action for action in of_kind if _operation(action) in CHANGING]
    patterns = file_patterns(_values(changing, "path"))
    yield from _only(changing, "changes", "file", "path", patterns, {"operation": [*CHANGING]},
                     "Files that were changed; reading is left alone.")  # fmt: skip
    outside = [action for action in of_kind if not is_contained(action) and action not in changing]
    if outside:
        wanted = sorted(set(map(_operation, outside)))
        yield _rule("seen-reads", "file", "allow", operation=wanted), "Files outside the fence."


def _only(
    actions: list[Action],
    what: str,
    kind: str,
    name: str,
    patterns: list[str],
    match: dict[str, Any],
    comment: str,
) -> Lessons:
    """Yield a block of all but what was seen; for what leaves the fence, also the grant."""
    if not patterns or len(patterns) > MAX_PATTERNS:
        return
    rule = _rule(f"only-seen-{what}", kind, "block", **match)
    rule["why"] = "The run that this file was learned from did not need it."
    yield {**rule, "unless": {name: patterns}}, comment
    if not all(is_contained(action) for action in actions):
        yield _rule(f"seen-{what}", kind, "allow", **match, **{name: patterns}), comment


def _hosts(actions: list[Action], _: object) -> Lessons:
    requests: dict[str, dict[str, list[Action]]] = defaultdict(lambda: defaultdict(list))
    for request in (action for action in actions if action.kind is Kind.HTTP):
        named = [*_values([request], "host"), *_values([request], "method")]
        if len(named) == 2:
            requests[named[0]][named[1].upper()].append(request)
    for host, methods in sorted(requests.items()):
        is_clear = all(_values([request], "path") for ones in methods.values() for request in ones)
        for method, ones in sorted(methods.items()):
            paths = request_patterns(_values(ones, "path"))[:MAX_PATTERNS] if is_clear else []
            rule = _rule(f"seen-{method.lower()}-{_slug(host)}", "http", "allow", host=host,
                         method=method, **({"path": paths} if paths else {}))  # fmt: skip
            yield rule, f"Requests to {host}; a * is a segment that had digits."


def _connections(actions: list[Action], _: object) -> Lessons:
    ports: dict[str, set[int]] = defaultdict(set)
    for connection in (action for action in actions if action.kind is Kind.CONNECT):
        for host, port in zip(
            _values([connection], "host"), _values([connection], "port"), strict=False
        ):
            ports[host].add(int(port))
    for host, numbers in sorted(ports.items()):
        rule = _rule(f"seen-connect-{_slug(host)}", "connect", "allow", host=host)
        rule["match"]["port"] = sorted(numbers)
        yield rule, f"Connections to {host}."


def _names(actions: list[Action], _: object) -> Lessons:
    """Yield a rule for names that were looked up and reached. Another may belong to a stand-in."""
    reached = {_host(action) for action in actions if action.kind is not Kind.DNS}
    lookups = [action for action in actions if action.kind is Kind.DNS and _host(action) in reached]
    names = _safe(_values(lookups, "name"))
    if names:
        yield _rule("seen-names", "dns", "allow", name=names), "Names that were looked up."


def _models(actions: list[Action], _: object) -> Lessons:
    models: dict[str, set[str]] = defaultdict(set)
    for call in (action for action in actions if action.kind is Kind.MODEL):
        for provider, model in zip(
            _values([call], "provider"), _values([call], "model"), strict=False
        ):
            models[provider].add(model)
    for provider, names in sorted(models.items()):
        rule = _rule(f"seen-models-{_slug(provider)}", "model", "allow", provider=provider,
                     model=_safe(names))  # fmt: skip
        yield rule, f"Models of {provider}."


def _rule(rule_id: str, kind: str, decide: str, **match: Any) -> dict[str, Any]:
    return {"id": rule_id, "match": {"kind": kind, **match}, "decide": decide}


def _values(actions: list[Action], name: str) -> list[str]:
    """Return the values of a field; of an action whose values cannot be compared, none."""
    usable: list[str] = []
    for action in actions:
        values: Callable[[Subject], tuple[Any, ...]] = FIELDS[action.kind][name].values
        try:
            of_action = values(Subject(action, action.effect))
        except Unmatchable:
            continue
        usable += [value for value in of_action if _is_usable(action.kind, name, value)]
    return usable


def _is_usable(kind: Kind, name: str, value: Any) -> bool:
    """Return whether a value can stand in a rule; stars in a path are dealt with elsewhere."""
    if name == "path":
        return True
    is_plain = "*" not in str(value)
    return is_plain and pattern_problem(kind, name, str(value)) is None


def _operation(action: Action) -> str:
    return str(action.arguments.get("operation", action.name))


def _safe(names: Iterable[str]) -> list[str]:
    """Return the names without those that would be patterns."""
    return sorted({name for name in names if name and "*" not in name and len(name) < 1000})


def _slug(text: str) -> str:
    return re.sub(r"[^A-Za-z0-9._-]", "-", text)[:60]
