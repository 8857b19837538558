"""The policy and the spec of a sandbox, from what its caller gives: a paddock file, options, or
both.
"""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from functools import cache
from pathlib import Path
from typing import Any

from msgspec.structs import replace

from paddock.doors.trust import GIVEN, NO_TRUST, Trust, check_trust
from paddock.model.errors import InvalidInput
from paddock.model.spec import Spec, SpecOptions
from paddock.policy.decide import Policy
from paddock.policy.file import default_policy, load
from paddock.policy.network import network_of
from paddock.policy.secrets import SecretTerms, secrets_of
from paddock.policy.section import raise_first
from paddock.policy.terms import as_plain, record_budget_of
from paddock.policy.world import world_mistakes, world_of
from paddock.state.tool_config import Governing

PolicyLike = str | os.PathLike[str] | Policy | None
MAX_FILE_BYTES = 4 << 20
_OUTSIDE = ("network", "secrets", "world", "faults")
_usual = cache(default_policy)


class CreateOptions(SpecOptions, total=False):
    """The options of `Sandbox.create` besides a policy."""

    network: Mapping[str, Any] | None  # as in a paddock file: allow, tls, hosts, private, mode
    secrets: Mapping[str, Mapping[str, Any]] | None  # as in a paddock file: from, to, as
    world: Mapping[str, Any] | None  # as in a paddock file: host: service
    faults: str | Sequence[Any] | None  # as in a paddock file: a list, or the name of a set
    record: Mapping[str, Any] | None  # as in a paddock file: budget
    trust: bool  # of a paddock file: agree, for this time, to all that it asks of the host


def terms_of(policy: PolicyLike, options: Mapping[str, Any]) -> tuple[Policy, Spec]:
    """Return the policy, and the spec that its file and the caller's options give together. An
    option that is None was not given."""
    options = {name: value for name, value in options.items() if value is not None}
    record = options.pop("record", None)
    trust = GIVEN if options.pop("trust", False) else NO_TRUST
    if isinstance(policy, str | os.PathLike):
        policy = policy_of(policy, trust)
    outside = {name: options.pop(name, None) for name in _OUTSIDE}
    is_usual = record is None and all(value is None for value in outside.values())
    if policy is None and is_usual:
        return _usual(), Spec.parse(**options)
    decided = _with_options(policy, **outside)
    if record is not None:
        decided = decided.with_record_budget(record_budget_of(record))
    raise_first(world_mistakes(decided.network, decided.world))
    from_file = {k: v for k, v in decided.sandbox.options.items() if k != "isolation"}
    limits = {**(from_file.get("limits") or {}), **(options.get("limits") or {})}
    together = {**from_file, **options, **({"limits": limits} if limits else {})}
    return decided, Spec.parse(**together)


def _with_options(
    policy: PolicyLike,
    network: Mapping[str, Any] | None,
    secrets: Mapping[str, Mapping[str, Any]] | None,
    world: Mapping[str, Any] | None,
    faults: str | Sequence[Any] | None,
) -> Policy:
    """Return the policy with the options in the place of what its file says about the same."""
    if faults is not None:
        from paddock.policy.faults import faults_of  # loads what reads files

        decided = _with_options(policy, network, secrets, world, None)
        return decided.with_faults(faults_of(faults, decided.tools))
    stood_in = None if world is None else world_of(world)
    reach = None if network is None else network_of(network)
    named = None if secrets is None else _callers_own(secrets_of(secrets))
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


def _callers_own(secrets: Mapping[str, SecretTerms]) -> dict[str, SecretTerms]:
    """Return secrets whose commands run where the caller is, not where a paddock file lies."""
    return {name: replace(terms, base=os.getcwd()) for name, terms in secrets.items()}


def policy_of(policy: PolicyLike, trust: Trust = NO_TRUST) -> Policy:
    """Return a policy as it is, or that of a file; without either, the default one. Raises
    NotTrusted for a file that asks something of the host which nobody agreed to."""
    if policy is None or isinstance(policy, Policy):
        return policy or _usual()
    if not isinstance(policy, str | os.PathLike):
        raise InvalidInput(
            f"policy: a {type(policy).__name__} is no paddock file",
            hint="give the path of one, or a Policy: paddock.policy.file.load(text)",
        )
    loaded = load_file(policy)
    check_trust(loaded, trust)
    return loaded


def load_file(path: str | os.PathLike[str]) -> Policy:
    """Return the policy of a paddock file, for those who only read it: whoever acts on it needs
    `policy_of`. Raises InvalidInput with all that is wrong with it."""
    file = Path(path).absolute()
    return load(read_file(path), file.name, str(file.parent), str(file))


def governing_file(policy: Policy) -> Governing:
    """Return what a write-back must know of the paddock file that an agent ran under."""
    terms = policy.terms
    return Governing(terms.file, terms.base, as_plain(terms))


_FILE_HINTS = {
    FileNotFoundError: "paddock init writes one, from what is found in a project",
    IsADirectoryError: "name the file in it, as in DIRECTORY/paddock.yaml",
}


def read_file(path: str | os.PathLike[str]) -> str:
    """Return the text of a paddock file."""
    try:
        with open(path, "rb") as file:
            raw = file.read(MAX_FILE_BYTES + 1)
    except OSError as error:
        message = f"the paddock file {os.fspath(path)} cannot be read: {error.strerror}"
        raise InvalidInput(message, hint=_FILE_HINTS.get(type(error))) from None
    return as_text(raw, os.fspath(path))


def as_text(raw: bytes, name: str) -> str:
    """Decode what was read, which has one byte more than a file may have when it is too long."""
    if len(raw) > MAX_FILE_BYTES:
        raise InvalidInput(f"the paddock file {name} is larger than 4 MiB")
    try:
        return raw.decode()
    except UnicodeDecodeError as error:
        why = f"byte {error.start} is not UTF-8"
        raise InvalidInput(f"the paddock file {name} is not text: {why}") from None
