"""The guest's event loop and its one channel to the host: epoll, timers, streams with credit.

Memory is bounded by construction: a source of data sends only while its stream has credit and the
channel is not congested, and is asked again when that changes.
"""

import os
import select
from time import monotonic

import wire

HIGH_WATER = 1 << 20  # bytes queued towards the host above which sources are paused
SMALL = 64 << 10  # what is read at once while no large frame is under way
LARGE = 32 << 10
_READ = select.EPOLLIN | select.EPOLLHUP | select.EPOLLERR


class Loop:
    """Descriptors and timers, one callback each."""

    def __init__(self):
        self._epoll = select.epoll()
        self._callbacks = {}
        self._timers = []

    def watch(self, fd, callback, events=_READ):
        self._callbacks[fd] = callback
        self._epoll.register(fd, events)

    def change(self, fd, events):
        self._epoll.modify(fd, events)

    def forget(self, fd):
        if self._callbacks.pop(fd, None) is not None:
            self._epoll.unregister(fd)

    def after(self, delay_s, callback):
        """Call back once, later; returns what `cancel` takes."""
        timer = (monotonic() + delay_s, callback)
        self._timers.append(timer)
        return timer

    def cancel(self, timer):
        self._timers = [t for t in self._timers if t is not timer]

    def run(self):
        while True:
            self.turn()

    def turn(self):
        for fd, events in self._epoll.poll(self._wait_s()):
            callback = self._callbacks.get(fd)
            if callback is not None:  # an earlier callback of this turn may have dropped it
                callback(events)
        if self._timers:
            self._fire()

    def _wait_s(self):
        if not self._timers:
            return -1
        return max(0.0, min(at for at, _ in self._timers) - monotonic())

    def _fire(self):
        now = monotonic()
        due = [t for t in self._timers if t[0] <= now]
        self._timers = [t for t in self._timers if t[0] > now]
        for _, callback in due:
            callback()


class HostChannel:
    """Frames in and out over the inherited socket. The host's end closing is the end of us."""

    def __init__(self, fd, loop, open_stream):
        self._fd = fd
        self._loop = loop
        self._open_stream = open_stream
        self._decoder = wire.FrameDecoder()
        self._view = memoryview(bytearray(SMALL))
        self._partial = None  # a large frame under way: what follows is read straight into it
        self._filled = 0
        self._out = []
        self._out_bytes = 0
        self._is_waiting = False
        self.streams = {}
        os.set_blocking(fd, False)
        loop.watch(fd, self._on_ready)

    @property
    def is_congested(self):
        return self._out_bytes > HIGH_WATER

    def send(self, kind, stream, payload, port=0):
        self._out.append(wire.header(kind, stream, payload, port))
        self._out_bytes += len(payload) + wire.HEADER_BYTES
        if payload:
            self._out.append(payload)
        if not self._is_waiting:
            self._flush()

    def _on_ready(self, events):
        if events & select.EPOLLOUT:
            self._flush()
        if events & ~select.EPOLLOUT:
            self._receive()

    def _receive(self):
        into = self._view if self._partial is None else memoryview(self._partial[3])[self._filled :]
        try:
            size = os.readv(self._fd, [into])
        except BlockingIOError:
            return
        except OSError:
            size = 0
        if not size:
            os._exit(0)  # pid 1 gone: the kernel ends everything else in the sandbox
        if self._partial is not None:
            self._fill(size)
            return
        for kind, port, number, payload in self._decoder.feed(self._view[:size]):
            self._dispatch(kind, port, number, payload)
        partial = self._decoder.take_partial(LARGE)
        if partial is not None:
            self._partial, self._filled = partial[:4], partial[4]

    def _fill(self, size):
        self._filled += size
        if self._filled == len(self._partial[3]):
            frame, self._partial = self._partial, None
            self._dispatch(*frame)

    def _dispatch(self, kind, port, number, payload):
        if kind == wire.OPEN:
            stream = self.streams[number] = HostStream(self, number)
            self._open_stream(stream, wire.unpack_map(payload))
            return
        stream = self.streams.get(number)
        if stream is None:
            return  # it ended while the frame was under way
        try:
            stream.receive(kind, port, payload)
        except Exception as error:  # a call that makes no sense ends its stream, not pid 1
            stream.fail(error if isinstance(error, OSError) else ValueError(repr(error)))

    def _flush(self):
        out = self._out
        try:
            while out:
                sent = os.writev(self._fd, out[:64])
                self._out_bytes -= sent
                while out and sent >= len(out[0]):
                    sent -= len(out.pop(0))
                if sent:
                    out[0] = memoryview(out[0])[sent:]
        except BlockingIOError:
            pass
        except OSError:
            os._exit(0)
        self._want_writable(bool(out))

    def _want_writable(self, is_wanted):
        if is_wanted == self._is_waiting:
            return
        self._is_waiting = is_wanted
        self._loop.change(self._fd, _READ | select.EPOLLOUT if is_wanted else _READ)
        if not is_wanted:
            for stream in list(self.streams.values()):
                stream.wake()


class HostStream:
    """One operation of the host's. The handler sets the callbacks that it needs."""

    def __init__(self, channel, number):
        self.number = number
        self._channel = channel
        self.credit = wire.WINDOW
        self.is_open = True
        self.on_data = None
        self.on_eof = None
        self.on_call = None
        self.on_close = None
        self.on_room = None

    @property
    def room(self):
        """Return how many data bytes may be sent now."""
        return 0 if self._channel.is_congested else self.credit

    def wake(self):
        if self.on_room is not None and self.room > 0:
            self.on_room()

    def data(self, port, payload):
        self.credit -= len(payload)
        self._channel.send(wire.DATA, self.number, payload, port)

    def eof(self, port):
        self._channel.send(wire.EOF, self.number, b"", port)

    def event(self, value):
        """Spends credit like data; whoever sends many asks `room` first."""
        payload = wire.pack(value)
        self.credit -= len(payload)
        self._channel.send(wire.EVENT, self.number, payload)

    def give_credit(self, size):
        self._channel.send(wire.CREDIT, self.number, wire.U32.pack(size))

    def end(self, value):
        if self.is_open:
            self.is_open = False
            self._channel.send(wire.END, self.number, wire.pack(value))
            self._channel.streams.pop(self.number, None)

    def fail(self, error, path=None, **more):
        """Ends the stream with an error that the host can classify."""
        code = error.errno if isinstance(error, OSError) else None
        text = os.strerror(code) if code else str(error)
        self.end({"error": {"errno": code or 0, "message": text, "path": path, **more}})

    def receive(self, kind, port, payload):
        if kind == wire.DATA and self.on_data is not None:
            self.on_data(port, payload)
        elif kind == wire.CREDIT:
            self.credit += wire.U32.unpack(payload)[0]
            self.wake()
        elif kind == wire.EOF and self.on_eof is not None:
            self.on_eof(port)
        elif kind == wire.CALL and self.on_call is not None:
            self.on_call(wire.unpack_map(payload))
        elif kind == wire.CLOSE:
            self.is_open = False
            self._channel.streams.pop(self.number, None)
            if self.on_close is not None:
                self.on_close()
