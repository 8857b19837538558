"""Using more disk than the limit: files without names, holes, metadata, other subvolumes.

The limit is 32 MiB and every attempt stops by itself at five times that.
"""

from __future__ import annotations

import textwrap
from collections.abc import Callable

from cases import for_each
from paddock import Sandbox, Volume
from security.attack import eventually, layer_of, probe, run, shell
from security.conftest import MakeBox
from security.differences import FILES_WITHOUT_A_NAME

# Files that no look at names and descriptors finds; SECURITY.md says so.
UNSEEN_BY_A_COUNT = {
    "unlinked, by a process that cannot be looked into",
    "unlinked, on its way through a socket",
    "unlinked, only mapped",
}

LIMIT = 32 << 20
TOO_MUCH = 64  # MiB: beyond the limit, and what a watcher may overlook in one of its pauses
# `take` is one more file of 25 MiB; after each the host's watcher gets the time to look.
_TAKE = """
held = 0
def take(fd, size=25 << 20):
    global held
    os.posix_fallocate(fd, 0, size)
    held += size
    time.sleep(0.6)
"""
ATTEMPTS = {
    "plain": """
        for n in range(5): take(os.open(f"/home/user/{n}", os.O_CREAT | os.O_RDWR))
    """,
    "in /tmp": """
        for n in range(5): take(os.open(f"/tmp/{n}", os.O_CREAT | os.O_RDWR))
    """,
    "unlinked": """
        for n in range(5):
            fd = os.open("/home/user/x", os.O_CREAT | os.O_RDWR)
            os.unlink("/home/user/x")
            take(fd)
    """,
    "never linked": """
        for n in range(5): take(os.open("/tmp", os.O_TMPFILE | os.O_RDWR))
    """,
    "unlinked, by a process that cannot be looked into": """
        libc.prctl(4, 0, 0, 0, 0)
        for n in range(5): take(os.open("/tmp", os.O_TMPFILE | os.O_RDWR))
    """,
    "unlinked, on its way through a socket": """
        import socket
        keep = []
        for n in range(5):
            fd = os.open("/tmp", os.O_TMPFILE | os.O_RDWR)
            pair = socket.socketpair()
            keep.append(pair)
            socket.send_fds(pair[0], [b"x"], [fd])
            file = os.open(f"/proc/self/fd/{fd}", os.O_RDWR)
            os.close(fd)
            os.posix_fallocate(file, 0, 25 << 20)
            os.close(file)
            held += 25 << 20
            time.sleep(0.6)
    """,
    "unlinked, only mapped": """
        libc.mmap.restype = ctypes.c_void_p
        libc.mmap.argtypes = [ctypes.c_void_p, ctypes.c_size_t, *[ctypes.c_int] * 3, ctypes.c_long]
        for n in range(5):
            fd = os.open("/tmp", os.O_TMPFILE | os.O_RDWR)
            os.posix_fallocate(fd, 0, 25 << 20)
            libc.mmap(None, 25 << 20, 1, 1, fd, 0)
            os.close(fd)
            held += 25 << 20
            time.sleep(0.6)
    """,
    "in a directory that cannot be listed": """
        os.mkdir("/home/user/d")
        os.chmod("/home/user/d", 0o300)
        for n in range(5): take(os.open(f"/home/user/d/{n}", os.O_CREAT | os.O_RDWR))
    """,
    "deeper than a path can be long": """
        os.chdir("/home/user")
        for n in range(40):
            os.mkdir("d" * 200)
            os.chdir("d" * 200)
        for n in range(5): take(os.open(str(n), os.O_CREAT | os.O_RDWR))
    """,
    "in a tree that keeps moving": """
        import threading
        os.makedirs("/home/user/a/b/c/d")
        def move():
            while True:
                try:
                    os.rename("/home/user/a", "/home/user/z")
                    os.rename("/home/user/z", "/home/user/a")
                except OSError:
                    pass
        threading.Thread(target=move, daemon=True).start()
        for n in range(5): take(os.open(f"/home/user/y{n}", os.O_CREAT | os.O_RDWR))
    """,
    "in a subvolume of its own": """
        import fcntl, struct
        top = os.open("/home/user", os.O_RDONLY)
        fcntl.ioctl(top, 0x5000940E, bytearray(struct.pack("=q4088s", 0, b"own")))
        for n in range(5): take(os.open(f"/home/user/own/{n}", os.O_CREAT | os.O_RDWR))
    """,
    "by punching holes and filling them again": """
        fd = os.open("/home/user/x", os.O_CREAT | os.O_RDWR)
        for n in range(5):
            os.posix_fallocate(fd, n * (25 << 20), 25 << 20)
            libc.fallocate(fd, 3, ctypes.c_long(n * (25 << 20)), ctypes.c_long(4096))
            held = os.fstat(fd).st_blocks * 512
            time.sleep(0.6)
    """,
}


@for_each("way", ATTEMPTS)
def test_no_way_holds_more_than_the_limit(way: str) -> None:
    box = Sandbox.create(limits={"disk": LIMIT})
    try:
        if way in UNSEEN_BY_A_COUNT:
            FILES_WITHOUT_A_NAME.require(box)
        program = _TAKE + textwrap.dedent(ATTEMPTS[way]) + "\nprint('held', held >> 20)\n"
        result = run(box, program, timeout=60)
        held = [int(line.split()[1]) for line in result.stdout.splitlines() if "held" in line]
        assert max(held, default=0) <= TOO_MUCH
    finally:
        box.kill()


def test_subvolume_made_inside_does_not_outlive_the_sandbox(make_box: MakeBox) -> None:
    """A layer with one in it could not be removed, and would be left behind for ever."""
    box = make_box()
    program = """
    import fcntl, struct
    for place in ("/home/user", "/tmp"):
        top = os.open(place, os.O_RDONLY)
        requests = {"create": 0x5000940E, "create 2": 0x50009418, "snapshot 2": 0x50009417}
        for name, request in requests.items():
            words = bytearray(struct.pack("=qQQ32x4040s", top, 0, 0, name.encode()))
            if request == 0x5000940E:
                words = bytearray(struct.pack("=q4088s", 0, name.encode()))
            found[place + " " + name] = attempt(fcntl.ioctl, top, request, words)
    """
    made = {n: a for n, a in probe(box, program).items() if a.startswith("ok")}
    layer = layer_of(box)
    box.kill()
    eventually(lambda: not layer.exists(), what="the sandbox's layer to be removed")
    assert made == {}


def test_tiny_files_are_counted(make_box: MakeBox) -> None:
    box = make_box(limits={"disk": 4 << 20})
    program = """
    made = 0
    try:
        for directory in range(100):
            os.mkdir(f"/home/user/{directory}")
            for number in range(1000):
                os.close(os.open(f"/home/user/{directory}/{number}", os.O_CREAT | os.O_WRONLY))
                made += 1
    except OSError:
        pass
    print("made", made)
    """
    result = run(box, program, timeout=60)
    made = [int(line.split()[1]) for line in result.stdout.splitlines() if "made" in line]
    assert max(made, default=0) < 60_000
    assert box.commands.run("echo fine").stdout == "fine\n"


def test_attributes_are_counted(make_box: MakeBox) -> None:
    box = make_box(limits={"disk": 8 << 20})
    program = """
    held = 0
    try:
        for number in range(20_000):
            path = f"/home/user/{number}"
            os.close(os.open(path, os.O_CREAT | os.O_WRONLY))
            for name in range(1, 4):
                os.setxattr(path, f"user.{name}", b"x" * 1200)
            held += 3600
    except OSError:
        pass
    print("held", held >> 20)
    """
    result = run(box, program, timeout=60)
    held = [int(line.split()[1]) for line in result.stdout.splitlines() if "held" in line]
    assert max(held, default=0) <= TOO_MUCH


def test_quota_of_a_volume_holds(make_volume: Callable[..., Volume], make_box: MakeBox) -> None:
    volume = make_volume(quota=LIMIT)
    box = make_box(mounts=[{"volume": volume.name, "target": "/data"}])
    program = _TAKE + (
        "for n in range(5): take(os.open(f'/data/{n}', os.O_CREAT | os.O_RDWR))\n"
        "print('held', held >> 20)\n"
    )
    result = run(box, program, timeout=60)
    assert "held" not in result.stdout


def test_work_directory_of_an_overlay_is_out_of_reach(make_box: MakeBox, source: object) -> None:
    box = make_box(
        limits={"disk": LIMIT},
        mounts=[{"source": str(source), "target": "/w", "mode": "overlay"}],
    )
    assert shell(box, "ls -d /w/../work /w/work /w/index 2>/dev/null").stdout == ""
    program = _TAKE + (
        "for n in range(5): take(os.open(f'/w/{n}', os.O_CREAT | os.O_RDWR))\n"
        "print('held', held >> 20)\n"
    )
    assert "held" not in run(box, program, timeout=60).stdout
