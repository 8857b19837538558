"""How the code interpreter talks: messages in and out, output pipes, the moment of an interrupt.

The other half of `kernel.py`, which knows what a cell is; this file does not. Standard library
only, Python 3.10 or newer, nothing of Paddock.

Two processes share the work. The relay is a tiny fork that owns the real stdout and reads the pipes
that became fd 1 and fd 2, so text flows also while a cell holds the interpreter lock, and the
process that runs the cells has no thread of ours that would make `os.fork` in a cell unsafe.
"""

from __future__ import annotations

import codecs
import contextlib
import fcntl
import gc
import json
import os
import select
import signal
import struct
import sys
import threading
from collections.abc import Iterator
from typing import Any, NoReturn, TextIO

MAX_MESSAGE_BYTES = 64 << 20
PIPE_BYTES = 1 << 20  # the most that an unprivileged process may ask for by default
BEGIN, MESSAGE, END = b"b", b"m", b"e"
_LENGTH, _ORDER = struct.Struct(">I"), struct.Struct(">cI")


def to_json(value: Any) -> bytes:
    text = json.dumps(value, ensure_ascii=False, separators=(",", ":"))
    return text.encode("utf-8", "replace")


def read_exactly(fd: int, size: int) -> bytes | None:
    """`size` bytes, or None when the other side has closed."""
    parts = []
    while size:
        part = os.read(fd, min(size, PIPE_BYTES))
        if not part:
            return None
        parts.append(part)
        size -= len(part)
    return b"".join(parts)


def write_all(fd: int, data: bytes) -> None:
    view = memoryview(data)
    while view:
        view = view[os.write(fd, view) :]


class Relay:
    """Passes on what arrives in the output pipes, and the interpreter's messages between it.

    Every order of the interpreter is preceded by what the pipes held when it was given, and is
    acknowledged; so text and messages leave in the order in which the cell made them.
    """

    def __init__(self, out: int, orders: int, acks: int, streams: dict[int, str]) -> None:
        self._out, self._orders, self._acks, self._streams = out, orders, acks, streams
        self._cell: Any = None
        decoder = codecs.getincrementaldecoder("utf-8")
        self._decoders = {fd: decoder("replace") for fd in streams}

    def run(self) -> None:
        poll = select.poll()
        for fd in (self._orders, *self._streams):
            os.set_blocking(fd, fd == self._orders)
            poll.register(fd, select.POLLIN)
        while True:
            ready = [fd for fd, _ in poll.poll()]
            if self._orders in ready:
                if not self._obey():
                    return
                continue
            for fd in ready:
                if self._pass_on(fd) == 0:
                    poll.unregister(fd)  # the cell closed it; a dead pipe would spin the poll

    def _obey(self) -> bool:
        head = read_exactly(self._orders, _ORDER.size)
        self._drain()
        if head is None:
            return False
        kind, size = _ORDER.unpack(head)
        if kind == BEGIN:
            self._cell = json.loads(read_exactly(self._orders, size) or b"null")
        else:
            self._forward(size, is_end=kind == END)
        write_all(self._acks, b".")
        return True

    def _forward(self, size: int, *, is_end: bool) -> None:
        if is_end:
            for fd, decoder in self._decoders.items():
                self._say(fd, decoder.decode(b"", final=True))
            self._cell = None
        write_all(self._out, _LENGTH.pack(size))
        while size:
            part = os.read(self._orders, min(size, PIPE_BYTES))
            if not part:
                os._exit(1)  # the interpreter died inside a message: the stream is of no more use
            write_all(self._out, part)
            size -= len(part)

    def _drain(self) -> None:
        """Takes what the pipes hold now; a writer that never stops cannot keep us here."""
        for fd in self._streams:
            left = PIPE_BYTES
            while left > 0 and (got := self._pass_on(fd)):
                left -= got

    def _pass_on(self, fd: int) -> int | None:
        try:
            data = os.read(fd, PIPE_BYTES >> 2)
        except BlockingIOError:
            return None
        self._say(fd, self._decoders[fd].decode(data))
        return len(data)

    def _say(self, fd: int, text: str) -> None:
        if text:
            body = to_json({"id": self._cell, "type": self._streams[fd], "text": text})
            write_all(self._out, _LENGTH.pack(len(body)) + body)


class Interrupts:
    """SIGINT is KeyboardInterrupt while a cell runs, but never in the middle of a message.

    Idle, it is ignored. Between a request and its cell it is kept, and is the cell's at once.
    """

    def __init__(self) -> None:
        self._is_starting = self._is_armed = self._is_due = False
        self._holds = 0

    def install(self) -> None:
        signal.signal(signal.SIGINT, self._on_signal)

    def expect_cell(self) -> None:
        """A request is here. Also undoes what an earlier cell did to the signal."""
        self._is_starting, self._is_due = True, False
        self.install()

    def arm(self) -> None:
        self._is_starting, self._is_armed = False, True
        self._raise_if_due()

    def disarm(self) -> None:
        self._is_starting = self._is_armed = False

    def _on_signal(self, *_: object) -> None:
        if self._holds or self._is_starting:
            self._is_due = True
        elif self._is_armed:
            raise KeyboardInterrupt

    def _raise_if_due(self) -> None:
        if self._is_due and self._is_armed and not self._holds:
            self._is_due = False
            raise KeyboardInterrupt

    @contextlib.contextmanager
    def held(self) -> Iterator[None]:
        if threading.current_thread() is not threading.main_thread():
            yield  # signals are handled by the main thread only
            return
        self._holds += 1
        try:
            yield
        finally:
            self._holds -= 1
        self._raise_if_due()


class KernelLink:
    """The interpreter's end: requests come in, messages go out by way of the relay."""

    def __init__(self, interrupts: Interrupts) -> None:
        self.cell: Any = None
        self._interrupts = interrupts
        self._lock = threading.Lock()
        self._requests, out = os.dup(0), os.dup(1)  # both close on exec, as all below
        orders, self._orders = _wide_pipe()
        self._acks, acks = os.pipe()
        (stdout, new_1), (stderr, new_2) = _wide_pipe(), _wide_pipe()
        relay = Relay(out, orders, acks, {stdout: "stdout", stderr: "stderr"})
        _start(relay, closing=(self._requests, self._orders, self._acks, new_1, new_2))
        for fd in (out, orders, acks, stdout, stderr):
            os.close(fd)
        _replace({0: os.open(os.devnull, os.O_RDWR), 1: new_1, 2: new_2})
        self._pid = os.getpid()
        os.register_at_fork(before=flush_streams, after_in_child=self._forget)

    def _forget(self) -> None:
        """In a fork child of a cell: the conversation is the parent's."""
        for fd in (self._requests, self._orders, self._acks):
            os.close(fd)

    @property
    def is_ours(self) -> bool:
        return os.getpid() == self._pid

    def receive(self) -> dict[str, Any] | None:
        """The next request; None when the host has closed."""
        head = read_exactly(self._requests, _LENGTH.size)
        if head is None:
            return None
        (size,) = _LENGTH.unpack(head)
        if size > MAX_MESSAGE_BYTES:
            self.fail("ProtocolError", f"a request of {size} bytes is over {MAX_MESSAGE_BYTES}")
        body = read_exactly(self._requests, size)
        if body is None:
            return None
        request = _parse(body)
        if not isinstance(request, dict):
            self.fail("ProtocolError", "a request must be a JSON object")
        return request

    def begin(self, cell: Any) -> None:
        """All output from here on belongs to `cell`."""
        flush_streams()
        self._order(BEGIN, to_json(cell))
        self.cell = cell

    def send(self, kind: str, **fields: Any) -> None:
        self.send_body(to_json({"id": self.cell, "type": kind, **fields}))

    def send_body(self, body: bytes, order: bytes = MESSAGE) -> None:
        flush_streams()
        self._order(order, body)

    def end(self, **fields: Any) -> None:
        self.send_body(to_json({"id": self.cell, "type": "done", **fields}), END)
        self.cell = None

    def fail(self, name: str, value: str, traceback: str = "") -> NoReturn:
        """Says why there is no interpreter (any more), and ends."""
        self.cell = None
        self.send("error", name=name, value=value, traceback=traceback)
        os._exit(3)

    def _order(self, kind: bytes, body: bytes) -> None:
        if not self.is_ours:
            return
        with self._interrupts.held(), self._lock:
            write_all(self._orders, _ORDER.pack(kind, len(body)) + body)
            if not os.read(self._acks, 1):
                os._exit(1)  # no relay, no way to say anything


def open_streams() -> None:
    """Text streams on the new descriptors, in place of those that Python opened at its start."""
    _install("stdin", open(0, encoding="utf-8", closefd=False))  # noqa: SIM115
    for fd, name in ((1, "stdout"), (2, "stderr")):
        _install(name, open(fd, "w", 1, "utf-8", "backslashreplace", closefd=False))  # noqa: SIM115


def _install(name: str, stream: TextIO) -> None:
    setattr(sys, name, stream)
    setattr(sys, f"__{name}__", stream)


def flush_streams() -> None:
    for name in ("stdout", "stderr", "__stdout__", "__stderr__"):
        with contextlib.suppress(Exception):  # a cell may have put anything there
            getattr(sys, name).flush()


def complain(text: str) -> None:
    """To stderr, whatever a cell has put in the place of `sys.stderr`."""
    flush_streams()
    with contextlib.suppress(OSError):
        write_all(2, text.encode("utf-8", "backslashreplace") + b"\n")


def _start(relay: Relay, closing: tuple[int, ...]) -> None:
    # Forked twice, so that a cell that waits for "any child" never meets the relay.
    middle = os.fork()
    if middle:
        os.waitpid(middle, 0)
        return
    if os.fork() == 0:
        with contextlib.suppress(BaseException):
            signal.signal(signal.SIGINT, signal.SIG_IGN)
            gc.disable()  # it makes no cycles, and a collection would unshare every page
            os.chdir("/")
            for fd in closing:
                os.close(fd)
            null = os.open(os.devnull, os.O_RDWR)
            _replace({fd: os.dup(null) for fd in (0, 1, 2)})
            relay.run()
    os._exit(0)


def _replace(sources: dict[int, int]) -> None:
    for target, source in sources.items():
        os.dup2(source, target)
        os.close(source)


def _wide_pipe() -> tuple[int, int]:
    reader, writer = os.pipe()
    with contextlib.suppress(OSError):  # the user's share of pipe memory may be spent
        fcntl.fcntl(writer, 1031, PIPE_BYTES)  # F_SETPIPE_SZ
    return reader, writer


def _parse(body: bytes) -> Any:
    try:
        return json.loads(body)
    except (ValueError, RecursionError):
        return None
