"""The guest, pid 1 of the sandbox: looking into it, stealing its channel, steering it, killing it.

The guest is what enforces time-outs, streams and, without cgroups, limits. So the agent must not
get at it, although both run under the same uid.
"""

from __future__ import annotations

import signal

import pytest

from paddock import Sandbox
from security.attack import background, eventually, probe, run, shell
from security.conftest import MakeBox

LIST_DESCRIPTORS = "import os; print(sorted(int(n) for n in os.listdir('/proc/self/fd'))[:-1])"


@pytest.mark.parametrize("stdin", [False, True])
def test_command_inherits_three_descriptors_and_no_more(shared_box: Sandbox, stdin: bool) -> None:
    """A fourth would be the guest's own: its channel to the host is the first candidate."""
    words = ["python3", "-c", LIST_DESCRIPTORS]
    handle = shared_box.commands.run(words, background=True, stdin=stdin)
    assert handle.wait(20).stdout == "[0, 1, 2]\n"


def test_shell_command_inherits_no_socket(shared_box: Sandbox) -> None:
    assert "socket:" not in shared_box.commands.run("ls -l /proc/self/fd /proc/$$/fd").stdout


def test_terminal_program_inherits_three_descriptors_and_no_more(shared_box: Sandbox) -> None:
    seen: list[bytes] = []
    words = ["python3", "-c", LIST_DESCRIPTORS]
    shared_box.pty.create(on_data=seen.append, cmd=words).wait(20)
    assert b"".join(seen) == b"[0, 1, 2]\r\n"


def test_code_cell_has_no_socket(shared_box: Sandbox) -> None:
    """Its pipes to the relay are its own; the guest's channel is not."""
    printed = shared_box.run_code("!ls -l /proc/$PPID/fd /proc/self/fd").logs.stdout
    assert "pipe:" in "".join(printed)
    assert "socket:" not in "".join(printed)


def test_frames_cannot_be_forged_by_a_command(box: Sandbox) -> None:
    """Whoever holds the channel could speak to the host as the guest does."""
    program = """
    import struct
    frame = struct.pack(">IBBI", 0, 99, 0, 0)  # of a kind that does not exist
    for fd in range(3, 64):
        attempt(os.write, fd, frame)
    """
    run(box, program)
    assert box.is_running()
    assert box.commands.run("echo fine").stdout == "fine\n"


def test_first_process_cannot_be_looked_into(shared_box: Sandbox) -> None:
    program = """
    for name in ("environ", "maps", "mem", "auxv", "stack", "syscall", "io", "pagemap", "smaps",
                 "personality", "numa_maps", "timers", "map_files/x", "fd/3", "fdinfo/3", "ns/mnt",
                 "root/etc/passwd", "cwd/etc/passwd", "exe"):
        found[name] = attempt(read, "/proc/1/" + name)
    for name in ("fd", "fdinfo", "map_files", "root", "cwd", "task/1/fd"):
        found["list " + name] = attempt(os.listdir, "/proc/1/" + name)
    for name in ("mem", "oom_score_adj", "clear_refs", "comm", "coredump_filter", "timerslack_ns",
                 "attr/current", "sched", "autogroup"):
        def write():
            os.write(os.open("/proc/1/" + name, os.O_WRONLY), b"1")
        found["write " + name] = attempt(write)
    """
    found = probe(shared_box, program)
    through = {name: answer for name, answer in found.items() if answer.startswith("ok")}
    assert through == {}


def test_descriptors_cannot_be_taken_from_the_first_process(shared_box: Sandbox) -> None:
    program = """
    pidfd = os.pidfd_open(1)
    for number in range(8):
        found["pidfd_getfd %d" % number] = call(438, pidfd, number, 0)
        found["open %d" % number] = attempt(os.open, "/proc/1/fd/%d" % number, os.O_RDWR)
    found["attach"] = call(101, 16, 1, 0, 0)
    found["seize"] = call(101, 0x4206, 1, 0, 0)
    """
    assert set(probe(shared_box, program).values()) == {"EPERM", "EACCES"}


@pytest.mark.parametrize("how", ["kill", "pidfd", "queue", "group"])
def test_no_signal_ends_or_stops_the_first_process(make_box: MakeBox, how: str) -> None:
    box = make_box()
    program = """
    import signal
    how = sys.argv[1]
    pidfd = os.pidfd_open(1)
    for number in range(1, 65):
        if number in (signal.SIGKILL, signal.SIGSTOP) and how == "group":
            continue
        if how == "kill":
            found[number] = attempt(os.kill, 1, number)
        elif how == "pidfd":
            found[number] = attempt(signal.pidfd_send_signal, pidfd, number)
        elif how == "queue":
            found[number] = call(129, 1, number, (ctypes.c_int * 32)(number, 0, -1))
        else:
            found[number] = attempt(os.killpg, os.getpgid(1) or 1, number)
    """
    outcome = run(box, program, how)
    assert outcome.exit_code == 0
    assert box.is_running()
    assert box.commands.run("echo fine").stdout == "fine\n"


@pytest.mark.parametrize("number", [signal.SIGKILL, signal.SIGSTOP, signal.SIGINT, signal.SIGTERM])
def test_no_signal_of_the_kernels_is_turned_on_the_first_process(box: Sandbox, number: int) -> None:
    """The kernel sends a signal of our choice to the owner of a socket that becomes readable."""
    program = """
    import fcntl, socket
    a, b = socket.socketpair()
    found["owner"] = attempt(fcntl.fcntl, a, fcntl.F_SETOWN, 1)
    found["signal"] = attempt(fcntl.fcntl, a, 10, int(sys.argv[1]))
    fcntl.fcntl(a, fcntl.F_SETFL, os.O_ASYNC | os.O_NONBLOCK)
    b.send(b"x")
    time.sleep(0.2)
    """
    run(box, program, str(int(number)))
    assert box.is_running()
    assert box.files.exists("/")


@pytest.mark.parametrize("name", ["NOFILE", "CPU", "AS", "DATA", "FSIZE", "NPROC", "STACK"])
def test_limits_of_the_first_process_cannot_be_changed(box: Sandbox, name: str) -> None:
    """Same uid, so the kernel would allow it; and a guest without descriptors enforces nothing."""
    program = """
    import resource
    kind = getattr(resource, "RLIMIT_" + sys.argv[1])
    try:
        resource.prlimit(1, kind, (8, 8))
        found["it"] = "ok"
    except OSError as error:
        found["it"] = errno.errorcode[error.errno]
    """
    assert probe(box, program, name)["it"] == "EPERM"


@pytest.mark.parametrize("how", ["idle", "batch", "nice", "group", "user", "attr", "io"])
def test_first_process_cannot_be_slowed_down(box: Sandbox, how: str) -> None:
    program = """
    import struct
    idle = struct.pack("IIQiI24x", 48, 5, 0, 0, 0)
    tries = {
        "idle": lambda: os.sched_setscheduler(1, os.SCHED_IDLE, os.sched_param(0)),
        "batch": lambda: os.sched_setscheduler(1, os.SCHED_BATCH, os.sched_param(0)),
        "nice": lambda: os.setpriority(os.PRIO_PROCESS, 1, 19),
        "group": lambda: os.setpriority(os.PRIO_PGRP, os.getpgid(1) or 1, 19),
        "user": lambda: os.setpriority(os.PRIO_USER, 1000, 19),
        "attr": lambda: raw(314, 1, ctypes.create_string_buffer(idle), 0),
        "io": lambda: raw(251, 1, 1, 3 << 13),
    }
    def raw(*words):
        answer = call(*words)
        if not isinstance(answer, int):
            raise OSError(getattr(errno, answer), "")
    before = open("/proc/1/stat").read().rpartition(")")[2].split()
    found["it"] = attempt(tries[sys.argv[1]])
    after = open("/proc/1/stat").read().rpartition(")")[2].split()
    found["nice and policy"] = [before[16] == after[16], before[38] == after[38]]
    """
    found = probe(box, program, how)
    assert found["nice and policy"] == [True, True]
    if how in ("idle", "batch", "nice", "attr", "io"):
        assert not found["it"].startswith("ok")


def test_spinning_programs_do_not_keep_a_time_out_from_coming(box: Sandbox) -> None:
    program = """
    attempt(os.sched_setscheduler, 1, os.SCHED_IDLE, os.sched_param(0))
    for _ in range(60):
        if os.fork() == 0:
            end = time.time() + 90
            while time.time() < end:
                pass
            os._exit(0)
    print("spinning", flush=True)
    time.sleep(90)
    """
    spinner = background(box, program)
    assert shell(box, "sleep 100", timeout=1).killed_by == "timeout"
    assert spinner.pid in [process.pid for process in box.commands.list()]  # it came meanwhile
    spinner.kill()


def test_guest_does_not_read_code_or_settings_of_the_agent(box: Sandbox) -> None:
    """A module beside it, a variable, a start-up file: whatever an interpreter looks for."""
    program = """
    packages = "/home/user/.local/lib/python3.%d/site-packages" % sys.version_info[1]
    os.makedirs(packages)
    for place in ("/home/user", "/tmp", "/run", packages):
        for module in ("json", "struct", "re", "limits", "sitecustomize", "usercustomize"):
            with open(f"{place}/{module}.py", "w") as file:
                file.write("open('/tmp/owned', 'w')")
    """
    run(box, program)
    box.files.list(".", depth=3)
    box.files.write("x", "y")
    box.commands.run("true", envs={"PYTHONPATH": "/tmp"})
    assert not box.files.exists("/tmp/owned")


def test_names_of_the_sandbox_can_be_swapped_without_harm(box: Sandbox) -> None:
    """/run belongs to the agent; nothing on the host follows what it puts there."""
    shell(
        box, "rm -f /run/hosts /run/hostname; ln -s /proc/1/mem /run/hosts; ln -s / /run/hostname"
    )
    assert box.commands.run("echo fine").stdout == "fine\n"
    with box.fork() as child:
        assert child.commands.run("cat /run/hostname").stdout.strip() == child.sandbox_id


def test_full_pipes_of_the_guest_hold_up_nobody(box: Sandbox) -> None:
    """Programs that fill their output and never end, and readers that never read."""
    for _ in range(8):
        box.commands.run("yes | head -c 50000000; sleep 60", background=True).disconnect()
    stuck = box.commands.run("sleep 60", background=True, stdin=True)
    stuck.send_stdin(b"x" * 100_000)
    eventually(lambda: box.commands.run("echo fine").stdout == "fine\n", 20)


def test_exhausted_descriptors_and_watches_leave_the_guest_usable(box: Sandbox) -> None:
    program = """
    keep = []
    while len(keep) < 5000:
        fd = libc.inotify_init1(0)
        if fd < 0:
            break
        keep.append(fd)
    while attempt(lambda: keep.append(os.open("/dev/null", os.O_RDONLY))).startswith("ok"):
        pass
    print("full", flush=True)
    time.sleep(30)
    """
    background(box, program)
    assert box.commands.run("echo fine").stdout == "fine\n"
    box.files.write("x", "y")
    assert box.files.read("x") == "y"
