"""Where state is kept, and the leases that say who still lives: across real processes, killed ones
too.
"""

from __future__ import annotations

import contextlib
import fcntl
import json
import os
import signal
import stat
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from paddock.model.errors import HostCannot
from paddock.state.home import Home, SandboxRecord, abandoned, claim, held, new_id, remove_tree

_HOLDER = """
import sys
from pathlib import Path
from paddock.state.home import Home
from paddock.state.home import claim
claim(Home(Path(sys.argv[1])), sys.argv[2])
print("claimed", flush=True)
sys.stdin.read()
"""


@pytest.fixture
def home(tmp_path: Path) -> Home:
    made = Home(tmp_path / "state")
    made.make()
    return made


@contextlib.contextmanager
def holder(home: Home, name: str) -> Iterator[subprocess.Popen[str]]:
    """Another process that has claimed a sandbox."""
    process = subprocess.Popen(
        [sys.executable, "-c", _HOLDER, str(home.root), name],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    )
    with process:
        assert process.stdout is not None
        assert process.stdout.readline() == "claimed\n"
        yield process
        process.kill()


def abandoned_names(home: Home) -> list[str]:
    names = []
    for directory, lease in abandoned(home):
        names.append(directory.name)
        os.close(lease)
    return names


# ---- the directory -------------------------------------------------------------------------------


def test_home_is_where_the_environment_says(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PADDOCK_HOME", str(tmp_path / "chosen"))
    assert Home.find().root == tmp_path / "chosen"
    monkeypatch.delenv("PADDOCK_HOME")
    monkeypatch.setenv("XDG_DATA_HOME", str(tmp_path / "data"))
    assert Home.find().root == tmp_path / "data" / "paddock"
    monkeypatch.delenv("XDG_DATA_HOME")
    monkeypatch.setenv("HOME", str(tmp_path))
    assert Home.find().root == tmp_path / ".local/share/paddock"


def test_home_is_private_also_when_it_was_not(tmp_path: Path) -> None:
    tmp_path.chmod(0o755)
    Home(tmp_path).make()
    assert stat.S_IMODE(tmp_path.stat().st_mode) == 0o700


def test_home_that_cannot_be_made_is_named_with_the_way_out() -> None:
    with pytest.raises(HostCannot, match=r"/proc/no/such[\s\S]*PADDOCK_HOME"):
        Home(Path("/proc/no/such")).make()


def test_file_in_the_place_of_the_home_is_named(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    with pytest.raises(HostCannot, match="file"):
        Home(tmp_path / "file").make()


def test_lock_lets_one_process_in_at_a_time(home: Home) -> None:
    program = (
        "import sys, time\nfrom pathlib import Path\nfrom paddock.state.home import Home\n"
        "with Home(Path(sys.argv[1])).lock('x'):\n"
        "    print('in', flush=True); time.sleep(0.2); print('out', flush=True)\n"
    )
    reader, writer = os.pipe()
    runs = [
        subprocess.Popen([sys.executable, "-c", program, str(home.root)], stdout=writer)
        for _ in range(3)
    ]
    os.close(writer)
    assert [run.wait(30) for run in runs] == [0, 0, 0]
    with open(reader) as said:
        assert said.read().split() == ["in", "out"] * 3


def test_lock_is_free_again_when_its_holder_failed(home: Home) -> None:
    with pytest.raises(ValueError, match="x"), home.lock("x"):
        raise ValueError("x")
    with home.lock("x"):
        pass


# ---- leases --------------------------------------------------------------------------------------


def test_sandbox_is_held_for_as_long_as_its_process_lives(home: Home) -> None:
    with holder(home, "box1") as process:
        directory = home.sandboxes / "box1"
        assert held(directory)
        assert abandoned_names(home) == []
        assert process.stdin is not None
        process.stdin.close()
        process.wait(10)
        assert not held(directory)
        assert abandoned_names(home) == ["box1"]


def test_sandbox_of_a_killed_process_is_abandoned_at_once(home: Home) -> None:
    with holder(home, "box1") as process, holder(home, "box2"):
        process.send_signal(signal.SIGKILL)
        process.wait(10)
        assert not held(home.sandboxes / "box1")
        assert abandoned_names(home) == ["box1"]
        assert held(home.sandboxes / "box2")


def test_stopped_process_still_holds_its_sandbox(home: Home) -> None:
    with holder(home, "box1") as process:
        process.send_signal(signal.SIGSTOP)
        assert held(home.sandboxes / "box1")
        assert abandoned_names(home) == []


def test_lease_is_not_inherited_by_programs_that_the_holder_starts(home: Home) -> None:
    lease = claim(home, "box1")
    with subprocess.Popen(["sleep", "60"]) as child:
        os.close(lease)
        assert not held(home.sandboxes / "box1")
        child.kill()


def test_abandoned_sandbox_is_given_to_one_sweeper_alone(home: Home) -> None:
    os.close(claim(home, "box1"))
    [(directory, lease)] = abandoned(home)
    assert held(directory)
    assert list(abandoned(home)) == []
    os.close(lease)
    assert not held(directory)


def test_looking_does_not_take(home: Home) -> None:
    os.close(claim(home, "box1"))
    for _ in range(3):
        assert not held(home.sandboxes / "box1")
    assert abandoned_names(home) == ["box1"]


def test_name_can_be_claimed_once(home: Home) -> None:
    lease = claim(home, "box1")
    with pytest.raises(OSError, match=r"."):
        os.close(claim(home, "box1"))
    os.close(lease)


def test_directory_without_a_lease_is_being_made_until_it_is_old(home: Home) -> None:
    fresh, old = home.sandboxes / ".new-fresh", home.sandboxes / ".new-old"
    for path in (fresh, old):
        path.mkdir()
    long_ago = time.time() - 3600
    os.utime(old, (long_ago, long_ago))
    assert abandoned_names(home) == []
    assert fresh.exists()
    assert not old.exists()


def test_home_without_sandboxes_has_none_abandoned(tmp_path: Path) -> None:
    assert list(abandoned(Home(tmp_path / "none"))) == []


def test_claim_is_not_swept_while_it_is_being_made(
    home: Home, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Another process sweeps at the worst moment: the lease is there, its lock is not yet."""
    lock, turns = fcntl.flock, []

    def sweep_first(fd: int, how: int) -> None:
        if not turns:
            turns.append(how)
            for directory, lease in abandoned(home):
                remove_tree(directory)
                os.close(lease)
        lock(fd, how)

    monkeypatch.setattr(fcntl, "flock", sweep_first)
    lease = claim(home, "box1")
    assert turns
    assert held(home.sandboxes / "box1")
    os.close(lease)


# ---- records -------------------------------------------------------------------------------------


def test_record_reads_back_as_it_was_written(tmp_path: Path) -> None:
    record = SandboxRecord("box1", "layer1", ("/sys/a", "/sys/b"), 12, 345, {"volumes": ["v"]})
    record.write(tmp_path)
    assert SandboxRecord.read(tmp_path) == record
    assert os.listdir(tmp_path) == ["record.json"]


def test_record_is_replaced_whole(tmp_path: Path) -> None:
    SandboxRecord("box1", "layer1", info={"pad": "x" * 10_000}).write(tmp_path)
    SandboxRecord("box1", "layer2").write(tmp_path)
    found = SandboxRecord.read(tmp_path)
    assert found is not None
    assert found.layer == "layer2"


@pytest.mark.parametrize(
    "content",
    ["", "{", "[]", "7", "null", '"x"', "{}", json.dumps({"sandbox_id": "a", "layer": "b"}),
     json.dumps({"sandbox_id": "a", "layer": "b", "cgroups": [], "surprise": 1}),
     json.dumps({"sandbox_id": "a", "layer": "b", "cgroups": 7})],
)  # fmt: skip
def test_record_that_makes_no_sense_is_none(tmp_path: Path, content: str) -> None:
    (tmp_path / "record.json").write_text(content)
    assert SandboxRecord.read(tmp_path) is None


def test_missing_record_is_none(tmp_path: Path) -> None:
    assert SandboxRecord.read(tmp_path / "none") is None


def test_record_of_bytes_that_are_no_text_is_none(tmp_path: Path) -> None:
    (tmp_path / "record.json").write_bytes(b"\xff\xfe\x00")
    assert SandboxRecord.read(tmp_path) is None


# ---- names and removal ---------------------------------------------------------------------------


def test_ids_are_all_different_and_safe_as_a_host_name() -> None:
    ids = {new_id() for _ in range(2000)}
    assert len(ids) == 2000
    assert all(len(i) == 12 and i.isalnum() and i.islower() and i.isascii() for i in ids if i)


def test_tree_is_removed_with_its_closed_parts_and_nothing_beyond_its_links(
    tmp_path: Path,
) -> None:
    (tmp_path / "kept").mkdir()
    (tmp_path / "kept" / "f").touch()
    tree = tmp_path / "tree"
    (tree / "closed" / "deeper").mkdir(parents=True)
    (tree / "closed" / "deeper" / "f").touch()
    (tree / "link").symlink_to(tmp_path / "kept")
    (tree / "closed" / "deeper").chmod(0o500)
    (tree / "closed").chmod(0)
    remove_tree(tree)
    assert os.listdir(tmp_path) == ["kept"]
    assert (tmp_path / "kept" / "f").exists()


def test_link_in_the_place_of_a_tree_is_removed_and_not_followed(tmp_path: Path) -> None:
    (tmp_path / "kept").mkdir()
    (tmp_path / "tree").symlink_to(tmp_path / "kept")
    remove_tree(tmp_path / "tree")
    assert os.listdir(tmp_path) == ["kept"]
