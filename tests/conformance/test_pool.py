"""Warm sandboxes: whoever gets one cannot tell it from one that was made for them."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from conformance.conftest import MakeBox
from conformance.host import sandboxes_of
from conformance.inside import python
from conformance.waiting import Calls, eventually, result_of
from paddock import CommandExitException, Sandbox

MIB = 1 << 20


@pytest.fixture
def pool(private_home: Path) -> Iterator[Path]:
    """Two warm sandboxes, in a home of this file's own."""
    with Sandbox.pool(2):
        yield private_home


def test_pool_keeps_as_many_ready_as_asked_for(pool: Path, make_box: MakeBox) -> None:
    assert len(sandboxes_of(pool)) == 2
    make_box()
    eventually(lambda: len(sandboxes_of(pool)) == 3)


def test_closing_the_pool_lets_them_go(private_home: Path) -> None:
    Sandbox.pool(2).close()
    eventually(lambda: sandboxes_of(private_home) == [])


def test_sandboxes_of_the_pool_are_fresh_and_apart(pool: Path, make_box: MakeBox) -> None:
    boxes = [make_box(envs={"N": str(n)}) for n in range(5)]
    for number, box in enumerate(boxes):
        assert box.files.list(".") == []
        box.commands.run("echo $N > f; echo $N > /tmp/f")
        assert box.exec_events()[0].argv[-1].startswith("echo $N"), "nothing ran in it before"
        assert box.files.read("/tmp/f") == f"{number}\n"
    assert len({box.commands.run("hostname").stdout for box in boxes}) == 5


def test_smaller_limits_than_those_it_was_booted_with_hold(pool: Path, make_box: MakeBox) -> None:
    box = make_box(limits={"memory": "64MiB", "pids": 20, "disk": "16MiB", "files": 100})
    with pytest.raises(CommandExitException):
        result_of(lambda: python(box, "x = b'x' * (200 << 20)"))
    with pytest.raises(CommandExitException):
        result_of(lambda: box.commands.run("head -c 40000000 /dev/urandom > f && sync && sleep 3"))
    box.files.remove("f")
    fork = "import os, time\nfor _ in range(60):\n    if not os.fork(): time.sleep(2); os._exit(0)"
    with pytest.raises(CommandExitException, match="BlockingIOError"):
        python(box, fork)
    assert python(box, "import resource; print(resource.getrlimit(7))") == "(100, 100)\n"


def test_larger_limits_than_those_it_was_booted_with_hold(pool: Path, make_box: MakeBox) -> None:
    limits = {"memory": "900MiB", "pids": 300, "disk": "3GiB", "output": "40MiB"}
    box = make_box(limits=limits)
    box.commands.run("truncate -s 2G holes")
    assert box.files.get_info("holes").size == 2 << 30
    many = (
        "import os, signal\n"
        "pids = []\n"
        "for _ in range(200):\n"
        "    pid = os.fork()\n"
        "    if not pid: signal.pause()\n"
        "    pids.append(pid)\n"
        "for pid in pids: os.kill(pid, 9)\n"
        "print(len(pids))\n"
    )
    assert python(box, many) == "200\n"
    assert python(box, "print(len(b'x' * (700 << 20)))") == f"{700 * MIB}\n"
    assert len(box.commands.run("head -c 30000000 /dev/zero").stdout) == 30_000_000


def test_specs_that_a_warm_one_cannot_become_are_made_cold(
    pool: Path, make_box: MakeBox, shared_directory: Path
) -> None:
    (shared_directory / "f").write_text("x")
    box = make_box(mounts=[{"source": str(shared_directory), "target": "/mnt"}])
    assert box.files.read("/mnt/f") == "x"


def test_more_at_once_than_the_pool_has(pool: Path, make_box: MakeBox) -> None:
    boxes = Calls([make_box] * 8).results(60)
    assert len({box.sandbox_id for box in boxes}) == 8
    assert all(box.commands.run("echo on").stdout == "on\n" for box in boxes)
