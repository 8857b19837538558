"""The terms of a run that a fork may change, in few words each: stage, seed, command, and what its
policy says. Whoever wants to know more reads the journal. Pure.
"""

from __future__ import annotations

import hashlib
import json
import re
import shlex
from collections.abc import Iterator, Mapping
from functools import lru_cache
from typing import Any

MAX_TERMS = 300
MAX_WORDS = 200  # characters of one term
_MAX_VALUE = 60  # of one value: a longer one is known by its digest
_MAX_TEXT = 1 << 18  # of a policy: larger ones are known by their digest alone
_MAX_DEPTH = 3
_DIGEST = 8  # characters that a person compares
_DIGEST_NAME = "policy_digest"
_RANDOM = re.compile(r"[0-9a-f]{64}")  # a seed that nobody chose
_SAID = ("command", "policy", "seed", "stage")  # in words, the others as `name=value`
_LISTED = {"faults": "fault", "rules": "rule"}  # lists of things with an id
_ELSEWHERE = frozenset({"agent", "stage", "version"})


def run_terms(opened: Mapping[str, Any], setting: Mapping[str, Any]) -> dict[str, str]:
    """All of a run. What its fork was told holds from the fork on, over what the past had."""
    return {**setting_terms(setting), **opened_terms(opened)}


def opened_terms(opened: Mapping[str, Any]) -> dict[str, str]:
    """Those with which a run was opened, and those that a fork was told to change."""
    seed = opened.get("seed")
    lineage = opened.get("lineage")
    told = lineage.get("words") if isinstance(lineage, Mapping) else None
    return _spelled({
        "stage": opened.get("stage"),
        _DIGEST_NAME: opened.get(_DIGEST_NAME),
        "seed": None if isinstance(seed, str) and _RANDOM.fullmatch(seed) else seed,
        "command": _command(opened.get("command")),
        **(_told(told) if isinstance(told, Mapping) else {}),
    })  # fmt: skip


def _told(words: Mapping[str, Any]) -> dict[str, Any]:
    known = {name: words[name] for name in ("stage", "seed", "state_only") if name in words}
    if "command" in words:
        known["command"] = _command(words["command"])
    if isinstance(words.get("policy"), str):
        known["policy"] = words["policy"].rpartition("/")[2]
    for text in _several(words.get("set")):
        name, _, value = str(text).partition("=")
        known[name] = value
    for fault in _several(words.get("faults")):
        known[f"fault {_name_of(fault)}"] = fault
    return known


def setting_terms(setting: Mapping[str, Any]) -> dict[str, str]:
    """Those that the note about its setting has."""
    found = setting.get("policy")
    policy = found if isinstance(found, Mapping) else {}
    name, text = policy.get("name"), policy.get("text")
    file = name.rpartition("/")[2] if isinstance(name, str) else None
    inner = _of_text(text) if isinstance(text, str) and len(text) <= _MAX_TEXT else {}
    return {**_spelled({"policy": file}), **inner}


def changed_terms(mine: Mapping[str, str], theirs: Mapping[str, str]) -> tuple[str, ...]:
    """What is otherwise here than there: `stage narrow`, `limits.pids=9`, `no fault slow`. The
    digest of the policy is named only where nothing else says what is otherwise in it."""
    words = list(_changed(mine, theirs))
    is_told = any(not one.startswith(("command ", "seed ")) for one in words)
    digest = mine.get(_DIGEST_NAME)
    if digest != theirs.get(_DIGEST_NAME) and digest is not None and not is_told:
        words.append(f"policy {digest[:_DIGEST]}")
    return tuple(words)


def _changed(mine: Mapping[str, str], theirs: Mapping[str, str]) -> Iterator[str]:
    for name, value in mine.items():
        if name != _DIGEST_NAME and theirs.get(name) != value:
            yield _words(name, value)
    yield from (f"no {name}" for name in theirs if name not in mine and name != _DIGEST_NAME)


def _words(name: str, value: str) -> str:
    if name.startswith(tuple(f"{one} " for one in _LISTED.values())):
        return name
    return f"{name} {value}" if name in _SAID else f"{name}={value}"


@lru_cache(maxsize=64)
def _of_text(text: str) -> dict[str, str]:
    """What a policy says, by the path to it. Forks of one run mostly have the same text."""
    import yaml  # most runs have no forks

    loader = getattr(yaml, "CSafeLoader", yaml.SafeLoader)
    try:
        events = yaml.parse(text, Loader=loader)
        if any(isinstance(one, yaml.AliasEvent) for one in events):
            return {}  # we write none, and a few can stand for more than any memory holds
        value = yaml.load(text, Loader=loader)  # noqa: S506 - it is a safe one
    except (yaml.YAMLError, ValueError, RecursionError):
        return {}
    document = value if isinstance(value, dict) else {}
    known = {name: one for name, one in document.items() if name not in _ELSEWHERE}
    return _spelled(dict(_flat("", known, 0)))


def _flat(at: str, value: Any, depth: int) -> Iterator[tuple[str, Any]]:
    if isinstance(value, dict) and value and depth < _MAX_DEPTH:
        for name, one in value.items():
            yield from _flat(f"{at}.{name}" if at else str(name), one, depth + 1)
    elif at in _LISTED and isinstance(value, list):
        for one in value:
            yield f"{_LISTED[at]} {_name_of(one)}", one
    elif at:
        yield at, value


def _name_of(listed: Any) -> str:
    """Its id; what has none is its own name."""
    name = listed.get("id") if isinstance(listed, Mapping) else listed
    return name if isinstance(name, str) else json.dumps(listed, default=str)


def _several(value: Any) -> list[Any]:
    if value is None:
        return []
    return value if isinstance(value, list) else [value]


def _command(value: Any) -> str | None:
    return shlex.join(map(str, value)) if isinstance(value, list) else None


def _spelled(terms: Mapping[str, Any]) -> dict[str, str]:
    known = [(name, one) for name, one in terms.items() if one is not None][:MAX_TERMS]
    return {name[:MAX_WORDS]: _text(name, one) for name, one in known}


def _text(name: str, value: Any) -> str:
    text = value if isinstance(value, str) else json.dumps(value, default=str)
    if name in (*_SAID, _DIGEST_NAME) or len(text) <= _MAX_VALUE:
        return text[:MAX_WORDS]
    return f"({hashlib.sha256(text.encode('utf-8', 'replace')).hexdigest()[:_DIGEST]})"
