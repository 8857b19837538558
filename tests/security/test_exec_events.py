"""Running a program without the host being told, or making the telling itself a weapon."""

from __future__ import annotations

import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from paddock import Sandbox
from security.attack import memory_bytes, probe, run, shell
from security.conftest import MakeBox

MAX_LOG_BYTES = 64 << 20  # what one sandbox may make the host remember of its programs


def programs(box: Sandbox) -> list[str]:
    return [event.program for event in box.exec_events()]


def is_told(box: Sandbox, *words: str) -> bool:
    """Whether an event has these words as arguments."""
    return any(event.argv == words for event in box.exec_events())


def test_program_in_a_directory_behind_an_absolute_link_is_told(box: Sandbox) -> None:
    """The link means something in the sandbox; resolved on the host it would mean nothing."""
    shell(box, "mkdir d; cp /bin/true d/hidden; ln -s /home/user/d /tmp/l; /tmp/l/hidden one")
    assert is_told(box, "/tmp/l/hidden", "one")


def test_program_by_a_relative_path_behind_an_absolute_link_is_told(box: Sandbox) -> None:
    shell(box, "mkdir d; cp /bin/true d/hidden; ln -s /home/user/d l; cd /home/user; l/hidden two")
    assert is_told(box, "l/hidden", "two")


def test_program_behind_a_chain_of_links_is_told(box: Sandbox) -> None:
    shell(
        box, "mkdir d; cp /bin/true d/x; ln -s /home/user/d a; ln -s /home/user/a b; b/../d/x three"
    )
    assert is_told(box, "b/../d/x", "three")


def test_programs_started_through_the_api_are_told(box: Sandbox) -> None:
    box.commands.run(["/bin/true", "four"])
    assert is_told(box, "/bin/true", "four")


def test_program_started_by_a_process_that_nobody_may_look_into_is_told(box: Sandbox) -> None:
    program = """
    libc.prctl(4, 0, 0, 0, 0)  # not dumpable: its memory is closed to others of its uid
    os.execv("/bin/true", ["true", "five"])
    """
    run(box, program)
    assert is_told(box, "true", "five")


def test_program_in_memory_is_told(make_box: MakeBox) -> None:
    box = make_box()
    program = """
    data = open("/bin/true", "rb").read()
    try:
        fd = os.memfd_create("hidden", 0)
    except OSError:
        fd = os.open("/tmp/hidden", os.O_CREAT | os.O_RDWR, 0o700)  # where memfd is refused
    os.write(fd, data)
    fd = os.open("/proc/self/fd/%d" % fd, os.O_RDONLY)
    arguments = (ctypes.c_char_p * 3)(b"hidden", b"six", None)
    if os.fork() == 0:
        call(322, fd, b"", arguments, 0, 0x1000)  # execveat with AT_EMPTY_PATH
        os._exit(1)
    os.wait()
    if os.fork() == 0:
        os.execv("/proc/self/fd/%d" % fd, ["hidden", "seven"])
    found["status"] = os.wait()[1]
    """
    probe(box, program)
    assert is_told(box, "hidden", "six")
    assert is_told(box, "hidden", "seven")


def test_program_named_by_a_script_or_a_loader_is_told(box: Sandbox) -> None:
    shell(box, "printf '#!/bin/sh\\ntrue\\n' > s; chmod +x s; ./s eight; cp /bin/true t; cat t > u")
    assert is_told(box, "./s", "eight")
    loader = "ls /lib64/ld-linux-x86-64.so.2 /lib/ld-linux-aarch64.so.1 2>/dev/null | head -1"
    shell(box, f"$({loader}) /bin/true nine")
    assert any(event.argv[1:] == ("/bin/true", "nine") for event in box.exec_events())


def test_program_that_appears_at_the_last_moment_is_told(box: Sandbox) -> None:
    """The name comes and goes while the host looks; an exec that succeeds must have an event."""
    program = """
    import threading
    os.chdir("/home/user")
    data = open("/bin/true", "rb").read()
    with open("kept", "wb") as file:
        file.write(data)
    os.chmod("kept", 0o755)
    stop = False
    def flicker():
        while not stop:
            try:
                os.rename("kept", "flicker")
                os.rename("flicker", "kept")
            except OSError:
                pass
    threading.Thread(target=flicker, daemon=True).start()
    ran = 0
    for number in range(150):
        pid = os.fork()
        if pid == 0:
            try:
                os.execv("/home/user/flicker", ["flicker", str(number)])
            finally:
                os._exit(99)
        ran += os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]) == 0
    stop = True
    found["ran"] = ran
    """
    ran = probe(box, program, timeout=60)["ran"]
    told = sum(event.argv[:1] == ("flicker",) for event in box.exec_events())
    assert told >= ran


def test_arguments_that_cannot_be_read_do_not_make_a_program_invisible(
    box: Sandbox, compile_c: Callable[[str, str], bytes]
) -> None:
    """The page with the arguments comes into being between the host's look and the kernel's."""
    code = r"""
    #define _GNU_SOURCE
    #include <pthread.h>
    #include <stdio.h>
    #include <string.h>
    #include <sys/mman.h>
    #include <sys/wait.h>
    #include <unistd.h>
    static volatile char *page = (char *)0x700000000000;
    static void *flicker(void *unused) {
        for (;;) {
            munmap((void *)page, 4096);
            mmap((void *)page, 4096, 3, MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED, -1, 0);
            strcpy((char *)page, "/home/user/hidden");
        }
    }
    int main(void) {
        int ran = 0, status;
        for (int i = 0; i < 40; i++) {
            pid_t pid = fork();
            if (pid == 0) {
                pthread_t thread;
                char *argv[] = {"hidden", 0};
                pthread_create(&thread, 0, flicker, 0);
                for (int n = 0; n < 200; n++) execve((char *)page, argv, 0);
                _exit(99);
            }
            waitpid(pid, &status, 0);
            ran += WIFEXITED(status) && WEXITSTATUS(status) == 0;
        }
        printf("%d\n", ran);
        return 0;
    }
    """
    box.files.write("racer", compile_c("racer", code + "\n"))
    result = shell(box, "cp /bin/true hidden; chmod +x racer; ./racer", timeout=60)
    ran = int(result.stdout)
    told = sum(event.argv[:1] in (("hidden",), ("?",), ()) for event in box.exec_events())
    assert told >= ran


def test_long_arguments_cost_the_host_little(box: Sandbox) -> None:
    """Ten thousand events are kept, and all sandboxes wait while one is noted down."""
    began_s, before = time.process_time(), memory_bytes()
    program = """
    word = b"\\xff" * 4090
    for _ in range(20):
        os.spawnv(os.P_WAIT, "/bin/true", ["true"] + [word] * 255)
    """
    run(box, program, timeout=60)
    spent_s = time.process_time() - began_s
    events = box.exec_events()
    characters = sum(len(word) for event in events for word in event.argv) / max(1, len(events))
    assert characters * 10_000 <= MAX_LOG_BYTES, f"{characters:.0f} characters an event"
    assert memory_bytes() - before < MAX_LOG_BYTES
    assert spent_s < 2, f"{spent_s:.1f} s of the host's CPU for 20 programs"


CROWDED_HOST = """
import resource, sys
resource.setrlimit(resource.RLIMIT_NOFILE, (256, 4096))
from paddock import Sandbox
boxes = [Sandbox.create() for _ in range(3)]
for box in boxes:
    box.commands.run("for i in $(seq 110); do sleep 60 & done; sleep 0.5", timeout=30)
print(sum(event.program.endswith("sleep") for box in boxes for event in box.exec_events()))
with Sandbox.create() as box:
    print(box.commands.run("echo fine").stdout)
"""


def test_running_programs_do_not_use_up_descriptors_of_the_host(tmp_path: Path) -> None:
    """An agent may run as many programs as its limit says; the host has its own use for files."""
    words = [sys.executable, "-c", CROWDED_HOST]
    done = subprocess.run(words, capture_output=True, text=True, timeout=90, check=False)
    assert "fine" in done.stdout, done.stderr[-2000:]
    assert int(done.stdout.split()[0]) >= 330  # and every one of them was told


@pytest.mark.parametrize("name", ["a\nb", "\x1b[2Jx", "é" * 60, "\udcff\udcfe"])
def test_odd_names_are_told_without_harm(box: Sandbox, name: str) -> None:
    box.files.write(name, "#!/bin/true\n")
    box.commands.run(["chmod", "+x", name])
    box.commands.run([f"./{name}"])
    assert any(event.program.startswith("./") for event in box.exec_events())
