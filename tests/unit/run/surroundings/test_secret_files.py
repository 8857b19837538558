"""Which files of a project are kept from an agent."""

from __future__ import annotations

import base64
import json
import os
import socket
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from cases import for_each
from paddock.model.errors import InvalidInput
from paddock.run.surroundings import secret_files as module
from paddock.run.surroundings.secret_files import is_secret_name, may_tell, secret_files

PRIVATE = "-----BEGIN RSA PRIVATE KEY-----\n"


@for_each(
    "name",
    [".env", ".ENV", ".env.local", ".env.production", "prod.env", "server.key", "id_rsa",
     "id_ed25519_work", ".netrc", ".npmrc", ".pypirc", ".aws", ".ssh", "credentials.json",
     "my-service-account-prod.json", ".paddock", "store.p12", ".envrc"],
)  # fmt: skip
def test_name_of_a_secret_is_known(name: str) -> None:
    assert is_secret_name(name)


@for_each(
    "name",
    [".env.example", ".env.sample", ".env.template", "id_rsa.pub", "env.py", "environment.yml",
     "keyboard.py", ".env_example", "key", "package.json", "service.json", ".envoy", "turkey.md"],
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


BODY = "MIIEvQIBADANBgkqhkiG9w0BAQEFAASCBKcwggSjAgEAAoIBAQC7VJTUt9Us8cKj\n" * 4
KEY = f"-----BEGIN PRIVATE KEY-----\n{BODY}-----END PRIVATE KEY-----\n"
ESCAPED = KEY.replace("\n", "\\n")
JAVA_PROTECTED = bytes.fromhex("2b060104012a02110101")  # what a key store encrypts keys with


@for_each(
    ("name", "content"),
    [
        ("deploy", KEY),
        ("short", "-----BEGIN EC PRIVATE KEY-----\nMHcCAQEEIA==\n-----END EC PRIVATE KEY-----\n"),
        ("notes.txt", f"the key\n{KEY}"),
        ("conf/app.yaml", "tls: |\n  " + KEY.replace("\n", "\n  ")),
        ("settings.py", f'KEY = """{KEY}"""\n'),
        ("a.json", f'{{"private_key": "{ESCAPED}"}}'),
        ("account.json", '{"type": "service_account", "project_id": "p", "private_key": "x"}'),
        ("user.json", '{"type": "authorized_user", "refresh_token": "1//0g"}'),
        ("old", KEY.replace("PRIVATE", "ENCRYPTED PRIVATE").replace("\n", "\r\n")),
        ("ssh-backup", KEY.replace("PRIVATE KEY", "OPENSSH PRIVATE KEY")),
        ("mail.asc", KEY.replace("PRIVATE KEY", "PGP PRIVATE KEY BLOCK")),
        ("keys.txt", "AGE-SECRET-KEY-1" + "Q" * 58 + "\n"),
        ("wg0.conf", "[Interface]\nPrivateKey = " + "a" * 43 + "=\n"),
        ("jwk", '{"kty": "EC", "d": "' + "a" * 43 + '", "x": "b"}'),
        ("vpn.ovpn", f"client\n<key>\n{KEY}</key>\n"),
        ("start.sh", 'export KEY="' + KEY.replace("\n", " ") + '"\n'),
        ("joined", KEY.replace("\n", "")),
        ("padded", KEY.replace("\n", "  \n")),
        ("secret.k8s", "tls.key: " + base64.b64encode(KEY.encode()).decode() + "\n"),
        ("large.log", "x" * (1 << 20) + "\n" + KEY),
        ("twice.json", json.dumps(json.dumps({"key": KEY}))),
        ("macos", KEY.replace("\n", "\r")),
        ("lines.js", "[\n    '" + KEY.strip().replace("\n", "',\n    '") + "'\n].join('\\n')"),
        ("ssh2", KEY.replace("PRIVATE", "SSH2 ENCRYPTED PRIVATE").replace("-----", "---- ", 1)),
        (
            "Kexample.private",
            "Private-key-format: v1.3\nPrivateKey: " + "a" * 43 + "=",
        ),
        ("app.xml", f"<RSAKeyValue><Modulus>AQAB</Modulus><D>{'a' * 300}</D></RSAKeyValue>"),
        ("agent", "(11:private-key(3:ecc(5:curve7:Ed25519)(1:q33:a)(1:d32:b)))"),
        ("wif.json", '{"type": "external_account", "audience": "x", "client_secret": "shh"}'),
        ("auth.py", 'A = {"type": "authorized_user", "refresh_token": "1//0gdWvCqfT9aKz"}'),
        ("account.py", f'A = {{"type": "service_account", "private_key": "{ESCAPED}"}}'),
    ],
)
def test_private_key_is_known_by_its_content(tmp_path: Path, name: str, content: str) -> None:
    file = tmp_path / name
    file.parent.mkdir(exist_ok=True)
    file.write_text(content)
    assert secret_files(str(tmp_path)) == (name,)
    file.unlink()


def test_example_of_an_account_in_a_program_hides_no_module(tmp_path: Path) -> None:
    example = '{"type": "external_account_authorized_user", "refresh_token": "refreshToken"}'
    pem = "-----BEGIN EC PRIVATE KEY-----\\n<key bytes>\\n-----END EC PRIVATE KEY-----\\n"
    other = f'{{"type": "service_account", "private_key": "{pem}"}}'
    (tmp_path / "user.py").write_text(f'"""Credentials, as in {example}."""\n')
    (tmp_path / "account.py").write_text(f'"""Credentials, as in {other}."""\n')
    assert secret_files(str(tmp_path)) == ()


@for_each(
    ("name", "content"),
    [
        ("notepad", KEY.encode("utf-16")),
        ("rsa.der", bytes.fromhex("308204a2 020100 02820101") + b"k" * 1182),
        ("pkcs8", bytes.fromhex("308204bd 020100 300d06092a864886f70d010101") + b"k" * 1190),
        ("ed25519.der", bytes.fromhex("302e 020100 300506032b6570 0422 0420") + b"k" * 32),
        ("ec.der", bytes.fromhex("3077 020101 0420") + b"k" * 113),
        ("locked.der", bytes.fromhex("30820509 303306092a864886f70d01050d") + b"k" * 1270),
        ("pbes1.der", bytes.fromhex("30820500 301b06092a864886f70d010503") + b"k" * 1260),
        ("pkcs12pbe.der", bytes.fromhex("308204ea 301c060a2a864886f70d010c0103") + b"k" * 1240),
        ("long.der", bytes.fromhex("30820509 30818006092a864886f70d01050d") + b"k" * 1270),
        ("dsa.der", bytes.fromhex("3082014a 020100 3082012b06072a8648ce380401") + b"k" * 310),
        ("store", bytes.fromhex("308209cf 020103 3082098506092a864886f70d010701") + b"k" * 2490),
        ("java", b"\xfe\xed\xfe\xed\0\0\0\2\0\0\0\1\0\0\0\1\0\1a" + JAVA_PROTECTED + b"k" * 99),
        ("blob", bytes.fromhex("0702000000a40000") + b"RSA2" + b"k" * 1160),
        ("pvk", bytes.fromhex("1ef1b5b0 00000000 01000000") + b"k" * 1160),
        ("ring", bytes.fromhex("9458 04 6afd01fe 16 092b06010401da470f01") + b"k" * 99),
        ("rsa-ring", bytes.fromhex("9503c6 04 6afd01fe 01 0800") + b"k" * 966),
        ("new-ring", bytes.fromhex("c558 04 6afd01fe 16 092b06010401da470f01") + b"k" * 99),
        ("little", KEY.encode("utf-16-le")),
        ("big", KEY.encode("utf-16-be")),
    ],
)
def test_private_key_is_known_in_other_encodings(tmp_path: Path, name: str, content: bytes) -> None:
    (tmp_path / name).write_bytes(content)
    assert secret_files(str(tmp_path)) == (name,)
    (tmp_path / name).unlink()


def test_file_that_only_speaks_of_keys_is_shown(tmp_path: Path) -> None:
    (tmp_path / "check.py").write_text(
        "if '-----BEGIN PRIVATE KEY-----' in text: '-----END '\n" * 9
    )
    (tmp_path / "README.md").write_text(KEY.replace(BODY, "...\n"))
    (tmp_path / "public.txt").write_text(KEY.replace("PRIVATE", "PUBLIC"))
    (tmp_path / "jwks.json").write_text('{"kty": "RSA", "n": "' + "a" * 90 + '", "e": "AQAB"}')
    (tmp_path / "ca.crt").write_text(KEY.replace("PRIVATE KEY", "CERTIFICATE"))
    (tmp_path / "ca.der").write_bytes(bytes.fromhex("30820300 308201e8 a003020102") + b"c" * 700)
    encoded = base64.b64encode(KEY.replace("PRIVATE KEY", "CERTIFICATE").encode()).decode()
    (tmp_path / "ca.yaml").write_text(f"ca.crt: {encoded}\n")
    (tmp_path / "help.md").write_text("A -----BEGIN PRIVATE KEY----- line begins a private key.\n")
    (tmp_path / "trust").write_bytes(b"\xfe\xed\xfe\xed\0\0\0\2\0\0\0\1\0\0\0\2" + b"c" * 900)
    (tmp_path / "ring").write_bytes(bytes.fromhex("9833 04 6afd01fe 16 09") + b"c" * 99)  # public
    (tmp_path / "signed.xml").write_text(f"<RSAKeyValue><Modulus>{'a' * 300}</Modulus>")
    (tmp_path / "program").write_bytes(b"-----BEGIN PRIVATE KEY-----\0" + b"a" * 99)
    (tmp_path / "credentials").mkdir()
    (tmp_path / "credentials" / "model.py").write_text("class Token: password = None\n")
    (tmp_path / "pip.conf").write_text("[global]\nindex-url = https://pypi.example/simple\n")
    (tmp_path / ".bundle").mkdir()
    (tmp_path / ".bundle" / "config").write_text('---\nBUNDLE_PATH: "vendor"\n')
    assert secret_files(str(tmp_path)) == ()


def test_search_for_keys_takes_no_longer_than_the_file_is_long(tmp_path: Path) -> None:
    """Each of these took minutes with a search that goes back."""
    (tmp_path / "marks").write_bytes(b"-----BEGIN PRIVATE KEY-----\n" * 30000)
    (tmp_path / "lines").write_bytes(b"PrivateKey" + b"\n" * 1_000_000)
    (tmp_path / "spaces").write_bytes(b"PrivateKey" + b" " * 1_000_000 + b'"kty"')
    (tmp_path / "kty").write_bytes(b'"kty"' * 200_000)
    assert secret_files(str(tmp_path)) == ()


@for_each(
    ("path", "content"),
    [
        (".cargo/credentials.toml", "x"), (".gem/credentials", "x"), (".composer/auth.json", "x"),
        ("auth.json", '{"http-basic": {}}'), (".terraformrc", "x"), ("credentials.tfrc.json", "x"),
        ("prod.tfstate", "x"), ("a.tfvars.json", "x"), ("rclone.conf", "x"), (".vault-token", "x"),
        (".config/rclone/rclone.conf", "x"), (".config/gh/hosts.yml", "x"), (".mylogin.cnf", "x"),
        ("pip.conf", "index-url = https://u:p@pypi.example/simple"), ("kaggle.json", "{}"),
        ("gradle.properties", "nexusPassword=x"), (".m2/settings.xml", "<password>x</password>"),
        (".bundle/config", "BUNDLE_GEMS__EXAMPLE__COM: u:p"), ("host.keytab", "x"), ("k.p8", "x"),
        (".npmrc.bak", "x"), ("a.tfstate.17.backup", "x"), (".env_prod", "x"), (".env~", "x"),
        (".ivy2/.credentials", "password=x"), (".config/git/credentials", "https://u:p@h.test"),
        (".claude/.credentials.json", "{}"), (".rclone.conf", "x"), ("credentials.csv", "x"),
        ("kubeconfig.yaml", "x"), ("a.kubeconfig", "x"), (".config/helm/registry/config.json", "x"),
        (".vault_pass.txt", "x"), (".ansible_vault_pass", "x"), (".ansible/vault_pass", "x"),
        (".config/argocd/config", "x"), (".config/hcloud/cli.toml", "x"), (".mc/config.json", "x"),
        (".config/scw/config.yaml", "x"), (".cache/huggingface/stored_tokens", "x"),
        (".supabase/access-token", "x"), (".wrangler/config/default.toml", "x"),
        (".stripe/config.toml", "x"), (".poetry/auth.toml", "x"),
        (".pg_service.conf", "[a]\npassword=x"), ("pg_service.conf", "[a]\npassword=x"),
        ("clouds.yaml", "auth: {password: x}"), ("secure.yaml", "auth: {password: x}"),
        ("bunfig.toml", "registry = {url = 'x', token = 'x'}"),
        ("uv.toml", "[[index]]\nurl = 'https://u:p@h.test/'"),
        (".config/wandb/settings", "[default]\napi_key = x"),
        ("local.settings.json", '{"Values": {"AzureWebJobsStorage": "AccountKey=x"}}'),
    ],
)  # fmt: skip
def test_credentials_of_package_managers_and_clouds_are_hidden(
    tmp_path: Path, path: str, content: str
) -> None:
    file = tmp_path / path
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_text(content)
    hidden = secret_files(str(tmp_path))
    assert any(path == one or path.startswith(f"{one}/") for one in hidden), hidden
    file.unlink()


@for_each(
    ("path", "content"),
    [
        ("pg_service.conf", "[a]\nhost=db\n"), ("clouds.yaml", "clouds: {a: {region_name: b}}"),
        ("secure.yaml", "tls: true"), ("bunfig.toml", "[test]\ncoverage = true\n"),
        ("uv.toml", "[pip]\nindex-url = 'https://h.test/'"), (".config/wandb/settings", "[x]"),
        ("local.settings.json", '{"Values": {"Storage": "UseDevelopmentStorage=true"}}'),
        ("settings", "x"), ("config.toml", "x"), (".wrangler/state.json", "{}"),
    ],
)  # fmt: skip
def test_settings_without_credentials_are_shown(tmp_path: Path, path: str, content: str) -> None:
    file = tmp_path / path
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_text(content)
    assert secret_files(str(tmp_path)) == ()
    file.unlink()
