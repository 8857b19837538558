"""A question, or a draft, as a person sees it. An agent chose most of these words: nothing in them
may act on a terminal, pass for a line of ours, or hide what stands beside it. Nothing is asked.
"""

from __future__ import annotations

import json
import unicodedata
from collections.abc import Iterator, Mapping
from typing import Any

from paddock.gate.approvals import Approval
from paddock.gate.drafts import Draft
from paddock.model.money import amount_text, money_in
from paddock.model.plural import many
from paddock.model.printable import MAX_CHARACTERS, escaped, omitted, printable

MAX_LINES = 30
MAX_ARGUMENTS = 40
MAX_NAME = 60
MIN_WIDTH = 40
_LABEL = 11


def question_lines(approval: Approval, width: int = 80) -> list[str]:
    """Return all that a person needs for an answer. No line is wider than `width`."""
    content = approval.content
    width = max(width, MIN_WIDTH)
    lines = [_cut(f"approval {approval.approval_id}: {_call(content)}", width)]
    lines += _labelled("effect", _effect(content), width)
    lines += _labelled("asked by", _asker(approval), width)
    lines += _labelled("rule", printable(content.get("decided_by", "?"), MAX_NAME), width)
    lines += _labelled("why", printable(content.get("why", "")), width)
    lines.append("  arguments" if content.get("arguments") else "  arguments  none")
    lines += _arguments(content.get("arguments") or {}, width)
    lines += _money(content.get("arguments") or {}, width)
    lines += _preview(content.get("preview"), width)
    return lines


def draft_lines(draft: Draft, width: int = 80) -> list[str]:
    """Return a write that waits, as a person looks at it before it is sent."""
    width = max(width, MIN_WIDTH)
    action = draft.action
    by = f" by {printable(draft.changed_by, MAX_NAME)}" if draft.changed_by else ""
    call = _call({"kind": action.kind, "name": action.name, "arguments": action.arguments})
    effect = {"effect": action.effect, "is_reversible": action.is_reversible}
    lines = [_cut(f"draft {draft.draft_id}: {call}", width)]
    lines += _labelled("effect", _effect(effect), width)
    lines += _labelled("made by", _asker(draft), width)
    lines += _labelled("state", f"{draft.state}{by}", width)
    if draft.state == "sending":
        lines += _labelled("", "If nobody sends it now, it was interrupted and may be done.", width)
    lines.append("  arguments" if action.arguments else "  arguments  none")
    lines += _arguments(action.arguments, width)
    lines += _money(action.arguments, width)
    return lines + _preview(draft.preview, width)


def context_lines(approval: Approval, width: int = 80) -> list[str]:
    """Return what the agent said of itself: model, prompt version, id of the call."""
    context = approval.content.get("context") or {}
    return ["  context", *_arguments(context, max(width, MIN_WIDTH))] if context else []


def time_left(seconds: float) -> str:
    """Return a duration as 45s, 14m or 2h."""
    for unit, size in (("h", 3600), ("m", 60)):
        if seconds >= 2 * size:
            return f"{int(seconds // size)}{unit}"
    return f"{int(seconds)}s"


def _call(content: Mapping[str, Any]) -> str:
    """Return the call in a few words; of a request with its path and its amount."""
    arguments = content.get("arguments") or {}
    path = arguments.get("path", "") if content.get("kind") == "http" else ""
    named = f"{content.get('kind', '?')} {content.get('name', '?')}{path}"
    return " ".join(filter(None, (printable(named, 200), printable(amount_text(arguments)))))


def _effect(content: Mapping[str, Any]) -> str:
    effect = printable(content.get("effect", "?"), MAX_NAME)
    if content.get("is_stood_in"):
        return f"{effect}; a stand-in answers; nothing real happens"
    if effect == "read":
        return "read"
    return f"{effect}, {'can' if content.get('is_reversible') else 'CANNOT'} be undone"


def _asker(waiting: Approval | Draft) -> str:
    agent, run = printable(waiting.agent, MAX_NAME), printable(waiting.run, MAX_NAME)
    return f"{agent}, run {run}, step {waiting.step}"


def _labelled(label: str, text: str, width: int) -> list[str]:
    pieces = list(_wrapped(text, width - _LABEL - 2)) or [""]
    first, *rest = pieces
    return [f"  {label:<{_LABEL}}{first}", *(f"  {'':<{_LABEL}}{line}" for line in rest)]


def _arguments(arguments: Mapping[str, Any], width: int) -> list[str]:
    lines: list[str] = []
    for number, (name, value) in enumerate(arguments.items()):
        if number == MAX_ARGUMENTS:
            lines.append(f"    ({many(len(arguments) - number, 'more argument')})")
            break
        lines += _quoted(f"{printable(name, MAX_NAME)} =", value, width)
    return lines


def _money(arguments: Mapping[str, Any], width: int) -> list[str]:
    """Return the amount of a call or of the body of a request. The arguments themselves stay as
    they are: whether they count cents is only likely."""
    body = arguments.get("body")
    money = money_in(arguments) or money_in(body if isinstance(body, Mapping) else {})
    if money is None:
        return []
    return _labelled("money", f"{money}, if the amount counts the smallest unit", width)


def _preview(preview: Any, width: int) -> list[str]:
    if preview is None:
        return ["  predicted  not known: this call has no dry run"]
    return ["  predicted", *_quoted("", preview, width)]


def _quoted(name: str, value: Any, width: int) -> list[str]:
    """Return a value behind a bar on every line, so that no value can write a line of ours."""
    text = _value_text(value)
    shown: list[str] = []
    for line in text[:MAX_CHARACTERS].split("\n"):
        shown += _wrapped("".join(map(escaped, line)), width - 6) or [""]
    first = [_cut(f"    {name}", width)] if name else []
    if name and len(shown) == 1 and _cells(first[0]) + 1 + _cells(shown[0]) <= width:
        return [f"{first[0]} {shown[0]}"]
    hidden = len(text) - MAX_CHARACTERS
    cut = [f"    {omitted(hidden)}"] if hidden > 0 else []
    if len(shown) > MAX_LINES:
        cut.insert(0, f"    {omitted(len(shown) - MAX_LINES, 'line')}")
    return first + [f"    | {line}" for line in shown[:MAX_LINES]] + cut


def _value_text(value: Any) -> str:
    """Return a value as shown: a text of several lines keeps them; all else is JSON on one."""
    if isinstance(value, str) and "\n" in value:
        return value
    return json.dumps(value, ensure_ascii=False, default=repr).replace("\n", "\\n")


def _cut(text: str, width: int) -> str:
    return next(iter(_wrapped(text, width)), "")


def _wrapped(text: str, width: int) -> list[str]:
    return list(_pieces(text, width))


def _pieces(text: str, width: int) -> Iterator[str]:
    """Yield pieces of a width in terminal cells: a value that wraps by itself could fake the next
    line."""
    piece, used = "", 0
    for character in text:
        size = _cells(character)
        if used + size > width:
            yield piece
            piece, used = "", 0
        piece += character
        used += size
    if piece:
        yield piece


def _cells(text: str) -> int:
    return sum(map(_cell, text))


def _cell(character: str) -> int:
    if unicodedata.category(character) in ("Mn", "Me"):
        return 0
    return 2 if unicodedata.east_asian_width(character) in "WF" else 1
