"""A script as it is used, once it has been loaded. Values only."""

from __future__ import annotations

from typing import Any

import msgspec

from paddock.llm.served_answer import CHUNK, ServedError, Stop
from paddock.world.services.model.conditions import RequestCondition

# What is listed when the script lists none.
MODELS = ("claude-haiku-5-5", "claude-opus-5-5", "claude-sonnet-5-5", "gpt-5.5", "gpt-6-sol")


class CallWords(msgspec.Struct, frozen=True):
    """A tool to ask for. Arguments that are a text are sent as they are, JSON or not."""

    name: Any
    arguments: Any


class ScriptReply(msgspec.Struct, frozen=True):
    """One reply; text, thinking and calls may have templates."""

    text: Any = None
    thinking: Any = None
    calls: tuple[CallWords, ...] = ()
    stop: Stop | None = None
    error: ServedError | None = None
    delay_s: float = 0.0
    chunk: int | None = None
    usage: tuple[tuple[str, int], ...] = ()  # fields of Usage that are not counted


class ScriptEntry(msgspec.Struct, frozen=True):
    """A turn or a rule."""

    id: str
    conditions: tuple[RequestCondition, ...]
    reply: ScriptReply
    line: int | None = None
    is_turn: bool = False
    is_repeated: bool = False  # a turn that is not used up


class Script(msgspec.Struct, frozen=True):
    """All that the model has to say."""

    name: str
    turns: tuple[ScriptEntry, ...] = ()
    rules: tuple[ScriptEntry, ...] = ()
    otherwise: ScriptEntry | None = None
    is_strict: bool = True
    models: tuple[str, ...] = ()  # empty: any name will do
    chunk: int = CHUNK
