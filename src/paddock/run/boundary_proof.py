"""Proves that the fence is really in force in this run: read back from the kernel, not from what
was asked for. A proof that fails ends the run before the agent begins."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

from paddock.model.errors import CannotEnforce

if TYPE_CHECKING:
    from paddock.doors.machine.box import Box

_NAMESPACES = ("user", "mnt", "pid", "net", "ipc", "uts")
_FILTERED = "2"  # what /proc says of a process under a seccomp filter


def prove(box: Box) -> dict[str, str]:
    """Return how each boundary was verified. Raises CannotEnforce for one that does not hold."""
    pid = box.machine.init_pid
    status = _status(pid)
    proofs = {
        "capabilities": _expect(status, "CapEff", "0" * 16, "no process inside holds one"),
        "no_new_privs": _expect(status, "NoNewPrivs", "1", "no program inside gains any"),
        "seccomp": _expect(status, "Seccomp", _FILTERED, "system calls are filtered"),
        "user": _user(status),
        "namespaces": _namespaces(pid),
    }
    return {name: said for name, said in proofs.items() if said}


def _status(pid: int) -> dict[str, str]:
    try:
        with open(f"/proc/{pid}/status") as file:
            pairs = (line.split(":", 1) for line in file if ":" in line)
            return {name: value.strip() for name, value in pairs}
    except OSError as error:
        raise CannotEnforce(
            "the fence", hint=f"its first process cannot be read: {error}"
        ) from None


def _expect(status: dict[str, str], field: str, wanted: str, said: str) -> str:
    if status.get(field) != wanted:
        raise CannotEnforce(field, hint=f"the kernel says {status.get(field)!r} of the sandbox")
    return said


def _user(status: dict[str, str]) -> str:
    uids = set(status.get("Uid", "0").split())
    if "0" in uids:
        raise CannotEnforce("user", hint="the sandbox runs as root of the host")
    return f"uid {', '.join(sorted(uids))} of the host"


def _namespaces(pid: int) -> str:
    """Verify the namespaces. An ordinary user cannot read the links of a process that is not theirs
    to debug; then nothing is claimed."""
    try:
        same = [n for n in _NAMESPACES if _namespace(pid, n) == _namespace(os.getpid(), n)]
    except OSError:
        return ""
    if same:
        raise CannotEnforce(f"namespace {', '.join(same)}", hint="the sandbox is in the host's")
    return f"its own: {', '.join(_NAMESPACES)}"


def _namespace(pid: int, name: str) -> str:
    return os.readlink(f"/proc/{pid}/ns/{name}")
