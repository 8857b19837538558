"""What a run began with, for its journal: terms, environment, mounts, template, clock and chance.
From it the same run can be set up again. Values of secrets are in none of it."""

from __future__ import annotations

import hashlib
import os
import time
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

from paddock.doors.network.inside_envs import seed_envs

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
        **({"stdin": order.stdin.decode("utf-8", "surrogateescape")} if order.stdin else {}),
    }


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
