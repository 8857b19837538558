"""The paddock files that the user has agreed to: by real path, and by a digest of what they ask of
the host. They are kept in the home, which no sandbox can mount.
"""

from __future__ import annotations

import time
from collections.abc import Sequence

import msgspec

from paddock.model.errors import HostCannot
from paddock.objects.file_bytes import write_whole
from paddock.state.home import Home

_MAX_DIGESTS = 100  # of one file: branches that are switched between


class TrustedFile(msgspec.Struct, frozen=True):
    """One agreement: what the file asked for when the user agreed."""

    path: str
    digest: str
    agreed_at: float
    requests: tuple[str, ...]


class _Agreements(msgspec.Struct, frozen=True):
    """The content of the file."""

    files: list[TrustedFile]
    version: int = 1


class TrustedFiles:
    """The agreements of one user."""

    def __init__(self, home: Home) -> None:
        self._home = home
        self._path = home.root / "trust.json"

    def has(self, path: str, digest: str) -> bool:
        return any(file.path == path and file.digest == digest for file in self.all())

    def all(self) -> list[TrustedFile]:
        """Return every agreement, oldest first. Raises HostCannot when the store cannot be
        understood: it is not guessed what was agreed to."""
        try:
            return msgspec.json.decode(self._path.read_bytes(), type=_Agreements).files
        except FileNotFoundError:
            return []
        except (OSError, msgspec.MsgspecError) as error:
            raise HostCannot(
                f"{self._path} cannot be read: {error}", hint="remove it; you are asked again"
            ) from None

    def add(self, path: str, digest: str, requests: Sequence[str]) -> None:
        with self._home.lock("trust"):
            kept = [file for file in self.all() if (file.path, file.digest) != (path, digest)]
            own = [file for file in kept if file.path == path]
            dropped = own[: max(0, len(own) + 1 - _MAX_DIGESTS)]
            new = TrustedFile(path, digest, time.time(), tuple(requests))
            self._write([*(file for file in kept if file not in dropped), new])

    def revoke(self, path: str) -> int:
        """Forget all agreements about a file; return how many there were."""
        with self._home.lock("trust"):
            files = self.all()
            kept = [file for file in files if file.path != path]
            self._write(kept)
        return len(files) - len(kept)

    def _write(self, files: list[TrustedFile]) -> None:
        content = msgspec.json.encode(_Agreements(files))
        write_whole(self._path, msgspec.json.format(content, indent=1))
