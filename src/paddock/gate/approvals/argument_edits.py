"""An approver's changes to the arguments of a call: as a person writes them, checked against the
policy, and with the real value wherever an edit leaves a masked one as it was shown."""

from __future__ import annotations

import contextlib
import copy
import json
import shlex
import tempfile
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from msgspec.structs import replace

from paddock.gate.crossing import Crossing
from paddock.model.action import Action, Kind, Verdict
from paddock.model.errors import InvalidInput
from paddock.model.printable import printable

if TYPE_CHECKING:
    from paddock.gate.ledger import Accounts
    from paddock.policy.decide import Policy

_MAX_NAMES = 20  # of fields that a message lists


def parse_arguments(text: str) -> dict[str, Any]:
    """Return all arguments, as one JSON object."""
    hint = 'write one JSON object: {"name": value, ...}'
    value = _json(text, "the arguments", hint)
    if not isinstance(value, dict):
        raise InvalidInput("the arguments are not a JSON object", hint=hint)
    return value


def with_changes(arguments: Mapping[str, Any], changes: Iterable[str]) -> dict[str, Any]:
    """Return the arguments with each `path=value` in place of what is there: `amount=300`,
    `body.amount=300`, `body.items.0.price=5`. A text needs no quotes where there is a text."""
    changed = copy.deepcopy(dict(arguments))
    for change in changes:
        path, equals, text = change.partition("=")
        if not equals or not path.strip():
            raise InvalidInput(f"{change[:80]!r} is not PATH=VALUE", hint="write e.g. amount=300")
        holder, key = _field(changed, path.strip())
        holder[key] = _value(text, holder[key], path.strip())
    return changed


def _field(arguments: dict[str, Any], path: str) -> tuple[Any, Any]:
    """Return what holds the field at a path, and under which key. A name may have dots in it."""
    holder: Any = arguments
    rest = path
    while True:
        name_there = next((name for name in _names(holder) if rest == name), None)
        if name_there is not None:
            return holder, name_there if isinstance(holder, dict) else int(name_there)
        name_there = next((name for name in _names(holder) if rest.startswith(f"{name}.")), None)
        if name_there is None:
            names = ", ".join(_names(holder)[:_MAX_NAMES]) or "none"
            where = path.removesuffix(rest).rstrip(".") or "the call"
            raise InvalidInput(
                f"{path[:80]}: there is no such field", hint=f"fields of {where[:80]}: {names}"
            )
        holder = holder[name_there if isinstance(holder, dict) else int(name_there)]
        rest = rest[len(name_there) + 1 :]


def _names(holder: Any) -> list[str]:
    if isinstance(holder, dict):
        return [name for name in holder if isinstance(name, str)]
    return [str(number) for number in range(len(holder))] if isinstance(holder, list) else []


def _value(text: str, old: Any, path: str) -> Any:
    """Return a value of the type that is there: fields of a form are texts, also their numbers."""
    if isinstance(old, str) and not text.startswith('"'):
        return text
    new = _json(text, path, """a text needs quotes: name='"Ada"'""")
    _check_type(path, old, new)
    return new


def check_fields(kind: Kind, shown: Mapping[str, Any], edited: Mapping[str, Any]) -> None:
    """Check that an edit has the fields of the call, each of its type. All parameters of a tool are
    shown, so that one more is a mistake. Raises InvalidInput."""
    if kind is Kind.TOOL:
        for name in [*(set(edited) - set(shown)), *(set(shown) - set(edited))]:
            names = ", ".join(list(shown)[:_MAX_NAMES]) or "none"
            what = "there is no such field" if name in edited else "the field is missing"
            raise InvalidInput(f"{name[:80]}: {what}", hint=f"fields of the call: {names}")
    for path, old, new in differences(shown, edited):
        if old is not ABSENT and new is not ABSENT:
            _check_type(path, old, new)


def check_editable(action: Action) -> None:
    """Raise InvalidInput for an action that its door lets through as it stands."""
    if action.is_contained:
        raise InvalidInput(f"{action.name!r:.100} runs inside and cannot be edited.")


def check_decision(policy: Policy, accounts: Accounts, held: Action, edited: Action) -> None:
    """Raise InvalidInput where the policy would block what an edit makes of an action."""
    decision = policy.decide(edited, accounts.spent_instead(policy, held, edited))
    if decision.verdict is Verdict.BLOCK:
        is_rule = decision.decided_by in {hit.rule_id for hit in decision.hits}
        who = f"the rule {decision.decided_by}" if is_rule else decision.decided_by
        raise InvalidInput(
            f"{who} would block the edited call: {decision.why}",
            hint="edit it otherwise, or deny it",
        )


ABSENT = object()
"""Stands for a field that one side of an edit does not have."""


def differences(before: Any, after: Any, path: str = "") -> Iterator[tuple[str, Any, Any]]:
    """Yield the fields that an edit changes: their path, and what was and is there."""
    if isinstance(before, Mapping) and isinstance(after, Mapping):
        for name in [*before, *(key for key in after if key not in before)]:
            inner = f"{path}.{name}" if path else str(name)
            yield from differences(before.get(name, ABSENT), after.get(name, ABSENT), inner)
    elif isinstance(before, list) and isinstance(after, list) and len(before) == len(after):
        for number, (old, new) in enumerate(zip(before, after, strict=True)):
            yield from differences(old, new, f"{path}.{number}")
    elif (before is ABSENT) is not (after is ABSENT) or (
        before is not ABSENT and json_text(before) != json_text(after)
    ):
        yield path, before, after


def change_lines(before: Mapping[str, Any], after: Mapping[str, Any]) -> list[str]:
    """Return an edit as a person reads it: `body.amount 9000 -> 100`."""
    lines = []
    for path, old, new in differences(before, after):
        old_text, new_text = ("-" if side is ABSENT else json_text(side) for side in (old, new))
        lines.append(
            f"{printable(path, 80)}  {printable(old_text, 120)} -> {printable(new_text, 120)}"
        )
    return lines


def _check_type(path: str, old: Any, new: Any) -> None:
    if old is None or _type(old) == _type(new):
        return
    old_text, new_text = json_text(old)[:40], json_text(new)[:40]
    raise InvalidInput(f"{path[:80]} is {_type(old)} ({old_text}), and {new_text} is {_type(new)}")


def _type(value: Any) -> str:
    match value:
        case None:
            return "null"
        case bool():
            return "true or false"
        case int() | float():
            return "a number"
        case str():
            return "a text"
        case Mapping():
            return "an object"
    return "a list"


def json_text(value: Any) -> str:
    """Return a value as JSON, to compare it: to Python 1 and True are equal."""
    return json.dumps(value, sort_keys=True, default=repr)


@contextlib.contextmanager
def arguments_file(arguments: Mapping[str, Any]) -> Iterator[Path]:
    """Yield the arguments in a file for an editor; as ASCII, so that nothing in it acts on a
    terminal."""
    with tempfile.TemporaryDirectory(prefix="paddock-") as directory:
        path = Path(directory) / "arguments.json"
        path.write_text(json.dumps(arguments, indent=2) + "\n")
        yield path


def read_arguments(path: Path) -> dict[str, Any]:
    """Return the arguments that the editor left in the file."""
    try:
        return parse_arguments(path.read_text("utf-8", "replace"))
    except OSError as error:
        raise InvalidInput(f"the editor left no file: {error.strerror}") from None


def editor_command(editor: str) -> list[str]:
    """Return `$EDITOR` as a command; it may have options."""
    try:
        command = shlex.split(editor)
    except ValueError as error:
        raise InvalidInput(f"$EDITOR is not a command: {error}") from None
    if not command:
        raise InvalidInput("$EDITOR is empty", hint="set it, or give the arguments as JSON")
    return command


def _json(text: str, what: str, hint: str) -> Any:
    try:
        return json.loads(text, parse_constant=_no_number, object_pairs_hook=_once)
    except (ValueError, RecursionError) as error:
        raise InvalidInput(f"{what[:60]}: not JSON: {error}", hint=hint) from None


def _no_number(word: str) -> Any:
    raise ValueError(f"{word} is not a number of JSON")


def _once(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    """Refuse an object with two values for one key: nobody knows which of them was meant."""
    values = dict(pairs)
    if len(values) < len(pairs):
        raise ValueError("a key is given twice")
    return values


MAX_EDITS = 5  # of one action, one after the other


def restored(edited: Any, shown: Any, real: Any) -> Any:
    """Return the edit, with the real value wherever it equals what was shown in its place."""
    if json_text(edited) == json_text(shown):
        return real
    if isinstance(edited, Mapping) and isinstance(shown, Mapping) and isinstance(real, Mapping):
        return _restored_object(edited, shown, real)
    if isinstance(edited, list) and isinstance(shown, list) and isinstance(real, list | tuple):
        return _restored_list(edited, shown, real)
    return edited


def _restored_object(
    edited: Mapping[str, Any], shown: Mapping[str, Any], real: Mapping[str, Any]
) -> dict[str, Any]:
    if len(shown) != len(real):
        return dict(edited)
    # A secret can stand in a key too; masking keeps the order.
    names = dict(zip(shown, real, strict=True))
    return {
        names.get(key, key): restored(value, shown[key], real[names[key]])
        if key in names
        else value
        for key, value in edited.items()
    }


def _restored_list(edited: list[Any], shown: list[Any], real: Any) -> list[Any]:
    if len(shown) != len(real):
        return edited
    if len(edited) == len(shown):
        return [restored(*three) for three in zip(edited, shown, real, strict=True)]
    # Some were taken out or put in: those that are still there are known by what was shown.
    real_values = {json_text(item): value for item, value in zip(shown, real, strict=True)}
    return [real_values.get(json_text(item), item) for item in edited]


def rewritten(
    crossing: Crossing, edited_arguments: Mapping[str, Any], shown: Mapping[str, Any]
) -> Action:
    """Return the action that an approver made of one whose arguments were shown. Raises
    InvalidInput."""
    if crossing.edits >= MAX_EDITS:
        raise InvalidInput(f"It was edited more than {MAX_EDITS} times.")
    action, rebuild = crossing.action, crossing.handlers.rebuild
    if rebuild is None:
        check_editable(action)
    arguments = restored(edited_arguments, shown, action.arguments)
    edited = replace(action, arguments=arguments) if rebuild is None else rebuild(action, arguments)
    return replace(edited, parent=crossing.step)
