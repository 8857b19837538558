"""Pid 1 of a sandbox: early boot, then the loop. Started by `main.serve`.

Order matters. Before anything untrusted runs: no debugger can look in (dumpable off), limits are
set, capabilities are gone, no new privileges, the seccomp filter is on and its listener is in the
host's hands. Only then is the first operation of the host's read.
"""

import _signal
import _socket
import os
import resource

import files
import limits
import lock_watch
import processes
import syscalls
import watches
from agreed import CERTIFICATES, HOST_CERTIFICATES, READY, RESOLVER
from loop import HostChannel, Loop

_RLIMITS = {
    "nofile": resource.RLIMIT_NOFILE,
    "nproc": resource.RLIMIT_NPROC,
    "core": resource.RLIMIT_CORE,
    "data": resource.RLIMIT_DATA,
    "fsize": resource.RLIMIT_FSIZE,
    "memlock": resource.RLIMIT_MEMLOCK,
    "msgqueue": resource.RLIMIT_MSGQUEUE,
    "rtprio": resource.RLIMIT_RTPRIO,
}


def serve(channel_fd, boot_fd, line_fd, config, sockets):
    """Boots and serves until the host hangs up; never returns. `line_fd` leads to the parent,
    which must not be outlived; `sockets` are for the host alone."""
    os.set_inheritable(channel_fd, False)  # no program may speak on it
    _signal.signal(_signal.SIGINT, _signal.SIG_IGN)  # Python's own handler would make pid 1 mortal
    boot(boot_fd, line_fd, config, sockets)
    loop = Loop()
    table = processes.Table(loop, config["env"])
    if config.get("watch_memory"):
        limits.MemoryWatch(loop, table, config["watch_memory"], config["rlimits"]["nproc"])
    if config["watch_locks"]:
        lock_watch.LockWatch(loop, limits.pids)
    HostChannel(channel_fd, loop, operations(loop, table))
    loop.run()


def boot(fd, line_fd, config, sockets):
    """Put everything in force that must hold before the first untrusted instruction."""
    sock = _socket.socket(_socket.AF_UNIX, _socket.SOCK_SEQPACKET, 0, fd)
    syscalls.prctl(syscalls.PR_SET_DUMPABLE, 0)
    _write_names(config["hostname"])
    for name, value in config["rlimits"].items():
        hard = resource.getrlimit(_RLIMITS[name])[1]
        value = value if hard == resource.RLIM_INFINITY else min(value, hard)
        resource.setrlimit(_RLIMITS[name], (value, value))
    if config.get("cpus"):
        os.sched_setaffinity(0, config["cpus"])
    os.umask(0o022)
    os.chdir("/")
    syscalls.drop_capabilities()
    syscalls.prctl(syscalls.PR_SET_NO_NEW_PRIVS, 1)
    _die_with(line_fd)
    listener = syscalls.install_seccomp(config["seccomp"])
    fds = [listener, *(opened.fileno() for opened in sockets.values())]
    content = b"".join(fd.to_bytes(4, "little") for fd in fds)
    rights = (_socket.SOL_SOCKET, _socket.SCM_RIGHTS, content)
    sock.sendmsg([READY + bytes(sockets)], [rights])
    os.close(listener)
    for opened in sockets.values():  # whoever had one could change the rules of the network
        opened.close()
    sock.close()
    null = os.open("/dev/null", os.O_RDWR)
    for target in (0, 1, 2):
        os.dup2(null, target)
    os.close(null)


def _die_with(line_fd):
    """The kernel ends us with our parent, from here on; before, the line would have ended.
    Not earlier: a change of privileges takes this back."""
    syscalls.prctl(syscalls.PR_SET_PDEATHSIG, _signal.SIGKILL)
    os.set_blocking(line_fd, False)
    try:
        os.read(line_fd, 1)
    except BlockingIOError:
        os.close(line_fd)
        return
    os._exit(0)


def operations(loop, table):
    """Return the function that begins what the host asks for."""
    freezer = limits.Freezer(loop)
    by_name = {
        "exec": table.start,
        "attach": table.attach,
        "processes": table.list,
        "signal": table.signal,
        "read": files.read,
        "write": files.write,
        "furnish": files.furnish,
        "stat": files.stat,
        "list": files.listing,
        "make_dir": files.make_dir,
        "resolve": files.resolve,
        "rename": files.rename,
        "remove": lambda stream, ask: files.remove(loop, stream, ask),
        "watch": lambda stream, ask: watches.watch(loop, stream, ask),
        "lock": lambda stream, ask: watches.lock(loop, stream, ask),
        "freeze": freezer.freeze,
        "thaw": freezer.thaw,
        "usage": limits.usage,
        "deleted_bytes": limits.deleted_bytes,
        "kill_all": lambda stream, ask: (table.kill_everything(ask["limit"]), stream.end({})),
        "ping": lambda stream, ask: stream.end({}),
    }

    def open_stream(stream, ask):
        operation = by_name.get(ask.get("op"))
        if operation is None:
            stream.fail(ValueError("unknown operation {!r}".format(ask.get("op"))))
            return
        try:
            operation(stream, ask)
        except Exception as error:  # whatever an agent's files provoke, pid 1 goes on
            stream.fail(ValueError(f"bad request: {error!r}"))

    return open_stream


def _write_names(hostname):
    # /etc is shared and read-only; what differs there between sandboxes is a link to one of these.
    try:
        with open("/run/hosts", "w") as file:
            file.write(f"127.0.0.1 localhost {hostname}\n::1 localhost\n")
        with open("/run/hostname", "w") as file:
            file.write(hostname + "\n")
        os.close(os.open(RESOLVER, os.O_CREAT | os.O_WRONLY | os.O_CLOEXEC, 0o644))
        os.symlink(HOST_CERTIFICATES, CERTIFICATES)
    except OSError:
        pass  # a template may bring an own /run; names then resolve by the template's own files
