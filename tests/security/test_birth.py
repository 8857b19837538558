"""What a sandbox is born with. Its first process is a fork of one that has begun many others: it
must know nothing of them, nothing of the host, hold nothing of either, and share no namespace.
"""

from __future__ import annotations

import fcntl
import os
import re
import secrets
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

import paddock
from conformance.host import children
from paddock import Sandbox
from paddock.fence.container.plan import masked
from paddock.fence.guest.agreed import STAGE
from security.attack import eventually, init_pid, probe
from security.conftest import MakeBox
from security.differences import HOST_LOOKS_INSIDE, OWN_QUOTAS_OF_USER, OWN_UID

KINDS = ("cgroup", "ipc", "mnt", "net", "pid", "user", "uts")
_LEAST_NAME = 8  # a shorter name of a host is found anywhere
NS_GET_USERNS, NS_GET_PARENT, NS_GET_OWNER_UID = 0xB701, 0xB702, 0xB704


def host_secrets() -> list[str]:
    """Names that only the host has: where Paddock lies, where its state is, who runs it."""
    paths = [os.environ["PADDOCK_HOME"], sys.prefix, sys.base_prefix, sys.executable]
    paths += [str(Path(paddock.__file__).parents[1]), os.path.realpath(sys.executable)]
    # What every sandbox sees for itself is no secret: the system's own Python, say.
    private = {path for path in paths if not f"{path}/".startswith(("/usr/", "/bin/"))}
    name = os.uname().nodename
    return [*private, *([name] if len(name) >= _LEAST_NAME else [])]


# ---- what a program inside can learn of the first process ----------------------------------------

# The mount tables name mounted paths, which SECURITY.md says.
READ_ALL = """
words, tables = sys.argv[1:], ("mountinfo", "mounts", "mountstats")
found["read"], found["told"] = 0, []
for top, directories, names in os.walk("/proc/1"):
    for name in [*names, *directories]:
        path = os.path.join(top, name)
        text = attempt(os.readlink, path) if os.path.islink(path) else ""
        if name in names and not os.path.islink(path) and name not in tables:
            try:
                text = os.read(os.open(path, os.O_RDONLY | os.O_NONBLOCK), 1 << 20)
            except OSError:
                continue
            text = text.decode("utf-8", "replace")
        found["read"] += bool(text)
        found["told"] += [[path, word] for word in words if word in text]
"""


def test_first_process_tells_nothing_of_the_host(shared_box: Sandbox) -> None:
    words = host_secrets()
    if OWN_UID(shared_box):
        words.append(str(shared_box.get_info().uid))
    found = probe(shared_box, READ_ALL, *words)
    assert found["told"] == []
    assert found["read"] > 20, "hardly anything was read: the test proves nothing"


def test_first_process_tells_nothing_of_its_parents_start(shared_box: Sandbox) -> None:
    program = """
    for name in ("cmdline", "comm", "cgroup", "status", "uid_map", "gid_map"):
        found[name] = read("/proc/1/" + name).decode()
    found["environ"] = attempt(read, "/proc/1/environ")
    """
    found = probe(shared_box, program)
    assert found["cmdline"].rstrip("\0") == "paddock-guest"
    assert found["comm"] == "paddock-guest\n"
    assert found["environ"] == "EACCES"
    assert {line.rpartition(":")[2] for line in found["cgroup"].split()} == {"/"}
    assert found["uid_map"].split() == found["gid_map"].split() == ["1000", "0", "1"]
    assert re.search(r"^PPid:\t0$", found["status"], re.MULTILINE)
    assert re.search(r"^NSpid:\t1$", found["status"], re.MULTILINE)


def test_first_process_cannot_be_looked_into_by_way_of_its_thread(shared_box: Sandbox) -> None:
    program = """
    for top in ("/proc/1", "/proc/1/task/1"):
        for name in ("environ", "maps", "mem", "auxv", "stack", "syscall", "smaps", "numa_maps"):
            found[top + name] = attempt(read, f"{top}/{name}")
        for name in ("exe", "cwd", "root", *("ns/" + kind for kind in sys.argv[1:])):
            found[top + name] = attempt(os.readlink, f"{top}/{name}")
        found[top + "fd"] = attempt(os.listdir, f"{top}/fd")
    """
    found = probe(shared_box, program, *KINDS)
    assert set(found.values()) <= {"EACCES", "EPERM", "ENOENT"}, found


def test_bubblewrap_leaves_no_process_and_no_way_back_inside(shared_box: Sandbox) -> None:
    program = """
    found["pids"] = [int(n) for n in os.listdir("/proc") if n.isdigit()]
    found["own"] = os.getpid()
    found["table"] = read("/proc/self/mountinfo").decode()
    found["there"] = [p for p in sys.argv[1:] if os.path.lexists(p)]
    """
    found = probe(shared_box, program, STAGE, "/oldroot", "/newroot")
    assert sorted(found["pids"]) == [1, found["own"]]
    assert found["there"] == []
    assert STAGE not in found["table"]
    root = [line.split() for line in found["table"].splitlines() if line.split()[4] == "/"]
    assert len(root) == 1, "a root on a root: the lower one might be reached"


def test_every_mask_is_on_its_place(shared_box: Sandbox) -> None:
    program = """
    for path in sys.argv[1:]:
        is_directory = os.path.isdir(path)
        found[path] = repr(os.listdir(path) if is_directory else read(path))
        found["write " + path] = attempt(os.mkdir, path + "/x") if is_directory else "EROFS"
    """
    assert masked(), "this kernel has nothing to hide: the test proves nothing"
    found = probe(shared_box, program, *masked())
    assert set(found.values()) == {"b''", "[]", "EROFS"} & set(found.values())


# ---- namespaces ----------------------------------------------------------------------------------

NAMESPACES = "found.update({kind: os.readlink('/proc/self/ns/' + kind) for kind in sys.argv[1:]})"


def test_every_namespace_is_the_sandboxs_own(make_box: MakeBox) -> None:
    host = {kind: os.readlink(f"/proc/self/ns/{kind}") for kind in KINDS}
    first, second = (probe(make_box(), NAMESPACES, *KINDS) for _ in range(2))
    for kind in KINDS:
        assert len({host[kind], first[kind], second[kind]}) == 3, kind


def test_first_process_lives_in_the_namespaces_of_its_programs(box: Sandbox) -> None:
    """If it were outside of one, a program could be moved to where it is by what it does for it."""
    HOST_LOOKS_INSIDE.require(box)
    inside = probe(box, NAMESPACES, *KINDS)
    guest = {kind: os.readlink(f"/proc/{init_pid(box)}/ns/{kind}") for kind in KINDS}
    assert guest == inside


def _owner(fd: int) -> int:
    buffer = bytearray(4)
    fcntl.ioctl(fd, NS_GET_OWNER_UID, buffer)
    return int.from_bytes(buffer, sys.byteorder)


@pytest.fixture
def opened() -> Iterator[list[int]]:
    """Descriptors that end with the test."""
    fds: list[int] = []
    yield fds
    for fd in fds:
        os.close(fd)


@pytest.mark.parametrize("kind", [kind for kind in KINDS if kind != "user"])
def test_namespaces_are_charged_to_the_sandboxs_uid_and_not_to_root(
    box: Sandbox, opened: list[int], kind: str
) -> None:
    """The kernel counts namespaces, mounts and watches for whoever made the user namespace that
    they belong to. Were that the host's root, a sandbox could use up what root has."""
    OWN_QUOTAS_OF_USER.require(box)
    opened.append(os.open(f"/proc/{init_pid(box)}/ns/{kind}", os.O_RDONLY))
    opened.append(fcntl.ioctl(opened[0], NS_GET_USERNS))
    assert _owner(opened[1]) == box.get_info().uid


def test_user_namespaces_are_charged_to_the_sandboxs_uid_up_to_the_hosts_own(
    box: Sandbox, opened: list[int]
) -> None:
    OWN_QUOTAS_OF_USER.require(box)
    host = os.stat("/proc/self/ns/user").st_ino
    opened.append(os.open(f"/proc/{init_pid(box)}/ns/user", os.O_RDONLY))
    owners = []
    while os.fstat(opened[-1]).st_ino != host:
        owners.append(_owner(opened[-1]))
        opened.append(fcntl.ioctl(opened[-1], NS_GET_PARENT))
    assert owners == [box.get_info().uid] * 2


# ---- what a guest holds --------------------------------------------------------------------------


def test_guest_holds_its_own_few_descriptors_and_none_of_another(make_box: MakeBox) -> None:
    boxes = [make_box()]
    HOST_LOOKS_INSIDE.require(boxes[0])
    boxes += [make_box() for _ in range(19)]
    seen: list[str] = []
    for box in boxes:
        assert box.files.exists("/")  # so it has booted to the end
        top = f"/proc/{init_pid(box)}/fd"
        links = sorted(os.readlink(f"{top}/{name}") for name in os.listdir(top))
        kinds = [link.partition(":")[0] for link in links]
        assert kinds == ["/dev/null"] * 3 + ["anon_inode", "pipe", "pipe", "socket"], links
        assert "anon_inode:[eventpoll]" in links
        seen += {link for link in links if link.startswith(("pipe", "socket"))}
    assert len(set(seen)) == len(seen) == 2 * len(boxes), "two guests hold the same thing"


def test_nursery_holds_nothing_of_the_sandboxes_that_it_began(make_box: MakeBox) -> None:
    first = make_box()
    HOST_LOOKS_INSIDE.require(first)
    nursery = int(Path(f"/proc/{init_pid(first)}/stat").read_text().rpartition(")")[2].split()[1])
    least = min(len(os.listdir(f"/proc/{nursery}/fd")) for _ in range(20))  # a fork has a few more
    for _ in range(10):
        make_box().commands.run("true")
    assert len(children(nursery)) >= 11
    eventually(lambda: len(os.listdir(f"/proc/{nursery}/fd")) <= least)


def _regions(pid: int) -> Iterator[bytes]:
    """Everything that a process can read of its own memory."""
    with open(f"/proc/{pid}/mem", "rb", buffering=0) as memory:
        for line in Path(f"/proc/{pid}/maps").read_text().splitlines():
            words = line.split()
            start, end = (int(part, 16) for part in words[0].split("-"))
            if "r" in words[1] and not line.endswith(("[vvar]", "[vsyscall]", "[vvar_vclock]")):
                memory.seek(start)
                yield memory.read(end - start)


def _found_in(box: Sandbox, words: list[str]) -> set[str]:
    pid = init_pid(box)
    return {word for part in _regions(pid) for word in words if word.encode() in part}


@pytest.fixture
def mark() -> str:
    return f"mark{secrets.token_hex(8)}"


@pytest.fixture
def marked_box(make_box: MakeBox, source: Path, mark: str) -> Sandbox:
    """A sandbox with the mark in all that a caller or an agent can name."""
    (source / f"{mark}-source").mkdir()
    place = {"source": str(source / f"{mark}-source"), "target": "/in", "mode": "read"}
    box = make_box(mounts=[place], metadata={"m": f"{mark}-metadata"}, envs={"E": f"{mark}-env"})
    HOST_LOOKS_INSIDE.require(box)
    box.files.write(f"{mark}-name", f"{mark}-content" * 100)
    box.commands.run(f"echo {mark}-command; cat {mark}-name", envs={"F": f"{mark}-command-env"})
    return box


def test_memory_of_a_guest_holds_nothing_of_an_earlier_sandbox(
    marked_box: Sandbox, make_box: MakeBox, source: Path, mark: str
) -> None:
    # Own mounts keep both later ones from coming out of a pool that was filled before.
    mounts = [{"source": str(source), "target": "/other", "mode": "read"}]
    later = [make_box(mounts=mounts) for _ in range(2)]
    words = [mark, marked_box.sandbox_id, str(marked_box.get_info().uid)]
    assert mark in _found_in(marked_box, words), "the scan finds nothing at all"
    for box in later:
        assert box.sandbox_id in _found_in(box, [box.sandbox_id])
        assert _found_in(box, words) == set()


def test_memory_of_a_guest_names_no_place_of_an_earlier_sandbox(
    make_box: MakeBox, source: Path, mark: str
) -> None:
    first = make_box(mounts=[{"source": str(source), "target": f"/in/{mark}", "mode": "read"}])
    HOST_LOOKS_INSIDE.require(first)
    mounts = [{"source": str(source), "target": "/other", "mode": "read"}]
    later = [make_box(mounts=mounts) for _ in range(2)]
    assert [_found_in(box, [mark]) for box in later] == [set(), set()]


def test_environment_of_a_guest_is_empty_on_the_host_too(box: Sandbox) -> None:
    HOST_LOOKS_INSIDE.require(box)
    assert Path(f"/proc/{init_pid(box)}/environ").read_bytes() == b""


def test_nothing_of_the_hosts_environment_is_in_the_memory_of_a_guest(
    make_box: MakeBox, mark: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PADDOCK_TEST_SECRET", mark)
    box = make_box()
    HOST_LOOKS_INSIDE.require(box)
    assert _found_in(box, [mark, os.environ["PADDOCK_HOME"]]) == set()
