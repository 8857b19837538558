"""One agent against another: files, processes, sockets, shared memory, names, volumes."""

from __future__ import annotations

import ctypes
import os
from collections.abc import Callable
from pathlib import Path

import pytest

from cases import for_each
from paddock import FileMissing, Sandbox, Volume
from security.attack import background, init_pid, layer_of, probe, run, shell
from security.conftest import MakeBox
from security.differences import OWN_QUOTAS_OF_USER, OWN_UID


@pytest.fixture
def pair(make_box: MakeBox) -> tuple[Sandbox, Sandbox]:
    return make_box(), make_box()


def test_files_of_another_sandbox_are_out_of_reach(
    pair: tuple[Sandbox, Sandbox], secret: str
) -> None:
    first, second = pair
    first.files.write("/home/user/key", secret)
    first.files.write("/tmp/key", secret)
    first.commands.run(f"echo {secret} > /dev/shm/key; echo {secret} > /run/key")
    for place in ("/home/user/key", "/tmp/key", "/dev/shm/key", "/run/key"):
        assert not second.files.exists(place)
    # By the host's own path for them, from inside and through the API.
    for path in (str(layer_of(first)), os.path.realpath(layer_of(first))):
        assert shell(second, f"ls {path}").exit_code != 0
        with pytest.raises(FileMissing):
            second.files.read(f"{path}/home/key")


def test_layers_on_the_host_are_closed_to_other_users(pair: tuple[Sandbox, Sandbox]) -> None:
    home = Path(os.environ["PADDOCK_HOME"])
    assert home.stat().st_mode & 0o077 == 0
    first, second = pair
    if OWN_UID(first):
        assert first.get_info().uid != second.get_info().uid


def test_processes_of_another_sandbox_are_neither_seen_nor_signalled(
    pair: tuple[Sandbox, Sandbox],
) -> None:
    first, second = pair
    handle = first.commands.run(["sleep", "4321"], background=True)
    pids = [init_pid(first), init_pid(second), os.getpid(), os.getppid()]
    program = """
    lines = []
    for pid in [n for n in os.listdir("/proc") if n.isdigit()]:
        lines.append(attempt(read, f"/proc/{pid}/cmdline"))
    found["sleepers"] = [line for line in lines if "4321" in line]
    found["pids"] = sorted(int(n) for n in os.listdir("/proc") if n.isdigit())
    for pid in map(int, sys.argv[1:]):
        if pid not in found["pids"]:
            found["kill %d" % pid] = attempt(os.kill, pid, 9)
            found["pidfd %d" % pid] = attempt(os.pidfd_open, pid)
    found["all"] = attempt(os.kill, -1, 0)
    """
    found = probe(second, program, *map(str, pids))
    assert found["sleepers"] == []
    assert len(found["pids"]) <= 3  # the guest and this program
    assert {a for name, a in found.items() if name.startswith(("kill", "pidfd"))} == {"ESRCH"}
    assert handle.pid in [info.pid for info in first.commands.list()]


def test_signal_to_everybody_reaches_only_the_own_sandbox(pair: tuple[Sandbox, Sandbox]) -> None:
    first, second = pair
    handle = first.commands.run(["sleep", "60"], background=True)
    run(second, "os.kill(-1, 9)")
    shell(second, "kill -9 -1")
    assert handle.pid in [info.pid for info in first.commands.list()]
    assert second.commands.run("echo fine").stdout == "fine\n"


def test_abstract_sockets_are_not_shared(pair: tuple[Sandbox, Sandbox]) -> None:
    first, second = pair
    listener = """
    import socket
    sock = socket.socket(socket.AF_UNIX)
    sock.bind("\\0shared-name")
    sock.listen()
    print("up", flush=True)
    time.sleep(30)
    """
    background(first, listener)
    program = """
    import socket
    found["it"] = attempt(socket.socket(socket.AF_UNIX).connect, "\\0shared-name")
    """
    assert probe(first, program)["it"] == "ok None"
    assert probe(second, program)["it"] == "ECONNREFUSED"


def test_system_v_and_posix_objects_are_not_shared(pair: tuple[Sandbox, Sandbox]) -> None:
    make = """
    found["queue"] = call(68, 0x5043, 0o1666)  # msgget with IPC_CREAT
    found["semaphore"] = call(64, 0x5043, 1, 0o1666)
    found["shared"] = call(29, 0x5043, 4096, 0o1666)
    found["mqueue"] = call(240, b"paddock", os.O_CREAT | os.O_RDWR, 0o666, 0)
    """
    find = """
    found["queue"] = call(68, 0x5043, 0)
    found["semaphore"] = call(64, 0x5043, 0, 0)
    found["shared"] = call(29, 0x5043, 0, 0)
    found["mqueue"] = call(240, b"paddock", os.O_RDWR, 0, 0)
    """
    first, second = pair
    assert isinstance(probe(first, make)["queue"], int) or not OWN_UID(first)
    # ENOSYS: without a cgroup memory that belongs to no process is refused altogether.
    assert set(probe(second, find).values()) <= {"ENOENT", "ENOSYS"}


def test_names_of_the_host_stay_its_own(pair: tuple[Sandbox, Sandbox]) -> None:
    first, second = pair
    names = {box.commands.run("cat /proc/sys/kernel/hostname").stdout.strip() for box in pair}
    assert names == {first.sandbox_id, second.sandbox_id}
    assert os.uname().nodename not in names
    shell(first, "hostname evil")
    assert os.uname().nodename != "evil"


def test_keys_are_not_shared(pair: tuple[Sandbox, Sandbox]) -> None:
    program = """
    found["add"] = call(248, b"user", b"x", b"y", 1, -4)
    found["search"] = call(250, 10, -4, b"user", b"x")
    found["session"] = call(250, 1, b"s")
    found["persistent"] = call(250, 22, -1, -4)
    """
    assert set(probe(pair[0], program).values()) == {"EPERM"}


def test_volume_is_seen_only_where_it_is_mounted(
    make_volume: Callable[..., Volume], make_box: MakeBox, secret: str
) -> None:
    volume = make_volume()
    first = make_box(mounts=[{"volume": volume.name, "target": "/data"}])
    first.files.write("/data/key", secret)
    stranger = make_box()
    assert not stranger.files.exists("/data")
    search = f"find / -path /usr -prune -o -path /proc -prune -o -name '*{volume.name}*' -print"
    assert shell(stranger, f"cat /data/key; {search}").stdout == ""
    reader = make_box(mounts=[{"volume": volume.name, "target": "/data", "mode": "read"}])
    assert reader.files.read("/data/key") == secret
    assert "Read-only" in shell(reader, "echo evil > /data/key").stderr


def test_link_in_a_volume_leads_its_reader_into_the_readers_own_tree(
    make_volume: Callable[..., Volume], make_box: MakeBox, secret_file: Path, secret: str
) -> None:
    volume = make_volume()
    first = make_box(mounts=[{"volume": volume.name, "target": "/data"}])
    first.commands.run(f"cd /data; ln -s {secret_file} a; ln -s ../../../../../..{secret_file} b")
    second = make_box(mounts=[{"volume": volume.name, "target": "/data"}])
    for name in ("a", "b"):
        with pytest.raises(FileMissing):
            second.files.read(f"/data/{name}")
        assert secret not in shell(second, f"cat /data/{name}").stdout


@for_each("name", ["../outside", "/etc", "a/b", "..", ".", "a\0b", "", "x" * 300])
def test_name_of_a_volume_is_no_path(name: str) -> None:
    with pytest.raises(ValueError):
        Volume.create(name)
    with pytest.raises(ValueError):
        Sandbox.create(mounts=[{"volume": name, "target": "/data"}])


def test_watches_of_one_sandbox_do_not_use_up_those_of_the_host(box: Sandbox) -> None:
    """The kernel counts inotify instances by host uid, 128 by default, over all namespaces."""
    OWN_QUOTAS_OF_USER.require(box)
    program = """
    count = 0
    while count < 600 and libc.inotify_init1(0) >= 0:
        count += 1
    print(count, flush=True)
    time.sleep(30)
    """
    handle = background(box, program)
    try:
        fd = ctypes.CDLL(None, use_errno=True).inotify_init1(0)
        assert fd >= 0, f"a sandbox holds {handle.stdout.strip()} instances; none is left here"
        os.close(fd)
    finally:
        handle.kill()
    assert OWN_QUOTAS_OF_USER.reason  # why root's sandboxes cannot do this in the first place


def test_fork_has_no_hold_on_its_parent(box: Sandbox, secret: str) -> None:
    with box.fork() as child:
        box.files.write("after", secret)
        assert not child.files.exists("after")
        child.files.write("mine", "x")
        assert not box.files.exists("mine")
        if OWN_UID(box):
            assert child.get_info().uid != box.get_info().uid
        shell(child, "kill -9 -1; rm -rf /home/user/*")
        assert box.files.read("after") == secret
