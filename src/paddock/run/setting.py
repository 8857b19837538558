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
    from paddock.run.order import Order
    from paddock.run.surroundings import Surroundings

_PACKAGES = "/var/lib/dpkg/status"


def chance_envs(seed: str) -> dict[str, str]:
    """Variables from which Python inside takes all its chance: see `doors/network/inside`."""
    # What Python would write beside the sources is no work of the agent.
    return {**seed_envs(seed), "PYTHONDONTWRITEBYTECODE": "1"}


def setting_of(order: Order, box: Box, around: Surroundings) -> dict[str, Any]:
    """The body of the note."""
    terms = order.policy.terms
    why = {m.target: m.why for m in around.mounts}
    return {
        "what": "setting",
        "envs": box.envs({}),
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
        "own_envs": dict(order.envs),
        **({"vary": list(terms.vary)} if terms.vary else {}),
        **({} if terms.beside is None else {"beside": list(terms.beside)}),
        **({} if order.stdin is None else stdin_words(order.stdin)),
    }


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
