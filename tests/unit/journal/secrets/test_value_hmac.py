"""What is not shown can still be compared, by those who have the key of the home only."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from paddock.journal.integrity.keys import secret_bytes
from paddock.journal.secrets.mask import Masker
from paddock.journal.secrets.value_hmac import FILE_NAME, MAX_LEAVES, ValueHmac, hmac_leaves
from paddock.model.errors import HostCannot

KEYED = ValueHmac(b"k" * 32)
SECRET = "sk-live-4242424242"
MASKER = Masker({"KEY": SECRET})


def leaves(value: Any) -> dict[str, str]:
    return hmac_leaves(KEYED, value, MASKER.mask(value))


def test_equal_values_have_equal_hashes_and_no_others() -> None:
    assert KEYED.of("a") == KEYED.of(b"a") != KEYED.of("b")
    assert len(KEYED.of("a")) == 32


def test_another_home_has_other_hashes() -> None:
    assert ValueHmac(b"x" * 32).of("a") != KEYED.of("a")


def test_half_of_a_surrogate_pair_has_a_hash() -> None:
    assert KEYED.of("\ud800") != KEYED.of("\ud801")


def test_only_what_was_masked_has_a_hash() -> None:
    value = {"body": {"note": "hello", "keys": ["plain", f"Bearer {SECRET}"]}, "a/b~c": SECRET}
    assert leaves(value) == {
        "/body/keys/1": KEYED.of(f"Bearer {SECRET}"),
        "/a~1b~0c": KEYED.of(SECRET),
    }


def test_nothing_masked_means_no_hashes() -> None:
    assert leaves({"a": [1, 2**60, None, True, 1.5, "text"]}) == {}


def test_secret_as_a_name_is_not_in_its_pointer() -> None:
    found = leaves({SECRET: {"deep": SECRET}, f"{SECRET}x": 1})
    assert SECRET not in repr(found)
    assert found["/{{secret:KEY}}#"] == KEYED.of(SECRET)
    assert found["/{{secret:KEY}}/deep"] == KEYED.of(SECRET)
    assert found["/{{secret:KEY}}x#"] == KEYED.of(f"{SECRET}x")


def test_number_that_is_a_secret_has_a_hash() -> None:
    masked = Masker({"PIN": "424242"}).mask({"pin": 424242, "n": 7})
    assert hmac_leaves(KEYED, {"pin": 424242, "n": 7}, masked) == {"/pin": KEYED.of("424242")}


def test_many_masked_leaves_have_one_hash_of_everything() -> None:
    many = {"keys": [SECRET] * (MAX_LEAVES + 1)}
    found = leaves(many)
    assert list(found) == [""]
    assert found != leaves({"keys": [SECRET] * (MAX_LEAVES + 2)})


@given(st.lists(st.sampled_from([SECRET, f"{SECRET}!", "%73" + SECRET[1:]]), min_size=1))
def test_masked_alike_and_different_before_is_seen(values: list[str]) -> None:
    other = [*values[:-1], values[-1] + "?"]
    assert leaves(values) != leaves(other)


def test_key_is_made_once_for_this_user_alone(tmp_path: Path) -> None:
    with ThreadPoolExecutor(8) as pool:
        made = list(pool.map(lambda _: secret_bytes(tmp_path / "keys", FILE_NAME), range(16)))
    assert len(set(made)) == 1
    assert (tmp_path / "keys" / FILE_NAME).stat().st_mode & 0o777 == 0o600
    assert [path.name for path in (tmp_path / "keys").iterdir()] == [FILE_NAME]


@pytest.mark.parametrize("content", [b"", b"short", b"zz" * 32, b"ab" * 31, b"ab" * 33])
def test_file_that_is_no_key_is_refused(tmp_path: Path, content: bytes) -> None:
    (tmp_path / FILE_NAME).write_bytes(content)
    (tmp_path / FILE_NAME).chmod(0o600)
    with pytest.raises(HostCannot):
        secret_bytes(tmp_path, FILE_NAME)


def test_key_that_others_can_read_is_refused(tmp_path: Path) -> None:
    secret_bytes(tmp_path, FILE_NAME)
    (tmp_path / FILE_NAME).chmod(0o644)
    with pytest.raises(HostCannot, match="read by others"):
        secret_bytes(tmp_path, FILE_NAME)


def test_link_in_place_of_the_key_is_refused(tmp_path: Path) -> None:
    (tmp_path / "other").write_bytes(b"ab" * 32)
    (tmp_path / FILE_NAME).symlink_to(tmp_path / "other")
    with pytest.raises(HostCannot):
        secret_bytes(tmp_path, FILE_NAME)
