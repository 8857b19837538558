"""The guest's way in: from a fork of the nursery to pid 1 of a sandbox, before it boots.

It begins as the first process of a user and a pid namespace, lets bubblewrap make a file system in
there, without running anything, and moves in. Nothing untrusted runs before the end of this file.
"""

import _signal
import _socket
import fcntl
import os
import sys

import main
import syscalls
import wire
from agreed import (
    BROUGHT,
    GO_FD,
    INFO_FD,
    MAX_TERMINALS,
    PIDNS_FD,
    PLACE,
    PROGRAM_FD,
    SOCKETS,
    SOURCE_FD,
    STAGE,
    USER_ID,
)

_KEPT = 3  # the first descriptor that is kept
_MAX_CONFIG = 1 << 20
_MAX_GROUPS = 16
_SIOCGIFFLAGS, _SIOCSIFFLAGS, _IFF_UP = 0x8913, 0x8914, 1
_ARG_START, _ARG_END = 45, 46  # of /proc/self/stat, counted after the name
_NAME = b"paddock-guest"


def enter(ask, fds, mapped):
    """The child's side of the fork; never returns. `fds` are the channel, the boot socket, the
    descriptor for errors, bubblewrap with its libraries, and the trees of the plan; `mapped` can
    be read when the ids are."""
    attempt = "read its configuration"
    try:
        channel, boot_fd, life, mapped, *others = _keep(fds, ask["life"], mapped)
        first_tree = len(others) - len(ask["trees"])
        programs, trees = others[:first_tree], others[first_tree:]
        boot = _socket.socket(_socket.AF_UNIX, _socket.SOCK_SEQPACKET, 0, boot_fd)
        _forget()
        # From here on its words come from the host itself: the nursery, whose memory every later
        # guest has a copy of, must not see them.
        config = wire.unpack_map(boot.recv(_MAX_CONFIG))
        attempt = "take the sandbox's uid"
        if ask["uid"]:
            _become(mapped)
        else:
            map_ids(0, *ask["caller"])
        os.close(mapped)
        attempt = "start bubblewrap"
        sources = list(zip(ask["trees"], trees, strict=True))
        making = _Making(config["argv"], programs, sources, is_staged=bool(ask["uid"]))
        attempt = "make its namespaces"
        _separate(config["hostname"])
        sockets = _open_sockets()
        attempt = "enter the file system that bubblewrap made"
        making.move_in(config["masked"])
        attempt = "join its control groups"
        _place(boot)
        attempt = "become an ordinary user"
        syscalls.unshare(syscalls.CLONE_NEWCGROUP)  # now: its root is the group it was placed in
        syscalls.unshare(syscalls.CLONE_NEWUSER)
        map_ids(USER_ID, 0, 0)
        making.end()
        attempt = "serve"
        main.serve(channel, boot.detach(), life, config, sockets)
    except BaseException as error:
        os.write(2, f"the guest did not boot: it could not {attempt}: {_reason(error)}".encode())
    finally:
        os._exit(125)


def _reason(error):
    """Return what went wrong and on which file, as a person would say it."""
    if not isinstance(error, OSError) or not error.strerror:
        return repr(error)
    return f"{error.filename}: {error.strerror}" if error.filename else error.strerror


def _keep(fds, life, mapped):
    """Closes all others, and gives these the numbers from 3 up."""
    channel, boot, errors, *others = fds
    wanted = [channel, boot, life, mapped, *others]
    above = _KEPT + len(wanted)
    null = os.open("/dev/null", os.O_RDWR)
    lifted = [fcntl.fcntl(fd, fcntl.F_DUPFD_CLOEXEC, above) for fd in (null, errors, *wanted)]
    for target, fd in enumerate((lifted[0], *lifted)):
        os.dup2(fd, target, inheritable=target < _KEPT)
    os.closerange(above + 1, 1 << 20)
    os.close(above)
    return range(_KEPT, above)


def _forget():
    os.setsid()
    _rename()
    for number in (_signal.SIGCHLD, _signal.SIGTERM, _signal.SIGHUP):
        _signal.signal(number, _signal.SIG_DFL)
    # What is not loaded by now would come from the sandbox's own files.
    sys.path.clear()
    sys.meta_path.clear()


def _rename():
    """Change the command line of pid 1, which all may read inside: it must not tell of the host."""
    fd = os.open("/proc/self/stat", os.O_RDONLY | os.O_CLOEXEC)
    fields = os.read(fd, 4096).rpartition(b")")[2].split()
    os.close(fd)
    start, end = int(fields[_ARG_START]), int(fields[_ARG_END])
    if end > start:
        syscalls.write_memory(start, _NAME[: end - start - 1].ljust(end - start, b"\0"))
    syscalls.set_name(_NAME)


def _become(mapped):
    """Root of this user namespace alone, which stands for the sandbox's uid outside."""
    if not os.read(mapped, 1):
        os._exit(0)  # the nursery is gone
    os.setgroups([])
    os.setresgid(0, 0, 0)
    os.setresuid(0, 0, 0)


class _Making:
    """bubblewrap at work on the file system, in this pid namespace but outside of the sandbox's
    network, while the guest goes on."""

    def __init__(self, argv, programs, sources, *, is_staged):
        """`programs` are bubblewrap and its libraries; `sources` are of each tree its number in
        the plan and whether it is a directory, and its descriptor."""
        syscalls.unshare(syscalls.CLONE_NEWNS)
        if is_staged:
            _attach(sources)
        # Of this pid namespace: it names bubblewrap's child as we do.
        syscalls.mount(b"proc", b"/proc", b"proc", syscalls.MS_INERT)
        pid_namespace = os.open("/proc/self/ns/pid", os.O_RDONLY | os.O_CLOEXEC)
        self._info, info = os.pipe2(os.O_CLOEXEC)
        self._go, go = _socket.socketpair(_socket.AF_UNIX, _socket.SOCK_STREAM)
        given = {INFO_FD: info, GO_FD: go.fileno(), PIDNS_FD: pid_namespace}
        if not is_staged:
            given.update({SOURCE_FD + n: fd for (n, _), fd in sources})
        self._pid = _spawn(argv.split("\0"), programs, given)
        for fd in (info, pid_namespace, *programs, *(fd for _, fd in sources)):
            os.close(fd)
        go.close()

    def move_in(self, masked):
        """Waits until the file system is made, enters it, and covers what it must not show.

        bubblewrap names the process that makes it, and holds that one at the end of its work until
        it can read a byte. The byte is sent only when the namespace is in our hands. A clean end
        of the stream then means that the byte was read, so all was done; had it died before, the
        kernel would report a reset, because the byte was not read.
        """
        namespace = os.open(f"/proc/{self._child()}/ns/mnt", os.O_RDONLY | os.O_CLOEXEC)
        self._go.send(b"x")
        try:
            is_made = self._go.recv(1) == b""
        except ConnectionResetError:
            is_made = False
        if not is_made:
            os._exit(125)  # it has said why on the descriptor for errors
        self._go.close()
        outside = os.stat("/")
        syscalls.setns(namespace, syscalls.CLONE_NEWNS)
        os.close(namespace)
        os.chdir("/")
        _check_moved(outside)
        for path in masked:
            _mask(path)
        _limit_terminals()

    def end(self):
        """It has nothing more to do, and ends by itself."""
        os.waitpid(self._pid, 0)

    def _child(self):
        info = b""
        while not info.rstrip().endswith(b"}"):
            part = os.read(self._info, 4096)
            if not part:
                os._exit(125)
            info += part
        os.close(self._info)
        return int(info.partition(b'"child-pid":')[2].replace(b"\n", b",").split(b",")[0])


def _check_moved(outside):
    """Looks, instead of believing: this is not the host's root, and has what we brought."""
    here = os.stat("/")
    is_host = (here.st_dev, here.st_ino) == (outside.st_dev, outside.st_ino)
    if is_host or not os.path.isdir(BROUGHT):
        raise OSError("bubblewrap made no file system, though it said so")


def _attach(trees):
    flags = syscalls.MS_INERT
    syscalls.mount(b"tmpfs", STAGE.encode(), b"tmpfs", flags, b"mode=755,size=64k")
    for (number, is_directory), fd in trees:
        target = f"{STAGE}/{number}"
        if is_directory:
            os.mkdir(target)
        else:
            os.close(os.open(target, os.O_CREAT | os.O_WRONLY))
        syscalls.move_mount(fd, target.encode())


def _mask(path):
    """Reads of it would tell about the host or other sandboxes."""
    if os.path.isdir(path):
        flags = syscalls.MS_INERT | syscalls.MS_RDONLY
        syscalls.mount(b"tmpfs", path.encode(), b"tmpfs", flags, b"mode=755,size=4k")
    else:
        syscalls.mount(b"/dev/null", path.encode(), None, syscalls.MS_BIND)


def _limit_terminals():
    """The host has one number of pseudo-terminals for all that it shares out (kernel.pty.max), and
    bubblewrap's instance of them may take every one. The other options stay as they are there."""
    flags = syscalls.MS_REMOUNT | syscalls.MS_NOSUID | syscalls.MS_NOEXEC
    options = b"mode=620,ptmxmode=0666,max=%d" % MAX_TERMINALS
    syscalls.mount(b"devpts", b"/dev/pts", b"devpts", flags, options)


def _spawn(argv, programs, descriptors):
    """Starts bubblewrap with these descriptors and no others, without copying this process.

    It and its libraries are named by descriptors: this uid may have no way to where they are.
    """
    numbers = range(PROGRAM_FD, PROGRAM_FD + len(programs))
    program, *libraries = (f"/proc/self/fd/{number}" for number in numbers)
    environment = {"LD_PRELOAD": ":".join(libraries)} if libraries else {}
    descriptors = {**descriptors, **dict(zip(numbers, programs, strict=True))}
    above = max(descriptors) + 1
    lifted = {
        target: fcntl.fcntl(fd, fcntl.F_DUPFD_CLOEXEC, above) for target, fd in descriptors.items()
    }
    actions = [(os.POSIX_SPAWN_DUP2, fd, target) for target, fd in lifted.items()]
    try:
        return os.posix_spawn(program, argv, environment, file_actions=actions, setsigmask=[])
    finally:
        for fd in lifted.values():
            os.close(fd)


def _separate(hostname):
    """Network, IPC and names of its own; loopback is the only interface, and up."""
    kinds = syscalls.CLONE_NEWNET | syscalls.CLONE_NEWIPC | syscalls.CLONE_NEWUTS
    syscalls.unshare(kinds)
    _socket.sethostname(hostname)
    sock = _socket.socket(_socket.AF_INET, _socket.SOCK_DGRAM)
    answer = fcntl.ioctl(sock.fileno(), _SIOCGIFFLAGS, b"lo".ljust(40, b"\0"))
    flags = int.from_bytes(answer[16:18], "little") | _IFF_UP
    request = b"lo".ljust(16, b"\0") + flags.to_bytes(2, "little") + bytes(22)
    fcntl.ioctl(sock.fileno(), _SIOCSIFFLAGS, request)
    sock.close()
    _allow_ping()


def _allow_ping():
    """So that a ping fails at the network, where it is seen, and not before."""
    try:
        fd = os.open("/proc/sys/net/ipv4/ping_group_range", os.O_WRONLY | os.O_CLOEXEC)
        os.write(fd, b"0 0")
        os.close(fd)
    except OSError:
        pass  # then there is no ping at all


def _open_sockets():
    """For the host, by number in SOCKETS: what it does with them happens in this network. Opened
    while this process may administer it, because the kernel asks for that of who opened them too.
    """
    opened = {}
    for number, (_, family, kind, protocol) in enumerate(SOCKETS):
        try:
            opened[number] = _socket.socket(family, kind, protocol)
        except OSError:
            pass  # not on this kernel; the host sees which are missing
    return opened


def _place(boot):
    """Joins the control groups that the host sent. To move itself costs a process nothing; to be
    moved by another makes the kernel wait for all of them. The host looks whether it is true."""
    word, ancillary, _, _ = boot.recvmsg(len(PLACE), _socket.CMSG_SPACE(4 * _MAX_GROUPS))
    if word != PLACE:
        os._exit(0)  # the host gave up
    for _, _, content in ancillary:
        for n in range(0, len(content), 4):
            fd = int.from_bytes(content[n : n + 4], "little")
            os.write(fd, b"0")
            os.close(fd)


def map_ids(inner, uid, gid):
    """Map one id, as an ordinary user may write it for himself."""
    # A change of uid takes the process's own /proc files away from it; nothing untrusted is there
    # yet that could look in. The guest's boot closes this again.
    syscalls.prctl(syscalls.PR_SET_DUMPABLE, 1)
    for name, text in (
        ("setgroups", "deny"),
        ("uid_map", f"{inner} {uid} 1"),
        ("gid_map", f"{inner} {gid} 1"),
    ):
        fd = os.open(f"/proc/self/{name}", os.O_WRONLY | os.O_CLOEXEC)
        os.write(fd, text.encode())
        os.close(fd)
