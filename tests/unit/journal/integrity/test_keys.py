"""Signing keys: made once, private, refused when others can read them."""

from __future__ import annotations

import contextlib
import os
import subprocess
import sys
from pathlib import Path
from subprocess import PIPE
from typing import Any

import pytest
from cryptography.hazmat.primitives import serialization
from cryptography.hazmat.primitives.asymmetric.ed448 import Ed448PrivateKey
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
from cryptography.hazmat.primitives.asymmetric.x25519 import X25519PrivateKey

from paddock.journal.integrity import keys
from paddock.journal.integrity.keys import PRIVATE_NAME, PUBLIC_NAME, PublicKey, SigningKey
from paddock.model.errors import HostCannot, InvalidInput


def test_key_is_made_once_and_found_again(tmp_path: Path) -> None:
    first, second = SigningKey.open(tmp_path / "keys"), SigningKey.open(tmp_path / "keys")
    assert first.public == second.public
    assert first.public.is_signed(b"message", second.sign(b"message"))


def test_private_half_is_for_its_owner_only(tmp_path: Path) -> None:
    SigningKey.open(tmp_path / "keys")
    assert (tmp_path / "keys").stat().st_mode & 0o777 == 0o700
    assert (tmp_path / "keys" / PRIVATE_NAME).stat().st_mode & 0o777 == 0o600
    assert sorted(os.listdir(tmp_path / "keys")) == [PRIVATE_NAME, PUBLIC_NAME]


def test_public_half_beside_it_is_the_public_half(tmp_path: Path) -> None:
    key = SigningKey.open(tmp_path)
    assert PublicKey.load(tmp_path / PUBLIC_NAME) == key.public
    (tmp_path / PUBLIC_NAME).write_text("something else")
    SigningKey.open(tmp_path)
    assert PublicKey.load(tmp_path / PUBLIC_NAME) == key.public


@pytest.mark.parametrize("mode", [0o640, 0o604, 0o660, 0o644])
def test_private_key_that_others_can_read_is_refused(tmp_path: Path, mode: int) -> None:
    SigningKey.open(tmp_path)
    (tmp_path / PRIVATE_NAME).chmod(mode)
    with pytest.raises(HostCannot, match="can be read by others"):
        SigningKey.open(tmp_path)


def test_private_key_that_is_a_link_is_refused(tmp_path: Path) -> None:
    SigningKey.open(tmp_path / "a")
    (tmp_path / "b").mkdir()
    (tmp_path / "b" / PRIVATE_NAME).symlink_to(tmp_path / "a" / PRIVATE_NAME)
    with pytest.raises(HostCannot):
        SigningKey.open(tmp_path / "b")


def test_file_that_is_no_key_is_refused_and_left_alone(tmp_path: Path) -> None:
    path = tmp_path / PRIVATE_NAME
    path.write_text("not a key")
    path.chmod(0o600)
    with pytest.raises(HostCannot, match="not a private key"):
        SigningKey.open(tmp_path)
    assert path.read_text() == "not a key"


def test_public_key_is_read_from_hex_and_from_pem(tmp_path: Path) -> None:
    key = SigningKey.open(tmp_path).public
    assert PublicKey.parse(key.hex) == PublicKey.parse((tmp_path / PUBLIC_NAME).read_text()) == key
    assert len(key.key_id) == 64


@pytest.mark.parametrize("text", ["", "zz", "00" * 31, "-----BEGIN PUBLIC KEY-----\nAAAA\n"])
def test_text_that_is_no_public_key_is_refused(text: str) -> None:
    with pytest.raises(InvalidInput):
        PublicKey.parse(text)


def test_signature_does_not_fit_another_message_or_key(tmp_path: Path) -> None:
    one, other = SigningKey.open(tmp_path / "1"), SigningKey.open(tmp_path / "2")
    signature = one.sign(b"message")
    assert not one.public.is_signed(b"massage", signature)
    assert not other.public.is_signed(b"message", signature)
    assert not one.public.is_signed(b"message", signature[:-1])


def test_processes_that_start_together_get_one_key(tmp_path: Path) -> None:
    program = (
        "import sys; from pathlib import Path\n"
        "from paddock.journal.integrity.keys import SigningKey\n"
        "sys.stdin.read(); print(SigningKey.open(Path(sys.argv[1])).public.key_id)"
    )
    command = [sys.executable, "-c", program, str(tmp_path / "keys")]
    with contextlib.ExitStack() as stack:
        started = [
            stack.enter_context(subprocess.Popen(command, stdin=PIPE, stdout=PIPE))
            for _ in range(4)
        ]
        for one in started:
            assert one.stdin is not None
            one.stdin.close()
        ids = {one.stdout.read() for one in started if one.stdout is not None}
    assert len(ids) == 1
    assert len(ids.pop().strip()) == 64


def test_private_key_does_not_show_when_it_is_printed(tmp_path: Path) -> None:
    assert "Ed25519PrivateKey" not in repr(SigningKey.open(tmp_path))


def test_usual_key_file_is_read_as_the_library_reads_it(tmp_path: Path) -> None:
    key = SigningKey.open(tmp_path / "keys")
    pem = (tmp_path / "keys" / PRIVATE_NAME).read_bytes()
    read = serialization.load_pem_private_key(pem, password=None)
    assert isinstance(read, Ed25519PrivateKey)
    assert keys._usual_raw(pem) == read.private_bytes_raw()
    assert key.public.raw == read.public_key().public_bytes_raw()


def test_public_file_is_what_the_library_would_write(tmp_path: Path) -> None:
    key = SigningKey.open(tmp_path / "keys")
    library = serialization.load_pem_public_key((tmp_path / "keys" / PUBLIC_NAME).read_bytes())
    assert (tmp_path / "keys" / PUBLIC_NAME).read_bytes() == library.public_bytes(
        serialization.Encoding.PEM, serialization.PublicFormat.SubjectPublicKeyInfo
    )
    assert PublicKey.load(tmp_path / "keys" / PUBLIC_NAME) == key.public


@pytest.mark.parametrize(
    "private", [X25519PrivateKey.generate(), Ed448PrivateKey.generate()], ids=["x25519", "ed448"]
)
def test_key_of_another_kind_is_no_usual_one(private: Any) -> None:
    pem = private.private_bytes(
        serialization.Encoding.PEM,
        serialization.PrivateFormat.PKCS8,
        serialization.NoEncryption(),
    )
    assert keys._usual_raw(pem) is None


def test_key_file_in_another_layout_is_left_to_the_library(tmp_path: Path) -> None:
    key = SigningKey.open(tmp_path / "keys")
    path = tmp_path / "keys" / PRIVATE_NAME
    lines = path.read_bytes().splitlines()
    path.write_bytes(b"\n".join([lines[0], lines[1][:40], lines[1][40:], lines[2]]) + b"\n")
    assert keys._usual_raw(path.read_bytes()) is None
    assert SigningKey.open(tmp_path / "keys").public == key.public
