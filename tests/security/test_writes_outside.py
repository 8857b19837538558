"""Changing what is the host's: read-only places, kernel settings, sources of mounts."""

from __future__ import annotations

import os
import stat
from pathlib import Path

import pytest

from paddock import FileError, Sandbox
from security.attack import probe, shell
from security.conftest import MakeBox

CHANGE_BY_EVERY_WAY = """
top = sys.argv[1]
victim = top + "/victim"
def write(path, flags):
    os.write(os.open(path, flags, 0o644), b"evil")
def by_mmap():
    import mmap
    fd = os.open(victim, os.O_RDWR)
    mmap.mmap(fd, 4)[:4] = b"evil"
def reopened():
    fd = os.open(victim, os.O_RDONLY)
    write("/proc/self/fd/%d" % fd, os.O_WRONLY)
ways = {
    "write": lambda: write(victim, os.O_WRONLY),
    "append": lambda: write(victim, os.O_WRONLY | os.O_APPEND),
    "truncate": lambda: os.truncate(victim, 0),
    "create": lambda: write(top + "/new", os.O_WRONLY | os.O_CREAT),
    "unnamed": lambda: os.open(top, os.O_TMPFILE | os.O_RDWR, 0o600),
    "mmap": by_mmap,
    "reopened": reopened,
    "unlink": lambda: os.unlink(victim),
    "rename": lambda: os.rename(victim, top + "/renamed"),
    "rename away": lambda: os.rename(victim, "/home/user/taken"),
    "link": lambda: os.link(victim, top + "/linked"),
    "symlink": lambda: os.symlink("/", top + "/pointer"),
    "mkdir": lambda: os.mkdir(top + "/made"),
    "mkfifo": lambda: os.mkfifo(top + "/fifo"),
    "chmod": lambda: os.chmod(victim, 0o777),
    "chown": lambda: os.chown(victim, 1000, 1000),
    "times": lambda: os.utime(victim, (0, 0)),
    "xattr": lambda: os.setxattr(victim, "user.evil", b"1"),
    "directory mode": lambda: os.chmod(top, 0o777),
    "directory times": lambda: os.utime(top, (0, 0)),
}
for name, way in ways.items():
    found[name] = attempt(way)
"""


def snapshot_of(top: Path) -> dict[str, tuple[object, ...]]:
    """All that can be told of a tree from outside."""
    found = {}
    for path in [top, *sorted(top.rglob("*"))]:
        info = path.lstat()
        content = path.read_bytes() if stat.S_ISREG(info.st_mode) else b""
        attributes = tuple(os.listxattr(path, follow_symlinks=False))
        fields = (info.st_mode, info.st_uid, info.st_gid, info.st_mtime_ns, info.st_nlink)
        found[str(path)] = (*fields, content, attributes)
    return found


def test_read_mount_leaves_its_source_untouched(make_box: MakeBox, source: Path) -> None:
    (source / "victim").write_text("good")
    before = snapshot_of(source)
    box = make_box(mounts=[{"source": str(source), "target": "/in", "mode": "read"}])
    found = probe(box, CHANGE_BY_EVERY_WAY, "/in")
    assert found.pop("rename away") == "EXDEV"
    assert found.pop("link") in ("EROFS", "EPERM")
    assert set(found.values()) == {"EROFS"}  # the mount refuses, whatever the permissions say
    assert snapshot_of(source) == before


def test_read_mount_of_one_file_leaves_it_untouched(make_box: MakeBox, source: Path) -> None:
    victim = source / "victim"
    victim.write_text("good")
    before = snapshot_of(source)
    box = make_box(mounts=[{"source": str(victim), "target": "/in/victim", "mode": "read"}])
    result = shell(box, "echo evil > /in/victim; chmod 777 /in/victim; rm -f /in/victim; mv /in /x")
    assert "Read-only file system" in result.stderr
    assert snapshot_of(source) == before


def test_overlay_mount_takes_changes_and_leaves_its_source_untouched(
    make_box: MakeBox, source: Path
) -> None:
    (source / "victim").write_text("good")
    (source / "directory").mkdir()
    (source / "directory" / "inner").write_text("good")
    before = snapshot_of(source)
    box = make_box(mounts=[{"source": str(source), "target": "/in", "mode": "overlay"}])
    found = probe(box, CHANGE_BY_EVERY_WAY, "/in")
    assert found["write"].startswith("ok")
    shell(box, "rm -rf /in/directory; echo evil > /in/again; ln -s /etc /in/etc")
    box.files.write("/in/api", "evil")
    assert snapshot_of(source) == before


def test_files_api_cannot_write_through_a_read_mount(make_box: MakeBox, source: Path) -> None:
    (source / "victim").write_text("good")
    before = snapshot_of(source)
    box = make_box(mounts=[{"source": str(source), "target": "/in", "mode": "read"}])
    attempts = [
        lambda: box.files.write("/in/victim", "evil"),
        lambda: box.files.write("/in/new", "evil"),
        lambda: box.files.remove("/in/victim"),
        lambda: box.files.rename("/in/victim", "/in/other"),
        lambda: box.files.make_dir("/in/made"),
    ]
    for act in attempts:
        with pytest.raises(FileError) as caught:
            act()
        assert caught.value.code == "EROFS"
    assert snapshot_of(source) == before


@pytest.mark.parametrize(
    "place", ["/usr", "/usr/bin", "/etc", "/", "/.paddock/kernel", "/.paddock"]
)
def test_system_places_cannot_be_changed(shared_box: Sandbox, place: str) -> None:
    program = """
    top = sys.argv[1]
    found["create"] = attempt(os.open, top + "/evil", os.O_CREAT | os.O_WRONLY)
    found["mkdir"] = attempt(os.mkdir, top + "/evil")
    found["mode"] = attempt(os.chmod, top, 0o777)
    """
    found = probe(shared_box, program, place)
    # /usr belongs to the host's root, so either wall may be the first in the way.
    assert set(found.values()) <= {"EROFS", "EPERM", "EACCES"}
    assert not os.path.lexists(f"{place}/evil")


def test_programs_of_the_host_cannot_be_replaced(shared_box: Sandbox) -> None:
    before = os.stat("/usr/bin/env")
    program = """
    found["write"] = attempt(os.open, "/usr/bin/env", os.O_WRONLY)
    found["truncate"] = attempt(os.truncate, "/usr/bin/env", 0)
    found["rename"] = attempt(os.rename, "/usr/bin/env", "/usr/bin/evil")
    found["unlink"] = attempt(os.unlink, "/bin/env")
    """
    assert set(probe(shared_box, program).values()) <= {"EROFS", "EACCES", "EPERM"}
    assert os.stat("/usr/bin/env") == before


def test_kernel_settings_cannot_be_written(shared_box: Sandbox) -> None:
    program = """
    for name in ("sys/kernel/core_pattern", "sys/kernel/modprobe", "sys/kernel/hostname",
                 "sys/kernel/randomize_va_space", "sys/vm/overcommit_memory", "sys/vm/drop_caches",
                 "sys/fs/binfmt_misc/register", "sys/kernel/sysrq", "sys/user/max_user_namespaces",
                 "sys/net/ipv4/ip_forward", "sys/fs/file-max", "sys/kernel/threads-max",
                 "sysrq-trigger", "irq/0/smp_affinity", "sys/kernel/keys/maxkeys",
                 "1/oom_score_adj", "1/mem", "1/comm", "1/clear_refs", "self/uid_map"):
        def write():
            fd = os.open("/proc/" + name, os.O_WRONLY)
            os.write(fd, b"1")
        found[name] = attempt(write)
    """
    found = probe(shared_box, program)
    assert not {name: answer for name, answer in found.items() if answer.startswith("ok")}
    assert set(found.values()) <= {"EACCES", "EPERM", "EROFS", "ENOENT", "EINVAL"}
    for name in ("sys/kernel/core_pattern", "sys/kernel/randomize_va_space"):
        assert found[name] in ("EACCES", "EROFS"), name


def test_settings_of_the_own_namespaces_stay_in_them(shared_box: Sandbox) -> None:
    """The kernel lets a namespace's creator tune its IPC; the host's own values must not move."""
    names = ("kernel/shmmax", "kernel/msgmax", "kernel/msgmnb", "kernel/sem", "fs/mqueue/msg_max")
    before = {name: Path("/proc/sys", name).read_text() for name in names}
    program = """
    for name in sys.argv[1:]:
        def write():
            with open("/proc/sys/" + name, "w") as file:
                file.write("7 7 7 7" if name.endswith("sem") else "7")
        found[name] = attempt(write)
    """
    probe(shared_box, program, *names)
    assert {name: Path("/proc/sys", name).read_text() for name in names} == before


def test_root_of_the_sandbox_cannot_be_filled(shared_box: Sandbox) -> None:
    """The root, /dev and the masked directories are memory without a limit, so they are closed."""
    program = """
    for place in ("/", "/dev", "/home", "/var", "/proc", "/proc/fs", "/proc/acpi"):
        found[place] = attempt(os.open, place + "/filler", os.O_CREAT | os.O_WRONLY)
    """
    assert set(probe(shared_box, program).values()) <= {"EROFS", "EACCES", "ENOENT", "EPERM"}


def test_overlay_attributes_cannot_be_forged(make_box: MakeBox, source: Path) -> None:
    """They would tell the kernel to show, and `changes` to take, files from elsewhere."""
    (source / "directory").mkdir()
    box = make_box(mounts=[{"source": str(source), "target": "/in", "mode": "overlay"}])
    program = """
    os.mkdir("/in/directory/x")
    for name in ("user.overlay.redirect", "user.overlay.opaque", "trusted.overlay.redirect",
                 "user.overlay.metacopy", "security.capability", "security.selinux"):
        found[name] = attempt(os.setxattr, "/in/directory", name, b"/../../etc")
    found["listed"] = os.listxattr("/in/directory")
    found["seen"] = sorted(os.listdir("/in/directory"))
    """
    found = probe(box, program)
    assert found["seen"] == ["x"]
    assert found["security.capability"] in ("EPERM", "EINVAL")
    assert found["trusted.overlay.redirect"] in ("EPERM", "EOPNOTSUPP")
    assert os.listxattr(source / "directory") == []
    with box.fork() as child:  # a second mount of the same layer obeys nothing of it either
        assert child.commands.run("ls /in/directory").stdout == "x\n"
