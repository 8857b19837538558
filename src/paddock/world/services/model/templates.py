"""`{{path}}` in the words of a script: what it may name, and how it is filled from a request.

A text that is nothing but one template becomes the value itself, so that a number stays a number.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterator
from typing import Any

import msgspec

from paddock.llm.conversation import CallResult, ModelRequest
from paddock.policy.json_bounds import Bounds, bound
from paddock.world.services.model.conditions import Groups, ScriptFailed

ROOTS = ("user", "system", "model", "turn", "messages", "tool_result", "results", "match",
         "counter")  # fmt: skip
MAX_ANSWER = 4 << 20  # characters that templates may bring into one answer
_TEMPLATE = re.compile(r"\{\{(.*?)\}\}", re.DOTALL)
_PATH = re.compile(r"[A-Za-z_][A-Za-z0-9_]*(\.[A-Za-z0-9_-]+)*")
_BOUNDS = Bounds(nodes=500_000, characters=32 << 20, depth=64)


class Reference(msgspec.Struct, frozen=True):
    """One `{{path}}`."""

    text: str
    path: tuple[str, ...]


class Template(msgspec.Struct, frozen=True):
    """A text with holes."""

    parts: tuple[str | Reference, ...]

    def references(self) -> Iterator[Reference]:
        return (part for part in self.parts if isinstance(part, Reference))


def parse(value: Any) -> Any:
    """Return the value, with a Template for each text that has one. Raises ValueError."""
    if isinstance(value, str):
        return _parse_text(value) if "{{" in value else value
    if isinstance(value, list):
        return [parse(one) for one in value]
    if isinstance(value, dict):
        return {key: parse(one) for key, one in value.items()}
    return value


def references(value: Any) -> Iterator[Reference]:
    """All that a parsed value refers to."""
    if isinstance(value, Template):
        yield from value.references()
    elif isinstance(value, list | dict):
        for one in value.values() if isinstance(value, dict) else value:
            yield from references(one)


def _parse_text(text: str) -> Template:
    parts: list[str | Reference] = []
    at = 0
    for found in _TEMPLATE.finditer(text):
        inner = found[1].strip()
        if not _PATH.fullmatch(inner):
            raise ValueError(f"{found[0][:60]} is not a path")
        path = tuple(inner.split("."))
        if path[0] not in ROOTS:
            raise ValueError(f"{found[0][:60]} begins with nothing that is known")
        parts += [text[at : found.start()], Reference(found[0], path)]
        at = found.end()
    parts.append(text[at:])
    return Template(tuple(part for part in parts if part != ""))


class TemplateScope(msgspec.Struct):
    """The values of one request that templates can refer to."""

    asked: ModelRequest
    groups: Groups
    counter: Callable[[str], int]
    _taken: int = 0
    _parsed: dict[str, Any] = {}

    def fill(self, value: Any) -> Any:
        """Return the value with its templates filled in. Raises ScriptFailed for what is not
        there."""
        if isinstance(value, Template):
            return self._fill_text(value)
        if isinstance(value, list):
            return [self.fill(one) for one in value]
        if isinstance(value, dict):
            return {key: self.fill(one) for key, one in value.items()}
        return value

    def _fill_text(self, template: Template) -> Any:
        if len(template.parts) == 1 and isinstance(template.parts[0], Reference):
            return self._look(template.parts[0])
        return "".join(
            part if isinstance(part, str) else as_text(self._look(part))
            for part in template.parts
        )  # fmt: skip

    def _look(self, reference: Reference) -> Any:
        root, *rest = reference.path
        asked = self.asked
        match root:
            case "user" | "system" | "model":
                return self._take(getattr(asked, root), reference, rest)
            case "turn":
                return self._take(asked.turn, reference, rest)
            case "messages":
                return self._take(asked.count, reference, rest)
            case "match":
                return self._take(dict(self.groups), reference, rest)
            case "counter":
                return self.counter(".".join(rest))
            case "results":
                found = asked.result_of(rest[0])
                return self._in_result(found, reference, rest[1:])
            case _:
                return self._in_result(asked.result, reference, rest)

    def _in_result(self, result: CallResult | None, reference: Reference, rest: list[str]) -> Any:
        if result is None:
            raise ScriptFailed(f"{reference.text}: there is no such tool result")
        if not rest:
            return self._take(result.text, reference, rest)
        if result.text not in self._parsed:
            self._parsed[result.text] = _json(result.text, reference)
        return self._take(self._parsed[result.text], reference, rest, len(result.text))

    def _take(self, value: Any, reference: Reference, rest: list[str], most: int = 0) -> Any:
        for key in rest:
            value = _step(value, key, reference)
        self._taken += len(value) if isinstance(value, str) else most
        if self._taken > MAX_ANSWER:
            raise ScriptFailed(f"{reference.text} makes the answer longer than {MAX_ANSWER}")
        return value


def _json(text: str, reference: Reference) -> Any:
    try:
        value = json.loads(text)
        bound(value, _BOUNDS, ValueError)
        if "\\u" in text:  # may spell half a character, which no answer can carry
            json.dumps(value, ensure_ascii=False).encode()
    except (ValueError, RecursionError):
        raise ScriptFailed(
            f"{reference.text}: the tool result is not JSON: {text[:120]!r}"
        ) from None
    return value


def _step(value: Any, key: str, reference: Reference) -> Any:
    if isinstance(value, dict) and key in value:
        return value[key]
    if isinstance(value, list) and key.isdecimal() and int(key) < len(value):
        return value[int(key)]
    if isinstance(value, dict):
        there = f"there are {', '.join(map(str, list(value)[:20]))}"[:300]
    else:
        there = f"there is {as_text(value)[:120]}"
    raise ScriptFailed(f"{reference.text}: there is no {key}; {there}")


def as_text(value: Any) -> str:
    return value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)
