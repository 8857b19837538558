"""Reading a file of a mounted directory that is hidden from the sandbox, by any other way."""

from __future__ import annotations

from pathlib import Path

import pytest

from paddock import Sandbox
from security.conftest import MakeBox


@pytest.fixture(params=["overlay", "read"])
def box(make_box: MakeBox, source: Path, secret: str, request: pytest.FixtureRequest) -> Sandbox:
    (source / "sub").mkdir()
    (source / "sub" / ".env").write_text(secret)
    (source / ".env").write_text(secret)
    (source / "beside").write_text("x")
    hidden = [".env", "sub/.env"]
    target = "/home/user/project"
    mode = request.param
    return make_box(
        mounts=[{"source": str(source), "target": target, "mode": mode, "hidden": hidden}]
    )


def run(box: Sandbox, code: str) -> str:
    """All that a command says, whether it fails or not."""
    done = box.commands.run(f"({code}) 2>&1; true", cwd="/home/user/project", timeout=60)
    return done.stdout + done.stderr


@pytest.mark.parametrize(
    "attempt",
    [
        "cat .env sub/.env",
        "ln .env ~/got; cat ~/got",
        "ln sub/.env sub/got; cat sub/got",
        "ln -s .env got; cat got; cp .env got2; cat got2",
        "mv sub moved; cat moved/.env",
        "cp -a sub copied; cat copied/.env",
        "mkdir -p x; mv sub x/; cat x/sub/.env",
        "cat /proc/self/cwd/.env /proc/1/root/home/user/project/.env /proc/self/root/$PWD/.env",
        "cat ./../project/.env .//.env sub/../.env",
        "touch .env; rm .env; cat .env",
        "rm -rf sub; mkdir sub; rmdir sub; cat sub/.env",
        "mknod .env c 0 0; rm -f .env; cat .env",
        "unshare -Urm sh -c 'umount -l .; cat .env; umount .; cat .env'",
        "unshare -Urm sh -c 'mount -t overlay o -o lowerdir=. /mnt; cat /mnt/.env'",
        "unshare -Urm sh -c 'mount --bind . /mnt; cat /mnt/.env'",
        "setfattr -n user.overlay.opaque -v y .; cat .env",
        "setfattr -n user.overlay.redirect -v /sub sub; cat sub/.env",
        "find / -xdev -name .env -exec cat {} + ; find /home/user -name .env -exec cat {} +",
        "cat /run/paddock/stage/*/.env /oldroot/run/paddock/stage/*/.env /newroot/*/.env",
        "ls -la /proc/*/fd/; cat /proc/*/fd/*/.env /proc/*/root/home/user/project/.env",
        "tar cf - . | cat; grep -r secret- /home/user /run /tmp",
    ],
)
def test_hidden_file_cannot_be_read(box: Sandbox, secret: str, attempt: str) -> None:
    assert secret not in run(box, attempt)


PYTHON = '''
import ctypes, os
libc = ctypes.CDLL(None, use_errno=True)
os.chdir("/home/user/project")
def show(fd):
    try: print(os.read(fd, 200))
    except OSError as error: print(error)
# By handle: what a name does not lead to, a number might.
class Handle(ctypes.Structure):
    _fields_ = [("size", ctypes.c_uint), ("type", ctypes.c_int), ("data", ctypes.c_ubyte * 128)]
for name in (b".", b"sub", b"beside", b".env"):
    handle, mount = Handle(size=128), ctypes.c_int()
    got = libc.name_to_handle_at(-100, name, ctypes.byref(handle), ctypes.byref(mount), 0)
    for number in range(1, 400):
        if got: break
        handle.data[0] = number % 256
        fd = libc.open_by_handle_at(os.open(".", os.O_RDONLY), ctypes.byref(handle), os.O_RDONLY)
        if fd < 0: break
        show(fd)
# By asking for a mount of its own, and a look below the overlay.
for flags in (1, 0x8001):
    fd = libc.syscall(428, -100, b".", flags)
    if fd >= 0: show(os.open(".env", os.O_RDONLY, dir_fd=fd))
for path in (".env", "sub/.env"):
    for flags in (os.O_RDONLY, os.O_RDWR, os.O_PATH, os.O_CREAT, os.O_APPEND | os.O_RDWR):
        try: show(os.open(path, flags))
        except OSError as error: print(error)
os.makedirs("/tmp/x", exist_ok=True)
for old, new in ((".env", "got"), ("sub/.env", "got"), ("sub", "/tmp/x/sub")):
    for call in (os.rename, os.link, os.replace):
        try:
            call(old, new)
            print(open(new).read())
        except OSError as error: print(error)
    libc.renameat2(-100, old.encode(), -100, b"beside", 2)
    try: print(open("beside").read(), open(old).read())
    except OSError as error: print(error)
'''  # fmt: skip


def test_hidden_file_cannot_be_read_by_other_system_calls(box: Sandbox, secret: str) -> None:
    box.files.write("/home/user/attack.py", PYTHON)
    said = run(box, "python3 /home/user/attack.py")
    assert secret not in said
    assert "No such file" in said or "Read-only" in said


def test_fork_after_everything_was_moved_shows_nothing(box: Sandbox, secret: str) -> None:
    run(box, "rm -rf sub .env; mkdir -p sub; touch sub/.env; rm sub/.env; rmdir sub")
    with box.fork() as child:
        assert secret not in run(child, "cat .env sub/.env; grep -r . . ")


def test_link_in_place_of_a_parent_is_hidden_and_not_followed(
    make_box: MakeBox, source: Path, secret: str, tmp_path: Path
) -> None:
    """The list may be older than the source: an agent with a write mount can have changed it."""
    (source / "real").mkdir()
    (source / "real" / ".env").write_text(secret)
    (source / "sub").symlink_to("real")
    words = {"source": str(source), "target": "/mnt/in", "mode": "overlay"}
    box = make_box(mounts=[{**words, "hidden": ["sub/.env", "real/.env"]}])
    said = box.commands.run("(cat /mnt/in/sub/.env /mnt/in/real/.env; ls /mnt/in) 2>&1; true")
    assert secret not in said.stdout
    assert said.stdout.endswith("real\n")


def test_link_written_over_a_hidden_name_does_not_reach_the_source(
    make_box: MakeBox, source: Path, secret: str, secret_file: Path
) -> None:
    (source / "sub").mkdir()
    (source / "sub" / ".env").write_text(secret)
    words = {"source": str(source), "target": "/mnt/in", "mode": "overlay"}
    box = make_box(mounts=[{**words, "hidden": ["sub/.env"]}])
    box.commands.run(f"ln -s {secret_file} /mnt/in/sub/.env; ln -s sub/.env /mnt/in/got")
    statuses = {one.path: one.status for one in box.changes().apply()}
    assert statuses["sub/.env"] == "refused"
    assert (source / "sub" / ".env").read_text() == secret
    assert not (source / "sub" / ".env").is_symlink()
