"""Readers of models' traffic take any JSON: what they cannot read is a no, never a crash."""

from __future__ import annotations

import copy
import json
import random
from collections.abc import Iterator
from typing import Any

import pytest

from paddock.llm.answer import ToolCall
from paddock.llm.editor import AnswerEditor
from paddock.llm.reader import AnswerReader
from unit.llm.streams import BODIES, STREAMS, WIRES

ODD: list[Any] = [
    None, True, False, 0, -1, 1.5, 10**30, "", "text", "tool_use", "function_call", "[DONE]",
    [], {}, [[]], ["text"], [None], {"a": 1}, [{"type": ["x"]}], {"type": {}},
    {"name": "", "arguments": ""},
]  # fmt: skip


def _places(value: Any, path: tuple[Any, ...] = ()) -> Iterator[tuple[Any, ...]]:
    if path:
        yield path
    inner = value.items() if isinstance(value, dict) else ()
    for key, one in enumerate(value) if isinstance(value, list) else inner:
        yield from _places(one, (*path, key))


def _changed(value: Any, chance: random.Random) -> Any:
    """The value with another one somewhere in it."""
    changed = copy.deepcopy(value)
    *way, last = chance.choice(list(_places(value)) or [(0,)])
    holder = changed
    for key in way:
        holder = holder[key]
    if chance.random() < 0.1:
        del holder[last]
    else:
        holder[last] = copy.deepcopy(chance.choice(ODD))
    return changed


def _crash(api: str, data: bytes, *, is_stream: bool, refusal: str | None) -> str | None:
    """What was raised while the answer was read; Unreadable is a plain no."""
    reader = AnswerReader(WIRES[api], is_stream=is_stream)
    reader.feed(data)
    answer = reader.finish()
    answer.as_json()
    editor = AnswerEditor(WIRES[api], is_stream=is_stream)
    for parts in (editor.feed(data), editor.finish()):
        for part in parts:
            if isinstance(part, ToolCall):
                editor.resolve(part, refusal)
    problems = [one for one in (answer.problem, editor.problem) if one and "could not be" in one]
    return next((one for one in problems if "Unreadable" not in one), None)


def _answers(api: str, chance: random.Random) -> Iterator[tuple[bytes, bool]]:
    body = json.loads(BODIES[api]())
    lines = STREAMS[api]().decode().splitlines()
    events = [json.loads(line[6:]) for line in lines if line.startswith("data: {")]
    for _ in range(chance.randint(1, 3)):
        body = _changed(body, chance)
        at = chance.randrange(len(events))
        events[at] = _changed(events[at], chance)
    yield json.dumps(body).encode(), False
    stream = b"".join(b"data: " + json.dumps(one).encode() + b"\n\n" for one in events)
    yield stream + b"data: [DONE]\n\n", True


def _fuzz(seed: int, count: int) -> None:
    chance = random.Random(seed)
    for _ in range(count):
        api = chance.choice(sorted(WIRES))
        for data, is_stream in _answers(api, chance):
            for refusal in (None, "no"):
                crash = _crash(api, data, is_stream=is_stream, refusal=refusal)
                assert crash is None, (crash, api, data)


def test_an_answer_with_any_type_in_any_place_is_read_or_refused() -> None:
    _fuzz(seed=1, count=60)


@pytest.mark.thorough
def test_many_answers_with_any_type_in_any_place_are_read_or_refused() -> None:
    _fuzz(seed=random.randrange(1 << 30), count=5000)
