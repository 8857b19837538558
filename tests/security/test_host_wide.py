"""What the host has once for everybody: a sandbox cannot take all of it, nor hold it against
others."""

from __future__ import annotations

import contextlib
import signal
import sqlite3
import subprocess
import sys
from pathlib import Path

import pytest

from paddock import Sandbox
from paddock.fence.container import file_locks
from paddock.fence.guest.agreed import MAX_TERMINALS
from security.attack import background, outcome, probe
from security.conftest import MakeBox

TERMINALS = """
held = []
while len(held) < 5000:
    try:
        held.append(os.open("/dev/ptmx", os.O_RDWR | os.O_NOCTTY))
    except OSError as error:
        found["error"] = errno.errorcode[error.errno]
        break
found["held"] = len(held)
"""


def test_terminals_of_one_sandbox_are_bounded_and_leave_others_theirs(
    box: Sandbox, make_box: MakeBox
) -> None:
    assert probe(box, TERMINALS) == {"error": "ENOSPC", "held": MAX_TERMINALS}
    seen: list[bytes] = []
    box.pty.create(on_data=seen.append, cmd=["tty"]).wait(20)
    assert b"/dev/pts/0" in b"".join(seen)


def test_aio_contexts_of_the_host_are_not_to_be_had(box: Sandbox) -> None:
    before = Path("/proc/sys/fs/aio-nr").read_text()
    attempts = """
    context = ctypes.c_ulong()
    number = {"x86_64": 206, "aarch64": 0}[os.uname().machine]
    found["setup"] = call(number, 60000, ctypes.byref(context))
    """
    assert probe(box, attempts)["setup"] == "ENOSYS"
    assert Path("/proc/sys/fs/aio-nr").read_text() == before


def test_lease_on_a_file_of_a_read_mount_is_refused(make_box: MakeBox, source: Path) -> None:
    (source / "file").write_text("of the host")
    box = make_box(mounts=[{"source": str(source), "target": "/in", "mode": "read"}])
    attempts = """
    import fcntl
    fd = os.open("/in/file", os.O_RDONLY)
    found["read"] = attempt(fcntl.fcntl, fd, fcntl.F_SETLEASE, fcntl.F_RDLCK)
    found["own"] = attempt(fcntl.fcntl, os.open("own", os.O_CREAT), 1024, 0)
    """
    assert probe(box, attempts) == {"read": "EACCES", "own": "EACCES"}


def test_files_of_the_kernel_site_that_are_locked_by_the_host_are_not_seen(box: Sandbox) -> None:
    box.run_code("1")  # the directory is filled when it is first used
    names = box.commands.run("ls -A /.paddock/site").stdout.split()
    assert names and all(name.startswith("kernel-site-") for name in names)


HOLD = """
import fcntl, struct
own = open("own", "w")
fd = os.open("/in/file", os.O_RDONLY)
range_ = struct.pack("hhqqi4x", fcntl.F_RDLCK, 0, 0, 0, 0)
found["flock"] = attempt(fcntl.flock, fd, fcntl.LOCK_EX)
found["posix"] = attempt(fcntl.lockf, fd, fcntl.LOCK_SH | fcntl.LOCK_NB)
found["ofd"] = attempt(fcntl.fcntl, fd, fcntl.F_OFD_SETLK, range_)[:2]
found["own"] = attempt(fcntl.flock, own, fcntl.LOCK_EX)
other = open("own")
found["own again"] = attempt(fcntl.flock, other, fcntl.LOCK_EX | fcntl.LOCK_NB)
print(json.dumps(found), flush=True)
time.sleep(1000)
"""
TRY = """
import fcntl, sys
with open(sys.argv[1], "r+b") as file:
    fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
    fcntl.lockf(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
"""


def _can_lock(path: Path) -> bool:
    done = subprocess.run([sys.executable, "-c", TRY, str(path)], capture_output=True)
    assert done.returncode == 0 or b"BlockingIOError" in done.stderr, done.stderr
    return done.returncode == 0


def _mounted(make_box: MakeBox, source: Path, **more: object) -> Sandbox:
    (source / "file").write_text("of the host")
    return make_box(mounts=[{"source": str(source), "target": "/in", "mode": "read", **more}])


@pytest.mark.parametrize("hidden", [[], ["x"]], ids=["live", "with something hidden"])
def test_locks_on_files_of_a_read_mount_hold_up_nobody_outside(
    make_box: MakeBox, source: Path, hidden: list[str]
) -> None:
    """Programs inside that lock before they read go on as ever; own files are locked for real."""
    box = _mounted(make_box, source, hidden=hidden)
    words = background(box, HOLD).stdout
    assert '"own": "ok None", "own again": "EAGAIN"' in words
    assert all(f'"{kind}": "ok' in words for kind in ("flock", "posix", "ofd"))
    assert _can_lock(source / "file")


def test_database_of_a_read_mount_can_be_read(make_box: MakeBox, source: Path) -> None:
    box = _mounted(make_box, source)
    with contextlib.closing(sqlite3.connect(source / "db")) as database, database:
        database.execute("create table t as select 42 as x")
    read = "import sqlite3; print(sqlite3.connect('file:/in/db?mode=ro', uri=True)"
    done = box.commands.run(["python3", "-c", f"{read}.execute('select x from t').fetchall())"])
    assert done.stdout == "[(42,)]\n"


def test_program_that_got_a_lock_past_the_look_is_killed(
    make_box: MakeBox, source: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As by a second thread that exchanges the descriptor: here the look never sees anything."""
    monkeypatch.setattr(file_locks, "is_without_effect", lambda pid, descriptor: False)
    box = _mounted(make_box, source)
    holder = background(box, HOLD)
    assert '"flock": "ok' in holder.stdout
    assert outcome(lambda: holder.wait(30)).exit_code == 128 + signal.SIGKILL
    assert _can_lock(source / "file")
