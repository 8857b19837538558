"""Directory watches (inotify) and file locks (flock) that the host holds through a stream."""

import _struct
import errno
import fcntl
import os
from time import monotonic

import syscalls

_EVENT = _struct.Struct("iIII")
_MASKS = {
    0x100: "create", 0x2: "write", 0x8: "write", 0x200: "remove", 0x40: "rename", 0x80: "create",
    0x4: "chmod",
}  # fmt: skip
_ALL = 0x100 | 0x2 | 0x200 | 0x40 | 0x80 | 0x4
_CREATE, _MOVED_HERE, _REMOVE = 0x100, 0x80, 0x200
_READ, _LONGEST_EVENT = 65536, 16 + 256
_IS_DIR = 0x40000000
_OVERFLOW = 0x4000
_ONLY_DIR = 0x01000000
MAX_WATCHES = 4096
LOCK_RETRY_S = 0.02


def watch(loop, stream, ask):
    try:
        watcher = _Watcher(loop, stream, ask["path"], ask.get("recursive", False))
    except OSError as error:
        stream.fail(error, ask["path"])
        return
    stream.on_close = watcher.close
    stream.event({"watching": True})


class _Watcher:
    """One watched directory, or a tree of them.

    A new directory is watched only when the event of its creation has been read. What was made in
    it before has no event, so it is looked for once the watch is in place, and reported as created.
    What is made between the two has an event besides, which is left out.
    """

    def __init__(self, loop, stream, top, is_recursive):
        self._loop = loop
        self._stream = stream
        self._is_recursive = is_recursive
        self._paths = {}
        self._found = set()  # reported without an event; one may still be in the queue
        self._fd = syscalls.inotify_init()
        try:
            self._add(top, "", None)
        except OSError:
            os.close(self._fd)
            raise
        self._top = top
        self._is_paused = False
        stream.on_room = self._resume
        loop.watch(self._fd, self._on_events)

    def _resume(self):
        if self._is_paused:
            self._is_paused = False
            self._loop.watch(self._fd, self._on_events)

    def close(self):
        self._loop.forget(self._fd)
        os.close(self._fd)

    def _add(self, path, relative, batch):
        """Watch a directory and, if asked to, those below it. `batch` gets the entries of one that
        is new; it is None for those that were there when the watch began."""
        pending = [(path, relative)]
        while pending:
            path, relative = pending.pop()
            if len(self._paths) >= MAX_WATCHES:
                raise OSError(errno.ENOSPC, "")
            self._paths[syscalls.inotify_add_watch(self._fd, path, _ALL | _ONLY_DIR)] = relative
            if not self._is_recursive:
                return
            with os.scandir(path) as entries:
                for entry in entries:
                    inner = _join(relative, entry.name)
                    is_directory = entry.is_dir(follow_symlinks=False)
                    if is_directory:
                        pending.append((entry.path, inner))
                    if batch is not None:
                        self._report(entry, inner, is_directory, batch)

    def _report(self, entry, relative, is_directory, batch):
        self._found.add(relative)
        batch.append(["create", relative])
        try:
            if not is_directory and entry.stat(follow_symlinks=False).st_size:
                batch.append(["write", relative])
        except FileNotFoundError:
            pass  # gone again: its removal is an event

    def _on_events(self, events):
        if self._stream.room <= 0:
            # Nobody listens: the kernel keeps what it can, and tells when it could not keep more.
            self._loop.forget(self._fd)
            self._is_paused = True
            return
        try:
            data = os.read(self._fd, _READ)
        except BlockingIOError:
            return
        found_before = set(self._found)
        at = 0
        batch = []
        while at < len(data):
            wd, mask, _, size = _EVENT.unpack_from(data, at)
            name = os.fsdecode(data[at + 16 : at + 16 + size].rstrip(b"\0"))
            at += 16 + size
            self._note(wd, mask, name, batch)
        if len(data) < _READ - _LONGEST_EVENT:  # the queue was read to its end
            self._found -= found_before
        if batch:
            self._stream.event({"changes": batch})

    def _note(self, wd, mask, name, batch):
        if mask & _OVERFLOW:
            batch.append(["overflow", ""])
            return
        relative = _join(self._paths.get(wd, ""), name)
        if relative in self._found and mask & (_CREATE | _REMOVE):
            self._found.discard(relative)
            if mask & _CREATE:
                return
        for bit, kind in _MASKS.items():
            if mask & bit:
                batch.append([kind, relative])
        if self._is_recursive and mask & _IS_DIR and mask & (_CREATE | _MOVED_HERE):
            try:
                is_made_here = mask & _CREATE  # one that was moved here is one event, as a whole
                path = os.path.join(self._top, relative)
                self._add(path, relative, batch if is_made_here else None)
            except OSError:
                pass  # gone again, or over the bound: its own creation was reported


def lock(loop, stream, ask):
    """Takes flock on the file (made if missing) and holds it until the stream closes."""
    try:
        fd = os.open(ask["path"], os.O_RDWR | os.O_CREAT | os.O_NONBLOCK | os.O_CLOEXEC, 0o666)
    except OSError as error:
        stream.fail(error, ask["path"])
        return
    how = (fcntl.LOCK_SH if ask.get("shared") else fcntl.LOCK_EX) | fcntl.LOCK_NB
    deadline = monotonic() + ask["timeout"] if ask.get("timeout") is not None else None
    stream.on_close = lambda: os.close(fd)

    def attempt():
        if not stream.is_open:
            return
        try:
            fcntl.flock(fd, how)
        except BlockingIOError as error:
            if deadline is not None and monotonic() >= deadline:
                os.close(fd)
                stream.on_close = None
                stream.fail(error, ask["path"])
                return
            loop.after(LOCK_RETRY_S, attempt)
            return
        stream.event({"locked": True})

    attempt()


def _join(directory, name):
    return directory + "/" + name if directory else name
