"""What differs for an attacker between a host process that is root and one that is not.

One table, with reasons; it goes on from the table of the conformance tests. A test asks an entry
about the sandbox at hand, and never looks at the uid by itself.
"""

from __future__ import annotations

from conformance.differences import (
    CGROUP_MEMORY,
    EXIT_STATUS_OF_DESCENDANTS,
    FILE_EVENTS,
    FRACTIONAL_CPU,
    HARD_DISK_QUOTA,
    OWN_UID,
    Difference,
)

__all__ = [
    "CGROUP_MEMORY",
    "EXIT_STATUS_OF_DESCENDANTS",
    "FILES_WITHOUT_A_NAME",
    "FILE_EVENTS",
    "FRACTIONAL_CPU",
    "HARD_DISK_QUOTA",
    "HOST_CAN_MOUNT",
    "HOST_LOOKS_INSIDE",
    "KERNEL_FREEZER",
    "MEMORY_OF_NOBODY",
    "OWN_QUOTAS_OF_USER",
    "OWN_UID",
    "PINNED_CPU",
    "STRANGERS_FILES",
    "TABLE",
]

HOST_CAN_MOUNT = Difference(
    "mounts made on the host",
    "only root can put a mount below a mounted source, so only root can test what becomes of it",
    OWN_UID.is_there,
)
HOST_LOOKS_INSIDE = Difference(
    "the host's view into a guest",
    "a guest lets nobody look into it, and only root may on the host; what it holds is the same for"
    " an ordinary user, whose guests come out of the same code",
    OWN_UID.is_there,
)
STRANGERS_FILES = Difference(
    "files of a third user",
    "only root can make a file that belongs to somebody else and put it into a mounted directory;"
    " otherwise a file that denies its own owner takes its place",
    OWN_UID.is_there,
)
PINNED_CPU = Difference(
    "the CPU limit is a set of CPUs",
    "without a cgroup the sandbox is pinned, and may therefore not choose its CPUs; with one it"
    " may, because its share does not depend on where it runs",
    lambda info: info.enforcement["cpu"].startswith("pinned"),
)
OWN_QUOTAS_OF_USER = Difference(
    "per-user quotas of the kernel are the sandbox's own",
    "inotify instances, pipe memory, pending signals are counted by host uid; only an uid of its"
    " own keeps a sandbox from using up the caller's",
    OWN_UID.is_there,
)
MEMORY_OF_NOBODY = Difference(
    "memory that belongs to no process is counted",
    "shared pages that nobody maps, buffers, page tables and names in tmpfs are counted by a cgroup"
    " alone; a watch holds what accidents take, not what intent hides",
    CGROUP_MEMORY.is_there,
)
FILES_WITHOUT_A_NAME = Difference(
    "files without a name are counted",
    "a quota of the file system sees every block; a count of names and descriptors does not see a"
    " deleted file that is only mapped, in flight, or held by a process that cannot be looked into",
    HARD_DISK_QUOTA.is_there,
)
KERNEL_FREEZER = Difference(
    "pause by the kernel's freezer",
    "needs a cgroup; otherwise pid 1 sends SIGSTOP again and again, and a program that prepared"
    " timers with SIGCONT runs for moments in between",
    lambda info: info.enforcement["pause"].startswith("cgroup"),
)

TABLE = (
    OWN_UID,
    HARD_DISK_QUOTA,
    CGROUP_MEMORY,
    FILE_EVENTS,
    FRACTIONAL_CPU,
    EXIT_STATUS_OF_DESCENDANTS,
    HOST_CAN_MOUNT,
    HOST_LOOKS_INSIDE,
    STRANGERS_FILES,
    PINNED_CPU,
    OWN_QUOTAS_OF_USER,
    MEMORY_OF_NOBODY,
    FILES_WITHOUT_A_NAME,
    KERNEL_FREEZER,
)
