"""Where guests are born: a small process with the guest's code loaded, which forks one for each
sandbox that the keeper asks for.

A fresh interpreter would cost more than all the rest of a start. It is a process of its own, not
the keeper, so that a guest carries nothing in its memory that belongs to another sandbox. It dies
with the keeper, and every guest dies with it. Started by `nursery.start`.
"""

import _signal
import _socket
import os

import enter
import syscalls
import wire
from agreed import USER_ID

CLONE_PIDFD = 0x1000
MAX_ASK = 1 << 20
_MARK = "PADDOCK_NURSERY"
MAX_FDS = 250  # the kernel's own bound on one message is 253


def start(fd, again):
    """Serves on the keeper's socket. `again` are the words that start this program once more.

    An ordinary user may look into the memory of a process only in a user namespace of his own, and
    it is the exec that makes it one. The host must look: it reads what programs are executed.
    """
    if os.geteuid() != 0 and not os.environ.get(_MARK):
        uid, gid = os.geteuid(), os.getegid()
        syscalls.unshare(syscalls.CLONE_NEWUSER)
        enter.map_ids(USER_ID, uid, gid)
        os.execve(again[0], again, {_MARK: "1"})
    serve(fd)


def serve(fd):
    """Forks until the keeper hangs up."""
    sock = _socket.socket(_socket.AF_UNIX, _socket.SOCK_SEQPACKET, 0, fd)
    syscalls.prctl(syscalls.PR_SET_PDEATHSIG, _signal.SIGKILL)
    for number in (_signal.SIGINT, _signal.SIGTERM, _signal.SIGHUP, _signal.SIGCHLD):
        _signal.signal(number, _signal.SIG_IGN)  # of children: the kernel reaps, the keeper knows
    life, _ = os.pipe2(os.O_CLOEXEC)  # a guest keeps the first alone: its end is our end
    while True:
        try:
            data, fds = _receive(sock)
        except ConnectionResetError:
            return
        if not data:
            return
        ask = wire.unpack_map(data)
        ask["life"] = life
        ask["caller"] = (os.geteuid(), os.getegid())  # a new namespace knows nobody
        try:
            pid, pidfd = _fork(ask, fds)
        except OSError as error:
            _reply(sock, {"error": error.errno, "text": str(error)}, [])
        else:
            _reply(sock, {"pid": pid}, [pidfd])
            os.close(pidfd)
        for fd in fds:
            os.close(fd)


def _fork(ask, fds):
    """The new guest's pid and a descriptor of it, taken before it could end."""
    mapped_r, mapped_w = os.pipe2(os.O_CLOEXEC)
    try:
        pid, pidfd = _clone(ask["uid"])
        if pid == 0:
            os.close(mapped_w)
            enter.enter(ask, fds, mapped_r)
        if ask["uid"]:
            try:
                _map(pid, ask["uid"])
            except OSError:  # it was killed in this very moment
                os.close(pidfd)
                raise
            os.write(mapped_w, b"x")
        return pid, pidfd
    finally:
        os.close(mapped_r)
        os.close(mapped_w)


def _clone(uid):
    """As the sandbox's uid: whoever makes a user namespace pays for all that is held in it, and
    the host's root must not run out of inotify instances because of a sandbox."""
    flags = syscalls.CLONE_NEWUSER | syscalls.CLONE_NEWPID | CLONE_PIDFD | _signal.SIGCHLD
    if not uid:
        return syscalls.clone(flags)
    os.setegid(uid)
    os.seteuid(uid)
    pid = -1
    try:
        pid, pidfd = syscalls.clone(flags)
        return pid, pidfd
    finally:
        if pid:  # the child goes on as it is
            os.seteuid(0)
            os.setegid(0)


def _map(pid, uid):
    """Root of the new namespace is the sandbox's uid outside. Only root may say so."""
    for name in ("uid_map", "gid_map"):
        fd = os.open(f"/proc/{pid}/{name}", os.O_WRONLY | os.O_CLOEXEC)
        try:
            os.write(fd, b"0 %d 1\n" % uid)
        finally:
            os.close(fd)


def _receive(sock):
    data, ancillary, _, _ = sock.recvmsg(MAX_ASK, _socket.CMSG_SPACE(4 * MAX_FDS))
    fds = []
    for level, kind, content in ancillary:
        if level == _socket.SOL_SOCKET and kind == _socket.SCM_RIGHTS:
            size = len(content) // 4
            fds += [int.from_bytes(content[4 * n : 4 * n + 4], "little") for n in range(size)]
    return data, fds


def _reply(sock, value, fds):
    content = b"".join(fd.to_bytes(4, "little") for fd in fds)
    ancillary = [(_socket.SOL_SOCKET, _socket.SCM_RIGHTS, content)] if fds else []
    sock.sendmsg([wire.pack(value)], ancillary)
