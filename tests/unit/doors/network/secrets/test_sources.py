"""Every source gives the value as it is, or an error that names it and does not show it."""

from __future__ import annotations

import os
import sys
import time
import traceback
from pathlib import Path
from typing import Any

import pytest

from cases import for_each
from paddock.doors.network.secrets import sources as secret_sources
from paddock.doors.network.secrets.sources import load
from paddock.model.errors import HostCannot, InvalidInput, PaddockError
from paddock.model.hosts import HostPattern
from paddock.policy.secrets import SecretTerms

VALUE = "sk-live-0123456789"


def terms(source: str) -> SecretTerms:
    return SecretTerms("KEY", source, (HostPattern.parse("api.example.com"),))


def python(code: str) -> SecretTerms:
    return terms(f"command:{sys.executable} -c '{code}'")


def everything_about(error: BaseException) -> str:
    """What a log, a debugger and a report of a crash could show of an error."""
    shown = "".join(traceback.format_exception(error)) + repr(error) + repr(vars(error))
    context = error.__context__
    return shown + (everything_about(context) if context is not None else "")


def test_variable_of_the_host_is_the_value(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("STRIPE_TEST_KEY", VALUE)
    assert load(terms("env:STRIPE_TEST_KEY")) == VALUE


def test_variable_that_is_not_set_is_named() -> None:
    with pytest.raises(InvalidInput, match=r"secret KEY \(env:NOT_SET\).*NOT_SET is not set"):
        load(terms("env:NOT_SET"), {})


@pytest.mark.parametrize("ending", ["", "\n", "\r\n"])
def test_file_is_the_value_without_one_line_break(tmp_path: Path, ending: str) -> None:
    path = tmp_path / "key"
    path.write_bytes((VALUE + ending).encode())
    assert load(terms(f"file:{path}")) == VALUE


def test_file_in_the_home_directory_is_found(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HOME", str(tmp_path))
    (tmp_path / "key").write_text(VALUE)
    assert load(terms("file:~/key")) == VALUE


def test_file_that_others_may_read_is_taken_but_not_one_that_they_may_write(tmp_path: Path) -> None:
    path = tmp_path / "key"
    path.write_text(VALUE)
    path.chmod(0o644)
    assert load(terms(f"file:{path}")) == VALUE
    path.chmod(0o646)
    with pytest.raises(InvalidInput, match="may be written by everybody"):
        load(terms(f"file:{path}"))


def test_pipe_and_directory_are_refused_and_not_waited_for(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe")
    for path in (tmp_path / "pipe", tmp_path):
        with pytest.raises(InvalidInput, match="secret KEY"):
            load(terms(f"file:{path}"))


def test_file_that_is_not_there_is_named(tmp_path: Path) -> None:
    with pytest.raises(InvalidInput, match=r"file:.*/none\) cannot be read: No such file"):
        load(terms(f"file:{tmp_path}/none"))


def test_command_says_the_value() -> None:
    assert load(python(f'print("{VALUE}")')) == VALUE


def test_command_is_run_without_a_shell(tmp_path: Path) -> None:
    assert load(terms(f"command:echo ;touch {tmp_path}/made")) == f";touch {tmp_path}/made"
    assert not (tmp_path / "made").exists()


def test_command_starts_in_the_directory_of_its_file(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("project", "elsewhere"):
        script = tmp_path / name / "token.sh"
        script.parent.mkdir()
        script.write_text(f"#!/bin/sh\necho value-of-{name}\n")
        script.chmod(0o700)
        (tmp_path / name / "key").write_text(f"value-of-{name}")
    monkeypatch.chdir(tmp_path / "elsewhere")
    base = str(tmp_path / "project")
    for source in ("command:./token.sh", "command:sh token.sh", "file:key"):
        assert load(terms(source), base=base) == "value-of-project"
        assert load(terms(source)) == "value-of-elsewhere"
    (tmp_path / "project" / "token.sh").unlink()
    with pytest.raises(InvalidInput, match="no program"):
        load(terms("command:./token.sh"), base=base)


def test_command_whose_directory_is_gone_is_not_run_elsewhere(tmp_path: Path) -> None:
    with pytest.raises(HostCannot, match="gone"):
        load(terms(f"command:echo {VALUE}"), base=str(tmp_path / "gone"))


def test_command_has_no_input_to_wait_for() -> None:
    assert load(python(f'import sys; sys.stdin.read(); print("{VALUE}")')) == VALUE


def test_command_that_fails_is_quoted_without_what_it_told() -> None:
    code = f'import sys; print("{VALUE}"); sys.stderr.write("bad {VALUE}\\n denied"); sys.exit(3)'
    with pytest.raises(HostCannot, match=r"ended with 3: bad \.\.\. denied") as caught:
        load(python(code))
    # The value stands in the command's own words here; what follows them must not show it.
    assert VALUE not in str(caught.value).partition("ended with")[2]


def test_command_that_does_not_exist_is_named() -> None:
    with pytest.raises(InvalidInput, match="no program 'no-such-program'"):
        load(terms("command:no-such-program x"))


def test_command_that_hangs_is_ended_with_all_that_it_started(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(secret_sources, "COMMAND_S", 0.5)
    script = tmp_path / "hang"
    script.write_text(f"#!/bin/sh\nsleep 300 & echo $! > {tmp_path}/pid\nwait\n")
    script.chmod(0o700)
    with pytest.raises(HostCannot, match="did not end within"):
        load(terms(f"command:{script}"))
    pid = int((tmp_path / "pid").read_text())
    assert _ends(pid)


def test_command_that_never_stops_talking_is_ended(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(secret_sources, "COMMAND_S", 0.5)
    with pytest.raises(HostCannot, match="did not end within"):
        load(terms("command:yes aaaaaaa"))


BACKEND = """
import keyring.backend
class Backend(keyring.backend.KeyringBackend):
    priority = 1
    def get_password(self, service, username):
        if service == "locked":
            raise RuntimeError("the value is sk-live-0123456789")
        return {("shop/api", "me"): "sk-live-0123456789"}.get((service, username))
    def set_password(self, *words): ...
    def delete_password(self, *words): ...
"""


@pytest.fixture
def backend(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Any:
    keyring = pytest.importorskip("keyring")
    (tmp_path / "paddock_test_backend.py").write_text(BACKEND)
    monkeypatch.syspath_prepend(str(tmp_path))
    import paddock_test_backend

    before = keyring.get_keyring()
    keyring.set_keyring(paddock_test_backend.Backend())
    yield
    keyring.set_keyring(before)


@pytest.mark.usefixtures("backend")
def test_keyring_is_asked_for_service_and_user() -> None:
    assert load(terms("keyring:shop/api/me")) == VALUE
    with pytest.raises(InvalidInput, match="is not in the keyring"):
        load(terms("keyring:shop/you"))


@pytest.mark.usefixtures("backend")
def test_failure_of_a_keyring_does_not_show_what_it_said() -> None:
    with pytest.raises(HostCannot, match="failed with RuntimeError") as caught:
        load(terms("keyring:locked/me"))
    assert VALUE not in everything_about(caught.value)


def test_keyring_that_does_not_answer_is_not_waited_for(monkeypatch: pytest.MonkeyPatch) -> None:
    pytest.importorskip("keyring")
    monkeypatch.setattr(secret_sources, "KEYRING_S", 0.1)
    monkeypatch.setattr(secret_sources, "_ask_keyring", lambda *_: time.sleep(5))
    with pytest.raises(HostCannot, match="did not answer"):
        load(terms("keyring:a/b"))


def test_missing_keyring_package_is_said_with_the_way_to_get_it(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("importlib.util.find_spec", lambda name: None)
    with pytest.raises(HostCannot, match=r"pip install 'paddock-sandbox\[keyring\]'"):
        load(terms("keyring:a/b"))


@for_each(
    ("value", "why"),
    [
        ("", "fewer than 6"),
        ("abcde", "fewer than 6"),
        ("hunter2\nX-Evil: 1", "line break"),
        ("hunter2\r\nX-Evil: 1", "line break"),
        ("hunter2\rX-Evil", "line break"),
        ("hunter2\0more", "control character"),
        ("hunter2\x7fmore", "control character"),
        (" hunter2", "begins or ends with a space"),
        ("hunter2 ", "begins or ends with a space"),
        ("hunter2\udcff", "not text"),
        ("s" * 9000, "more than 8192"),
    ],
)
def test_value_that_cannot_be_kept_or_sent_is_refused_and_not_shown(value: str, why: str) -> None:
    with pytest.raises(InvalidInput, match=rf"secret KEY \(env:X\).*{why}") as caught:
        load(terms("env:X"), {"X": value})
    assert not value or value not in everything_about(caught.value)


def test_file_that_is_not_text_is_refused_and_not_shown(tmp_path: Path) -> None:
    path = tmp_path / "key"
    path.write_bytes(b"sk-live-\xff\xfe-012345")
    with pytest.raises(PaddockError, match="not text in UTF-8") as caught:
        load(terms(f"file:{path}"))
    assert "sk-live" not in everything_about(caught.value)


def _ends(pid: int) -> bool:
    for _ in range(200):
        try:
            state = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0]
        except FileNotFoundError:
            return True
        if state == "Z":
            return True
        time.sleep(0.05)
    return False
