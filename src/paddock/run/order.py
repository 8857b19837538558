"""An order to run an agent: a command, a project, and the policy it runs under. Parsed once; the
same order gives the same run as far as that is in our hands."""

from __future__ import annotations

import os
import secrets
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import msgspec
from msgspec.structs import replace

from paddock.doors.terms import policy_of, read_file, terms_of
from paddock.doors.trust import NO_TRUST, Trust, check_trust, remember
from paddock.model.action import Stage
from paddock.model.errors import CannotEnforce, InvalidInput
from paddock.model.events import PolicySource
from paddock.model.sizes import parse_duration
from paddock.policy.decide import Policy
from paddock.policy.file import DEFAULT_NAME, dump, load
from paddock.policy.problems import PolicyError

ISOLATIONS = ("process", "container", "gvisor", "microvm")
TIMEOUT_S = 3600.0


class Order(msgspec.Struct, frozen=True):
    """One agent at work under one policy."""

    command: tuple[str, ...]
    cwd: Path  # of the host: the project
    policy: Policy
    file: str | None = None  # what the policy was made from, for people
    envs: Mapping[str, str] = {}
    seed: str = ""  # all chance inside comes from it
    timeout_s: float = TIMEOUT_S
    stdin: bytes | None = None  # what the agent reads; None for nothing

    @property
    def policy_text(self) -> str:
        """From which `load` makes the same policy again."""
        return dump(self.policy)


def policy_source(policy: Policy, file: str | None) -> PolicySource:
    """Return what a journal stores of a policy; `load_policy` reads it. `file` is what it was made
    from, for people."""
    return PolicySource(dump(policy), policy.terms.base, file, policy.terms.file)


def load_policy(source: PolicySource) -> Policy:
    """Return the policy that a journal stores."""
    file = source.file
    if file is None and source.base and source.name:  # recorded before the path was stored
        file = os.path.join(source.base, os.path.basename(source.name))
    return load(source.text, "its paddock file", source.base, file, is_recorded=True)


def order_of(
    command: Sequence[str],
    *,
    cwd: str | os.PathLike[str] | None = None,
    file: str | os.PathLike[str] | Policy | None = None,
    stage: str | None = None,
    isolation: str | None = None,
    offline: bool = False,
    sets: Sequence[str] | Mapping[str, Any] = (),
    envs: Mapping[str, str] | None = None,
    seed: int | str | None = None,
    world: Mapping[str, Any] | None = None,
    faults: Any = None,
    timeout: float | str | None = None,
    stdin: bytes | None = None,
    trust: Trust = NO_TRUST,
) -> Order:
    """Make the order of a run. Without a file the policy is the project's paddock.yaml or, where
    there is none, the default one, under which nothing leaves. `sets` and the other options are the
    caller's own; what the file asks of the host is checked against `trust`. Raises InvalidInput and
    NotTrusted."""
    if not command:
        raise InvalidInput("run: no command; e.g. paddock run -- python my_agent.py")
    check_isolation(isolation)
    project = Path(cwd or ".").absolute()
    where = _file(file, project)
    policy = _policy(where, sets_of(sets), trust)
    policy = changed(policy, stage=stage, offline=offline, world=world, faults=faults, seed=seed)
    is_from_file = where is not None and not isinstance(where, Policy)
    if is_from_file and (sets or world is not None) and not trust.is_given:
        remember(policy)  # the other values are the caller's own; a fork of the run has them too
    if policy.terms.vary:
        from paddock.run.matching.rules import vary_of

        for one in policy.terms.vary:
            vary_of(one)  # a mistake is said now, not at a replay
    said = policy.sandbox.options.get("timeout")
    limit = timeout if timeout is not None else said
    return Order(
        command=tuple(command),
        cwd=project,
        policy=policy,
        file=None if where is None or isinstance(where, Policy) else os.fspath(where),
        envs=dict(envs or {}),
        seed=secrets.token_hex(32) if seed is None else str(seed),
        timeout_s=TIMEOUT_S if limit is None else parse_duration(limit, "timeout"),
        stdin=stdin,
    )


def changed(
    policy: Policy,
    *,
    stage: str | None = None,
    offline: bool = False,
    world: Mapping[str, Any] | None = None,
    faults: Any = None,
    seed: int | str | None = None,
) -> Policy:
    """Return the policy with these options replaced."""
    words = {"world": world, "faults": faults}
    if any(one is not None for one in words.values()):
        policy, _ = terms_of(policy, {k: v for k, v in words.items() if v is not None})
    terms = policy.terms
    if stage is not None:
        terms = replace(terms, stage=_stage(stage))
    if offline and terms.network is not None:
        # What only stand-ins get stays: the agent wants its variables, and no value is loaded.
        stood_in = {n: one for n, one in terms.secrets.items() if n not in policy.real_secrets}
        terms = replace(terms, network=replace(terms.network, allow=()), secrets=stood_in)
    if isinstance(seed, int) and terms.world is not None:
        terms = replace(terms, world=replace(terms.world, seed=seed))
    return policy if terms is policy.terms else Policy.of(terms)


def check_isolation(isolation: str | None) -> None:
    """Raise for an isolation that is unknown or not available."""
    if isolation in (None, "container"):
        return
    if isolation not in ISOLATIONS:
        raise InvalidInput(f"--isolation: {isolation!r} is not known", hint="write container")
    raise CannotEnforce(f"isolation {isolation}", hint="only container is there; leave it out")


def _file(
    file: str | os.PathLike[str] | Policy | None, project: Path
) -> str | os.PathLike[str] | Policy | None:
    if file is not None:
        return file
    usual = project / DEFAULT_NAME
    return usual if usual.is_file() else None


def _policy(
    where: str | os.PathLike[str] | Policy | None, sets: Mapping[str, Any], trust: Trust
) -> Policy:
    if where is None or isinstance(where, Policy):
        policy = policy_of(where)
        terms = policy.terms
        return with_sets(dump(policy), terms.base, terms.file, sets) if sets else policy
    if not sets:
        return policy_of(where, trust)
    path, text = Path(where).absolute(), read_file(where)
    policy = with_sets(text, str(path.parent), str(path), sets)
    try:
        as_it_stands = load(text, path.name, str(path.parent), str(path))
    except PolicyError:
        as_it_stands = policy  # the other values are needed to make sense of it
    check_trust(as_it_stands, trust)
    return policy


def with_sets(text: str, base: str | None, file: str | None, sets: Mapping[str, Any]) -> Policy:
    """Parse the policy of a text in which some keys have other values."""
    from paddock.policy.file.document import read
    from paddock.policy.file.writer import emit

    document = read(text, DEFAULT_NAME)
    value = document.value
    if not isinstance(value, dict):
        raise InvalidInput("--set: the paddock file is empty")
    for key, new in sets.items():
        said = read(new, f"--set {key}").value if isinstance(new, str) else new
        _set(value, key.split("."), said, key)
    name = "the usual policy" if file is None else DEFAULT_NAME
    return load(emit(value), f"{name} with --set", base, file)


def _set(value: Any, words: list[str], new: Any, key: str) -> None:
    """Set the value of a dotted key. A host has dots in its name, so the longest word that is a key
    already is taken."""
    for length in range(len(words), 0, -1):
        name = ".".join(words[:length])
        if isinstance(value, dict) and (name in value or length == 1):
            if length == len(words):
                value[name] = new
            else:
                value.setdefault(name, {})
                _set(value[name], words[length:], new, key)
            return
    if isinstance(value, list) and words[0].isdecimal() and int(words[0]) < len(value):
        if len(words) == 1:
            value[int(words[0])] = new
        else:
            _set(value[int(words[0])], words[1:], new, key)
        return
    raise InvalidInput(f"--set: there is no place for {key!r} in the paddock file")


def sets_of(sets: Sequence[str] | Mapping[str, Any]) -> dict[str, Any]:
    """Parse `KEY=VALUE` to keys of the file and their new values. Raises InvalidInput."""
    if isinstance(sets, Mapping):
        return dict(sets)
    found = {}
    for text in sets:
        key, equals, value = text.partition("=")
        if not equals or not key:
            raise InvalidInput(f"--set: {text!r} is not KEY=VALUE, as in sandbox.limits.cpu=2")
        found[key] = value
    return found


def _stage(stage: str) -> Stage:
    try:
        return Stage(stage)
    except ValueError:
        known = ", ".join(Stage)
        raise InvalidInput(f"--stage: {stage!r} is none of {known}") from None
