"""btrfs by ioctl: subvolumes, snapshots, quotas, and a pool of them in a loop file. Root only.

The pool gives three things at once that an ordinary file system does not: a hard quota for each
layer, a fork in one transaction, and removal in one. It is mounted in the keeper's own mount
namespace and its loop device clears itself, so nothing of it outlives the last keeper.
"""

from __future__ import annotations

import contextlib
import errno
import fcntl
import os
import struct
from pathlib import Path

from paddock.model.errors import HostCannot

_SUBVOL_CREATE, _SNAP_DESTROY, _SNAP_CREATE_V2, _INO_LOOKUP = (
    0x5000940E,
    0x5000940F,
    0x50009417,
    0xD0009412,
)
_QUOTA_CTL, _QGROUP_LIMIT = 0xC0109428, 0x8030942B
_QUOTA_ENABLE_SIMPLE, _QUOTA_ENABLE = 4, 1
_TREE_SEARCH = 0xD0009411
_QUOTA_TREE, _QGROUP_INFO_KEY = 8, 242
_LOOP_CTL_GET_FREE, _LOOP_CONFIGURE, _LOOP_GET_STATUS64 = 0x4C82, 0x4C0A, 0x4C05
_LO_AUTOCLEAR = 4
_SYNC, _FITRIM = 0x9408, 0xC0185879


def create_subvolume(parent_fd: int, name: str) -> None:
    fcntl.ioctl(parent_fd, _SUBVOL_CREATE, _vol_args(0, name))


def snapshot_subvolume(parent_fd: int, source_fd: int, name: str) -> None:
    args = bytearray(struct.pack("=qQQ32x4040s", source_fd, 0, 0, name.encode()))
    fcntl.ioctl(parent_fd, _SNAP_CREATE_V2, args)


def destroy_subvolume(parent_fd: int, name: str) -> None:
    fcntl.ioctl(parent_fd, _SNAP_DESTROY, _vol_args(0, name))


def enable_quota(fd: int) -> None:
    """Use simple quotas (charged to whoever wrote first) where the kernel has them."""
    try:
        fcntl.ioctl(fd, _QUOTA_CTL, struct.pack("=QQ", _QUOTA_ENABLE_SIMPLE, 0))
    except OSError as error:
        if error.errno == errno.EEXIST:
            return
        fcntl.ioctl(fd, _QUOTA_CTL, struct.pack("=QQ", _QUOTA_ENABLE, 0))


def subvolume_id(fd: int) -> int:
    args = bytearray(struct.pack("=QQ4080s", 0, 256, b""))
    fcntl.ioctl(fd, _INO_LOOKUP, args)
    return int(struct.unpack_from("=Q", args)[0])


def limit_subvolume(fd: int, size_bytes: int) -> None:
    """Set a hard ceiling on what this subvolume refers to, data and metadata."""
    fcntl.ioctl(fd, _QGROUP_LIMIT, struct.pack("=QQQQQQ", subvolume_id(fd), 1, size_bytes, 0, 0, 0))


def used_bytes(fd: int) -> int:
    """Return what the quota counts for this subvolume, read from the quota tree."""
    number = subvolume_id(fd)
    # btrfs_ioctl_search_key: tree, objectid range, offset range, transid range, type range, items
    key = struct.pack(
        "=QQQQQQQIIII32x", _QUOTA_TREE, 0, 0, number, number, 0, 2**64 - 1,
        _QGROUP_INFO_KEY, _QGROUP_INFO_KEY, 1, 0,
    )  # fmt: skip
    args = bytearray(key + bytes(4096 - len(key)))
    fcntl.ioctl(fd, _TREE_SEARCH, args)
    if struct.unpack_from("=I", args, 64)[0] == 0:
        return 0
    header_bytes, info = 32, 104
    return int(struct.unpack_from("=QQ", args, info + header_bytes)[1])


def trim(fd: int) -> None:
    """Gives free blocks of the pool back to the disk that its image lies on. What was removed is
    free once the transaction that removed it is on disk. Not every disk can take it back."""
    fcntl.ioctl(fd, _SYNC)
    try:
        fcntl.ioctl(fd, _FITRIM, bytearray(struct.pack("=QQQ", 0, 2**64 - 1, 0)))
    except OSError as error:
        if error.errno != errno.EOPNOTSUPP:
            raise


def attach_loop(image: Path) -> str:
    """Return a loop device on the image that goes away with its last user; a running one is
    shared."""
    running = _loop_of(image)
    if running is not None:
        return running
    backing = os.open(image, os.O_RDWR | os.O_CLOEXEC)
    control = os.open("/dev/loop-control", os.O_RDWR | os.O_CLOEXEC)
    try:
        return _configure_free_loop(control, backing)
    finally:
        os.close(control)
        os.close(backing)


def make_image(image: Path) -> None:
    """Make a sparse file with an empty btrfs: it takes room as it is used."""
    import shutil
    import subprocess  # a keeper makes an image once in a home's life

    tool = shutil.which("mkfs.btrfs", path=f"{os.environ.get('PATH', '')}:/usr/sbin:/sbin")
    if tool is None:
        raise HostCannot("mkfs.btrfs is not installed", hint="apt-get install btrfs-progs")
    free = os.statvfs(image.parent)
    size = max(1 << 30, min(256 << 30, free.f_bavail * free.f_frsize * 9 // 10))
    temporary = image.with_suffix(".new")
    with open(temporary, "wb") as file:
        file.truncate(size)
    made = subprocess.run(
        [tool, "-q", "-f", "-m", "single", str(temporary)], capture_output=True, text=True
    )
    if made.returncode != 0:
        temporary.unlink()
        raise HostCannot(f"mkfs.btrfs failed: {made.stderr.strip()[-300:]}")
    temporary.rename(image)


def _configure_free_loop(control: int, backing: int) -> str:
    while True:
        number = fcntl.ioctl(control, _LOOP_CTL_GET_FREE)
        path = f"/dev/loop{number}"
        device = os.open(path, os.O_RDWR | os.O_CLOEXEC)
        # struct loop_config: fd, block_size, loop_info64 (flags at 52), reserved
        info = bytearray(232)
        struct.pack_into("=I", info, 52, _LO_AUTOCLEAR)
        config = bytearray(struct.pack("=II", backing, 0) + info + bytes(64))
        try:
            fcntl.ioctl(device, _LOOP_CONFIGURE, config)
        except OSError as error:
            os.close(device)
            if error.errno == errno.EBUSY:
                continue  # somebody else took it first
            raise
        _keep_open(device)
        return path


_open_devices: list[int] = []


def _keep_open(device: int) -> None:
    """Keep a loop device open until it is mounted: an auto-clearing one clears at its last
    close."""
    _open_devices.append(device)


def release_loops() -> None:
    while _open_devices:
        os.close(_open_devices.pop())


def _loop_of(image: Path) -> str | None:
    wanted = os.stat(image)
    for entry in os.listdir("/sys/block"):
        if not entry.startswith("loop") or not os.path.exists(f"/sys/block/{entry}/loop"):
            continue
        with contextlib.suppress(OSError):
            device = os.open(f"/dev/{entry}", os.O_RDWR | os.O_CLOEXEC)
            status = bytearray(232)
            try:
                fcntl.ioctl(device, _LOOP_GET_STATUS64, status)
            except OSError:
                os.close(device)
                continue
            device_number, inode = struct.unpack_from("=QQ", status)
            if inode == wanted.st_ino and device_number == _kernel_device(wanted.st_dev):
                _keep_open(device)
                return f"/dev/{entry}"
            os.close(device)
    return None


def _kernel_device(device: int) -> int:
    """Return the kernel's own encoding of a device number (huge_encode_dev), as loop reports it."""
    major, minor = os.major(device), os.minor(device)
    return (minor & 0xFF) | (major << 8) | ((minor & ~0xFF) << 12)


def _vol_args(fd: int, name: str) -> bytearray:
    return bytearray(struct.pack("=q4088s", fd, name.encode()))
