"""Leaving a set-id program, a capability or a stranger's file on the host through a write mount."""

from __future__ import annotations

import os
import stat
from collections.abc import Callable
from pathlib import Path

import pytest

from paddock import Sandbox
from security.attack import probe, shell
from security.conftest import MakeBox

SET_ID = stat.S_ISUID | stat.S_ISGID
# Numbers of x86-64; the calls without a wrapper in Python are made raw.
MAKE_SET_ID = """
import stat, fcntl
def fresh(name):
    fd = os.open(name, os.O_CREAT | os.O_RDWR, 0o755)
    os.close(fd)
    return name
raw = lambda name: ctypes.c_char_p(name.encode())
AT = ctypes.c_long(-100)
for bits in (0o4755, 0o2755, 0o6777, 0o4000, 0o7777):
    n = "%o-" % bits
    found[n + "chmod"] = attempt(os.chmod, fresh(n + "chmod"), bits)
    found[n + "fchmod"] = attempt(os.fchmod, os.open(fresh(n + "fchmod"), os.O_RDWR), bits)
    found[n + "fchmodat"] = call(268, -100, fresh(n + "fchmodat").encode(), bits)
    found[n + "fchmodat2"] = call(452, -100, fresh(n + "fchmodat2").encode(), bits, 0)
    found[n + "wide chmod"] = call(90, fresh(n + "wide").encode(), bits | (1 << 40))
    found[n + "open"] = call(2, (n + "open").encode(), os.O_CREAT | os.O_WRONLY, bits)
    found[n + "openat"] = call(257, -100, (n + "openat").encode(), os.O_CREAT | os.O_WRONLY, bits)
    found[n + "creat"] = call(85, (n + "creat").encode(), bits)
    found[n + "mknod"] = call(133, (n + "mknod").encode(), stat.S_IFREG | bits, 0)
    found[n + "mknodat"] = call(259, -100, (n + "mknodat").encode(), stat.S_IFREG | bits, 0)
    found[n + "tmpfile"] = call(257, -100, b".", os.O_TMPFILE | os.O_RDWR, bits)
    found[n + "mkdir"] = call(83, (n + "mkdir").encode(), bits)
    found[n + "mkdirat"] = call(258, -100, (n + "mkdirat").encode(), bits)
    found[n + "openat2"] = call(437, -100, (n + "openat2").encode(),
        ctypes.create_string_buffer((os.O_CREAT | os.O_WRONLY).to_bytes(8, "little")
                                    + bits.to_bytes(8, "little") + bytes(8)), 24)
    os.umask(0)
    found[n + "umask"] = call(2, (n + "umask").encode(), os.O_CREAT | os.O_WRONLY, bits)
    by_fd = os.open(fresh(n + "by fd"), os.O_PATH)
    found[n + "by fd"] = attempt(os.chmod, "/proc/self/fd/%d" % by_fd, bits)
"""


def set_id_files(top: Path) -> list[str]:
    return [str(p) for p in [top, *top.rglob("*")] if p.lstat().st_mode & SET_ID]


@pytest.fixture
def writable(make_box: MakeBox, source: Path) -> Sandbox:
    return make_box(mounts=[{"source": str(source), "target": "/w", "mode": "write"}])


def test_no_system_call_leaves_a_set_id_file_on_the_host(writable: Sandbox, source: Path) -> None:
    found = probe(writable, 'os.chdir("/w")\n' + MAKE_SET_ID)
    assert set_id_files(source) == []
    through = {name: answer for name, answer in found.items() if answer not in ("EPERM", "ENOSYS")}
    assert through == {}
    # It is the set-id bit that is refused, not the call.
    assert probe(writable, 'found["it"] = attempt(os.chmod, "/w", 0o1777)')["it"] == "ok None"


def test_ordinary_tools_leave_no_set_id_file_on_the_host(writable: Sandbox, source: Path) -> None:
    shell(
        writable,
        "cd /w; cp /bin/true a; chmod u+s a; chmod 4755 a; cp -p /usr/bin/su b;"
        " cp -a /usr/bin/passwd c; install -m 4755 /bin/true d; mkdir -m 2777 f;"
        " tar -C /usr/bin -cf - su passwd mount | tar -xpf -; mv a a2; ln a2 a3;"
        " python3 -c \"import shutil; shutil.copy2('/usr/bin/su', 'g')\"",
    )
    assert (source / "a2").exists()
    assert set_id_files(source) == []


def test_files_api_leaves_no_set_id_file_on_the_host(writable: Sandbox, source: Path) -> None:
    writable.files.write("/w/file", b"#!/bin/sh\n")
    writable.files.make_dir("/w/directory")
    assert set_id_files(source) == []


def test_compiled_program_leaves_no_set_id_file_on_the_host(
    writable: Sandbox, source: Path, compile_c: Callable[[str, str], bytes]
) -> None:
    program = compile_c(
        "setid",
        """
        #include <fcntl.h>
        #include <sys/stat.h>
        #include <sys/syscall.h>
        #include <unistd.h>
        int main(void) {
            syscall(SYS_open, "/w/one", O_CREAT | O_RDWR, 06755);
            int fd = open("/w/two", O_CREAT | O_RDWR, 0755);
            fchmod(fd, 06755);
            syscall(452, fd, "", 06755, 0x1000);
            mode_t old = umask(0);
            mknod("/w/three", S_IFREG | 06755, 0);
            umask(old);
            return 0;
        }
        """,
    )
    writable.files.write("setid", program)
    writable.commands.run("chmod +x setid && ./setid")
    assert (source / "two").exists()
    assert set_id_files(source) == []


def test_content_of_a_set_id_file_of_the_caller_is_safe_or_the_danger_is_told(
    make_box: MakeBox, source: Path
) -> None:
    """A write clears the bit; a write through memory does not, and nothing in Linux stops that.
    So the document must tell people of it."""
    victim = source / "program"
    victim.write_bytes(b"good" + bytes(4092))
    victim.chmod(0o4755)
    box = make_box(mounts=[{"source": str(source), "target": "/w", "mode": "write"}])
    program = """
    import mmap
    def by_mmap():
        fd = os.open("/w/program", os.O_RDWR)
        mmap.mmap(fd, 4096)[:4] = b"evil"
    found["mmap"] = attempt(by_mmap)
    """
    probe(box, program)
    changed = victim.read_bytes()[:4] == b"evil"
    if changed and victim.stat().st_mode & SET_ID:
        document = (Path(__file__).parents[2] / "SECURITY.md").read_text()
        assert "set-id file of your own" in " ".join(document.split())


def test_write_to_a_set_id_file_of_the_caller_clears_its_bit(
    make_box: MakeBox, source: Path
) -> None:
    victim = source / "program"
    victim.write_bytes(b"good")
    victim.chmod(0o4755)
    box = make_box(mounts=[{"source": str(source), "target": "/w", "mode": "write"}])
    box.files.write("/w/program", b"evil")
    assert victim.read_bytes() == b"evil"
    assert set_id_files(source) == []


def test_file_capabilities_cannot_be_given(writable: Sandbox, source: Path) -> None:
    program = """
    os.close(os.open("/w/program", os.O_CREAT | os.O_WRONLY, 0o755))
    v2 = bytes.fromhex("0100000202000000000000000000000000000000")
    v3 = bytes.fromhex("010000030200000000000000000000000000000000000000")
    for name, value in (("v2", v2), ("v3", v3)):
        found[name] = attempt(os.setxattr, "/w/program", "security.capability", value)
    found["trusted"] = attempt(os.setxattr, "/w/program", "trusted.evil", b"1")
    """
    assert probe(writable, program) == {"v2": "EPERM", "v3": "EPERM", "trusted": "EPERM"}
    assert "security.capability" not in os.listxattr(source / "program")


def test_access_list_grants_no_set_id(writable: Sandbox, source: Path) -> None:
    program = """
    os.close(os.open("/w/program", os.O_CREAT | os.O_WRONLY, 0o755))
    entry = lambda tag, perm, who=0xffffffff: (
        tag.to_bytes(2, "little") + perm.to_bytes(2, "little") + who.to_bytes(4, "little"))
    acl = (2).to_bytes(4, "little") + entry(1, 0o4007) + entry(4, 7) + entry(32, 7)
    found["odd"] = attempt(os.setxattr, "/w/program", "system.posix_acl_access", acl)
    """
    probe(writable, program)
    assert set_id_files(source) == []


def test_everything_written_through_a_mount_belongs_to_the_caller(
    writable: Sandbox, source: Path
) -> None:
    shell(
        writable,
        "cd /w; echo x > file; mkdir directory; ln -s x link; mkfifo fifo; ln file hard;"
        " cp -a /usr/bin/env copy; chown 0:0 file; chown 1001:1001 file; chgrp 65534 directory;"
        " python3 -c \"import socket; socket.socket(socket.AF_UNIX).bind('socket')\"",
    )
    writable.files.write("/w/api", "x")
    writable.run_code("open('/w/cell', 'w').write('x')")
    owner = source.stat()
    made = sorted(p.name for p in source.iterdir())
    assert {"file", "directory", "link", "fifo", "copy", "socket", "api", "cell"} <= set(made)
    for path in source.iterdir():
        info = path.lstat()
        assert (info.st_uid, info.st_gid) == (owner.st_uid, owner.st_gid), path.name
