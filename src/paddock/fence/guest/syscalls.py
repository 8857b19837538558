"""The few kernel calls that the standard library does not offer, through the C half of ctypes.

`import ctypes` would cost a third of the guest's start-up; `_ctypes` alone costs next to nothing.
"""

import _ctypes
import os

_NR = {  # x86_64, aarch64
    "x86_64": {"seccomp": 317, "capset": 126, "close_range": 436},
    "aarch64": {"seccomp": 277, "capset": 91, "close_range": 436},
}
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


_libc = _ctypes.dlopen(None, 0)  # type: ignore[arg-type]


def _function(name):
    return _Function(_ctypes.dlsym(_libc, name))


_prctl = _function("prctl")
_syscall = _function("syscall")
_inotify_init1 = _function("inotify_init1")
_inotify_add_watch = _function("inotify_add_watch")


def _check(value):
    if value < 0:
        code = _ctypes.get_errno()
        raise OSError(code, os.strerror(code))
    return value


def prctl(option, a=0, b=0, c=0, d=0):
    return _check(_prctl(_Long(option), _Long(a), _Long(b), _Long(c), _Long(d)))


def syscall(name, *arguments):
    number = _NR[os.uname().machine][name]
    return _check(_syscall(_Long(number), *arguments))


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


def close_from(first):
    """Closes every descriptor from `first` up."""
    syscall("close_range", _Long(first), _Long(0xFFFFFFFF), _Long(0))


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
