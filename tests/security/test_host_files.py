"""Reading what is the host's: its files, its environment, Paddock's own state."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from paddock import FileError, FileMissing, Sandbox
from security.attack import init_pid, probe, run, shell
from security.conftest import MakeBox
from security.differences import HOST_CAN_MOUNT, STRANGERS_FILES

PRIVATE = ("/etc/shadow", "/etc/gshadow", "/etc/sudoers", "/root", "/home/../root/.ssh/id_rsa",
           "/var/lib", "/var/log", "/boot", "/sys", "/run/paddock", "/srv", "/opt")  # fmt: skip
READ_BY_EVERY_WAY = """
path = sys.argv[1]
tries = {
    "plain": path,
    "dots": "/home/user/../../../../../../.." + path,
    "own root": "/proc/self/root" + path,
    "root of pid 1": "/proc/1/root" + path,
    "directory of pid 1": "/proc/1/cwd" + path,
    "thread's root": "/proc/thread-self/root/.." + path,
}
for name, place in tries.items():
    found[name] = attempt(read, place)
link = "/home/user/link"
os.path.lexists(link) and os.unlink(link)
os.symlink(path, link)
found["link"] = attempt(read, link)
found["hard link"] = attempt(os.link, path, "/home/user/hard")
for pid in [n for n in os.listdir("/proc") if n.isdigit()]:
    for entry in ("root", "cwd"):
        found[f"{pid} {entry}"] = attempt(read, f"/proc/{pid}/{entry}{path}")
"""


def test_no_way_through_the_tree_leads_to_a_file_of_the_host(
    box: Sandbox, secret_file: Path, secret: str
) -> None:
    found = probe(box, READ_BY_EVERY_WAY, str(secret_file))
    assert not [name for name, answer in found.items() if secret in answer or "ok" in answer]
    # The name is not there at all: it is the mount table that hides it, not a permission.
    assert {found["plain"], found["dots"], found["own root"], found["link"]} == {"ENOENT"}
    # Pid 1 may not be looked into by anybody.
    assert {found["root of pid 1"], found["directory of pid 1"]} == {"EACCES"}


@pytest.mark.parametrize("path", PRIVATE)
def test_private_places_of_the_host_do_not_exist(shared_box: Sandbox, path: str) -> None:
    found = probe(shared_box, "found['it'] = attempt(os.lstat, sys.argv[1])", path)
    assert found["it"] == "ENOENT"
    assert not shared_box.files.exists(path)


def test_going_up_by_descriptor_ends_at_the_own_root(shared_box: Sandbox) -> None:
    program = """
    fd = os.open("/home/user", os.O_PATH)
    for _ in range(64):
        fd = os.open("..", os.O_PATH, dir_fd=fd)
    found["is the root"] = os.path.samestat(os.fstat(fd), os.stat("/"))
    found["names"] = os.listdir("/proc/self/fd/%d" % fd)
    """
    found = probe(shared_box, program)
    assert found["is the root"] is True
    assert set(found["names"]) <= {".paddock", "bin", "dev", "etc", "home", "lib", "lib32",
                                   "lib64", "proc", "run", "sbin", "tmp", "usr", "var"}  # fmt: skip


def test_files_cannot_be_opened_by_handle(shared_box: Sandbox) -> None:
    program = """
    handle = ctypes.create_string_buffer(256)
    handle[0:4] = (128).to_bytes(4, "little")
    mount = ctypes.c_int()
    found["name"] = call(303, -100, b"/home/user", handle, ctypes.byref(mount), 0)
    fd = os.open("/home/user", os.O_RDONLY)
    # The root directory of most file systems has inode 2: the classic way out of a bind mount.
    guess = (8).to_bytes(4, "little") + (1).to_bytes(4, "little") + (2).to_bytes(8, "little")
    found["open"] = call(304, fd, ctypes.create_string_buffer(guess), os.O_RDONLY)
    found["openat2"] = call(437, -100, b"/", ctypes.create_string_buffer(24), 24)
    """
    assert probe(shared_box, program) == {"name": "EPERM", "open": "EPERM", "openat2": "ENOSYS"}


def test_disks_and_memory_devices_are_not_there(shared_box: Sandbox) -> None:
    program = """
    import stat
    for name in ("mem", "kmem", "port", "kvm", "fuse", "loop-control", "loop0", "vda", "sda",
                 "btrfs-control", "mapper/control", "net/tun", "uinput", "vhost-net", "vsock"):
        found[name] = attempt(os.open, "/dev/" + name, os.O_RDWR)
    for kind in (stat.S_IFBLK, stat.S_IFCHR):
        found[oct(kind)] = attempt(os.mknod, "/home/user/disk", kind | 0o600, os.makedev(8, 0))
    found["devices"] = sorted(n for n in os.listdir("/dev") if not os.path.islink("/dev/" + n))
    """
    found = probe(shared_box, program)
    assert found.pop("devices") == [
        "full",
        "null",
        "pts",
        "random",
        "shm",
        "tty",
        "urandom",
        "zero",
    ]
    assert {found.pop("0o60000"), found.pop("0o20000")} == {"EPERM"}
    assert set(found.values()) == {"ENOENT"}


def test_variables_of_the_host_process_do_not_enter(
    make_box: MakeBox, monkeypatch: pytest.MonkeyPatch, secret: str
) -> None:
    monkeypatch.setenv("PADDOCK_TEST_SECRET", secret)
    box = make_box()
    assert secret not in box.commands.run("env; cat /proc/self/environ | tr '\\0' '\\n'").stdout
    found = probe(
        box,
        "for pid in [n for n in os.listdir('/proc') if n.isdigit()]:\n"
        "    found[pid] = attempt(read, f'/proc/{pid}/environ')",
    )
    assert found["1"] == "EACCES"
    assert not [pid for pid, text in found.items() if secret in text]
    assert secret not in str(box.run_code("import os; dict(os.environ)").text)


def test_no_process_of_the_fence_carries_variables_of_the_host(
    make_box: MakeBox, monkeypatch: pytest.MonkeyPatch, secret: str
) -> None:
    """The guest is the first thing an agent would look into, so it must have nothing to find."""
    monkeypatch.setenv("PADDOCK_TEST_SECRET", secret)
    box = make_box()
    outer = Path(f"/proc/{init_pid(box)}/environ")
    if os.access(outer, os.R_OK):  # root may look; a guest that is not dumpable is closed to others
        assert secret.encode() not in outer.read_bytes()


def test_paddocks_own_state_is_out_of_reach(shared_box: Sandbox) -> None:
    home = os.path.realpath(os.environ["PADDOCK_HOME"])
    found = probe(shared_box, READ_BY_EVERY_WAY, home)
    assert not [name for name, answer in found.items() if "ok" in answer]
    assert not shared_box.files.exists(home)
    assert os.stat(home).st_mode & 0o077 == 0


@pytest.mark.parametrize(
    ("what", "mode"), [("itself", "read"), ("parent", "read"), ("inside", "write")]
)
def test_paddocks_own_state_cannot_be_mounted(make_box: MakeBox, what: str, mode: str) -> None:
    """It holds all other sandboxes' files, the code of future guests and the control socket."""
    home = Path(os.environ["PADDOCK_HOME"])
    place = {"itself": home, "parent": home.parent, "inside": home / "cache"}[what]
    try:
        box = make_box(mounts=[{"source": str(place), "target": "/m", "mode": mode}])
    except Exception as refusal:
        assert "mounts" in str(refusal)
        return
    inside = f"/m/{home.name}" if what == "parent" else "/m"
    assert shell(box, f"ls -A {inside}").stdout == ""


@pytest.mark.parametrize("place", ["/proc", "/sys", "/dev"])
def test_kernel_file_systems_of_the_host_cannot_be_mounted(make_box: MakeBox, place: str) -> None:
    with pytest.raises(Exception, match="mount"):
        make_box(mounts=[{"source": place, "target": "/m", "mode": "read"}])


def test_only_the_mounted_part_of_a_closed_home_is_seen(
    make_box: MakeBox, tmp_path: Path, secret: str
) -> None:
    home = tmp_path / "home"
    project = home / "project"
    project.mkdir(parents=True)
    (project / "file").write_text("for the agent")
    (home / "beside").write_text(secret)
    home.chmod(0o700)
    box = make_box(mounts=[{"source": str(project), "target": "/in", "mode": "read"}])
    assert box.files.read("/in/file") == "for the agent"
    program = """
    for way in ("/in/../beside", "/in/../../beside", "/proc/self/cwd/../beside", "../beside"):
        os.chdir("/in")
        found[way] = attempt(read, way)
    fd = os.open("/in", os.O_PATH)
    found["by descriptor"] = attempt(lambda: os.open("../beside", os.O_RDONLY, dir_fd=fd))
    found["parent"] = os.listdir(os.open("..", os.O_RDONLY, dir_fd=fd))
    """
    found = probe(box, program)
    assert "usr" in found.pop("parent")  # the parent of the mount is the sandbox's own root
    assert set(found.values()) == {"ENOENT"}
    with pytest.raises(FileMissing):
        box.files.read("/in/../beside")


def test_link_in_a_mount_leads_into_the_sandbox_not_to_the_host(
    make_box: MakeBox, source: Path, secret_file: Path, secret: str
) -> None:
    (source / "absolute").symlink_to(secret_file)
    (source / "relative").symlink_to(os.path.relpath(secret_file, source))
    (source / "directory").symlink_to(secret_file.parent)
    for mode in ("read", "write", "overlay"):
        box = make_box(mounts=[{"source": str(source), "target": "/in", "mode": mode}])
        for name in ("absolute", "relative", "directory/key"):
            assert secret not in shell(box, f"cat /in/{name}").stdout
            with pytest.raises(FileMissing):
                box.files.read(f"/in/{name}")


def test_file_that_is_closed_to_the_agents_stand_in_stays_closed(
    make_box: MakeBox, source: Path, secret: str
) -> None:
    closed = source / "closed"
    closed.write_text(secret)
    box = make_box(mounts=[{"source": str(source), "target": "/in", "mode": "read"}])
    if STRANGERS_FILES(box):
        os.chown(closed, 54321, 54321)
        closed.chmod(0o600)
    else:
        closed.chmod(0)
    result = shell(box, "cat /in/closed; chmod 644 /in/closed; cat /in/closed")
    assert secret not in result.stdout
    with pytest.raises(FileError, match="denied"):
        box.files.read("/in/closed")


@pytest.fixture
def nested(source: Path) -> Iterator[Path]:
    place = source / "nested"
    place.mkdir()
    yield place
    subprocess.run(["umount", str(place)], check=False, capture_output=True)


def test_mount_below_a_mounted_source_does_not_come_along(
    make_box: MakeBox, source: Path, nested: Path, secret: str
) -> None:
    HOST_CAN_MOUNT.require(make_box())
    subprocess.run(["mount", "-t", "tmpfs", "none", str(nested)], check=True)
    (nested / "key").write_text(secret)
    box = make_box(mounts=[{"source": str(source), "target": "/in", "mode": "read"}])
    assert box.commands.run("ls -A /in/nested").stdout == ""


def test_code_interpreter_sees_no_more_than_a_command(
    shared_box: Sandbox, secret_file: Path
) -> None:
    for path in (str(secret_file), "/etc/shadow", "/proc/1/environ"):
        error = shared_box.run_code(f"open({path!r}).read()").error
        assert error is not None
        assert error.name in ("FileNotFoundError", "PermissionError")


def test_masked_files_of_proc_are_empty(shared_box: Sandbox) -> None:
    """What tells about the kernel's memory or about others."""
    program = """
    for name in ("kcore", "kallsyms", "keys", "timer_list", "slabinfo", "vmallocinfo", "kmsg",
                 "sched_debug", "modules"):
        found[name] = attempt(read, "/proc/" + name)
    """
    answers = set(probe(shared_box, program).values())
    assert answers <= {"ok b''", "ENOENT", "EACCES", "EPERM"}


def test_mount_table_names_no_place_outside_the_plan(shared_box: Sandbox) -> None:
    """Everything that is mounted was meant to be."""
    result = run(shared_box, "print(open('/proc/self/mounts').read())")
    targets = {line.split()[1] for line in result.stdout.splitlines() if line}
    unexpected = {t for t in targets if not t.startswith(("/proc", "/dev", "/.paddock"))}
    known = {"/", "/usr", "/etc", "/run", "/home/user", "/tmp"}
    assert unexpected <= known | {"/bin", "/sbin", "/lib", "/lib32", "/lib64", "/libx32"}
