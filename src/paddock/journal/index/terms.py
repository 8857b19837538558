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

from paddock.model.events import Configured, Opened

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


def run_terms(opened: Opened, configured: Configured) -> dict[str, str]:
    """Return all terms of a run. The options of its fork hold over what the recorded past had."""
    return {**configured_terms(configured), **opened_terms(opened)}


def opened_terms(opened: Opened) -> dict[str, str]:
    """Return the terms with which a run was opened, and those that its fork was told to change."""
    seed = opened.seed
    return _as_texts({
        "stage": opened.stage,
        _DIGEST_NAME: opened.policy_digest,
        "seed": None if seed is not None and _RANDOM.fullmatch(seed) else seed,
        "command": shlex.join(opened.command) if opened.command else None,
        **({} if opened.lineage is None else _fork_terms(opened.lineage.options)),
    })  # fmt: skip


def _fork_terms(options: Mapping[str, Any]) -> dict[str, Any]:
    terms = {name: options[name] for name in ("stage", "seed", "state_only") if name in options}
    if isinstance(options.get("command"), list):
        terms["command"] = shlex.join(map(str, options["command"]))
    if isinstance(options.get("policy"), str):
        terms["policy"] = options["policy"].rpartition("/")[2]
    for setting in _several(options.get("set")):
        name, _, value = str(setting).partition("=")
        terms[name] = value
    for fault in _several(options.get("faults")):
        terms[f"fault {_name_of(fault)}"] = fault
    return terms


def configured_terms(configured: Configured) -> dict[str, str]:
    """Return the terms that the configuration of a run has."""
    policy = configured.policy
    file = None if policy.name is None else policy.name.rpartition("/")[2]
    inner = _of_text(policy.text) if policy.text and len(policy.text) <= _MAX_TEXT else {}
    return {**_as_texts({"policy": file}), **inner}


def changed_terms(mine: Mapping[str, str], theirs: Mapping[str, str]) -> tuple[str, ...]:
    """Return the terms that differ: `stage narrow`, `limits.pids=9`, `no fault slow`. The digest of
    the policy is named only where nothing else says what differs in it."""
    changes = list(_changed(mine, theirs))
    is_told = any(not change.startswith(("command ", "seed ")) for change in changes)
    digest = mine.get(_DIGEST_NAME)
    if digest != theirs.get(_DIGEST_NAME) and digest is not None and not is_told:
        changes.append(f"policy {digest[:_DIGEST]}")
    return tuple(changes)


def _changed(mine: Mapping[str, str], theirs: Mapping[str, str]) -> Iterator[str]:
    for name, value in mine.items():
        if name != _DIGEST_NAME and theirs.get(name) != value:
            yield _words(name, value)
    yield from (f"no {name}" for name in theirs if name not in mine and name != _DIGEST_NAME)


def _words(name: str, value: str) -> str:
    if name.startswith(tuple(f"{kind} " for kind in _LISTED.values())):
        return name
    return f"{name} {value}" if name in _SAID else f"{name}={value}"


@lru_cache(maxsize=64)
def _of_text(text: str) -> dict[str, str]:
    """Return the terms of a policy, by the path to each. Forks of one run mostly have the same
    text."""
    import yaml  # most runs have no forks

    loader = getattr(yaml, "CSafeLoader", yaml.SafeLoader)
    try:
        events = yaml.parse(text, Loader=loader)
        if any(isinstance(item, yaml.AliasEvent) for item in events):
            return {}  # we write none, and a few can stand for more than any memory holds
        value = yaml.load(text, Loader=loader)  # noqa: S506 - it is a safe one
    except (yaml.YAMLError, ValueError, RecursionError):
        return {}
    document = value if isinstance(value, dict) else {}
    own = {name: item for name, item in document.items() if name not in _ELSEWHERE}
    return _as_texts(dict(_flat("", own, 0)))


def _flat(at: str, value: Any, depth: int) -> Iterator[tuple[str, Any]]:
    if isinstance(value, dict) and value and depth < _MAX_DEPTH:
        for name, item in value.items():
            yield from _flat(f"{at}.{name}" if at else str(name), item, depth + 1)
    elif at in _LISTED and isinstance(value, list):
        for item in value:
            yield f"{_LISTED[at]} {_name_of(item)}", item
    elif at:
        yield at, value


def _name_of(listed: Any) -> str:
    """Return the id of an item of a list; an item that has none is its own name."""
    name = listed.get("id") if isinstance(listed, Mapping) else listed
    return name if isinstance(name, str) else json.dumps(listed, default=str)


def _several(value: Any) -> list[Any]:
    if value is None:
        return []
    return value if isinstance(value, list) else [value]


def _as_texts(terms: Mapping[str, Any]) -> dict[str, str]:
    chosen = [(name, term) for name, term in terms.items() if term is not None][:MAX_TERMS]
    return {name[:MAX_WORDS]: _text(name, term) for name, term in chosen}


def _text(name: str, value: Any) -> str:
    text = value if isinstance(value, str) else json.dumps(value, default=str)
    if name in (*_SAID, _DIGEST_NAME) or len(text) <= _MAX_VALUE:
        return text[:MAX_WORDS]
    return f"({hashlib.sha256(text.encode('utf-8', 'replace')).hexdigest()[:_DIGEST]})"
