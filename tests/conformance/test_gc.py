"""`paddock gc` beside everything that goes on in a home: what nothing refers to goes, and nothing
that somebody needs."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
import tempfile
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from conformance.conftest import MakeBox
from paddock import Sandbox, Volume
from paddock.doors.machine.engine import Engine
from paddock.run.files import store_of, trees_of
from paddock.state.home import Home
from paddock.state.layers.layers import copies_lock
from repetition import times

PROGRAMS = Path(__file__).parent / "programs"
PADDOCK = [sys.executable, "-m", "paddock.cli.main"]
AGENT = """
import subprocess, sys, time
for number in range(20):
    with open(f"file-{number}", "w") as file:
        file.write(str(number))
    subprocess.run(["true"])
    time.sleep(0.02)
"""
PADDOCK_FILE = """
version: 1
agent: writer
stage: observe
rules:
  - {id: inside, match: {kind: [exec, file, code]}, decide: allow}
"""


@pytest.fixture
def home(driver: str, monkeypatch: pytest.MonkeyPatch) -> Iterator[Home]:
    """Its path is short, because sockets lie below it."""
    place = Path(tempfile.mkdtemp(prefix="pdk-"))
    monkeypatch.setenv("PADDOCK_HOME", str(place / "h"))
    yield Home.find()
    Engine.current().close()
    shutil.rmtree(place, ignore_errors=True)


def gc(*words: str) -> dict[str, Any]:
    """Collects in another process; gives its parts by name."""
    done = subprocess.run([*PADDOCK, "gc", "--json", *words], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    return {part["part"]: part for part in json.loads(done.stdout)["parts"]}


def layer_names() -> list[str]:
    engine = Engine.current()
    return engine.call(engine.driver()).layers.names()


def test_what_a_crashed_process_has_left_goes_and_is_measured_before(home: Home) -> None:
    subprocess.run([sys.executable, str(PROGRAMS / "crashed.py")], timeout=60)
    left = sorted(os.listdir(home.sandboxes))
    assert len(left) == 2
    would = gc("--dry-run")["layers"]
    assert sorted(os.listdir(home.sandboxes)) == left
    done = gc()["layers"]
    assert done == would
    # The sandbox, its fork, the copy of the snapshot and, as root, that of the fork.
    assert done["count"] >= 3 and done["bytes"] >= 8 << 20
    assert os.listdir(home.sandboxes) == layer_names() == []
    assert gc()["layers"]["count"] == 0


def test_layers_that_lost_their_sandbox_or_volume_go(home: Home) -> None:
    Volume.create("kept")
    Volume.create("lost")
    engine = Engine.current()
    layers = engine.call(engine.driver()).layers
    layers.create("lostlostlost", 1 << 20, (os.geteuid(), os.getegid()))
    (home.volumes / "lost.json").unlink()
    assert gc()["layers"]["count"] == 2
    assert layer_names() == ["volume-kept"]


def test_copy_of_a_fork_under_way_stays_until_nobody_makes_any(home: Home) -> None:
    """However long it takes, and whoever starts meanwhile: a start sweeps as well."""
    engine = Engine.current()
    layers = engine.call(engine.driver()).layers
    with copies_lock(home).shared():
        layers.create("base-1-x", 1 << 20, (os.geteuid(), os.getegid()))
        assert gc()["layers"]["count"] == 0
        assert layer_names() == ["base-1-x"]
    assert gc()["layers"]["count"] == 1
    assert layer_names() == []


@pytest.mark.repeated
def test_forks_and_snapshots_beside_a_collection_are_whole(home: Home, make_box: MakeBox) -> None:
    box = make_box()
    box.files.write("kept", "bytes of the first one")
    volume = Volume.create("shared")
    with_volume = make_box(mounts=[{"volume": volume.name, "target": "/data"}])
    with_volume.files.write("/data/kept", "bytes of the volume")
    is_over = threading.Event()
    collected: list[dict[str, Any]] = []

    def collect() -> None:
        while not is_over.is_set():
            collected.append(gc())

    thread = threading.Thread(target=collect)
    thread.start()
    try:
        while len(collected) < times(3, 12):
            with box.fork() as fork, Sandbox.create(snapshot=box.snapshot()) as restored:
                for one in (fork, restored):
                    assert one.files.read("kept") == "bytes of the first one"
                fork.files.write("new", "x")
                assert [change.path for change in fork.changes()] == ["/home/user/new"]
    finally:
        is_over.set()
        thread.join()
    assert with_volume.files.read("/data/kept") == "bytes of the volume"
    assert {part["remark"] for found in collected for part in found.values()} == {None}


def test_files_of_a_run_that_is_recorded_meanwhile_are_all_there(
    home: Home, tmp_path: Path
) -> None:
    (tmp_path / "agent.py").write_text(AGENT)
    (tmp_path / "paddock.yaml").write_text(PADDOCK_FILE)
    before = _old_object(home)
    command = [*PADDOCK, "run", "--", sys.executable, "agent.py"]
    with subprocess.Popen(command, cwd=tmp_path, stdout=-3, stderr=-3) as run:
        remarks = []
        while run.poll() is None:
            remarks.append(gc()["files"]["remark"])
        assert run.returncode == 0
    assert any(remark is not None and "in use" in remark for remark in remarks)
    (directory,) = home.runs.iterdir()
    trees = [tree for _, tree in trees_of(directory)]
    assert trees
    found = gc()["files"]
    assert found["remark"] is None
    assert not before.exists()
    for tree in trees:
        store_of(home).verify(tree)


def _old_object(home: Home) -> Path:
    """An object of two hours ago that no run names."""
    store = store_of(home)
    digest, _ = store.objects.put(b"of nobody")
    path = Path(store.objects.path(digest))
    os.utime(path, (path.stat().st_mtime - 7200,) * 2)
    return path
