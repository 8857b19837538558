"""The seccomp filter of a pen. Above all, no socket leads out."""

from __future__ import annotations

import errno
from functools import cache

from paddock.fence.seccomp import (
    HOST_WIDE,
    HOST_WIDE_MEMORY,
    REFUSALS,
    ArgumentCondition,
    SeccompFilter,
)

_EQ, _GT, _NE, _MASKED_EQ = 4, 6, 1, 7
_NEW_NAMESPACES = 0x7E020080  # every CLONE_NEW* flag
_SET_ID = {"chmod": 1, "fchmod": 1, "fchmodat": 2, "fchmodat2": 2, "creat": 1, "mknod": 1,
           "mknodat": 2, "mkdir": 1, "mkdirat": 2}  # fmt: skip
_UNIX, _INET, _INET6, _NETLINK = 1, 2, 10, 16


@cache
def program(*, is_unix_allowed: bool = False) -> bytes:
    """Return the BPF program.

    A network namespace confines internet sockets, but neither Unix sockets by path, which a
    read-only mount does not stop either, nor those of a hypervisor. So the filter refuses these.
    """
    with SeccompFilter() as rules:
        rules.refuse_all(REFUSALS, HOST_WIDE + HOST_WIDE_MEMORY)
        _refuse_flags(rules)
        _refuse_families(rules, {_UNIX} if is_unix_allowed else set())
        return rules.export()


def _refuse_flags(rules: SeccompFilter) -> None:
    """Refuse new namespaces, and set-id files, which would run as their owner on the host."""
    for bit in (1 << n for n in range(32) if _NEW_NAMESPACES >> n & 1):
        rules.refuse("clone", errno.EPERM, ArgumentCondition(0, _MASKED_EQ, bit, bit))
    for bit in (0o4000, 0o2000):
        for call, position in _SET_ID.items():
            rules.refuse(call, errno.EPERM, ArgumentCondition(position, _MASKED_EQ, bit, bit))


def _refuse_families(rules: SeccompFilter, extra: set[int]) -> None:
    allowed = {_INET, _INET6, _NETLINK} | extra
    for family in range(max(allowed)):
        if family not in allowed:
            rules.refuse("socket", errno.EAFNOSUPPORT, ArgumentCondition(0, _EQ, family, 0))
    rules.refuse("socket", errno.EAFNOSUPPORT, ArgumentCondition(0, _GT, max(allowed), 0))
    rules.refuse("socketpair", errno.EAFNOSUPPORT, ArgumentCondition(0, _NE, _UNIX, 0))
