"""Files of a sandbox: read, written, listed, watched and locked through the guest. No path is
resolved on the host. Callers meet this core through `FileCalls`, which asks the gate first.
"""

from __future__ import annotations

import asyncio
import contextlib
import errno
import io
import posixpath
from collections.abc import AsyncIterator, Awaitable, Callable, Iterable, Mapping
from typing import IO, Any

from paddock.doors.machine.guest import Guest
from paddock.fence.channel import GuestStream, StreamData, StreamEnd, StreamEvent
from paddock.fence.guest.wire import CHUNK
from paddock.fence.offload import offload
from paddock.model.errors import FileError, FileMissing, InvalidInput, TimeoutReached
from paddock.model.results import EntryInfo, FileType, WatchEvent
from paddock.model.spec import sandbox_path, text_bytes

Content = str | bytes | bytearray | memoryview | IO[bytes] | IO[str]


class OpenFile:
    """A file of the sandbox that is read piece by piece; the guest waits while nobody takes any."""

    def __init__(self, stream: GuestStream, path: str) -> None:
        self._stream = stream
        self._path = path
        self._is_done = False

    async def next(self) -> bytes | bytearray | None:
        """Return the next piece, or None at the end."""
        while not self._is_done:
            item = await self._stream.next()
            if isinstance(item, StreamData):
                return item.content
            if isinstance(item, StreamEnd):
                self.close()
                _raise_failure(item.value, self._path)
        return None

    def close(self) -> None:
        """Let go of the file."""
        self._is_done = True
        self._stream.close()


class FileCore:
    """The files of one sandbox. Every method runs on the engine's loop."""

    def __init__(self, guest: Guest) -> None:
        self._guest = guest

    async def read_bytes(self, path: str) -> bytes:
        content = io.BytesIO()  # hands its buffer out without a copy, as a list of parts would not
        with contextlib.closing(await self.open_file(path)) as file:
            while (chunk := await file.next()) is not None:
                content.write(chunk)
        return content.getvalue()

    async def open_file(self, path: str) -> OpenFile:
        """Open a file to be read piece by piece; raises here if it cannot be read."""
        full_path = sandbox_path(path)
        stream = self._guest.channel.open("read", path=full_path)
        try:
            first = await stream.next()  # its size; or the end, when it cannot be read
            if isinstance(first, StreamEnd):
                _raise_failure(first.value, full_path)
        except BaseException:
            stream.close()
            raise
        return OpenFile(stream, full_path)

    async def write(self, path: str, content: Content, *, is_append: bool = False) -> EntryInfo:
        """Write text, bytes or an open file; missing directories are made."""
        full_path = sandbox_path(path)
        content = _checked(content)  # before the file is opened, and emptied
        with self._guest.channel.open("write", path=full_path, append=is_append) as stream:
            first = await stream.next()
            if isinstance(first, StreamEnd):
                _raise_failure(first.value, full_path)
            async for chunk in _chunks(content):
                await stream.send(chunk)
                if stream.is_ended:
                    break
            if not stream.is_ended:
                stream.send_eof()
            ending = await stream.end()
        _raise_failure(ending, full_path)
        return entry(ending.get("entry"))

    async def write_many(self, files: Iterable[Mapping[str, Any]]) -> list[EntryInfo]:
        """Write several: each a mapping with path and data."""
        written = []
        for file in files:
            if not isinstance(file, Mapping) or not {"path", "data"} <= set(file):
                raise InvalidInput(f"write_files: {file!r} needs path and data")
            written.append(await self.write(file["path"], file["data"]))
        return written

    async def list(self, path: str, depth: int = 1) -> list[EntryInfo]:
        """Return what is in a directory, and below it down to `depth`; links are not followed."""
        if not isinstance(depth, int) or depth < 1:
            raise InvalidInput(f"depth: {depth!r} must be a whole number from 1")
        full_path = sandbox_path(path)
        entries: list[EntryInfo] = []
        with self._guest.channel.open("list", path=full_path, depth=depth) as stream:
            while True:
                item = await stream.next()
                if isinstance(item, StreamEvent):
                    entries += [entry(raw) for raw in item.value["entries"]]
                elif isinstance(item, StreamEnd):
                    _raise_failure(item.value, full_path)
                    return entries

    async def get_info(self, path: str) -> EntryInfo:
        """Return type, size, mode and time of one path; a link is itself."""
        return await self._entry("stat", path)

    async def exists(self, path: str) -> bool:
        """Return whether there is something of that name, a dangling link included."""
        try:
            await self._ask("stat", path)
        except FileMissing:
            return False
        return True

    async def make_dir(self, path: str) -> bool:
        """Make a directory and its parents; return False if it was there."""
        return bool((await self._ask("make_dir", path)).get("created"))

    async def rename(self, old: str, new: str) -> EntryInfo:
        """Move a file or directory."""
        return await self._entry("rename", old, to=sandbox_path(new))

    async def remove(self, path: str) -> None:
        """Remove a file, or a directory with all in it."""
        await self._ask("remove", path)

    async def lock(self, path: str, *, is_shared: bool, timeout_s: float | None) -> GuestStream:
        """Take a lock and return it as a stream; closing the stream lets go."""
        full_path = sandbox_path(path)
        stream = self._guest.channel.open(
            "lock", path=full_path, shared=is_shared, timeout=timeout_s
        )
        try:
            item = await stream.next()
        except BaseException:
            stream.close()
            raise
        if isinstance(item, StreamEnd):
            if item.value.get("error", {}).get("errno") == errno.EAGAIN:
                raise TimeoutReached(
                    f"{full_path} is locked by somebody else; waited {timeout_s} s"
                )
            _raise_failure(item.value, full_path)
        return stream

    async def watch(
        self, path: str, deliver: Callable[[WatchEvent], Awaitable[None]], *, is_recursive: bool
    ) -> asyncio.Task[None]:
        """Begin to watch; cancelling the task ends it."""
        full_path = sandbox_path(path)
        stream = self._guest.channel.open("watch", path=full_path, recursive=is_recursive)
        first = await stream.next()
        if isinstance(first, StreamEnd):
            stream.close()
            _raise_failure(first.value, full_path)
        task = asyncio.ensure_future(_watch(stream, deliver))
        task.add_done_callback(lambda t: t.cancelled() or t.exception())
        return task

    async def _ask(self, op: str, path: str, **more: Any) -> dict[str, Any]:
        full_path = sandbox_path(path)
        answer = await self._guest.channel.ask(op, path=full_path, **more)
        _raise_failure(answer, full_path)
        return answer

    async def _entry(self, op: str, path: str, **more: Any) -> EntryInfo:
        return entry((await self._ask(op, path, **more)).get("entry"))


async def _watch(stream: GuestStream, deliver: Callable[[WatchEvent], Awaitable[None]]) -> None:
    with stream:
        while True:
            item = await stream.next()
            if isinstance(item, StreamEnd):
                return
            if isinstance(item, StreamEvent):
                for kind, name in item.value.get("changes", ()):
                    await deliver(WatchEvent(kind, name))


def _checked(content: Content) -> Content:
    if isinstance(content, str):
        return text_bytes(content, "data")
    if isinstance(content, bytes | bytearray | memoryview) or hasattr(content, "read"):
        return content
    raise InvalidInput(f"data: {type(content).__name__} is not text, bytes or an open file")


async def _chunks(content: Content) -> AsyncIterator[bytes | memoryview]:
    if isinstance(content, bytes | bytearray | memoryview):
        view = memoryview(content).cast("B")
        for at in range(0, len(view), CHUNK):
            yield view[at : at + CHUNK]
        return
    assert not isinstance(content, str)
    while True:
        chunk: str | bytes = await offload(content.read, CHUNK)
        if not chunk:
            return
        yield chunk.encode() if isinstance(chunk, str) else bytes(chunk)


def entry(raw: Any) -> EntryInfo:
    """Return an entry from what the guest answered. Raises FileError if it is malformed."""
    with contextlib.suppress(KeyError, TypeError, ValueError, AttributeError):
        return EntryInfo(
            name=posixpath.basename(str(raw["path"]).rstrip("/")) or "/",
            path=str(raw["path"]),
            type=FileType(raw["type"]),
            size=int(raw["size"]),
            mode=int(raw["mode"]),
            modified_at=float(raw["mtime"]),
            symlink_target=raw.get("target"),
        )
    raise FileError("the guest gave a malformed entry", path=str(raw)[:100], code="EPROTO")


def _raise_failure(answer: Mapping[str, Any], path: str) -> None:
    error = answer.get("error")
    if not error:
        return
    if not isinstance(error, Mapping):
        raise FileError("the guest gave a malformed answer", path=path, code="EPROTO")
    number = error.get("errno", 0)
    code = errno.errorcode.get(number, "EIO")
    message = {
        "EISDIR": "is a directory, not a file",
        "EINVAL": "is not a regular file (a device, a pipe or a socket)",
        "EDQUOT": "the disk limit of the sandbox is reached",
        "EFBIG": "the disk limit of the sandbox is reached",
        "EROFS": "is read-only inside the sandbox",
    }.get(code, str(error.get("message") or code))
    kind = FileMissing if code == "ENOENT" else FileError
    raise kind(message, path=str(error.get("path") or path), code=code)
