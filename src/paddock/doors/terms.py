"""What a caller asks for, as a policy and a spec: a paddock file, words, or both."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from functools import cache
from pathlib import Path
from typing import Any

from paddock.model.errors import InvalidInput
from paddock.model.spec import Spec, SpecWords
from paddock.policy.decide import Policy
from paddock.policy.file import default_policy, load
from paddock.policy.network_words import network_of
from paddock.policy.secret_words import secrets_of
from paddock.policy.words import raise_first
from paddock.policy.world_words import world_of, world_problems

PolicyWord = str | os.PathLike[str] | Policy | None
MAX_FILE_BYTES = 4 << 20
_OUTSIDE = ("network", "secrets", "world", "faults")
_usual = cache(default_policy)


class CreateWords(SpecWords, total=False):
    """What `Sandbox.create` takes besides a policy."""

    network: Mapping[str, Any] | None  # as in a paddock file: allow, tls, hosts, private, mode
    secrets: Mapping[str, Mapping[str, Any]] | None  # as in a paddock file: from, to, as
    world: Mapping[str, Any] | None  # as in a paddock file: host: service
    faults: str | Sequence[Any] | None  # as in a paddock file: a list, or the name of a set


def terms_of(policy: PolicyWord, words: Mapping[str, Any]) -> tuple[Policy, Spec]:
    """The policy, and the spec that its file and the caller's words give together."""
    words = dict(words)
    said_outside = {word: words.pop(word, None) for word in _OUTSIDE}
    if policy is None and not any(one is not None for one in said_outside.values()):
        return _usual(), Spec.parse(**words)
    decided = _with_words(policy, **said_outside)
    raise_first(world_problems(decided.network, decided.world))
    said = {k: v for k, v in decided.sandbox.words.items() if k != "isolation"}
    limits = {**(said.get("limits") or {}), **(words.get("limits") or {})}
    together = {**said, **words, **({"limits": limits} if limits else {})}
    return decided, Spec.parse(**together)


def _with_words(
    policy: PolicyWord,
    network: Mapping[str, Any] | None,
    secrets: Mapping[str, Mapping[str, Any]] | None,
    world: Mapping[str, Any] | None,
    faults: str | Sequence[Any] | None,
) -> Policy:
    """The words take the place of what the file says about the same."""
    if faults is not None:
        from paddock.policy.convert import faults_of  # loads what reads files

        decided = _with_words(policy, network, secrets, world, None)
        return decided.with_faults(faults_of(faults, decided.tools))
    stood_in = None if world is None else world_of(world)
    reach = None if network is None else network_of(network)
    named = None if secrets is None else secrets_of(secrets)
    if policy is None:
        return default_policy(network=reach, secrets=named, world=stood_in)
    decided = policy_of(policy)
    if stood_in is not None:
        decided = decided.with_world(stood_in)
    if reach is None and named is None:
        return decided
    reach = reach or decided.network
    if reach is None:
        raise InvalidInput("secrets: there is no network for them", hint="say network={...} too")
    return decided.with_network(reach, decided.secrets if named is None else named)


def policy_of(policy: PolicyWord) -> Policy:
    """A policy as it is, or that of a file; without either, the usual one."""
    if policy is None or isinstance(policy, Policy):
        return policy or _usual()
    if not isinstance(policy, str | os.PathLike):
        raise InvalidInput(
            f"policy: a {type(policy).__name__} is no paddock file",
            hint="give the path of one, or a Policy: paddock.policy.file.load(text)",
        )
    return load_file(policy)


def load_file(path: str | os.PathLike[str]) -> Policy:
    """The policy of a paddock file. Raises InvalidInput with all that is wrong with it."""
    return load(read_file(path), Path(path).name, str(Path(path).absolute().parent))


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
