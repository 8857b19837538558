"""What a caller asks for, as a policy and a spec: a paddock file, words, or both."""

from __future__ import annotations

import os
from collections.abc import Mapping
from functools import cache
from pathlib import Path
from typing import Any

from paddock.model.errors import InvalidInput
from paddock.model.spec import Spec
from paddock.policy.decide import Policy
from paddock.policy.file import default_policy, load

PolicyWord = str | os.PathLike[str] | Policy | None
MAX_FILE_BYTES = 4 << 20
_usual = cache(default_policy)


def terms_of(policy: PolicyWord, words: Mapping[str, Any]) -> tuple[Policy, Spec]:
    """The policy, and the spec that its file and the caller's words give together."""
    if policy is None:
        return _usual(), Spec.parse(**words)
    decided = policy_of(policy)
    said = {k: v for k, v in decided.sandbox.words.items() if k != "isolation"}
    limits = {**(said.get("limits") or {}), **(words.get("limits") or {})}
    together = {**said, **words, **({"limits": limits} if limits else {})}
    return decided, Spec.parse(**together)


def policy_of(policy: PolicyWord) -> Policy:
    """A policy as it is, or that of a file; without either, the usual one."""
    if policy is None or isinstance(policy, Policy):
        return policy or _usual()
    return load_file(policy)


def load_file(path: str | os.PathLike[str]) -> Policy:
    """The policy of a paddock file. Raises InvalidInput with all that is wrong with it."""
    return load(read_file(path), Path(path).name)


def read_file(path: str | os.PathLike[str]) -> str:
    """The text of a paddock file."""
    try:
        with open(path, "rb") as file:
            raw = file.read(MAX_FILE_BYTES + 1)
    except OSError as error:
        why = error.strerror
        raise InvalidInput(f"the paddock file {os.fspath(path)} cannot be read: {why}") from None
    return as_text(raw, os.fspath(path))


def as_text(raw: bytes, name: str) -> str:
    """What was read, with one byte more than a file may have when it is too long."""
    if len(raw) > MAX_FILE_BYTES:
        raise InvalidInput(f"the paddock file {name} is larger than 4 MiB")
    try:
        return raw.decode()
    except UnicodeDecodeError as error:
        why = f"byte {error.start} is not UTF-8"
        raise InvalidInput(f"the paddock file {name} is not text: {why}") from None
