"""What a sandbox says of itself: info, enforcement, metrics, identity."""

from __future__ import annotations

import os
from datetime import UTC, datetime

import pytest

from conformance import differences
from conformance.conftest import MakeBox
from conformance.waiting import eventually
from paddock import Sandbox

LIMITS = ("cpu", "memory", "pids", "disk", "files", "output", "time")


def test_info_names_the_driver_that_was_asked_for(shared_box: Sandbox, driver: str) -> None:
    assert shared_box.get_info().isolation == driver


def test_info_tells_what_was_asked_for(make_box: MakeBox) -> None:
    box = make_box(
        limits={"cpu": 1, "memory": "256MiB", "pids": 64, "disk": "200MB", "files": 100},
        metadata={"owner": "me"},
    )
    info = box.get_info()
    assert info.sandbox_id == box.sandbox_id
    assert (info.state, info.template, info.metadata) == ("running", "host", {"owner": "me"})
    assert info.limits["memory"] == 256 << 20
    assert info.limits["disk"] == 200_000_000
    assert (info.limits["pids"], info.limits["files"], info.limits["cpu"]) == (64, 100, 1.0)
    assert abs((datetime.now(UTC) - info.started_at).total_seconds()) < 60


def test_enforcement_names_a_mechanism_for_every_limit(shared_box: Sandbox) -> None:
    enforcement = shared_box.get_info().enforcement
    for name in (*LIMITS, "pause", "exec_events", "file_audit"):
        assert enforcement[name], name


def test_every_difference_can_be_told_and_has_a_reason(shared_box: Sandbox) -> None:
    for difference in differences.TABLE:
        assert isinstance(difference(shared_box), bool)
        assert len(difference.reason) > 20
    assert len({d.name for d in differences.TABLE}) == len(differences.TABLE)


def test_uid_on_the_host_is_never_root(shared_box: Sandbox) -> None:
    uid = shared_box.get_info().uid
    assert uid != 0
    if not differences.OWN_UID(shared_box):
        assert uid == os.geteuid()


def test_two_sandboxes_have_uids_of_their_own(make_box: MakeBox) -> None:
    first, second = make_box(), make_box()
    differences.OWN_UID.require(first)
    assert first.get_info().uid != second.get_info().uid


def test_inside_everybody_is_the_same_unprivileged_user(shared_box: Sandbox) -> None:
    assert shared_box.commands.run("id -u; id -g; id -un").stdout == "1000\n1000\nuser\n"
    status = shared_box.commands.run(["cat", "/proc/self/status"]).stdout
    assert "CapEff:\t0000000000000000\n" in status
    assert "NoNewPrivs:\t1\n" in status


def test_hostname_and_files_are_the_sandboxs_own(make_box: MakeBox) -> None:
    first, second = make_box(), make_box()
    for box in (first, second):
        assert box.commands.run("hostname").stdout.strip() == box.get_info().hostname
        box.commands.run(f"echo {box.sandbox_id} > ~/id; echo {box.sandbox_id} > /tmp/id")
    for box in (first, second):
        assert box.commands.run("cat ~/id /tmp/id").stdout == f"{box.sandbox_id}\n" * 2
    assert first.get_info().hostname != second.get_info().hostname


def test_own_hostname_resolves(shared_box: Sandbox) -> None:
    program = "import socket; print(socket.gethostbyname(socket.gethostname()))"
    assert shared_box.commands.run(["python3", "-c", program]).stdout == "127.0.0.1\n"


def test_metrics_count_cpu_memory_processes_and_disk(make_box: MakeBox) -> None:
    box = make_box(limits={"memory": "256MiB", "disk": "256MiB"})
    before = box.metrics()
    program = (
        "import time\n"
        "data = b'x' * (64 << 20)\n"
        "open('file', 'wb').write(data[:16 << 20])\n"
        "import os; os.sync()\n"
        "end = time.process_time() + 0.3\n"
        "while time.process_time() < end: pass\n"
        "print('ready', flush=True)\n"
        "time.sleep(100)\n"
    )
    handle = box.commands.run(["python3", "-c", program], background=True)
    eventually(lambda: "ready" in handle.stdout, timeout_s=30)
    after = eventually(
        lambda: (m := box.metrics()).disk_bytes >= 16 << 20 and m, what="disk counted"
    )
    assert after.cpu_used_s - before.cpu_used_s > 0.25
    assert after.memory_bytes - before.memory_bytes > 60 << 20
    assert after.pids > before.pids >= 1
    assert (after.memory_limit_bytes, after.disk_limit_bytes) == (256 << 20, 256 << 20)
    assert 0 <= after.cpu_percent < 1000
    assert after.at >= before.at


def test_metrics_keep_a_history(box: Sandbox) -> None:
    first, second = box.metrics(), box.metrics()
    history = box.metrics_history()
    assert history[-2:] == [first, second]


def test_bytes_read_and_written_are_counted(make_box: MakeBox) -> None:
    box = make_box()
    # Past the page cache, so that the bytes have moved when the program ends.
    box.commands.run("dd if=/dev/zero of=f bs=1M count=8 oflag=direct")
    box.commands.run("dd if=f of=/dev/null bs=1M iflag=direct")
    metrics = box.metrics()
    assert metrics.io_write_bytes >= 8 << 20
    assert metrics.io_read_bytes >= 8 << 20


def test_fraction_of_a_cpu_is_enforced_or_refused(make_box: MakeBox, shared_box: Sandbox) -> None:
    from paddock import CannotEnforce

    if differences.FRACTIONAL_CPU(shared_box):
        assert make_box(limits={"cpu": 0.5}).get_info().limits["cpu"] == 0.5
    else:
        with pytest.raises(CannotEnforce, match=r"limits\.cpu"):
            make_box(limits={"cpu": 0.5})
