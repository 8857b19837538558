"""An approver's changes to the arguments of a call, from the words of a person."""

from __future__ import annotations

import contextlib
import json
import shlex
import tempfile
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any

from paddock.model.errors import InvalidInput


def parse_arguments(text: str) -> dict[str, Any]:
    """All arguments, as one JSON object."""
    value = _json(text, "the arguments")
    if not isinstance(value, dict):
        raise InvalidInput("the arguments are not a JSON object", hint='write {"name": value, ...}')
    return value


def with_changes(arguments: Mapping[str, Any], changes: Iterable[str]) -> dict[str, Any]:
    """The arguments with each `key=json` in place of what the key had."""
    changed = dict(arguments)
    for change in changes:
        key, equals, text = change.partition("=")
        if not equals or not key.strip():
            raise InvalidInput(f"{change[:80]!r} is not key=json", hint="write e.g. amount=300")
        changed[key.strip()] = _json(text, key.strip())
    return changed


@contextlib.contextmanager
def arguments_file(arguments: Mapping[str, Any]) -> Iterator[Path]:
    """The arguments in a file for an editor; as ASCII, so that nothing in it acts on a terminal."""
    with tempfile.TemporaryDirectory(prefix="paddock-") as directory:
        path = Path(directory) / "arguments.json"
        path.write_text(json.dumps(arguments, indent=2) + "\n")
        yield path


def read_arguments(path: Path) -> dict[str, Any]:
    """What the editor left in the file."""
    try:
        return parse_arguments(path.read_text("utf-8", "replace"))
    except OSError as error:
        raise InvalidInput(f"the editor left no file: {error.strerror}") from None


def editor_words(editor: str) -> list[str]:
    """`$EDITOR` as a command; it may have options."""
    try:
        words = shlex.split(editor)
    except ValueError as error:
        raise InvalidInput(f"$EDITOR is not a command: {error}") from None
    if not words:
        raise InvalidInput("$EDITOR is empty", hint="set it, or give the arguments as JSON")
    return words


def _json(text: str, what: str) -> Any:
    try:
        return json.loads(text, parse_constant=_no_number, object_pairs_hook=_once)
    except (ValueError, RecursionError) as error:
        hint = """a text needs quotes: name='"Ada"'"""
        raise InvalidInput(f"{what[:60]}: not JSON: {error}", hint=hint) from None


def _no_number(word: str) -> Any:
    raise ValueError(f"{word} is not a number of JSON")


def _once(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    """Of two values for one key nobody knows which one was meant."""
    found = dict(pairs)
    if len(found) < len(pairs):
        raise ValueError("a key is given twice")
    return found
