"""The directory in which Paddock keeps its state (`PADDOCK_HOME`), and the leases of its sandboxes.

A sandbox's directory has a `lease` file that its keeper holds locked for as long as it lives. A
lease that can be locked has lost its keeper: whatever the sandbox left behind is to be swept.
"""

from __future__ import annotations

import contextlib
import errno
import fcntl
import json
import os
import secrets
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

from paddock.model.errors import HostCannot, OutOfSpace
from paddock.model.space import is_out_of_space
from paddock.state.files import tree_walk

SITES = "sites"  # of the cache
_OLD_LOCK = ".kernel-site.lock"  # earlier versions had it where every sandbox sees it
_NEW_GRACE_S = 60.0


class Home(NamedTuple):
    """The directory with all state of one user."""

    root: Path

    @classmethod
    def find(cls) -> Home:
        """Return `PADDOCK_HOME`, else the user's data directory. It is made, private, when
        missing."""
        home = cls.locate()
        home.make()
        return home

    @classmethod
    def locate(cls) -> Home:
        """Return the home that `find` gives, whether or not it is there yet."""
        chosen = os.environ.get("PADDOCK_HOME")
        data = os.environ.get("XDG_DATA_HOME") or os.path.expanduser("~/.local/share")
        return cls(Path(chosen) if chosen else Path(data) / "paddock")

    def make(self) -> None:
        try:
            for path in (self.root, self.sandboxes, self.cache, self.sites):
                path.mkdir(parents=True, exist_ok=True)
            if self.root.stat().st_uid != os.geteuid():
                raise PermissionError(errno.EPERM, "it belongs to another user")
            self.root.chmod(0o700)
            self.sites.chmod(0o755)  # for the uids of sandboxes, whatever the umask is
            (self.sites / _OLD_LOCK).unlink(missing_ok=True)
        except OSError as error:
            kind = OutOfSpace if is_out_of_space(error) else HostCannot
            raise kind(
                f"cannot use {self.root} for Paddock's state: {error.strerror}",
                hint="set PADDOCK_HOME to a directory that you may write and that has room",
            ) from None

    @property
    def sandboxes(self) -> Path:
        return self.root / "sandboxes"

    @property
    def cache(self) -> Path:
        return self.root / "cache"

    @property
    def sites(self) -> Path:
        """Return the packages for the code interpreter; bound into every sandbox, filled when first
        used."""
        return self.cache / SITES

    @property
    def hosts(self) -> Path:
        """Return the directory of control sockets, one for each process that holds sandboxes."""
        return self.root / "hosts"

    @property
    def worlds(self) -> Path:
        """Return the state of the stand-ins, one directory for each run that has some."""
        return self.root / "worlds"

    @property
    def layers(self) -> Path:
        return self.root / "layers"

    @property
    def pool_image(self) -> Path:
        return self.root / "pool.btrfs"

    @property
    def snapshots(self) -> Path:
        return self.root / "snapshots"

    @property
    def templates(self) -> Path:
        return self.root / "templates"

    @property
    def volumes(self) -> Path:
        return self.root / "volumes"

    @property
    def runs(self) -> Path:
        """Return the directory of runs, each with its journal."""
        return self.root / "runs"

    @property
    def trees(self) -> Path:
        """Return the store of the files of all runs at their steps, each content once."""
        return self.root / "trees"

    @property
    def keys(self) -> Path:
        """Return the directory of the keys that sign journals."""
        return self.root / "keys"

    @contextlib.contextmanager
    def lock(self, name: str) -> Iterator[None]:
        """Let one process at a time in; the kernel releases the lock however its holder ends."""
        fd = os.open(self.root / f".{name}.lock", os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
        try:
            fcntl.flock(fd, fcntl.LOCK_EX)
            yield
        finally:
            os.close(fd)


class SandboxRecord(NamedTuple):
    """The facts of a sandbox that are needed to clean up after it, written before anything is
    made."""

    sandbox_id: str
    layer: str
    cgroups: tuple[str, ...] = ()
    init_pid: int = 0
    init_started: int = 0
    info: dict[str, Any] | None = None

    def write(self, directory: Path) -> None:
        temporary = directory / f".record-{secrets.token_hex(4)}"
        temporary.write_text(json.dumps(self._asdict()))
        temporary.rename(directory / "record.json")

    @classmethod
    def read(cls, directory: Path) -> SandboxRecord | None:
        try:
            content = json.loads((directory / "record.json").read_text())
            content["cgroups"] = tuple(content["cgroups"])
            return cls(**content)
        except (OSError, ValueError, KeyError, TypeError):
            return None


def new_id() -> str:
    """Return sixty bits, as letters that are easy to read aloud and safe as a host name."""
    alphabet = "abcdefghjkmnpqrstuvwxyz23456789"
    return "".join(secrets.choice(alphabet) for _ in range(12))


def claim(home: Home, sandbox_id: str) -> int:
    """Make the sandbox's directory with its lease locked; the returned descriptor is the claim."""
    temporary = home.sandboxes / f".new-{sandbox_id}"
    temporary.mkdir(mode=0o700)
    # Locked before it has its name: a lease that a sweep can see and lock has lost its keeper.
    fd = os.open(temporary / ".lease", os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
    fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
    (temporary / ".lease").rename(temporary / "lease")
    temporary.rename(home.sandboxes / sandbox_id)
    return fd


def held(directory: Path) -> bool:
    """Return whether a keeper still lives for this sandbox."""
    fd = _try_lease(directory)
    if fd is None:
        return True
    os.close(fd)
    return False


def abandoned(home: Home) -> Iterator[tuple[Path, int]]:
    """Yield directories whose keeper is gone, each with its lease now locked by us."""
    try:
        names = os.listdir(home.sandboxes)
    except FileNotFoundError:
        return
    for name in names:
        directory = home.sandboxes / name
        fd = _try_lease(directory)
        if fd is not None:
            yield directory, fd


def mark_used(directory: Path) -> bool:
    """Note the time at which something of the cache was last used: what was not used for long is
    removed by `paddock gc`. Returns False when it is not there."""
    try:
        os.utime(directory)
    except FileNotFoundError:
        return False
    return True


def remove_tree(path: Path) -> None:
    """Remove a tree that an agent may have filled: no link is followed, closed parts are removed
    too."""
    fd = os.open(path.parent, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        tree_walk.remove(path.name, fd)
    finally:
        os.close(fd)


def _try_lease(directory: Path) -> int | None:
    try:
        fd = os.open(directory / "lease", os.O_RDWR | os.O_CLOEXEC)
    except OSError:
        # No lease yet: either being made right now, or left so by a crash.
        with contextlib.suppress(OSError):
            if time.time() - directory.stat().st_mtime > _NEW_GRACE_S:
                remove_tree(directory)
        return None
    try:
        fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError:
        os.close(fd)
        return None
    return fd
