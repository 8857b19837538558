"""The seccomp filter of a pen. Above all, no socket leads out."""

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
    ArgumentCondition,
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
    """Return the BPF program.

    A network namespace confines internet sockets, but neither Unix sockets by path, which a
    read-only mount does not stop either, nor those of a hypervisor. So the filter refuses these.
    """
    library = load_library()
    context = ctypes.c_void_p(library.seccomp_init(ctypes.c_uint32(_ALLOW)))
    try:
        for refusal in REFUSALS:
            for call in refusal.calls:
                _refuse(library, context, call, refusal.code)
        for rule in HOST_WIDE + HOST_WIDE_MEMORY:
            _refuse(library, context, rule.call, rule.code, *rule.conditions())
        _refuse_flags(library, context)
        _refuse_families(library, context, {_UNIX} if is_unix_allowed else set())
        return _export(library, context)
    finally:
        library.seccomp_release(context)


def _refuse_flags(library: ctypes.CDLL, context: ctypes.c_void_p) -> None:
    """Refuse new namespaces, and set-id files, which would run as their owner on the host."""
    for bit in (1 << n for n in range(32) if _NEW_NAMESPACES >> n & 1):
        _refuse(library, context, "clone", errno.EPERM, ArgumentCondition(0, _MASKED_EQ, bit, bit))
    for bit in (0o4000, 0o2000):
        for call, position in _SET_ID.items():
            flag = ArgumentCondition(position, _MASKED_EQ, bit, bit)
            _refuse(library, context, call, errno.EPERM, flag)


def _refuse_families(library: ctypes.CDLL, context: ctypes.c_void_p, extra: set[int]) -> None:
    allowed = {_INET, _INET6, _NETLINK} | extra
    for family in range(max(allowed)):
        if family not in allowed:
            _refuse(
                library, context, "socket", errno.EAFNOSUPPORT, ArgumentCondition(0, _EQ, family, 0)
            )
    above = ArgumentCondition(0, _GT, max(allowed), 0)
    _refuse(library, context, "socket", errno.EAFNOSUPPORT, above)
    other_pair = ArgumentCondition(0, _NE, _UNIX, 0)
    _refuse(library, context, "socketpair", errno.EAFNOSUPPORT, other_pair)


def _refuse(
    library: ctypes.CDLL,
    context: ctypes.c_void_p,
    call: str,
    code: int,
    *conditions: ArgumentCondition,
) -> None:
    number = library.seccomp_syscall_resolve_name(call.encode())
    if number < 0:
        number = NUMBERS.get(call, -1)
    if number < 0:
        return  # this architecture never had the call
    array = (ArgumentCondition * len(conditions))(*conditions)
    action = ctypes.c_uint32(_ERRNO | code)
    failed = library.seccomp_rule_add_array(context, action, number, len(conditions), array)
    if failed:
        raise HostCannot(f"libseccomp refused the rule for {call}: {os.strerror(-failed)}")


def _export(library: ctypes.CDLL, context: ctypes.c_void_p) -> bytes:
    with tempfile.TemporaryFile() as file:
        failed = library.seccomp_export_bpf(context, file.fileno())
        if failed:
            raise HostCannot(f"libseccomp could not write its program: {os.strerror(-failed)}")
        file.seek(0)
        return file.read()
