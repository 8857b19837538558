"""A sandbox's file system as data, and its translation into bubblewrap's words. No I/O on mounts.

The plan says what the sandbox sees and where that comes from. When the host process is root the
keeper stages each source (see `mounts`); otherwise bubblewrap binds the source as it is.
"""

from __future__ import annotations

import enum
import os
from collections.abc import Callable
from functools import cache

import msgspec

from paddock.fence.guest.agreed import GO_FD, INFO_FD, PIDNS_FD, SOURCE_FD, STAGE
from paddock.model.spec import HOME

INSIDE = "/.paddock"
_SHM_BYTES = 64 << 20
_RUN_BYTES = 16 << 20
# Reads of these tell about the host or other sandboxes, not about this one.
_MASKED_FILES = ("kcore", "keys", "key-users", "timer_list", "sched_debug", "kallsyms", "kmsg",
                 "latency_stats", "modules", "vmallocinfo", "pagetypeinfo", "slabinfo")  # fmt: skip
_MASKED_DIRS = ("acpi", "scsi", "asound", "fs", "driver")


class BindKind(enum.Enum):
    """The ways in which a source can appear inside."""

    READ = "read"
    WRITE = "write"
    OVERLAY = "overlay"


class MountSource(msgspec.Struct, frozen=True):
    """A tree of the host: a path, or a layer by name (and a directory in it)."""

    path: str = ""
    layer: str = ""
    owner: tuple[int, int] | None = None  # whose files the sandbox's uid stands for
    is_readonly: bool = True
    is_recursive: bool = False
    identity: tuple[int, int] | None = None  # of a caller's own path: checked when it is opened


class Bind(msgspec.Struct, frozen=True):
    """One tree at one place. `below` is a path within the source; `upper` and `hiding`, which
    takes names away from what is below it, are within the own layer."""

    target: str
    source: MountSource
    kind: BindKind
    below: str = ""
    upper: str = ""
    hiding: str = ""


class Plan(msgspec.Struct, frozen=True):
    """Everything bubblewrap needs to know."""

    layer: MountSource
    layer_path: str  # the layer's path for a host process that is not root
    root: tuple[Bind, ...]  # the template: /usr and /etc, or a whole root
    links: tuple[tuple[str, str], ...]
    binds: tuple[Bind, ...]
    is_staged: bool
    is_own_root: bool = False


def stages(plan: Plan) -> list[MountSource]:
    """Return the sources in the order in which the keeper numbers them."""
    return list(dict.fromkeys([plan.layer, *(b.source for b in (*plan.root, *plan.binds))]))


def arguments(plan: Plan) -> list[str]:
    """bubblewrap's command line for the plan."""
    numbers = {source: n for n, source in enumerate(stages(plan))}

    def host(source: MountSource, below: str) -> str:
        if plan.is_staged:
            base = f"{STAGE}/{numbers[source]}"
        else:
            base = plan.layer_path if source.layer and not source.path else source.path
        return os.path.join(base, below) if below else base

    def by_descriptor(source: MountSource) -> int | None:
        """Return the descriptor that the keeper has checked, through which a caller's path is
        bound."""
        is_checked = source.identity is not None and not plan.is_staged
        return SOURCE_FD + numbers[source] if is_checked else None

    argv = ["bwrap", *_FRAME]
    for bind in plan.root:
        argv += _bind(bind, host, plan, by_descriptor(bind.source))
    for target, name in plan.links:
        argv += ["--symlink", target, name]
    argv += _own_places(host(plan.layer, "home"), host(plan.layer, "tmp"))
    for bind in plan.binds:
        argv += _bind(bind, host, plan, by_descriptor(bind.source))
    if not plan.is_own_root:
        argv += ["--remount-ro", "/"]
    return [*argv, "--chdir", "/", "--", _NOTHING]


@cache
def masked() -> tuple[str, ...]:
    """Return what the guest covers in /proc: of the files those that this kernel has and lets
    everybody read (what only root reads needs no mask), of the directories those that hold
    anything."""
    files = [f"/proc/{name}" for name in _MASKED_FILES]
    directories = [f"/proc/{name}" for name in _MASKED_DIRS]
    return (
        *(path for path in files if _is_public(path)),
        *(path for path in directories if os.path.isdir(path) and os.listdir(path)),
    )


def _is_public(path: str) -> bool:
    try:
        return bool(os.stat(path).st_mode & 0o004)
    except OSError:
        return False


# The guest has the other namespaces already: bubblewrap makes the file system.
_FRAME = (
    "--pidns", str(PIDNS_FD), "--info-fd", str(INFO_FD), "--block-fd", str(GO_FD),
    "--die-with-parent", "--cap-drop", "ALL", "--clearenv",
)  # fmt: skip
# When all is made, bubblewrap wants to run something, and there is nothing to run: a directory
# cannot be executed on any root, so that it just ends.
_NOTHING = "/"
NOTHING_TO_RUN = "bwrap: execvp /: Permission denied\n"  # what it says then


def _own_places(home: str, tmp: str) -> list[str]:
    argv = ["--proc", "/proc", "--dev", "/dev"]
    # /dev itself is a file system of its own: closed, or it would be memory without a limit.
    argv += ["--size", str(_SHM_BYTES), "--perms", "1777", "--tmpfs", "/dev/shm"]
    argv += ["--remount-ro", "/dev", "--size", str(_RUN_BYTES), "--tmpfs", "/run"]
    return [*argv, "--bind", home, HOME, "--bind", tmp, "/tmp"]


def _bind(
    bind: Bind, host: Callable[[MountSource, str], str], plan: Plan, descriptor: int | None
) -> list[str]:
    source = host(bind.source, bind.below)
    if bind.kind is not BindKind.OVERLAY and not bind.hiding:
        word = "--ro-bind" if bind.kind is BindKind.READ else "--bind"
        if descriptor is None:
            return [word, source, bind.target]
        return [f"{word}-fd", str(descriptor), bind.target]
    if descriptor is not None:
        source = f"/proc/self/fd/{descriptor}"
    argv = ["--overlay-src", source]
    if bind.hiding:
        argv += ["--overlay-src", host(plan.layer, bind.hiding)]  # the later one lies on top
    if bind.kind is not BindKind.OVERLAY:
        assert bind.kind is BindKind.READ, "what is mounted for writing hides nothing"
        return [*argv, "--ro-overlay", bind.target]
    upper = host(plan.layer, f"{bind.upper}/upper")
    work = host(plan.layer, f"{bind.upper}/work")
    return [*argv, "--overlay", upper, work, bind.target]
