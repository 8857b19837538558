"""The keys that sign tree heads: Ed25519, made once, kept where no sandbox and no run has files.

`cryptography` is loaded when a key is first used.
"""

from __future__ import annotations

import base64
import contextlib
import os
import secrets
import stat
from collections.abc import Iterator
from functools import lru_cache
from hashlib import sha256
from pathlib import Path
from typing import TYPE_CHECKING

import msgspec

from paddock.model.errors import HostCannot, InvalidInput

if TYPE_CHECKING:
    from cryptography.hazmat.primitives.asymmetric.ed25519 import (
        Ed25519PrivateKey,
        Ed25519PublicKey,
    )

PRIVATE_NAME = "journal.key"
PUBLIC_NAME = "journal.pub"
RAW_BYTES = 32
_MAX_FILE_BYTES = 4096
# What stands before the 32 bytes of an Ed25519 key in PKCS #8 and in SubjectPublicKeyInfo. Without
# a look at anything else in there, the greater part of `cryptography` need not be loaded.
_PRIVATE_HEAD = bytes.fromhex("302e020100300506032b657004220420")
_PUBLIC_HEAD = bytes.fromhex("302a300506032b6570032100")


class PublicKey(msgspec.Struct, frozen=True):
    """The key that others verify with. Its id is the SHA-256 of its 32 bytes."""

    raw: bytes

    def __post_init__(self) -> None:
        if len(self.raw) != RAW_BYTES:
            raise InvalidInput(f"an Ed25519 public key has {RAW_BYTES} bytes, not {len(self.raw)}")

    @classmethod
    def load(cls, path: Path) -> PublicKey:
        """Return the key in a PEM file, or in one with the 32 bytes in hex."""
        try:
            with open(path, "rb") as file:
                return cls.parse(file.read(_MAX_FILE_BYTES))
        except OSError as error:
            raise InvalidInput(f"cannot read the public key {path}: {error.strerror}") from None

    @classmethod
    def parse(cls, text: bytes | str) -> PublicKey:
        data = text.encode() if isinstance(text, str) else text
        if b"-----BEGIN" in data:
            return cls(_raw_of_pem(data))
        try:
            return cls(bytes.fromhex(data.decode().strip()))
        except ValueError:
            raise InvalidInput("not a public key: neither PEM nor hex") from None

    @property
    def key_id(self) -> str:
        return sha256(self.raw).hexdigest()

    @property
    def hex(self) -> str:
        return self.raw.hex()

    def is_signed(self, message: bytes, signature: bytes) -> bool:
        """Return whether `signature` over `message` was made with the private half."""
        from cryptography.exceptions import InvalidSignature

        try:
            _verifying(self.raw).verify(signature, message)
        except InvalidSignature:
            return False
        return True


class SigningKey(msgspec.Struct, frozen=True):
    """The private half, in memory only, and the directory that it came from."""

    directory: Path
    public: PublicKey
    _private: Ed25519PrivateKey

    def __repr__(self) -> str:
        return f"SigningKey(directory={self.directory!r}, public={self.public!r})"

    @classmethod
    def open(cls, directory: Path) -> SigningKey:
        """Return the key of that directory, made on first use. Two processes at once get the same
        one."""
        try:
            directory.mkdir(mode=0o700, parents=True, exist_ok=True)
            if not os.path.lexists(directory / PRIVATE_NAME):
                _make(directory)
            private = _load(directory / PRIVATE_NAME)
            key = cls(directory, _public_of(private), private)
            _publish(directory / PUBLIC_NAME, key.public)
        except OSError as error:
            raise HostCannot(f"cannot use the keys in {directory}: {error.strerror}") from None
        return key

    def sign(self, message: bytes) -> bytes:
        return self._private.sign(message)


@lru_cache(maxsize=16)
def _verifying(raw: bytes) -> Ed25519PublicKey:
    from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PublicKey

    return Ed25519PublicKey.from_public_bytes(raw)


def secret_bytes(directory: Path, name: str) -> bytes:
    """Return random bytes of that directory, made on first use and for this user alone. Two
    processes at once get the same ones."""
    path = directory / name
    try:
        directory.mkdir(mode=0o700, parents=True, exist_ok=True)
        if not os.path.lexists(path):
            _give_once(path, f"{secrets.token_hex(RAW_BYTES)}\n".encode())
        raw = bytes.fromhex(_read_private(path).decode("ascii", "replace"))
    except OSError as error:
        raise HostCannot(f"cannot use the keys in {directory}: {error.strerror}") from None
    except ValueError:
        raise HostCannot(f"{path} is not a key") from None
    if len(raw) != RAW_BYTES:
        raise HostCannot(f"{path} is not a key of {RAW_BYTES} bytes")
    return raw


def _make(directory: Path) -> None:
    from cryptography.hazmat.primitives import serialization
    from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

    pem = Ed25519PrivateKey.generate().private_bytes(
        serialization.Encoding.PEM,
        serialization.PrivateFormat.PKCS8,
        serialization.NoEncryption(),
    )
    _give_once(directory / PRIVATE_NAME, pem)


def _give_once(path: Path, content: bytes) -> None:
    """Write a file that is complete before it has its name, and give the name once: the slower of
    two processes takes the other's."""
    with _whole_file(path, content, 0o600) as temporary, contextlib.suppress(FileExistsError):
        os.link(temporary, path)


def _load(path: Path) -> Ed25519PrivateKey:
    from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

    pem = _read_private(path)
    raw = _usual_raw(pem)
    if raw is not None:
        return Ed25519PrivateKey.from_private_bytes(raw)
    from cryptography.hazmat.primitives import serialization

    try:
        key = serialization.load_pem_private_key(pem, password=None)
    except (ValueError, TypeError) as error:
        raise HostCannot(f"{path} is not a private key: {error}") from None
    if not isinstance(key, Ed25519PrivateKey):
        raise HostCannot(f"{path} is not an Ed25519 key")
    return key


def _usual_raw(pem: bytes) -> bytes | None:
    """Return the key in a file as we write it; None for one that the library must read."""
    lines = pem.strip().splitlines()
    if len(lines) != 3 or lines[0] != b"-----BEGIN PRIVATE KEY-----":
        return None
    try:
        data = base64.b64decode(lines[1], validate=True)
    except ValueError:
        return None
    if len(data) != len(_PRIVATE_HEAD) + RAW_BYTES or not data.startswith(_PRIVATE_HEAD):
        return None
    return data.removeprefix(_PRIVATE_HEAD)


def _read_private(path: Path) -> bytes:
    fd = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_CLOEXEC)
    try:
        facts = os.fstat(fd)
        if not stat.S_ISREG(facts.st_mode):
            raise HostCannot(f"{path} is not a file")
        if facts.st_uid != os.geteuid():
            raise HostCannot(f"the private key {path} belongs to another user")
        if facts.st_mode & 0o077:
            raise HostCannot(
                f"the private key {path} can be read by others, so it proves nothing any more",
                hint=f"remove it, and a new one is made; or chmod 600 {path} if nobody has read it",
            )
        return os.read(fd, _MAX_FILE_BYTES)
    finally:
        os.close(fd)


def _publish(path: Path, public: PublicKey) -> None:
    """Puts the public half beside; a wrong one there would make honest journals look forged."""
    body = base64.b64encode(_PUBLIC_HEAD + public.raw)
    pem = b"-----BEGIN PUBLIC KEY-----\n" + body + b"\n-----END PUBLIC KEY-----\n"
    with contextlib.suppress(OSError):
        if path.read_bytes() == pem:
            return
    with _whole_file(path, pem, 0o644) as temporary:
        os.replace(temporary, path)


@contextlib.contextmanager
def _whole_file(path: Path, content: bytes, mode: int) -> Iterator[Path]:
    temporary = path.with_name(f".{path.name}-{secrets.token_hex(4)}")
    fd = os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, mode)
    try:
        with open(fd, "wb") as file:
            file.write(content)
            file.flush()
            os.fsync(fd)
        yield temporary
    finally:
        with contextlib.suppress(FileNotFoundError):
            os.unlink(temporary)


def _public_of(private: Ed25519PrivateKey) -> PublicKey:
    return PublicKey(private.public_key().public_bytes_raw())


def _raw_of_pem(data: bytes) -> bytes:
    from cryptography.hazmat.primitives import serialization
    from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PublicKey

    try:
        key = serialization.load_pem_public_key(data)
    except ValueError as error:
        raise InvalidInput(f"not a public key: {error}") from None
    if not isinstance(key, Ed25519PublicKey):
        raise InvalidInput("the public key is not an Ed25519 key")
    return key.public_bytes_raw()
