"""What differs between a host process that is root and one that is not: one table, with reasons.

A test that behaves differently names an entry here and asks it; no test looks at the uid itself.
An entry is told from what `get_info()` says of the sandbox at hand, which is what users see too.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import pytest

from paddock import Sandbox
from paddock.model.results import SandboxInfo


@dataclass(frozen=True, slots=True)
class Difference:
    """Something stronger that only some hosts give. `reason` says what holds elsewhere and why."""

    name: str
    reason: str
    is_there: Callable[[SandboxInfo], bool]

    def __call__(self, box: Sandbox) -> bool:
        return self.is_there(box.get_info())

    def require(self, box: Sandbox) -> None:
        """Skips the test where the thing is not there; the reason shows in the summary."""
        if not self(box):
            pytest.skip(f"{self.name}: {self.reason}")


def _enforced_by(key: str, *mechanisms: str) -> Callable[[SandboxInfo], bool]:
    return lambda info: info.enforcement[key].startswith(mechanisms)


OWN_UID = Difference(
    "own host uid",
    "only root can give each sandbox an uid of its own; otherwise it has the caller's, and other"
    " namespaces keep two sandboxes of one caller apart",
    lambda info: info.uid >= 1_900_000_000,
)
HARD_DISK_QUOTA = Difference(
    "hard disk quota",
    "a quota of the file system needs a mount that only root can make; otherwise use is counted a"
    " few times a second and everything inside is killed beyond the limit",
    _enforced_by("disk", "btrfs quota"),
)
CGROUP_MEMORY = Difference(
    "memory counted by the kernel",
    "needs a cgroup that this user may write; otherwise the guest watches and kills the largest,"
    " and no single process can have more than the limit in the first place",
    _enforced_by("memory", "cgroup"),
)
FRACTIONAL_CPU = Difference(
    "parts of a CPU",
    "needs a cgroup; otherwise the sandbox is pinned to whole CPUs and a fraction is refused",
    _enforced_by("cpu", "cgroup"),
)
FILE_EVENTS = Difference(
    "file events",
    "fanotify on a mount is granted to root alone; get_info() says so",
    _enforced_by("file_audit", "fanotify"),
)
EXIT_STATUS_OF_DESCENDANTS = Difference(
    "exit status in exec events of indirect children",
    "the kernel tells it through a pidfd since Linux 6.15, to any user",
    lambda info: "needs Linux" not in info.enforcement["exec_events"],
)

TABLE = (
    OWN_UID,
    HARD_DISK_QUOTA,
    CGROUP_MEMORY,
    FRACTIONAL_CPU,
    FILE_EVENTS,
    EXIT_STATUS_OF_DESCENDANTS,
)
