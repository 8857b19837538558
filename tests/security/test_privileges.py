"""Becoming more than the agent is: root, a capability, another user."""

from __future__ import annotations

import os
import stat
from pathlib import Path

import pytest

from paddock import Sandbox
from security.attack import init_pid, probe, shell
from security.conftest import MakeBox
from security.differences import HOST_CAN_MOUNT

SET_ID_PROGRAMS = ("su", "sudo", "passwd", "mount", "umount", "newgrp", "chsh", "gpasswd", "pkexec",
                   "newuidmap", "newgidmap", "fusermount3", "ping", "doas")  # fmt: skip


def test_no_process_inside_has_a_capability(box: Sandbox) -> None:
    box.run_code("1")  # an interpreter is a process too
    shell(box, "sleep 30 & setsid sleep 30 &")
    program = """
    for pid in [n for n in os.listdir("/proc") if n.isdigit()]:
        lines = dict(l.split(":", 1) for l in open(f"/proc/{pid}/status").read().splitlines())
        names = "CapInh CapPrm CapEff CapBnd CapAmb NoNewPrivs Seccomp Uid Gid"
        found[pid] = [lines[name].split() for name in names.split()]
    """
    found = probe(box, program)
    assert "1" in found
    assert len(found) > 3
    for pid, fields in found.items():
        *caps, no_new_privs, seccomp, uid, gid = fields
        assert caps == [["0" * 16]] * 5, pid
        assert (no_new_privs, seccomp) == (["1"], ["2"]), pid
        assert uid == gid == ["1000"] * 4, pid


def test_first_process_is_as_bare_when_seen_from_the_host(box: Sandbox) -> None:
    text = Path(f"/proc/{init_pid(box)}/status").read_text()
    lines = dict(line.split(":\t", 1) for line in text.splitlines() if ":\t" in line)
    for name in ("CapInh", "CapPrm", "CapEff", "CapBnd", "CapAmb"):
        assert int(lines[name], 16) == 0, name
    assert (lines["NoNewPrivs"], lines["Seccomp"]) == ("1", "2")
    assert "0" not in lines["Uid"].split()
    assert set(lines["Groups"].split()) & {"0"} == set()


def test_ids_cannot_be_changed(shared_box: Sandbox) -> None:
    program = """
    tries = {
        "setuid": lambda: os.setuid(0), "setgid": lambda: os.setgid(0),
        "setreuid": lambda: os.setreuid(0, 0), "setresuid": lambda: os.setresuid(0, 0, 0),
        "setresgid": lambda: os.setresgid(0, 0, 0), "setgroups": lambda: os.setgroups([0]),
        "to another": lambda: os.setuid(1001), "to nobody": lambda: os.setuid(65534),
        "initgroups": lambda: os.initgroups("root", 0),
    }
    for name, act in tries.items():
        found[name] = in_child(attempt, act)
    libc.setfsuid(0)
    found["fsuid"] = "ok" if libc.setfsuid(-1) == 0 else "EPERM"
    """
    # EINVAL: the user namespace has no such id to become.
    assert set(probe(shared_box, program).values()) <= {"EPERM", "EINVAL"}


def test_capabilities_cannot_be_taken_back(shared_box: Sandbox) -> None:
    program = """
    header = ctypes.create_string_buffer((0x20080522).to_bytes(4, "little") + bytes(4))
    for bit in range(41):
        mask = (1 << bit).to_bytes(8, "little")
        low, high = mask[:4], mask[4:]
        data = ctypes.create_string_buffer(low * 2 + bytes(4) + high * 2 + bytes(4))
        found["capset %d" % bit] = call(126, header, data)
        found["ambient %d" % bit] = call(157, 47, 2, bit, 0, 0)
    found["keep"] = call(157, 28, 0x10, 0, 0, 0)
    found["new privileges"] = call(157, 38, 0, 0, 0, 0)
    """
    found = probe(shared_box, program)
    assert found.pop("new privileges") == "EINVAL"  # the kernel has no way back from it
    found.pop("keep")
    assert set(found.values()) == {"EPERM"}


@pytest.mark.parametrize("program", SET_ID_PROGRAMS)
def test_set_id_programs_of_the_host_give_nothing(shared_box: Sandbox, program: str) -> None:
    probe_of_ids = "import os; print(os.geteuid(), os.getegid())"
    result = shell(shared_box, f"which {program}; stat -c %a $(which {program}); echo")
    if "/" not in result.stdout:
        return  # not installed here, so nothing to misuse
    arguments = {
        "su": f"-c 'python3 -c \"{probe_of_ids}\"'",
        "sudo": "-n id -u",
        "newuidmap": "$$ 0 0 1",
        "newgidmap": "$$ 0 0 1",
        "mount": "-t tmpfs none /tmp",
        "umount": "/home/user",
        "pkexec": "id -u",
        "ping": "-c1 -W1 127.0.0.1",
    }.get(program, "")
    attempt = shell(shared_box, f"{program} {arguments} </dev/null 2>&1; id -u", timeout=20)
    assert attempt.stdout.splitlines()[-1] == "1000"
    assert "\n0\n" not in attempt.stdout
    assert "0 0" not in attempt.stdout.splitlines()


def test_own_set_id_program_gives_nothing(box: Sandbox) -> None:
    result = shell(box, "cp /usr/bin/id id; chmod 4755 id; chmod u+s id; ./id -u")
    assert result.stdout == "1000\n"
    assert "Operation not permitted" in result.stderr


def test_set_id_bit_in_a_mount_has_no_effect(make_box: MakeBox, source: Path) -> None:
    target = source / "id"
    target.write_bytes(Path("/usr/bin/id").read_bytes())
    target.chmod(0o6755)
    for mode in ("read", "write", "overlay"):
        box = make_box(mounts=[{"source": str(source), "target": "/in", "mode": mode}])
        assert shell(box, "/in/id -u; /in/id -ru; /in/id -g").stdout == "1000\n1000\n1000\n"


def test_device_in_a_mount_cannot_be_opened(make_box: MakeBox, source: Path) -> None:
    HOST_CAN_MOUNT.require(make_box())
    os.mknod(source / "null", stat.S_IFCHR | 0o666, os.makedev(1, 3))
    (source / "null").chmod(0o666)
    assert (source / "null").read_bytes() == b""  # a true device, outside
    for mode in ("read", "write", "overlay"):
        box = make_box(mounts=[{"source": str(source), "target": "/in", "mode": mode}])
        assert probe(box, "found['it'] = attempt(read, '/in/null')")["it"] == "EACCES", mode


def test_user_namespace_maps_one_user_only(shared_box: Sandbox) -> None:
    program = """
    for name in ("uid_map", "gid_map", "setgroups", "projid_map"):
        found[name] = open("/proc/self/" + name).read().split()
    for name, text in (("uid_map", "0 1000 1"), ("gid_map", "0 1000 1"), ("setgroups", "allow")):
        def write():
            with open("/proc/self/" + name, "w") as file:
                file.write(text)
        found["write " + name] = attempt(write)
    """
    found = probe(shared_box, program)
    for name in ("uid_map", "gid_map"):
        assert len(found[name]) == 3
        assert (found[name][0], found[name][2]) == ("1000", "1")
        assert found[f"write {name}"] == "EPERM"
    assert found["setgroups"] == ["deny"]
    assert found["write setgroups"] in ("EPERM", "EACCES")


def test_filter_of_the_agents_own_cannot_loosen_ours(shared_box: Sandbox) -> None:
    """A new filter only adds; and the listener of the host cannot be replaced or doubled."""
    program = """
    allow = (0x06).to_bytes(2, "little") + bytes(2) + (0x7FFF0000).to_bytes(4, "little")
    code = ctypes.create_string_buffer(allow, 8)
    place = ctypes.addressof(code).to_bytes(8, "little")
    header = ctypes.create_string_buffer((1).to_bytes(8, "little") + place)
    found["listener"] = in_child(lambda: call(317, 1, 8, header))
    def loosened():
        if call(317, 1, 0, header) != 0:
            return "no filter"
        return call(272, 0x10000000)
    found["unshare after allow-all"] = in_child(loosened)
    """
    found = probe(shared_box, program)
    assert found["listener"] == "EBUSY"
    assert found["unshare after allow-all"] == "EPERM"
