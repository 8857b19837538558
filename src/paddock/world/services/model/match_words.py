"""`match:` of a script, from words to conditions."""

from __future__ import annotations

import regex

from paddock.model.errors import InvalidInput
from paddock.policy.globs import check_glob
from paddock.world.services.model.matching import (
    Condition,
    MessagesNumber,
    ModelIs,
    SystemSays,
    TextTest,
    ToolGave,
    ToolsOffered,
    TurnIs,
    UserSays,
    compiled,
)
from paddock.world.services.model.words import Here, Words

MATCH = ("user", "system", "model", "tool_result", "turn", "tools", "messages")
_MOST = 1_000_000

Found = tuple[tuple[Condition, ...], frozenset[str]]


def read_match(words: Words, here: Here | None) -> Found:
    """Parse the conditions, and the names of the groups in their patterns."""
    if here is None:
        return (), frozenset()
    given = words.mapping(here, MATCH)
    conditions: list[Condition] = []
    tests: list[TextTest] = []
    if (user := given.get("user")) is not None:
        tests.append(_text_test(words, user))
        conditions.append(UserSays(tests[-1], is_new="tool_result" not in given))
    if (system := given.get("system")) is not None:
        tests.append(_text_test(words, system))
        conditions.append(SystemSays(tests[-1]))
    if (result := given.get("tool_result")) is not None:
        gave = _tool_gave(words, result)
        tests.append(gave.text)
        conditions.append(gave)
    conditions += _plain(words, given)
    return tuple(conditions), _groups(words, here, tests)


def _plain(words: Words, given: dict[str, Here]) -> list[Condition]:
    found: list[Condition] = []
    if (model := given.get("model")) is not None:
        found.append(ModelIs(tuple(_glob(words, model, one) for one in words.texts(model))))
    if (turn := given.get("turn")) is not None:
        found.append(TurnIs(_numbers(words, turn)))
    if (tools := given.get("tools")) is not None:
        found.append(ToolsOffered(words.texts(tools)))
    if (messages := given.get("messages")) is not None:
        found.append(_messages(words, messages))
    return found


def _text_test(words: Words, here: Here) -> TextTest:
    if not isinstance(here.value, dict):
        return TextTest(words.texts(here))
    given = words.mapping(here, ("contains", "regex"))
    if not given:
        words.note(here, "nothing to look for", "write contains: or regex:")
    return TextTest(words.texts(given.get("contains")), _pattern(words, given.get("regex")))


def _tool_gave(words: Words, here: Here) -> ToolGave:
    if not isinstance(here.value, dict):
        name = words.text(here, "write the name of the tool, or {name: ..., contains: ...}")
        return ToolGave(_glob(words, here, name or "*"), TextTest())
    given = words.mapping(here, ("name", "contains", "regex"))
    name_here = given.get("name")
    name = words.text(name_here)
    return ToolGave(
        None if name is None or name_here is None else _glob(words, name_here, name),
        TextTest(words.texts(given.get("contains")), _pattern(words, given.get("regex"))),
    )


def _pattern(words: Words, here: Here | None) -> str | None:
    text = words.text(here)
    if here is None or text is None:
        return None
    try:
        compiled(text)
    except (regex.error, RecursionError, OverflowError) as error:
        words.note(here, f"not a regular expression: {error}", "in YAML, use single quotes")
        return None
    return text


def _glob(words: Words, here: Here, glob: str) -> str:
    try:
        check_glob(glob, "")
    except InvalidInput as error:
        words.note(here, error.message, error.hint)
    return glob


def _numbers(words: Words, here: Here) -> frozenset[int]:
    if not isinstance(here.value, list):
        one = words.whole(here, 1, _MOST)
        return frozenset(() if one is None else (one,))
    found = [words.whole(here.at(number), 1, _MOST) for number in range(len(here.value))]
    return frozenset(number for number in found if number is not None)


def _messages(words: Words, here: Here) -> MessagesNumber:
    if not isinstance(here.value, dict):
        number = words.whole(here, 1, _MOST) or 1
        return MessagesNumber(number, number)
    given = words.mapping(here, ("at_least", "at_most"))
    if not given:
        words.note(here, "no number", "write at_least: or at_most:")
    least = words.whole(given.get("at_least"), 1, _MOST)
    return MessagesNumber(least or 1, words.whole(given.get("at_most"), 1, _MOST))


def _groups(words: Words, here: Here, tests: list[TextTest]) -> frozenset[str]:
    patterns = [compiled(test.pattern) for test in tests if test.pattern is not None]
    names = [name for pattern in patterns for name in pattern.groupindex]
    if len(names) != len(set(names)):
        words.note(here, "two patterns have a group of the same name", "rename one")
    numbers = [str(n) for n in range(1, patterns[0].groups + 1)] if len(patterns) == 1 else []
    return frozenset([*names, *numbers])
