"""Many sandboxes, one after the other and from several processes: nothing is left over."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from conformance.conftest import MakeBox
from conformance.host import cgroups_with, loops_of, mounts_of, sandboxes_of
from conformance.waiting import Calls, eventually
from paddock import Sandbox
from paddock.state.home import new_id
from repetition import times

PROGRAMS = Path(__file__).parent / "programs"
# Threads come and go; the keeper keeps a descriptor for each uid that it had to use so far, which
# depends on what else runs on the machine. A leak would be a hundred or more.
SLACK = {"threads": 4, "keeper's descriptors": 20}


def _run(name: str, *arguments: str, timeout: float = 110, **env: str) -> str:
    done = subprocess.run(
        [sys.executable, "-W", "always", str(PROGRAMS / name), *arguments],
        capture_output=True,
        text=True,
        timeout=timeout,
        env={**os.environ, **env},
    )
    assert done.returncode == 0, done.stderr
    assert done.stderr == "", done.stderr
    return done.stdout


@pytest.mark.repeated
@pytest.mark.parametrize(("pool", "cycles"), [("auto", times(25, 400)), ("0", times(10, 100))])
def test_many_sandboxes_leak_nothing(driver: str, tmp_path: Path, pool: str, cycles: int) -> None:
    marker = new_id()[:6]
    home = tmp_path / "h"
    held = json.loads(
        _run("cycle.py", marker, str(cycles), PADDOCK_HOME=str(home), PADDOCK_POOL=pool)
    )
    before, after = held["before"], held["after"]
    for name in before:
        assert after[name] <= before[name] + SLACK.get(name, 0), (name, held)
    assert sandboxes_of(home) == []
    assert cgroups_with(marker) == []
    assert mounts_of(home) == []
    # The kernel detaches a loop device with its last mount, which a namespace that another process
    # has just made may hold for a moment.
    eventually(lambda: loops_of(home) == [], what="no loop device is left")
    assert not (home / "layers").exists() or os.listdir(home / "layers") == []


def test_process_that_just_ends_leaves_nothing_and_says_nothing(
    driver: str, tmp_path: Path
) -> None:
    home = tmp_path / "h"
    program = (
        "import contextlib, threading\n"
        "from paddock import Sandbox, SandboxDied\n"
        "box = Sandbox.create()\n"
        "box.commands.run('sleep 1000', background=True)\n"
        "box.run_code('1')\n"
        "child = box.fork()\n"
        "def wait():\n"
        "    with contextlib.suppress(SandboxDied): box.commands.run('sleep 1000')\n"
        "threading.Thread(target=wait, daemon=True).start()\n"
        "print(box.sandbox_id)\n"
    )
    done = subprocess.run(
        [sys.executable, "-W", "always", "-c", program],
        capture_output=True,
        text=True,
        timeout=60,
        env={**os.environ, "PADDOCK_HOME": str(home)},
    )
    assert (done.returncode, done.stderr) == (0, "")
    assert sandboxes_of(home) == []
    assert cgroups_with(done.stdout.strip()) == []
    eventually(lambda: not loops_of(home), what="no loop device is left")


def test_several_processes_use_one_home_at_once(driver: str, tmp_path: Path) -> None:
    home = tmp_path / "h"
    program = (
        "from paddock import Sandbox\n"
        "for n in range(4):\n"
        "    with Sandbox.create() as box:\n"
        "        box.files.write('f', str(n))\n"
        "        snapshot = box.snapshot()\n"
        "        with box.fork() as child, Sandbox.create(snapshot=snapshot) as restored:\n"
        "            assert child.files.read('f') == restored.files.read('f') == str(n)\n"
        "            assert restored.commands.run('cat f').stdout == str(n)\n"
        "print('ok')\n"
    )

    def run() -> tuple[str, str]:
        done = subprocess.run(
            [sys.executable, "-c", program],
            capture_output=True,
            text=True,
            timeout=100,
            env={**os.environ, "PADDOCK_HOME": str(home)},
        )
        return done.stdout, done.stderr

    assert Calls([run] * 4).results(110) == [("ok\n", "")] * 4
    assert sandboxes_of(home) == []
    eventually(lambda: not loops_of(home))


def test_processes_of_one_home_do_not_see_each_others_files(
    make_box: MakeBox, tmp_path: Path
) -> None:
    program = (
        "import sys\nfrom paddock import Sandbox\n"
        "with Sandbox.create() as box:\n"
        "    box.files.write('/tmp/other', 'x')\n"
        "    print(box.get_info().uid, flush=True)\n"
        "    sys.stdin.read()\n"
    )
    with subprocess.Popen(
        [sys.executable, "-c", program], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    ) as other:
        assert other.stdout is not None
        uid = int(other.stdout.readline())
        box = make_box()
        assert not box.files.exists("/tmp/other")
        assert box.get_info().uid != uid or uid == os.geteuid()
        other.communicate(timeout=30)


def test_forked_host_process_has_sandboxes_of_its_own(box: Sandbox) -> None:
    program = (
        "import os, sys, warnings\n"
        "warnings.simplefilter('ignore')\n"
        "from paddock import Sandbox\n"
        "box = Sandbox.create()\n"
        "pid = os.fork()\n"
        "if pid == 0:\n"
        "    with Sandbox.create() as own: print(own.commands.run('echo child').stdout, end='')\n"
        "    sys.stdout.flush(); os._exit(0)\n"
        "assert os.waitpid(pid, 0)[1] == 0\n"
        "print(box.commands.run('echo parent').stdout, end='')\n"
        "box.kill()\n"
    )
    done = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, timeout=20
    )
    assert (done.stdout, done.stderr) == ("child\nparent\n", "")


def test_hostile_trees_are_removed_with_their_sandbox(driver: str, tmp_path: Path) -> None:
    home = tmp_path / "h"
    make = (
        "import os\n"
        "os.mkdir('closed'); open('closed/f', 'w').close(); os.chmod('closed', 0)\n"
        "os.mkdir('deep'); os.chdir('deep')\n"
        "for _ in range(2000): os.mkdir('d' * 20); os.chdir('d' * 20)\n"
    )
    program = (
        "import sys\nfrom paddock import Sandbox\n"
        "with Sandbox.create() as box: box.commands.run(['python3', '-c', sys.argv[1]])\n"
    )
    done = subprocess.run(
        [sys.executable, "-c", program, make],
        capture_output=True,
        text=True,
        timeout=100,
        env={**os.environ, "PADDOCK_HOME": str(home)},
    )
    try:
        assert (done.returncode, done.stderr) == (0, "")
        assert sandboxes_of(home) == []
        assert not (home / "layers").exists() or os.listdir(home / "layers") == []
    finally:
        subprocess.run(["chmod", "-R", "u+rwx", str(home)], capture_output=True)
        subprocess.run(["rm", "-rf", "--one-file-system", str(home)], capture_output=True)


def test_failed_start_leaves_nothing(private_home: Path, make_box: MakeBox, tmp_path: Path) -> None:
    from paddock import PaddockError

    root = tmp_path / "not-a-root"
    root.mkdir()
    make_box()
    before = sandboxes_of(private_home)
    mounts = [{"source": str(root), "target": "/proc-like/../x"}]
    for spec in ({"mounts": mounts}, {"template": "never-added"}, {"snapshot": "never-saved"}):
        with pytest.raises(PaddockError):
            make_box(**spec)
    assert sandboxes_of(private_home) == before
