"""File operations on behalf of the host, carried out inside the fence with the agent's own rights.

Because they run in here, no link, `..` or race can lead them outside: the kernel resolves names in
the sandbox's mount namespace. Only regular files are read or written: a FIFO or a device could
hold the guest for ever.
"""

import _stat
import errno
import os
from itertools import islice

import spawn
import wire

LIST_BATCH = 500  # entries in one event; keeps a frame well under its limit
MAX_DEPTH = 64
MAX_FURNISHED = 4 << 20


def read(stream, ask):
    try:
        fd = os.open(ask["path"], os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC | os.O_NOCTTY)
        info = os.fstat(fd)
        if not _stat.S_ISREG(info.st_mode):
            os.close(fd)
            raise OSError(_wrong_type(info.st_mode), "")
    except (OSError, ValueError) as error:
        stream.fail(error, ask["path"])
        return
    stream.event({"size": info.st_size})

    def pump():
        try:
            while stream.room > 0:
                data = os.read(fd, min(stream.room, wire.CHUNK))
                if not data:
                    os.close(fd)
                    stream.end({})
                    return
                stream.data(1, data)
        except OSError as error:
            os.close(fd)
            stream.fail(error, ask["path"])

    stream.on_room = pump
    stream.on_close = lambda: os.close(fd)
    pump()


def write(stream, ask):
    path = ask["path"]
    try:
        fd = _open_for_write(path, ask.get("mode", 0o644), ask.get("append", False))
    except (OSError, ValueError) as error:
        stream.fail(error, path)
        return
    written = [0]

    def on_data(port, data):
        try:
            view = memoryview(data)
            while view:
                view = view[os.write(fd, view) :]
            written[0] += len(data)
            stream.give_credit(len(data))
        except OSError as error:
            os.close(fd)
            stream.on_data = stream.on_close = stream.on_eof = None
            stream.fail(error, path)

    def on_eof(port):
        info = _entry(path, os.fstat(fd), None)
        os.close(fd)
        stream.end({"entry": info, "size": written[0]})

    stream.on_data = on_data
    stream.on_eof = on_eof
    stream.on_close = lambda: os.close(fd)
    stream.event({})


def furnish(stream, ask):
    """Small files that the host gives a sandbox, all of them with one question. A part of a file
    that is text names another one, whose content belongs there."""
    failed = {}
    for path, parts in ask["files"]:
        try:
            _place(path, parts)
        except (OSError, ValueError) as error:
            failed[path] = str(error)
    stream.end({"failed": failed})


def _place(path, parts):
    """Put a file in place as a whole: what stands there may be a link to something that is
    read-only."""
    fd = _open_for_write(path + ".new", 0o644, False)
    try:
        for part in parts:
            view = memoryview(part if isinstance(part, bytes) else _content(part))
            while view:
                view = view[os.write(fd, view) :]
    finally:
        os.close(fd)
    os.replace(path + ".new", path)


def _content(path):
    fd = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
    try:
        return os.read(fd, MAX_FURNISHED)
    finally:
        os.close(fd)


def stat(stream, ask):
    def do():
        return {"entry": _look(ask["path"])}

    _answer(stream, ask["path"], do)


def listing(stream, ask):
    entries = _walk(ask["path"], min(ask.get("depth", 1), MAX_DEPTH))

    def pump():
        try:
            while stream.room > 0 and stream.is_open:
                batch = list(islice(entries, LIST_BATCH))
                if not batch:
                    stream.end({})
                    return
                stream.event({"entries": batch})
        except (OSError, ValueError) as error:
            stream.fail(error, ask["path"])

    stream.on_room = pump
    pump()


def resolve(stream, ask):
    """Answer what a path, or a program's name along PATH, leads to here and now."""

    def do():
        name = spawn.with_shell([ask["path"]])[0]
        if "search" in ask and "/" not in name:
            places = [os.path.join(place or ".", name) for place in ask["search"].split(":")]
            name = next((p for p in places if os.access(p, os.X_OK) and os.path.isfile(p)), name)
        path = os.path.join(ask.get("cwd") or "/", name)
        return {"path": path, "real": os.path.realpath(path)}

    _answer(stream, ask["path"], do)


def make_dir(stream, ask):
    def do():
        path = ask["path"]
        if os.path.isdir(path):
            return {"created": False}
        _make_parents(path + "/x")
        return {"created": True}

    _answer(stream, ask["path"], do)


def rename(stream, ask):
    def do():
        os.rename(ask["path"], ask["to"])
        return {"entry": _look(ask["to"])}

    _answer(stream, ask["path"], do)


def remove(loop, stream, ask):
    path = ask["path"]
    try:
        if not _stat.S_ISDIR(os.lstat(path).st_mode):
            os.unlink(path)
            stream.end({})
            return
        reader, writer = os.pipe2(os.O_CLOEXEC)
    except (OSError, ValueError) as error:
        stream.fail(error, path)
        return
    # In a child: a tree of a million files must not keep everybody else waiting.
    if os.fork() == 0:
        os._exit(_remove_in_child(path, writer))
    os.close(writer)

    def finished(events):
        code = os.read(reader, 64)
        loop.forget(reader)
        os.close(reader)
        if code == b"0":
            stream.end({})
        else:
            stream.fail(OSError(int(code or errno.EIO), ""), path)

    loop.watch(reader, finished)


def _remove_in_child(path, writer):
    code = 0
    try:
        _remove_tree(path)
    except OSError as error:
        code = error.errno or errno.EIO
    os.write(writer, b"%d" % code)
    return 0


def _answer(stream, path, do):
    try:
        stream.end(do())
    except (OSError, ValueError) as error:
        stream.fail(error, path)


def _open_for_write(path, mode, is_append):
    flags = os.O_WRONLY | os.O_CREAT | os.O_NONBLOCK | os.O_CLOEXEC | os.O_NOCTTY
    flags |= os.O_APPEND if is_append else 0
    try:
        fd = os.open(path, flags, mode)
    except FileNotFoundError:
        _make_parents(path)
        fd = os.open(path, flags, mode)
    info = os.fstat(fd)
    if not _stat.S_ISREG(info.st_mode):
        os.close(fd)
        raise OSError(_wrong_type(info.st_mode), "")
    if not is_append:
        os.ftruncate(fd, 0)  # only now: O_TRUNC would act before the type is known
    return fd


def _make_parents(path):
    missing = []
    parent = os.path.dirname(path.rstrip("/"))
    while parent and not os.path.isdir(parent):
        missing.append(parent)
        parent = os.path.dirname(parent)
    for directory in reversed(missing):
        try:
            os.mkdir(directory, 0o755)
        except FileExistsError:
            if not os.path.isdir(directory):
                raise OSError(errno.ENOTDIR, "") from None


def _walk(top, depth):
    with os.scandir(top) as entries:
        in_order = sorted(entries, key=lambda e: e.name)
    for entry in in_order:
        try:
            info = entry.stat(follow_symlinks=False)
            target = os.readlink(entry.path) if entry.is_symlink() else None
        except FileNotFoundError:
            continue  # gone between the listing and the look
        yield _entry(entry.path, info, target)
        if depth > 1 and _stat.S_ISDIR(info.st_mode):
            try:
                yield from _walk(entry.path, depth - 1)
            except (FileNotFoundError, PermissionError):
                continue


def _remove_tree(path):
    """Depth first, by changing into each directory: a tree may be deeper than a path can say, or
    than descriptors can be had. Run in a child of its own. A link in a directory's place is
    refused by the open, so it is never followed."""
    os.chdir(os.path.dirname(path.rstrip("/")) or "/")
    _enter(os.path.basename(path.rstrip("/")))
    names = [os.path.basename(path.rstrip("/"))]
    pending = [os.listdir(".")]
    while pending:
        if not pending[-1]:
            pending.pop()
            os.chdir("..")
            os.rmdir(names.pop())
            continue
        name = pending[-1].pop()
        try:
            os.unlink(name)
        except IsADirectoryError:
            _enter(name)
            names.append(name)
            pending.append(os.listdir("."))
        except FileNotFoundError:
            pass


def _enter(name):
    flags = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC
    fd = os.open(name, flags)
    try:
        os.fchdir(fd)
    finally:
        os.close(fd)


def _look(path):
    info = os.lstat(path)
    return _entry(path, info, os.readlink(path) if _stat.S_ISLNK(info.st_mode) else None)


def _entry(path, info, target):
    mode = info.st_mode
    kind = "file" if _stat.S_ISREG(mode) else "dir" if _stat.S_ISDIR(mode) else "other"
    if _stat.S_ISLNK(mode):
        kind = "symlink"
    return {
        "path": path,
        "type": kind,
        "size": info.st_size,
        "mode": mode & 0o7777,
        "mtime": info.st_mtime,
        "target": target,
    }


def _wrong_type(mode):
    return errno.EISDIR if _stat.S_ISDIR(mode) else errno.EINVAL
