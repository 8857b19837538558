"""The few kernel calls that the standard library does not offer, through the C half of ctypes.

`import ctypes` would cost a third of the guest's start-up; `_ctypes` alone costs next to nothing.
"""

import _ctypes
import os

_NR = {  # x86_64, aarch64
    "x86_64": {"seccomp": 317, "capset": 126, "clone": 56, "move_mount": 429},
    "aarch64": {"seccomp": 277, "capset": 91, "clone": 220, "move_mount": 429},
}
CLONE_NEWNS, CLONE_NEWCGROUP, CLONE_NEWUTS = 0x00020000, 0x02000000, 0x04000000
CLONE_NEWIPC, CLONE_NEWUSER, CLONE_NEWPID = 0x08000000, 0x10000000, 0x20000000
CLONE_NEWNET = 0x40000000
MS_RDONLY, MS_NOSUID, MS_NODEV, MS_NOEXEC, MS_REMOUNT, MS_BIND = 1, 2, 4, 8, 32, 4096
MS_INERT = MS_NOSUID | MS_NODEV | MS_NOEXEC
_MOVE_MOUNT_F_EMPTY_PATH, _AT_FDCWD = 4, -100
PR_SET_NAME = 15
PR_SET_PDEATHSIG = 1
PR_SET_DUMPABLE = 4
PR_CAPBSET_DROP = 24
PR_SET_NO_NEW_PRIVS = 38
PR_CAP_AMBIENT = 47
PR_CAP_AMBIENT_CLEAR_ALL = 4
SECCOMP_SET_MODE_FILTER = 1
SECCOMP_FILTER_FLAG_NEW_LISTENER = 8
IN_NONBLOCK = 0o4000
IN_CLOEXEC = 0o2000000


class _Long(_ctypes._SimpleCData):
    _type_ = "l"


class _Pointer(_ctypes._SimpleCData):
    _type_ = "P"


class _Text(_ctypes._SimpleCData):
    _type_ = "z"


class _Function(_ctypes.CFuncPtr):
    _flags_ = _ctypes.FUNCFLAG_CDECL | _ctypes.FUNCFLAG_USE_ERRNO
    _restype_ = _Long


class _LockedFunction(_ctypes.CFuncPtr):
    """Keeps the interpreter's lock while it runs."""

    _flags_ = _ctypes.FUNCFLAG_CDECL | _ctypes.FUNCFLAG_PYTHONAPI | _ctypes.FUNCFLAG_USE_ERRNO
    _restype_ = _Long


_libc = _ctypes.dlopen(None, 0)  # type: ignore[arg-type]


def _function(name):
    return _Function(_ctypes.dlsym(_libc, name))


_prctl = _function("prctl")
_unshare = _function("unshare")
_setns = _function("setns")
_mount = _function("mount")
_syscall = _function("syscall")
_inotify_init1 = _function("inotify_init1")
_inotify_add_watch = _function("inotify_add_watch")


_memmove = _function("memmove")
_fork_functions = [
    _LockedFunction(_ctypes.dlsym(_libc, name))
    for name in ("PyOS_BeforeFork", "PyOS_AfterFork_Parent", "PyOS_AfterFork_Child", "syscall")
]


def _check(value, path=None):
    if value < 0:
        code = _ctypes.get_errno()
        raise OSError(code, os.strerror(code), os.fsdecode(path) if path else None)
    return value


def prctl(option, a=0, b=0, c=0, d=0):
    return _check(_prctl(_Long(option), _Long(a), _Long(b), _Long(c), _Long(d)))


def syscall(name, *arguments):
    number = _NR[os.uname().machine][name]
    return _check(_syscall(_Long(number), *arguments))


def unshare(kinds):
    """New namespaces for this process, or (pid) for its next child."""
    _check(_unshare(_Long(kinds)))


def setns(fd, kind):
    """Joins the namespace that is open at `fd`."""
    _check(_setns(_Long(fd), _Long(kind)))


def mount(source, target, kind, flags, options=None):
    arguments = [_Text(source), _Text(target), _Text(kind), _Long(flags), _Text(options)]
    _check(_mount(*arguments), target)


def move_mount(fd, target):
    """Puts a detached mount on a path."""
    flags = _Long(_MOVE_MOUNT_F_EMPTY_PATH)
    syscall("move_mount", _Long(fd), _Text(b""), _Long(_AT_FDCWD), _Text(target), flags)


def clone(flags):
    """Like os.fork, with flags (CLONE_PIDFD is among them); returns pid and pidfd.

    The child comes back as the only thread, with the interpreter's lock, which the call therefore
    must not let go of; what the interpreter does around a fork is done by hand.
    """
    before, in_parent, in_child, call = _fork_functions
    where = _buffer(bytes(4))
    number = _NR[os.uname().machine]["clone"]
    before()
    pid = call(_Long(number), _Long(flags), _Long(0), _Pointer(_address(where)), _Long(0), _Long(0))
    if pid == 0:
        in_child()
        return 0, -1
    code = _ctypes.get_errno()
    in_parent()
    if pid < 0:
        raise OSError(code, f"no user namespace can be made: {os.strerror(code)}")
    return pid, int.from_bytes(where.raw, "little")


def write_memory(address, content):
    """Write into the memory of this process itself."""
    source = _buffer(content)
    _memmove(_Pointer(address), _Pointer(_address(source)), _Long(len(content)))


def set_name(name):
    """Set the name that the kernel has for this process."""
    content = _buffer(name + b"\0")
    prctl(PR_SET_NAME, _address(content))


def install_seccomp(program):
    """Installs a BPF program on this process and returns the listener for its notifications."""
    # struct sock_fprog { unsigned short len; struct sock_filter *filter; }
    code = _buffer(program)
    header = _buffer(
        (len(program) // 8).to_bytes(8, "little") + _address(code).to_bytes(8, "little")
    )
    return syscall(
        "seccomp",
        _Long(SECCOMP_SET_MODE_FILTER),
        _Long(SECCOMP_FILTER_FLAG_NEW_LISTENER),
        _Pointer(_address(header)),
    )


def drop_capabilities():
    """Empties every capability set; bwrap leaves none by default, this makes it certain."""
    prctl(PR_CAP_AMBIENT, PR_CAP_AMBIENT_CLEAR_ALL)
    for cap in range(64):
        try:
            prctl(PR_CAPBSET_DROP, cap)
        except OSError:
            break  # past the last capability, or (without CAP_SETPCAP) nothing left to drop with
    header = _buffer((0x20080522).to_bytes(4, "little") + bytes(4))
    empty = _buffer(bytes(24))
    syscall("capset", _Pointer(_address(header)), _Pointer(_address(empty)))


def inotify_init():
    return _check(_inotify_init1(_Long(IN_NONBLOCK | IN_CLOEXEC)))


def inotify_add_watch(fd, path, mask):
    return _check(_inotify_add_watch(_Long(fd), _Text(os.fsencode(path)), _Long(mask)))


class _Byte(_ctypes._SimpleCData):
    _type_ = "c"


def _buffer(content):
    class Bytes(_ctypes.Array):
        _type_ = _Byte
        _length_ = len(content)

    array = Bytes()
    array.raw = content
    return array


def _address(array):
    return _ctypes.addressof(array)
