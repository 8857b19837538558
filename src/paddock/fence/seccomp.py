"""The system-call filter, as data with a reason beside each refusal, compiled by libseccomp.

A refused call fails with an error number, so that programs that probe for a feature fall back
as they do on an older kernel. Exec is not refused here but told to the host (NOTIFY).
"""

from __future__ import annotations

import ctypes
import ctypes.util
import errno
import os
from collections.abc import Iterable
from functools import cache

import msgspec

from paddock.model.errors import HostCannot

_ALLOW = 0x7FFF0000
_NOTIFY = 0x7FC00000
_ERRNO = 0x00050000
_MASKED_EQ, _NE, _GT = 7, 1, 6
_CLONE_NEW = 0x7E020000 | 0x00000080  # every CLONE_NEW* flag, NEWTIME too
_SET_ID = 0o6000
_TIOCSTI, _TIOCLINUX = 0x5412, 0x541C


class CallRefusal(msgspec.Struct, frozen=True):
    """Calls that fail with `code`, and why."""

    calls: tuple[str, ...]
    why: str
    code: int = errno.EPERM


class ArgumentCondition(ctypes.Structure):
    """A condition on an argument of a call, as libseccomp takes it."""

    _fields_ = (
        ("arg", ctypes.c_uint),
        ("op", ctypes.c_int),
        ("a", ctypes.c_uint64),
        ("b", ctypes.c_uint64),
    )


class ArgumentRefusal(msgspec.Struct, frozen=True):
    """A call that fails with `code`, or does nothing where that is 0, if all of these arguments
    (position, mask, value) are so, and why."""

    call: str
    arguments: tuple[tuple[int, int, int], ...]
    why: str
    code: int = errno.EPERM

    def conditions(self) -> list[ArgumentCondition]:
        return [
            ArgumentCondition(position, _MASKED_EQ, mask, v) for position, mask, v in self.arguments
        ]


REFUSALS = (
    CallRefusal(("unshare", "setns"), "a new namespace brings capabilities and more of the kernel"),
    CallRefusal(
        ("clone3",),
        "its flags are behind a pointer that a filter cannot read; libc falls back to clone",
        errno.ENOSYS,
    ),
    CallRefusal(
        ("mount", "umount", "umount2", "pivot_root", "chroot", "move_mount", "open_tree", "fsopen",
         "fsconfig", "fsmount", "fspick", "mount_setattr", "open_tree_attr", "statmount",
         "listmount"),
        "the mount table is the fence",
    ),
    CallRefusal(
        ("ptrace", "process_vm_readv", "process_vm_writev", "process_madvise", "pidfd_getfd",
         "kcmp"),
        "no process may look into or steer another, the guest above all",
    ),
    CallRefusal(("bpf",), "loads code into the kernel"),
    CallRefusal(("perf_event_open",), "profiling interface with a long record of kernel holes"),
    CallRefusal(("add_key", "request_key", "keyctl"), "keyrings are not confined to a namespace"),
    CallRefusal(
        ("io_uring_setup", "io_uring_enter", "io_uring_register"),
        "does file and network calls that this filter would not see",
        errno.ENOSYS,
    ),
    CallRefusal(
        ("io_setup", "io_destroy", "io_submit", "io_cancel", "io_getevents", "io_pgetevents"),
        "the host has one number of AIO contexts for everybody, and one call can take them all",
        errno.ENOSYS,
    ),
    CallRefusal(("userfaultfd",), "holds the kernel inside a page fault: the classic race widener"),
    CallRefusal(
        ("kexec_load", "kexec_file_load", "init_module", "finit_module", "delete_module",
         "create_module", "reboot", "syslog", "acct", "swapon", "swapoff", "quotactl",
         "quotactl_fd", "nfsservctl", "lookup_dcookie", "vhangup", "iopl", "ioperm", "modify_ldt",
         "settimeofday", "clock_settime", "clock_adjtime", "adjtimex", "stime", "sethostname",
         "setdomainname", "_sysctl", "uselib", "ustat", "sysfs", "vm86", "vm86old"),
        "administers the host, or is obsolete: no agent has a use for it",
    ),
    CallRefusal(
        ("name_to_handle_at", "open_by_handle_at"),
        "opens files by number, past the mount table",
    ),
    CallRefusal(("fanotify_init", "fanotify_mark"), "watches files beyond the own ones"),
    CallRefusal(
        ("move_pages", "migrate_pages", "mbind", "set_mempolicy", "set_mempolicy_home_node"),
        "steers physical memory, which others share",
    ),
    CallRefusal(
        ("openat2",),
        "the mode of a new file is behind a pointer, so a set-id bit could not be refused",
        errno.ENOSYS,
    ),
    CallRefusal(("cachestat",), "tells which parts of shared files others have read", errno.ENOSYS),
    CallRefusal(
        ("memfd_secret", "landlock_create_ruleset", "lsm_set_self_attr", "lsm_get_self_attr",
         "lsm_list_modules", "map_shadow_stack", "vmsplice", "mseal", "file_setattr"),
        "rarely used kernel surface", errno.ENOSYS,
    ),
)  # fmt: skip

WITHOUT_CGROUP = (
    CallRefusal(
        ("memfd_create", "shmget", "semget", "msgget"),
        "memory that belongs to no process escapes the watched memory limit",
        errno.ENOSYS,
    ),
)
PINNED_CPU = (CallRefusal(("sched_setaffinity",), "the CPU limit is kept by pinning"),)

_WORD = 0xFFFFFFFF
_SOL_SOCKET, _MAP_HUGETLB, _SHM_HUGETLB, _MFD_HUGETLB = 1, 0x40000, 0o4000, 4
_F_SETLEASE, _F_SETDELEG = 1024, 1040
_FADV_DONTNEED = 4
_FLOCK_OPERATIONS = (1, 2, 5, 6)  # LOCK_SH, LOCK_EX, and both with LOCK_NB
_LOCK_COMMANDS = (6, 7, 37, 38)  # F_SETLK, F_SETLKW, F_OFD_SETLK, F_OFD_SETLKW
# What a process can take from a stock that the whole host shares, or hold against others.
HOST_WIDE = (
    *(
        ArgumentRefusal(
            "fcntl",
            ((1, _WORD, command),),
            "a lease on a file of a read mount makes a writer on the host wait",
            errno.EACCES,
        )
        for command in (_F_SETLEASE, _F_SETDELEG)
    ),
    *(
        ArgumentRefusal(
            "setsockopt",
            ((1, _WORD, _SOL_SOCKET), (2, _WORD, option)),
            "compiled filters come out of one stock of memory, without which no sandbox starts",
            errno.ENOPROTOOPT,
        )
        for option in (26, 50, 51, 52)  # SO_ATTACH_FILTER, _BPF, _REUSEPORT_CBPF, _REUSEPORT_EBPF
    ),
    ArgumentRefusal(
        "mmap",
        ((3, _MAP_HUGETLB, _MAP_HUGETLB),),
        "huge pages are set aside for programs of the host, and no limit counts them",
        errno.ENOMEM,
    ),
    ArgumentRefusal(
        "fadvise64",
        ((3, _WORD, _FADV_DONTNEED),),
        "drops files from the memory that everybody reads them from; does nothing here",
        0,
    ),
)
# Of calls that are refused altogether where no cgroup counts their memory.
HOST_WIDE_MEMORY = (
    ArgumentRefusal(
        "memfd_create", ((1, _MFD_HUGETLB, _MFD_HUGETLB),), "the same huge pages", errno.EINVAL
    ),
    ArgumentRefusal(
        "shmget", ((2, _SHM_HUGETLB, _SHM_HUGETLB),), "the same huge pages", errno.EPERM
    ),
)

# Files with a set-user-id bit would become the caller's own on the host side of a write mount.
_SET_ID_MODES = {"chmod": 1, "fchmod": 1, "fchmodat": 2, "fchmodat2": 2, "creat": 1, "mknod": 1,
                 "mknodat": 2, "mkdir": 1, "mkdirat": 2}  # fmt: skip
_SET_ID_OPENS = {"open": (1, 2), "openat": (2, 3)}  # flags argument, mode argument
_STEERING = ("prlimit64", "sched_setscheduler", "sched_setparam", "sched_setattr",
             "sched_setaffinity")  # fmt: skip
# call, its `which` for a process or group, its `which` for all processes of a user
_PRIORITIES = (("setpriority", (0, 1), 2), ("ioprio_set", (1, 2), 3))
_PERSONALITIES = 0x0060008
_BTRFS_SUBVOLUMES = (0x01, 0x0E, 0x0F, 0x17, 0x18, 0x1A, 0x25, 0x3F)
_O_CREAT, _O_TMPFILE = 0o100, 0o20000000
# Calls newer than some libseccomp releases. From 424 on, numbers are the same everywhere.
NUMBERS = {
    "io_uring_setup": 425, "io_uring_enter": 426, "io_uring_register": 427, "open_tree": 428,
    "move_mount": 429, "fsopen": 430, "fsconfig": 431, "fsmount": 432, "fspick": 433, "clone3": 435,
    "openat2": 437, "pidfd_getfd": 438, "process_madvise": 440, "mount_setattr": 442,
    "quotactl_fd": 443, "landlock_create_ruleset": 444, "memfd_secret": 447,
    "set_mempolicy_home_node": 450, "fchmodat2": 452, "map_shadow_stack": 453, "statmount": 457,
    "listmount": 458, "lsm_get_self_attr": 459, "lsm_set_self_attr": 460, "lsm_list_modules": 461,
    "cachestat": 451, "mseal": 462, "open_tree_attr": 467, "file_setattr": 469,
}  # fmt: skip
_FAMILIES = {"unix": 1, "inet": 2, "inet6": 10, "netlink": 16}
_SOCK_RAW, _SOCK_PACKET, _SOCK_TYPE_MASK = 3, 10, 0xF
_DCCP, _ICMPV6 = 33, 58  # protocols; the number of MPTCP and others is larger than any of ping


@cache
def load_library() -> ctypes.CDLL:
    """Load libseccomp. Raises HostCannot where it is not installed."""
    for name in ("libseccomp.so.2", ctypes.util.find_library("seccomp")):
        try:
            library = ctypes.CDLL(name) if name else None
        except OSError:
            continue
        if library is not None:
            library.seccomp_init.restype = ctypes.c_void_p
            return library
    raise HostCannot("libseccomp is not installed", hint="apt-get install libseccomp2")


class SeccompFilter:
    """A filter that lets every call pass but those that rules are added for. Use it as a context.

    Foreign ABIs (32-bit calls on a 64-bit kernel) are killed by libseccomp's default.
    """

    def __init__(self) -> None:
        self._lib = load_library()
        self._context = ctypes.c_void_p(self._lib.seccomp_init(ctypes.c_uint32(_ALLOW)))

    def __enter__(self) -> SeccompFilter:
        return self

    def __exit__(self, *_: object) -> None:
        self._lib.seccomp_release(self._context)

    def refuse_all(
        self, refusals: Iterable[CallRefusal], by_argument: Iterable[ArgumentRefusal]
    ) -> None:
        """Refuse calls as data says it."""
        for refusal in refusals:
            for call in refusal.calls:
                self.refuse(call, refusal.code)
        for refused in by_argument:
            self.refuse(refused.call, refused.code, *refused.conditions())

    def refuse(self, call: str, code: int, *conditions: ArgumentCondition) -> None:
        """Have a call fail with an error number if all conditions hold."""
        self._add(_ERRNO | code, call, *conditions)

    def notify(self, call: str, *conditions: ArgumentCondition) -> None:
        """Have the listener asked about a call if all conditions hold."""
        self._add(_NOTIFY, call, *conditions)

    def _add(self, action: int, call: str, *conditions: ArgumentCondition) -> None:
        number = self._lib.seccomp_syscall_resolve_name(call.encode())
        if number < 0:
            number = NUMBERS.get(call, -1)
        if number < 0:
            return  # this architecture never had the call
        array = (ArgumentCondition * len(conditions))(*conditions)
        code = self._lib.seccomp_rule_add_array(
            self._context, ctypes.c_uint32(action), number, len(conditions), array
        )
        if code != 0:
            raise HostCannot(f"libseccomp refused the rule for {call}: {os.strerror(-code)}")

    def export(self) -> bytes:
        """Return the BPF program."""
        with os.fdopen(os.memfd_create("filter"), "w+b") as file:
            code = self._lib.seccomp_export_bpf(self._context, file.fileno())
            if code != 0:
                raise HostCannot(f"libseccomp could not write its program: {os.strerror(-code)}")
            file.seek(0)
            return file.read()


@cache
def program(
    *, is_watched: bool = False, is_pinned: bool = False, are_locks_told: bool = False
) -> bytes:
    """Return the BPF program for this machine's architecture, with exec reported to a listener,
    and locks where files are mounted that others may want to lock."""
    refusals = REFUSALS + (WITHOUT_CGROUP if is_watched else ())
    refusals += PINNED_CPU if is_pinned else ()
    host_wide = HOST_WIDE + (() if is_watched else HOST_WIDE_MEMORY)
    with SeccompFilter() as rules:
        rules.refuse_all(refusals, host_wide)
        _refuse_flags(rules)
        _refuse_sockets(rules)
        if are_locks_told:
            _tell_locks(rules)
        rules.notify("execve")
        rules.notify("execveat")
        return rules.export()


def _tell_locks(rules: SeccompFilter) -> None:
    for operation in _FLOCK_OPERATIONS:  # not to unlock: it takes nothing from anybody
        rules.notify("flock", _masked(1, _WORD, operation))
    for command in _LOCK_COMMANDS:
        rules.notify("fcntl", _masked(1, _WORD, command))


def _refuse_flags(rules: SeccompFilter) -> None:
    for bit in range(32):
        if _CLONE_NEW >> bit & 1:
            rules.refuse("clone", errno.EPERM, _masked(0, 1 << bit, 1 << bit))
    for bit in (0o4000, 0o2000):
        for call, position in _SET_ID_MODES.items():
            rules.refuse(call, errno.EPERM, _masked(position, bit, bit))
        for call, (flags, mode) in _SET_ID_OPENS.items():
            for creating in (_O_CREAT, _O_TMPFILE):
                made = _masked(flags, creating, creating)
                rules.refuse(call, errno.EPERM, made, _masked(mode, bit, bit))
    _refuse_steering_pid_1(rules)
    for number in _BTRFS_SUBVOLUMES:  # one made inside would have no quota, nor be removable
        rules.refuse("ioctl", errno.EPERM, _masked(1, 0xFFFF, 0x9400 | number))
    # A terminal must not be made to type into the shell of whoever attached to it.
    for request in (_TIOCSTI, _TIOCLINUX):
        rules.refuse("ioctl", errno.EPERM, _masked(1, 0xFFFFFFFF, request))


def _refuse_steering_pid_1(rules: SeccompFilter) -> None:
    """Refuse calls that steer pid 1: the guest has the agent's uid, so the kernel would let
    the agent starve it."""
    for call in _STEERING:
        rules.refuse(call, errno.EPERM, _masked(0, _WORD, 1))
    for call, which_of_one, which_of_user in _PRIORITIES:
        for which in which_of_one:
            rules.refuse(call, errno.EPERM, _masked(0, _WORD, which), _masked(1, _WORD, 1))
        rules.refuse(call, errno.EPERM, _masked(0, _WORD, which_of_user))
    # The core limit stays as the guest set it: lowered to 0, a core handler would start.
    rules.refuse("prlimit64", errno.EPERM, _masked(1, _WORD, 4), ArgumentCondition(2, _NE, 0, 0))
    rules.refuse("setrlimit", errno.EPERM, _masked(0, _WORD, 4))
    for bit in range(28):  # personalities: only the harmless ones that programs do use
        if not 1 << bit & _PERSONALITIES:
            rules.refuse("personality", errno.EPERM, _masked(0, 1 << 31 | 1 << bit, 1 << bit))
    for bit in range(31):
        rules.refuse("personality", errno.EPERM, _masked(0, 1 << 31 | 1 << bit, 1 << 31))


def _refuse_sockets(rules: SeccompFilter) -> None:
    """Refuse all but stream and datagram sockets of the families that a program can need."""
    rules.refuse("socketpair", errno.EAFNOSUPPORT, ArgumentCondition(0, _NE, _FAMILIES["unix"], 0))
    previous = -1
    for family in sorted(_FAMILIES.values()):
        for other in range(previous + 1, family):
            rules.refuse("socket", errno.EAFNOSUPPORT, ArgumentCondition(0, 4, other, 0))
        previous = family
    rules.refuse("socket", errno.EAFNOSUPPORT, ArgumentCondition(0, _GT, previous, 0))
    for kind in (_SOCK_RAW, _SOCK_PACKET):
        for family in (_FAMILIES["inet"], _FAMILIES["inet6"]):
            raw = _masked(1, _SOCK_TYPE_MASK, kind)
            rules.refuse("socket", errno.EPERM, ArgumentCondition(0, 4, family, 0), raw)
    # Of the protocols TCP, UDP and those of ping: what waits in a socket of another one (MPTCP,
    # SCTP, UDP-Lite) is counted by no control group, and the kernel does not tell all of it.
    for family in (_FAMILIES["inet"], _FAMILIES["inet6"]):
        is_family = ArgumentCondition(0, 4, family, 0)
        beyond, dccp = ArgumentCondition(2, _GT, _ICMPV6, 0), _masked(2, _WORD, _DCCP)
        for protocol in (beyond, dccp):
            rules.refuse("socket", errno.EPROTONOSUPPORT, is_family, protocol)


def _masked(position: int, mask: int, value: int) -> ArgumentCondition:
    return ArgumentCondition(position, _MASKED_EQ, mask, value)
