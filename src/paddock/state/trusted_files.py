"""Which paddock files the user has agreed to: by real path, and by a digest of what they ask of the
host. Kept in the home, which no sandbox can mount."""

from __future__ import annotations

import contextlib
import json
import os
import secrets
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import msgspec

from paddock.model.errors import HostCannot
from paddock.state.home import Home

_VERSION = 1
_MAX_DIGESTS = 100  # of one file: branches that are switched between


class TrustedFile(msgspec.Struct, frozen=True):
    """One agreement: what the file asked for when the user agreed."""

    path: str
    digest: str
    agreed_at: float
    requests: tuple[str, ...]


class TrustedFiles:
    """The agreements of one user."""

    def __init__(self, home: Home) -> None:
        self._home = home
        self._path = home.root / "trust.json"

    def has(self, path: str, digest: str) -> bool:
        return any(one.path == path and one.digest == digest for one in self.all())

    def all(self) -> list[TrustedFile]:
        """Every agreement, oldest first. Raises HostCannot when the store cannot be understood:
        it is not guessed what was agreed to."""
        try:
            found = json.loads(self._path.read_bytes())
            return [_read(one) for one in found["files"]]
        except FileNotFoundError:
            return []
        except (OSError, ValueError, KeyError, TypeError) as error:
            raise HostCannot(
                f"{self._path} cannot be read: {error}", hint="remove it; you are asked again"
            ) from None

    def add(self, path: str, digest: str, requests: Sequence[str]) -> None:
        with self._home.lock("trust"):
            kept = [one for one in self.all() if (one.path, one.digest) != (path, digest)]
            own = [one for one in kept if one.path == path]
            dropped = own[: max(0, len(own) + 1 - _MAX_DIGESTS)]
            new = TrustedFile(path, digest, time.time(), tuple(requests))
            self._write([*(one for one in kept if one not in dropped), new])

    def revoke(self, path: str) -> int:
        """Forget all agreements about a file; return how many there were."""
        with self._home.lock("trust"):
            found = self.all()
            kept = [one for one in found if one.path != path]
            self._write(kept)
        return len(found) - len(kept)

    def _write(self, files: Sequence[TrustedFile]) -> None:
        content = {"version": _VERSION, "files": [_plain(one) for one in files]}
        new = self._path.with_name(f".trust-{secrets.token_hex(4)}")
        try:
            flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC
            with open(os.open(new, flags, 0o600), "w", encoding="utf-8") as file:
                json.dump(content, file, indent=1)
                file.flush()
                os.fsync(file.fileno())
            new.rename(self._path)
        finally:
            with contextlib.suppress(FileNotFoundError):
                Path.unlink(new)


def _plain(one: TrustedFile) -> dict[str, Any]:
    return {"path": one.path, "digest": one.digest, "agreed_at": one.agreed_at,
            "requests": list(one.requests)}  # fmt: skip


def _read(one: Any) -> TrustedFile:
    requests = tuple(str(text) for text in one["requests"])
    return TrustedFile(str(one["path"]), str(one["digest"]), float(one["agreed_at"]), requests)
