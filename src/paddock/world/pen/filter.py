"""The system calls that a process in a pen has no use for. Most of all: no socket leads out."""

from __future__ import annotations

import ctypes
import errno
import os
import tempfile
from functools import cache

from paddock.fence.seccomp import (
    HOST_WIDE,
    HOST_WIDE_MEMORY,
    NUMBERS,
    REFUSALS,
    Condition,
    load_library,
)
from paddock.model.errors import HostCannot

_ALLOW, _ERRNO = 0x7FFF0000, 0x00050000
_EQ, _GT, _NE, _MASKED_EQ = 4, 6, 1, 7
_NEW_NAMESPACES = 0x7E020080  # every CLONE_NEW* flag
_SET_ID = {"chmod": 1, "fchmod": 1, "fchmodat": 2, "fchmodat2": 2, "creat": 1, "mknod": 1,
           "mknodat": 2, "mkdir": 1, "mkdirat": 2}  # fmt: skip
_UNIX, _INET, _INET6, _NETLINK = 1, 2, 10, 16


@cache
def program(*, is_unix_allowed: bool = False) -> bytes:
    """The BPF program. A network namespace holds internet sockets, but not Unix sockets by path
    (a read-only mount does not stop them either) and not those of a hypervisor: refused."""
    library = load_library()
    context = ctypes.c_void_p(library.seccomp_init(ctypes.c_uint32(_ALLOW)))
    try:
        for refusal in REFUSALS:
            for call in refusal.calls:
                _refuse(library, context, call, refusal.code)
        for one in HOST_WIDE + HOST_WIDE_MEMORY:
            _refuse(library, context, one.call, one.code, *one.conditions())
        _refuse_flags(library, context)
        _refuse_families(library, context, {_UNIX} if is_unix_allowed else set())
        return _exported(library, context)
    finally:
        library.seccomp_release(context)


def _refuse_flags(library: ctypes.CDLL, context: ctypes.c_void_p) -> None:
    """New namespaces, and files that would run as their owner on the host."""
    for bit in (1 << n for n in range(32) if _NEW_NAMESPACES >> n & 1):
        _refuse(library, context, "clone", errno.EPERM, Condition(0, _MASKED_EQ, bit, bit))
    for bit in (0o4000, 0o2000):
        for call, position in _SET_ID.items():
            flag = Condition(position, _MASKED_EQ, bit, bit)
            _refuse(library, context, call, errno.EPERM, flag)


def _refuse_families(library: ctypes.CDLL, context: ctypes.c_void_p, more: set[int]) -> None:
    allowed = {_INET, _INET6, _NETLINK} | more
    for family in range(max(allowed)):
        if family not in allowed:
            _refuse(library, context, "socket", errno.EAFNOSUPPORT, Condition(0, _EQ, family, 0))
    above = Condition(0, _GT, max(allowed), 0)
    _refuse(library, context, "socket", errno.EAFNOSUPPORT, above)
    other_pair = Condition(0, _NE, _UNIX, 0)
    _refuse(library, context, "socketpair", errno.EAFNOSUPPORT, other_pair)


def _refuse(
    library: ctypes.CDLL, context: ctypes.c_void_p, call: str, code: int, *when: Condition
) -> None:
    number = library.seccomp_syscall_resolve_name(call.encode())
    if number < 0:
        number = NUMBERS.get(call, -1)
    if number < 0:
        return  # this architecture never had the call
    conditions = (Condition * len(when))(*when)
    action = ctypes.c_uint32(_ERRNO | code)
    failed = library.seccomp_rule_add_array(context, action, number, len(when), conditions)
    if failed:
        raise HostCannot(f"libseccomp refused the rule for {call}: {os.strerror(-failed)}")


def _exported(library: ctypes.CDLL, context: ctypes.c_void_p) -> bytes:
    with tempfile.TemporaryFile() as file:
        failed = library.seccomp_export_bpf(context, file.fileno())
        if failed:
            raise HostCannot(f"libseccomp could not write its program: {os.strerror(-failed)}")
        file.seek(0)
        return file.read()
