"""Finds the answer to a request in the script, and fills it in."""

from __future__ import annotations

import json
from typing import Any

from msgspec.structs import replace

from paddock.llm.conversation import ModelRequest, RequestedCall, count_tokens
from paddock.llm.served_answer import ServedAnswer, ServedError, ServedFormat, ServedUsage, Stop
from paddock.world.context import Context
from paddock.world.services.model.matching import (
    NOTHING,
    Groups,
    ScriptFailed,
    first_that_fails,
    try_all,
)
from paddock.world.services.model.memory import Memory, Moment
from paddock.world.services.model.script import CallWords, Entry, Reply, Script
from paddock.world.services.model.templates import MAX_ANSWER, Scope, as_text

_NOT_STRICT = Entry("nothing", (), Reply(text="(The script has no answer to this.)"))
_SHOWN = 160  # characters of a text, in a refusal
_SHOWN_ENTRIES = 10


class Plot:
    """One script at work in one world."""

    def __init__(self, script: Script, context: Context) -> None:
        self.script = script
        self.memory = Memory(context)
        self._context = context

    def play(self, asked: ModelRequest, wire: ServedFormat) -> ServedAnswer | ServedError:
        """Return the answer. A request that the script cannot answer gets an error that says
        why."""
        if self.script.models and asked.model not in self.script.models:
            message = f"The model {asked.model!r} does not exist."
            return ServedError(404, message, code="model_not_found", param="model")
        store, moment = self._context.store, self.memory.moment(asked)
        try:
            with store.transaction():
                return self._perform(moment, asked, wire)
        except ScriptFailed as failed:
            with store.transaction():
                self.memory.miss(moment, asked, str(failed))
            why = f"The script {self.script.name} has no answer to this request: {failed}"
            return ServedError(400, why, "invalid_request_error", "script_has_no_answer")

    def _perform(
        self, moment: Moment, asked: ModelRequest, wire: ServedFormat
    ) -> ServedAnswer | ServedError:
        entry, groups = self._choose(moment, asked)
        reply = entry.reply
        if reply.error is not None:
            self.memory.keep(moment, asked, entry, None)
            return replace(reply.error, delay_s=reply.delay_s)
        scope = Scope(asked, groups, lambda name: self.memory.count(moment, name))
        try:
            answer = self._filled(reply, scope, moment, wire)
        except ScriptFailed as failed:
            raise ScriptFailed(f"{_place(entry)}: {failed}") from None
        self.memory.keep(moment, asked, entry, answer.usage)
        return answer

    def _choose(self, moment: Moment, asked: ModelRequest) -> tuple[Entry, Groups]:
        """Return the first turn that is left and fits; else the first rule that does."""
        for entry in (*self._left(moment), *self.script.rules):
            groups = try_all(entry.conditions, asked)
            if groups is not None:
                return entry, groups
        if self.script.otherwise is not None:
            return self.script.otherwise, NOTHING
        if not self.script.is_strict:
            return _NOT_STRICT, NOTHING
        raise ScriptFailed(self._describe(moment, asked))

    def _left(self, moment: Moment) -> list[Entry]:
        turns = self.script.turns
        return [one for one in turns if one.is_repeated or moment.is_left(one.id)]

    def _filled(
        self, reply: Reply, scope: Scope, moment: Moment, wire: ServedFormat
    ) -> ServedAnswer:
        mint = self.memory.mint(moment)
        text, thinking = _spoken(reply.text, scope), _spoken(reply.thinking, scope)
        calls = tuple(
            RequestedCall(wire.call_prefix + mint(f"call/{n}", 24), *_called(words, scope, wire))
            for n, words in enumerate(reply.calls)
        )
        return ServedAnswer(
            mint=mint,
            created=int(self._context.now()),
            text=text,
            thinking=thinking,
            calls=calls,
            stop=reply.stop or (Stop.TOOL if calls else Stop.END),
            usage=_usage(reply, scope.asked, text, thinking, calls),
            chunk=reply.chunk or self.script.chunk,
            delay_s=reply.delay_s,
        )

    def _describe(self, moment: Moment, asked: ModelRequest) -> str:
        """Say what was asked, and why none of what is left fits."""
        tools = ", ".join(asked.tools)[:_SHOWN] or "none"
        said = [
            "nothing fits.",
            f"Asked: turn {asked.turn}, {asked.count} messages, model {asked.model}, "
            f"tools offered: {tools}.",
            f"Last user text: {_shown(asked.user)}.",
        ]
        said += [f"Result of {one.name}: {_shown(one.text)}." for one in asked.news.results[:5]]
        left = self._left(moment)
        said.append(_listed("Turns left", left, asked))
        if self.script.rules:
            said.append(_listed("Rules", list(self.script.rules), asked))
        return "\n".join(said)


def _spoken(words: Any, scope: Scope) -> str | None:
    filled = scope.fill(words)
    return None if filled is None else _bounded(as_text(filled))


def _called(words: CallWords, scope: Scope, wire: ServedFormat) -> tuple[str, str]:
    filled = scope.fill(words.arguments)
    arguments = filled if isinstance(filled, str) else json.dumps(filled, ensure_ascii=False)
    if wire.provider != "openai" and not _is_object(arguments):
        raise ScriptFailed(f"the arguments of {words.name} are no JSON object; this API needs one")
    return words.name, _bounded(arguments)


def _is_object(text: str) -> bool:
    try:
        return isinstance(json.loads(text), dict)
    except (ValueError, RecursionError):
        return False


def _bounded(text: str) -> str:
    if len(text) > MAX_ANSWER:
        raise ScriptFailed(f"the answer is longer than {MAX_ANSWER} characters")
    return text


def _usage(
    reply: Reply,
    asked: ModelRequest,
    text: str | None,
    thinking: str | None,
    calls: tuple[RequestedCall, ...],
) -> ServedUsage:
    reasoning = count_tokens(thinking or "")
    called = sum(count_tokens(call.name) + count_tokens(call.arguments) for call in calls)
    output = max(1, count_tokens(text or "") + called + reasoning)
    counted = ServedUsage(asked.tokens(), output, reasoning=reasoning)
    return replace(counted, **dict(reply.usage)) if reply.usage else counted


def _listed(title: str, entries: list[Entry], asked: ModelRequest) -> str:
    if not entries:
        return f"{title}: none."
    lines = [
        f"  {_place(entry)} wants: {first_that_fails(entry.conditions, asked)[:_SHOWN]}"
        for entry in entries[:_SHOWN_ENTRIES]
    ]
    if len(entries) > _SHOWN_ENTRIES:
        lines.append(f"  and {len(entries) - _SHOWN_ENTRIES} more")
    return "\n".join([f"{title}:", *lines])


def _place(entry: Entry) -> str:
    return entry.id if entry.line is None else f"{entry.id} (line {entry.line})"


def _shown(text: str) -> str:
    return repr(text if len(text) <= _SHOWN else text[: _SHOWN - 3] + "...")
