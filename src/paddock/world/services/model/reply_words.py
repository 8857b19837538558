"""`answer:` of a script, from words to a reply."""

from __future__ import annotations

from typing import Any

from paddock.llm.served_answer import ServedError, Stop
from paddock.model.errors import InvalidInput
from paddock.model.sizes import parse_duration
from paddock.policy.problems import suggest
from paddock.world.services.model.script import CallWords, Reply
from paddock.world.services.model.templates import ROOTS, Reference, parse, references
from paddock.world.services.model.words import Here, Words

MAX_DELAY_S = 600.0
REPLY = ("text", "thinking", "tool_calls", "stop", "error", "delay", "usage", "chunk", "raw")
ERROR = ("status", "type", "message", "code", "retry_after")
_SPOKEN = ("text", "thinking", "tool_calls")
_MAX_CALLS = 128
_MAX_TOKENS = 1 << 40
USAGE = {
    "input_tokens": "input",
    "output_tokens": "output",
    "cached_tokens": "cached",
    "reasoning_tokens": "reasoning",
}
# Both providers' words are known, besides ours.
_STOPS = {
    **{stop.value: stop for stop in Stop},
    "stop": Stop.END, "end_turn": Stop.END,
    "tool_calls": Stop.TOOL, "tool_use": Stop.TOOL,
    "max_tokens": Stop.LENGTH,
    "stop_sequence": Stop.SEQUENCE,
    "content_filter": Stop.REFUSAL,
    "pause_turn": Stop.PAUSE,
}  # fmt: skip


def read_reply(words: Words, here: Here, groups: frozenset[str]) -> Reply:
    """Parse a reply; a bare text is what the model says. `groups` are those that `match`
    captures."""
    if isinstance(here.value, str):
        return Reply(text=_filled(words, here, groups))
    given = words.mapping(here, REPLY)
    if isinstance(here.value, dict) and not any(key in given for key in (*_SPOKEN, "error")):
        words.note(here, "an answer without content", "write text:, tool_calls: or error:")
    if "error" in given and any(key in given for key in _SPOKEN):
        words.note(here, "an error says nothing else", "remove text and tool_calls, or error")
    known = None if words.truth(given.get("raw"), default=False) else groups
    return Reply(
        text=_text(words, given.get("text"), known),
        thinking=_text(words, given.get("thinking"), known),
        calls=_calls(words, given.get("tool_calls"), known),
        stop=_stop(words, given.get("stop")),
        error=_error(words, given.get("error")),
        delay_s=_seconds(words, given.get("delay"), MAX_DELAY_S) or 0.0,
        chunk=words.whole(given.get("chunk"), 1, 100_000),
        usage=_usage(words, given.get("usage")),
    )


def _text(words: Words, here: Here | None, groups: frozenset[str] | None) -> Any:
    if here is None or (isinstance(here.value, str) and not here.value):
        return None if here is None else ""
    return None if words.text(here) is None else _filled(words, here, groups)


def _filled(words: Words, here: Here, groups: frozenset[str] | None) -> Any:
    """Return the value with its templates; if `groups` is None they are left as they are."""
    if groups is None:
        return here.value
    try:
        value = parse(here.value)
    except ValueError as error:
        hint = f"begin with {', '.join(ROOTS)}; write raw: true for a bare {{{{"
        words.note(here, str(error), hint)
        return None
    for reference in references(value):
        _check(words, here, reference, groups)
    return value


def _check(words: Words, here: Here, reference: Reference, groups: frozenset[str]) -> None:
    root, *rest = reference.path
    if root == "match" and (len(rest) != 1 or rest[0] not in groups):
        known = ", ".join(sorted(groups)) or "no groups"
        words.note(here, f"{reference.text}: match finds no such group", f"there are {known}")
    elif root in ("results", "counter") and not rest:
        words.note(here, f"{reference.text}: no name", f"write {{{{{root}.NAME}}}}")
    elif root in ("user", "system", "model", "turn", "messages") and rest:
        words.note(here, f"{reference.text}: {root} has no fields", f"write {{{{{root}}}}}")


def _calls(words: Words, here: Here | None, groups: frozenset[str] | None) -> tuple[CallWords, ...]:
    if here is None:
        return ()
    if not isinstance(here.value, list) or not 0 < len(here.value) <= _MAX_CALLS:
        words.note(here, f"not a list of 1 to {_MAX_CALLS} calls", "write - name: and arguments:")
        return ()
    return tuple(_call(words, here.at(n), groups) for n in range(len(here.value)))


def _call(words: Words, here: Here, groups: frozenset[str] | None) -> CallWords:
    if isinstance(here.value, str):
        return CallWords(here.value, {})
    given = words.mapping(here, ("name", "arguments"))
    if "name" not in given and isinstance(here.value, dict):
        words.note(here, "this key is missing: name", "write name: and the tool")
    arguments = given.get("arguments")
    if arguments is None:
        return CallWords(words.text(given.get("name")), {})
    if not isinstance(arguments.value, dict | str):
        words.note(arguments, "not a mapping", "write key: value; a text is sent as it is")
    return CallWords(words.text(given.get("name")), _filled(words, arguments, groups))


def _stop(words: Words, here: Here | None) -> Stop | None:
    if here is None:
        return None
    stop = _STOPS.get(here.value) if isinstance(here.value, str) else None
    if stop is None:
        words.note(here, "not a reason to stop", suggest(here.value, _STOPS))
    return stop


def _error(words: Words, here: Here | None) -> ServedError | None:
    if here is None:
        return None
    if not isinstance(here.value, dict):
        return ServedError(words.whole(here, 400, 599) or 500)
    given = words.mapping(here, ERROR)
    if "status" not in given:
        words.note(here, "this key is missing: status", "write status: 429 or another")
    return ServedError(
        status=words.whole(given.get("status"), 400, 599) or 500,
        message=words.text(given.get("message")),
        type=words.text(given.get("type")),
        code=words.text(given.get("code")),
        retry_after=_seconds(words, given.get("retry_after"), 86_400.0),
    )


def _seconds(words: Words, here: Here | None, most: float) -> float | None:
    if here is None:
        return None
    if type(here.value) in (int, float) and here.value == 0:
        return 0.0
    try:
        found = parse_duration(here.value, "time")
    except InvalidInput as error:
        words.note(here, error.message, "write 2s, 500ms or 1.5")
        return None
    if found > most:
        words.note(here, f"longer than {most:g} s", f"write {most:g}s or less")
    return found


def _usage(words: Words, here: Here | None) -> tuple[tuple[str, int], ...]:
    if here is None:
        return ()
    given = words.mapping(here, USAGE)
    counts = [(USAGE[key], words.whole(one, 0, _MAX_TOKENS)) for key, one in given.items()]
    return tuple((name, count) for name, count in counts if count is not None)
