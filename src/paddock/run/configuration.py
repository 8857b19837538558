"""The conditions under which a run starts, as its journal stores them: policy, environment, mounts,
template, clock and random seed. From them the same run can be started again. No value of a secret
is among them."""

from __future__ import annotations

import base64
import binascii
import hashlib
import os
import time
from collections.abc import Mapping
from datetime import UTC, datetime
from typing import TYPE_CHECKING

from paddock.doors.network.inside_api.environment import seed_envs
from paddock.model.errors import InvalidInput
from paddock.model.events import Configured, MountRecorded
from paddock.run.order import policy_source

if TYPE_CHECKING:
    from paddock.doors.machine.box import Box
    from paddock.journal.secrets.value_hmac import ValueHmac
    from paddock.run.order import Order
    from paddock.run.surroundings import Surroundings

_PACKAGES = "/var/lib/dpkg/status"


def seed_environment(seed: str) -> dict[str, str]:
    """Return variables that seed all randomness of Python inside: see `doors/network/inside`."""
    # Bytecode that Python would write beside the sources is no work of the agent.
    return {**seed_envs(seed), "PYTHONDONTWRITEBYTECODE": "1"}


def configured_of(
    order: Order, box: Box, surroundings: Surroundings, keyed: ValueHmac
) -> Configured:
    """Return the conditions under which the agent starts. Of variables that the caller gave for
    this run (`--env`) they have the names, and keyed hashes by which a replay recognises the
    values."""
    terms = order.policy.terms
    why = {mount.target: mount.why for mount in surroundings.mounts}
    mounts = [
        MountRecorded(mount.source, mount.target, mount.mode.value, why.get(mount.target))
        for mount in box.spec.mounts
        if mount.source is not None
    ]
    stdin, stdin_base64 = encoded_stdin(order.stdin)
    return Configured(
        envs={name: value for name, value in box.envs({}).items() if name not in order.envs},
        argv=list(surroundings.argv),
        cwd=surroundings.cwd,
        mounts=mounts,
        hidden=list(surroundings.hidden),
        policy=policy_source(order.policy, order.file),
        template={"name": box.spec.template, "digest": template_digest(box.spec.template)},
        clock=datetime.fromtimestamp(time.time(), UTC).isoformat(),
        timeout_s=order.timeout_s,
        given_envs={name: keyed.of(value) for name, value in order.envs.items()},
        vary=list(terms.vary),
        beside=None if terms.background is None else list(terms.background),
        stdin=stdin,
        stdin_base64=stdin_base64,
    )


def given_envs(
    configured: Configured,
    keyed: ValueHmac,
    given: Mapping[str, str],
    environ: Mapping[str, str],
) -> dict[str, str]:
    """Return the variables that a recorded run was given, for another run like it: as given now, or
    from the environment where the value is the same. Raises InvalidInput for a variable whose value
    is unknown, because values are not recorded."""
    found = dict(configured.own_envs)  # of older runs
    for name, digest in configured.given_envs.items():
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


def encoded_stdin(stdin: bytes | None) -> tuple[str | None, str | None]:
    """Return what the agent reads as text, or as base64 where it is none; `stdin_of` decodes it."""
    if stdin is None:
        return None, None
    try:
        return stdin.decode("utf-8"), None
    except UnicodeDecodeError:
        return None, base64.b64encode(stdin).decode()


def stdin_of(configured: Configured) -> bytes | None:
    """Return what the agent read. Raises InvalidInput."""
    if configured.stdin_base64 is None:
        text = configured.stdin
        return None if text is None else text.encode("utf-8", "surrogateescape")
    try:
        return base64.b64decode(configured.stdin_base64, validate=True)
    except (binascii.Error, ValueError):
        raise InvalidInput("what the agent read from stdin is not on record as it was") from None


def template_digest(name: str) -> str | None:
    """Return a digest of the installed packages of the host's own files; None where it cannot be
    computed."""
    try:
        if name == "host":
            stamp = os.stat(_PACKAGES)
            stamps = f"{stamp.st_size} {stamp.st_mtime_ns}"
        else:
            stamp = os.stat(name.removeprefix("dir:"))
            stamps = f"{stamp.st_ino} {stamp.st_mtime_ns}"
    except OSError:
        return None
    return hashlib.sha256(f"{name} {stamps}".encode()).hexdigest()
