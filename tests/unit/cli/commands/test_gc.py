"""`paddock df` and `paddock gc`: what counts as unused, what stays, and what is said. What goes on
beside running sandboxes is in tests/conformance."""

from __future__ import annotations

import fcntl
import os
import time
from pathlib import Path

from paddock.run.files import store_of
from paddock.run.garbage import CACHE_S, YOUNG_S
from paddock.state.home import Home, claim, mark_used
from paddock.state.snapshots.store import SnapshotStore
from paddock.state.templates.store import TemplateStore
from unit.cli.commands.test_runs_remove import with_files
from unit.cli.conftest import Call
from unit.run.compare.journeys import tool, write_run


def made(place: Path, age_s: float) -> Path:
    """A directory with a file, last changed so long ago."""
    place.mkdir(parents=True)
    (place / "file").write_text("x" * 5000)
    changed(place, age_s)
    return place


def changed(place: Path, age_s: float) -> None:
    at = time.time() - age_s
    for one in (place / "file", place):
        os.utime(one, (at, at))


def unused(call: Call) -> dict[str, int]:
    """By part, as `df` says it; the same as a dry run of `gc`."""
    parts = call("df", "--json").json["parts"]
    found = {one["part"]: one["reclaimable_bytes"] for one in parts if one["reclaimable_bytes"]}
    dry = call("gc", "--dry-run", "--json").json["parts"]
    assert {one["part"]: one["bytes"] for one in dry if one["bytes"]} == found
    return found


def test_nothing_of_an_empty_home_is_unused(home: Path, call: Call) -> None:
    assert unused(call) == {}
    assert call("gc").out == "freed 0B\n"


def test_parts_add_up_to_the_total(home: Path, call: Call) -> None:
    with_files(home, "run", "text")
    found = call("df", "--json").json
    sizes = {one["part"]: one["bytes"] for one in found["parts"]}
    assert sizes["runs"] > 0 and sizes["files"] > 0
    assert sum(sizes.values()) == found["total_bytes"]
    assert [one["count"] for one in found["parts"] if one["part"] == "runs"] == [1]
    lines = call("df").out.splitlines()
    assert lines[0].split() == ["PART", "SIZE", "COUNT", "UNUSED", "WHAT"]
    assert lines[-1].startswith("total") and lines[-1].endswith(str(home))


def test_files_that_no_run_names_go_and_those_of_runs_stay(home: Path, call: Call) -> None:
    tree = with_files(home, "left", "text")
    store = store_of(Home(home))
    digest, _ = store.objects.put(b"of nobody")
    assert unused(call) == {}  # it is young: a run that is being closed may name it yet
    old = time.time() - 2 * YOUNG_S
    os.utime(store.objects.path(digest), (old, old))
    assert set(unused(call)) == {"files"}
    assert call("gc").out.splitlines() == ["files: 10B", "freed 10B"]
    assert not Path(store.objects.path(digest)).exists()
    assert store.verify(tree) == 3


def test_damaged_journal_keeps_all_files_and_the_rest_is_cleaned(home: Path, call: Call) -> None:
    tree = with_files(home, "whole", "a")
    damaged = write_run(home, "damaged", [tool("x")]) / "000001.jsonl"
    damaged.write_bytes(b"not a record\n" + damaged.read_bytes())
    world = made(home / "worlds" / "nobody", 2 * YOUNG_S)
    said = call("gc")
    assert said.code == 0
    assert "files: nothing was removed" in said.err and "the run damaged needs" in said.err
    assert not world.exists()
    assert store_of(Home(home)).verify(tree) == 3


def test_run_whose_files_are_lost_is_named(home: Path, call: Call) -> None:
    """As a host that lost its power may leave it: objects are not synced."""
    tree = with_files(home, "torn", "a")
    Path(store_of(Home(home)).objects.path(tree)).write_bytes(b"")
    assert "paddock runs remove torn" in call("gc").err
    assert call("runs", "remove", "torn", "--yes").code == 0
    assert call("gc").err == ""


def test_worlds_of_no_run_and_no_sandbox_go_unless_young(home: Path, call: Call) -> None:
    Home(home).make()
    write_run(home, "run", [tool("x")])
    os.close(claim(Home(home), "sandbox"))
    names = ("nobody", "run", "sandbox")
    gone, *kept = [made(home / "worlds" / name, 2 * YOUNG_S) for name in names]
    kept.append(made(home / "worlds" / "young", YOUNG_S / 2))
    assert unused(call)["worlds"] > 5000
    call("gc")
    assert not gone.exists()
    assert all(world.exists() for world in kept)


def test_blobs_of_no_snapshot_go(home: Path, call: Call) -> None:
    source = made(home.parent / "source", 0)
    store = SnapshotStore(home / "snapshots")
    lost, kept = store.save(source, meta={"number": 1}), store.save(source, meta={"number": 2})
    store.delete(lost)
    (home / "snapshots" / "blobs" / "00").mkdir(exist_ok=True)
    (home / "snapshots" / "blobs" / "00" / ("0" * 64)).write_text("of nobody")
    assert unused(call) == {"snapshots": 9}
    call("gc")
    store.verify(kept)
    assert unused(call) == {}


def test_half_unpacked_templates_go_unless_one_is_being_added(home: Path, call: Call) -> None:
    TemplateStore(home / "templates").sweep()
    left = made(home / "templates" / ".new-crashed", 0)
    with open(home / "templates" / ".lock") as lock:
        fcntl.flock(lock, fcntl.LOCK_SH)
        assert call("gc", "--json").json["bytes"] == 0
        assert left.exists()
    assert call("gc", "--json").json["bytes"] > 5000
    assert not left.exists()


def test_caches_that_nobody_used_for_long_go(home: Path, call: Call) -> None:
    long, short = CACHE_S + 2 * YOUNG_S, CACHE_S / 2
    cache = home / "cache"
    gone = [made(cache / name, long) for name in ("etc-1", "inside-1", "python-1", "removed-1")]
    gone += [made(cache / "sites" / "kernel-site-1", long), made(cache / "removed-2", 0)]
    gone += [made(cache / ".new-1", 2 * YOUNG_S), made(cache / "changes" / "1", 2 * YOUNG_S)]
    kept = [made(cache / name, short) for name in ("etc-2", "of somebody else")]
    kept += [made(cache / "of somebody else, old", long), made(cache / ".new-2", 0)]
    kept.append(made(cache / "etc-3", long))
    mark_used(kept[-1])
    assert unused(call)["caches"] > 5000 * len(gone)
    call("gc")
    assert [place for place in gone if place.exists()] == []
    assert [place for place in kept if not place.exists()] == []


def test_cache_that_a_running_sandbox_may_have_mounted_stays(home: Path, call: Call) -> None:
    Home(home).make()
    used = made(home / "cache" / "etc-1", CACHE_S + 2 * YOUNG_S)
    lease = claim(Home(home), "sandbox")
    begun = used.stat().st_mtime + 60  # the sandbox was begun with it, and has run since
    os.utime(home / "sandboxes" / "sandbox" / "lease", (begun, begun))
    call("gc")
    assert used.exists()
    os.close(lease)
    call("gc")
    assert not used.exists()
