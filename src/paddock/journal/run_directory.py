"""The directory of a run's journal and the lock that makes one process its writer."""

from __future__ import annotations

import fcntl
import os
from pathlib import Path

from paddock.journal.errors import broken
from paddock.journal.integrity.keys import SigningKey
from paddock.model.errors import Conflict, InvalidInput

_LOCK = "lock"


class RunDirectory:
    """A directory that this process holds locked until it lets go or ends."""

    def __init__(self, directory: Path, fd: int) -> None:
        self.directory = directory
        self._fd = fd

    @classmethod
    def claim_new(cls, directory: Path, key: SigningKey) -> RunDirectory:
        """Make the directory, private, or take one that is empty."""
        try:
            is_new = _make(directory)
            if not is_new:  # nothing can be in one that was not there
                _keep_apart(directory, key)
                directory.chmod(0o700)
            claimed = cls(directory, _lock(directory, os.O_CREAT))
        except OSError as error:
            raise broken(f"cannot make {directory}", error) from None
        if not is_new and set(os.listdir(directory)) != {_LOCK}:
            claimed.release()
            raise Conflict(
                f"{directory} holds something already: a journal needs an empty directory"
            )
        return claimed

    @classmethod
    def claim_again(cls, directory: Path, key: SigningKey) -> RunDirectory:
        _keep_apart(directory, key)
        try:
            return cls(directory, _lock(directory, os.O_CREAT))
        except FileNotFoundError:
            raise InvalidInput(f"there is no journal in {directory}") from None
        except OSError as error:
            raise broken(f"cannot lock {directory}", error) from None

    @property
    def is_released(self) -> bool:
        return self._fd < 0

    def release(self) -> None:
        if self._fd >= 0:
            os.close(self._fd)
        self._fd = -1


def is_held(directory: Path) -> bool:
    """Return whether a writer of that journal lives."""
    try:
        flags = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC
        fd = os.open(directory / _LOCK, flags)
    except OSError:
        return False
    try:
        fcntl.flock(fd, fcntl.LOCK_SH | fcntl.LOCK_NB)
    except OSError:
        return True
    finally:
        os.close(fd)
    return False


def _make(directory: Path) -> bool:
    """Make a directory. Returns False when it was there."""
    try:
        os.mkdir(directory, 0o700)
    except FileExistsError:
        return False
    except FileNotFoundError:
        directory.mkdir(mode=0o700, parents=True)
    return True


def _lock(directory: Path, flags: int) -> int:
    fd = os.open(directory / _LOCK, os.O_RDWR | os.O_NOFOLLOW | os.O_CLOEXEC | flags, 0o600)
    try:
        fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        os.close(fd)
        raise Conflict(f"the journal in {directory} has a writer already") from None
    except BaseException:
        os.close(fd)
        raise
    return fd


def _keep_apart(directory: Path, key: SigningKey) -> None:
    """Refuse a key among the files of a run: it would travel with them."""
    run, keys = directory.resolve(), key.directory.resolve()
    if keys == run or run in keys.parents:
        raise InvalidInput(f"the key in {key.directory} lies inside the run's directory")
