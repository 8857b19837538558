"""What a run began with, for its journal: terms, environment, mounts, template, clock and chance.
From it the same run can be set up again. Values of secrets are in none of it."""

from __future__ import annotations

import base64
import binascii
import hashlib
import os
import time
from collections.abc import Mapping
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

from paddock.doors.network.inside_envs import seed_envs
from paddock.model.errors import InvalidInput

if TYPE_CHECKING:
    from paddock.doors.machine.box import Box
    from paddock.journal.keyed import Keyed
    from paddock.run.order import Order
    from paddock.run.surroundings import Surroundings

_PACKAGES = "/var/lib/dpkg/status"


def chance_envs(seed: str) -> dict[str, str]:
    """Variables from which Python inside takes all its chance: see `doors/network/inside`."""
    # What Python would write beside the sources is no work of the agent.
    return {**seed_envs(seed), "PYTHONDONTWRITEBYTECODE": "1"}


def setting_of(order: Order, box: Box, around: Surroundings, keyed: Keyed) -> dict[str, Any]:
    """The body of the note. Of variables that the caller gave for this run (`--env`) it has the
    names, and keyed hashes by which a replay knows the values again."""
    terms = order.policy.terms
    why = {m.target: m.why for m in around.mounts}
    return {
        "what": "setting",
        "envs": {n: value for n, value in box.envs({}).items() if n not in order.envs},
        "argv": list(around.argv),
        "cwd": around.cwd,
        "mounts": [
            {"source": m.source, "target": m.target, "mode": m.mode.value, "why": why.get(m.target)}
            for m in box.spec.mounts
            if m.source is not None
        ],
        "hidden": list(around.hidden),
        "policy": order.policy_words,
        "template": {"name": box.spec.template, "digest": template_digest(box.spec.template)},
        "clock": datetime.fromtimestamp(time.time(), UTC).isoformat(),
        "timeout_s": order.timeout_s,
        "given_envs": {name: keyed.of(value) for name, value in order.envs.items()},
        **({"vary": list(terms.vary)} if terms.vary else {}),
        **({} if terms.beside is None else {"beside": list(terms.beside)}),
        **({} if order.stdin is None else stdin_words(order.stdin)),
    }


def given_envs(
    setting: Mapping[str, Any], keyed: Keyed, given: Mapping[str, str], environ: Mapping[str, str]
) -> dict[str, str]:
    """The variables that a recorded run was given, for another one like it: as they are given now,
    or from the environment where it has the same value. Raises InvalidInput for one whose value
    nobody says: it is not on record."""
    found = {str(n): str(v) for n, v in (setting.get("own_envs") or {}).items()}  # older runs
    for name, digest in (setting.get("given_envs") or {}).items():
        value = given.get(name, environ.get(name))
        if value is None or (name not in given and keyed.of(value) != digest):
            here = "is not set" if value is None else "has another value"
            raise InvalidInput(
                f"the run was given the variable {name}, whose value is not on record, and which "
                f"{here} in this environment",
                hint=f"say --env {name}=VALUE, or set it to the same value",
            )
        found[name] = value
    return found | dict(given)


def stdin_words(stdin: bytes) -> dict[str, str]:
    """What the agent reads, for a journal; `stdin_in` reads it."""
    try:
        return {"stdin": stdin.decode("utf-8")}
    except UnicodeDecodeError:
        return {"stdin_base64": base64.b64encode(stdin).decode()}


def stdin_in(setting: Mapping[str, Any]) -> bytes | None:
    """From what a journal has of it. Raises InvalidInput."""
    text, coded = setting.get("stdin"), setting.get("stdin_base64")
    if coded is None:
        return None if text is None else str(text).encode("utf-8", "surrogateescape")
    try:
        return base64.b64decode(str(coded), validate=True)
    except (binascii.Error, ValueError):
        raise InvalidInput("what the agent read from stdin is not on record as it was") from None


def template_digest(name: str) -> str | None:
    """Of the host's own files: which packages there are. None where that cannot be told."""
    try:
        if name == "host":
            stamp = os.stat(_PACKAGES)
            told = f"{stamp.st_size} {stamp.st_mtime_ns}"
        else:
            stamp = os.stat(name.removeprefix("dir:"))
            told = f"{stamp.st_ino} {stamp.st_mtime_ns}"
    except OSError:
        return None
    return hashlib.sha256(f"{name} {told}".encode()).hexdigest()
