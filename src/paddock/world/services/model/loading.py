"""Reads a script. All that is wrong with it is found at once, each with its place and a hint."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from paddock.llm.served_answer import CHUNK
from paddock.model.errors import InvalidInput
from paddock.policy.file.document import MAX_TEXT_BYTES, Document, read
from paddock.policy.problems import PolicyError, Problem
from paddock.world.services.model.match_words import read_match
from paddock.world.services.model.reply_words import read_reply
from paddock.world.services.model.script import Entry, Reply, Script
from paddock.world.services.model.words import MAX_ENTRIES, Here, Words

SCRIPT = ("turns", "rules", "otherwise", "strict", "models", "chunk")
_ENTRY = ("id", "match", "answer")


def load_file(path: Path) -> Script:
    """Load a script file. Raises InvalidInput that names the file, the line, the key, and what to
    write."""
    try:
        with path.open("rb") as file:
            data = file.read(MAX_TEXT_BYTES + 1)
    except OSError as error:
        raise InvalidInput(f"the script {path} cannot be read: {error.strerror}") from None
    try:
        text = data.decode()
    except UnicodeDecodeError:
        raise InvalidInput(f"the script {path} is not text", hint="save it as UTF-8") from None
    return load(read(text, path.name))


def load_words(value: Mapping[str, Any]) -> Script:
    """Load a script that stands in the paddock file itself."""
    try:
        return load(Document("script", value, {}, {}))
    except PolicyError as error:
        raise InvalidInput("\n".join(map(_described, error.problems))) from None


def load(document: Document) -> Script:
    words = Words(document)
    script = _read_script(words, Here((), document.value))
    if words.problems:
        raise PolicyError(document.name, words.problems)
    return script


def _read_script(words: Words, here: Here) -> Script:
    given = words.mapping(here, SCRIPT)
    turns = _entries(words, given.get("turns"), is_turn=True)
    rules = _entries(words, given.get("rules"), is_turn=False)
    otherwise = given.get("otherwise")
    if not (turns or rules or otherwise) and not words.problems:
        words.note(here, "the script says nothing", "write turns, rules or otherwise")
    _check_ids(words, [*turns, *rules])
    return Script(
        name=words.document.name,
        turns=tuple(turns),
        rules=tuple(rules),
        otherwise=_otherwise(words, otherwise),
        is_strict=words.truth(given.get("strict"), default=True),
        models=words.texts(given.get("models")),
        chunk=words.whole(given.get("chunk"), 1, 100_000) or CHUNK,
    )


def _entries(words: Words, here: Here | None, *, is_turn: bool) -> list[Entry]:
    if here is None:
        return []
    if not isinstance(here.value, list):
        words.note(here, "not a list", "write one entry a line, each with a dash")
        return []
    if len(here.value) > MAX_ENTRIES:
        words.note(here, f"more than {MAX_ENTRIES} entries", "split the script")
        return []
    return [_entry(words, here.at(n), is_turn=is_turn) for n in range(len(here.value))]


def _entry(words: Words, here: Here, *, is_turn: bool) -> Entry:
    given = words.mapping(here, (*_ENTRY, "repeat") if is_turn else _ENTRY)
    conditions, groups = read_match(words, given.get("match"))
    if not is_turn and isinstance(here.value, dict) and not conditions and "match" not in given:
        words.note(here, "a rule needs a match", "write match:, or use otherwise")
    if "answer" not in given and isinstance(here.value, dict):
        words.note(here, "this key is missing: answer", "write answer: and what the model says")
    answer = given.get("answer")
    reply = Reply() if answer is None else read_reply(words, answer, groups)
    return Entry(
        id=words.text(given.get("id")) or f"{here.path[0]}[{here.path[1]}]",
        conditions=conditions,
        reply=reply,
        line=words.line(here),
        is_turn=is_turn,
        is_repeated=words.truth(given.get("repeat"), default=False),
    )


def _described(problem: Problem) -> str:
    """Without a line: there is none."""
    where = f"script.{problem.path}".rstrip(".")
    hint = f"\n  hint: {problem.hint}" if problem.hint else ""
    return f"{where}: {problem.message}{hint}"


def _check_ids(words: Words, entries: list[Entry]) -> None:
    seen: set[str] = set()
    for entry in entries:
        if entry.id in seen:
            message = f"two entries have the id {entry.id}"
            words.problems.append(Problem(entry.line or 1, 1, "", message, "give each its own"))
        seen.add(entry.id)


def _otherwise(words: Words, here: Here | None) -> Entry | None:
    if here is None:
        return None
    return Entry("otherwise", (), read_reply(words, here, frozenset()), words.line(here))
