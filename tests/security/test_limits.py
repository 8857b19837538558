"""Processes, CPU, open files, output and rlimits: getting around a number."""

from __future__ import annotations

import os
import time
from pathlib import Path

import pytest

from paddock import CommandExitException, Sandbox, SandboxError
from security.attack import background, eventually, probe, run, shell
from security.conftest import MakeBox
from security.differences import PINNED_CPU

PIDS = 40


@pytest.fixture
def small(make_box: MakeBox) -> Sandbox:
    return make_box(limits={"pids": PIDS})


def test_threads_count_as_processes(small: Sandbox) -> None:
    program = """
    import threading
    made = 0
    try:
        for _ in range(200):
            threading.Thread(target=time.sleep, args=(20,), daemon=True).start()
            made += 1
    except RuntimeError:
        pass
    print(made, flush=True)
    os._exit(0)
    """
    assert int(run(small, program).stdout) < PIDS


def test_several_trees_of_threads_share_one_limit(small: Sandbox) -> None:
    program = """
    import threading
    reader, writer = os.pipe()
    for _ in range(5):
        try:
            pid = os.fork()
        except OSError:
            break
        if pid == 0:
            os.setsid()
            try:
                for _ in range(100):
                    threading.Thread(target=time.sleep, args=(20,), daemon=True).start()
                    os.write(writer, b".")
            except RuntimeError:
                pass
            time.sleep(2)
            os._exit(0)
    time.sleep(1.5)
    print(len(os.read(reader, 65536)), flush=True)
    """
    assert int(run(small, program).stdout) < PIDS


def test_fork_bomb_is_stopped_and_the_sandbox_stays_usable(small: Sandbox) -> None:
    handle = small.commands.run("bomb() { bomb | bomb & }; bomb; sleep 30", background=True)
    eventually(lambda: small.metrics().pids >= PIDS - 3, what="the bomb to reach the limit")
    assert small.metrics().pids <= PIDS
    assert small.files.exists("/")  # the guest needs no new process to answer
    handle.kill()
    eventually(lambda: is_working(small), 30, "the sandbox to be usable again")


def is_working(box: Sandbox) -> bool:
    try:
        return box.commands.run("echo fine").stdout == "fine\n"
    except SandboxError:  # no process to be had at this moment
        return False


def test_rlimits_cannot_be_raised(shared_box: Sandbox) -> None:
    program = """
    import resource
    for name in ("NOFILE", "NPROC", "CORE", "FSIZE", "MEMLOCK", "MSGQUEUE", "RTPRIO", "NICE"):
        kind = getattr(resource, "RLIMIT_" + name, 13)
        soft, hard = resource.getrlimit(kind)
        if hard == resource.RLIM_INFINITY:
            found[name] = "unlimited"
            continue
        try:
            resource.setrlimit(kind, (hard + 1, hard + 1))
            found[name] = "raised"
        except (OSError, ValueError) as error:
            found[name] = "refused"
    """
    assert set(probe(shared_box, program).values()) == {"refused"}


def test_no_core_file_is_written(box: Sandbox) -> None:
    run(box, "os.chdir('/home/user'); os.abort()")
    shell(box, "ulimit -c unlimited; cd /tmp; sh -c 'kill -SEGV $$'")
    names = box.commands.run("ls -A /home/user /tmp").stdout
    assert "core" not in names
    if not Path("/proc/sys/kernel/core_pattern").read_text().startswith("|"):
        assert not Path(f"core.{os.getpid()}").exists()


def test_crash_cannot_reach_a_core_handler_of_the_host(shared_box: Sandbox) -> None:
    """A pattern that begins with | starts a program as root on the host, even at a core limit of 0;
    only the special limit of 1 says no, and it must not be possible to lower it."""
    program = """
    import resource
    found["limit"] = resource.getrlimit(resource.RLIMIT_CORE)[1]
    try:
        resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
        found["lowered"] = True
    except (OSError, ValueError):
        found["lowered"] = False
    """
    found = probe(shared_box, program)
    assert found["limit"] == 1
    assert found["lowered"] is False


def test_priority_cannot_be_raised(shared_box: Sandbox) -> None:
    program = """
    tries = {
        "nice": lambda: os.nice(-1),
        "priority": lambda: os.setpriority(os.PRIO_PROCESS, 0, -5),
        "fifo": lambda: os.sched_setscheduler(0, os.SCHED_FIFO, os.sched_param(1)),
        "round robin": lambda: os.sched_setscheduler(0, os.SCHED_RR, os.sched_param(1)),
    }
    for name, act in tries.items():
        found[name] = attempt(act)
    deadline = (48).to_bytes(4, "little") + (6).to_bytes(4, "little") + bytes(16)
    deadline += (10_000_000).to_bytes(8, "little") * 3
    found["deadline"] = call(314, 0, ctypes.create_string_buffer(deadline, 56), 0)
    found["real-time io"] = call(251, 1, 0, 1 << 13)
    """
    assert set(probe(shared_box, program).values()) <= {"EPERM", "EACCES"}


def test_spinners_get_no_more_cpu_than_the_limit(make_box: MakeBox) -> None:
    box = make_box(limits={"cpu": 1})
    program = """
    for _ in range(4):
        if os.fork() == 0:
            for number in range(64):
                attempt(os.sched_setaffinity, 0, [number])
            attempt(os.sched_setaffinity, 0, range(os.cpu_count()))
            while True:
                pass
    print("up", flush=True)
    time.sleep(30)
    """
    handle = background(box, program)
    before, began = box.metrics().cpu_used_s, time.monotonic()
    time.sleep(2)
    used = box.metrics().cpu_used_s - before
    share = used / (time.monotonic() - began)
    handle.kill()
    assert share < 1.5, f"{share:.2f} CPUs"


def test_pinned_sandbox_cannot_choose_its_cpus(box: Sandbox) -> None:
    if not PINNED_CPU(box):
        return  # its share is kept by the cgroup, on whichever CPU: see the test above
    program = """
    before = os.sched_getaffinity(0)
    found["set"] = attempt(os.sched_setaffinity, 0, range(os.cpu_count()))
    found["same"] = os.sched_getaffinity(0) == before
    """
    assert probe(box, program) == {"set": "EPERM", "same": True}


def test_open_files_are_bounded(make_box: MakeBox) -> None:
    box = make_box(limits={"files": 64})
    program = """
    count = 0
    while count < 500 and attempt(os.open, "/dev/null", os.O_RDONLY).startswith("ok"):
        count += 1
    print(count)
    """
    assert int(run(box, program).stdout) < 64


@pytest.mark.parametrize("size", [1, 7, 65536])
def test_flood_of_output_is_stopped_at_its_limit(make_box: MakeBox, size: int) -> None:
    box = make_box(limits={"output": 100_000})
    program = f"import os\nwhile True: os.write(1, b'x' * {size}); os.write(2, b'y' * {size})"
    with pytest.raises(CommandExitException) as caught:
        box.commands.run(["python3", "-c", program], timeout=60)
    assert caught.value.killed_by == "output"
    assert len(caught.value.stdout) + len(caught.value.stderr) <= 100_000


def test_flood_of_single_bytes_leaves_other_sandboxes_responsive(make_box: MakeBox) -> None:
    noisy, quiet = make_box(), make_box()
    program = "import os\nprint('up', flush=True)\nwhile True: os.write(1, b'x')"
    handle = noisy.commands.run(["python3", "-c", program], background=True)
    waits = []
    for _ in range(20):
        began = time.monotonic()
        quiet.commands.run(["/bin/true"])
        waits.append(time.monotonic() - began)
    handle.kill()
    assert sorted(waits)[10] < 1.0, waits


def test_time_limit_holds_against_a_busy_sandbox(make_box: MakeBox) -> None:
    box = make_box(limits={"time": 3}, timeout=300)
    box.commands.run("trap '' TERM INT HUP; while :; do :; done", background=True)
    box.set_timeout(600)
    deadline = time.monotonic() + 20
    while box.is_running() and time.monotonic() < deadline:
        time.sleep(0.05)
    assert not box.is_running()
    assert "time" in str(box.get_info().ended_by)
