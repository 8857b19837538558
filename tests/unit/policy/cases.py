"""Paddock files, actions and strategies that the tests of this package share."""

from __future__ import annotations

from typing import Any

from hypothesis import strategies as st
from msgspec.structs import replace

from paddock.model.action import Action, Decision, Effect, Kind, Stage, Verdict
from paddock.model.events import Decided, Proposed, Record
from paddock.model.steps import Step
from paddock.policy.analysis.candidate import RecordedAction
from paddock.policy.decide import Policy
from paddock.policy.file import load
from paddock.policy.rules import Limit, Match, Rule
from paddock.policy.terms import Terms
from paddock.policy.tools import ToolTerms

SUPPORT_BOT = """\
version: 1
agent: support-bot
stage: draft                     # observe | draft | approve | narrow | broad
sandbox: {isolation: container, limits: {cpu: 1, memory: 512MiB, disk: 1GiB, time: 10m}}
tools:
  search_tickets: {effect: read}
  issue_refund:   {effect: write, reversible: false}
rules:
  - id: no-package-installs
    match: {kind: exec, program: [pip, npm, apt-get]}
    decide: block
    why: Dependencies are pinned in the template.
    examples: {match: [{argv: [pip, install, x]}], not_match: [{argv: [python3, a.py]}]}
  - id: big-refunds
    match: {kind: tool, name: issue_refund}
    when: args.amount > 5000
    decide: ask
    why: Refunds over 50.00 need a person.
  - id: refund-budget
    match: {kind: tool, name: issue_refund}
    limit: {sum: args.amount, max: 20000, per: 24h}
    decide: ask
approvals: {timeout: 15m, by: [terminal]}
"""


def recorded_action(
    number: int, action: Action, decision: Decision, *, at: float = 0.0, run: str = "",
    rehearsed: str = "",
) -> RecordedAction:  # fmt: skip
    """An action as a journal has it."""
    events = (Proposed.of(action), Decided.of(decision))
    records = [Record(n, int(1e6 * at), number, event) for n, event in enumerate(events)]
    return RecordedAction(Step(number, records), action, decision, at, run, rehearsed=rehearsed)


def file_with(rules: str, *, stage: str = "broad", tools: str = "{t: {effect: read}}") -> str:
    """A file with these rules, which are given without indentation."""
    lines = "".join(f"  {line}\n" for line in rules.strip().splitlines())
    section = f"rules:\n{lines}" if lines else ""
    return f"version: 1\nagent: a\nstage: {stage}\ntools: {tools}\n{section}"


def policy_with(rules: str, *, stage: str = "broad", tools: str = "{t: {effect: read}}") -> Policy:
    return load(file_with(rules, stage=stage, tools=tools))


def tool(name: str = "t", effect: Effect = Effect.READ, **arguments: Any) -> Action:
    return Action(Kind.TOOL, name, arguments, effect)


def run(program: str, *words: str, told: str | None = None, **more: Any) -> Action:
    """A program that is executed inside the fence."""
    argv = [told or program.rpartition("/")[2], *words]
    arguments = {"program": program, "argv": argv, "cwd": "/home/user", **more}
    return Action(Kind.EXEC, program, arguments, is_contained=True)


def file_action(operation: str, path: str, **more: Any) -> Action:
    arguments = {"operation": operation, "path": path, **more}
    effect = Effect.READ if operation in ("read", "list") else Effect.WRITE
    return Action(Kind.FILE, operation, arguments, effect, is_contained=True)


def http(host: str, method: str = "GET", path: str = "/", **more: Any) -> Action:
    effect = Effect.READ if method == "GET" else Effect.WRITE
    arguments = {"host": host, "method": method, "path": path, **more}
    return Action(Kind.HTTP, host, arguments, effect)


# Small worlds, so that rules and actions often meet.
TOOL_NAMES = ("read_it", "write_it", "undo_it", "rule_it")
TOOLS = {
    "read_it": ToolTerms("read_it", Effect.READ),
    "write_it": ToolTerms("write_it", Effect.WRITE),
    "undo_it": ToolTerms("undo_it", Effect.WRITE, is_reversible=True),
    "rule_it": ToolTerms("rule_it", Effect.ADMIN),
}
_names = st.sampled_from([*TOOL_NAMES, "*_it", "w*"])
_expressions = st.sampled_from(["args.n > 3", "args.n == 0", "has(args.n)", "args.missing == 1"])
_hosts = st.sampled_from(["a.example.com", "*.example.com", "**.example.com", "b.test"])
_paths = st.sampled_from(["/a/**", "/a/b", "/a/*", "/c/d"])


def _match(kind: Kind) -> st.SearchStrategy[Match]:
    fields: dict[Kind, dict[str, st.SearchStrategy[Any]]] = {
        Kind.TOOL: {
            "name": st.lists(_names, min_size=1, max_size=2, unique=True).map(tuple),
            "effect": st.sampled_from([("read",), ("write",), ("write", "admin")]),
        },
        Kind.EXEC: {
            "program": st.sampled_from([("pip",), ("git", "sh"), ("/usr/bin/*",), ("p*",)]),
            "argv": st.sampled_from([(("git", "push"),), (("**", "-f"),)]),
        },
        Kind.FILE: {
            "operation": st.sampled_from([("read",), ("write", "remove")]),
            "path": st.lists(_paths, min_size=1, max_size=2, unique=True).map(tuple),
        },
        Kind.HTTP: {
            "host": st.lists(_hosts, min_size=1, max_size=2, unique=True).map(tuple),
            "method": st.sampled_from([("GET",), ("POST", "PUT")]),
        },
    }
    chosen = st.fixed_dictionaries({}, optional=fields[kind])
    return chosen.map(lambda found: Match(tuple(sorted(found.items()))))


@st.composite
def rules(draw: st.DrawFn, rule_id: str = "r", *, verdicts: tuple[Verdict, ...] = ()) -> Rule:
    kind = draw(st.sampled_from([Kind.TOOL, Kind.TOOL, Kind.EXEC, Kind.FILE, Kind.HTTP]))
    known = [one for one in verdicts or tuple(Verdict)
             if not (kind is Kind.EXEC and one is Verdict.SIMULATE)]  # fmt: skip
    decide = draw(st.sampled_from(known))
    limits = st.builds(Limit, st.integers(0, 5), st.sampled_from([None, 60.0]),
                       st.sampled_from([None, "args.n"]))  # fmt: skip
    is_grant = decide is Verdict.ALLOW
    return Rule(
        id=rule_id,
        kinds=(kind,),
        decide=decide,
        match=draw(_match(kind)),
        when=draw(st.none() | _expressions),
        limit=None if is_grant else draw(st.none() | limits),
        why=draw(st.sampled_from(["", "Because."])),
        fault={"error": rule_id} if decide is Verdict.FAULT else None,
    )


@st.composite
def rule_lists(draw: st.DrawFn, max_size: int = 5) -> tuple[Rule, ...]:
    count = draw(st.integers(0, max_size))
    return tuple(draw(rules(f"r{number}")) for number in range(count))


@st.composite
def actions(draw: st.DrawFn) -> Action:
    arguments: dict[str, Any] = draw(
        st.fixed_dictionaries({}, optional={"n": st.sampled_from([0, 2, 5, "x", None, 1.5, -1])})
    )
    found: Action = draw(
        st.one_of(
            st.builds(
                lambda name, effect: tool(name, effect, **arguments),
                st.sampled_from([*TOOL_NAMES, "unknown"]),
                st.sampled_from(list(Effect)),
            ),
            st.builds(run, st.sampled_from(["/usr/bin/pip", "/bin/git", "/tmp/x"]),
                      st.sampled_from(["push", "-f", "x"])),
            st.builds(file_action, st.sampled_from(["read", "write", "remove"]),
                      st.sampled_from(["/a/b", "/a/b/c", "/c/d", "/e", "/a/../c"])),
            st.builds(http, st.sampled_from(["a.example.com", "x.a.example.com", "b.test"]),
                      st.sampled_from(["GET", "POST"])),
        )
    )  # fmt: skip
    if found.kind is not Kind.TOOL:
        found = replace(found, arguments={**found.arguments, **arguments})
    return found


def policy_of(found: tuple[Rule, ...], stage: Stage) -> Policy:
    """Without the checks of a file: rules that hide each other are welcome here."""
    return Policy.of(Terms("a", stage, TOOLS, found))
