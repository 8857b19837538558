"""Watching directories: events come to a callback or wait to be asked for."""

from __future__ import annotations

import pytest

from conformance.waiting import eventually
from paddock import FileError, Sandbox
from paddock.model.results import WatchEvent


def test_events_of_a_directory_wait_to_be_asked_for(shared_box: Sandbox) -> None:
    shared_box.files.make_dir("w1/sub")
    handle = shared_box.files.watch_dir("w1")
    shared_box.commands.run(
        "cd w1; echo a > f; chmod 600 f; mv f g; rm g; mkdir d; echo hidden > sub/unseen"
    )
    seen: list[WatchEvent] = []
    eventually(lambda: seen.extend(handle.get_new_events()) or WatchEvent("create", "d") in seen)
    expected = [("create", "f"), ("write", "f"), ("chmod", "f"), ("rename", "f"), ("remove", "g")]
    for kind, name in expected:
        assert WatchEvent(kind, name) in seen, (kind, name, seen)
    assert not [e for e in seen if "unseen" in e.name]
    assert handle.get_new_events() == []
    handle.stop()


def test_events_go_to_a_callback_in_order(shared_box: Sandbox) -> None:
    shared_box.files.make_dir("w2")
    seen: list[WatchEvent] = []
    handle = shared_box.files.watch_dir("w2", seen.append)
    shared_box.commands.run("cd w2; for i in 1 2 3 4 5; do mkdir d$i; done")
    eventually(lambda: len(seen) >= 5)
    assert [e.name for e in seen if e.type == "create"] == ["d1", "d2", "d3", "d4", "d5"]
    handle.stop()


def test_recursive_watch_sees_old_and_new_subdirectories(shared_box: Sandbox) -> None:
    shared_box.files.make_dir("w3/old/inner")
    handle = shared_box.files.watch_dir("w3", recursive=True)
    shared_box.commands.run("echo x > w3/old/inner/f; mkdir w3/new; sleep 0.3; echo y > w3/new/g")
    seen: list[WatchEvent] = []
    eventually(
        lambda: seen.extend(handle.get_new_events()) or WatchEvent("create", "new/g") in seen
    )
    assert WatchEvent("create", "old/inner/f") in seen
    assert WatchEvent("create", "new") in seen
    handle.stop()


def test_files_in_directories_made_at_once_are_reported_once(shared_box: Sandbox) -> None:
    shared_box.files.make_dir("w4")
    handle = shared_box.files.watch_dir("w4", recursive=True)
    shared_box.commands.run(
        "for n in $(seq 200); do mkdir -p w4/$n/a/b && echo x > w4/$n/a/b/f; done; touch w4/last"
    )
    created: list[str] = []

    def has_last() -> bool:
        new = handle.get_new_events()
        created.extend(event.name for event in new if event.type == "create")
        return "last" in created

    eventually(has_last)
    handle.stop()
    files = [name for name in created if name.endswith("/f")]
    assert sorted(files) == sorted(f"{number}/a/b/f" for number in range(1, 201))


def test_stopped_watch_tells_nothing_more(shared_box: Sandbox) -> None:
    shared_box.files.make_dir("w5")
    seen: list[WatchEvent] = []
    handle = shared_box.files.watch_dir("w5", seen.append)
    handle.stop()
    shared_box.commands.run("touch w5/f; sleep 0.1")
    assert seen == []
    handle.stop()


def test_odd_names_arrive_in_events(shared_box: Sandbox) -> None:
    shared_box.files.make_dir("w6")
    handle = shared_box.files.watch_dir("w6")
    for name in ("a\nb", "ü", "caf\udce9"):
        shared_box.files.write(f"w6/{name}", "x")
    seen: set[str] = set()
    eventually(lambda: seen.update(e.name for e in handle.get_new_events()) or len(seen) == 3)
    assert seen == {"a\nb", "ü", "caf\udce9"}
    handle.stop()


def test_file_cannot_be_watched_as_a_directory(shared_box: Sandbox) -> None:
    shared_box.files.write("plain", "x")
    with pytest.raises(FileError) as caught:
        shared_box.files.watch_dir("plain")
    assert caught.value.code == "ENOTDIR"


def test_watch_of_a_directory_that_is_removed_harms_nothing(shared_box: Sandbox) -> None:
    shared_box.files.make_dir("w7")
    handle = shared_box.files.watch_dir("w7")
    shared_box.files.remove("w7")
    assert shared_box.commands.run("echo on").stdout == "on\n"
    handle.stop()


def test_flood_of_events_that_nobody_asks_for_is_bounded(shared_box: Sandbox) -> None:
    shared_box.files.make_dir("w8")
    handle = shared_box.files.watch_dir("w8")
    shared_box.commands.run("cd w8; for i in $(seq 6000); do : > f; done")
    events = handle.get_new_events()
    assert 0 < len(events) <= 10_000
    handle.stop()
