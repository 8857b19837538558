"""What is sealed opens in the same home, for the same run, unchanged; and nowhere else."""

from __future__ import annotations

import base64
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from paddock.journal.integrity.keys import secret_bytes
from paddock.journal.secrets.seal import MAX_SEALED, Sealer
from paddock.journal.secrets.value_hmac import FILE_NAME, ValueHmac
from paddock.model.errors import IntegrityError

SEALER = Sealer(b"k" * 32)
COOKIE = [(b"Set-Cookie", b"sid=4242; HttpOnly"), (b"set-cookie", b"b=\xff\x00")]


@given(st.lists(st.tuples(st.binary(), st.binary()), max_size=4), st.text(min_size=1, max_size=8))
def test_whatever_is_sealed_opens_as_it_was(pairs: list[tuple[bytes, bytes]], run: str) -> None:
    run = run.encode("utf-8", "replace").decode()
    assert SEALER.unseal(SEALER.seal(pairs, run), run) == pairs


def test_seal_shows_nothing_and_is_new_every_time() -> None:
    first, again = SEALER.seal(COOKIE, "r"), SEALER.seal(COOKIE, "r")
    assert first != again
    assert b"4242" not in base64.b64decode(first.partition(".")[2])


def test_seal_of_another_run_or_home_does_not_open() -> None:
    sealed = SEALER.seal(COOKIE, "r")
    with pytest.raises(IntegrityError):
        SEALER.unseal(sealed, "r2")
    with pytest.raises(IntegrityError):
        Sealer(b"x" * 32).unseal(sealed, "r")


@given(st.integers(min_value=0), st.integers(min_value=1, max_value=255))
def test_seal_with_any_byte_changed_does_not_open(at: int, by: int) -> None:
    raw = bytearray(base64.b64decode(SEALER.seal(COOKIE, "r").partition(".")[2]))
    raw[at % len(raw)] ^= by
    with pytest.raises(IntegrityError):
        SEALER.unseal(f"1.{base64.b64encode(raw).decode()}", "r")


@pytest.mark.parametrize("text", ["", "1.", "2.AAAA", "1.****", "1.é", "1.QUJD", "***"])
def test_what_is_no_seal_is_refused(text: str) -> None:
    with pytest.raises(IntegrityError):
        SEALER.unseal(text, "r")


def test_what_is_too_long_is_refused_before_it_is_read() -> None:
    with pytest.raises(IntegrityError, match="no seal"):
        SEALER.unseal("1." + "A" * MAX_SEALED, "r")


def test_one_home_seals_and_hashes_with_keys_that_say_nothing_of_each_other(tmp_path: Path) -> None:
    key = secret_bytes(tmp_path, FILE_NAME)
    sealed = Sealer(key).seal(COOKIE, "r")
    assert Sealer(secret_bytes(tmp_path, FILE_NAME)).unseal(sealed, "r") == COOKIE
    assert ValueHmac(key)._key != Sealer(key)._key
