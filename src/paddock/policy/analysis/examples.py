"""Examples of a rule, made into whole actions and tried. What an example leaves out comes from the
rule itself, so that each example shows exactly the difference that it names.
"""

from __future__ import annotations

import posixpath
from collections.abc import Iterator, Mapping
from typing import Any

from paddock.model.action import Action, Effect, Kind
from paddock.model.errors import InvalidInput
from paddock.policy.compile import compile_rule
from paddock.policy.decide import CONTAINED_KINDS, BadAmount, amount_of
from paddock.policy.expressions import ExpressionError
from paddock.policy.fields import FIELDS, Unmatchable
from paddock.policy.problems import suggest
from paddock.policy.reach import usually_reversible
from paddock.policy.rules import Example, Rule
from paddock.policy.subject import HTTP_NAMES, Subject

_ALWAYS = ("kind", "effect", "context", "reversible")
_MORE: Mapping[Kind, tuple[str, ...]] = {
    Kind.EXEC: ("real_path",),
    Kind.TOOL: ("args",),
    Kind.FILE: ("to",),
    Kind.CODE: ("code",),
    Kind.HTTP: tuple(sorted(HTTP_NAMES | {"port"})),
    Kind.MODEL: ("args",),
}
_USUAL: Mapping[Kind, Mapping[str, Any]] = {
    Kind.EXEC: {"cwd": "/home/user"},
    Kind.FILE: {"operation": "read", "path": "/home/user/file"},
    Kind.CODE: {"language": "python", "code": ""},
    Kind.HTTP: {"host": "example.com", "method": "GET", "path": "/"},
    Kind.CONNECT: {"host": "example.com", "port": 443},
    Kind.DNS: {"name": "example.com"},
    Kind.MODEL: {"provider": "example", "model": "example"},
    Kind.TOOL: {},
}


def failures(rule: Rule) -> Iterator[tuple[str, int, str]]:
    """Yield for each example that does not hold: `match` or `not_match`, its number there, and
    why."""
    numbers = {True: -1, False: -1}
    for example in rule.examples:
        numbers[example.should_match] += 1
        why = _failure(rule, example)
        if why is not None:
            key = "match" if example.should_match else "not_match"
            yield key, numbers[example.should_match], why


def example_action(rule: Rule, content: Mapping[str, Any]) -> Action:
    """Return the whole action that an example stands for. Raises InvalidInput for what it cannot
    be."""
    kind = _kind(rule, content)
    keys = known_keys(kind)
    for key in content:
        if key not in keys:
            raise InvalidInput(f"{kind} has no {key}; {suggest(key, keys)}")
    _check_words(content.get("argv", []))
    values = {**_USUAL[kind], **_from_rule(rule, kind), **content}
    return _action_of(kind, _completed(kind, values, content))


def known_keys(kind: Kind) -> tuple[str, ...]:
    """Return what can be said of an action of that kind."""
    return (*FIELDS[kind], *_MORE.get(kind, ()), *_ALWAYS)


def _action_of(kind: Kind, values: Mapping[str, Any]) -> Action:
    """Return an action from its fields and arguments by name. Raises InvalidInput."""
    effect = values.get("effect", "read")
    if effect not in list(Effect):
        raise InvalidInput(f"{effect!r} is not an effect")
    arguments = {key: value for key, value in values.items() if key not in _ALWAYS}
    name = arguments.get("name", kind.value)
    if kind is Kind.TOOL:
        name, arguments = values.get("name", ""), values.get("args", {})
    elif kind is Kind.MODEL:
        name, arguments = arguments.get("model", ""), _with_args(arguments)
    elif kind is Kind.EXEC:
        name = arguments.get("program", "")
    elif kind in (Kind.FILE, Kind.CODE, Kind.CONNECT, Kind.HTTP):
        name = arguments.get({Kind.FILE: "operation", Kind.CODE: "language"}.get(kind, "host"), "")
    context = values.get("context", {})
    if (
        not isinstance(name, str)
        or not isinstance(arguments, dict)
        or not isinstance(context, dict)
    ):
        raise InvalidInput("args and context are mappings, and a name is a text")
    return Action(
        kind=kind,
        name=name,
        arguments=arguments,
        effect=Effect(effect),
        is_reversible=values.get("reversible", usually_reversible(kind, Effect(effect))) is True,
        is_contained=kind in CONTAINED_KINDS,
        context=context,
    )


def _failure(rule: Rule, example: Example) -> str | None:
    try:
        action = example_action(rule, example.content)
        compiled = compile_rule(rule, action.kind)
        subject = Subject(action, action.effect)
        does_match = compiled.applies(subject)
        if does_match and rule.limit is not None:
            amount_of(compiled, subject)
    except InvalidInput as error:
        return error.message
    except (Unmatchable, ExpressionError, BadAmount) as error:
        return f"it cannot be tried: {error}"
    if does_match is example.should_match:
        return None
    return "the rule does not match it" if example.should_match else "the rule matches it"


def _check_words(argv: Any) -> None:
    if not isinstance(argv, list) or not all(isinstance(word, str) for word in argv):
        raise InvalidInput("argv is a list of texts")


def _with_args(arguments: dict[str, Any]) -> dict[str, Any]:
    """Return the arguments of a model call: `args` of the example, together with the action's
    fields."""
    args = arguments.pop("args", {})
    if not isinstance(args, dict):
        raise InvalidInput("args and context are mappings, and a name is a text")
    return {**args, **arguments}


def _kind(rule: Rule, content: Mapping[str, Any]) -> Kind:
    named = content.get("kind", rule.kinds[0].value)
    if named not in [kind.value for kind in rule.kinds]:
        raise InvalidInput(f"the rule is not about {named!r}")
    return Kind(named)


def _from_rule(rule: Rule, kind: Kind) -> dict[str, Any]:
    """Return for each field of the rule a value that matches it."""
    values: dict[str, Any] = {}
    for name, patterns in rule.match.fields:
        first = patterns[0]
        if name == "argv":
            values[name] = [_concrete(word) for word in first if word != "**"]
        elif name == "port":
            values[name] = int(first.partition("-")[0])
        else:
            values[name] = _concrete(first)
    if kind is Kind.EXEC and "path" in values and "program" not in values:
        values["program"] = values["path"]
    return values


def _concrete(pattern: str) -> str:
    """Return a text that the pattern matches."""
    return pattern.replace("**", "x").replace("*", "x")


def _completed(kind: Kind, values: dict[str, Any], content: Mapping[str, Any]) -> dict[str, Any]:
    if kind is not Kind.EXEC:
        return values
    argv = values.get("argv")
    first = argv[0] if isinstance(argv, list) and argv else None
    # Words alone name the program; otherwise the rule's own program is what is run.
    if first and "program" not in content and ("argv" in content or "program" not in values):
        values["program"] = first
    program = values.setdefault("program", "program")
    if isinstance(program, str) and "/" not in program:
        values["program"] = values["path"] if _lies_at(values, program) else f"/usr/bin/{program}"
    if first is None:
        values["argv"] = [posixpath.basename(str(program))]
    values.pop("path", None)
    return values


def _lies_at(values: Mapping[str, Any], program: str) -> bool:
    path = values.get("path")
    return isinstance(path, str) and posixpath.basename(path) == program
