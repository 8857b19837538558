"""The mount calls that bring a host path into a sandbox: clone it, map its ids. Root only.

A clone of a path that the caller may read is handed to the guest, which attaches it. The sandbox's
uid needs no way to the original path, and sees the caller's files as its own.
"""

from __future__ import annotations

import ctypes
import os
import signal

CLONE_NEWNS, CLONE_NEWUSER = 0x00020000, 0x10000000
_AT_EMPTY_PATH, _AT_RECURSIVE = 0x1000, 0x8000
_OPEN_TREE_CLONE, _O_CLOEXEC = 1, 0o2000000
_ATTR_RDONLY, _ATTR_NOSUID, _ATTR_NODEV, _ATTR_IDMAP = 0x1, 0x2, 0x4, 0x100000
_MS_REC, _MS_SLAVE, _MS_NOSUID, _MS_NODEV = 0x4000, 1 << 19, 2, 4
_MS_NOATIME = 1024
_NR_OPEN_TREE, _NR_MOUNT_SETATTR = 428, 442

_libc = ctypes.CDLL(None, use_errno=True)


class _MountAttr(ctypes.Structure):
    _fields_ = (
        ("set", ctypes.c_uint64),
        ("clear", ctypes.c_uint64),
        ("propagation", ctypes.c_uint64),
        ("userns_fd", ctypes.c_uint64),
    )


def unshare(flags: int) -> None:
    """New namespaces for this process."""
    _check(_libc.unshare(flags), "unshare")


def make_slave() -> None:
    """Host mounts still arrive, ours never leave."""
    _check(_libc.mount(None, b"/", None, _MS_REC | _MS_SLAVE, None), "mount /")


def mount(device: str, target: str, kind: str, options: str) -> None:
    flags = _MS_NOSUID | _MS_NODEV | _MS_NOATIME
    arguments = (os.fsencode(device), os.fsencode(target), kind.encode())
    _check(_libc.mount(*arguments, flags, options.encode()), f"mount {device} on {target}")


def clone_tree(path_fd: int, *, is_recursive: bool = False) -> int:
    """Return a detached copy of the mount at an open descriptor: nothing can be swapped in
    between."""
    flags = _OPEN_TREE_CLONE | _O_CLOEXEC | _AT_EMPTY_PATH
    flags |= _AT_RECURSIVE if is_recursive else 0
    return _syscall("open_tree", _NR_OPEN_TREE, path_fd, b"", flags)


def set_attributes(tree_fd: int, *, userns_fd: int | None, is_readonly: bool) -> None:
    """Set a mount to no set-id and no devices; to read-only and mapped ids where asked."""
    attr = _MountAttr(set=_ATTR_NOSUID | _ATTR_NODEV)
    if is_readonly:
        attr.set |= _ATTR_RDONLY
    if userns_fd is not None:
        attr.set |= _ATTR_IDMAP
        attr.userns_fd = userns_fd
    _syscall(
        "mount_setattr",
        _NR_MOUNT_SETATTR,
        tree_fd,
        b"",
        _AT_EMPTY_PATH,
        ctypes.byref(attr),
        ctypes.sizeof(attr),
    )


def id_mapping(owner: tuple[int, int], sandbox: int) -> int:
    """Return a user namespace whose only use is its map: on-disk `owner` appears as `sandbox`."""
    ready_r, ready_w = os.pipe()
    pid = os.fork()
    if pid == 0:
        try:
            unshare(CLONE_NEWUSER)
            os.write(ready_w, b"x")
            signal.pause()
        finally:
            os._exit(1)
    try:
        os.close(ready_w)
        os.read(ready_r, 1)
        for name, inner in (("uid_map", owner[0]), ("gid_map", owner[1])):
            with open(f"/proc/{pid}/{name}", "w") as file:
                file.write(f"{inner} {sandbox} 1\n")
        return os.open(f"/proc/{pid}/ns/user", os.O_RDONLY | os.O_CLOEXEC)
    finally:
        os.close(ready_r)
        os.kill(pid, signal.SIGKILL)
        os.waitpid(pid, 0)


def _syscall(name: str, number: int, *arguments: object) -> int:
    converted = [ctypes.c_long(a) if isinstance(a, int) else a for a in arguments]
    return _check(_libc.syscall(ctypes.c_long(number), *converted), name)


def _check(value: int, what: str) -> int:
    if value < 0:
        code = ctypes.get_errno()
        raise OSError(code, f"{what}: {os.strerror(code)}")
    return value
