"""What a process in a pen sees of the host, as data, and how bubblewrap is told."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

import msgspec

from paddock.model.errors import InvalidInput
from paddock.state.home import Home

OWN = "/pen"  # the own directory, at the same place for every world: state may hold paths
CODE = "/.paddock"  # Paddock's own code, without the packages around it
TMP, _SHARED = "/tmp", "/dev/shm"  # noqa: S108  its own, as it sees them
_UID = 1000
_TMP_BYTES = 256 << 20
_MAX_MASKS = 500
_TOP = ("bin", "sbin", "lib", "lib32", "lib64", "libx32")
# Needed to run programs; none of it says anything about people or keys.
_ETC = ("alternatives", "ld.so.cache", "ld.so.conf", "ld.so.conf.d", "localtime", "timezone",
        "mime.types", "nsswitch.conf", "protocols", "services", "ssl/certs", "ssl/openssl.cnf",
        "gai.conf", "fonts", "magic", "perl", "terminfo")  # fmt: skip
_NAMES = {
    "/etc/passwd": f"standin:x:UID:UID::{OWN}:/bin/sh\n",
    "/etc/group": "standin:x:UID:\n",
    "/etc/hosts": "127.0.0.1 localhost\n::1 localhost\n",
    "/etc/hostname": "standin\n",
}


class Walls(msgspec.Struct, frozen=True):
    """What is readable, and what little is writable."""

    own: Path  # bound to OWN
    project: Path | None = None  # readable, but for keys and dot files
    reads: tuple[Path, ...] = ()  # more that is readable, at its own place
    links: tuple[tuple[Path, str], ...] = ()  # names of its own, and where each leads
    packages: tuple[Path, ...] = ()  # Python packages that can be imported beside Paddock
    files: tuple[tuple[Path, str], ...] = ()  # single files that it shares with the host
    is_unix_allowed: bool = False  # only where no socket of the host can be seen
    uid: int | None = None  # of the host, to become: only root can, and only where it may read all


def arguments(walls: Walls, bwrap: str, data: dict[str, int], filter_fd: int) -> list[str]:
    """bubblewrap's command line, up to the program. `data` names descriptors by target."""
    words = [bwrap, *_identity(walls), "--hostname", "standin"]
    words += ["--die-with-parent", "--new-session", "--clearenv"]
    words += ["--ro-bind", "/usr", "/usr", *_top(), "--proc", "/proc", "--dev", "/dev"]
    # To the kernel, root's stand-ins are root's, and settings in /proc ask for no more than that.
    words += ["--remount-ro", "/proc"]
    words += ["--size", str(_TMP_BYTES), "--perms", "1777", "--tmpfs", TMP]
    words += ["--dir", "/etc"]  # made on the way, it would be closed to others than root
    for name in _ETC:
        words += ["--ro-bind-try", f"/etc/{name}", f"/etc/{name}"]
    for target, fd in data.items():
        words += ["--perms", "0644", "--ro-bind-data", str(fd), target]
    words += _project(walls.project, empty_file(walls))
    for path in walls.reads:
        words += ["--ro-bind", str(path), str(path)]
    shown = (*walls.reads, *([walls.project] if walls.project else []))
    for link, aim in walls.links:
        if not any(link.is_relative_to(tree) for tree in shown):
            words += ["--symlink", aim, str(link)]
    for package in (_package(), *walls.packages):
        words += ["--ro-bind", str(package), f"{CODE}/{package.name}"]
    words += ["--bind", str(walls.own), OWN]
    for source, target in walls.files:
        words += ["--bind", str(source), target]
    # Pseudo-terminals are the whole host's, and a stand-in needs none.
    words += ["--size", "4096", "--tmpfs", "/dev/pts", "--remount-ro", "/dev/pts"]
    # /dev is memory without a limit otherwise; its /dev/shm stays writable and is counted.
    words += ["--remount-ro", "/dev", "--size", str(_TMP_BYTES), "--perms", "1777"]
    words += ["--tmpfs", _SHARED, "--remount-ro", "/", "--seccomp", str(filter_fd)]
    return [*words, "--chdir", "/", "--"]


def names(walls: Walls) -> dict[str, bytes]:
    """Files of /etc that are made up."""
    uid = str(_UID if walls.uid is None else walls.uid)
    return {target: text.replace("UID", uid).encode() for target, text in _NAMES.items()}


def empty_file(walls: Walls) -> Path:
    """What is shown in place of a file that is not: some programs fail when they cannot open it."""
    return walls.own.with_name("empty")


def is_visible(path: Path) -> bool:
    """Of the system, so that it need not be bound."""
    first = path.parts[1] if len(path.parts) > 1 else ""
    return not first or first in ("usr", *_TOP)


def _identity(walls: Walls) -> list[str]:
    if walls.uid is None:
        uid = str(_UID)
        words = ["--unshare-all", "--unshare-user", "--disable-userns", "--cap-drop", "ALL"]
        return [*words, "--uid", uid, "--gid", uid]
    words = ["--unshare-ipc", "--unshare-pid", "--unshare-net", "--unshare-uts"]
    words += ["--unshare-cgroup-try", "--cap-drop", "ALL"]
    return [*words, "--cap-add", "CAP_SETUID", "--cap-add", "CAP_SETGID"]  # the warden spends them


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
    words = ["--ro-bind", str(project), str(project)]
    for path in _masked(project):
        words += ["--tmpfs", str(path)] if path.is_dir() else ["--ro-bind", str(empty), str(path)]
    return words


def _masked(project: Path) -> Iterator[Path]:
    """Dot files of the project and of the home, and Paddock's own state with its keys."""
    yield from _dot_files(project)
    home = Path(os.path.expanduser("~"))
    if home != project and home.is_relative_to(project):
        yield from _dot_files(home)
    state = Home.find().root.absolute()
    if state != project and state.is_relative_to(project):
        yield state


def _dot_files(directory: Path) -> list[Path]:
    found = [path for path in directory.glob(".*") if not path.is_symlink()]
    if len(found) > _MAX_MASKS:
        raise InvalidInput(f"{directory} has too many dot files to keep them from a stand-in")
    return sorted(found)
