"""The memory limit: whatever takes the memory, it is stopped, named, and others do not notice."""

from __future__ import annotations

import pytest

from conformance import differences
from conformance.conftest import MakeBox
from conformance.host import memory_bytes
from conformance.inside import python
from conformance.waiting import eventually, result_of
from paddock import CommandExitException, Sandbox

MIB = 1 << 20
HOG = "data = []\nwhile True: data.append(bytearray(1 << 20))"
# 16 programs of 16 MiB each: none is large, together they are over the limit.
CROWD = (
    "import os, sys, time\n"
    "children = []\n"
    "for _ in range(16):\n"
    "    pid = os.fork()\n"
    "    if pid == 0:\n"
    "        data = bytearray(os.urandom(1)) * (16 << 20)\n"
    "        time.sleep(1.5); os._exit(0)\n"
    "    children.append(pid)\n"
    "    time.sleep(0.03)\n"
    "statuses = [os.waitpid(pid, 0)[1] for pid in children]\n"
    "sys.exit(any(statuses))\n"
)


@pytest.fixture
def small(make_box: MakeBox) -> Sandbox:
    return make_box(limits={"memory": "96MiB"})


def _stopped(box: Sandbox, program: str) -> CommandExitException:
    with pytest.raises(CommandExitException) as caught:
        result_of(lambda: box.commands.run(["python3", "-c", program], timeout=40), 60)
    return caught.value


def test_memory_hog_is_stopped_and_the_limit_is_named(small: Sandbox) -> None:
    error = _stopped(small, HOG)
    # Where the limit also holds for each process, the kernel refuses and Python can tell.
    was_refused = not differences.CGROUP_MEMORY(small) and "MemoryError" in error.stderr
    assert was_refused or error.killed_by == "memory", error.result
    assert small.commands.run("echo usable").stdout == "usable\n"


def test_hog_that_touches_memory_in_one_piece_is_stopped(small: Sandbox) -> None:
    error = _stopped(small, "data = b'x' * (400 << 20); print(len(data))")
    assert error.stdout == ""
    assert small.commands.run("echo usable").stdout == "usable\n"


def test_many_small_programs_together_are_stopped(small: Sandbox) -> None:
    error = _stopped(small, CROWD)
    assert error.killed_by == "memory" or "memory" in error.result.limits_hit, error.result
    assert small.commands.run("echo usable").stdout == "usable\n"


def test_memory_used_by_a_sandbox_stays_under_its_limit(small: Sandbox) -> None:
    handle = small.commands.run(["python3", "-c", HOG], background=True)
    highest = 0
    while handle.pid in {p.pid for p in small.commands.list()}:
        highest = max(highest, small.metrics().memory_bytes)
    # What is watched instead of counted can go over for a moment.
    slack = 4 * MIB if differences.CGROUP_MEMORY(small) else 48 * MIB
    assert highest <= 96 * MIB + slack


def test_files_in_shared_memory_are_bounded(small: Sandbox) -> None:
    with pytest.raises(CommandExitException):
        small.commands.run("head -c 300000000 /dev/zero > /dev/shm/big", timeout=30)
    small.commands.run("rm -f /dev/shm/big")
    assert small.commands.run("echo usable").stdout == "usable\n"


@pytest.mark.parametrize("place", ["/run", "/dev", "/"])
def test_other_places_in_memory_are_bounded_or_closed(small: Sandbox, place: str) -> None:
    command = f"head -c 300000000 /dev/zero > {place}/big"
    with pytest.raises(CommandExitException):
        small.commands.run(command, timeout=30)
    assert small.commands.run("echo usable").stdout == "usable\n"


def test_large_files_on_disk_do_not_count_as_memory(make_box: MakeBox) -> None:
    box = make_box(limits={"memory": "96MiB", "disk": "600MiB"})
    box.commands.run("head -c 250000000 /dev/zero > f; cat f > /dev/null", timeout=60)
    assert box.files.get_info("f").size == 250_000_000


def test_other_sandbox_and_this_process_do_not_notice(make_box: MakeBox) -> None:
    hog, other = make_box(limits={"memory": "96MiB"}), make_box(limits={"memory": "96MiB"})
    before = memory_bytes()
    handle = hog.commands.run(
        "while :; do python3 -c 'x=bytearray(1<<30)'; python3 -c 'x=[0]*(1<<27)'; done",
        background=True,
    )
    for number in range(10):
        assert python(other, f"print({number} * 2)") == f"{number * 2}\n"
    assert memory_bytes() - before < 32 * MIB
    handle.kill()
    eventually(lambda: hog.commands.run("echo usable").stdout == "usable\n")


def test_guest_is_never_the_victim(small: Sandbox) -> None:
    for _ in range(2):
        _stopped(small, CROWD)
    assert small.get_info().state == "running"
    assert small.run_code("1 + 1").text == "2"
