"""The disk limit: large files, many files, nameless files; all stop at it and it is named."""

from __future__ import annotations

import os

import pytest

from conformance import differences
from conformance.conftest import MakeBox
from conformance.waiting import eventually, result_of
from paddock import CommandExitException, FileError, PaddockError, Sandbox

MIB = 1 << 20
FILL = "i=0; while :; do i=$((i+1)); head -c 2000000 /dev/urandom > f$i || exit 1; sync; done"
TINY = (
    "import os, sys, time\n"
    "for n in range(20000):\n"
    "    with open(f'tiny-{n}', 'w') as file: file.write('x' * 100)\n"
    "os.sync()\n"
    "time.sleep(5)\n"
)


@pytest.fixture
def small(make_box: MakeBox) -> Sandbox:
    return make_box(limits={"disk": "16MiB"})


def _stopped(box: Sandbox, command: str | list[str]) -> CommandExitException:
    with pytest.raises(CommandExitException) as caught:
        result_of(lambda: box.commands.run(command, timeout=60), 80)
    return caught.value


def _slack(box: Sandbox) -> int:
    """What is watched instead of held can go over between two looks."""
    return 2 * MIB if differences.HARD_DISK_QUOTA(box) else 256 * MIB


def test_disk_filler_is_stopped_and_the_limit_is_named(small: Sandbox) -> None:
    error = _stopped(small, FILL)
    assert error.killed_by == "disk", error.result
    assert small.metrics().disk_bytes <= 16 * MIB + _slack(small)


def test_one_large_file_is_stopped_and_the_limit_is_named(small: Sandbox) -> None:
    error = _stopped(small, "head -c 100000000 /dev/urandom > big && sync && sleep 5")
    assert error.killed_by == "disk", error.result


def test_sandbox_is_usable_after_and_room_comes_back(small: Sandbox) -> None:
    _stopped(small, FILL)
    assert small.commands.run("echo usable").stdout == "usable\n"
    small.commands.run("rm -f f*; sync")
    eventually(lambda: small.metrics().disk_bytes < 4 * MIB, timeout_s=40)
    small.files.write("again", "x" * MIB)
    assert len(small.files.read("again")) == MIB


def test_twenty_thousand_tiny_files_stop_at_the_limit(make_box: MakeBox) -> None:
    box = make_box(limits={"disk": "8MiB"})
    error = _stopped(box, ["python3", "-c", TINY])
    assert error.killed_by == "disk", error.result
    assert box.commands.run("echo usable").stdout == "usable\n"
    box.commands.run("find . -name 'tiny-*' -delete; sync", timeout=60)
    assert box.files.list(".") == []


def test_nameless_files_count_too(small: Sandbox) -> None:
    program = (
        "import os, time\n"
        "kept = []\n"
        "for _ in range(12):\n"
        "    kept.append(open('gone', 'wb', buffering=0)); os.unlink('gone')\n"
        "    kept[-1].write(os.urandom(4 << 20)); os.fsync(kept[-1].fileno())\n"
        "time.sleep(5)\n"
    )
    error = _stopped(small, ["python3", "-c", program])
    assert error.killed_by == "disk", error.result


def test_tmp_counts_with_the_home_directory(small: Sandbox) -> None:
    error = _stopped(
        small,
        "head -c 10000000 /dev/urandom > /tmp/a && head -c 10000000 /dev/urandom > ~/b && sync"
        " && sleep 5",
    )
    assert error.killed_by == "disk", error.result


def test_write_of_the_api_stops_at_the_limit(small: Sandbox) -> None:
    with pytest.raises((FileError, PaddockError)):
        for number in range(12):
            small.files.write(f"f{number}", os.urandom(4 * MIB))
            small.commands.run("sync; sleep 0.3")
    assert small.get_info().state == "running"
    small.commands.run("rm -f f*")
    assert small.commands.run("echo usable").stdout == "usable\n"


def test_large_write_of_the_api_names_the_disk_limit(small: Sandbox) -> None:
    with pytest.raises(FileError, match="disk limit") as caught:
        small.files.write("big", os.urandom(64 * MIB))
    assert caught.value.code in ("EDQUOT", "EFBIG", "ENOSPC")


def test_sparse_file_takes_only_what_is_in_it(make_box: MakeBox) -> None:
    box = make_box(limits={"disk": "64MiB"})
    box.commands.run("truncate -s 60M holes; echo x >> holes; sync; sleep 0.5")
    assert box.metrics().disk_bytes < 8 * MIB


def test_other_sandbox_does_not_notice_a_full_one(small: Sandbox, make_box: MakeBox) -> None:
    other = make_box(limits={"disk": "64MiB"})
    handle = small.commands.run(FILL, background=True)
    for number in range(5):
        other.files.write(f"g{number}", b"x" * MIB)
    with pytest.raises(CommandExitException):
        result_of(handle.wait, 60)
    assert len(other.files.list(".")) == 5


def test_fork_has_a_limit_of_its_own(small: Sandbox) -> None:
    small.commands.run("head -c 9000000 /dev/urandom > f; sync")
    with small.fork() as child:
        error = _stopped(child, "head -c 12000000 /dev/urandom > g && sync && sleep 5")
        assert error.killed_by == "disk", error.result
        assert small.commands.run("echo parent is fine").stdout == "parent is fine\n"
