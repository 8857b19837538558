"""The system-call filter, really loaded into a process that then makes the calls."""

from __future__ import annotations

import errno
import json
import os
import platform
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from cases import for_each
from paddock.fence import seccomp
from paddock.fence.seccomp import PINNED_CPU, REFUSALS, WITHOUT_CGROUP, CallRefusal, program

ALL = (*REFUSALS, *WITHOUT_CGROUP, *PINNED_CPU)

# Loads the program that comes on its input, then makes every call and prints what came of it.
_PROBE = r"""
import ctypes, errno, fcntl, json, mmap, os, socket, struct, sys, threading
os.chdir(sys.argv[1])
open("file", "w").close()
libc = ctypes.CDLL(None, use_errno=True)

def call(name, *arguments):
    function = getattr(libc, name)
    ctypes.set_errno(0)
    value = function(*arguments)
    return 0 if value >= 0 else ctypes.get_errno()

def raw(number, *arguments):
    ctypes.set_errno(0)
    value = libc.syscall(ctypes.c_long(number), *[ctypes.c_long(a) for a in arguments])
    return 0 if value >= 0 else ctypes.get_errno()

def os_error(do):
    try:
        do()
    except OSError as error:
        return error.errno
    return 0

def clone(flags):
    pid = libc.syscall(ctypes.c_long(CLONE), ctypes.c_long(flags | 17), *[ctypes.c_long(0)] * 4)
    if pid == 0:
        os._exit(0)
    if pid < 0:
        return ctypes.get_errno()
    os.waitpid(pid, 0)
    return 0

def thread():
    worker = threading.Thread(target=lambda: None)
    worker.start()
    worker.join()
    return 0

def forked():
    pid = os.fork()
    if pid == 0:
        os._exit(0)
    return os.waitpid(pid, 0)[1]

CLONE = {"x86_64": 56, "aarch64": 220}[os.uname().machine]
CREATE, SET_ID, TMPFILE = os.O_CREAT | os.O_WRONLY, 0o4755, os.O_TMPFILE | os.O_WRONLY
calls = {
    "unshare user": lambda: call("unshare", 0x10000000),
    "unshare mounts": lambda: call("unshare", 0x00020000),
    "setns": lambda: call("setns", 0, 0),
    "clone user": lambda: clone(0x10000000),
    "clone net": lambda: clone(0x40000000),
    "clone time": lambda: clone(0x00000080),
    "clone3": lambda: raw(435, 0, 0),
    "chmod set-uid": lambda: os_error(lambda: os.chmod("file", 0o4755)),
    "chmod set-gid": lambda: os_error(lambda: os.chmod("file", 0o2755)),
    "fchmodat set-uid": lambda: call("fchmodat", -100, b"file", 0o4755, 0),
    "fchmodat2 set-uid": lambda: raw(452, -100, ctypes.addressof(NAME), 0o4755, 0),
    "mkdir set-gid": lambda: os_error(lambda: os.mkdir("d1", 0o2755)),
    "mknod set-uid": lambda: call("mknod", b"n1", 0o104755, 0),
    "open set-uid": lambda: os_error(lambda: os.open("new1", CREATE, SET_ID)),
    "tmpfile set-uid": lambda: os_error(lambda: os.open(".", TMPFILE, SET_ID)),
    "openat2": lambda: raw(437, -100, 0, 0, 0),
    "packet socket": lambda: os_error(lambda: socket.socket(17, socket.SOCK_RAW)),
    "vsock": lambda: os_error(lambda: socket.socket(40, socket.SOCK_STREAM)),
    "alg socket": lambda: os_error(lambda: socket.socket(38, 5)),
    "raw socket": lambda: os_error(lambda: socket.socket(socket.AF_INET, socket.SOCK_RAW, 1)),
    "raw socket 6": lambda: os_error(lambda: socket.socket(socket.AF_INET6, 0x80003, 58)),
    "ptrace": lambda: call("ptrace", 0, 0, 0, 0),
    "mount": lambda: call("mount", b"none", b"/mnt", b"tmpfs", 0, None),
    "umount": lambda: call("umount2", b"/", 2),
    "chroot": lambda: os_error(lambda: os.chroot(".")),
    "bpf": lambda: raw({"x86_64": 321, "aarch64": 280}[os.uname().machine], 0, 0, 0),
    "io_uring": lambda: raw(425, 1, 0),
    "pidfd_getfd": lambda: raw(438, 0, 0, 0),
    "aio": lambda: raw({"x86_64": 206, "aarch64": 0}[os.uname().machine], 64, CONTEXT),
    "lease": lambda: os_error(lambda: fcntl.fcntl(os.open("file", 0), fcntl.F_SETLEASE, 0)),
    "huge page": lambda: os_error(lambda: mmap.mmap(-1, 2 << 20, flags=0x40022)),
    "socket filter": lambda: os_error(lambda: socket.socket().setsockopt(1, 26, FILTER)),
    "cachestat": lambda: raw(451, 0, 0, 0, 0),
    "typing for others": lambda: call("ioctl", 0, 0x5412, b"x"),
    "affinity": lambda: os_error(lambda: os.sched_setaffinity(0, os.sched_getaffinity(0))),
    "huge memfd": lambda: os_error(lambda: os.close(os.memfd_create("x", os.MFD_HUGETLB))),
    "huge shm": lambda: call("shmget", 0, 2 << 20, 0o4600),
    "drop cache": lambda: os_error(lambda: os.posix_fadvise(0, 0, 0, os.POSIX_FADV_DONTNEED)),
    "memfd": lambda: os_error(lambda: os.close(os.memfd_create("x"))),
    "exec": lambda: os_error(lambda: os.execv("/bin/true", ["true"])),
    "plain fork": forked,
    "thread": thread,
    "plain chmod": lambda: os_error(lambda: os.chmod("file", 0o755)),
    "sticky": lambda: os_error(lambda: os.mkdir("d2", 0o1777)),
    "plain open": lambda: os_error(lambda: os.close(os.open("new2", CREATE, 0o644))),
    "mode without creating": lambda: os_error(lambda: os.close(os.open("file", 0, SET_ID))),
    "unix socket": lambda: os_error(lambda: socket.socketpair()[0].close()),
    "tcp": lambda: os_error(lambda: socket.socket().close()),
    "udp 6": lambda: os_error(lambda: socket.socket(10, 2).close()),
    "netlink": lambda: os_error(lambda: socket.socket(16, socket.SOCK_RAW).close()),
    "pipe": lambda: os_error(lambda: [os.close(fd) for fd in os.pipe()]),
    "rename": lambda: os_error(lambda: os.rename("new2", "new3")),
    "kill": lambda: os_error(lambda: os.kill(os.getpid(), 0)),
    "fifo": lambda: os_error(lambda: os.mkfifo("fifo")),
}
NAME = ctypes.create_string_buffer(b"file")
CONTEXT = ctypes.addressof(ctypes.create_string_buffer(8))
RETURN = ctypes.create_string_buffer(struct.pack("=HBBI", 6, 0, 0, 0))
FILTER = struct.pack("=HxxxxxxQ", 1, ctypes.addressof(RETURN))
code = sys.stdin.buffer.read()
buffer = ctypes.create_string_buffer(code, len(code))
header = struct.pack("=HxxxxxxQ", len(code) // 8, ctypes.addressof(buffer))
if code:
    assert libc.prctl(38, 1, 0, 0, 0) == 0
    assert libc.prctl(22, 2, header, 0, 0) == 0
found = {name: do() for name, do in calls.items()}
print(json.dumps(found))
"""


def outcomes(directory: Path, code: bytes) -> dict[str, int]:
    """The error number of each call, 0 where it worked, with the filter loaded."""
    done = subprocess.run(
        [sys.executable, "-I", "-c", _PROBE, str(directory)],
        input=code,
        capture_output=True,
        check=True,
        timeout=60,
    )
    found: dict[str, int] = json.loads(done.stdout)
    return found


@pytest.fixture(scope="module")
def filtered(tmp_path_factory: pytest.TempPathFactory) -> dict[str, int]:
    return outcomes(tmp_path_factory.mktemp("filtered"), program())


@pytest.fixture(scope="module")
def watched(tmp_path_factory: pytest.TempPathFactory) -> dict[str, int]:
    code = program(is_watched=True, is_pinned=True)
    return outcomes(tmp_path_factory.mktemp("watched"), code)


# ---- the table -----------------------------------------------------------------------------------


@for_each("refusal", ALL, ids=lambda r: r.calls[0])
def test_every_refusal_has_its_reason_and_an_error_number(refusal: CallRefusal) -> None:
    assert len(refusal.why.split()) >= 3
    assert refusal.code in (errno.EPERM, errno.ENOSYS)
    assert refusal.calls


def test_no_call_is_refused_twice() -> None:
    calls = [call for refusal in ALL for call in refusal.calls]
    assert sorted(calls) == sorted(set(calls))


def test_every_call_that_is_refused_is_one_that_this_machine_has_or_once_had() -> None:
    library = seccomp.load_library()
    unknown = [
        call
        for refusal in ALL
        for call in refusal.calls
        if library.seccomp_syscall_resolve_name(call.encode()) == -1 and call not in seccomp.NUMBERS
    ]
    # A misspelt call would be skipped without a word.
    assert not unknown, f"libseccomp knows no {unknown}"


# ---- the program ---------------------------------------------------------------------------------


def test_program_is_whole_instructions_for_this_machine() -> None:
    code = program()
    assert code
    assert len(code) % 8 == 0
    arch = {"x86_64": 0xC000003E, "aarch64": 0xC00000B7}[platform.machine()]
    assert arch.to_bytes(4, "little") in code


def test_program_is_compiled_once() -> None:
    assert program() is program()
    assert program(is_watched=True) is not program()
    assert program(is_watched=True, is_pinned=True) != program(is_watched=True)


@for_each(
    ("call", "code"),
    [
        ("unshare user", errno.EPERM),
        ("unshare mounts", errno.EPERM),
        ("setns", errno.EPERM),
        ("clone user", errno.EPERM),
        ("clone net", errno.EPERM),
        ("clone time", errno.EPERM),
        ("clone3", errno.ENOSYS),
        ("chmod set-uid", errno.EPERM),
        ("chmod set-gid", errno.EPERM),
        ("fchmodat set-uid", errno.EPERM),
        ("fchmodat2 set-uid", errno.EPERM),
        ("mkdir set-gid", errno.EPERM),
        ("mknod set-uid", errno.EPERM),
        ("open set-uid", errno.EPERM),
        ("tmpfile set-uid", errno.EPERM),
        ("openat2", errno.ENOSYS),
        ("packet socket", errno.EAFNOSUPPORT),
        ("vsock", errno.EAFNOSUPPORT),
        ("alg socket", errno.EAFNOSUPPORT),
        ("raw socket", errno.EPERM),
        ("raw socket 6", errno.EPERM),
        ("ptrace", errno.EPERM),
        ("mount", errno.EPERM),
        ("umount", errno.EPERM),
        ("chroot", errno.EPERM),
        ("bpf", errno.EPERM),
        ("io_uring", errno.ENOSYS),
        ("pidfd_getfd", errno.EPERM),
        ("aio", errno.ENOSYS),
        ("lease", errno.EACCES),
        ("huge page", errno.ENOMEM),
        ("huge memfd", errno.EINVAL),
        ("huge shm", errno.EPERM),
        ("socket filter", errno.ENOPROTOOPT),
        ("cachestat", errno.ENOSYS),
        ("typing for others", errno.EPERM),
        ("exec", errno.ENOSYS),  # it is told to a listener, and here is none
    ],
)
def test_call_is_refused(filtered: dict[str, int], call: str, code: int) -> None:
    assert errno.errorcode.get(filtered[call], "done") == errno.errorcode[code]


ORDINARY = (
    "plain fork", "thread", "plain chmod", "sticky", "plain open", "mode without creating",
    "unix socket", "tcp", "udp 6", "netlink", "pipe", "rename", "kill", "fifo", "memfd", "affinity",
    "drop cache",  # does nothing
)  # fmt: skip


@for_each("call", ORDINARY)
def test_ordinary_call_goes_through(filtered: dict[str, int], call: str) -> None:
    assert filtered[call] == 0, errno.errorcode[filtered[call]]


@pytest.mark.parametrize(("call", "code"), [("memfd", errno.ENOSYS), ("affinity", errno.EPERM)])
def test_call_is_refused_where_no_cgroup_keeps_the_limit(
    watched: dict[str, int], call: str, code: int
) -> None:
    assert watched[call] == code


@for_each("call", [c for c in ORDINARY if c not in ("memfd", "affinity")])
def test_ordinary_call_goes_through_without_a_cgroup_too(
    watched: dict[str, int], call: str
) -> None:
    assert watched[call] == 0, errno.errorcode[watched[call]]


def test_it_is_the_filter_that_refuses(tmp_path: Path, filtered: dict[str, int]) -> None:
    """The same calls without it, as far as they harm nobody when they work."""
    harmless = ("chmod set-uid", "chmod set-gid", "mknod set-uid", "open set-uid", "clone3")
    bare = _PROBE.replace(
        "for name, do in calls.items()}",
        f"for name, do in calls.items() if name in {harmless!r}}}",
    )
    done = subprocess.run(
        [sys.executable, "-I", "-c", bare, str(tmp_path)],
        input=b"", capture_output=True, check=True,
    )  # fmt: skip
    found: dict[str, Any] = json.loads(done.stdout)
    assert all(found[name] != filtered[name] for name in harmless)
    assert os.stat(tmp_path / "new1").st_mode & 0o4000
