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
    try:
        with open(path, "rb") as file:
            raw = file.read(MAX_FILE_BYTES + 1)
    except OSError as error:
        raise InvalidInput(
            f"the paddock file {os.fspath(path)} cannot be read: {error.strerror}"
        ) from None
    if len(raw) > MAX_FILE_BYTES:
        raise InvalidInput(f"the paddock file {os.fspath(path)} is larger than 4 MiB")
    try:
        text = raw.decode()
    except UnicodeDecodeError as error:
        raise InvalidInput(f"the paddock file {os.fspath(path)} is not UTF-8: {error}") from None
    return load(text, Path(path).name)
