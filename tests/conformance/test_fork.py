"""Forks: the files of the moment, and nothing in common afterwards."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from conformance.conftest import MakeBox
from conformance.inside import python, tree
from conformance.waiting import Calls, eventually
from paddock import InvalidInput, Sandbox


@pytest.fixture
def parent(make_box: MakeBox) -> Iterator[Sandbox]:
    """A sandbox with some files of every kind."""
    box = make_box(envs={"KEPT": "yes"}, limits={"memory": "300MiB"}, metadata={"run": "1"})
    box.commands.run(
        "mkdir -p d/sub; echo one > d/one; ln -s one d/link; ln d/one d/hard; chmod 700 d/one;"
        " truncate -s 10M d/holes; echo tmp > /tmp/t; touch -d 2020-01-01 d/old; mkfifo d/pipe"
    )
    yield box


def _fork(box: Sandbox) -> Sandbox:
    child = box.fork()
    assert isinstance(child, Sandbox)
    return child


def test_fork_has_the_same_files(parent: Sandbox) -> None:
    with _fork(parent) as child:
        assert tree(child) == tree(parent)
        assert child.files.read("/tmp/t") == "tmp\n"


def test_hard_links_stay_links_in_a_fork(parent: Sandbox) -> None:
    with _fork(parent) as child:
        child.commands.run("echo two >> d/one")
        assert child.files.read("d/hard") == "one\ntwo\n"
        assert parent.files.read("d/one") == "one\n"


def test_changes_go_neither_way(parent: Sandbox) -> None:
    with _fork(parent) as child:
        parent.commands.run("echo parent > d/one; rm d/link; echo p > p-only")
        child.commands.run("echo child > d/old; rm d/hard; echo c > c-only; echo c > /tmp/t")
        assert child.files.read("d/one") == "one\n"
        assert child.files.exists("d/link") and not child.files.exists("p-only")
        assert parent.files.read("d/old") == "" and parent.files.read("/tmp/t") == "tmp\n"
        assert parent.files.exists("d/hard") and not parent.files.exists("c-only")


def test_fork_outlives_its_parent(parent: Sandbox) -> None:
    with _fork(parent) as child:
        parent.kill()
        assert child.files.read("d/one") == "one\n"
        child.files.write("d/more", "x")


def test_parent_outlives_its_fork(parent: Sandbox) -> None:
    _fork(parent).kill()
    assert parent.files.read("d/one") == "one\n"


def test_three_generations_each_keep_their_own(parent: Sandbox) -> None:
    with _fork(parent) as child:
        child.files.write("generation", "2")
        with _fork(child) as grandchild:
            grandchild.files.write("generation", "3")
            child.files.write("later", "x")
            assert child.files.read("generation") == "2"
            assert grandchild.files.read("d/one") == "one\n"
            assert not grandchild.files.exists("later")
            assert not parent.files.exists("generation")
            assert grandchild.get_info().parent_id == child.sandbox_id
            assert child.get_info().parent_id == parent.sandbox_id
            child.kill()
            assert grandchild.files.read("generation") == "3"


def test_five_forks_at_once_are_independent(parent: Sandbox) -> None:
    children = parent.fork(count=5)
    assert isinstance(children, list) and len(children) == 5
    try:
        for number, child in enumerate(children):
            child.files.write("d/one", str(number))
        assert [c.files.read("d/one") for c in children] == ["0", "1", "2", "3", "4"]
        assert parent.files.read("d/one") == "one\n"
        assert len({c.sandbox_id for c in children}) == 5
    finally:
        for child in children:
            child.kill()


def test_limits_envs_and_metadata_come_along(parent: Sandbox) -> None:
    with _fork(parent) as child:
        assert child.commands.run("echo $KEPT").stdout == "yes\n"
        info = child.get_info()
        assert info.limits == parent.get_info().limits
        assert info.metadata == {"run": "1"}


def test_identities_and_random_numbers_are_fresh(parent: Sandbox) -> None:
    program = (
        "import os, random, secrets, socket, uuid\n"
        "print(os.urandom(16).hex(), random.random(), secrets.token_hex(8), uuid.uuid4(),"
        " socket.gethostname())"
    )
    parent.run_code("import random; random.random()")
    children = parent.fork(count=3)
    try:
        boxes = [parent, *children]
        for words in zip(*(python(box, program).split() for box in boxes), strict=True):
            assert len(set(words)) == 4, words
        drawn = {box.run_code("import random; random.random()").text for box in boxes}
        assert len(drawn) == 4
        assert len({box.commands.run("hostname").stdout for box in boxes}) == 4
        assert all(b.commands.run("hostname").stdout.strip() == b.sandbox_id for b in boxes)
    finally:
        for child in children:
            child.kill()


def test_machine_id_if_there_is_one_differs(parent: Sandbox) -> None:
    read = "cat /etc/machine-id /var/lib/dbus/machine-id 2>/dev/null || true"
    with _fork(parent) as child:
        own = parent.commands.run(read).stdout
        assert own == "" or own != child.commands.run(read).stdout


def test_processes_stay_behind_and_go_on(parent: Sandbox) -> None:
    handle = parent.commands.run("read x; echo $x", background=True, stdin=True)
    with _fork(parent) as child:
        assert child.commands.list() == []
        handle.send_stdin("parent goes on\n")
        assert handle.wait().stdout == "parent goes on\n"


def test_fork_of_a_paused_sandbox_runs_and_the_parent_stays_paused(parent: Sandbox) -> None:
    parent.pause()
    with _fork(parent) as child:
        assert child.files.read("d/one") == "one\n"
        assert parent.get_info().state == "paused"
    parent.resume()


def test_fork_while_files_are_written_is_whole(parent: Sandbox) -> None:
    handle = parent.commands.run(
        "i=0; while :; do i=$((i+1)); echo $i > n.new && mv n.new n; done", background=True
    )
    try:
        for _ in range(3):
            with _fork(parent) as child:
                assert not child.files.exists("n") or int(child.files.read("n")) > 0
    finally:
        handle.kill()


def test_fork_takes_overlay_mounts_with_what_was_written_there(
    make_box: MakeBox, shared_directory: Path
) -> None:
    (shared_directory / "base").write_text("base")
    (shared_directory / "gone").write_text("gone")
    mount = {"source": str(shared_directory), "target": "/project", "mode": "overlay"}
    box = make_box(mounts=[mount])
    box.commands.run("echo new > /project/new; rm /project/gone; echo changed > /project/base")
    with _fork(box) as child:
        assert child.commands.run("ls /project; cat /project/base").stdout == "base\nnew\nchanged\n"
        child.commands.run("echo child > /project/new")
        assert box.files.read("/project/new") == "new\n"
    assert sorted(p.name for p in shared_directory.iterdir()) == ["base", "gone"]


def test_forks_from_threads_at_once(parent: Sandbox) -> None:
    def fork_and_look() -> str:
        with _fork(parent) as child:
            return str(child.files.read("d/one"))

    assert Calls([fork_and_look] * 6).results(60) == ["one\n"] * 6


def test_forks_at_once_are_each_of_one_moment(parent: Sandbox) -> None:
    """A fork that ends must not wake the sandbox while another copies its files."""
    parent.commands.run(
        "mkdir pairs; cd pairs; while :; do n=$((n+1)); echo $n >> first; echo $n >> second; done",
        background=True,
    )
    eventually(lambda: parent.files.exists("pairs/second"))

    def difference() -> int:
        with _fork(parent) as child:
            first, second = child.commands.run("tail -qn1 pairs/first pairs/second").stdout.split()
        return int(first) - int(second)

    assert set(Calls([difference] * 24).results(60)) <= {0, 1}
    assert parent.get_info().state == "running"


@pytest.mark.parametrize("count", [0, -1, "2", 1.5])
def test_count_must_be_a_whole_number_from_one(parent: Sandbox, count: object) -> None:
    with pytest.raises(InvalidInput, match="fork"):
        parent.fork(count)  # type: ignore[call-overload]
