"""Which files of a project are kept from an agent."""

from __future__ import annotations

import os
import socket
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from paddock.model.errors import InvalidInput
from paddock.run.surroundings import secret_files as module
from paddock.run.surroundings.secret_files import is_secret_name, may_tell, secret_files

PRIVATE = "-----BEGIN RSA PRIVATE KEY-----\n"


@pytest.mark.parametrize(
    "name",
    [".env", ".ENV", ".env.local", ".env.production", "prod.env", "server.key", "id_rsa",
     "id_ed25519_work", ".netrc", ".npmrc", ".pypirc", ".aws", ".ssh", "credentials.json",
     "my-service-account-prod.json", ".paddock", "store.p12", ".envrc"],
)  # fmt: skip
def test_name_of_a_secret_is_known(name: str) -> None:
    assert is_secret_name(name)


@pytest.mark.parametrize(
    "name",
    [".env.example", ".env.sample", ".env.template", "id_rsa.pub", "env.py", "environment.yml",
     "keyboard.py", "key", "package.json", "service.json", ".envoy", "turkey.md"],
)  # fmt: skip
def test_other_name_is_left_alone(name: str) -> None:
    assert not is_secret_name(name)


PARTS = (*module._NAMES, *module._BEGINNINGS, *module._ENDINGS, *module._OF_ACCOUNTS, ".json", "x")


@given(st.lists(st.sampled_from(PARTS) | st.text("aé._-", max_size=2), max_size=4), st.booleans())
def test_no_secret_is_passed_over_by_the_quick_look(parts: list[str], is_upper: bool) -> None:
    name = "".join(parts).upper() if is_upper else "".join(parts)
    assert may_tell(name) or not is_secret_name(name)


def test_secrets_are_found_at_any_depth_and_named_from_the_top(tmp_path: Path) -> None:
    deep = tmp_path.joinpath(*"abcdefgh")
    deep.mkdir(parents=True)
    (deep / ".env").write_text("x")
    (tmp_path / ".aws").mkdir()
    (tmp_path / ".aws" / "credentials").write_text("x")
    assert secret_files(str(tmp_path)) == (".aws", "a/b/c/d/e/f/g/h/.env")


def test_certificate_is_shown_and_private_key_is_not(tmp_path: Path) -> None:
    (tmp_path / "ca.pem").write_text("-----BEGIN CERTIFICATE-----\n")
    (tmp_path / "KEY.PEM").write_text(PRIVATE)
    (tmp_path / "both.pem").write_text("-----BEGIN CERTIFICATE-----\n" * 1000 + PRIVATE)
    assert secret_files(str(tmp_path)) == ("KEY.PEM", "both.pem")


def test_certificate_too_large_to_look_through_counts_as_a_key(tmp_path: Path) -> None:
    (tmp_path / "large.pem").write_bytes(b"x" * ((1 << 20) + 1))
    assert secret_files(str(tmp_path)) == ("large.pem",)


def test_pipe_that_is_called_a_certificate_does_not_hold_us_up(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "a.pem")
    (tmp_path / "link.pem").symlink_to("a.pem")
    assert secret_files(str(tmp_path)) == ("a.pem",)


def test_socket_is_hidden(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    with socket.socket(socket.AF_UNIX) as sock:
        sock.bind("agent.sock")
        assert secret_files(str(tmp_path)) == ("agent.sock",)


def test_link_that_is_called_like_a_secret_is_hidden_and_not_followed(tmp_path: Path) -> None:
    (tmp_path / "elsewhere").mkdir()
    (tmp_path / "project").mkdir()
    (tmp_path / "elsewhere" / ".env").write_text("x")
    (tmp_path / "project" / "out").symlink_to("../elsewhere")
    (tmp_path / "project" / ".env").symlink_to("../elsewhere/.env")
    assert secret_files(str(tmp_path / "project")) == (".env",)


@pytest.mark.parametrize(
    ("config", "is_hidden"),
    [
        ('[remote "o"]\n\turl = https://user:word@example.com/x.git\n', True),
        ('[remote "o"]\n\turl = https://ghp_abcdefghijklmnopqrstuv@github.com/x.git\n', True),
        ('[http "https://x/"]\n\textraheader = AUTHORIZATION: basic abc\n', True),
        ('[remote "o"]\n\turl = https://example.com/x.git\n', False),
        ('[remote "o"]\n\turl = git@github.com:us/x.git\n', False),
    ],
)
def test_settings_of_git_are_hidden_only_with_credentials(
    tmp_path: Path, config: str, is_hidden: bool
) -> None:
    for place in (".git", ".git/modules/sub"):
        (tmp_path / place).mkdir(parents=True)
        (tmp_path / place / "config").write_text(config)
    expected = (".git/config", ".git/modules/sub/config") if is_hidden else ()
    assert secret_files(str(tmp_path)) == expected


def test_packages_and_environments_are_not_searched(tmp_path: Path) -> None:
    for place in ("node_modules/x", ".venv/lib/certifi", "a/.env"):
        (tmp_path / place).mkdir(parents=True)
        (tmp_path / place / "test.key").write_text(PRIVATE)
    for place in (".venv", "a/.env"):  # some call an environment so
        (tmp_path / place / "pyvenv.cfg").write_text("")
    assert secret_files(str(tmp_path)) == ()


def test_more_than_can_be_searched_is_refused_and_not_shown(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for number in range(20):
        (tmp_path / str(number)).mkdir()
    monkeypatch.setattr(module, "MAX_ENTRIES", 19)
    with pytest.raises(InvalidInput, match="more than can be searched"):
        secret_files(str(tmp_path))


def test_deeper_than_can_be_searched_is_refused_and_not_shown(tmp_path: Path) -> None:
    deep = tmp_path.joinpath(*["d"] * (module.MAX_DEPTH + 1))
    deep.mkdir(parents=True)
    with pytest.raises(InvalidInput, match="more than can be searched"):
        secret_files(str(tmp_path))
