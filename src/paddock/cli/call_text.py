"""What was called, with what, as one line in the form that suits its kind. An agent chose the
words: they go through `plain` and are bounded.
"""

from __future__ import annotations

import shlex
from collections.abc import Mapping
from typing import Any

from paddock.journal.calls import MAX_CALL, call_words
from paddock.journal.traffic import KINDS, Traffic
from paddock.model.plain import plain


def call_text(kind: str | None, name: str | None, proposed: Mapping[str, Any]) -> str:
    """The call of an action as its `proposed` record has it."""
    arguments = proposed.get("arguments")
    if not isinstance(arguments, Mapping):
        return plain(name or "-", MAX_CALL)
    if kind == "exec" and isinstance(arguments.get("argv"), list):
        return plain(shlex.join(map(str, arguments["argv"])), MAX_CALL)
    if kind == "file":
        to = f" -> {arguments['to']}" if "to" in arguments else ""
        return plain(f"{name} {arguments.get('path')}{to}", MAX_CALL)
    if kind == "code":
        return plain(f"{name}: {arguments.get('code')}", MAX_CALL)
    if kind in KINDS and ("host" in arguments or "name" in arguments):
        return plain(_network(Traffic(0, 0, kind, name or "", arguments)), MAX_CALL)
    return call_words(name, arguments)


def _network(one: Traffic) -> str:
    if one.kind == "model":
        asked = one.arguments.get("prompt")
        prompt = f": {asked}" if isinstance(asked, str) and asked else ""
        return f"{one.arguments.get('model') or one.name} at {one.place}{one.target}{prompt}"
    if one.kind == "http":
        return f"{one.method} {one.url.removeprefix('https://')}"
    return f"{one.method or ''} {one.place}".strip()
