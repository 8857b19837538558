"""The bytes of open files: read, hashed, compared, copied by the fastest way that the kernel has,
and brought to disk.

Sizes are those that were seen when the file was opened: a file that an agent keeps growing is
not followed, and a hole is never turned into disk blocks.
"""

from __future__ import annotations

import errno
import fcntl
import hashlib
import os
import secrets
import stat
from collections.abc import Iterable, Iterator
from pathlib import Path

from paddock.model.errors import IntegrityError, SandboxError

CHUNK_BYTES = 1 << 20
# A file with more pieces than this was made to exhaust whoever lists them.
MAX_EXTENTS = 1_000_000
_FICLONE = 0x40049409  # _IOW(0x94, 9, int): share all blocks of another file
# The kernel or the file system cannot copy this pair of files by itself; plain reads still can.
_NOT_BY_KERNEL = frozenset(
    {errno.EXDEV, errno.EINVAL, errno.ENOSYS, errno.EOPNOTSUPP, errno.EPERM, errno.EBADF}
)

# Larger than a page, so that a file of scattered pages has few runs.
UNIT_BYTES = 64 << 10
_NEW_FILE = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC
_ZEROS = bytes(UNIT_BYTES)

Extents = tuple[tuple[int, int], ...]


def data_extents(fd: int, size: int) -> Extents | None:
    """Return where the first `size` bytes really hold data, as (offset, length), or None if they
    have no hole."""
    if os.fstat(fd).st_blocks * 512 >= size:
        return None
    extents = tuple(_seek_extents(fd, size))
    return None if extents == ((0, size),) else extents


def reflink(source: int, target: int) -> bool:
    """Make `target` share the blocks of `source`. Returns False where the file system cannot."""
    try:
        fcntl.ioctl(target, _FICLONE, source)
    except OSError:
        return False
    return True


def copy_file(source: int, target: int, size: int) -> None:
    """Fill the empty file `target` with the first `size` bytes of `source`, holes kept."""
    if not reflink(source, target):
        extents = data_extents(source, size)
        for offset, length in ((0, size),) if extents is None else extents:
            copy_range(source, target, offset, offset, length)
    os.ftruncate(target, size)


def copy_range(source: int, target: int, source_at: int, target_at: int, length: int) -> None:
    """Copy a range; stop early where the source has become shorter."""
    done = _copy_by_kernel(source, target, source_at, target_at, length)
    while done < length:
        chunk = os.pread(source, min(CHUNK_BYTES, length - done), source_at + done)
        if not chunk:
            return
        write_at(target, chunk, target_at + done)
        done += len(chunk)


def write_at(fd: int, data: bytes | memoryview, offset: int) -> None:
    """Write all of `data`, however often the kernel takes only a part."""
    view = memoryview(data)
    while view:
        written = os.pwrite(fd, view, offset)
        view, offset = view[written:], offset + written


def write_sparse(fd: int, data: bytes, offset: int) -> None:
    """Write into a file that is empty there, and leave holes for units of zeros."""
    view = memoryview(data)
    for start, end in nonzero_runs(data):
        write_at(fd, view[start:end], offset + start)


def nonzero_runs(data: bytes) -> Iterator[tuple[int, int]]:
    """Yield the runs of units in some bytes that are not all zeros, as (start, end)."""
    begun: int | None = None
    for start in range(0, len(data), UNIT_BYTES):
        end = min(start + UNIT_BYTES, len(data))
        is_zero = data[start:end] == _ZEROS[: end - start]
        if not is_zero and begun is None:
            begun = start
        elif is_zero and begun is not None:
            yield begun, start
            begun = None
    if begun is not None:
        yield begun, len(data)


def chunks(fd: int, ranges: Iterable[tuple[int, int]]) -> Iterator[bytes]:
    """Yield the bytes of some ranges, in pieces; end early where the file has become shorter."""
    for offset, length in ranges:
        end = offset + length
        while offset < end:
            chunk = os.pread(fd, min(CHUNK_BYTES, end - offset), offset)
            if not chunk:
                return
            yield chunk
            offset += len(chunk)


def digest_of(fd: int, size: int) -> str:
    """Return the SHA-256 of the first `size` bytes, as hex."""
    state = hashlib.sha256()
    for chunk in chunks(fd, ((0, size),)):
        state.update(chunk)
    return state.hexdigest()


def has_same_content(a: int, b: int, size: int) -> bool:
    """Return whether two open files have the same first `size` bytes. Where both have holes nothing
    is read: a terabyte of nothing is compared at once."""
    extents = (data_extents(a, size), data_extents(b, size))
    ranges: Extents = ((0, size),)
    if extents[0] is not None and extents[1] is not None:
        ranges = (*extents[0], *extents[1])
    try:
        return all(x == y for x, y in zip(chunks(a, ranges), chunks(b, ranges), strict=True))
    except ValueError:
        return False  # one of them was cut meanwhile


def write_whole(path: Path, content: bytes) -> None:
    """Write a private file whole or not at all, and return when it is on disk. Others see what was
    there before, or the new content."""
    temporary = path.with_name(f".{path.name}-{secrets.token_hex(8)}")
    try:
        with open(os.open(temporary, _NEW_FILE, 0o600), "wb") as file:
            file.write(content)
            file.flush()
            os.fsync(file.fileno())
        temporary.rename(path)
    finally:
        temporary.unlink(missing_ok=True)
    sync_directory(path.parent)


def sync_file_system(fd: int) -> None:
    """Bring everything written to the file system of `fd` to disk."""
    import ctypes  # it takes longer to load than all the rest

    libc = ctypes.CDLL(None, use_errno=True)
    if libc.syncfs(fd) != 0:
        code = ctypes.get_errno()
        raise OSError(code, os.strerror(code))


def sync_directory(path: Path) -> None:
    """Return when the names in a directory are on disk."""
    fd = os.open(path, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        os.fsync(fd)
    finally:
        os.close(fd)


def open_to_read(path: str | Path, flags: int = os.O_RDONLY) -> int:
    """Open a file that anybody may have put there. Raises IntegrityError where it cannot be opened
    or is no file: a link, a directory, or a named pipe, which would be waited for without end."""
    name = os.path.basename(path)
    try:
        fd = os.open(path, flags | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
    except OSError as error:
        raise IntegrityError(f"{name} is unreadable: {error.strerror}") from None
    if stat.S_ISREG(os.fstat(fd).st_mode):
        return fd
    os.close(fd)
    raise IntegrityError(f"{name} is not a file")


def _copy_by_kernel(source: int, target: int, source_at: int, target_at: int, length: int) -> int:
    """Copy as much as can be copied this way and return how much; the rest is left to plain
    reads."""
    done = 0
    while done < length:
        try:
            copied = os.copy_file_range(
                source, target, length - done, source_at + done, target_at + done
            )
        except OSError as error:
            if error.errno not in _NOT_BY_KERNEL:
                raise
            return done
        if copied == 0:
            return done
        done += copied
    return done


def _seek_extents(fd: int, size: int) -> Iterator[tuple[int, int]]:
    offset = count = 0
    while offset < size:
        try:
            start = os.lseek(fd, offset, os.SEEK_DATA)
            end = min(os.lseek(fd, start, os.SEEK_HOLE), size)
        except OSError as error:
            if error.errno == errno.ENXIO:
                return  # only a hole is left, or the file was cut meanwhile
            raise
        if start >= end:
            return
        yield start, end - start
        offset, count = end, count + 1
        if count > MAX_EXTENTS:
            raise SandboxError(f"a file has more than {MAX_EXTENTS} separate pieces")
