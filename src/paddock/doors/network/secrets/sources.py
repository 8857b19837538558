"""Sources of the values of secrets: a variable, a file, a command or a keyring of the host.

An error names the secret and its source. The value is in no message, also not when it is the value
that is wrong. Loading may take seconds: it is not for an event loop.
"""

from __future__ import annotations

import contextlib
import importlib.util
import os
import re
import selectors
import shutil
import signal
import stat
import subprocess
import threading
import time
from collections.abc import Callable, Mapping
from typing import assert_never

from paddock.journal.secrets.mask import MIN_SECRET
from paddock.model.errors import HostCannot, InvalidInput
from paddock.model.version import install_command
from paddock.policy.secrets import SecretScheme, SecretTerms

COMMAND_S = 10.0
KEYRING_S = 60.0  # somebody may have to type a passphrase
MAX_SECRET = 8192  # servers refuse longer headers
_MAX_SAID = 65536  # of a command, whatever it was meant to say
_MAX_SHOWN = 400
_CONTROL = re.compile(r"[\x00-\x1f\x7f]")


def load(
    terms: SecretTerms, environment: Mapping[str, str] = os.environ, base: str | None = None
) -> str:
    """Return the value, checked. Paths start from the directory of whoever named the source: the
    caller's own, or `base`, that of the paddock file. Commands are started in it; without one it is
    the current directory. Raises InvalidInput or HostCannot."""
    return checked(terms, _loaded(terms, environment, terms.base or base or os.getcwd()))


def is_at_hand(terms: SecretTerms, environment: Mapping[str, str] = os.environ) -> bool:
    """Return whether the value can be had without asking anybody, and is fit to be one."""
    value = environment.get(terms.place) if terms.scheme is SecretScheme.ENV else None
    return value is not None and _flaw(value) is None


def checked(terms: SecretTerms, value: str) -> str:
    """The value, if it can be hidden, found again and put into a header."""
    flaw = _flaw(value)
    if flaw is not None:
        hint = "set another value where it comes from; it is not shown here"
        raise InvalidInput(f"{_named(terms)} {flaw}", hint=hint)
    return value


def _flaw(value: str) -> str | None:
    if len(value) < MIN_SECRET:
        return (
            f"has fewer than {MIN_SECRET} characters, which may stand in any text by chance; "
            "what is not secret can be passed as a variable"
        )
    if len(value) > MAX_SECRET:
        return f"has more than {MAX_SECRET} characters"
    if _CONTROL.search(value):
        return "has a line break or another control character in it, which no header can carry"
    if value != value.strip():
        return "begins or ends with a space"
    try:
        value.encode()
    except UnicodeEncodeError:
        return "is not text"
    return None


def _loaded(terms: SecretTerms, environment: Mapping[str, str], base: str) -> str:
    match terms.scheme:
        case SecretScheme.ENV:
            return _from_environment(terms, environment)
        case SecretScheme.FILE:
            return _from_file(terms, base)
        case SecretScheme.COMMAND:
            return _from_command(terms, base)
        case SecretScheme.KEYRING:
            return _from_keyring(terms)
        case _ as never:
            assert_never(never)


def _from_environment(terms: SecretTerms, environment: Mapping[str, str]) -> str:
    value = environment.get(terms.place)
    if value is None:
        raise InvalidInput(
            f"{_named(terms)}: the variable {terms.place} is not set",
            hint=f"set {terms.place} where you start it, or take the secret out of the file",
        )
    return value


def _from_file(terms: SecretTerms, base: str) -> str:
    path = os.path.join(base, os.path.expanduser(terms.place))
    try:
        # A pipe would hold up the start for as long as nobody writes into it.
        fd = os.open(path, os.O_RDONLY | os.O_CLOEXEC | os.O_NONBLOCK | os.O_NOCTTY)
    except OSError as error:
        raise InvalidInput(f"{_named(terms)} cannot be read: {error.strerror}") from None
    try:
        _check_mode(terms, os.fstat(fd).st_mode)
        return _text(terms, os.read(fd, _MAX_SAID))
    except OSError as error:
        raise InvalidInput(f"{_named(terms)} cannot be read: {error.strerror}") from None
    finally:
        os.close(fd)


def _check_mode(terms: SecretTerms, mode: int) -> None:
    if not stat.S_ISREG(mode):
        raise InvalidInput(f"{_named(terms)} is not a file")
    if mode & stat.S_IWOTH:
        hint = f"chmod o-w {terms.place}"
        raise InvalidInput(f"{_named(terms)} may be written by everybody here", hint=hint)


def _from_command(terms: SecretTerms, base: str) -> str:
    command = terms.command
    if not command:
        raise InvalidInput(f"{_named(terms)} has no words")
    if not os.path.isdir(base):
        raise HostCannot(f"{_named(terms)}: the directory that it is started in is gone: {base}")
    program = os.path.join(base, command[0]) if "/" in command[0] else command[0]
    if shutil.which(program) is None:
        raise InvalidInput(f"{_named(terms)}: there is no program {command[0]!r:.80}")
    code, out, err = _run(terms, command, base)
    if code:
        raise HostCannot(f"{_named(terms)} ended with {code}: {_shown(err, out)}")
    return _text(terms, out)


def _run(terms: SecretTerms, words: tuple[str, ...], base: str) -> tuple[int, bytes, bytes]:
    """No shell, no input, and a session of its own so that all of it can be ended."""
    try:
        process = subprocess.Popen(
            words,
            cwd=base,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            start_new_session=True,
        )
    except OSError as error:
        raise HostCannot(f"{_named(terms)} cannot be started: {error.strerror}") from None
    deadline = time.monotonic() + COMMAND_S
    try:
        out, err = _said(process, deadline)
        code = process.wait(max(0.0, deadline - time.monotonic()))
        return code, out, err
    except (TimeoutError, subprocess.TimeoutExpired):
        raise HostCannot(f"{_named(terms)} did not end within {COMMAND_S:g} s") from None
    finally:
        _end(process)


def _said(process: subprocess.Popen[bytes], deadline: float) -> tuple[bytes, bytes]:
    """Output and errors until both end; no more than a bound is kept of either."""
    assert process.stdout is not None
    assert process.stderr is not None
    kept = {process.stdout.fileno(): b"", process.stderr.fileno(): b""}
    with selectors.DefaultSelector() as selector:
        for fd in kept:
            selector.register(fd, selectors.EVENT_READ)
        while selector.get_map():
            ready = selector.select(max(0.0, deadline - time.monotonic()))
            if not ready and time.monotonic() >= deadline:
                raise TimeoutError
            for key, _ in ready:
                data = os.read(key.fd, 65536)
                if not data:
                    selector.unregister(key.fd)
                kept[key.fd] = (kept[key.fd] + data)[:_MAX_SAID]
    return kept[process.stdout.fileno()], kept[process.stderr.fileno()]


def _end(process: subprocess.Popen[bytes]) -> None:
    if process.returncode is None:
        with contextlib.suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)
        process.wait()
    for pipe in (process.stdout, process.stderr):
        if pipe is not None:
            pipe.close()


def _shown(err: bytes, out: bytes) -> str:
    """The end of what a command complained, without what it told: that may be the value."""
    text = err.decode(errors="replace")
    for line in out.decode(errors="replace").splitlines():
        if len(line.strip()) >= MIN_SECRET:
            text = text.replace(line.strip(), "...")
    message = " ".join(_CONTROL.sub(" ", text).split())
    return message[-_MAX_SHOWN:] or "it did not say why"


def _from_keyring(terms: SecretTerms) -> str:
    if importlib.util.find_spec("keyring") is None:
        raise HostCannot(
            f"{_named(terms)}: the package keyring is missing", hint=install_command("keyring")
        )
    service, _, user = terms.place.rpartition("/")
    value = _within(KEYRING_S, terms, lambda: _ask_keyring(service, user))
    if value is None:
        raise InvalidInput(
            f"{_named(terms)} is not in the keyring", hint=f"keyring set {service} {user}"
        )
    return value


def _ask_keyring(service: str, user: str) -> str | None:
    import keyring

    return keyring.get_password(service, user)


def _within(limit_s: float, terms: SecretTerms, ask: Callable[[], str | None]) -> str | None:
    """The answer of a keyring, which may wait for a person, or for a bus that is not there."""
    answers: list[str | None] = []
    failures: list[str] = []

    def run() -> None:
        try:
            answers.append(ask())
        except Exception as error:  # backends raise what they like; its text could hold anything
            failures.append(type(error).__name__)

    thread = threading.Thread(target=run, daemon=True)
    thread.start()
    thread.join(limit_s)
    if answers:
        return answers[0]
    why = f"failed with {failures[0]}" if failures else f"did not answer within {limit_s:g} s"
    raise HostCannot(f"{_named(terms)}: the keyring {why}")


def _text(terms: SecretTerms, data: bytes) -> str:
    """One line break at the end is the editor's or the command's, not the secret's."""
    text = _decoded(data)
    if text is None:
        raise InvalidInput(f"{_named(terms)} is not text in UTF-8")
    return text.removesuffix("\n").removesuffix("\r")


def _decoded(data: bytes) -> str | None:
    try:
        return data.decode()
    except (
        UnicodeDecodeError
    ):  # it has the bytes in it: no error of ours may have it as its context
        return None


def _named(terms: SecretTerms) -> str:
    return f"secret {terms.name} ({_CONTROL.sub(' ', terms.source)[:160]})"
