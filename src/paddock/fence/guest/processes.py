"""Programs that the host asks for: started in their own session, streamed, signalled, reaped.

A process outlives the stream that started it: streams attach and detach. Output that nobody is
attached to is read and dropped, so that a disconnected program never blocks on a full pipe.
"""

import _signal
import errno
import fcntl
import os
import select
from time import monotonic

import spawn
import wire

DRAIN_S = 0.1  # after exit, how long to wait for a pipe that a daemonised child still holds
KILL_PASSES = 50
KEPT_ENDINGS = 256  # how many finished pids `attach` can still ask about
STDIN_QUEUE = 4 << 20  # hard bound on stdin bytes kept for a program that does not read
TERM_GRACE_S = 1.0  # between SIGTERM and SIGKILL, for a program that ran too long
TIOCSWINSZ = 0x5414


class Table:
    """All processes started by the host, by pid."""

    def __init__(self, loop, base_env, on_idle=None):
        self._loop = loop
        self._base_env = base_env
        self.running = {}
        self.endings = {}
        self.hits = {"memory": 0, "pids": 0}
        self.killed_by = {}  # pid -> limit, set by whoever enforces one from in here
        reader, writer = os.pipe2(os.O_CLOEXEC | os.O_NONBLOCK)
        _signal.signal(_signal.SIGCHLD, lambda *_: None)
        _signal.set_wakeup_fd(writer, warn_on_full_buffer=False)
        self._wakeup = reader
        loop.watch(reader, self._on_child)

    def start(self, stream, ask):
        try:
            process = Process(self._loop, ask, self._base_env)
        except spawn.SpawnFailure as failure:
            stream.fail(failure.error, failure.path, cause=failure.cause)
            return
        except OSError as error:
            stream.fail(error, ask["argv"][0])
            return
        self.running[process.pid] = process
        process.attach(stream)
        stream.event(process.began())

    def attach(self, stream, ask):
        pid = ask["pid"]
        if pid in self.running:
            self.running[pid].attach(stream)
            stream.event(self.running[pid].began())
        elif pid in self.endings:
            stream.end(self.endings[pid])
        else:
            stream.fail(OSError(errno.ESRCH, ""), str(pid))

    def list(self, stream, ask):
        stream.end({"processes": [p.describe() for p in self.running.values()]})

    def signal(self, stream, ask):
        process = self.running.get(ask["pid"])
        if process is not None:
            process.signal(ask["signal"])
        stream.end({"found": process is not None})

    def kill_everything(self, limit):
        """SIGKILL to all but ourselves, and the reason remembered for those we started."""
        for pid in self.running:
            self.killed_by[pid] = limit
        try:
            os.kill(-1, _signal.SIGKILL)
        except ProcessLookupError:
            pass

    def _on_child(self, events):
        try:
            os.read(self._wakeup, 4096)
        except BlockingIOError:
            pass
        while True:
            try:
                pid, status, usage = os.wait3(os.WNOHANG)
            except ChildProcessError:
                return
            if pid == 0:
                return
            process = self.running.get(pid)
            if process is not None:  # else: an orphan that init adopted; reaping it was the job
                process.exited(status, usage, self._ended)

    def _ended(self, process, ending):
        del self.running[process.pid]
        ending["hits"] = dict(self.hits)
        limit = self.killed_by.pop(process.pid, None) or process.stopped_by
        if limit:
            ending["killed_by"] = limit
        self.endings[process.pid] = ending
        if len(self.endings) > KEPT_ENDINGS:
            del self.endings[next(iter(self.endings))]
        for stream in list(process.streams):
            stream.end(ending)


class Process:
    """One program, its pipes or terminal, and the streams attached to it."""

    def __init__(self, loop, ask, base_env):
        self._loop = loop
        self.argv = spawn.with_shell(ask["argv"])
        self.cwd = ask["cwd"]
        self.is_pty = ask.get("pty") is not None
        self.started = monotonic()
        self.streams = []
        self._sources = {}  # fd -> port
        self._paused = set()
        self._stdin = None
        self._stdin_queue = []
        self._stdin_bytes = 0
        self._ending = None
        self._on_ended = None
        self.stopped_by = None  # the limit that it is being ended for
        self._has_stdin = self.is_pty or bool(ask.get("stdin"))
        self._orphans = (
            frozenset()
        )  # (pid, start time) of what descended from it when it was stopped
        self._timer = None
        environment = dict(base_env)
        environment.update(ask.get("env") or {})
        theirs, actions = self._open_terminal(ask["pty"]) if self.is_pty else self._open_pipes(ask)
        try:
            self.pid = spawn.start(self.argv, environment, self.cwd, actions)
        except BaseException:
            self._close_ours()
            raise
        finally:
            for fd in theirs:
                os.close(fd)
        for fd in self._sources:
            loop.watch(fd, lambda events, fd=fd: self._on_output(fd))
        if ask.get("timeout"):
            self._timer = loop.after(ask["timeout"], lambda: self.stop(TERM_GRACE_S, "timeout"))

    def began(self):
        """Return what a stream is told when it is attached."""
        return {"pid": self.pid, "stdin": self._has_stdin}

    def describe(self):
        return {
            "pid": self.pid,
            "argv": self.argv,
            "cwd": self.cwd,
            "pty": self.is_pty,
            "age": monotonic() - self.started,
        }

    def attach(self, stream):
        self.streams.append(stream)
        stream.on_data = lambda port, data: self._queue_stdin(data, stream)
        stream.on_eof = lambda port: self._queue_stdin(None, stream)
        stream.on_call = self._on_call
        stream.on_close = lambda: self._detach(stream)
        stream.on_room = self._resume

    def signal(self, number):
        """Signal the program, its session, and whatever descends from it in another session."""
        if number == _signal.SIGKILL:
            self._kill_family()
            return
        for pid in _family(self.pid, self._orphans):
            _kill(os.kill, pid, number)

    def _kill_family(self):
        """Stop the whole family, then kill it.

        A process in a session of its own is found through its parent only. If its parent forked
        it after /proc was read and was killed before the next read, it would escape. A stopped
        process forks nothing, so reading /proc until nothing new appears finds every child.
        """
        for _ in range(KILL_PASSES):
            stopped = set()
            while new := _family(self.pid, self._orphans).keys() - stopped:
                for pid in new:
                    _kill(os.kill, pid, _signal.SIGSTOP)
                stopped |= new
            for pid in stopped:
                _kill(os.kill, pid, _signal.SIGKILL)
            if not stopped - {self.pid}:
                return

    def stop(self, grace_s, limit):
        """SIGTERM, a moment to tidy up, then SIGKILL to all that is left of it. What descends from
        it now is remembered: an orphan in a session of its own could not be told any more."""
        self.stopped_by = limit
        self._orphans = frozenset(_family(self.pid).items())
        self.signal(_signal.SIGTERM)
        self._loop.after(grace_s, lambda: self.signal(_signal.SIGKILL))

    def exited(self, status, usage, on_ended):
        if self._timer is not None:
            self._loop.cancel(self._timer)
        if self.stopped_by is not None:
            self.signal(_signal.SIGKILL)  # what it started is not to outlive it
        self._ending = {
            "exit": os.WEXITSTATUS(status) if os.WIFEXITED(status) else 128 + os.WTERMSIG(status),
            "signal": os.WTERMSIG(status) if os.WIFSIGNALED(status) else 0,
            "duration": monotonic() - self.started,
            "cpu": usage.ru_utime + usage.ru_stime,
            "max_rss": usage.ru_maxrss << 10,
        }
        self._on_ended = on_ended
        if not self._sources:
            self._finish()
        else:
            self._loop.after(DRAIN_S, self._finish)

    def _finish(self):
        if self._on_ended is None:
            return
        if self._paused and any(s.is_open for s in self.streams):
            self._loop.after(DRAIN_S, self._finish)  # the host is slow, not the program: wait
            return
        on_ended, self._on_ended = self._on_ended, None
        self._close_stdin()
        on_ended(self, self._ending)
        self.streams = []
        self._resume()

    def _open_pipes(self, ask):
        out_r, out_w = os.pipe2(os.O_CLOEXEC)
        err_r, err_w = os.pipe2(os.O_CLOEXEC)
        if ask.get("stdin"):
            in_r, in_w = os.pipe2(os.O_CLOEXEC)
            os.set_blocking(in_w, False)
            self._stdin = in_w
        else:
            in_r = os.open("/dev/null", os.O_RDONLY | os.O_CLOEXEC)
        theirs = (in_r, out_w, err_w)
        os.set_blocking(out_r, False)
        os.set_blocking(err_r, False)
        self._sources = {out_r: 1, err_r: 2}
        return theirs, [(os.POSIX_SPAWN_DUP2, fd, n) for n, fd in enumerate(theirs)]

    def _open_terminal(self, size):
        master, slave = os.openpty()
        os.set_blocking(master, False)
        os.set_inheritable(slave, False)
        os.set_inheritable(master, False)
        _resize(master, size)
        self._sources = {master: 1}
        self._stdin = os.dup(master)
        # Opened by the leader of a new session, the terminal becomes its controlling one.
        name = os.ttyname(slave)
        actions = [(os.POSIX_SPAWN_OPEN, 0, name, os.O_RDWR, 0)]
        actions += [(os.POSIX_SPAWN_DUP2, 0, 1), (os.POSIX_SPAWN_DUP2, 0, 2)]
        return (slave,), actions

    def _close_ours(self):
        for fd in self._sources:
            os.close(fd)
        if self._stdin is not None:
            os.close(self._stdin)

    def _on_output(self, fd):
        attached = [s for s in self.streams if s.is_open]
        room = min([s.room for s in attached], default=wire.CHUNK)
        if room <= 0:
            self._paused.add(fd)
            self._loop.forget(fd)
            return
        try:
            data = os.read(fd, min(room, wire.CHUNK))
        except BlockingIOError:
            return
        except OSError:  # EIO: the terminal's last user is gone
            data = b""
        if not data:
            self._drop_source(fd)
            return
        for stream in attached:
            stream.data(self._sources[fd], data)

    def _drop_source(self, fd):
        self._loop.forget(fd)
        del self._sources[fd]
        os.close(fd)
        if not self._sources and self._ending is not None:
            self._finish()

    def _resume(self):
        while self._paused:
            fd = self._paused.pop()
            self._loop.watch(fd, lambda events, fd=fd: self._on_output(fd))

    def _detach(self, stream):
        if stream in self.streams:
            self.streams.remove(stream)
        self._resume()

    def _on_call(self, call):
        if call["op"] == "signal":
            self.signal(call["signal"])
        elif call["op"] == "stop":
            self.stop(call["grace"], "timeout")
        elif call["op"] == "resize" and self.is_pty:
            for fd in self._sources:
                _resize(fd, call)

    def _queue_stdin(self, data, stream):
        if self._stdin is None:
            if data:
                stream.give_credit(len(data))
            return
        if data is not None and self._stdin_bytes + len(data) > STDIN_QUEUE:
            stream.fail(OSError(errno.ENOBUFS, ""), "stdin")
            return
        self._stdin_queue.append((data, stream))
        self._stdin_bytes += len(data or b"")
        if len(self._stdin_queue) == 1:
            self._loop.watch(self._stdin, self._on_stdin, select.EPOLLOUT)

    def _on_stdin(self, events):
        data, stream = self._stdin_queue[0]
        if data is None:
            if self.is_pty:
                os.write(self._stdin, b"\x04")  # a terminal has no end of file, only this key
                self._stdin_queue.pop(0)
                if not self._stdin_queue:
                    self._loop.forget(self._stdin)
                return
            self._close_stdin()
            return
        try:
            sent = os.write(self._stdin, data)
        except BlockingIOError:
            return
        except OSError:  # the program closed its stdin: what is left has no reader
            self._close_stdin()
            return
        self._stdin_bytes -= sent
        if stream.is_open:
            stream.give_credit(sent)
        if sent < len(data):
            self._stdin_queue[0] = (data[sent:], stream)
            return
        self._stdin_queue.pop(0)
        if not self._stdin_queue:
            self._loop.forget(self._stdin)

    def _close_stdin(self):
        if self._stdin is None:
            return
        fd, self._stdin = self._stdin, None
        self._loop.forget(fd)
        os.close(fd)
        for data, stream in self._stdin_queue:
            if data and stream.is_open:
                stream.give_credit(len(data))
        self._stdin_queue = []


def _resize(fd, size):
    rows, cols = size["rows"], size["cols"]
    fcntl.ioctl(fd, TIOCSWINSZ, rows.to_bytes(2, "little") + cols.to_bytes(2, "little") + bytes(4))


def _kill(how, pid, number):
    try:
        how(pid, number)
    except (ProcessLookupError, PermissionError):
        pass


def _family(root, orphans=frozenset()):
    """Pids with start times: `root`'s session, `orphans`, and what is below them by parentage, as
    /proc shows it now; the dead aside."""
    links = {}
    for name in os.listdir("/proc"):
        if name.isdigit():
            links[int(name)] = _links(name)
    grew = {pid for pid, (_, session, _) in links.items() if session == root} | {root}
    grew |= {pid for pid, (_, _, began) in links.items() if (pid, began) in orphans}
    family = set()
    while grew:
        family |= grew
        grew = {pid for pid, (parent, _, _) in links.items() if parent in grew} - family
    return {pid: links[pid][2] for pid in family if pid in links}


def _links(name):
    """(parent, session, start time) of a process; zeros when it is gone or waits to be reaped."""
    try:
        with open(f"/proc/{name}/stat", "rb") as file:
            fields = file.read(1024).rpartition(b")")[2].split()
        if fields[0] in b"ZX":
            return (0, 0, 0)
        return (int(fields[1]), int(fields[3]), int(fields[19]))
    except (OSError, IndexError, ValueError):
        return (0, 0, 0)
