"""The files that a process in a pen sees, and the arguments of bubblewrap for them."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

import msgspec

from paddock.model.errors import InvalidInput
from paddock.state.home import Home

OWN = "/pen"  # the pen's directory, the same in every world, because state may hold paths
CODE = "/.paddock"  # Paddock's own code, without the packages around it
TMP, _SHARED = "/tmp", "/dev/shm"  # noqa: S108  as the pen sees them
_UID = 1000
_TMP_BYTES = 256 << 20
_MAX_MASKS = 500
_TOP = ("bin", "sbin", "lib", "lib32", "lib64", "libx32")
# Needed to run programs. None of it has anything about people or keys.
_ETC = ("alternatives", "ld.so.cache", "ld.so.conf", "ld.so.conf.d", "localtime", "timezone",
        "mime.types", "nsswitch.conf", "protocols", "services", "ssl/certs", "ssl/openssl.cnf",
        "gai.conf", "fonts", "magic", "perl", "terminfo")  # fmt: skip
_ETC_FILES = {
    "/etc/passwd": f"standin:x:UID:UID::{OWN}:/bin/sh\n",
    "/etc/group": "standin:x:UID:\n",
    "/etc/hosts": "127.0.0.1 localhost\n::1 localhost\n",
    "/etc/hostname": "standin\n",
}


class PenMounts(msgspec.Struct, frozen=True):
    """The parts of the host's file system that are visible in a pen."""

    own: Path  # bound to OWN
    project: Path | None = None  # readable, but for keys and dot files
    reads: tuple[Path, ...] = ()  # readable, at the same path
    links: tuple[tuple[Path, str], ...] = ()  # symbolic links to make, with their targets
    packages: tuple[Path, ...] = ()  # Python packages that can be imported beside Paddock
    files: tuple[tuple[Path, str], ...] = ()  # single files that are shared, writable
    is_unix_allowed: bool = False  # only where no socket of the host can be seen
    uid: int | None = None  # of the host, to run as; only for root, and if that uid may read all


def bwrap_arguments(
    mounts: PenMounts, bwrap: str, file_fds: dict[str, int], filter_fd: int
) -> list[str]:
    """Return bubblewrap's command line, up to the program. `file_fds` are descriptors by target."""
    argv = [bwrap, *_identity(mounts), "--hostname", "standin"]
    argv += ["--die-with-parent", "--new-session", "--clearenv"]
    argv += ["--ro-bind", "/usr", "/usr", *_top(), "--proc", "/proc", "--dev", "/dev"]
    # If root runs Paddock, the kernel takes the stand-in for root too, and settings in /proc check
    # only that.
    argv += ["--remount-ro", "/proc"]
    argv += ["--size", str(_TMP_BYTES), "--perms", "1777", "--tmpfs", TMP]
    argv += ["--dir", "/etc"]  # implicitly made, only root could enter it
    for name in _ETC:
        argv += ["--ro-bind-try", f"/etc/{name}", f"/etc/{name}"]
    for target, fd in file_fds.items():
        argv += ["--perms", "0644", "--ro-bind-data", str(fd), target]
    argv += _project(mounts.project, empty_file(mounts))
    for path in mounts.reads:
        argv += ["--ro-bind", str(path), str(path)]
    visible = list(mounts.reads)
    if mounts.project is not None:
        visible.append(mounts.project)
    for link, link_target in mounts.links:
        if not any(link.is_relative_to(tree) for tree in visible):
            argv += ["--symlink", link_target, str(link)]
    for package in (_package(), *mounts.packages):
        argv += ["--ro-bind", str(package), f"{CODE}/{package.name}"]
    argv += ["--bind", str(mounts.own), OWN]
    for source, target in mounts.files:
        argv += ["--bind", str(source), target]
    # Pseudo-terminals are shared with the whole host, and a stand-in needs none.
    argv += ["--size", "4096", "--tmpfs", "/dev/pts", "--remount-ro", "/dev/pts"]
    # Otherwise /dev is memory without a limit. /dev/shm stays writable, with a limit.
    argv += ["--remount-ro", "/dev", "--size", str(_TMP_BYTES), "--perms", "1777"]
    argv += ["--tmpfs", _SHARED, "--remount-ro", "/", "--seccomp", str(filter_fd)]
    return [*argv, "--chdir", "/", "--"]


def etc_files(mounts: PenMounts) -> dict[str, bytes]:
    """Return the files of /etc that are made up, by path."""
    uid = str(_UID if mounts.uid is None else mounts.uid)
    return {target: text.replace("UID", uid).encode() for target, text in _ETC_FILES.items()}


def empty_file(mounts: PenMounts) -> Path:
    """Return an empty file that covers hidden ones: some programs fail if they cannot open one."""
    return mounts.own.with_name("empty")


def is_visible(path: Path) -> bool:
    """Return whether a path belongs to the system, which is visible anyway."""
    first = path.parts[1] if len(path.parts) > 1 else ""
    return not first or first in ("usr", *_TOP)


def _identity(mounts: PenMounts) -> list[str]:
    if mounts.uid is None:
        uid = str(_UID)
        argv = ["--unshare-all", "--unshare-user", "--disable-userns", "--cap-drop", "ALL"]
        return [*argv, "--uid", uid, "--gid", uid]
    argv = ["--unshare-ipc", "--unshare-pid", "--unshare-net", "--unshare-uts"]
    argv += ["--unshare-cgroup-try", "--cap-drop", "ALL"]
    return [*argv, "--cap-add", "CAP_SETUID", "--cap-add", "CAP_SETGID"]  # the warden gives them up


def _package() -> Path:
    return Path(__file__).resolve().parents[2]


def _top() -> Iterator[str]:
    for name in _TOP:
        path = Path("/", name)
        if path.is_symlink():
            yield from ("--symlink", os.readlink(path), str(path))
        elif path.is_dir():
            yield from ("--ro-bind", str(path), str(path))


def _project(project: Path | None, empty: Path) -> list[str]:
    if project is None:
        return []
    if project == Path("/"):
        raise InvalidInput("the project is the root directory; stand-ins may not read all of it")
    argv = ["--ro-bind", str(project), str(project)]
    for path in _hidden_paths(project):
        argv += ["--tmpfs", str(path)] if path.is_dir() else ["--ro-bind", str(empty), str(path)]
    return argv


def _hidden_paths(project: Path) -> Iterator[Path]:
    """Yield what is hidden: dot files of project and home, and Paddock's state with its keys."""
    yield from _dot_files(project)
    home = Path(os.path.expanduser("~"))
    if home != project and home.is_relative_to(project):
        yield from _dot_files(home)
    state = Home.find().root.absolute()
    if state != project and state.is_relative_to(project):
        yield state


def _dot_files(directory: Path) -> list[Path]:
    paths = [path for path in directory.glob(".*") if not path.is_symlink()]
    if len(paths) > _MAX_MASKS:
        raise InvalidInput(f"{directory} has too many dot files to keep them from a stand-in")
    return sorted(paths)
