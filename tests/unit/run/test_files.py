"""The files of real sandboxes: recorded, put back so that those inside see it, found again."""

from __future__ import annotations

import os
import stat
from pathlib import Path

import pytest

from paddock import Sandbox
from paddock.model.errors import Conflict, HostCannot, NotFound
from paddock.model.events import FilesNotRecorded, FilesRecorded
from paddock.run.files import (
    recorder_of,
    restore_into,
    roots_of,
    store_of,
    tree_at,
    trees_of,
)
from paddock.state.home import Home
from paddock.state.trees.restore import Restored
from unit.cli.recorded_files import TARGET, Living, create, living, make_project, make_recorded

WORK = (
    f"cd {TARGET}; echo hi > sub/new; rm gone.txt; echo bb > sub/b.txt; mkdir n; echo 1 > n/x;"
    "rm -r sub; mkdir sub; echo z > sub/z; chmod 700 sub; ln -s a.txt l;"
    "echo h > /home/user/h; mkfifo /home/user/p; mkdir -p /home/user/d/e; echo t > /tmp/t"
)
LOOK = f"cd {TARGET}; find . /home/user -printf '%y %m %s %p %l\\n' | sort; cat $(find . -type f)"


def restore(live: Living, tree: str) -> Restored:
    """As in a run: some program is there all the time."""

    async def still() -> Restored:
        async with live.box.still():
            return restore_into(live.box, tree, live.recorder)

    agent = live.sandbox.commands.run(["sleep", "60"], background=True)
    try:
        return live.box.engine.call(still())
    finally:
        agent.kill()


@pytest.fixture
def project(tmp_path: Path) -> Path:
    return make_project(tmp_path / "project")


def test_agent_sees_exactly_what_it_had(project: Path) -> None:
    with create(project) as sandbox:
        live = living(sandbox)
        first, seen_first = live.recorder.record(), live.sh(LOOK)
        live.sh(WORK)
        second, seen_second = live.recorder.record(), live.sh(LOOK)
        assert seen_first != seen_second
        for _ in range(2):
            restore(live, first.tree)
            assert live.recorder.record().tree == first.tree
            assert live.sh(LOOK) == seen_first
            restore(live, second.tree)
            assert live.sh(LOOK) == seen_second
        live.sh(f"cd {TARGET}; echo more >> sub/z; rm n/x; touch new")
        assert live.sh(f"cat {TARGET}/sub/z") == "z\nmore\n"
    assert (project / "gone.txt").read_text() == "gone\n"


def test_state_of_one_sandbox_goes_into_another(project: Path) -> None:
    with create(project) as one, create(project) as other:
        source, target = living(one), living(other)
        source.sh(WORK)
        tree, seen = source.recorder.record().tree, source.sh(LOOK)
        target.sh(f"ls -R {TARGET}; cat {TARGET}/sub/none || true; echo own > {TARGET}/own")
        restore(target, tree)
        assert target.sh(LOOK) == seen
        target.sh(f"echo only here > {TARGET}/sub/z")
        assert source.recorder.record().tree == tree


def test_file_that_is_open_stays_and_is_named(project: Path) -> None:
    with create(project) as sandbox:
        live = living(sandbox)
        live.sh(f"echo first > {TARGET}/f")
        tree = live.recorder.record().tree
        live.sh(f"echo second, and longer > {TARGET}/f")
        live.sh("mkfifo /tmp/up")
        script = f"exec 3<> {TARGET}/f; echo > /tmp/up; while [ ! -e /tmp/go ]; do sleep 0.05; done"
        holder = sandbox.commands.run(f"{script}; cat <&3; echo third >&3", background=True)
        live.sh("cat /tmp/up")
        restored = restore(live, tree)
        assert (restored.changed, restored.kept) == ((), (f"{TARGET}/f",))
        live.sh("touch /tmp/go")
        assert holder.wait().stdout == "second, and longer\n"
        assert live.sh(f"cat {TARGET}/f") == "second, and longer\nthird\n"
        assert restore(live, tree).changed == (f"{TARGET}/f",)


def test_only_what_the_agent_wrote_is_recorded(project: Path) -> None:
    with create(project) as sandbox:
        live = living(sandbox)
        assert set(roots_of(live.box)) == {"/home/user", TARGET}
        live.sh(f"echo t > /tmp/t; echo n > {TARGET}/n")
        paths = {path for path, _ in store_of(Home.find()).entries(live.recorder.record().tree)}
        assert paths == {"/home/user", TARGET, f"{TARGET}/n"}


def test_sandbox_that_runs_is_not_restored(project: Path) -> None:
    with create(project) as sandbox:
        live = living(sandbox)
        tree = live.recorder.record().tree
        with pytest.raises(Conflict, match="running"):
            restore_into(live.box, tree)


def test_mount_points_in_the_workspace_stay(project: Path) -> None:
    mount = {"source": str(project), "target": "/home/user/in/side", "mode": "overlay"}
    with create(project) as bare, Sandbox.create(mounts=[mount]) as sandbox:
        live = living(sandbox)
        empty = recorder_of(living(bare).box)
        tree = live.recorder.record().tree
        live.sh("echo x > /home/user/in/side/x; echo y > /home/user/y")
        restore(live, tree)
        assert live.sh("cat /home/user/in/side/a.txt; ls /home/user").startswith("one")
        assert empty.record().tree != tree


def test_store_is_not_swept_while_a_sandbox_is_recorded(project: Path) -> None:
    store = store_of(Home.find())
    with create(project) as sandbox:
        live = living(sandbox)
        tree = live.recorder.record().tree
        with pytest.raises(Conflict):
            store.gc([])
    store.verify(tree)


def test_trees_of_a_journal_are_found_by_step(project: Path) -> None:
    directory = make_recorded(project, f"cd {TARGET}; rm gone.txt")
    found = trees_of(directory)
    assert [step for step, _ in found] == [1, 2, None]
    assert len({tree for _, tree in found}) == 3
    assert tree_at(directory, 1) == found[0][1]
    assert tree_at(directory, 2) == found[1][1]
    with pytest.raises(NotFound, match="has no step 99"):
        tree_at(directory, 99)
    assert tree_at(directory) == found[2][1]
    with pytest.raises(NotFound):
        tree_at(directory, 0)


def test_state_that_was_not_recorded_is_not_an_earlier_one(project: Path) -> None:
    with create(project) as sandbox:
        live = living(sandbox)
        live.sh("true")
        gate = live.box.actions.gate
        gate.record(FilesRecorded("a" * 64, 0), 1)
        gate.record(FilesNotRecorded("no room"), 2)
        gate.record(FilesNotRecorded("no room"))
        assert tree_at(live.directory, 1) == "a" * 64
        with pytest.raises(NotFound, match="at step 2 were not recorded: no room"):
            tree_at(live.directory, 2)
        with pytest.raises(NotFound, match="at the end of this run were not recorded"):
            tree_at(live.directory)


def test_run_without_recorded_files_says_so(project: Path) -> None:
    with create(project) as sandbox:
        live = living(sandbox)
        live.sh("true")
        with pytest.raises(NotFound, match="no files were recorded"):
            tree_at(live.directory)


def test_restored_files_belong_to_the_agent(project: Path) -> None:
    with create(project) as sandbox:
        live = living(sandbox)
        live.sh(WORK)
        tree = live.recorder.record().tree
        live.sh(f"cd {TARGET}; rm -r n sub l; rm -r /home/user/d")
        restore(live, tree)
        owners = live.sh(f"cd {TARGET}; stat -c %U n n/x sub sub/z l /home/user/d /home/user/d/e")
        assert set(owners.split()) == {"user"}
        layer = roots_of(live.box)[TARGET]
        assert stat.S_ISCHR(os.lstat(layer / "gone.txt").st_mode)


def test_fresh_sandbox_sees_what_was_put_into_it(project: Path) -> None:
    with create(project) as one:
        source = living(one)
        source.sh(WORK)
        tree, seen = source.recorder.record().tree, source.sh(LOOK)
    with create(project) as other:
        target = living(other)

        async def fill() -> None:
            async with target.box.still():
                restore_into(target.box, tree, is_fresh=True)

        target.box.engine.call(fill())
        assert target.sh(LOOK) == seen


def test_link_that_the_agent_put_on_the_way_to_a_mount_leads_nowhere(project: Path) -> None:
    """The refresh of an overlay goes by its path inside, which the agent can rename."""
    mount = {"source": str(project), "target": "/home/user/way/in", "mode": "overlay"}
    with Sandbox.create(mounts=[mount]) as sandbox:
        live = living(sandbox)
        tree = live.recorder.record().tree
        live.sh("cd /home/user; mv way aside; ln -s /etc way; echo x > aside/in/x")
        with pytest.raises((HostCannot, Conflict)):
            restore(live, tree)
