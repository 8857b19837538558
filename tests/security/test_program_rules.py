"""Ways around a rule on programs, tried with unmodified programs. The rule is about `sort`; an
attempt that works prints the lines of a file in order."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from paddock import Blocked, CommandExitException, Sandbox
from paddock.journal.log import RunLog
from paddock.model.action import Outcome
from paddock.model.events import ProgramRefused
from paddock.state.home import Home

BLOCKED = """
version: 1
agent: tester
stage: draft
rules:
  - id: no-sort
    match: {kind: exec, program: [sort]}
    decide: block
    why: Nothing is sorted here.
  - id: no-nl
    match: {kind: exec, program: ["nl*", "/usr/bin/tac*"]}
    decide: block
    why: Nothing is numbered or reversed here.
  - id: no-rev
    match: {kind: exec, argv: [[rev, "**"], ["**", "--reverse"]]}
    decide: block
    why: No line is turned around here.
  - id: no-fold
    match: {kind: exec, path: [/usr/bin/fold, "**/expand"]}
    decide: block
    why: Nothing is folded or expanded here.
"""
ALLOWED = """
version: 1
agent: tester
stage: draft
rules:
  - id: only-these
    match: {kind: exec}
    unless:
      program: [sh, dash, bash, cp, ln, ls, mkdir, chmod, cat, git, "true", head, readlink,
                /home/user/tools/*]
    decide: block
    why: Only these are needed.
"""
SORTED = "a\nb\n"
PREPARE = r"""
set -e
printf 'b\na\n' > in
ld=$(ls /lib64/ld-linux* /lib/ld-linux* 2>/dev/null | head -1); ln -s $ld ld
ln -s /usr/bin/sort link
cp /usr/bin/sort copy
cp $(readlink -f $ld) loader
printf '#!/usr/bin/sort\n' > script
chmod +x script
for n in 1 2 3 4; do
    mkdir -p $n/parent/removed $n/other/inner
    ln -s /usr/bin/sort $n/parent/x
    cp /usr/bin/true $n/other/x
    ln -s ../other/inner "$n/parent/removed (deleted)"
done
"""
# Descriptor 33 of the thread is one program, and that of the thread group's leader another.
THREAD = r"""
#define _GNU_SOURCE
#include <fcntl.h>
#include <sched.h>
#include <unistd.h>
static char stack[65536];
static char **argv;
static void hold(const char *path) { dup2(open(path, O_RDONLY), 33); }
static int run(void *unused) {
    char *environment[] = {0};
    hold(argv[2]);
    execve(argv[3], argv + 3, environment);
    _exit(9);
}
int main(int count, char **words) {
    argv = words;
    hold(argv[1]);
    clone(run, stack + sizeof stack, CLONE_VM | CLONE_SIGHAND | CLONE_THREAD | CLONE_FS, 0);
    sleep(5);
    return 8;
}
"""
# Each runs `../x` from a directory that it has removed.
IN_REMOVED = (
    "python3 -c 'import os; os.chdir(\"{n}/parent/removed\"); os.rmdir(os.getcwd()); {run}'"
)
AT_REMOVED = (
    "python3 -c 'import ctypes, os, platform\n"
    'fd = os.open("3/parent/removed", os.O_RDONLY); os.rmdir("3/parent/removed")\n'
    'number = 281 if platform.machine() == "aarch64" else 322\n'
    'argv = (ctypes.c_char_p * 3)(b"x", b"in", None)\n'
    'ctypes.CDLL(None).syscall(number, fd, b"../x", argv, None, 0)\''
)
ATTEMPTS = {
    "a loader's option with a value": "./ld --library-path /lib /usr/bin/sort in",
    "another option with a value": "./ld --argv0 true /usr/bin/sort in",
    "several options": "./ld --inhibit-cache --inhibit-rpath x --preload '' /usr/bin/sort in",
    "an option that nobody knows": "./ld --made-up x /usr/bin/sort in || exit 9",
    "an option with an equals sign": "./ld --library-path=/lib /usr/bin/sort in || exit 9",
    "a loader and a link": "./ld ./link in",
    "a loader and a copy": "./ld ./copy in",
    "a loader and a descriptor": "exec 3</usr/bin/sort; ./ld /proc/self/fd/3 in",
    "a loader and a descriptor in /dev": "exec 3</usr/bin/sort; ./ld /dev/fd/3 in",
    "a loader and a script": "./ld ./script in || exit 9",
    "a loader and a path through ..": "./ld /usr/lib/../bin/sort in",
    "a loader behind long arguments": "./ld --library-path $(printf '%5000s' | tr ' ' x)"
    " /usr/bin/sort in",
    "a loader behind many options": "./ld $(yes -- --inhibit-cache | head -300) /usr/bin/sort in",
    "a copied loader": "./loader /usr/bin/sort in",
    "a copied loader and a link": "./loader ./link in",
    "a loader that loads a loader": "./ld ./loader /usr/bin/sort in || exit 9",
    "a link to the loader": "ln -s $PWD/ld x; ./x /usr/bin/sort in",
    "a script whose interpreter is a script": "printf '#!%s/script\n' $PWD > s2; chmod +x s2; ./s2",
    "a script whose interpreter is a link": "printf '#!%s/link\n' $PWD > s3; chmod +x s3; ./s3",
    "a script whose interpreter is a copy": "printf '#!%s/copy\n' $PWD > s4; chmod +x s4; ./s4",
    "a script whose interpreter is the loader": "printf '#!%s /usr/bin/sort\n'"
    " $(readlink -f ld) > s5; chmod +x s5; ./s5",
    "a script whose loader takes an option": "printf '#!%s --argv0\n' $(readlink -f ld) > s6;"
    " chmod +x s6; ./s6 /usr/bin/sort in",
    "a script with a relative interpreter": "printf '#!./link\n' > s7; chmod +x s7; ./s7",
    "a script without an end of line": "printf '#! \t/usr/bin/sort' > s8; chmod +x s8; ./s8",
    "a descriptor of its own": "exec 3</usr/bin/sort; exec /proc/self/fd/3 in",
    "a name that is shown like another": "python3 -c 'import os, shutil\n"
    'shutil.copy("/bin/true", b"n\\\\xff"); os.symlink("/usr/bin/sort", b"n\\xff")\n'
    'os.execv(b"n\\xff", ["n", "in"])\'',
    "a script's name that is split elsewhere": "python3 -c 'import os\n"
    'os.symlink("/usr/bin/sort", "v\\x0bv"); os.symlink("/bin/cat", "v")\n'
    'open("s9", "w").write("#!" + os.getcwd() + "/v\\x0bv\\n"); os.chmod("s9", 0o755)\n'
    'os.execv("./s9", ["s9"])\'',
    "another program's loader": "python3 -c 'import os, re\n"
    'data = open("/bin/true", "rb").read(); at = data.index(b"/lib64/ld-linux")\n'
    'name = b"/home/user/link"; data = data[:at] + name + bytes(27 - len(name)) + data[at + 27:]\n'
    'open("elf", "wb").write(data); os.chmod("elf", 0o755); os.execv("./elf", ["elf", "in"])\''
    " || exit 9",
    "a copy of what a wildcard means": "cp /usr/bin/nl x1; ./x1 in >/dev/null && cat /dev/null;"
    " cp /usr/bin/tac x2; ./x2 in",
    "a copy of what words mean": "cp /usr/bin/rev x3; ./x3 in",
    "a copy of what a path means": "cp /usr/bin/fold x4; ./x4 in",
    "a copy of what a path anywhere means": "cp /usr/bin/expand x5; ./x5 in",
    "a name in a removed directory": IN_REMOVED.format(
        n=1, run='os.execv("../x", ["x", "/home/user/in"])'
    ),
    "a script's interpreter in a removed directory": "printf '#!../x\n' > s10; chmod +x s10; "
    + IN_REMOVED.format(n=2, run='os.execv("/home/user/s10", ["s10"])'),
    "a name at a removed directory": AT_REMOVED,
    "a loader's program in a removed directory": IN_REMOVED.format(
        n=4, run='os.execv("/home/user/ld", ["ld", "../x", "/home/user/in"])'
    ),
}
# `thread LEADERS THREADS PROGRAM ...` executes a program from a thread with its own descriptors.
THREAD_ATTEMPTS = {
    "the leader's descriptor": "./thread /usr/bin/sort /usr/bin/true /proc/self/fd/33 in",
    "the leader's descriptor in /dev": "./thread /usr/bin/sort /usr/bin/true /dev/fd/33 in",
    "the thread's descriptor": "./thread /usr/bin/true /usr/bin/sort /proc/thread-self/fd/33 in",
    "a loader and the thread's descriptor": "./thread /usr/bin/true /usr/bin/sort"
    " ./ld /proc/self/fd/33 in",
    "a script and the leader's descriptor": "printf '#!/proc/self/fd/33\n' > s11; chmod +x s11;"
    " ./thread /usr/bin/sort /usr/bin/true ./s11",
}


@pytest.fixture(scope="module")
def sandbox(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Callable[[str], Sandbox]]:
    """One sandbox for each file of rules, prepared for the attempts."""
    made: dict[str, Sandbox] = {}

    def open_sandbox(rules: str) -> Sandbox:
        if rules not in made:
            path = tmp_path_factory.mktemp("rules") / "paddock.yaml"
            path.write_text(rules)
            made[rules] = Sandbox.create(policy=str(path))
            made[rules].commands.run(PREPARE)
        return made[rules]

    yield open_sandbox
    for box in made.values():
        box.kill()


def _refusals(box: Sandbox) -> int:
    log = RunLog(Home.find().runs / box.sandbox_id)
    refused = sum(step.outcome is Outcome.REFUSED for step in log.steps())
    return refused + len(list(log.events(ProgramRefused)))


def _assert_refused(box: Sandbox, attempt: str) -> None:
    before = _refusals(box)
    try:
        printed = box.commands.run(attempt).stdout
    except CommandExitException as error:
        printed = error.stdout
    assert printed == "", f"it ran: {printed!r}"
    assert _refusals(box) > before


def _add_thread(box: Sandbox, compile_c: Callable[[str, str], bytes]) -> None:
    if not box.files.exists("thread"):
        box.files.write("thread", compile_c("thread", THREAD))
        box.commands.run("chmod +x thread")


@pytest.mark.parametrize("way", ATTEMPTS)
def test_no_way_around_a_rule_on_a_program(sandbox: Callable[[str], Sandbox], way: str) -> None:
    _assert_refused(sandbox(BLOCKED), ATTEMPTS[way])


@pytest.mark.parametrize("way", THREAD_ATTEMPTS)
def test_no_way_around_a_rule_by_a_thread_with_descriptors_of_its_own(
    sandbox: Callable[[str], Sandbox], compile_c: Callable[[str, str], bytes], way: str
) -> None:
    box = sandbox(BLOCKED)
    _add_thread(box, compile_c)
    _assert_refused(box, THREAD_ATTEMPTS[way])


def test_thread_with_descriptors_of_its_own_runs_what_no_rule_means(
    sandbox: Callable[[str], Sandbox], compile_c: Callable[[str, str], bytes]
) -> None:
    box = sandbox(BLOCKED)
    _add_thread(box, compile_c)
    for command in (
        "./thread /usr/bin/sort /usr/bin/head /proc/thread-self/fd/33 -n1 in",
        "./thread /usr/bin/head /usr/bin/sort /proc/self/fd/33 -n1 in",
        "./thread /usr/bin/sort /usr/bin/head ./ld /proc/self/fd/33 -n1 in",
    ):
        assert box.commands.run(command).stdout == "b\n", command


@pytest.mark.parametrize("argv", [["./copy", "in"], ["./script", "in"], ["./ld", "./link", "in"]])
def test_command_given_as_a_list_is_followed_like_any_other(
    sandbox: Callable[[str], Sandbox], argv: list[str]
) -> None:
    with pytest.raises(Blocked, match="no-sort"):
        sandbox(BLOCKED).commands.run(argv)


def test_programs_that_no_rule_means_run_in_all_these_ways(
    sandbox: Callable[[str], Sandbox],
) -> None:
    box = sandbox(BLOCKED)
    for command in (
        "./ld --library-path /lib /usr/bin/head -n1 in",
        "cp /usr/bin/head mine; ./mine -n1 in",
        "exec 3</usr/bin/head; exec /proc/self/fd/3 -n1 in",
        "printf '#!/usr/bin/head -n1\n' > h; chmod +x h; ./h in | head -n1 >/dev/null; head -n1 in",
        "printf 'head -n1 in' > plain; chmod +x plain; ./plain",
        "mkdir gone; cd gone; rmdir ../gone; /usr/bin/head -n1 ~/in",
        "ln -s /usr/bin/head 'd (deleted)'; mkdir 'e (deleted)'; cd 'e (deleted)';"
        " '../d (deleted)' -n1 ../in",
    ):
        assert box.commands.run(command).stdout == "b\n", command
    assert box.commands.run(["./ld", "/usr/bin/head", "-n1", "in"]).stdout == "b\n"


def test_list_of_allowed_names_does_not_hold_for_files_that_the_agent_wrote(
    sandbox: Callable[[str], Sandbox],
) -> None:
    box = sandbox(ALLOWED)
    assert box.commands.run("cat in").stdout == "b\na\n"
    for command in (
        "cp /usr/bin/sort git; ./git in",
        "cp /usr/bin/sort /tmp/cat; /tmp/cat in",
        "mkdir -p d; cp /usr/bin/sort d/sh; PATH=$PWD/d:$PATH; sh in",
        "cp /usr/bin/sort git; ln -sf $PWD/git true; ./true in",
        "cp loader git; ./git /usr/bin/sort in",
    ):
        with pytest.raises(CommandExitException) as refused:
            box.commands.run(command)
        assert refused.value.stdout == "", command
    with pytest.raises(Blocked, match="only-these"):
        box.commands.run(["/tmp/cat", "in"])
    before = _refusals(box)
    with pytest.raises(Blocked, match="a loader"):
        box.commands.run(["./git", "in"])
    assert _refusals(box) > before


def test_path_in_a_list_of_allowed_programs_holds_for_whatever_lies_there(
    sandbox: Callable[[str], Sandbox],
) -> None:
    box = sandbox(ALLOWED)
    box.commands.run("mkdir -p tools; cp /usr/bin/sort tools/arrange")
    assert box.commands.run("tools/arrange in").stdout == SORTED


def test_name_is_not_allowed_for_a_read_only_file_that_is_writable_elsewhere(
    tmp_path: Path,
) -> None:
    shared = tmp_path / "shared"
    shared.mkdir()
    rules = tmp_path / "paddock.yaml"
    rules.write_text(ALLOWED)
    mounts: list[Any] = [
        {"source": str(shared), "target": "/mnt/read", "mode": "read"},
        {"source": str(shared), "target": "/mnt/write", "mode": "write"},
    ]
    with Sandbox.create(policy=str(rules), mounts=mounts) as box:
        box.commands.run("cp /usr/bin/sort /mnt/write/git")
        with pytest.raises(CommandExitException):
            box.commands.run("/mnt/read/git /dev/null")
