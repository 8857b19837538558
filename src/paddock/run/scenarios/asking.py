"""What a test asks for, in the words of Python: from them to an order."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from paddock.doors.trust import Trust
from paddock.model.errors import InvalidInput
from paddock.policy.problems import suggest
from paddock.run.order import order_of
from paddock.run.scenarios.cassettes import Wanted
from paddock.run.scenarios.fixtures import bounded, checked_target
from paddock.run.scenarios.preparing import USUAL_SEED, laid_over
from paddock.run.scenarios.reading import fault_words

_OF_ORDER = ("stage", "sets", "envs", "timeout", "stdin")
WORDS = (*_OF_ORDER, "file", "world", "faults", "seed", "cwd", "files", "vary", "trust")


def wanted(command: tuple[str, ...], directory: Path, words: Mapping[str, Any]) -> Wanted:
    """Paths start at the directory. Raises InvalidInput."""
    for word in words:
        if word not in WORDS:
            raise InvalidInput(f"paddock.run takes no {word}", hint=suggest(word, WORDS))
    order_words = {name: words[name] for name in _OF_ORDER if words.get(name) is not None}
    order_words["cwd"] = directory / (words.get("cwd") or ".")
    order_words["seed"] = USUAL_SEED if words.get("seed") is None else words["seed"]
    order_words["faults"] = fault_words(words.get("faults"))
    if words.get("file") is not None:
        order_words["file"] = directory / words["file"]
    order_words["trust"] = Trust(is_given=bool(words.get("trust")))
    if isinstance(order_words.get("stdin"), str):
        order_words["stdin"] = order_words["stdin"].encode()
    order = order_of(command, **order_words)
    if words.get("world") is not None:
        order = order_of(command, **order_words, world=laid_over(order.policy, words["world"]))
    return Wanted(order, _files(words.get("files") or {}), tuple(words.get("vary") or ()))


def _files(files: Mapping[str, Any]) -> Mapping[str, bytes]:
    """Texts, bytes, and paths of files that are copied."""
    found: dict[str, bytes] = {}
    for target, content in files.items():
        if isinstance(content, Path):
            content = content.read_bytes()
        found[checked_target(target)] = content.encode() if isinstance(content, str) else content
    return bounded(found)
