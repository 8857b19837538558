"""Control groups: against the kernel's own where this user may make some, and against directories
with the kernel's file names for what it would write and read of either version.
"""

from __future__ import annotations

import os
import secrets
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from paddock.fence.container import cgroups
from paddock.fence.container.cgroups import Counters, Group, GroupV1, GroupV2, Hierarchy
from paddock.model.spec import Limits

LIMITS = Limits(cpu=1.5, memory=64 << 20, pids=20)
V1 = {
    "cpu": {"cpu.cfs_period_us": "", "cpu.cfs_quota_us": ""},
    "cpuacct": {"cpuacct.usage": "2500000000\n"},
    "memory": {
        "memory.limit_in_bytes": "9223372036854771712\n",
        "memory.memsw.limit_in_bytes": "9223372036854771712\n",
        "memory.usage_in_bytes": "4096\n",
        "memory.oom_control": "oom_kill_disable 0\nunder_oom 0\noom_kill 3\n",
    },
    "pids": {"pids.max": "", "pids.current": "4\n", "pids.events": "max 7\n"},
    "freezer": {"freezer.state": "THAWED\n"},
}
V2 = {
    "cpu.max": "", "memory.max": "", "memory.swap.max": "", "pids.max": "", "cgroup.procs": "",
    "cpu.stat": "usage_usec 1500000\nuser_usec 1000000\n", "memory.current": "8192\n",
    "pids.current": "3\n",
    "memory.events": "low 0\nhigh 0\nmax 12\noom 2\noom_kill 1\n", "pids.events": "max 5\n",
}  # fmt: skip


def filled(directory: Path, files: dict[str, str]) -> Path:
    directory.mkdir(parents=True)
    for name, content in files.items():
        (directory / name).write_text(content)
    return directory


@pytest.fixture
def v1(tmp_path: Path) -> GroupV1:
    paths = {c: filled(tmp_path / c / "paddock" / "box", files) for c, files in V1.items()}
    for path in paths.values():
        (path / "cgroup.procs").touch()
    return GroupV1(paths)


@pytest.fixture
def v2(tmp_path: Path) -> GroupV2:
    return GroupV2(filled(tmp_path / "paddock" / "box", V2))


def read(path: Path) -> str:
    return path.read_text().strip()


# ---- what is written and read --------------------------------------------------------------------


def test_v1_writes_each_limit_to_its_controller(v1: GroupV1) -> None:
    for path in (v1.by_controller["memory"] / n for n in V1["memory"] if "limit" in n):
        path.write_text("")  # a kernel's file takes a new value whole, a plain one does not
    v1.limit(LIMITS)
    cpu, memory = v1.by_controller["cpu"], v1.by_controller["memory"]
    assert int(read(cpu / "cpu.cfs_quota_us")) == 1.5 * int(read(cpu / "cpu.cfs_period_us"))
    assert read(memory / "memory.limit_in_bytes") == str(64 << 20)
    assert read(memory / "memory.memsw.limit_in_bytes") == str(64 << 20)
    assert read(v1.by_controller["pids"] / "pids.max") == "20"


def test_v1_limits_memory_where_the_kernel_does_not_count_swap(v1: GroupV1) -> None:
    memory = v1.by_controller["memory"]
    (memory / "memory.memsw.limit_in_bytes").unlink()
    (memory / "memory.limit_in_bytes").write_text("")
    v1.limit(LIMITS)
    assert read(memory / "memory.limit_in_bytes") == str(64 << 20)
    assert not (memory / "memory.memsw.limit_in_bytes").exists()


def test_v2_writes_every_limit_and_no_swap(v2: GroupV2) -> None:
    v2.limit(LIMITS)
    quota, period = read(v2.path / "cpu.max").split()
    assert int(quota) == 1.5 * int(period)
    assert read(v2.path / "memory.max") == str(64 << 20)
    assert read(v2.path / "memory.swap.max") == "0"
    assert read(v2.path / "pids.max") == "20"


@pytest.mark.parametrize("name", ["cpu.max", "memory.max", "pids.max"])
def test_v2_limit_that_cannot_be_written_is_an_error_and_not_left_out(
    v2: GroupV2, name: str
) -> None:
    (v2.path / name).unlink()
    with pytest.raises(OSError, match=r"."):
        v2.limit(LIMITS)


@pytest.mark.parametrize(("controller", "name"), [("memory", "memory.limit_in_bytes"),
                                                  ("pids", "pids.max"),
                                                  ("cpu", "cpu.cfs_quota_us")])  # fmt: skip
def test_v1_limit_that_cannot_be_written_is_an_error_and_not_left_out(
    v1: GroupV1, controller: str, name: str
) -> None:
    (v1.by_controller[controller] / name).unlink()
    with pytest.raises(OSError, match=r"."):
        v1.limit(LIMITS)


def test_hits_are_how_often_a_limit_was_met(v1: GroupV1, v2: GroupV2) -> None:
    assert v1.hits() == {"memory": 3, "pids": 7}
    assert v2.hits() == {"memory": 1, "pids": 5}


def test_counters_are_read_in_seconds_and_bytes(v1: GroupV1, v2: GroupV2) -> None:
    assert v1.counters() == Counters(2.5, 4096, 4)
    assert v2.counters() == Counters(1.5, 8192, 3)


def test_group_that_is_gone_reads_as_nothing_used(v1: GroupV1, v2: GroupV2) -> None:
    for path in [*v1.paths(), *v2.paths()]:
        for name in os.listdir(path):
            os.unlink(f"{path}/{name}")
    assert v1.hits() == v2.hits() == {"memory": 0, "pids": 0}
    assert v1.counters() == v2.counters() == Counters()


def test_garbage_in_a_counter_is_no_number() -> None:
    assert cgroups._number(Path("/proc/version")) == 0
    assert cgroups._pairs(Path("/proc/version")) == {}


def test_v2_holds_exactly_the_pids_that_the_kernel_lists(v2: GroupV2) -> None:
    (v2.path / "cgroup.procs").write_text("12\n345\n")
    assert v2.holds(12)
    assert v2.holds(345)
    assert not v2.holds(1)
    assert not v2.holds(34)


def test_v1_does_not_hold_a_process_of_another_group(v1: GroupV1) -> None:
    assert not v1.holds(os.getpid())
    assert not v1.holds(999_999_999)


def test_group_that_cannot_be_joined_whole_leaves_no_descriptor_open(v1: GroupV1) -> None:
    for path in v1.paths()[:-1]:
        Path(path, "tasks").touch()
    before = os.listdir("/proc/self/fd")
    with pytest.raises(FileNotFoundError):
        v1.open_to_join()
    assert len(os.listdir("/proc/self/fd")) == len(before)


def test_controllers_that_share_a_directory_are_joined_once(tmp_path: Path) -> None:
    both, memory = tmp_path / "cpu,cpuacct", tmp_path / "memory"
    for path in (both, memory):
        path.mkdir()
        (path / "tasks").touch()
    group = GroupV1({"cpu": both, "cpuacct": both, "memory": memory})
    fds = group.open_to_join()
    try:
        named = [os.readlink(f"/proc/self/fd/{fd}") for fd in fds]
        assert named == [str(both / "tasks"), str(memory / "tasks")]
    finally:
        for fd in fds:
            os.close(fd)


def test_controllers_that_share_a_directory_are_one_path(tmp_path: Path) -> None:
    both = tmp_path / "cpu,cpuacct"
    group = GroupV1({"cpu": both, "cpuacct": both, "memory": tmp_path / "memory"})
    assert group.paths() == [str(both), str(tmp_path / "memory")]


# ---- where groups can be made --------------------------------------------------------------------


def test_groups_are_made_below_paddocks_own_and_removed_with_it(tmp_path: Path) -> None:
    bases = {c: tmp_path / c for c in V1}
    for base in bases.values():
        base.mkdir()
    made = Hierarchy(1, bases).group("box1").paths()
    assert made == [str(tmp_path / c / "paddock" / "box1") for c in V1]
    assert cgroups.remove(made) == []
    assert all(os.listdir(base) == [] for base in bases.values())


def test_removing_leaves_the_groups_of_other_sandboxes(tmp_path: Path) -> None:
    hierarchy = Hierarchy(1, {"memory": tmp_path})
    one, two = (hierarchy.group(name).paths() for name in ("one", "two"))
    assert cgroups.remove(one) == []
    assert os.path.isdir(two[0])
    assert cgroups.remove(one) == []  # once more is fine


def test_group_that_will_not_go_is_named(tmp_path: Path) -> None:
    stuck = tmp_path / "paddock" / "box"
    (stuck / "child").mkdir(parents=True)
    assert cgroups.remove([str(stuck)]) == [str(stuck)]


def offer(patch: pytest.MonkeyPatch, *mounts: tuple[str, str, list[str]]) -> None:
    patch.setattr(cgroups, "_mounts", lambda: iter(mounts))


def test_host_without_cgroups_says_so(monkeypatch: pytest.MonkeyPatch) -> None:
    offer(monkeypatch)
    found = cgroups.find()
    assert found.version == 0
    assert found.why_not


def test_host_with_v2_alone_gives_the_reason_of_v2(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    # The usual host of today: what v1 lacks there helps nobody, what v2 lacks has a fix.
    (tmp_path / "cgroup.controllers").write_text("cpu memory pids\n")
    offer(monkeypatch, ("cgroup2", str(tmp_path), []))
    monkeypatch.setattr(cgroups, "_own_v2_group", lambda root: root)
    found = cgroups.find()
    assert found.version == 0
    assert "v1" not in str(found.why_not)
    assert "Delegate=yes" in str(found.fix)


def test_missing_controller_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    offer(monkeypatch, *(("cgroup", str(tmp_path), [c]) for c in ("cpu", "memory", "freezer")))
    assert "no pids controller" in str(cgroups.find().why_not)


# ---- the kernel's own ----------------------------------------------------------------------------


@pytest.fixture
def group() -> Iterator[Group]:
    hierarchy = cgroups.find()
    if not hierarchy.version:
        pytest.skip(f"no cgroup can be made here: {hierarchy.why_not}")
    made = hierarchy.group(f"test-{secrets.token_hex(6)}")
    yield made
    assert cgroups.remove(made.paths()) == []
    assert not any(os.path.exists(path) for path in made.paths())


_JOIN = """
import os, sys
for fd in map(int, sys.argv[1:]):
    os.write(fd, b"0")
    os.close(fd)
print("in", flush=True)
"""


def start(group: Group, program: str) -> subprocess.Popen[str]:
    """A Python program that joins the group as a guest does, and only then begins."""
    fds = group.open_to_join()
    process = subprocess.Popen(
        [sys.executable, "-I", "-S", "-c", f"{_JOIN}\n{program}", *map(str, fds)],
        pass_fds=fds,
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        text=True,
    )
    for fd in fds:
        os.close(fd)
    assert process.stdout is not None
    assert process.stdout.readline() == "in\n"
    return process


def until(condition: Callable[[], bool]) -> None:
    deadline = time.monotonic() + 10
    while not condition():
        assert time.monotonic() < deadline
        time.sleep(0.005)


def end(process: subprocess.Popen[str]) -> int:
    process.kill()
    with process:
        return process.wait(10)


def test_process_that_joined_is_held_and_others_are_not(group: Group) -> None:
    process = start(group, "x = bytearray(8 << 20); import time; time.sleep(60)")
    try:
        assert group.holds(process.pid)
        assert not group.holds(os.getpid())
        assert group.counters().pids == 1
        until(lambda: group.counters().memory_bytes > 4 << 20)
    finally:
        end(process)


def test_whoever_has_the_descriptors_joins_by_itself_alone(group: Group) -> None:
    """A zero names the writer: whose descriptors they are does not matter."""
    fds = group.open_to_join()
    try:
        assert len(fds) == len(group.paths())
        assert not any(os.get_inheritable(fd) for fd in fds)
        assert not group.holds(os.getpid())
    finally:
        for fd in fds:
            os.close(fd)
    process = start(group, "import time; time.sleep(60)")
    try:
        assert group.holds(process.pid)
        assert not group.holds(os.getpid())
    finally:
        end(process)


def test_child_of_a_process_that_joined_is_held_too(group: Group) -> None:
    child = "import os, time; pid = os.fork(); pid and print(pid, flush=True); time.sleep(60)"
    process = start(group, child)
    try:
        assert process.stdout is not None
        assert group.holds(int(process.stdout.readline()))
        assert group.counters().pids == 2
    finally:
        end(process)


def test_process_that_joined_in_part_is_not_held(group: Group) -> None:
    """One controller of several is not all limits: the driver asks before anything else runs."""
    if not isinstance(group, GroupV1):
        pytest.skip("v2 has one group for all controllers, so that nothing can be joined in part")
    part = GroupV1(dict(list(group.by_controller.items())[:1]))
    process = start(part, "import time; time.sleep(60)")
    try:
        assert not group.holds(process.pid)
    finally:
        end(process)


def test_frozen_group_does_nothing_until_it_is_thawed(group: Group) -> None:
    program = "import time\nwhile True: print('x', flush=True); time.sleep(0.001)"
    process = start(group, program)
    try:
        assert process.stdout is not None
        process.stdout.readline()
        group.freeze(True)
        used = group.counters().cpu_s
        time.sleep(0.05)
        assert group.counters().cpu_s == used
        group.freeze(False)
        until(lambda: group.counters().cpu_s > used)
    finally:
        group.freeze(False)
        end(process)


def test_program_beyond_the_memory_limit_is_killed_and_counted(group: Group) -> None:
    group.limit(Limits(memory=32 << 20))
    assert group.hits()["memory"] == 0
    with start(group, "x = bytearray(256 << 20)") as process:
        assert process.wait(30) == -9
    assert group.hits()["memory"] == 1


def test_program_beyond_the_pids_limit_cannot_fork_and_is_counted(group: Group) -> None:
    group.limit(Limits(pids=4))
    forks = "import os, time\ntry:\n while True:\n  os.fork() or time.sleep(60)\n"
    with start(group, f"{forks}except BlockingIOError: print('stopped', flush=True)") as process:
        assert process.stdout is not None
        assert process.stdout.readline() == "stopped\n"
        assert group.hits()["pids"] >= 1
        assert group.counters().pids <= 4
        cgroups.remove(group.paths())  # ends the children, too


def test_limits_can_be_lowered_and_raised_again(group: Group) -> None:
    for size in (64 << 20, 32 << 20, 128 << 20):
        group.limit(Limits(memory=size))
        with start(group, f"x = bytearray({size - (24 << 20)})") as process:
            assert process.wait(30) == 0
